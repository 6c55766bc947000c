"""The engine that reads a text log by a grammar."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Final

import numpy as np

from stabdiag.errors import NoUsableRecord
from stabdiag.model.arrays import Floats
from stabdiag.model.events import Event, EventCode, EventKind, LeftOut
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import is_a_loss
from stabdiag.model.text import plural
from stabdiag.readers.blocks import blocks, count_line_ends
from stabdiag.readers.columns import BadLine, Column, Columns
from stabdiag.readers.copyable import Copyable
from stabdiag.readers.later_forms.left_out import lost_values, names_lost_value
from stabdiag.readers.pieces import Rows, join
from stabdiag.readers.source import Stream
from stabdiag.readers.text.alternating import AlternatingLines
from stabdiag.readers.text.continuing_lines import ContinuingLines
from stabdiag.readers.text.lines.clean import Text, head_blocks
from stabdiag.readers.text.lines.cut_end import without_cut_number
from stabdiag.readers.text.lines.fixed_texts import find_positions, line_end
from stabdiag.readers.text.lines.grammar import Grammar, Kind, StatusLine, TextPart, may_match
from stabdiag.readers.text.lines.line_forms import line_forms, may_contain
from stabdiag.readers.text.loss_places import LossPlaces
from stabdiag.readers.text.losses.evaluation_blocks import EvaluationBlocks
from stabdiag.readers.text.lost_lines import LostLines
from stabdiag.readers.text.messages.failure_search import Failures, may_report
from stabdiag.readers.text.messages.reports import (
    failure_patterns,
    separate_reports,
    with_reports,
    without_introduction,
)
from stabdiag.readers.text.messages.search import Messages, may_be_message
from stabdiag.readers.text.messages.status_lines import OVERFLOWS, failure_lines
from stabdiag.readers.text.names.standard_names import normalize
from stabdiag.readers.text.printed_arguments import find_arguments
from stabdiag.readers.text.steps import announced_number
from stabdiag.readers.text.table import Table
from stabdiag.readers.text.unread import MAX_FORMS, UnreadLines
from stabdiag.readers.words import NULL

# At most this many forms of idle lines are kept: the digits of a few messages vary.
_MAX_IDLE_FORMS: Final = 5000

# Arguments are searched for in this many bytes of a log without records.
_CONFIG_BYTES: Final = 1 << 24

_NO_TEXTS: Final[Mapping[bytes, Text]] = {}


def read_log(
    stream: Stream, name: str, grammar: Grammar, texts: Mapping[bytes, Text] = _NO_TEXTS
) -> Columns:
    """Read a stream of the named format with its grammar.

    Some of its blocks were cleaned before: ``texts`` are their texts.
    """
    log = TextLog(name, grammar, texts)
    last = b""
    for block in blocks(stream, size=grammar.block, joined=True):
        if last:
            log.add(last)
        last = block
    if last:
        log.add(without_cut_number(last))
    return log.columns(stream)


class TextLog(Copyable):
    """The part of a text log that was read so far. ``add`` reads appended text."""

    def __init__(
        self, name: str, grammar: Grammar, texts: Mapping[bytes, Text] = _NO_TEXTS
    ) -> None:
        """Read the named format with its grammar; ``texts`` are the texts of some blocks."""
        # The shapes that a kind of line has seen belong to this log.
        grammar = replace(grammar, kinds=tuple(replace(kind) for kind in grammar.kinds))
        self._name = name
        self._grammar = grammar
        self._texts = texts
        self._table = Table(grammar)
        self._messages = Messages()
        # The span of the last line in a list, if it is a sentence that no rule knows.
        self._closing: list[tuple[int, int]] = []
        self._failures = Failures(pattern=b"", ignored=failure_patterns(grammar))
        self._config: dict[str, object] = {}
        self._ends: list[int] = []
        self._unnamed = 0
        self._lost = 0
        self._evaluations = EvaluationBlocks()
        self._unread = UnreadLines()
        self._places = LossPlaces()
        self._lost_lines = LostLines()
        self._alternating = AlternatingLines(grammar.step)
        self._continuing = ContinuingLines(grammar.step)
        # The forms of the lines just above, since the last line with a record or a message.
        self._idle_forms: frozenset[bytes] = frozenset()
        self._offset = 0
        self._line = 1

    def add(self, block: bytes) -> tuple[Text, list[TextPart], list[tuple[int, int]]]:
        """Read one more block; return its text, the parts in it, and the spans of messages."""
        # A warning may be repeated for megabytes.
        if self._idle_forms and line_forms(block) <= self._idle_forms:
            self._offset += len(block)
            self._line += count_line_ends(block)
            return Text(b"", first_line=self._line), [], []
        text, written = self._clean(block)
        lost = self._lost
        parts_by_kind = self._grammar.find(text.data)
        self._look_above_records(text.data, parts_by_kind)
        self._count_unknown_values(text.data, parts_by_kind)
        if self._grammar.ended is not None and may_match(self._grammar.ended, text.data):
            ends = re.finditer(self._grammar.ended, text.data)
            self._ends += [self._offset + end.start() for end in ends]
        unmatched = _other_lines(text.data, parts_by_kind)
        parts = [part for _, part in parts_by_kind]
        self._alternating.look(text.data, unmatched, parts, self._line)
        self._continuing.look(text.data, parts, self._line)
        only_records = unmatched is not None and not (
            may_report(unmatched) or may_be_message(unmatched)
        )
        reports = (
            self._failures.find_exceptions(text.data)
            if only_records
            else self._failures.find(text.data)
        )
        if reports:
            reports, parts_by_kind = separate_reports(reports, parts_by_kind, text.data)
            if not self._table:
                reports = without_introduction(reports, parts_by_kind, text.data)
            parts_by_kind += [(self._failures, part) for part in reports]
        for kind, part in parts_by_kind:
            self._table.add(kind, part, text.data, self._offset)
        spans = self._messages.look(text, self._offset, quick=only_records)
        starts = (int(part.starts[-1]) for _, part in parts_by_kind if len(part.starts))
        used = max((*starts, *(end for _, end in spans)), default=-1)
        self._closing = self._messages.look_at_end(text, self._offset, used)
        spans += self._closing
        boundaries = {begin for begin, _ in spans} | {end for _, end in spans}
        for begin in sorted(_line_begins(text.data, reports) - boundaries):
            self._messages.add_report(text, self._offset, begin)
        read = [part for kind, part in parts_by_kind if kind is not self._failures]
        may_count = self._look_for_unread(text, written, read, reports)
        is_used = bool(parts_by_kind or reports or spans or may_count or self._lost > lost)
        self._idle_forms = frozenset() if is_used else self._with_idle_forms(block)
        self._offset += len(text.data)
        self._line += count_line_ends(block)
        return text, [part for _, part in parts_by_kind], spans

    def _clean(self, block: bytes) -> tuple[Text, bytes]:
        """Return the text of a block in usual notations and names, and in the names of the log."""
        # The first block is often a whole head.
        texts = head_blocks(block) if self._line == 1 and not self._texts else self._texts
        text = (texts[block] if block in texts else Text(block)).from_line(self._line)
        written = text.data
        text.data = normalize(text.data, self._grammar.normalizations)
        if self._grammar.has_evaluation_blocks:
            text.data = self._evaluations.mark(text.data)
        return text, written

    def _look_above_records(
        self, data: bytes, parts_by_kind: Sequence[tuple[Kind, TextPart]]
    ) -> None:
        """Find the arguments that the program prints above its first record."""
        if not self._table and self._offset < _CONFIG_BYTES:
            until = min((min(part.starts) for _, part in parts_by_kind), default=len(data))
            arguments = find_arguments(data[:until], self._grammar)
            self._config = {**arguments, **self._config}

    def _count_unknown_values(
        self, data: bytes, parts_by_kind: Sequence[tuple[Kind, TextPart]]
    ) -> None:
        """Count the lines that are only NaN, or that say that an unknown value is NaN."""
        if not may_contain(data, b"nan", b"NaN", b"Nan"):
            return
        self._unnamed += len(_UNNAMED_NAN.findall(data))
        if may_contain(data, *_FINDS):
            # Above the first record, it is a value of the data.
            starts = (min(part.starts) for kind, part in parts_by_kind if kind.is_record)
            begin = 0 if self._table else min(starts, default=0)
            self._lost += _count_lost_values(data, begin)

    def _look_for_unread(
        self, text: Text, written: bytes, parts: Sequence[TextPart], reports: Sequence[TextPart]
    ) -> bool:
        """Count the lines that may be records and are not read; return False if none may be."""
        may_count = self._unread.look(text, parts, self._line, reports=reports)
        self._places.look(text.data, written, parts, reports=reports, first_line=self._line)
        self._lost_lines.look(text.data, parts, reports, self._line)
        return may_count

    def _with_idle_forms(self, block: bytes) -> frozenset[bytes]:
        """Return the forms of idle lines with the lines of a block; none if they may matter."""
        is_config = not self._table and self._offset < _CONFIG_BYTES
        if is_config or self._grammar.ended is not None or self._grammar.has_evaluation_blocks:
            return frozenset()
        forms = line_forms(block)
        if len(forms) > MAX_FORMS:
            return frozenset()
        both = forms | self._idle_forms
        return both if len(both) <= _MAX_IDLE_FORMS else forms

    def columns(self, stream: Stream) -> Columns:
        """Return the columns of all blocks, under the name of their stream."""
        if not self._table:
            raise NoUsableRecord(
                f"{stream.name}: no record could be read; no line has the form of {self._name}"
            )
        done = self._table.finished(announced_number(self._config, self._grammar.total))
        if done.ranks > 1:
            stream.notes.append(
                f"the log contains the lines of {done.ranks} ranks: one rank counts for each record"
            )
        rows = _without_ranks(done.rows) if done.ranks > 1 else done.rows
        scale = assign(rows.names).columns.get("loss_scale")
        rows = with_reports(rows, rows.names, join([rows], scale) if scale else None)
        return Columns(
            source=stream.name,
            format=self._name,
            names=(*rows.names,),
            rows=rows.rows,
            load=partial(join, [rows]),
            notes=(*stream.notes,),
            events=(*self._hidden_nans(rows), *self._messages.events(done.reached_step)),
            config=self._config,
            ends=tuple(sorted({*np.searchsorted(done.at, self._ends).tolist()})),
            left_out=(
                *(
                    self._unread.left_out()
                    or self._places.left_out()
                    or self._continuing.left_out()
                    or (*self._lost_lines.left_out(),)
                ),
                *self._alternating.left_out(),
                *self._unnamed_values(),
            ),
            distinguishes_null=_has_null(rows),
        )

    def _unnamed_values(self) -> Iterator[LeftOut]:
        """Yield an entry for lines that are only NaN, as a script prints a loss, or that report it.

        These lines do not name the value that is not finite.
        """
        if self._unnamed:
            message = f"{plural(self._unnamed, 'line is', 'lines are')} only 'nan'"
            yield LeftOut(code=EventCode.LINES_LEFT_OUT, message=message, count=self._unnamed)
        yield from self.lost_values()

    def lost_values(self) -> Iterator[LeftOut]:
        """Yield an entry for lines that say that an unknown value is not finite."""
        if self._lost:
            yield lost_values(self._lost)

    def _hidden_nans(self, rows: Rows) -> Iterator[Event]:
        """Yield an event with the number of NaN losses; the framework hides most of them."""
        if self._grammar.left_out not in rows.names:
            return
        count = int(np.isnan(join([rows], self._grammar.left_out).logged).sum())
        if count:
            yield Event(
                kind=EventKind.HIDDEN_NAN,
                code=EventCode.NOT_FINITE,
                message=f"{plural(count, 'loss counts', 'losses count')} as NaN: the log says so,"
                " or the line has no loss and its other fields say why",
            )


# A line that is only NaN, as a script prints the loss of a batch.
_UNNAMED_NAN: Final = lazy_pattern(
    rb"(?m)\n[ \t]{0,8}(?:tensor\()?(?:nan|NaN|Nan)(?:, [^\n]{1,40})?\)?[ \t\r]{0,8}$"
)

# A line with one of these words may report a NaN.
_FINDS: Final = (b"ound ", b"etected", b"ncountered")
_LONGEST_REPORT: Final = 400

# Lines that any program may print between the records of a log of another format.
_MESSAGE_LINES: Final = Grammar(step="step", kinds=(*failure_lines("loss", "step"), *OVERFLOWS))


class InterleavedMessages(TextLog):
    """These lines, block by block, joined into one text."""

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__("", _MESSAGE_LINES)
        # The position of each message in the text, and the number of records above it.
        self.positions: list[tuple[int, int]] = []

    def _look_for_unread(
        self, text: Text, written: bytes, parts: Sequence[TextPart], reports: Sequence[TextPart]
    ) -> bool:
        """Return False: the reader of the other format counts the lines that it does not read."""
        return False

    def look(self, others: Sequence[BadLine], lines: int, records: int) -> set[int]:
        """Add the other lines of a block, and return the numbers of the lines with messages.

        The block comes after this many ``lines`` and ``records``. The lines of ``others`` are
        counted from its start.
        """
        self._line, offset = lines + others[0].line, self._offset
        numbers = np.array([other.line for other in others])
        gaps = np.diff(numbers, prepend=numbers[0]).tolist()
        block = "".join("\n" * gap + other.text for gap, other in zip(gaps, others, strict=True))
        text, parts, spans = self.add(block.replace("\r", " ").encode("utf-8", "replace"))
        messages = sorted(
            [*spans, *((position, position) for part in parts for position in part.starts)]
        )
        begin, end = (
            text.line_numbers([span[side] for span in messages]) - lines for side in (0, 1)
        )
        rows = np.searchsorted(numbers, begin).tolist()
        for (position, _), row in zip(messages, rows, strict=True):
            self.positions.append((offset + position, records + others[row].above))
        # A sentence that no rule knows may be a record: whether it is left out is not decided here.
        stretches = (
            range(first, last + 1)
            for span, first, last in zip(messages, begin.tolist(), end.tolist(), strict=True)
            if span not in self._closing
        )
        return {number for stretch in stretches for number in stretch}

    def among(
        self, steps: Floats, names: Sequence[str], scale: Column | None
    ) -> tuple[Rows, tuple[Event, ...]]:
        """Return the messages among records with these steps and columns; see ``Table.among``.

        The ``scale`` is the loss scale of the records, if it was logged.
        """
        places, above = np.array(self.positions, dtype=np.int64).reshape(-1, 2).T
        following = np.searchsorted(above, np.arange(len(steps)), side="right")
        done = self._table.among(np.append(places, self._offset)[following], steps)
        return with_reports(done.rows, names, scale), self._messages.events(done.reached_step)


def _count_lost_values(data: bytes, begin: int) -> int:
    """Return the number of lines from a position on that say that an unknown value is NaN."""
    places = (place for word in _FINDS for place in find_positions(data, word))
    starts = {data.rfind(b"\n", 0, place) + 1 for place in places if place >= begin}
    lines = (data[start : line_end(data, start, _LONGEST_REPORT)] for start in starts)
    return sum(map(names_lost_value, lines))


def _line_begins(data: bytes, parts: Iterable[TextPart]) -> set[int]:
    """Return the positions where the lines of some parts begin."""
    return {data.rfind(b"\n", 0, start) + 1 for part in parts for start in part.starts}


def _other_lines(data: bytes, parts_by_kind: Sequence[tuple[Kind, TextPart]]) -> bytes | None:
    """Return the lines that belong to no part, or to one without a loss, which may be reports.

    If these are most lines, return each form of a line once, including reports, or None if there
    are many forms.
    """
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    are_most = 2 * sum(len(part.starts) for _, part in parts_by_kind) < len(ends)
    starts = [
        part.starts
        for kind, part in parts_by_kind
        if not (are_most and isinstance(kind, StatusLine)) and any(map(is_a_loss, part.names))
    ]
    is_other = np.ones(len(ends) + 1, dtype=bool)
    is_other[np.searchsorted(ends, np.concatenate([np.empty(0, dtype=np.int64), *starts]))] = False
    # The text begins with a newline, and usually ends on one.
    is_other[0] = False
    is_other[-1] &= not data.endswith(b"\n")
    if not is_other.any():
        return b""
    lines = b"\n".join(compress(data.split(b"\n"), is_other.tolist()))
    if not are_most:
        return lines
    forms = line_forms(lines)
    return b"\n".join(forms) if len(forms) <= MAX_FORMS else None


def _without_ranks(rows: Rows) -> Rows:
    """Return rows without the number of their rank, after the lines of one rank were chosen."""
    parts = {name: part for name, part in rows.parts.items() if not assign([name]).has("rank")}
    return replace(rows, parts=parts)


def _has_null(rows: Rows) -> bool:
    """Return True if a value of the log is written as a null, as in ``loss: None``."""
    return any(
        bool((piece.states == NULL).any()) for parts in rows.parts.values() for _, piece in parts
    )
