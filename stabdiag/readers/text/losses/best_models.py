"""Lines about the best model so far, between the records of a log.

``New best model at epoch 7 | loss: 0.31`` repeats the loss of some records. Such values only
improve: taken for the course of the run, they hide that it failed later.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_evaluation
from stabdiag.readers.text.lines.grammar import TextPart, as_float
from stabdiag.readers.text.lines.tokens import SAVES

# The fewest other records, without which the best models are all that is logged.
_MIN_OTHERS: Final = 3

# More than a name is between the word and the value: best model at epoch 7 | loss, but best_loss.
_MORE_WORDS: Final = lazy_pattern(rb"[\d|:,;(!]")


def without_best_models(
    parts: Sequence[TextPart], lines: Sequence[bytes], word: bytes
) -> list[TextPart]:
    """Return the parts of a text without those about the best models, if it has other records.

    These have the loss of the training, and the log does not go on with the best models alone.

    Args:
        parts: the lines of a log with the same names each.
        lines: one line of each part.
        word: a part of the name of the loss.
    """
    are_best = [
        not part.supplementary and _names_best(line, word) and _improves(part, word)
        for part, line in zip(parts, lines, strict=True)
    ]
    others = [
        start
        for part, is_best in zip(parts, are_best, strict=True)
        if not is_best and _is_of_training(part, word)
        for start in part.starts
    ]
    if len(others) < _MIN_OTHERS:
        return [*parts]
    last = max(others)
    return [
        part
        for part, is_best in zip(parts, are_best, strict=True)
        if not is_best or sum(start > last for start in part.starts) > 1
    ]


def _is_of_training(part: TextPart, word: bytes) -> bool:
    """Return True if lines are records with the loss of the training, not only of evaluations."""
    names = (name for name in part.names if word in name.encode() and not is_evaluation(name))
    return not part.supplementary and any(names)


def _names_best(line: bytes, word: bytes) -> bool:
    """Return True if a line says that a model is the best or saved, before the name of its loss."""
    place = line.find(word)
    best = SAVES.search(line, 0, place) if place > 0 else None
    return best is not None and _MORE_WORDS.search(line, best.end(), place) is not None


def _improves(part: TextPart, word: bytes) -> bool:
    """Return True if the values with a word in their name only fall, or only rise."""
    name = next((name for name in part.names if word in name.encode()), None)
    if name is None:
        return False
    values = [as_float(cell or b"nan") for cell in part.cells[part.names.index(name)]]
    pairs = [*pairwise(values)]
    return all(a > b for a, b in pairs) or all(a < b for a, b in pairs)
