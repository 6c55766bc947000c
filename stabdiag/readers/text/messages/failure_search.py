"""Find the lines of a text that report a value that is not finite."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from stabdiag.model.frozen import frozen
from stabdiag.readers.text.lines.counters import DIGITS
from stabdiag.readers.text.lines.fixed_texts import lines_with
from stabdiag.readers.text.lines.grammar import StatusLine, TextPart, make_parts
from stabdiag.readers.text.lines.line_forms import outline, words_in
from stabdiag.readers.text.lines.prefix import LONGEST_LABEL
from stabdiag.readers.text.messages.failures import (
    Failure,
    classify_failure,
    has_failure_word,
    is_exception,
)

# The columns of what is reported; ``log.py`` gives them the name of the log's own loss.
REPORTED_LOSS: Final = "reported loss"
REPORTED_OVERFLOW: Final = "reported overflow"

_FAILURE_CELLS: Final = {
    Failure.LOSS: {REPORTED_LOSS: b"nan"},
    Failure.GRADIENT: {"grad_norm": b"inf"},
    Failure.SKIPPED_STEP: {"grad_norm": b"inf", "skipped_step": b"1"},
    Failure.MINIMUM_SCALE: {REPORTED_OVERFLOW: b"nan"},
}

# Each of these lines contains at least one of these texts; a search for a fixed text is fast. The
# first ones belong to exceptions.
_EXCEPTION_ANCHORS: Final = (b"rror", b"xception", b"terminate called", b"Check failed")
_FAILURE_ANCHORS: Final = (
    *(*_EXCEPTION_ANCHORS, b"ERROR", b"WARN", b"Warn", b"warn", b"FATAL", b"RITICAL", b"bort"),
    *(b"ABORT", b"iverg", b"ssertion"),
    *(
        *(b"NaN", b"NAN ", b"Nan "),
        *(b"is nan", b"is Nan"),
        *(b"was nan", b"come nan", b"came nan", b"comes nan", b"got nan", b"has nan", b"hit nan"),
        *(b"ned nan", b"ced nan", b"ave nan", b"ted nan", b"tain nan", b"tains nan"),
        *(b"now nan", b"now inf", b"is inf", b"is -inf", b"was inf", b"are inf", b"are nan"),
        *(b"nan loss", b"or nan", b"inite", b"infinity", b"Infinity", b"to inf", b"to nan"),
        *(b"not a number", b"no longer a number", b"oss nan", b"oss inf"),
        b"verflow detected",
        b"verflow in ",
        b"verflow occurred",
        b"verflow found",
        b"verflow encountered",
        *(b"verflow.", b"verflow,", b"verflow;", b"verflowed", b"nderflow"),
    ),
    *(b":  nan", b": nan", b"=nan", b"= nan", b"(nan", b": inf", b": -inf", b"=inf", b"= inf"),
    *(b"(inf", b"(-inf", b"+Inf", b"+inf", b"-Inf"),
    *(b"tain inf", b"tains inf", b"ot inf", b"hit inf", b"with inf", b"ected inf", b"ound inf"),
    *(b"ered inf", b"ered Inf", b"ected Inf", b"ound Inf"),
    *(b"nan detected", b"nan found", b"nan in ", b"nan encountered", b"nan value"),
    *(b"nvalid loss", b"inimum loss scale", b"at minimum", b"inimum value", b"oss scale"),
    *(b"grad_scale is too small", b"caler"),
    # "is", "became", "becomes", "appears": la perte est nan, loss为nan, loss 出现 nan.
    *(b"est nan", b" es nan", "é nan".encode(), "è nan".encode(), "стал".encode()),
    *("が nan".encode(), "がnan".encode(), "が NaN".encode()),
    *("가 nan".encode(), "이 nan".encode(), "가 NaN".encode(), "이 NaN".encode()),
    *("为nan".encode(), "为 nan".encode(), "现nan".encode(), "现 nan".encode()),
)

_MAX_FAILURE_LINE: Final = 1000


def may_report(data: bytes) -> bool:
    """Return True if a text may report a failure; cheap."""
    return bool(words_in(data, _FAILURE_ANCHORS)) and has_failure_word(data)


@frozen
class Failures(StatusLine):
    """All lines that report a value that is not finite, except lines of ``ignored`` patterns.

    Each belongs to the step after the last record. Several ranks or loggers may report the same
    failure: only the last of adjacent lines that differ only in numbers counts, and the last of
    equal exceptions.
    """

    ignored: Sequence[re.Pattern[bytes]] = ()

    def search(self, data: bytes) -> bool:
        """Return True if the data has a line of this kind."""
        return next(self._failures(data, _FAILURE_ANCHORS), None) is not None

    def find(self, data: bytes) -> list[TextPart]:
        """Return all lines of this kind."""
        return self.find_with_anchors(data, _FAILURE_ANCHORS)

    def find_exceptions(self, data: bytes) -> list[TextPart]:
        """Return the lines of this kind that name an error, as most exceptions do."""
        return self.find_with_anchors(data, _EXCEPTION_ANCHORS[:1])

    def find_with_anchors(self, data: bytes, anchors: Sequence[bytes]) -> list[TextPart]:
        """Return the lines of this kind that contain one of some texts."""
        last: dict[bytes, int] = {}
        failures: list[tuple[int, bytes, Failure]] = []
        for begin, line, failure in self._failures(data, anchors):
            text = DIGITS.sub(b"", line)
            before = last.get(text)
            repeats = before is not None and (
                is_exception(line) or _is_adjacent(data, failures[before], begin)
            )
            if before is not None and repeats:
                failures[before] = (begin, line, failure)
            else:
                last[text] = len(failures)
                failures.append((begin, line, failure))
        failures.sort(key=lambda failure: failure[0])
        return make_parts(
            (begin + min(LONGEST_LABEL, len(line) - 1), _FAILURE_CELLS[failure])
            for begin, line, failure in failures
        )

    def _failures(
        self, data: bytes, anchors: Sequence[bytes]
    ) -> Iterator[tuple[int, bytes, Failure]]:
        """Yield the position, the line and the failure of each line, in order."""
        present = words_in(data, anchors)
        if not present or not has_failure_word(outline(data)):
            return
        begins = {begin for anchor in present for begin, _ in lines_with(data, anchor)}
        for begin in sorted(begins):
            end = data.find(b"\n", begin, begin + _MAX_FAILURE_LINE)
            line = data[begin : end if end >= 0 else begin + _MAX_FAILURE_LINE]
            failure = classify_failure(line)
            if failure is not None and not any(pattern.search(line) for pattern in self.ignored):
                yield begin, line, failure


def _is_adjacent(data: bytes, before: tuple[int, bytes, Failure], begin: int) -> bool:
    """Return True if no other line is between two lines."""
    return not data[before[0] + len(before[1]) : begin].strip()
