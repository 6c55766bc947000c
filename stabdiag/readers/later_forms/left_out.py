"""Find lines that are not records but may contain a training loss.

Lines between and after the records of a log are mostly messages. A line that breaks off, or has the
cells of a record, may hold the very loss that is not finite: its reader counts it as left out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from stabdiag.model.events import EventCode, LeftOut
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import is_a_loss
from stabdiag.model.text import plural
from stabdiag.readers.columns import BadLine
from stabdiag.readers.later_forms.settings import (
    LOST_VALUE,
    OTHER_PROGRAM,
    is_event,
    is_setting,
)

# A record of JSON or of Python that is damaged begins like a whole one.
_RECORD: Final = lazy_pattern(r"\s*[\[(]?\{\s*[\"'\w]")

# A name of a loss before a value of any spelling, or Marian's cost: loss: 2.3, loss 2.3, loss(2.3),
# loss_step=2.3, trainLoss: 2.3, ["loss", 2.3], ('loss', 'lost'). Evaluation losses do not count.
_LOSS_BEFORE_VALUE: Final = lazy_pattern(
    r"(?:(?<![a-z])(?:train|total|avg|mean|batch|lm|ce)?loss"
    r"(?:es|_(?:step|epoch|avg|mean|ema|total|train|value|\d{1,3}))?|(?<= : )cost)[\"']?"
    r"(?:\s{0,8}[:=|]\s{0,8}(?!(?:true|false|yes|no|on|off)\b)|(?:\s{1,8}|\(|(?<=[\"'])\s{0,8},\s{0,8})(?=[-+.\d]|nan|inf))\S"
    r"|\([\"'](?:\w{0,20}_)?loss[\"'], \S",
    re.IGNORECASE,
)
_EVALUATION_NAME: Final = lazy_pattern(
    r"(?<![a-z])(?:val|valid|validation|eval|test|dev)(?![a-z])", re.IGNORECASE
)

# A line below a training: Best loss: 2.01, final train loss = 1.98
_SUMMARY_NAME: Final = lazy_pattern(
    r"(?<![a-z])(?:best|final|lowest|min|minimum|smallest|overall)(?![a-z])[\w .,/:(=-]{0,30}loss",
    re.IGNORECASE,
)

# Cells of a table: numbers between delimiters. Prose has words between its commas.
_DELIMITER: Final = lazy_pattern(r"[,;\t|│┃║]")
_NUMBER_CELL: Final = lazy_pattern(
    r"\s*[\"']?(?:[-+.\d][-+.\deE]*|[-+]?(?:nan|inf)|\d{1,3}(?::\d\d){1,2})[\"']?\s*", re.IGNORECASE
)
_MIN_CELLS: Final = 2
_LONGEST_HEADER: Final = 400
# A row of a printed table: a count and decimal numbers. A matrix of counts is not one.
_ALIGNED_ROW: Final = lazy_pattern(
    r"\s{0,40}\d{1,12}(?=[^\n]{0,400}(?:\d\.\d|\bnan|\binf))"
    r"(?:\s{1,40}[-+]?(?:\d[\d.]{0,30}(?:e[-+]?\d{1,4})?|nan|inf|\d{1,3}(?::\d\d){1,2})){1,60}"
    r"\s{0,40}",
    re.IGNORECASE,
)

# A result below a table, in a cell next to its name: Selected features:	5
_LABELED_RESULT: Final = lazy_pattern(
    r"\s{0,8}[A-Za-z][\w ]{2,60}(?::[ ]?\t|[ ]?\t:)\s{0,8}[\d\[(]"
)

# The rows below the first one of a table of names and values: | loss | 2.31 |
_NAMED_ROWS: Final = lazy_pattern(
    rb"(?:\n[^\n|]{0,60}\|[ \t]{0,40}[A-Za-z][^\n|]{0,100}\|[ \t]{0,100}[-+.\dni][^\n|]{0,100}\|"
    rb"[ \t\r]{0,8}(?=\n|$)){1,400}"
)

# The cells of a row between other signs, one of them a decimal number: 201:2.31:0.001, 201^2.31,
# 201 & 2.31 \\\\
# Times have two digits between their colons.
_ROW_BETWEEN_SIGNS: Final = lazy_pattern(
    r"\s{0,40}\d{1,12}(?=[^\n]{0,400}(?:\d\.\d|nan|inf))(?![:\d]{0,9}\d:\d\d(?:\.\d{1,9})?\s{0,40}$)"
    r"\s{0,8}(?P<sign>[^\w\s.+-])\s{0,8}[-+]?(?:\d[\d.]{0,30}(?:e[-+]?\d{1,4})?|nan|inf)"
    r"(?:\s{0,8}(?P=sign)\s{0,8}[-+]?(?:\d[\d.]{0,30}(?:e[-+]?\d{1,4})?|nan|inf)){0,60}"
    r"\s{0,40}[^\w\s]{0,3}\s{0,8}",
    re.IGNORECASE,
)

# In a line with words, a list is one value, and a comma may separate thousands.
_LETTERS_OF_LINE: Final = lazy_pattern(r"[^\W\d_]{3}")
_LIST_IN_LINE: Final = lazy_pattern(r"\([^()]{0,400}\)|\[[^\[\]]{0,400}\]")
_THOUSANDS: Final = lazy_pattern(r"(?<=\d),(?=\d{3}(?![\d.]))")

_STAMP_IN_LINE: Final = lazy_pattern(
    r"(?:\d{4}[-/]\d\d[-/]\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
)

_LOST_NUMBER: Final = lazy_pattern(r"[-+]?(?:nan|inf)(?![a-z])", re.IGNORECASE)

# The same on a line that breaks off: null is lost only if a training loss is null.
_LOST_IN_RECORD: Final = lazy_pattern(
    r"(?<![A-Za-z])(?:nan|[+-]?inf)(?![a-z])"
    r"|(?<![\w/.-])(?:train\w{0,3}[_/. ])?loss[\"']?\s{0,8}[:=]\s{0,8}(?:null|none)(?![a-z])",
    re.IGNORECASE,
)

# A value that is reported as lost, and the reaction of the program.
_FOUND_VALUE: Final = lazy_pattern(
    rb"\b(?:nans?|infs?)\b[^\n=:]{0,30}\b(?:found|detected|encountered)\b(?! ?[:=] ?(?:0|no))"
    rb"|\b(?:found|detected|encountered) (?:\w{1,10} ){0,3}(?:nans?|infs?)\b",
    re.IGNORECASE,
)
_IS_HANDLED: Final = lazy_pattern(
    rb"skip|ignor|replac|remov|drop|fill|clean|mask|filter|clamp|interpolat|imput", re.IGNORECASE
)

# A value that no training loss has, next to the name of one.
_EXPLODED_LOSS: Final = lazy_pattern(
    r"(?<![A-Za-z])loss\w{0,20}[\"']?[\s:=]{1,4}[+-]?[\d.]{1,24}e\+?[1-9]\d", re.IGNORECASE
)

# The words of a line: lines of a logger share them, and count on in equal strides. Fewer lines may
# be messages.
_LINE_WORD: Final = lazy_pattern(r"[^\W\d_]{2,40}|[^\W\d_](?=[:=])")
# Either may be glued to a word: E201 L2.3, step_201_loss_2.3
_LINE_COUNT: Final = lazy_pattern(r"(?<!\d)(?<!\d[.:])\d{1,12}(?![^\W_]|\.\d|:\d)")
_LINE_VALUE: Final = lazy_pattern(r"\d\.\d|nan(?![a-z])", re.IGNORECASE)
_GLUED_NAN: Final = lazy_pattern(r"(?:nan|[-+]?inf)(?![a-z])", re.IGNORECASE)
_MIN_LINES_ALIKE: Final = 6
_LINES_ALIKE_FRACTION: Final = 0.2
_EQUAL_STRIDES: Final = 0.8

# The first characters decide whether a line may be a record.
_MAX_CHECKED_CHARS: Final = 4000


def may_hold_loss(line: str) -> bool:
    """Return True if a line that is not a record seems to contain a training loss.

    It may be in UTF-16, as Windows appends it to a log in UTF-8.
    """
    line = line[:_MAX_CHECKED_CHARS].replace("\0", "")
    if line.startswith(OTHER_PROGRAM) or is_setting(line):
        return False
    if _RECORD.match(line):
        return not is_event(line)
    loss = _LOSS_BEFORE_VALUE.search(line)
    if loss is not None and _LOST_NUMBER.match(line, loss.end() - 1):
        # The loss of an evaluation counts as well.
        from stabdiag.readers.text.messages.failures import names_no_value

        return not names_no_value(line.encode())
    # A training loss may precede the evaluation loss.
    if loss is not None and not _EVALUATION_NAME.search(line, 0, loss.end()):
        return _SUMMARY_NAME.search(line) is None or LOST_VALUE.search(line) is not None
    if _LABELED_RESULT.match(line) is not None and LOST_VALUE.search(line) is None:
        return False
    cells, numbers = _cells(line)
    return (cells >= _MIN_CELLS and 2 * numbers >= cells) or _ROW_BETWEEN_SIGNS.fullmatch(
        line
    ) is not None


def breaks_off(line: str, *, is_short: bool = False) -> bool:
    """Return True if a line is the beginning of an object without a sign of a failure.

    No value looks non-finite, and no loss is above 1e10. A line that ``is_short`` is the beginning
    of a row.
    """
    begun = line[:_MAX_CHECKED_CHARS]
    if not is_short and line.count("{") <= line.count("}"):
        return False
    lost = LOST_VALUE if is_short else _LOST_IN_RECORD
    return lost.search(begun) is None and _EXPLODED_LOSS.search(begun) is None


def rows_end(data: bytes, begin: int) -> int:
    """Return the end of the table of names and values whose first row ends at ``begin``."""
    rows = _NAMED_ROWS.match(data, begin)
    return begin if rows is None else rows.end()


def header_width(line: str) -> int:
    """Return the number of cells of a header that names a training loss, or 0.

    Between blanks, one cell is a count of steps as well.
    """
    if len(line) > _LONGEST_HEADER or any(map(str.isdigit, line)):
        return 0
    cells = _all_cells(line)
    names = [cell for cell in cells if cell]
    if len(names) < _MIN_CELLS or not any(map(is_a_loss, names)):
        return 0
    has_delimiters = _DELIMITER.search(line) is not None
    is_header = has_delimiters or not assign(names).columns.keys().isdisjoint(("step", "epoch"))
    return len(cells) if is_header else 0


def count_below(line: str, width: int) -> int | None:
    """Return the first count of a row of a table with a number of cells, or None for other lines.

    A row without a count has 0.
    """
    cells = _all_cells(line[:_MAX_CHECKED_CHARS])
    numbers = sum(_NUMBER_CELL.fullmatch(cell) is not None for cell in cells)
    if len(cells) != width or 2 * numbers < len([cell for cell in cells if cell]):
        return None
    return next((int(cell) for cell in cells if cell.isdecimal()), 0)


def _all_cells(line: str) -> list[str]:
    """Return the cells of a row between delimiters, or else between blanks, without quotes."""
    cells = _DELIMITER.split(line.strip(" \t\r|│┃║"))
    return [cell.strip(" \"'") for cell in (cells if len(cells) > 1 else line.split())]


def is_row(line: str) -> bool:
    """Return True if a line is a row of a table that holds only numbers."""
    cells, numbers = _cells(line[:_MAX_CHECKED_CHARS])
    if cells >= _MIN_CELLS and numbers == cells:
        return True
    line = line[:_MAX_CHECKED_CHARS]
    return (_ALIGNED_ROW.fullmatch(line) or _ROW_BETWEEN_SIGNS.fullmatch(line)) is not None


def _cells(line: str) -> tuple[int, int]:
    """Return the number of cells of a line and the number of numeric cells.

    A row with a word in its first cell counts no numbers: it is of a class or a layer.
    """
    if _LETTERS_OF_LINE.search(LOST_VALUE.sub("", line)):
        line = _THOUSANDS.sub("", _LIST_IN_LINE.sub("", line))
    cells = [cell for cell in _DELIMITER.split(line.strip(" []()\r\"'")) if cell.strip()]
    if cells and not any(map(str.isdigit, cells[0])) and not _NUMBER_CELL.fullmatch(cells[0]):
        return len(cells), 0
    return len(cells), sum(_NUMBER_CELL.fullmatch(cell) is not None for cell in cells)


def lines_left_out(bad: Iterable[BadLine], *, lines: int, records: int) -> list[LeftOut]:
    """Return the bad lines of a block that may contain a loss, one entry per position.

    Args:
        bad: the bad lines, numbered from the start of the block.
        lines: the number of lines above the block.
        records: the number of records above the block.
    """
    entries: list[LeftOut] = []
    bad = [*bad]
    repeated = _repeated_forms(bad, records)
    for line in bad:
        if line.has_words:
            continue
        is_record = may_hold_loss(line.text) or fails_in_words(line.text)
        if not is_record and (line.above, _form(line.text)) not in repeated:
            continue
        above = records + line.above
        if entries and entries[-1].above == above:
            entries[-1] = _with_count(entries[-1], entries[-1].count + 1)
        else:
            number = lines + line.line
            entries.append(unreadable(1, above=above, line=number, text=line.text))
    return [*entries, *_rows_with_words(bad, lines)]


def _rows_with_words(bad: Sequence[BadLine], lines: int) -> Iterator[LeftOut]:
    """Yield an entry for rows that have several words in place of a number."""
    rows = [line for line in bad if line.has_words]
    if rows:
        yield LeftOut(
            code=EventCode.CELLS_LEFT_OUT,
            message=f"{plural(len(rows), 'row has', 'rows have')} words in place of a number",
            count=len(rows),
            line=lines + rows[0].line,
            text=rows[0].text,
        )


def _repeated_forms(bad: Sequence[BadLine], records: int) -> set[tuple[int, tuple[str, ...]]]:
    """Return the forms of lines that another logger wrote, each with the records above them.

    Many lines of one form with decimal numbers and a continued count, and no record between them,
    are a later part of the log. So are rows of numbers that lack the count, as a single number.
    """
    if len(bad) < _MIN_LINES_ALIKE:
        return set()
    lines: dict[tuple[int, tuple[str, ...]], list[BadLine]] = defaultdict(list)
    for line in bad:
        if _LINE_VALUE.search(line.text) is not None:
            lines[line.above, _form(line.text)].append(line)
    return {
        (above, words)
        for (above, words), alike in lines.items()
        if len(alike) >= max(_MIN_LINES_ALIKE, _LINES_ALIKE_FRACTION * (records + above))
        and (_continues_count([line.text for line in alike]) or all(map(_lacks_count, alike)))
    }


def _lacks_count(line: BadLine) -> bool:
    """Return True if a line is a number, or a short row of numbers."""
    cells = line.text.split() if line.is_short else [line.text]
    return all(map(_NUMBER_CELL.fullmatch, cells))


def _form(line: str) -> tuple[str, ...]:
    """Return the words of a line, without a value that is not finite."""
    return tuple(_LINE_WORD.findall(_GLUED_NAN.sub("", line[:_MAX_CHECKED_CHARS])))


def _continues_count(lines: Sequence[str]) -> bool:
    """Return True if a whole number of these lines rises in equal strides, and not from the start.

    It may restart with each epoch. A list of classes counts from the start, once.
    """
    numbers = [[*map(int, _LINE_COUNT.findall(line[:_MAX_CHECKED_CHARS]))] for line in lines]
    for counts in zip(*numbers, strict=False):
        strides = [after - before for before, after in pairwise(counts)]
        stride, times = Counter(strides).most_common(1)[0]
        if stride > 0 and times >= _EQUAL_STRIDES * len(strides):
            return bool(counts[0] > max(stride, 1) or min(strides) < 0)
    return False


def fails_in_words(line: str) -> bool:
    """Return True if a line says in words that a value of some step is not finite."""
    # A class without examples has a score of NaN among others.
    # A list may hold another one: Box(-inf, inf, (17,), float32)
    others = _LIST_IN_LINE.sub("", _LIST_IN_LINE.sub("", line))
    if LOST_VALUE.search(others) is None or not any(map(str.isdigit, _STAMP_IN_LINE.sub("", line))):
        return False
    if _IS_HANDLED.search(line.encode()) is not None:
        return False
    from stabdiag.readers.text.messages.failures import classify_failure, states_failure

    text = line[:_MAX_CHECKED_CHARS].encode()
    # The failure of a loss is reported as such.
    return states_failure(text) and classify_failure(text) is None


def names_lost_value(line: bytes) -> bool:
    """Return True if a line says that some value is not finite, and nothing of the training.

    TensorBoard's writer prints "NaN or Inf found in input tensor" for any value that it is given.
    """
    if _FOUND_VALUE.search(line) is None or _IS_HANDLED.search(line) is not None:
        return False
    from stabdiag.readers.text.messages.failures import classify_failure, states_failure

    return states_failure(line) and classify_failure(line) is None


def unreadable(count: int, *, above: int | None, line: int | None, text: str = "") -> LeftOut:
    """Return the entry for lines that look like records and are not readable.

    The number and the ``text`` of the first one may be given.
    """
    lines = plural(count, "line looks like a record and is", "lines look like records and are")
    return LeftOut(
        code=EventCode.LINES_LEFT_OUT,
        message=f"{lines} not readable",
        count=count,
        above=above,
        line=line,
        text=text,
    )


def lost_values(count: int) -> LeftOut:
    """Return the entry for lines that say that an unknown value is not finite."""
    lines = plural(count, "line says", "lines say")
    message = f"{lines} that a value is not finite, and not which"
    return LeftOut(code=EventCode.LINES_LEFT_OUT, message=message, count=count)


def _with_count(entry: LeftOut, count: int) -> LeftOut:
    return unreadable(count, above=entry.above, line=entry.line, text=entry.text)


def merged(entries: Sequence[LeftOut]) -> LeftOut:
    """Return one entry for several of unreadable lines."""
    return _with_count(entries[0], sum(entry.count for entry in entries))


# Fewer lines between two records each may be messages with a number between their steps.
MIN_ALTERNATING: Final = 6


def alternating(count: int, *, above: int | None, line: int | None, text: str) -> LeftOut:
    """Return the entry for lines of another form that alternate with the records."""
    lines = plural(count, "line", "lines")
    return LeftOut(
        code=EventCode.RECORDS_LEFT_OUT,
        message=f"{lines} of another form, with steps between the records",
        count=count,
        above=above,
        line=line,
        text=text,
    )
