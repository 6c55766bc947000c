"""Megatron-LM and Megatron-DeepSpeed: ``iteration N/ M | lm loss: … | loss scale: … |``.

Each field ends with a bar: one that was cut short by another rank's line is left out. A loss that
is NaN is not printed at all, and neither is that of steps that were all skipped. Where none was
skipped, and the gradient norm or a count says NaN, the loss was NaN. What else the other fields say
about it is considered where the history is assembled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from stabdiag.readers.text.alarms import megatron
from stabdiag.readers.text.deepspeed import SCALE
from stabdiag.readers.text.grammar import NUMBER, Grammar, Line, Part
from stabdiag.readers.text.log import functions_of

# lm loss: 7.07E-01 |; its first versions, and what was made of them, write lm loss 7.07E-01 |
_FIELDS = re.compile(rb"(?<![^|])([^:|\n]{1,80})(?:: {0,20}| )(%b) {0,4}\|" % NUMBER)

_LOSS = "lm loss"


@dataclass(frozen=True, kw_only=True)
class _Iterations(Line):
    """The lines of the training, with the losses that were NaN and thus not printed."""

    def find(self, data: bytes) -> list[Part]:
        """Return all lines of this kind."""
        return [_with_nan(part) for part in super().find(data)]


def _with_nan(part: Part) -> Part:
    """Add losses of NaN to lines without a loss, where their other fields say so."""
    cells = dict(zip(part.names, part.cells, strict=True))
    skipped = cells.get("number of skipped iterations")
    if skipped is None or any(name.endswith("loss") for name in part.names):
        return part
    none = [None] * len(part.starts)
    norms = cells.get("grad norm", none)
    counts = cells.get("number of nan iterations", none)
    losses = [
        b"nan"
        if many == b"0" and (norm in (b"nan", b"-nan") or count not in (b"0", None))
        else None
        for many, norm, count in zip(skipped, norms, counts, strict=True)
    ]
    if not any(losses):
        return part
    return replace(part, names=(*part.names, _LOSS), cells=[*part.cells, losses])


GRAMMAR = Grammar(
    name="megatron",
    step="iteration",
    kinds=(
        _Iterations(
            pattern=re.compile(
                rb"iteration(?<!, iteration) {1,12}(\d{1,12})/ {0,12}\d{1,12} \|([^\n]{1,4000})"
            ),
            names=("iteration",),
            pairs=_FIELDS,
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
        megatron(_LOSS),
        *SCALE,
    ),
    joined=True,
    config=re.compile(rb"\W(\w{1,80}) \.{3,80} ([^\n]{1,200})"),
)

recognises, read, growing = functions_of(GRAMMAR)
