"""Lines of a text log with something else than a number in the place of its loss.

A record shows where its loss is: behind ``iter 0 value``, or between ``0 &`` and ``& 0``. A line of
the same form with ``overflow`` or ``see below`` there is a record whose loss may have failed. No
table can know all words that programs print for it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from stabdiag.model.events import EventCode, LeftOut
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import is_a_loss, is_evaluation
from stabdiag.model.roles.scores import score_direction
from stabdiag.model.text import plural
from stabdiag.readers.blocks import count_line_ends
from stabdiag.readers.copyable import Copyable
from stabdiag.readers.text.lines.fixed_texts import find_positions
from stabdiag.readers.text.lines.grammar import TextPart
from stabdiag.readers.text.lines.line_forms import ALL_DIGITS, outline
from stabdiag.readers.text.unread_forms import MAX_UNREAD_LINE, line_numbers, states_course
from stabdiag.readers.values import NULL_WORDS, not_finite

# This many records of a block show where the loss is. A place counts if several have it.
_PLACE_SAMPLES: Final = 8
_MIN_PLACE_SAMPLES: Final = 3
_MAX_BLOCKS_LEARNED: Final = 4
_MAX_FORMS_EXAMINED: Final = 400
_MAX_FORMS_KNOWN: Final = 4000
_MAX_KNOWN_NAMES: Final = 200

# A cell of digits; a number, a time, or one with thousands separators; and what is left of it in a
# form, but not of 0x7fc0, 0/0, 1.2.3 or 1,2,3.
_FINITE_DIGITS: Final = lazy_pattern(rb"[-+]?\d[\d.]*(?:[eE][-+]?\d+)?")
_NUMBER_IN_FORM: Final = lazy_pattern(
    rb"[-+]?(?:\.?\d+(?:(?::\d+)+|(?:,\d{3})+|,\d+)?(?:\.\d+)?(?:e[-+]?\d+)?|(?:nan|inf)\b(?![!?({~]))",
    re.IGNORECASE,
)
_NUMBER_LEFT: Final = lazy_pattern(rb"[-+]?0(?![A-Za-z0/]|,0|\(ind\))")
_BLANKS_IN_FORM: Final = lazy_pattern(rb"\s+")
# The parts of a progress bar: #####, =====>, ....., █████, ━━━━━
_BAR_PARTS: Final = lazy_pattern(rb"(?:[#=]{2,}>?|[.]{2,}|(?:\xe2[\x94-\x96][\x80-\xbf]){1,})")

# A bar that is empty, or not full, has the form of a full one.
_BAR_IN_FORM: Final = lazy_pattern(rb"%\|(?:~ ?| )\|")

# Where a bar begins, it has no loss yet: 0/600, 0%|. If one begins with a loss, later ones do.
_BAR_START: Final = lazy_pattern(rb"(?<![\d.,])0(?:/[1-9]|%\|)")

# What ends a name before its value; a number there is a value or a count.
_NAME_ENDS: Final = b" \t:=|>~([\"'-&,;"
_NAME_IN_FORM: Final = lazy_pattern(rb"[A-Za-z]\d{0,9}\Z")
_VALUE_SIGNS: Final = b":=|>"
_OPEN_ENDS: Final = (b":", b"=", b"->", b"=>")
_SHOWN_AFTER: Final = 12
_LONGEST_TEXT_IN_PLACE: Final = 100
_MAX_WORDS_IN_PLACE: Final = 3


# The name of a training loss and a text without digits as its value: loss: n. a., train loss …,
_WORDS_AS_LOSS: Final = lazy_pattern(
    rb"(?i)((?:[a-z]{1,12}[ _/])?(?<![a-z])(?:loss|cost|learn))[\"'\]]?(?:[ \t]{0,4}[:=] ?|[ \t])"
    rb"[\"']?([^\s\d][^\d,;|\t\n]{0,30}?)[\"']?(?=[ \t]{0,4}(?:[,;|)\]}\t\r]|$|- |  ))"
)

# The series that is judged: if the log has no training loss, an evaluation loss or a score.
_JUDGED: Final = ("loss", "eval_loss", "reward", "accuracy", "eval_accuracy", "score")


class _Place(NamedTuple):
    """The forms of the text before a loss and of the first text after it.

    An evaluation or a score has a null in records without a value: the place is ``often_empty``.
    """

    before: bytes
    after: bytes
    often_empty: bool


class LossPlaces(Copyable):
    """Counts the lines of the form of a record that have a text in the place of its loss."""

    def __init__(self) -> None:
        """Begin without a record."""
        self._seen: Counter[_Place] = Counter()
        # All names in the order of their appearance, and how often a line with names was learned.
        self._names: dict[str, None] = {}
        self._learned: Counter[tuple[str, ...]] = Counter()
        # The last places, and forms of lines that have no text in one of them: a log repeats them.
        self._places: list[_Place] = []
        self._without_text: frozenset[bytes] = frozenset()
        self._name = ""
        self._count = 0
        # Those above the last record, and since then, of an evaluation or a score.
        self._between = self._since = 0
        self._line: int | None = None
        self._text = b""
        # A bar above has a loss where it begins.
        self._has_loss_at_start = False
        # Those since the last record that end where their loss should be.
        self._open = 0
        # The records of a log without a training loss that have a text in its place.
        self._worded = 0

    def look(
        self,
        data: bytes,
        written: bytes,
        parts: Iterable[TextPart],
        *,
        reports: Sequence[TextPart],
        first_line: int,
    ) -> None:
        """Add the next block of the log.

        Args:
            data: the block in standard names.
            written: the same lines as they were written.
            parts: the parts in the block.
            reports: the parts that say in words what happened to the loss.
            first_line: the number of the first line.
        """
        parts = [*parts]
        is_first = not self._seen
        lines: Sequence[bytes] = ()
        if len(self._names) < _MAX_KNOWN_NAMES:
            self._names.update(dict.fromkeys(name for part in parts for name in part.names))
        name = self._name = _judged_series((*self._names,))
        with_loss = [part for part in parts if name in part.names]
        for part in with_loss:
            if (
                self._learned[part.names] < _MAX_BLOCKS_LEARNED
                and len(self._learned) <= _MAX_KNOWN_NAMES
            ):
                self._learned[part.names] += 1
                lines = lines or written.split(b"\n")
                self._learn(data, lines, part, name)
        if with_loss and _is_often_empty(name):
            lines = lines or written.split(b"\n")
            self._worded += _count_words_as_loss(
                lines, sorted(line_numbers(data, _starts(with_loss)))
            )
        places = [place for place, count in self._seen.items() if count >= _MIN_PLACE_SAMPLES]
        forms = self._other_forms(outline(written), places) if places else frozenset()
        if not forms:
            return
        records = line_numbers(data, _starts(with_loss))
        begin = min(records, default=0) if is_first else 0
        self._take(
            lines or written.split(b"\n"),
            forms,
            records,
            line_numbers(data, _starts(reports)),
            begin,
            first_line,
        )

    def _learn(self, data: bytes, lines: Sequence[bytes], part: TextPart, name: str) -> None:
        """Find the places of the losses of some records."""
        cells = part.cells[part.names.index(name)]
        stride = max(len(cells) // _PLACE_SAMPLES, 1)
        for start, cell in zip(part.starts[::stride], cells[::stride], strict=True):
            number = count_line_ends(data[: start + 1])
            if cell is not None and _FINITE_DIGITS.fullmatch(cell) and number < len(lines):
                self._seen.update(_places(lines[number][:MAX_UNREAD_LINE], cell, name))

    def _other_forms(self, forms: bytes, places: list[_Place]) -> frozenset[bytes]:
        """Return the lines of an outline with a text in one of some places."""
        if places != self._places or len(self._without_text) > _MAX_FORMS_KNOWN:
            self._places, self._without_text = places, frozenset()
        heads = tuple({_head(place.before) for place in places})
        lines = (line for line in forms.split(b"\n") if line.lstrip().startswith(heads))
        unknown = (line for line in lines if line not in self._without_text)
        examined = frozenset(islice(unknown, _MAX_FORMS_EXAMINED))
        others = frozenset(
            line
            for line in examined
            if len(line) <= MAX_UNREAD_LINE and _has_text(_form(line).strip(), places)
        )
        self._without_text |= examined - others
        return others

    def _take(
        self,
        lines: Sequence[bytes],
        forms: Set[bytes],
        records: Set[int],
        reports: Set[int],
        begin: int,
        first_line: int,
    ) -> None:
        """Count the lines of some forms from a line on, without records and reports."""
        for number, line in enumerate(lines[begin:], begin):
            if number in records:
                self._has_loss_at_start |= _BAR_START.search(line) is not None
                self._between, self._since = self._between + self._since, 0
                self._open = 0
                continue
            is_other = number not in reports and line.translate(ALL_DIGITS).rstrip(b"\n") in forms
            is_other &= not states_course(line)
            if is_other and (self._has_loss_at_start or _BAR_START.search(line) is None):
                if line.rstrip().endswith(_OPEN_ENDS):
                    self._open += 1
                else:
                    self._count += 1
                    self._since += 1
                if self._line is None:
                    self._line, self._text = first_line + number - 1, line[:MAX_UNREAD_LINE]

    def left_out(self) -> list[LeftOut]:
        """Return the entry for these lines."""
        is_loss = not _is_often_empty(self._name)
        if self._worded and not is_loss:
            lines = plural(self._worded, "record has no number", "records have no number")
            message = f"{lines} in the place of the training loss"
            return [LeftOut(code=EventCode.CELLS_LEFT_OUT, message=message, count=self._worded)]
        # A score or an evaluation has a placeholder where it is not measured.
        # A killed program may have left the last line, or one above a restart.
        count = self._count + max(self._open - 1, 0)
        if not count or (self._between >= _MIN_PLACE_SAMPLES and not is_loss):
            return []
        lines = plural(count, "line has no number", "lines have no number")
        place = "the loss" if is_loss or is_a_loss(self._name) else repr(self._name)
        return [
            LeftOut(
                code=EventCode.CELLS_LEFT_OUT,
                message=f"{lines} in the place of {place}",
                count=count,
                line=self._line,
                text=self._text.decode("utf-8", "replace"),
            )
        ]


@lru_cache(maxsize=256)
def _judged_series(names: tuple[str, ...]) -> str:
    """Return the name of the judged series among names, or an empty one."""
    losses = [name for name in names if is_a_loss(name) and not is_evaluation(name)]
    roles = assign(losses or names).columns
    judged = [*(roles[role] for role in _JUDGED if role in roles), *losses]
    scores = (name for name in names if score_direction(name) is not None)
    return judged[0] if judged else next(scores, "")


@lru_cache(maxsize=256)
def _is_often_empty(name: str) -> bool:
    """Return True if a series may be missing from some records: no training loss."""
    return "loss" not in assign([name]).columns and (is_evaluation(name) or not is_a_loss(name))


def _starts(parts: Iterable[TextPart]) -> Iterable[int]:
    return (start for part in parts for start in part.starts)


def _count_words_as_loss(lines: Sequence[bytes], records: Sequence[int]) -> int:
    """Count the records with a text as the training loss, if the first ones have one."""
    samples = records[: 2 * _MIN_PLACE_SAMPLES]
    if sum(_has_words_as_loss(lines[number]) for number in samples) < _MIN_PLACE_SAMPLES:
        return 0
    return sum(_has_words_as_loss(lines[number]) for number in records)


def _has_words_as_loss(line: bytes) -> bool:
    """Return True if a line has no number for a training loss: a null, a spelling, or signs."""
    for match in _WORDS_AS_LOSS.finditer(line[:MAX_UNREAD_LINE]):
        text = match[2].decode("utf-8", "replace").strip().lower()
        parts = text.split("/")
        is_spelled = text.endswith("nan") or not_finite(text) is not None or {*parts} <= NULL_WORDS
        has_letters = any(sign.isascii() and sign.isalpha() for sign in text)
        if (is_spelled or not has_letters) and not is_evaluation(match[1].decode()):
            return True
    return False


def _places(line: bytes, cell: bytes, name: str) -> set[_Place]:
    """Return the place of a value on a line; also up to a second one, such as its mean."""
    # Its decimal comma was read as a point.
    cell = cell if cell in line else cell.replace(b".", b",")
    often_empty = _is_often_empty(name)
    values = [
        (begin, end)
        for begin in find_positions(line, cell)
        if not line[begin - 1 : begin].isdigit()
        and line[begin - 1 : begin] != b"."
        and not line[(end := begin + len(cell)) : end + 1].isdigit()
    ]
    before = _form(line[: values[0][0]]).rstrip() if values else b""
    after = (_form(line[end:]).strip() for _, end in (*values[:1], *values[-1:]))
    places = {_Place(before, text[:_SHOWN_AFTER], often_empty) for text in after}
    return places if before else set()


# A log repeats its lines with other numbers.
@lru_cache(maxsize=1 << 10)
def _form(text: bytes) -> bytes:
    form = _BLANKS_IN_FORM.sub(b" ", _BAR_PARTS.sub(b"~", _NUMBER_IN_FORM.sub(b"0", text)))
    return _BAR_IN_FORM.sub(b"%|~|", form)


def _head(before: bytes) -> bytes:
    """Return the beginning of the outlines of lines of a form."""
    return before.lstrip().partition(b"0")[0].partition(b"~")[0][:_SHOWN_AFTER].partition(b" ")[0]


def _has_text(form: bytes, places: Sequence[_Place]) -> bool:
    """Return True if a form has no number in one of these places, and one in no other."""
    at_places = [
        (place, form[len(place.before.lstrip()) :].strip())
        for place in places
        if form.startswith(place.before.lstrip())
    ]
    is_other = any(_is_text(rest, place) or _is_empty(rest, place) for place, rest in at_places)
    return is_other and not any(_NUMBER_LEFT.match(rest) for _, rest in at_places)


def _is_empty(rest: bytes, place: _Place) -> bool:
    """Return True if nothing is in the place of a loss, as in ``loss: , lr: 0.1``."""
    if place.often_empty:
        return False
    if not place.after:
        return not rest and place.before[-1:] in _VALUE_SIGNS
    return any(map(str.isalnum, place.after.decode("utf-8", "replace"))) and rest.startswith(
        place.after
    )


def _is_text(rest: bytes, place: _Place) -> bool:
    """Return True if a place has a text instead of a number."""
    if not rest or _NUMBER_LEFT.match(rest) is not None:
        return False
    if any(map(bytes.isalnum, map(bytes, zip(place.after)))):
        end = rest.find(place.after, 1)
        return 0 < end <= _LONGEST_TEXT_IN_PLACE and not _is_placeholder(rest[:end], place)
    name = _NAME_IN_FORM.search(place.before.rstrip(_NAME_ENDS))
    is_named = place.before.endswith(b"=") or name is not None
    value = rest.removesuffix(place.after)
    words = len(value.split())
    is_short = words == 1 or (place.before[-1:] in _VALUE_SIGNS and words <= _MAX_WORDS_IN_PLACE)
    is_short |= not_finite(value.decode("utf-8", "replace").strip()) is not None
    is_short = is_short and len(value) <= _LONGEST_TEXT_IN_PLACE
    return is_named and is_short and not _is_placeholder(value, place)


def _is_placeholder(value: bytes, place: _Place) -> bool:
    """Return True if a text is a null in place of a value that was not measured."""
    text = value.decode("utf-8", "replace").strip(" \t\"'%")
    return place.often_empty and text.lower() in NULL_WORDS
