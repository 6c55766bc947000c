"""Lines outside the records of a text log whose number turns into NaN and stays NaN.

``energy: 2.31`` is not a record of a log that also has evaluation losses, but ``energy: nan`` from
some line on may still be the failure of the run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from stabdiag.model.events import EventCode, LeftOut
from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.copyable import Copyable
from stabdiag.readers.text.lines.fixed_texts import lines_with
from stabdiag.readers.text.lines.grammar import TextPart
from stabdiag.readers.text.lines.line_forms import ALL_DIGITS, may_contain, outline
from stabdiag.readers.text.unread_forms import MAX_UNREAD_LINE, line_numbers, row_form

# A value of a few lines may be missing by chance.
_MIN_LOST: Final = 3
_MAX_OUTLINES: Final = 2000
# Megatron-LM counts nan iterations on each line.
_NAN_WORDS: Final = (b"nan", b"NaN", b"NAN", b"Nan")
_NAN_VALUE: Final = lazy_pattern(rb"(?:nan|NaN|NAN|Nan)(?<![\w.]...)(?<!of ...)(?![\w.(])")
_TWO_LETTERS: Final = lazy_pattern(rb"[A-Za-z]{2}")


class _Lost(NamedTuple):
    """The lines of a form with NaN since its last number: how many, and the first of them."""

    lines: int
    number: int
    text: bytes


class _LinesRead:
    """The lines of a block that were read; a record may have several."""

    def __init__(self, data: bytes, parts: Sequence[TextPart]) -> None:
        """Find the lines on which the records of some parts begin."""
        self._begins = sorted(line_numbers(data, (at for part in parts for at in part.starts)))
        with_nan = (at for part in parts for at in _starts_with_nan(part))
        self._with_nan = line_numbers(data, with_nan)

    def with_nan(self, number: int) -> bool:
        """Return True if a line is in a record whose NaN was read."""
        place = bisect_right(self._begins, number)
        return place > 0 and self._begins[place - 1] in self._with_nan


def _starts_with_nan(part: TextPart) -> Iterator[int]:
    for cells in part.cells:
        yield from (
            start
            for start, cell in zip(part.starts, cells, strict=True)
            if cell is not None and cell.lstrip(b"+-")[:3].lower() == b"nan"
        )


class LostLines(Copyable):
    """Counts the lines with NaN in the place of a number that earlier lines had."""

    def __init__(self) -> None:
        """Begin without a line."""
        # The forms of lines with numbers, without digits, and those whose number is now NaN.
        self._outlines: frozenset[bytes] = frozenset()
        self._lost: dict[bytes, _Lost] = {}

    def look(
        self, data: bytes, parts: Sequence[TextPart], reports: Sequence[TextPart], first_line: int
    ) -> None:
        """Add the next block of the log, the parts in it, and the reports of failures."""
        if not self._lost and not _has_lost(data):
            if len(self._outlines) < _MAX_OUTLINES:
                self._outlines |= {*outline(data).split(b"\n")}
            return
        used = line_numbers(data, [start for part in reports for start in part.starts])
        is_read = _LinesRead(data, parts)
        lines = data.split(b"\n")
        others = [
            (number, line[:MAX_UNREAD_LINE])
            for number, line in enumerate(lines)
            if line and number not in used and not is_read.with_nan(number)
        ]
        shapes = [line.translate(ALL_DIGITS) for _, line in others]
        lost = {shape: row_form(shape) for shape in {*shapes} if _is_lost(shape)}
        if lost or self._lost:
            forms = {*lost.values(), *self._lost}
            # Only shapes that begin and end like these forms may have one of them.
            heads = tuple({form.partition(b"0")[0].partition(b" ")[0] for form in forms})
            ends = tuple({form.rpartition(b"0")[2].rpartition(b" ")[2] for form in forms})
            known = {row_form(shape) for shape in self._outlines if _is_like(shape, heads, ends)}
            finite = {
                shape: row_form(shape)
                for shape in {*shapes} - {*lost}
                if _is_like(shape, heads, ends)
            }
            for (number, line), shape in zip(others, shapes, strict=True):
                form = lost.get(shape) or finite.get(shape, b"")
                if form not in forms:
                    continue
                if shape not in lost:
                    known.add(form)
                    self._lost.pop(form, None)
                elif form in known:
                    first = self._lost.get(form, _Lost(0, first_line + number - 1, line))
                    self._lost[form] = first._replace(lines=first.lines + 1)
        if len(self._outlines) < _MAX_OUTLINES:
            self._outlines |= {shape for shape in shapes if not _is_lost(shape)}

    def left_out(self) -> Iterator[LeftOut]:
        """Yield an entry for the lines of each form that end with NaN."""
        for count, number, text in self._lost.values():
            if count >= _MIN_LOST:
                yield LeftOut(
                    code=EventCode.CELLS_LEFT_OUT,
                    message=f"{count} lines have NaN in the place of a number that they had before",
                    count=count,
                    line=number,
                    text=text.decode("utf-8", "replace"),
                )


def _is_like(shape: bytes, heads: tuple[bytes, ...], ends: tuple[bytes, ...]) -> bool:
    return shape.rstrip().endswith(ends) and shape.lstrip().startswith(heads)


def _has_lost(data: bytes) -> bool:
    """Return True if a line of a text has a name and NaN as a value."""
    present = [word for word in _NAN_WORDS if may_contain(data, word)]
    forms = outline(data) if present else b""
    return any(_is_lost(line) for word in present for _, line in lines_with(forms, word))


def _is_lost(shape: bytes) -> bool:
    """Return True if a line has a name and NaN as a value."""
    return (
        b"nan" in shape.lower()
        and _NAN_VALUE.search(shape) is not None
        and _TWO_LETTERS.search(_NAN_VALUE.sub(b"", shape)) is not None
    )
