"""Leave out the second of two copies of each line, as two loggers print them.

::

    2031-04-01 09:10:11,123 - root - INFO - epoch 3, loss 0.41
    INFO:root:epoch 3, loss 0.41
"""

from __future__ import annotations

import re
from itertools import islice, pairwise, takewhile
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.lines.counters import DIGITS
from stabdiag.readers.text.lines.grammar import Normalization
from stabdiag.readers.text.lines.measure_words import LOSS_STEM
from stabdiag.readers.text.lines.tokens import lines_with_a_loss

# The first lines with a loss show whether each has a copy.
_MAX_COMPARED_LINES: Final = 200
_MIN_COPIES: Final = 3
# The fewest characters of a message, and the letters of the label of a logger.
_MIN_MESSAGE: Final = 8
_LABEL_LETTERS: Final = lazy_pattern(rb"[A-Za-z]{3}")
_NAME_END: Final = lazy_pattern(rb"[A-Za-z]$")
_MAX_DOUBLED_LABELS: Final = 3
# At most one in this many messages may repeat the one before it.
_MOST_REPEATS: Final = 10

_EQUAL_LINES: Final = Normalization((), rb"(?m)^([^\n]{8,2000})\n\1$", rb"\1\n")


def find_doubled_lines(data: bytes) -> tuple[Normalization, ...]:
    """Return the replacement that removes the copy of each line, or none if lines have no copies.

    The copies have another label, or none. A loss that stays the same has no copies.
    """
    lines = [line for _, line in islice(lines_with_a_loss(data), _MAX_COMPARED_LINES)]
    pairs = [*zip(lines[::2], lines[1::2], strict=False)]
    if len(pairs) < _MIN_COPIES:
        return ()
    messages: list[bytes] = []
    for pair in pairs:
        messages.append(_shared_end(*pair))
        if len(messages[-1]) < _MIN_MESSAGE or LOSS_STEM not in messages[-1]:
            return ()
        # Mean training loss: 0.5 and Test loss: 0.5 are two losses.
        if messages[-1].lstrip().startswith((b"loss", b"Loss")) and all(
            _NAME_END.search(line[: -len(messages[-1])]) for line in pair
        ):
            return ()
    repeats = sum(first == second for first, second in pairwise(messages))
    if _MOST_REPEATS * repeats > len(messages):
        return ()
    first, second = (
        {line[: len(line) - len(text)] for line, text in zip(copies, messages, strict=True)}
        for copies in zip(*pairs, strict=True)
    )
    if first == second == {b""}:
        return (_EQUAL_LINES,)
    # Labels that differ only in a number belong to ranks.
    is_apart = _without_numbers(first).isdisjoint(_without_numbers(second))
    if not is_apart or not (_are_labels(first) or _are_labels(second)):
        return ()
    labels = [_label_pattern(texts) for texts in (first, second)]
    pattern = rb"(?m)^(%b)([^\n]{8,2000})\n(%b)\2$" % (labels[0], labels[1])
    kept = rb"\1\2\n" if _are_labels(second) else rb"\n\3\2"
    return (Normalization((), pattern, kept),) if all(labels) else ()


def _are_labels(texts: set[bytes]) -> bool:
    """Return True if texts before a message may be labels of a logger."""
    return all(_LABEL_LETTERS.search(text) is not None for text in texts)


def _shared_end(first: bytes, second: bytes) -> bytes:
    """Return the text that two lines have at their ends."""
    pairs = zip(reversed(first), reversed(second), strict=False)
    length = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return first[len(first) - length :]


def _without_numbers(labels: set[bytes]) -> set[bytes]:
    return {DIGITS.sub(b"0", label) for label in labels}


def _label_pattern(labels: set[bytes]) -> bytes:
    """Return a pattern for labels with other numbers, or b"" if they have many forms."""
    forms = _without_numbers(labels)
    texts = (map(re.escape, form.split(b"0")) for form in forms)
    patterns = [rb"\d{1,12}".join(text) for text in texts]
    return rb"(?:%b)" % b"|".join(patterns) if len(forms) <= _MAX_DOUBLED_LABELS else b""
