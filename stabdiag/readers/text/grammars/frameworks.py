"""The grammars of the frameworks that need one of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from stabdiag.model.frozen import frozen
from stabdiag.readers.text.lines.grammar import (
    BARS,
    NUMBER_PATTERN,
    PAIR,
    VALUE,
    Grammar,
    Line,
    TextPart,
)
from stabdiag.readers.text.messages.status_lines import SCALE, megatron_failure_line

_LM_LOSS: Final = "lm loss"


@frozen
class _Iterations(Line):
    """Megatron's training lines, with the NaN losses that it does not print.

    Megatron does not print a loss that is NaN, or the loss of steps that were all skipped. If no
    step was skipped, and the gradient norm or a count reports NaN, the loss was NaN. The other
    fields are considered when the history is assembled.
    """

    def find(self, data: bytes) -> list[TextPart]:
        """Return all lines of this kind."""
        return [_with_nan(part) for part in super().find(data)]


def _with_nan(part: TextPart) -> TextPart:
    """Add NaN losses to lines without a loss if their other fields imply them."""
    cells = dict(zip(part.names, part.cells, strict=True))
    skipped = cells.get("number of skipped iterations")
    if skipped is None or any(name.endswith("loss") for name in part.names):
        return part
    none = [None] * len(part.starts)
    norms = cells.get("grad norm", none)
    counts = cells.get("number of nan iterations", none)
    losses = [
        b"nan"
        if count_skipped == b"0" and (norm in (b"nan", b"-nan") or count not in (b"0", None))
        else None
        for count_skipped, norm, count in zip(skipped, norms, counts, strict=True)
    ]
    if not any(losses):
        return part
    return replace(part, names=(*part.names, _LM_LOSS), cells=[*part.cells, losses])


MEGATRON: Final = Grammar(
    step="iteration",
    kinds=(
        _Iterations(
            pattern=rb"iteration(?<!, iteration) {1,12}(\d{1,12})/ {0,12}\d{1,12} "
            rb"\|([^\n]{1,4000})",
            names=("iteration",),
            pairs=BARS,
        ),
        #  validation loss at iteration 1000 | lm loss value: 2.1E+00 | lm loss PPL: 8.1 |
        Line(
            pattern=rb"validation loss at (?:iteration (\d{1,12})|the end of training)"
            rb"(?: (?:on|for) val[^|\n]{0,80})? \|([^\n]{1,4000})",
            names=("iteration",),
            pairs=BARS,
        ),
        # … | MnRtt/Rnk: 3453.08ms/8 | MxRtt/Rnk: 3468.20ms/0 | MnPwr/Rnk: 601796W/8 | …
        Line(
            pattern=rb"M[nx]Rtt/Rnk: ([\d.]{1,20}ms/\d{1,6})\b",
            pairs=rb"(?=[\d.]{1,20}ms/(\d{1,6}))([\d.]{1,20})",
            named="rank_time/{}".format,
            identifies_format=False,
        ),
        megatron_failure_line(_LM_LOSS),
        *SCALE,
    ),
    joined=True,
    left_out=_LM_LOSS,
    config=rb"\W(\w{1,80}) \.{3,80} ([^\n]{1,200})",
)

COMPOSER: Final = Grammar(
    step="step",
    kinds=(
        # If the training is measured in epochs, batches are counted within each epoch.
        Line(
            pattern=rb"\[(?:epoch=(\d{1,9})(?:/\d{1,9})?\]\[)?batch=(\d{1,12})"
            rb"(?:/\d{1,12})?\]:?",
            names=("epoch", "step"),
            begins=True,
            signature=rb"batch=\d{1,12}(?:/\d{1,12})?\]:\s{1,400}(?:Train|Eval) ",
        ),
        # Pasting replaces the tab by blanks.
        Line(
            pattern=rb" Train (?<=\s Train )([^\n:]{1,300}: %b)(?=\s)" % NUMBER_PATTERN,
            pairs=PAIR,
            signature=rb"\t Train [^\n:]{1,300}: %b\s" % NUMBER_PATTERN,
        ),
        Line(
            pattern=rb" (?<=\s )(Eval [^\n:]{1,300}: %b)(?=\s)" % NUMBER_PATTERN,
            pairs=PAIR,
            identifies_format=False,
        ),
    ),
    joined=True,
)

DEEPSPEED: Final = Grammar(
    step="step",
    kinds=(
        # [Rank 0] step=510, skipped=8, lr=[9.6e-06, 9.6e-06], mom=[(0.9, 0.95)]
        Line(
            pattern=rb"step=(\d{1,12}), skipped=(\d{1,12}), lr=\[(%b)[,\]]" % NUMBER_PATTERN,
            names=("step", "skipped", "lr"),
        ),
        # steps: 10 loss: 4.2313 iter time (s): 0.512 samples/sec: 62.500
        Line(
            pattern=rb"steps: (\d{1,12}) loss: (%b) iter time \(s\): (%b) "
            rb"samples/sec: (%b)" % (VALUE, VALUE, VALUE),
            names=("step", "loss", "iter time (s)", "samples/sec"),
        ),
        # Epoch 1/16 with loss 0.5754789632299672
        Line(
            pattern=rb"Epoch \d{1,6}/\d{1,6} with loss (%b)" % VALUE,
            names=("loss",),
            identifies_format=False,
        ),
        # Epoch: 0, Step: 10, Rank: 0, loss = 5.968
        Line(
            pattern=rb"Epoch: (\d{1,6}), Step: (\d{1,12}), Rank: 0, loss = (%b)" % VALUE,
            names=("epoch", "step", "loss"),
            identifies_format=False,
        ),
        # [Rank 0] Loss: 10.8719
        Line(pattern=rb"\[Rank 0\] Loss: (%b)" % VALUE, names=("loss",), identifies_format=False),
        Line(pattern=rb"\nppl: (%b)" % VALUE, names=("ppl",), identifies_format=False),
        *SCALE,
    ),
    config=rb":print\] {1,4}(\w{1,80}) [. ]{1,80}([^\n]{1,200})",
    may_lack_losses=True,
)
