"""Tell one JSON document from JSON lines, which hold an object each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from stabdiag.readers.json.keyed import LONG, number_of
from stabdiag.readers.json.tolerant import DECODER, mended
from stabdiag.readers.words import NULL, NUMBER, meaning

# A list of objects or of lists, as against a line of text that begins with a bracket.
_LIST: Final = re.compile(rb"\[\s*(?:\{\s*(?:[\"}]|\Z)|\[|\]|\Z)")

# An object whose first member is a list, or an object again.
_TABLE_FIRST: Final = re.compile(rb'\{\s*"(?:[^"\\]|\\.)*"\s*:\s*(?:\{\s*"|\[)')

_HISTORY: Final = re.compile(rb'"log_history"\s*:\s*\[')

# What goes on with a list, and begins no record.
_IN_A_LIST: Final = frozenset({b"[", b"-", *(str(digit).encode() for digit in range(10))})
_LOOK: Final = 200

# What may stand behind the last comma of a list that breaks off.
_LONGEST_LAST: Final = 60


def is_document(head: bytes, *, is_complete: bool) -> bool:
    """Return whether a text is one JSON document, and not one object a line."""
    text = head.removeprefix(b"\xef\xbb\xbf").strip()
    if text.startswith(b"["):
        return _LIST.match(text) is not None or _is_of_numbers(text)
    if not text.startswith(b"{"):
        return False
    if holds_history(text):
        return True
    first, _, rest = text.partition(b"\n")
    first = first.strip()
    if rest:
        opened = first.endswith((b"[", b"{"))
        # An opening bracket may stand on the next line, and a list may run over many.
        following = rest[:_LOOK].split(maxsplit=1)[:1]
        opened |= first.endswith(b":") and following in ([b"{"], [b"["])
        opened |= first.endswith((b":", b",")) and rest[:_LOOK].lstrip()[:1] in _IN_A_LIST
        return opened or (first.endswith(b",") and rest.lstrip().startswith(b'"'))
    return _is_table(first) if is_complete else _TABLE_FIRST.match(text) is not None


def holds_history(head: bytes) -> bool:
    """Return whether a JSON text begins as the state of the HF Trainer does."""
    return _HISTORY.search(head) is not None


def _is_of_numbers(text: bytes) -> bool:
    """Return whether a list holds nothing but numbers, to its end or to that of what is looked at.

    Whereas ``[1, 2000] loss: 2.5`` is a line of text.
    """
    inside, closed, after = text[1:].decode("utf-8", "replace").partition("]")
    cells = [cell.strip() for cell in inside.split(",")]
    if not closed and len(cells) > 1:
        # What is looked at may end inside a number, and a list that breaks off inside anything.
        last = cells.pop()
        after = last if len(last) > _LONGEST_LAST or "\n" in last else ""
    written = all(cells) and all(meaning(one.strip('"'))[0] in (NUMBER, NULL) for one in cells)
    return written and not after.strip()


def _is_table(line: bytes) -> bool:
    """Return whether a lone line holds whole columns or records rather than one record."""
    try:
        value = DECODER.decode(mended(line.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return _TABLE_FIRST.match(line) is not None and line.count(b"[") > line.count(b"]")
    leaves = list(_leaves(value))
    lists = [leaf for leaf in leaves if isinstance(leaf, list)]
    if leaves == [[]] * len(leaves):  # nothing was logged yet
        return bool(leaves)
    if any(len(one) > LONG or (one and isinstance(one[0], dict)) for one in lists):
        return True
    # Each metric of Megatron-LM's tests has values beside the steps at which they begin and end.
    inside = [one.values() if isinstance(one, dict) else () for one in value.values()]
    numbered = all(any(map(_is_numbered, members)) for members in inside)
    return numbered or (len(lists) == len(leaves) and any(len(one) > 1 for one in lists))


def _is_numbered(value: object) -> bool:
    return isinstance(value, dict) and len(value) > 1 and all(map(number_of, value))


def _leaves(value: object) -> Iterator[object]:
    """Yield all values that are no objects; an object with numbered keys counts as a list."""
    if not isinstance(value, dict):
        yield value
    elif _is_numbered(value):
        yield list(value.values())
    else:
        for member in value.values():
            yield from _leaves(member)
