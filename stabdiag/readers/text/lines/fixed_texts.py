"""Find fixed texts in a block of a log, and the lines that contain them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain


def find_positions(data: bytes, text: bytes) -> Iterator[int]:
    """Yield the positions of a text in the data."""
    # Most logs lack the first byte of most texts, and the search for a single byte is much faster.
    place = data.find(text) if text[:1] in data else -1
    while place >= 0:
        yield place
        place = data.find(text, place + len(text))


def positions_of_any(data: bytes, texts: Iterable[bytes]) -> list[int]:
    """Return the positions of any of some texts, in order: far faster than with a pattern."""
    return sorted(chain.from_iterable(find_positions(data, text) for text in texts))


def lines_with(data: bytes, text: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the start and the text of each line that contains a text."""
    place = data.find(text)
    while place >= 0:
        begin, end = data.rfind(b"\n", 0, place) + 1, data.find(b"\n", place)
        yield begin, data[begin : end if end >= 0 else None]
        place = data.find(text, end) if end >= 0 else -1


def line_end(data: bytes, place: int, longest: int) -> int:
    """Return the end of the line at ``place``, or ``longest`` bytes after it if it is longer."""
    end = data.find(b"\n", place, place + longest)
    return end if end >= 0 else min(place + longest, len(data))
