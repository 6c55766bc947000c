"""Name the scores of splits that a log calls by the name of the split only.

``Epoch: 3, Loss: 1.74, Train: 0.34, Val: 0.32, Test: 0.33``: next to a loss, or rising as no loss
does, or in percent, these are scores. Otherwise they may be losses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, Normalization, as_float
from stabdiag.readers.unnamed import LARGEST_SCORE, may_be_scores

# Scores are searched for in this many bytes at the head, on at most this many lines.
_SPLIT_BYTES: Final = 1 << 16
_MAX_SPLIT_LINES: Final = 500

# At least two splits share each of two lines.
_MIN_SPLITS: Final = 2

_LINE: Final = lazy_pattern(rb"(?m)^[^\n]{0,60}\d[^\n]{0,300}$")

# A score is a fraction, unlike the size of a split, and has no unit of time.
_SPLIT_SCORE: Final = (
    rb"(?<![\w./-])(Train|TRAIN|train|Val|VAL|val|Valid|VALID|valid|Dev|dev|Test|TEST|test|tr|te)"
    rb"(?=[ :=]{1,3}(\d{0,3}\.\d{1,12}|[nN]a[nN])(?P<percent>%?)(?![\w%:/]| ?(?:s|sec|ms|min|h)\b))"
)
_FULL_WORDS: Final = {b"tr": b"train", b"te": b"test"}
_LOSS_ON_LINE: Final = lazy_pattern(rb"[lL](?:oss|OSS)[ :=]{1,3}%b" % NUMBER_PATTERN)


def find_split_scores(data: bytes) -> Iterator[Normalization]:
    """Yield the replacement that calls these values scores."""
    head = data[:_SPLIT_BYTES]
    if not any(word in head for word in (b"rain", b"al", b"ev", b"est", b"tr")):
        return
    lines = (match[0] for match in islice(_LINE.finditer(head), _MAX_SPLIT_LINES))
    matches = ((line, [*re.finditer(_SPLIT_SCORE, line)]) for line in lines)
    records = [(line, scores) for line, scores in matches if len(scores) >= _MIN_SPLITS]
    if len(records) < _MIN_SPLITS:
        return
    # The score of an overfitted split may rise like its loss.
    firsts = [next(filter(_is_of_training, scores), scores[0]) for _, scores in records]
    numbers = [as_float(first[2]) for first in firsts]
    in_percent = all(first["percent"] for first in firsts)
    if all(_LOSS_ON_LINE.search(line) for line, _ in records):
        third = max(len(numbers) // 3, 1)
        rises = sum(numbers[-third:]) >= sum(numbers[:third])
        is_known = rises and max(numbers) <= (LARGEST_SCORE if in_percent else 1)
    else:
        is_known = b"oss" not in head and (in_percent or may_be_scores(numbers))
    if is_known:
        yield Normalization((), _SPLIT_SCORE, _as_score)


def _is_of_training(split: re.Match[bytes]) -> bool:
    return split[1].lower() in (b"train", b"tr")


def _as_score(split: re.Match[bytes]) -> bytes:
    return _FULL_WORDS.get(split[1], split[1]) + b"_score"


def are_scores(values: Sequence[bytes]) -> bool:
    """Return True if values may be scores, which rise from the start and are at most 100."""
    return may_be_scores([*map(as_float, values)])
