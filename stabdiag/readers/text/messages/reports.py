"""Separate reports of failures from records, and make a report a value of the loss."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.readers.columns import Column
from stabdiag.readers.pieces import Rows
from stabdiag.readers.text.lines.fixed_texts import line_end
from stabdiag.readers.text.lines.grammar import Grammar, Kind, Line, StatusLine, TextPart, is_a_loss
from stabdiag.readers.text.messages.failure_search import (
    REPORTED_LOSS,
    REPORTED_OVERFLOW,
    Failures,
)
from stabdiag.readers.text.messages.failures import is_exception, names_end

# The words of a sentence before what it quotes: I get a nan after "WARNING: …
_OPENED_QUOTE: Final = lazy_pattern(rb"(?:[A-Za-z']{1,20},? ){3}[\"'`]{1,3}[\[(]?\Z")

# An exception, or the level of a logger.
_IS_LOGGED: Final = lazy_pattern(
    rb"(?:[Ee]rror|[Ee]xception|ERROR|WARN\w{0,3}|[Ww]arning|INFO|FATAL|CRITICAL)\b"
    # A whole line that a check prints: NaN detected in grads
    rb"|^\s{0,40}(?:NaNs?|Infs?|nan|inf) (?:detected|found|encountered) in [\w.]{1,40}"
    rb"[.!]{0,3}\s{0,9}$"
)

# WARNING:root: …, as Python's logging writes its lines by default.
_LOGGING_LINE: Final = lazy_pattern(rb"[ \t]{0,8}(?:WARNING|ERROR|CRITICAL):[\w.]{1,60}:")

# A line of one value that is not finite:  >>> rpn_loss_box: nan
_ONLY_LOST: Final = lazy_pattern(
    rb"[\s>|*-]{0,20}[A-Za-z][\w./-]{0,60}(?: [\w./-]{1,40}){0,3} ?[:=] {0,12}"
    rb"[-+]?(?:nan|NaN|inf|Inf)[\s,;|]{0,20}"
)
_REPORTED_LOST: Final = lazy_pattern(rb"(?<![\w.])(?:nan|NaN|inf|Inf)(?!\w)")

_HALVED_TWICE: Final = 4.0


def failure_patterns(grammar: Grammar) -> tuple[re.Pattern[bytes], ...]:
    """Return the patterns of a grammar that find reports of failures."""
    return tuple(
        re.compile(kind.pattern)
        for kind in grammar.kinds
        if isinstance(kind, Line)
        and (isinstance(kind, StatusLine) or b"nan" in kind.fixed.values())
    )


def separate_reports(
    reports: Sequence[TextPart], parts_by_kind: Sequence[tuple[Kind, TextPart]], data: bytes
) -> tuple[list[TextPart], list[tuple[Kind, TextPart]]]:
    """Return reports of failures and records so that no line is both.

    An exception is always a report, even "Loss is NaN at step 400", and so is "NaN loss at step 400
    (lr=0.1)", as its record has no loss. Any other line with the values of a record is a record, as
    acc: nan is not the loss. A lost part of a loss below a record without a finite loss adds
    nothing.
    """
    starts = [start for part in reports for start in part.starts]
    of_loss = [REPORTED_LOSS in part.names for part in reports for _ in part.starts]
    begins = [data.rfind(b"\n", 0, start) + 1 for start in starts]
    ends = [line_end(data, start, len(data)) for start in starts]
    spans = list(zip(begins, ends, strict=True))
    losses = np.sort(
        [
            at
            for kind, part in parts_by_kind
            if kind.is_record and any(map(_names_loss, part.names))
            for at in part.starts
        ]
    )
    has_loss = np.searchsorted(losses, begins) < np.searchsorted(losses, ends)
    raised = [
        is_exception(data[begin:end])
        or (is_of_loss and not is_with_loss and b"loss" in data[begin:end].lower())
        for (begin, end), is_of_loss, is_with_loss in zip(spans, of_loss, has_loss, strict=True)
    ]
    exceptions = [span for span, is_raised in zip(spans, raised, strict=True) if is_raised]
    records = [
        (kind, _part_without(part, exceptions) if kind.is_record else part)
        for kind, part in parts_by_kind
    ]
    places = np.sort([at for kind, part in records if kind.is_record for at in part.starts])
    has_record = np.searchsorted(places, begins) < np.searchsorted(places, ends)
    above = np.searchsorted(places, begins) - 1
    is_known = [
        number >= 0
        and _ONLY_LOST.fullmatch(data[begin:end]) is not None
        and _REPORTED_LOST.search(_whole_line(data, places[number])) is not None
        for number, (begin, end) in zip(above.tolist(), spans, strict=True)
    ]
    lines = list(compress(spans, has_record | np.array(is_known, dtype=bool)))
    kept = [_part_without(part, lines) for part in reports]
    return [part for part in kept if part.starts], [
        record for record in records if record[1].starts
    ]


def _names_loss(name: str) -> bool:
    """Return True if a name is of a loss, and not a part of the report: diverged with loss."""
    return is_a_loss(name) and not names_end(name.encode())


def _whole_line(data: bytes, at: int) -> bytes:
    """Return the line at a position."""
    return data[data.rfind(b"\n", 0, at) + 1 : line_end(data, at, len(data))]


def without_introduction(
    reports: Sequence[TextPart], parts_by_kind: Sequence[tuple[Kind, TextPart]], data: bytes
) -> list[TextPart]:
    """Return the reports of failures without sentences above the first record.

    "My loss = nan after some steps, see below": the log follows. A program that reports a failure
    before its first record raises an exception or names a level.
    """
    records = [
        start
        for kind, part in parts_by_kind
        if kind.is_record and not isinstance(kind, StatusLine)
        for start in part.starts
    ]
    first = min(records, default=0)
    lines = {
        (data.rfind(b"\n", 0, at) + 1, line_end(data, at, len(data)))
        for part in reports
        for at in part.starts
        if at < first
    }
    sentences = [(begin, end) for begin, end in lines if not _is_logged(data[begin:end])]
    kept = [_part_without(part, sentences) for part in reports]
    return [part for part in kept if part.starts]


def _is_logged(line: bytes) -> bool:
    """Return True if a program wrote a line, unless a sentence quotes what the program wrote."""
    level = _IS_LOGGED.search(line)
    if level is None:
        return False
    return _OPENED_QUOTE.search(line[: level.start()]) is None


def logs_failure(data: bytes) -> bool:
    """Return True if an exception, or a line of Python's logging, reports a failure."""
    starts = (start for part in Failures(pattern=b"").find(data) for start in part.starts)
    lines = (_whole_line(data, start) for start in starts)
    return any(_LOGGING_LINE.match(line) or is_exception(line) for line in lines)


def _part_without(part: TextPart, spans: Sequence[tuple[int, int]]) -> TextPart:
    """Return a part without the lines that start within spans of the text."""
    rows = [
        row
        for row, start in enumerate(part.starts)
        if not any(begin <= start < end for begin, end in spans)
    ]
    if len(rows) == len(part.starts):
        return part
    starts = [part.starts[row] for row in rows]
    return replace(
        part, starts=starts, cells=[[cells[row] for row in rows] for cells in part.cells]
    )


def with_reports(rows: Rows, names: Sequence[str], scale: Column | None) -> Rows:
    """Return rows with the reported failures as values of the log's own loss.

    A loss scale at its minimum counts as a loss that is not finite, unless the log shows how the
    loss ``scale`` fell to it.
    """
    if not {REPORTED_LOSS, REPORTED_OVERFLOW} & rows.parts.keys():
        return rows
    parts = dict(rows.parts)
    roles = assign([name for name in names if name not in (REPORTED_LOSS, REPORTED_OVERFLOW)])
    loss = roles.columns.get("loss", "loss")
    reports = parts.pop(REPORTED_LOSS, [])
    overflows = parts.pop(REPORTED_OVERFLOW, [])
    falls = scale is not None and _falls_clearly(scale.logged)
    reports = reports if falls else [*reports, *overflows]
    if reports:
        parts[loss] = [*parts.get(loss, []), *reports]
    return replace(rows, parts=parts)


def _falls_clearly(scale: Floats) -> bool:
    """Return True if a loss scale was halved more than twice: a cut log may show the last time."""
    finite = scale[np.isfinite(scale)]
    return len(finite) > 1 and bool(finite.max() > _HALVED_TWICE * finite.min())
