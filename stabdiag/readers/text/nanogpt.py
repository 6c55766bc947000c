"""nanoGPT: ``iter 100: loss 3.2100, time 120.50ms, mfu 30.10%`` and its evaluations."""

from __future__ import annotations

import re

from stabdiag.readers.text.grammar import NUMBER, VALUE, Grammar, Line
from stabdiag.readers.text.log import functions_of

GRAMMAR = Grammar(
    name="nanogpt",
    step="iter",
    kinds=(
        Line(
            pattern=re.compile(
                rb"iter (\d{1,12}): loss (%b), time (%b)ms(?:, mfu (%b)%%)?"
                % (NUMBER, NUMBER, NUMBER)
            ),
            names=("iter", "loss", "time", "mfu_percent"),
        ),
        Line(
            pattern=re.compile(
                rb"step (\d{1,12}): train loss (%b), val loss (%b)" % (NUMBER, VALUE)
            ),
            names=("iter", "train loss", "val loss"),
        ),
    ),
    config=re.compile(rb"\nOverriding: (\w{1,80}) = ([^\n]{1,200})"),
)

recognises, read, growing = functions_of(GRAMMAR)
