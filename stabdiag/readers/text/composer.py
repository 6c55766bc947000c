"""Composer: a line ``[batch=10/1000]:`` and the values below it, one a line.

A training that lasts for epochs counts its batches anew in each: ``[epoch=2][batch=10/50]:``.
"""

from __future__ import annotations

import re

from stabdiag.readers.text.grammar import NUMBER, Grammar, Line
from stabdiag.readers.text.log import functions_of

GRAMMAR = Grammar(
    name="composer",
    step="step",
    kinds=(
        Line(
            pattern=re.compile(
                rb"\[(?:epoch=(\d{1,9})(?:/\d{1,9})?\]\[)?batch=(\d{1,12})(?:/\d{1,12})?\]:?"
            ),
            names=("epoch", "step"),
            begins=True,
            tells=False,
        ),
        Line(pattern=re.compile(rb"\t Train ([^\n:]{1,300}): (%b)(?=\s)" % NUMBER), one_pair=True),
        Line(pattern=re.compile(rb"\t (Eval [^\n:]{1,300}): (%b)(?=\s)" % NUMBER), one_pair=True),
    ),
    joined=True,
)

recognises, read, growing = functions_of(GRAMMAR)
