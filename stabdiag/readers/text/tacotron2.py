"""NVIDIA's Tacotron 2 and what was made of it: ``Train loss 100 0.52 Grad Norm 0.8 1.2s/it``.

The number after the words is the iteration. Its losses of validation name theirs in the same way.
"""

from __future__ import annotations

import re

from stabdiag.readers.text.alarms import OVERFLOWS
from stabdiag.readers.text.grammar import NUMBER, Grammar, Line
from stabdiag.readers.text.log import functions_of

GRAMMAR = Grammar(
    name="tacotron2",
    step="iteration",
    kinds=(
        Line(
            pattern=re.compile(
                rb"Train loss (\d{1,12}) (%b) Grad Norm (%b) (%b)s/it" % (NUMBER, NUMBER, NUMBER)
            ),
            names=("iteration", "train loss", "grad norm", "seconds_per_step"),
        ),
        # Validation loss 1000:  0.312500
        Line(
            pattern=re.compile(rb"Validation loss (\d{1,12}): {1,8}(%b)(?!\S)" % NUMBER),
            names=("iteration", "validation loss"),
        ),
        *OVERFLOWS,
    ),
    joined=True,
)

recognises, read, growing = functions_of(GRAMMAR)
