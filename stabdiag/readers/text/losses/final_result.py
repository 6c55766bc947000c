"""A loss below the last record in another form: the result of an evaluation, without its split.

Below the bars of Keras, ``loss : 1.06`` and ``accuracy : 0.65`` are the results of
``model.evaluate``. Taken for another state of the last epoch, they would be a jump of its loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stabdiag.model.roles.names import is_evaluation
from stabdiag.readers.text.lines.counters import find_headings
from stabdiag.readers.text.lines.evaluated import TESTED
from stabdiag.readers.text.lines.grammar import TextPart, is_a_loss, trains

# The fewest records that show the form of one.
_MIN_USUAL_RECORDS: Final = 2

_LOST_WORDS: Final = (b"nan", b"inf")

# A heading is at most this far above its record.
_RESULT_BYTES_ABOVE: Final = 1 << 12


def mark_final_result(parts: Sequence[TextPart], usual: TextPart, data: bytes) -> list[TextPart]:
    """Return the parts of a text, with the single line below all usual records as an evaluation.

    Scores on single lines below it are marked, too. Lines below another heading are not changed. A
    non-finite result is the last value of the loss, or of the evaluation loss.
    """
    if len(usual.starts) < _MIN_USUAL_RECORDS:
        return [*parts]
    ends = [part for part in parts if part is not usual and _is_below(part, usual, data)]
    results = (part.starts[0] for part in ends if _is_result(part, usual))
    begin = min(results, default=len(data))
    return [
        part
        if part not in ends
        else _as_evaluation(part)
        if part.starts[0] >= begin
        else _as_last_value(part, usual)
        for part in parts
    ]


def _is_below(part: TextPart, usual: TextPart, data: bytes) -> bool:
    """Return True if a part is a single line below the usual records, and of the last of them."""
    begin, end = usual.starts[-1], part.starts[0]
    return len(part.starts) == 1 and begin <= end and not _begins_another(data, begin, end)


def _is_result(part: TextPart, usual: TextPart) -> bool:
    """Return True if a line repeats the finite loss of the usual records under its name."""
    losses = [name for name in part.names if is_a_loss(name) and not is_evaluation(name)]
    if not losses or not {*losses} <= {*usual.names} or any(map(trains, losses)):
        return False
    return not any(_is_lost(part, name) for name in losses)


def _is_lost(part: TextPart, name: str) -> bool:
    """Return True if the first value of a name is written as NaN or infinity."""
    cell = (part.cells[part.names.index(name)][0] or b"").lower()
    return any(word in cell for word in _LOST_WORDS)


def _begins_another(data: bytes, begin: int, end: int) -> bool:
    """Return True if a counter between two lines has a count that the first one did not reach."""
    above = {
        (word, n) for _, word, n in find_headings(data[max(begin - _RESULT_BYTES_ABOVE, 0) : begin])
    }
    return any((word, n) not in above for _, word, n in find_headings(data[begin:end]))


def _as_evaluation(part: TextPart) -> TextPart:
    names = (name if is_evaluation(name) else f"{TESTED}{name}" for name in part.names)
    return replace(part, names=tuple(names))


def _as_last_value(part: TextPart, usual: TextPart) -> TextPart:
    """Give non-finite losses the names of the losses in usual records: Final loss: nan."""
    names = {is_evaluation(name): name for name in reversed(usual.names) if is_a_loss(name)}
    renamed = (
        names.get(is_evaluation(name), name) if is_a_loss(name) and _is_lost(part, name) else name
        for name in part.names
    )
    return replace(part, names=tuple(renamed))
