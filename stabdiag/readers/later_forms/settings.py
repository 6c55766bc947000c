"""Whole sets of settings and events, which begin like records and hold no loss."""

from __future__ import annotations

import re
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.words import WORD, meaning

# A value that is not a finite number, or lost.
LOST_VALUE: Final = lazy_pattern(r"(?<![A-Za-z])(?:nan|[+-]?inf|null|none)(?![a-z])", re.IGNORECASE)

VALUE_IN_LINE: Final = lazy_pattern(r"\d\.\d|(?<![a-z])nan(?![a-z])", re.IGNORECASE)

# Settings: a whole dict or call, or a value, with the name of a loss function: {'lr': 0.1, 'loss':
# 'ce'}, Namespace(lr=0.1, loss='ce'). And lines of W&B, which sums up a run below its log.
_LOSS_FUNCTION: Final = lazy_pattern(
    r"(?<![a-z])loss[\"']?\s{0,2}[:=]\s{0,2}[\"']([A-Za-z]\w{0,40})[\"']", re.IGNORECASE
)
_COUNTER_OF_RECORD: Final = lazy_pattern(
    r"(?<![a-z])(?:step|epoch|iter(?:ation)?)[\"']?\s{0,2}[:=]", re.IGNORECASE
)
_WHOLE_OBJECT: Final = lazy_pattern(r"\s*(?:\{.*\}|[A-Za-z]\w{0,40}\(.*\))\s*")
OTHER_PROGRAM: Final = "wandb: "


def is_event(line: str) -> bool:
    """Return True if a line is a whole object without a loss or a decimal number: a checkpoint."""
    is_other = "loss" not in line.lower() and _WHOLE_OBJECT.fullmatch(line) is not None
    return is_other and not (VALUE_IN_LINE.search(line) or LOST_VALUE.search(line))


def is_setting(line: str) -> bool:
    """Return True if a line is a whole set of settings, with the name of a loss function."""
    loss = _LOSS_FUNCTION.search(line)
    if (
        loss is None
        or _WHOLE_OBJECT.fullmatch(line) is None
        or _COUNTER_OF_RECORD.search(line) is not None
    ):
        return False
    return meaning(loss[1])[0] == WORD and LOST_VALUE.search(line) is None
