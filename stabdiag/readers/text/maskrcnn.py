"""maskrcnn-benchmark and detectron2: ``eta: 0:45:00  iter: 50  loss: 1.5025 (2.2399)  lr: …``.

Of two numbers, the first is taken, a median of the last twenty; the second is the mean of all.
"""

from __future__ import annotations

import re

from stabdiag.readers.text.alarms import detectron2
from stabdiag.readers.text.grammar import NUMBER, Grammar, Line
from stabdiag.readers.text.log import functions_of

GRAMMAR = Grammar(
    name="maskrcnn",
    step="iter",
    kinds=(
        Line(
            pattern=re.compile(rb"eta: [^\n]{1,40}?  iter: (\d{1,12})  ([^\n]{1,4000})"),
            names=("iter",),
            pairs=re.compile(rb"([a-zA-Z]\w{0,60}): (%b)(?=[\s(]|$)" % NUMBER),
        ),
        detectron2("total_loss", "iter"),
    ),
)

recognises, read, growing = functions_of(GRAMMAR)
