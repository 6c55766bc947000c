"""Lines that say in words that a loss or a gradient is not finite, or that a step was skipped.

They make records beside the others of a log, and are all that is left of a log that was cut down to
such lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from stabdiag.readers.text.grammar import (
    NUMBER,
    Aside,
    Grammar,
    Line,
    Step,
)

_SCALE: Final = "Attempted loss scale"
SKIPPED: Final = {"skipped_step": b"1"}

# DeepSpeed names no step with an overflow: it belongs to the next one. The scales before and after
# make two records, so that a fall is seen even if nothing was printed when the scale had grown.
#
# … OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 32, reducing to 16
# … Attempted loss scale: 65536, but hysteresis is 2. Reducing hysteresis to 1
SCALE: Final = (
    Line(
        pattern=rb"Attempted loss scale: (%b)," % NUMBER,
        names=(_SCALE,),
        step=Step.LAST,
        tells=False,
    ),
    Aside(
        pattern=rb", reducing to (%b)\.?(?!\S)" % NUMBER,
        names=(_SCALE,),
        fixed=SKIPPED,
    ),
    Aside(pattern=rb", but hysteresis is \d", fixed=SKIPPED),
    # Counted from 0, and printed by every rank.
    Line(
        pattern=rb"Grad overflow on iteration (\d{1,12})",
        names=("step",),
        is_record=False,
        tells=False,
    ),
)


# What programs say of a loss that is not finite; where no group tells what it is, it is NaN. Each
# rank, or two loggers, may say it: the last line counts.
_LOST: Final = (
    # ERROR:tensorflow:Model diverged with loss = NaN.
    rb"Model(?:(?<=ERROR:tensorflow:Model)|(?<=RuntimeError: Model)|(?<=\]Model)|(?<=\] Model))"
    rb" diverged with loss = NaN\.?[ \t]{0,8}(?=\n|$)(?!\n[^\n]{0,120}Model diverged)",
    # Loss is nan, stopping training – as DETR, DINO, MAE and torchvision's references say in place
    # of the record.
    rb"Loss is ([-+]?(?:nan|inf)), stopping training[ \t]{0,8}(?=\n|$)"
    rb"(?!\n[^\n]{0,120}Loss is [-+]?(?:nan|inf), stopping)",
    # WARNING: Loss is NaN or inf tensor(nan, device=…), as NeMo says of each such step.
    rb"WARNING: Loss is NaN or inf\b(?![^\n]{0,200}\n[^\n]{0,80}Loss is NaN or inf)",
    # ValueError: The loss returned in `training_step` is nan.
    rb"ValueError: The loss returned in `training_step` is (nan|inf)\b",
    # Error reported to Coordinator: …, LossTensor is inf or nan. : Tensor had NaN values
    rb"Error reported to Coordinator: [^\n]{0,200}LossTensor is inf or nan"
    rb"(?!\.[^\n]{0,200}\n[^\n]{0,80}Error reported to Coordinator)",
    # Monitored metric train_loss = nan is not finite. Previous best value was 2.345. …
    rb"Monitored metric (?=[\w/.-]{0,60}(?<![a-z])train)[\w/.-]{0,60}[Ll]oss[\w/.-]{0,20} = "
    rb"([-+]?(?:nan|inf)) is not finite\. Prev",
    # Batch 3: Invalid loss, terminating training – counted from 0, where the bar begins with 1.
    rb"Batch \d{1,12}: Invalid loss, terminating training[ \t]{0,8}(?=\n|$)",
)

# What hand-written loops say of it, which without their records proves nothing.
_SPOKEN: Final = (
    # received a nan loss, setting loss value to 0 – WARNING: non-finite loss, ending training –
    # skipping a NaN loss.
    rb" loss(?<=nan loss|NaN loss|inf loss|Inf loss|ite loss)"
    rb"(?=, (?:setting|ending|skipp|stopp)|[ \t.!]{0,4}(?:\n|$)"
    rb"| (?:at|in|for|on) (?:step|iter|batch|epoch))",
    # Loss is not finite. Skip this training step. – Skip the batch due to the loss is NaN, it …
    rb"oss i[sn] (?:not finite|non-?finite|nan|NaN|inf)[.,;:!]{0,3} "
    rb"(?:[Ss]kip|[Ss]top(?!ping training)|[Tt]erminat|[Ee]nding|it may be caused)",
    # WARNING: loss (=nan) is not correct
    rb"oss \(=([-+]?(?:nan|inf))\) is not correct",
)


def _lost(patterns: Sequence[bytes], loss: str) -> Iterator[Line]:
    for one in patterns:
        told = re.compile(one).groups
        yield Aside(pattern=one, names=(loss,) * told, fixed={} if told else {loss: b"nan"})


def found_by_megatron(loss: str) -> Line:
    """Return the line in which a rank of Megatron says that its loss was not finite."""
    # AssertionError: Rank 3: found NaN in local forward loss calculation. Device: 3, node: n1
    pattern = rb"found (NaN|Inf) in local forward loss calculation"
    return Aside(pattern=pattern, names=(loss,))


def alarms(loss: str, step: str) -> tuple[Line, ...]:
    """Return all these lines, for a log with these names of its loss and its step."""
    return (
        # FloatingPointError: Loss became infinite or NaN at iteration=2137!
        Line(
            pattern=rb"FloatingPointError: Loss(?:es)? became infinite or NaN at "
            rb"iteration=(\d{1,12})",
            names=(step,),
            fixed={loss: b"nan"},
            tells=False,
        ),
        *_lost(_LOST, loss),
        # Non-finite grad norm, skipping step – in the words of many hand-written loops.
        Aside(
            pattern=(
                rb"on-?finite grad(?:ient)?s?(?: norm)?[^\n\"]{0,40}?[Ss]kipp(?:ing|ed)"
                rb"[ \w.!]{0,30}(?:\([^)\n]{0,40}\))?[ \t]{0,8}(?=\n|$)"
            ),
            fixed={"grad_norm": b"inf", **SKIPPED},
        ),
        # The grad norm is nan. Skipping updating the model.
        Aside(
            pattern=rb"grad norm is (nan|inf)\. (?:Skipping|Do not) updat",
            names=("grad_norm",),
            fixed=SKIPPED,
        ),
    )


def spoken(loss: str) -> tuple[Line, ...]:
    """Return what hand-written loops say of a loss."""
    return tuple(_lost(_SPOKEN, loss))


# Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0 – NVIDIA Apex, on
# every rank: two overflows in a row never end at the same scale, but for one of 0.
_APEX = Aside(
    pattern=(
        rb"loss scaler 0 reducing loss scale to (?P<scale>%b)(?=[ \t\r]{0,8}(?:\n|$))"
        rb"(?:(?<=to 0\.0)|(?![ \t]{0,8}\n[^\n]{0,200}reducing loss scale to (?P=scale)(?!\S)))"
        % NUMBER
    ),
    names=("loss_scale",),
    fixed=SKIPPED,
)

# NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: 64.0 – fairseq
_FAIRSEQ = Aside(
    pattern=rb"setting loss scale to: (%b)(?!\S)" % NUMBER, names=("loss_scale",), fixed=SKIPPED
)

# What any program may print of its loss scale beside its own lines.
OVERFLOWS: Final = (*SCALE, _APEX, _FAIRSEQ)

# OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 32, reducing to 16
# [Rank 0] Overflow detected. Skipping step. Attempted loss scale: 32.0, reducing to 16.0
_OVERFLOW = Line(
    pattern=rb"(?:(?:OVERFLOW|overflow)! Rank \d{1,6}|Overflow detected\.) Skipping step\."
    rb"(?: Attempted loss scale: (%b),)?" % NUMBER,
    names=(_SCALE,),
    fixed=SKIPPED,
)

# The lines that are all there is in some logs.
ALONE: Final = Grammar(
    step="step",
    kinds=(*(replace(one, tells=True) for one in (*alarms("loss", "step"), _APEX)), _OVERFLOW),
)
