"""Lines that say in words that a loss or a gradient is not finite, or that a step was skipped.

They make records beside the others of a log, and are all that is left of a log that was cut down to
such lines.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from stabdiag.readers.text.deepspeed import SKIPPED
from stabdiag.readers.text.grammar import NUMBER, Grammar, Line, Step
from stabdiag.readers.text.log import functions_of

if TYPE_CHECKING:
    from stabdiag.readers.text.grammar import Kind


def detectron2(loss: str, step: str) -> Line:
    """Return the line that says at which iteration the loss was not finite."""
    # FloatingPointError: Loss became infinite or NaN at iteration=2137!
    return Line(
        pattern=re.compile(
            rb"FloatingPointError: Loss(?:es)? became infinite or NaN at iteration=(\d{1,12})"
        ),
        names=(step,),
        fixed={loss: b"nan"},
        tells=False,
    )


def alarms(loss: str, step: str) -> tuple[Line, ...]:
    """Return all these lines, for a log with these names of its loss and its step."""
    return (
        detectron2(loss, step),
        # ERROR:tensorflow:Model diverged with loss = NaN. – which two loggers may say.
        Line(
            pattern=re.compile(
                rb"(?:ERROR:tensorflow:|\] ?)Model diverged with loss = NaN\.?[ \t]{0,8}(?=\n|$)"
                rb"(?!\n[^\n]{0,120}Model diverged)"
            ),
            fixed={loss: b"nan"},
            step=Step.NEXT,
            tells=False,
        ),
        # Batch 3: Invalid loss, terminating training – counted from 0, where the bar begins with 1.
        Line(
            pattern=re.compile(
                rb"Batch \d{1,12}: Invalid loss, terminating training[ \t]{0,8}(?=\n|$)"
            ),
            fixed={loss: b"nan"},
            step=Step.NEXT,
            tells=False,
        ),
        # The grad norm is nan. Skipping updating the model.
        Line(
            pattern=re.compile(rb"grad norm is (nan|inf)\. (?:Skipping|Do not) updat"),
            names=("grad_norm",),
            fixed=SKIPPED,
            step=Step.NEXT,
            tells=False,
        ),
    )


# OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 32, reducing to 16
_OVERFLOW = Line(
    pattern=re.compile(
        rb"OVERFLOW! Rank \d{1,6} Skipping step\.(?: Attempted loss scale: (%b),)?" % NUMBER
    ),
    names=("Attempted loss scale",),
    fixed=SKIPPED,
)

_ALONE: tuple[Kind, ...] = (
    *(replace(one, tells=True) for one in alarms("loss", "step")),
    _OVERFLOW,
)

GRAMMAR = Grammar(name="alarms", step="step", kinds=_ALONE)

# It is not read as it grows: once losses follow, it is of another format.
recognises, read, _ = functions_of(GRAMMAR)
