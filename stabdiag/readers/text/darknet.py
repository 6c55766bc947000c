"""Darknet: ``1: 1123.449341, 1123.449341 avg, 0.000000 rate, 0.190143 seconds, 1 images``.

The ``-nan`` of its Region lines says that no object was there at that scale: they are not read.
"""

from __future__ import annotations

import re

from stabdiag.readers.text.grammar import NUMBER, Grammar, Line
from stabdiag.readers.text.log import functions_of

GRAMMAR = Grammar(
    name="darknet",
    step="iteration",
    kinds=(
        Line(
            pattern=re.compile(
                rb"\n {0,2}(\d{1,12})(?:, \d{1,9}\.\d{1,6})?: (%b), (%b) avg(?: loss)?, "
                rb"(%b) rate, (%b) seconds" % (NUMBER, NUMBER, NUMBER, NUMBER)
            ),
            names=("iteration", "loss", "avg", "learning_rate", "seconds"),
        ),
    ),
    config=re.compile(rb"(Learning Rate|Momentum|Decay): (%b)" % NUMBER),
)

recognises, read, growing = functions_of(GRAMMAR)
