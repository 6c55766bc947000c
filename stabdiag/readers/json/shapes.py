"""Distinguish one JSON document from JSON lines, which have one object per line."""

from __future__ import annotations

from functools import lru_cache
from json import JSONDecodeError
from typing import Any, Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.json.histories import is_history, is_numbered, leaves
from stabdiag.readers.json.keyed import LONG
from stabdiag.readers.json.tolerant import DECODER, decode_line, repair_fault
from stabdiag.readers.words import NULL, NUMBER, meaning

# A list of objects or of lists, as against a line of text that begins with a bracket.
_LIST: Final = lazy_pattern(rb"\[\s*(?:\{\s*(?:[\"}]|\Z)|\[|\](?=\s*(?:[\n,\]]|\Z))|\Z)")

# A confusion matrix, as NumPy prints it: [[970   2]
_NUMPY_ARRAY: Final = lazy_pattern(rb"\[{1,4}\s*[-+]?\d[\d.e+-]*[ \t]+[-+\d.]")

# An object whose first member is a list, or an object again.
_TABLE_FIRST: Final = lazy_pattern(rb'\{\s*"(?:[^"\\]|\\.)*"\s*:\s*(?:\{\s*"|\[)')

_HISTORY: Final = lazy_pattern(rb'"log_history"\s*:\s*\[')

# The first byte of an item in a list, as opposed to a record.
_LIST_ITEM: Final = frozenset({b"[", b"-", *(str(digit).encode() for digit in range(10))})
_LOOKAHEAD_BYTES: Final = 200

# The longest item after the last comma of a truncated list.
_LONGEST_LAST: Final = 60

# A program may print its settings as an object of at most this many bytes, above this many lines.
_LONGEST_SETTINGS: Final = 1 << 14
_MIN_LINES_BELOW: Final = 2
# [20] loss: 2.5, in contrast, is a line of text.
_JSON_LINE: Final = lazy_pattern(rb"\s*(?:[\]{},\"]|\[[^\n]*[\[\],]\s*$)")

# The message of the decoder if another value follows a valid one.
_EXTRA_DATA: Final = "Extra data"

# A loss with the first character of its value.
_LOSS_VALUE: Final = lazy_pattern(r'loss"\s{0,8}:\s{0,8}["\[]{0,2}[-+.\dnNiI]')


def is_document(head: bytes, *, is_complete: bool) -> bool:
    """Return True if a text is one JSON document, rather than one object per line."""
    return _is_document(head.removeprefix(b"\xef\xbb\xbf").strip(), is_complete=is_complete)


# The only line of a text may be examined as well.
@lru_cache(maxsize=1)
def _is_document(text: bytes, *, is_complete: bool) -> bool:
    if text.startswith(b"["):
        if _NUMPY_ARRAY.match(text) or _has_text_below_list(text):
            return False
        return _LIST.match(text) is not None or _is_of_numbers(text)
    if not text.startswith(b"{"):
        return False
    if holds_history(text):
        return True
    if _has_text_below(text):
        return False
    first, _, remainder = text.partition(b"\n")
    first = first.strip()
    if remainder:
        opened = first.endswith((b"[", b"{"))
        # An opening bracket may be on the next line, and a list may span several lines.
        following = remainder[:_LOOKAHEAD_BYTES].split(maxsplit=1)[:1]
        opened |= first.endswith(b":") and following in ([b"{"], [b"["])
        opened |= (
            first.endswith((b":", b",")) and remainder[:_LOOKAHEAD_BYTES].lstrip()[:1] in _LIST_ITEM
        )
        return opened or (first.endswith(b",") and remainder.lstrip().startswith(b'"'))
    return _is_table(first) if is_complete else _TABLE_FIRST.match(text) is not None


def _has_text_below_list(text: bytes) -> bool:
    """Return True if a whole list on the first line is above a line of text."""
    first, _, below = text.partition(b"\n")
    is_whole = first.rstrip().endswith(b"]") and first.count(b"[") == first.count(b"]")
    below = below.strip()
    is_json = below.startswith((b"[", b",")) or (below[:1] == b"{" and below[1:2] != b"'")
    return is_whole and bool(below) and not is_json


def _has_text_below(text: bytes) -> bool:
    """Return True if an object of settings at the head is above the lines of a log."""
    end = text.find(b"\n}\n", 0, _LONGEST_SETTINGS)
    if end < 0 or b'loss"' in text[:end]:
        return False
    below = text[end + 3 :].lstrip()
    lines = [line for line in below.split(b"\n", _MIN_LINES_BELOW) if line.strip()]
    return len(lines) >= _MIN_LINES_BELOW and not any(
        _JSON_LINE.match(line) for line in lines[:_MIN_LINES_BELOW]
    )


def holds_history(head: bytes) -> bool:
    """Return True if a JSON text begins like the state of the HF Trainer."""
    return _HISTORY.search(head) is not None


def _is_of_numbers(text: bytes) -> bool:
    """Return True if a list has only numbers, up to its end or the end of the head.

    ``[1, 2000] loss: 2.5``, in contrast, is a line of text.
    """
    inside, closed, after = text[1:].decode("utf-8", "replace").partition("]")
    cells = [cell.strip() for cell in inside.split(",")]
    if not closed and len(cells) > 1:
        # The head may end inside a number, and a truncated list inside any item.
        last = cells.pop()
        after = last if len(last) > _LONGEST_LAST or "\n" in last else ""
    written = all(cells) and all(meaning(cell.strip('"'))[0] in (NUMBER, NULL) for cell in cells)
    return written and not after.strip()


def _is_table(line: bytes) -> bool:
    """Return True if a single line has columns or several records, rather than one record."""
    text = line.decode("utf-8", "replace")
    try:
        value = _decode_object(text)
    except (ValueError, RecursionError) as error:
        is_open = _TABLE_FIRST.match(line) is not None and line.count(b"[") > line.count(b"]")
        has_record = isinstance(error, JSONDecodeError) and error.msg == _EXTRA_DATA
        return is_open or (not has_record and _breaks_off(text))
    by_path = dict(leaves(value, ()))
    values = list(by_path.values())
    lists = [leaf for leaf in values if isinstance(leaf, list)]
    if values == [[]] * len(values):  # nothing was logged yet
        return bool(values)
    if any(len(item) > LONG or (item and isinstance(item[0], dict)) for item in lists):
        return True
    if is_history(by_path):
        return True
    # Each metric of Megatron-LM's tests has values and its first and last step.
    inside = [metric.values() if isinstance(metric, dict) else () for metric in value.values()]
    numbered = all(any(map(is_numbered, members)) for members in inside)
    return numbered or (len(lists) == len(values) and any(len(item) > 1 for item in lists))


def _decode_object(text: str) -> Any:
    """Return the value of a text that begins with a JSON object, repaired if need be.

    Raises:
        ValueError: If the text is not one value.
        RecursionError: If it is nested too deeply.
    """
    try:
        return DECODER.decode(text)
    except JSONDecodeError as error:
        if error.msg == _EXTRA_DATA:
            raise
        repaired = repair_fault(text, error.pos)
        if repaired == text:
            raise
    return DECODER.decode(repaired)


def _breaks_off(line: str) -> bool:
    """Return True if a line is the start of a record with a loss: a paste that is cut."""
    return _LOSS_VALUE.search(line) is not None and decode_line(line) == ([], "breaks off")
