r"""Tables that pandas prints, as tables with one header.

pandas prints a wide table in parts, the name of the index below the header, and the name of a
single column below its values.

::

           train_loss  valid_loss  \
    epoch
    1          2.3102      2.4021              1    2.3102
    2          2.1034      2.3117              2    2.1034
                                               Name: train_loss, dtype: float64
           accuracy
    epoch
    1          0.1012
    2          0.1523
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.source import Stream

# A longer text is not printed by pandas, which leaves out rows. The head is searched for a table.
_MAX_FRAME_BYTES: Final = 1 << 20
_FRAME_HEAD: Final = 1 << 16

# Marks that a plain table lacks: a header that continues below, a line with the name of the index,
# and the line below a single column.
_CONTINUED: Final = b" \\\n"
_INDEX_NAME: Final = lazy_pattern(
    rb"(?m)^[ \t]{1,400}[A-Za-z][^\n]{0,2000}\n[A-Za-z_][\w./-]{0,60}[ \t]{0,400}\n\S{1,60}[ \t]"
)
_NAME_BELOW: Final = lazy_pattern(
    rb"Name: ([^\n,]{1,80}), (?:Length: \d{1,12}, )?dtype: [\w\[\]]{1,20}[ \t]*"
)
_DTYPE: Final = b"dtype: "

_FRAME_NAME: Final = lazy_pattern(rb"[^\W\d][^\s=:]{0,80}")
_FRAME_VALUE: Final = lazy_pattern(
    rb"[-+]?(?:\d{1,20}(?:\.\d{0,20})?(?:e[-+]?\d{1,4})?|inf)|NaN|\.{2,3}"
)
_ROW_NUMBER: Final = lazy_pattern(rb"\d{1,12}|\.{2,3}")

# A row of a column has a cell for the index and one for the value.
_COLUMN_CELLS: Final = 2


@frozen
class _Part:
    """A header and its rows, from one line up to another."""

    index: bytes
    names: list[bytes]
    rows: list[list[bytes]]
    end: int
    is_continued: bool


def plain_frames(stream: Stream) -> Stream:
    """Return the stream with plain tables in place of pandas tables, or the stream itself."""
    head = stream.peek(_FRAME_HEAD)
    if b"\0" in head or not _has_marks(head):
        return stream
    data = stream.peek(_MAX_FRAME_BYTES)
    if len(data) == _MAX_FRAME_BYTES:
        return stream
    lines = data.replace(b"\r\n", b"\n").split(b"\n")
    plain = _with_named_columns([*_with_whole_tables(lines)])
    return stream if plain == lines else stream.rewritten(iter([b"\n".join(plain)]))


def _has_marks(data: bytes) -> bool:
    return _CONTINUED in data or _DTYPE in data or _INDEX_NAME.search(data) is not None


def _with_whole_tables(lines: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the lines, with each table of several parts or with a named index as one table."""
    at = 0
    while at < len(lines):
        part = _part(lines, at)
        if part is None:
            yield lines[at]
            at += 1
            continue
        parts = [part]
        while parts[-1].is_continued:
            following = _part(lines, _next_content(lines, parts[-1].end))
            if following is None or _index(following) != _index(part):
                break
            parts.append(following)
        end = parts[-1].end
        is_plain = len(parts) == 1 and not part.index
        yield from lines[at:end] if is_plain else _joined(parts)
        at = end


def _part(lines: Sequence[bytes], at: int) -> _Part | None:
    """Return the part of a table whose header is on a line, or None."""
    if at >= len(lines) or lines[at][:1] not in (b" ", b"\t"):
        return None
    names = lines[at].split()
    is_continued = names[-1:] == [b"\\"]
    names = names[:-1] if is_continued else names
    if not names or not all(map(_FRAME_NAME.fullmatch, names)):
        return None
    below = lines[at + 1].split() if at + 1 < len(lines) else []
    index = below[0] if len(below) == 1 and _FRAME_NAME.fullmatch(below[0]) else b""
    begin = at + 2 if index else at + 1
    rows: list[list[bytes]] = []
    for line in lines[begin:]:
        cells = line.split()
        if len(cells) != len(names) + 1 or not _FRAME_VALUE.fullmatch(cells[-1]):
            break
        rows.append(cells)
    if not rows:
        return None
    return _Part(
        index=index, names=names, rows=rows, end=begin + len(rows), is_continued=is_continued
    )


def _next_content(lines: Sequence[bytes], at: int) -> int:
    """Return the number of the first line from one on that is not blank."""
    return next((n for n in range(at, len(lines)) if lines[n].strip()), len(lines))


def _index(part: _Part) -> list[bytes]:
    return [row[0] for row in part.rows]


def _joined(parts: Sequence[_Part]) -> Iterator[bytes]:
    """Yield the lines of a table whose parts are next to each other."""
    yield from _aligned(
        [
            [parts[0].index, *chain.from_iterable(part.names for part in parts)],
            *(
                [rows[0][0], *chain.from_iterable(row[1:] for row in rows)]
                for rows in zip(*(part.rows for part in parts), strict=True)
            ),
        ]
    )


def _aligned(rows: Sequence[Sequence[bytes]]) -> Iterator[bytes]:
    """Yield the lines of a table whose cells end at the same places."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield b"  ".join(map(bytes.rjust, row, widths))


def _with_named_columns(lines: list[bytes]) -> list[bytes]:
    """Return the lines with the name of each single column above its values.

    The values of a row have names instead of counts, and become names with values.
    """
    if not any(_DTYPE in line for line in lines):
        return lines
    result: list[bytes] = []
    end = 0  # of the column above
    for line in lines:
        name = _NAME_BELOW.fullmatch(line)
        begin = len(result)
        while name is not None and begin > end and _is_entry(result[begin - 1]):
            begin -= 1
        rows = [entry.split() for entry in result[begin:]]
        if name is None or not rows:
            result.append(line)
            continue
        if all(_ROW_NUMBER.fullmatch(row[0]) for row in rows):
            above = result[begin - 1].split() if begin > end else []
            is_named = len(above) == 1 and _FRAME_NAME.fullmatch(above[0]) is not None
            index = above[0] if is_named else b""
            begin -= is_named
            result[begin:] = _aligned([[index, name[1].strip().replace(b" ", b"_")], *rows])
        else:
            result[begin:] = [b"%b: %b" % (*row,) for row in rows]
        end = len(result)
    return result


def _is_entry(line: bytes) -> bool:
    """Return True for a line of a single column: its index, or a name, and a value."""
    cells = line.split()
    return len(cells) == _COLUMN_CELLS and _FRAME_VALUE.fullmatch(cells[1]) is not None
