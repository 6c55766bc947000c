"""Lines that report a loss or a gradient that is not finite, or a skipped step.

They add records to a log. Some logs are cut down to these lines alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, Grammar, Line, StatusLine, Step

_SCALE: Final = "Attempted loss scale"
SKIPPED: Final = {"skipped_step": b"1"}

# DeepSpeed prints an overflow without a step: it belongs to the next step. The scales before and
# after make two records, so that a fall shows even if growth of the scale was not printed.
#
# … OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 32, reducing to 16
# … Attempted loss scale: 65536, but hysteresis is 2. Reducing hysteresis to 1
SCALE: Final = (
    Line(
        pattern=rb"Attempted loss scale: (%b)," % NUMBER_PATTERN,
        names=(_SCALE,),
        step=Step.LAST,
        identifies_format=False,
    ),
    StatusLine(
        pattern=rb", reducing to (%b)\.?(?!\S)" % NUMBER_PATTERN, names=(_SCALE,), fixed=SKIPPED
    ),
    StatusLine(pattern=rb", but hysteresis is \d", fixed=SKIPPED),
    # Counted from 0, and printed by every rank.
    Line(
        pattern=rb"Grad overflow on iteration (\d{1,12})",
        names=("step",),
        is_record=False,
        identifies_format=False,
    ),
)


# Messages about a loss that is not finite. A pattern without a group means NaN. Several ranks or
# loggers may repeat a message: the last line counts.
_NON_FINITE_LOSS: Final = (
    # ERROR:tensorflow:Model diverged with loss = NaN.
    rb"Model(?:(?<=ERROR:tensorflow:Model)|(?<=RuntimeError: Model)|(?<=\]Model)|(?<=\] Model))"
    rb" diverged with loss = NaN\.?[ \t]{0,8}(?=\n|$)(?!\n[^\n]{0,120}Model diverged)",
    # Loss is nan, stopping training – DETR, DINO, MAE and torchvision's references print it instead
    # of the record.
    rb"Loss is ([-+]?(?:nan|inf)), stopping training[ \t]{0,8}(?=\n|$)"
    rb"(?!\n[^\n]{0,120}Loss is [-+]?(?:nan|inf), stopping)",
    # WARNING: Loss is NaN or inf tensor(nan, device=…), as NeMo reports each of these steps.
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

# A group with a value. This finds it without compiling the pattern.
_GROUP: Final = rb"(?<!\\)\((?!\?)"


def _nonfinite_loss_lines(patterns: Sequence[bytes], loss: str) -> Iterator[Line]:
    for pattern in patterns:
        if re.search(_GROUP, pattern):
            yield StatusLine(pattern=pattern, names=(loss,))
        else:
            yield StatusLine(pattern=pattern, fixed={loss: b"nan"})


def megatron_failure_line(loss: str) -> Line:
    """Return the line of a rank of Megatron that reports a non-finite loss."""
    # AssertionError: Rank 3: found NaN in local forward loss calculation. Device: 3, node: n1
    pattern = rb"found (NaN|Inf) in local forward loss calculation"
    return StatusLine(pattern=pattern, names=(loss,))


def failure_lines(loss: str, step: str) -> tuple[Line, ...]:
    """Return the lines that report a failure, with the log's names of its loss and its step."""
    return (
        # FloatingPointError: Loss became infinite or NaN at iteration=2137!
        Line(
            pattern=rb"loatingPointError: Loss(?:es)? became infinite or NaN at "
            rb"iteration=(\d{1,12})",
            names=(step,),
            fixed={loss: b"nan"},
            identifies_format=False,
        ),
        *_nonfinite_loss_lines(_NON_FINITE_LOSS, loss),
        # Non-finite grad norm, skipping step – in the words of many hand-written loops.
        StatusLine(
            pattern=(
                rb"on-?finite grad(?:ient)?s?(?: norm)?[^\n\"]{0,40}?[Ss]kipp(?:ing|ed)"
                rb"[ \w.!]{0,30}(?:\([^)\n]{0,40}\))?[ \t]{0,8}(?=\n|$)"
            ),
            fixed={"grad_norm": b"inf", **SKIPPED},
        ),
        # The grad norm is nan. Skipping updating the model.
        StatusLine(
            pattern=rb"grad norm is (nan|inf)\. (?:Skipping|Do not) updat",
            names=("grad_norm",),
            fixed=SKIPPED,
        ),
    )


# Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0 – NVIDIA Apex, on
# every rank. Two overflows in a row never end at the same scale, except 0.
_APEX = StatusLine(
    pattern=(
        rb"loss scaler 0 reducing loss scale to (?P<scale>%b)(?=[ \t\r]{0,8}(?:\n|$))"
        rb"(?:(?<=to 0\.0)|(?![ \t]{0,8}\n[^\n]{0,200}reducing loss scale to (?P=scale)(?!\S)))"
        % NUMBER_PATTERN
    ),
    names=("loss_scale",),
    fixed=SKIPPED,
)

# NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: 64.0 – fairseq
_FAIRSEQ = StatusLine(
    pattern=rb"setting loss scale to: (%b)(?!\S)" % NUMBER_PATTERN,
    names=("loss_scale",),
    fixed=SKIPPED,
)

# Reducing dynamic loss scale from 2 to 1 – the fused optimizer of DeepSpeed, on every rank. Its
# engine may report the same overflow below.
_FUSED = StatusLine(
    pattern=(
        rb"Reducing dynamic loss scale from %b to (?P<scale>%b)(?=[ \t\r]{0,8}(?:\n|$))"
        rb"(?![ \t\r]{0,8}\n[^\n]{0,200}Reducing dynamic loss scale)"
        rb"(?!(?:[^\n]{0,200}\n){1,5}[^\n]{0,200}Attempted loss scale: [^,\n]{1,20},"
        rb" reducing to (?P=scale)(?![\d.]\d))" % (NUMBER_PATTERN, NUMBER_PATTERN)
    ),
    names=(_SCALE,),
    fixed=SKIPPED,
)

# Messages about the loss scale that any program may print.
OVERFLOWS: Final = (*SCALE, _APEX, _FAIRSEQ, _FUSED)

# OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 32, reducing to 16
# [Rank 0] Overflow detected. Skipping step. Attempted loss scale: 32.0, reducing to 16.0
_OVERFLOW_LINE = Line(
    pattern=rb"(?:(?:OVERFLOW|overflow)! Rank \d{1,6}|Overflow detected\.) Skipping step\."
    rb"(?: Attempted loss scale: (%b),)?" % NUMBER_PATTERN,
    names=(_SCALE,),
    fixed=SKIPPED,
)

# ValueError: nan loss encountered; ERROR: Loss is NaN; GluonTSUserError: Got NaN in first epoch –
# the exception alone is the whole log.
_RAISED_LINE = StatusLine(
    pattern=(
        rb"(?:rror|xception|RROR|FATAL): (?![^\n]{0,200}at iteration=)"
        rb"(?![^\n]{0,200}?\b(?:if|when|unless|whether|may|might|can|could|should|avoid)\b)"
        rb"(?=[^\n]{0,200}?(?<![A-Za-z])(?:[Ll]oss|epoch|training criterion)(?![A-Za-z_]))"
        rb"[^\n]{0,200}?(?<![A-Za-z])(?:[Nn]a[Nn]s?|NAN|[Ii]nf|[Nn]on-?finite|[Ii]nfinite"
        rb"|not finite)(?![\w(])"
    ),
    fixed={"loss": b"nan"},
)

# Loss exploded to nan at step 10422!
_TURNED_LINE = Line(
    pattern=(
        rb"oss (?:has |just )?(?:exploded|diverged|became|becomes|went|turned|goes|is|was) "
        rb"(?:to |into )?(?:[Nn]a[Nn]|NAN|[Ii]nf(?:inity|inite)?) (?:at|in|on|after) "
        rb"(?:the )?(?:global )?(?:step|iteration|iter|batch|epoch|update)[ :=#]{1,3}(\d{1,12})"
        # A progress bar that is redrawn may follow.
        rb"(?:[ \t]{1,4}(?:avg_)?loss=|[.!]{0,3}[ \t]{0,8}(?=\n|$))"
    ),
    names=("step",),
    fixed={"loss": b"nan"},
)

# RuntimeError: Function 'LogSoftmaxBackward0' returned nan values in its 0th output.
_TRAINING_ERROR = StatusLine(
    pattern=(
        rb"(?:rror|xception): [^\n]{0,400}?(?:returned nan values in its \d"
        rb"|to satisfy the constraint [^\n]{0,200}found invalid values"
        rb"|normal expects all elements of std >= 0"
        rb"|probability tensor contains either `inf`, `nan`"
        rb"|Minimum loss scale reached|Current loss scale already at minimum"
        rb"|grad_scale is too small|Skipped \d{1,6} iterations in a row due to Overflow)"
    ),
    fixed={"loss": b"nan"},
)

# The format of logs that have only these lines.
ALONE: Final = Grammar(
    step="step",
    kinds=(
        *(
            replace(line, identifies_format=True)
            for line in (
                *failure_lines("loss", "step"),
                _APEX,
                _FAIRSEQ,
                _FUSED,
                _RAISED_LINE,
                _TURNED_LINE,
                _TRAINING_ERROR,
            )
        ),
        _OVERFLOW_LINE,
    ),
)
