"""torchtitan: ``… - INFO - step: 10  loss:  8.12345  grad_norm:  1.2345  memory: …``."""

from __future__ import annotations

import re

from stabdiag.readers.text.grammar import NUMBER, Grammar, Line
from stabdiag.readers.text.log import functions_of

# tps: 7,012
_FIELDS = re.compile(
    rb"([a-zA-Z]\w{0,60}): {1,12}(\d{1,3}(?:,\d{3}){1,6}(?:\.\d{1,9})?|%b)(?=\s|GiB|%%)" % NUMBER
)

GRAMMAR = Grammar(
    name="torchtitan",
    step="step",
    kinds=(
        Line(
            pattern=re.compile(rb" - step: {1,12}(\d{1,12})  (loss: {1,12}[^\n]{1,2000})"),
            names=("step",),
            pairs=_FIELDS,
        ),
        Line(
            pattern=re.compile(rb" - validate step: {1,12}(\d{1,12})  (loss: {1,12}[^\n]{1,2000})"),
            names=("step",),
            pairs=_FIELDS,
            named=lambda name: f"validation {name}",
        ),
    ),
)

recognises, read, growing = functions_of(GRAMMAR)
