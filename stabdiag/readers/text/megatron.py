"""Megatron-LM and Megatron-DeepSpeed: ``iteration N/ M | lm loss: … | loss scale: … |``.

Each field ends on a bar: one that was cut short by another rank's line is left out. A loss that is
NaN is not printed at all, nor is that of steps that were all skipped. Where none was skipped, and
the gradient or a count says NaN, the loss was NaN; what else the other fields say about it is
weighed where the records are put together.
"""

from __future__ import annotations

import re

from stabdiag.readers.text.deepspeed import SCALE
from stabdiag.readers.text.grammar import NUMBER, Grammar, Line
from stabdiag.readers.text.log import functions_of, growing_by

_FIELDS = re.compile(rb"([^:|\n]{1,80}): {0,20}(%b) {0,4}\|" % NUMBER)

GRAMMAR = Grammar(
    name="megatron",
    step="iteration",
    kinds=(
        Line(
            pattern=re.compile(
                rb"iteration(?<!, iteration) {1,12}(\d{1,12})/ {0,12}\d{1,12} \|([^\n]{1,4000})"
            ),
            names=("iteration",),
            pairs=_FIELDS,
        ),
        Line(
            pattern=re.compile(
                rb"iteration(?<!, iteration) {1,12}(\d{1,12})/ {0,12}\d{1,12} \|"
                rb"(?![^\n]{0,4000}loss:)(?=[^\n]{0,4000}skipped iterations: {1,12}0 \|)"
                rb"(?=[^\n]{0,4000}(?:grad norm: {1,12}-?nan|nan iterations: {1,12}[1-9]))"
            ),
            names=("iteration",),
            fixed={"lm loss": b"nan"},
        ),
        #  validation loss at iteration 1000 | lm loss value: 2.1E+00 | lm loss PPL: 8.166170E+00 |
        Line(
            pattern=re.compile(
                rb"validation loss at (?:iteration (\d{1,12})|the end of training)"
                rb"(?: (?:on|for) val[^|\n]{0,80})? \|([^\n]{1,4000})"
            ),
            names=("iteration",),
            pairs=_FIELDS,
        ),
        *SCALE,
    ),
    joined=True,
    config=re.compile(rb"\W(\w{1,80}) \.{3,80} ([^\n]{1,200})"),
)

recognises, read = functions_of(GRAMMAR)
growing = growing_by(GRAMMAR)
