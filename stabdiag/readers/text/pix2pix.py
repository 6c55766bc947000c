"""pix2pix and CycleGAN: ``(epoch: 1, iters: 100, time: 0.092, data: 0.154) D_A: 0.508 G_A: …``.

Each name after the parentheses is that of a loss.
"""

from __future__ import annotations

import re

from stabdiag.readers.text.grammar import NUMBER, Grammar, Line
from stabdiag.readers.text.log import functions_of

_BEFORE = ("epoch", "iter", "time", "data")

GRAMMAR = Grammar(
    name="pix2pix",
    step="iter",
    kinds=(
        Line(
            pattern=re.compile(
                rb"\(epoch: (\d{1,9}), iters: (\d{1,12}), time: (%b)(?:, data: (%b))?\) "
                rb"([^\n]{1,4000})" % (NUMBER, NUMBER)
            ),
            names=_BEFORE,
            pairs=re.compile(rb"([A-Za-z]\w{0,60}): (%b)(?=[\s,]|$)" % NUMBER),
            named=lambda name: f"loss_{name}",
        ),
    ),
)

recognises, read, growing = functions_of(GRAMMAR)
