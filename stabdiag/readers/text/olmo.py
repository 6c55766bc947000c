"""OLMo-core: a line ``[step=10/1000,epoch=1,eta=…]`` and the metrics below it, one a line."""

from __future__ import annotations

import re

from stabdiag.readers.text.grammar import NUMBER, Grammar, Line
from stabdiag.readers.text.log import functions_of

GRAMMAR = Grammar(
    name="olmo-core",
    step="step",
    kinds=(
        Line(
            pattern=re.compile(rb"\[step=(\d{1,12})/(?:\d{1,12}|\?\?\?)(?:,epoch=\d{1,9})?[,\]]"),
            names=("step",),
            begins=True,
        ),
        Line(
            pattern=re.compile(
                rb"    ((?:train|optim|throughput|system|gpu_memory|checkpoint|eval|batch)"
                rb"[^\n=]{1,200})=(\d{1,3}(?:,\d{3}){1,6}|%b)(?=\s)" % NUMBER
            ),
            one_pair=True,
            tells=False,
        ),
    ),
    joined=True,
)

recognises, read, growing = functions_of(GRAMMAR)
