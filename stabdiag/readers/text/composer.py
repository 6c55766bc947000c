"""Composer: a line ``[batch=10/1000]:`` and the values below it, one a line."""

from __future__ import annotations

import re

from stabdiag.readers.text.grammar import NUMBER, Grammar, Line
from stabdiag.readers.text.log import functions_of, growing_by

GRAMMAR = Grammar(
    name="composer",
    step="step",
    kinds=(
        # [epoch=1][batch=10/1000]: or [batch=10/1000]:
        Line(
            pattern=re.compile(rb"\[batch=(\d{1,12})(?:/\d{1,12})?\]:?"),
            names=("step",),
            begins=True,
            tells=False,
        ),
        Line(pattern=re.compile(rb"\t Train ([^\n:]{1,300}): (%b)(?=\s)" % NUMBER), one_pair=True),
        Line(pattern=re.compile(rb"\t (Eval [^\n:]{1,300}): (%b)(?=\s)" % NUMBER), one_pair=True),
    ),
    joined=True,
)

recognises, read = functions_of(GRAMMAR)
growing = growing_by(GRAMMAR)
