"""Numbers without a name: taken for losses, unless the name of the file says otherwise."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Final

from stabdiag.model.history import Event, EventKind
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import is_evaluation, normal
from stabdiag.readers.compressed import SUFFIXES
from stabdiag.readers.source import STANDARD_INPUT

# The fewest numbers that make a series.
FEWEST: Final = 3

# Whole numbers from here on are times: seconds since 1970, or milliseconds.
A_TIME: Final = 1e9

# Names of files that hold losses, or of a log that holds nothing else. What is in other files
# nobody knows.
_LOSSES: Final = r"loss|train|log(?:_|$|s)|hist|curve|metric|nll|cost|error|run(?:_|$|s)|trace"

# Names of files that hold something else than losses.
_MEASURE: Final = (
    r"(?:^|_)(?:acc|accs|accurac(?:y|ies)|rewards?|returns?|scores?|f1|auc|iou|dice|psnr|ssim|bleu"
    r"|ppl|perplexit(?:y|ies)|lrs?|learning_rates?|grads?|gradients?|norms?|weights?|times?|fid"
    r"|entropy|precision|recall)(?:_|$)"
)


def name_of_values(source: str) -> str:
    """Return what to call the numbers of a file: its own name, where that says something."""
    if source == STANDARD_INPUT:
        return "loss"
    path = PurePath(source)
    stem = PurePath(path.stem).stem if path.suffix in SUFFIXES else path.stem
    if assign([stem]).columns or re.search(_MEASURE, normal(stem)):
        return stem
    if is_evaluation(stem):
        return f"{stem}_loss"
    return "loss" if re.search(_LOSSES, normal(stem)) else stem


def is_of_losses(source: str) -> bool:
    """Tell whether the numbers of a file may be losses, by its name."""
    return assign([name_of_values(source)]).has("loss", "eval_loss")


def may_be_losses(numbers: Sequence[float]) -> bool:
    """Tell whether numbers could be losses: labels and counts are whole."""
    return not all(map(float.is_integer, numbers))


def may_be_steps(numbers: Sequence[float]) -> bool:
    """Tell whether numbers could be steps: whole, each above the last, and no times."""
    rising = all(one < other for one, other in pairwise(numbers))
    return rising and all(map(float.is_integer, numbers)) and abs(numbers[-1]) < A_TIME


def taken_as(what: str, name: str) -> Event:
    """Return the event that says what numbers without a name are taken for."""
    called = "as the loss" if name == "loss" else f"as {name!r}, after the name of the file"
    return Event(kind=EventKind.COLUMN, message=f"{what} {called}")
