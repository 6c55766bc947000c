"""Lines of a text log after its last loss that still look like its records.

A grammar finds the lines that it knows. If the loss turns into a word, or the lines change form,
it finds none from there on, and the log seems to end. These lines are counted as left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Final

from stabdiag.model.events import MAX_SUMMARY, EventCode, LeftOut
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_evaluation
from stabdiag.model.text import plural
from stabdiag.readers.copyable import Copyable
from stabdiag.readers.later_forms.left_out import (
    breaks_off,
    count_below,
    header_width,
    rows_end,
    unreadable,
)
from stabdiag.readers.text.lines.clean import LONGEST_TEXT_LINE, Text
from stabdiag.readers.text.lines.counters import DIGIT
from stabdiag.readers.text.lines.cut_end import begins_like
from stabdiag.readers.text.lines.fixed_texts import line_end
from stabdiag.readers.text.lines.grammar import TextPart, is_a_loss
from stabdiag.readers.text.lines.line_forms import SAME_DIGITS, line_forms
from stabdiag.readers.text.unread_forms import (
    MAX_UNREAD_LINE,
    LineForm,
    Words,
    classify_line,
    differs_in_value,
    ends_on_loss,
    has_delimiter,
    has_loss_value,
    is_other_bar,
    is_unread_row,
    loss_shape,
    names_loss,
    other_words,
    repeats_loss,
    row_form,
    states_course,
    whole_line,
)

_ROW_COUNT: Final = lazy_pattern(rb"(?:[\s|\[(]|%b){0,40}(\d{1,12})(?![\d.:/-])" % "│|┃|║".encode())
# A number that is not a total, a part of a date or of a time.
_UNREAD_NUMBER: Final = lazy_pattern(rb"(?<![\w./+-])(?<!\d:)(\d{1,12})(?![\w.+-]|:\d)")

# This many record lines of a block show the forms of its lines: a logger has few.
_SAMPLE_RECORDS: Final = 20
_SAMPLE_STRIDE: Final = 4
_MAX_SAMPLES: Final = 200

# The next step of a log is at most this many times the last one.
_NEXT_STEP: Final = 1.5

# At most this many lines of a block are compared with the form of a record without its loss.
_MAX_EXAMINED_UNREAD: Final = 200
# A block whose lines have at most this many forms only repeats a few messages.
MAX_FORMS: Final = 200
_MAX_BETWEEN: Final = 1 << 14
# The bar of the last evaluation before is this many bytes above the last loss.
_MAX_ABOVE: Final = 1 << 18
# The most bytes below a record that breaks off: the end of a post, or an exception.
_MAX_BELOW: Final = 1 << 13
_BELOW_LOG: Final = lazy_pattern(rb"[ \t\r]{0,80}(?:\n|```|~~~|<|Traceback )")
# The name of a loss at the end of a line, without its value.
_LOSS_WITHOUT_VALUE: Final = lazy_pattern(rb"(?i)(?<![a-z])loss[\"']?[ \t]{0,8}[:=]?[ \t]{0,8}$")

# These may follow the last line of a paste: the end of its block of code, or dots.
_AROUND_PASTES: Final = b" \t\r\n`."


class UnreadLines(Copyable):
    """Counts the lines after the last loss that look like records, block by block."""

    def __init__(self) -> None:
        """Create an empty count."""
        self._shapes: frozenset[bytes] = frozenset()
        # Record lines whose shapes are found once a line is compared with them.
        self._samples: tuple[bytes, ...] = ()
        # The last of them, and their forms, once a line is compared with them.
        self._last_samples: tuple[bytes, ...] = ()
        self._forms: frozenset[bytes] = frozenset()
        # The words of record lines without their loss, and the lines of the last records, from
        # which they are found once a line is compared with them.
        self._words: frozenset[Words] = frozenset()
        self._between = b""
        # The same lines, including the bars of evaluations.
        self._recent = b""
        # More lines above the last loss.
        self._above = b""
        # The line of the last loss: a progress bar repeats its values.
        self._last = b""
        self._alike = 0
        self._others = 0
        self._line: int | None = None
        self._text = b""
        # The number of the last line of the text so far, if it is a record that breaks off.
        self._unfinished: int | None = None
        # The losses in the ends of very long lines, which are cut off.
        self._cut_losses = 0
        self._has_losses = False
        # The delimiters of the header below the last loss; its rows may be further records.
        self._width = 0

    def look(
        self,
        text: Text,
        parts: Iterable[TextPart],
        first_line: int,
        *,
        reports: Sequence[TextPart] = (),
    ) -> bool:
        """Add the next block of the log, the parts in it, and the ``reports`` of failures.

        Return False if no line of the block may count. A report is not a record, so that lines
        above it may be unread records.
        """
        data = text.data
        if self._unfinished is not None and data.strip(_AROUND_PASTES):
            self._count(self._unfinished, b"", is_alike=False)
            self._unfinished = None
        parts = [*parts]
        losses, evaluations, records = _starts_by_kind(parts)
        # Lines below the first one of a record are a part of it.
        evaluations += [start for part in parts for start in part.below]
        self._has_losses |= bool(losses)
        # The records of a log of rewards or scores are all that it has.
        losses = losses or ([] if self._has_losses else [*records])
        begin = self._start_below(data, sorted(losses)) if losses else 0
        if text.cut_losses and _has_long_line(data[data.rfind(b"\n", 0, begin) + 1 :]):
            self._cut_losses += text.cut_losses
        if len(data) - begin < 2:
            return False
        forms = line_forms(data[begin + 1 :] if begin else data)
        if len(forms) <= MAX_FORMS and not any(map(self._may_count, forms)):
            return False
        used = {data.rfind(b"\n", 0, start + 1) for start in evaluations if start > begin}
        used |= {data.rfind(b"\n", 0, start + 1) for part in reports for start in part.starts}
        read = {data.rfind(b"\n", 0, start + 1) for start in records if start > begin}
        self._examine(data, begin, first_line + data.count(b"\n", 0, begin), used, read)
        return True

    def _start_below(self, data: bytes, losses: Sequence[int]) -> int:
        """Begin the count again below the last loss of a block; return the end of its line.

        ``losses`` are the positions of the losses in ascending order.
        """
        lines = (whole_line(data, start) for start in losses[-_SAMPLE_RECORDS::_SAMPLE_STRIDE])
        self._last_samples = (*lines,)
        self._samples = (*self._samples[-_MAX_SAMPLES:], *self._last_samples)
        self._forms = frozenset()
        self._alike, self._others, self._line, self._width = 0, 0, None, 0
        self._cut_losses = 0
        begin = line_end(data, losses[-1], len(data))
        self._last = whole_line(data, losses[-1])
        begin = rows_end(data, begin) if b"|" in self._last else begin
        first = data.rfind(b"\n", 0, losses[-_SAMPLE_RECORDS:][0] + 1) + 1
        self._between = self._recent = data[max(first, begin - _MAX_BETWEEN) : begin]
        self._above = data[max(begin - _MAX_ABOVE, 0) : begin]
        return begin

    def _examine(
        self, data: bytes, begin: int, number: int, used: Set[int], read: Set[int]
    ) -> None:
        """Count the lines from a position on that look like records.

        Args:
            data: the block.
            begin: the position, at the end of a line.
            number: the number of that line.
            used: the positions of lines of an evaluation, or that report a failure.
            read: the positions of records without a loss.
        """
        later, end = data[begin + 1 :], len(data.rstrip(_AROUND_PASTES))
        examined = 0
        may_have_records = names_loss(later) or has_delimiter(later)
        for line in later.split(b"\n"):
            if examined >= _MAX_EXAMINED_UNREAD and not may_have_records:
                break
            same_digits = line[:MAX_UNREAD_LINE].translate(SAME_DIGITS)
            form = classify_line(same_digits)
            is_unread = form is not LineForm.NO_NUMBER and begin not in used
            # A killed job or a cut paste ends like this.
            after = begin + len(line) + 1
            if is_unread and self._is_last(data, line, after, end) and self._breaks_off(line):
                self._unfinished = number
                break
            if is_unread and form is LineForm.MAY_BE_RECORD:
                is_unread = not self._take(line[:MAX_UNREAD_LINE], same_digits, number)
            if form is LineForm.NO_NUMBER and b"oss" in line.lower():
                self._width = header_width(line.decode("utf-8", "replace")) or self._width
            is_read = begin in used or begin in read
            is_candidate = is_read or (is_unread and b"oss" not in line.lower())
            if is_candidate and examined < _MAX_EXAMINED_UNREAD:
                examined += 1
                self._take_without_loss(line[:MAX_UNREAD_LINE], number, is_read=is_read)
            begin = after
            number += 1

    def _is_last(self, data: bytes, line: bytes, after: int, end: int) -> bool:
        """Return True if a line is the last one, or a record above other lines of a paste."""
        if after >= end:
            return True
        if end - after > _MAX_BELOW or not (b"{" in line or b"oss" in line):
            return False
        if not _BELOW_LOG.match(data, after + 1):
            return False
        forms = {*data[after:end].translate(SAME_DIGITS).split(b"\n")}
        return not any(map(self._may_count, forms))

    def _breaks_off(self, line: bytes) -> bool:
        """Return True if a line is the beginning of a dict or of a record.

        A whole record without its loss has the words that follow the loss in other records.
        """
        if b"{" in line:
            return breaks_off(line.decode("utf-8", "replace"))
        if _LOSS_WITHOUT_VALUE.search(line) is not None:
            return True
        if len(line) > MAX_UNREAD_LINE:
            return False
        if begins_like(line, (self._last,)):
            return True
        return ends_on_loss(self._last) and not names_loss(line) and self._has_words(line)

    def _may_count(self, line: bytes) -> bool:
        """Return True if a line may look like a record, with its loss or without it."""
        shown = line[:MAX_UNREAD_LINE]
        form = classify_line(shown)
        if form is LineForm.OTHER:
            return self._has_words(shown) or self._has_other_value(shown)
        return form is LineForm.MAY_BE_RECORD

    def _known_shapes(self) -> frozenset[bytes]:
        """Return the shapes of the records up to the values of their losses."""
        if self._samples:
            self._shapes |= {*map(loss_shape, self._samples)} - {b""}
            self._samples = ()
        return self._shapes

    def _has_words(self, line: bytes) -> bool:
        """Return True if a line has all words of a record but the loss."""
        if self._between:
            self._compare_words()
        return other_words(line) in self._words

    def _take_without_loss(self, line: bytes, number: int, *, is_read: bool) -> None:
        """Count a line with all words of a record but the loss, or with another value in it.

        If a line has several values, the others may have been read.
        """
        if (not is_read and self._has_words(line)) or self._has_other_value(line, is_read=is_read):
            self._count(number, line, is_alike=True)

    def _has_other_value(self, line: bytes, *, is_read: bool = False) -> bool:
        """Return True if a line is a record except for one number, replaced by something else."""
        if self._last_samples:
            self._forms = frozenset(map(row_form, self._last_samples))
            self._last_samples = ()
        form = row_form(line) if self._forms else b""
        return any(differs_in_value(form, of_record, is_read=is_read) for of_record in self._forms)

    def _compare_words(self) -> None:
        """Find the words of records, unless lines with only these words occur between them."""
        with_loss: set[bytes] = set()
        others: set[bytes] = set()
        for line in self._between.translate(SAME_DIGITS).split(b"\n"):
            (with_loss if b"loss" in line.lower() else others).add(line)
        self._between = b""
        named = {*map(other_words, with_loss)} - {()}
        is_loss_occasional = any(
            DIGIT.search(line) is not None and other_words(line) in named for line in others
        )
        self._words = frozenset() if is_loss_occasional else frozenset(named)

    def _take(self, line: bytes, same_digits: bytes, number: int) -> bool:
        """Count a line that looks like a record; return False if it does not.

        ``same_digits`` is the line with digits other than 0 as 1.
        """
        is_named = names_loss(line) and not states_course(line)
        alike = is_named and loss_shape(line) in self._known_shapes()
        if not alike:
            is_record = is_named and has_loss_value(same_digits)
            is_row = is_unread_row(same_digits) and self._continues(line)
            if not (is_record or self._is_below_header(line)) and not (
                is_row and not self._is_between(line)
            ):
                return False
        elif repeats_loss(line, self._last) or is_other_bar(line, self._last, self._above):
            return False
        self._count(number, line, is_alike=alike)
        return True

    def _is_below_header(self, line: bytes) -> bool:
        """Return True if a line is a row below a header with a loss, and its count is above 1.

        A table that counts from the start is a summary of the training.
        """
        count = count_below(line.decode("utf-8", "replace"), self._width) if self._width else None
        if count is not None and count <= 1:
            self._width = 0
        return count is not None and count > 1

    def _continues(self, line: bytes) -> bool:
        """Return False if a row begins with a count that does not continue the log's count.

        Tables below a log, such as scores for each class, count from the start.
        """
        count = _ROW_COUNT.match(line)
        last = max(map(int, _UNREAD_NUMBER.findall(self._last)), default=0)
        if count is None or int(count[1]) > last:
            return True
        # An epoch may precede the step.
        counts = [int(number) for number in _UNREAD_NUMBER.findall(line)[1:2]]
        return any(last < number <= _NEXT_STEP * last for number in counts)

    def _is_between(self, line: bytes) -> bool:
        """Return True for a row of a table that the log prints between its records."""
        form = row_form(line)
        return any(row_form(other) == form for other in self._recent.split(b"\n"))

    def _count(self, number: int, line: bytes, *, is_alike: bool) -> None:
        """Count a line."""
        self._alike += is_alike
        self._others += not is_alike
        if self._line is None:
            self._line, self._text = number, line

    def left_out(self) -> Sequence[LeftOut]:
        """Return the entry for these lines, if they are more than a summary of the training."""
        count = self._alike + (self._others if self._others > MAX_SUMMARY else 0)
        text = self._text.decode("utf-8", "replace")
        entries = [unreadable(count, above=None, line=self._line, text=text)] if count else []
        if self._cut_losses > MAX_SUMMARY:
            losses = plural(self._cut_losses, "loss", "losses")
            message = f"the end of a very long line is not read: {losses}"
            entries.append(LeftOut(code=EventCode.LINES_LEFT_OUT, message=message))
        return entries


def _starts_by_kind(parts: Iterable[TextPart]) -> tuple[list[int], list[int], set[int]]:
    """Return the positions of losses, of losses of an evaluation, and of records without a loss."""
    losses: list[int] = []
    evaluations: list[int] = []
    records: set[int] = set()
    for part in parts:
        names = [name for name in part.names if is_a_loss(name)]
        if not all(map(is_evaluation, names)):
            losses += part.starts
        elif names:
            evaluations += part.starts
        elif not part.supplementary:
            records.update(part.starts)
    return losses, evaluations, records


def _has_long_line(data: bytes) -> bool:
    """Return True if a line is so long that it was probably cut."""
    return any(2 * len(line) > LONGEST_TEXT_LINE for line in data.split(b"\n"))
