"""The tolerant readers of JSON lines and documents: slow, but they accept damaged input."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Final, NamedTuple

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.columns import BadLine
from stabdiag.readers.json.keyed import epoch_steps
from stabdiag.readers.nested import Record, flattened
from stabdiag.readers.pieces import Rows, record_rows
from stabdiag.readers.words import NULL, NUMBER, meaning

# Integers are decoded as floats, which have no limit on the number of digits.
DECODER: Final = json.JSONDecoder(strict=False, parse_int=float)

# Decoding this many lines together takes half the time of decoding them one by one.
_LINES_PER_CALL: Final = 500

# A string or a number of JSON, which are kept, or the start of another form of number: -nan, inf,
# 007, .5, 1.#QNAN. ``meaning`` decides whether it is a number, as for any other word in the place
# of a value: None, N/A, (nan), tensor(nan, device='cuda:0'). A string without an end extends to the
# end of the text: otherwise each of its quotes would be tried as a start.
_JSON_TOKEN: Final = lazy_pattern(
    r'"(?:[^"\\]+|\\.)*(?:"|\\?\Z)'
    r"|(?<![-+.\w])(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:e[-+]?\d+)?(?![-+.\w(])"
    r"|(?P<odd>[-+]?(?:[.\d]|nan|inf)[-+.#\w]*(?:\(\w*\))?%?))"
    r"|(?:(?<=:)|(?<=:\s))(?P<word>[^\s\"{}\[\],:\d][^\s\"{}\[\],:]{0,40}?"
    r"(?:\([^()\n\"]{0,100}\))?)(?=\s*[,}\]]|\s*\Z)",
    re.IGNORECASE | re.DOTALL,
)

# {"loss": 2.5,}
_TRAILING_COMMA: Final = lazy_pattern(r",(?=\s*\}\s*\Z)")

# The constants of JSON.
_CONSTANTS: Final = frozenset({"true", "false", "null"})

_JSON_SPACE: Final = lazy_pattern(r"\s*")

# A line of many objects is recognized by this many characters.
_EXAMINED_CHARS: Final = 1 << 14

# This many opening braces of a broken line are tried as the start of a complete record.
_RESCUES: Final = 8


def read_lines(block: bytes) -> tuple[Rows, list[BadLine], int]:
    """Return the records of a block, its bad lines with their numbers, and its line count."""
    lines = block.decode("utf-8", "replace").split("\n")
    if not lines[-1]:
        lines.pop()
    records: list[Record] = []
    bad: list[BadLine] = []
    for start in range(0, len(lines), _LINES_PER_CALL):
        batch = [line.strip() for line in lines[start : start + _LINES_PER_CALL]]
        decoded = _decode_batch(batch)
        if decoded is not None:
            records += decoded
            continue
        for number, line in enumerate(batch, start=start + 1):
            decoded_records, end, reason = _decode_line(line)
            if reason and line.startswith("{'") and '"' not in line:
                # A Python dict among JSON lines.
                decoded_records, end, reason = _decode_line(line.replace("'", '"'))
            if reason:
                # The beginning of a long line of many records was read.
                text = line[end:] if end > _EXAMINED_CHARS else lines[number - 1]
                bad.append(BadLine(line=number, reason=reason, above=len(records), text=text))
            records += decoded_records
    steps = epoch_steps(records)
    if steps:
        return record_rows(*flattened(steps)), bad, len(lines)
    if block.count(b"{") > len(records) or b"[[" in block:
        records, order = flattened(records)
        return record_rows(records, order), bad, len(lines)
    return record_rows(records), bad, len(lines)


def decode_line(line: str) -> tuple[list[Record], str]:
    """Return the records on a line, and an error message, or ""."""
    return _decode_line(line)[::2]


def begins_with_records(line: str) -> bool:
    """Return True if a line has only objects. Only the beginning of a very long line counts."""
    if len(line) > _EXAMINED_CHARS:
        beginning = _decode_objects(line[:_EXAMINED_CHARS].strip().lstrip("\ufeff"))
        if beginning.records and beginning.reason in ("", _BREAKS_OFF):
            return True
    records, reason = decode_line(line)
    return bool(records) and not reason


def _decode_line(line: str) -> tuple[list[Record], int, str]:
    """Return the records on a line, the position of the first error, and its message, or ""."""
    line = line.strip().lstrip("\ufeff")
    records, end, reason, fault = _decode_objects(line)
    if not reason:
        return records, end, ""
    # The objects above are valid. The remainder may begin with something else.
    remainder = line[end:]
    is_object = remainder.startswith("{")
    repaired = repair_fault(remainder, fault - end) if is_object else remainder
    if repaired != remainder and not (decoded := _decode_objects(repaired)).reason:
        return records + decoded.records, len(line), ""
    rescued = _records_after_break(line, end)
    return records + rescued, end, reason


def repair_fault(text: str, fault: int) -> str:
    """Return a repaired text, or the text itself if nothing up to its fault can be repaired."""
    above = text[: fault + _EXAMINED_CHARS]
    if len(above) < len(text) and _JSON_TOKEN.sub(_as_json, above) == above:
        return text
    return repair(text)


def _decode_batch(lines: list[str]) -> list[Record] | None:
    lines = [line for line in lines if line]
    if not all(line[0] == "{" and line[-1] == "}" for line in lines):
        return None
    try:
        records = DECODER.decode(f"[{','.join(lines)}]")
    except (ValueError, RecursionError):
        return None
    is_complete = len(records) == len(lines) and all(type(record) is dict for record in records)
    return records if is_complete else None


class _Objects(NamedTuple):
    """Consecutive objects up to the first error.

    ``end`` is the start of the object with the error, ``fault`` its position.
    """

    records: list[Record]
    end: int
    reason: str = ""
    fault: int = 0


def _decode_objects(line: str) -> _Objects:
    """Decode consecutive objects up to the first error."""
    records: list[Record] = []
    end = 0
    while end < len(line):
        try:
            value, stop = DECODER.raw_decode(line, end)
        except RecursionError:
            return _Objects(records, end, "nested too deeply", end)
        except json.JSONDecodeError as error:
            return _Objects(records, end, _error_message(line, end, error), error.pos)
        if not isinstance(value, dict):
            actual = _TYPE_NAMES.get(type(value), "a number")
            return _Objects(records, end, f"not an object but {actual}", stop)
        records.append(value)
        end = _JSON_SPACE.match(line, stop).end()  # type: ignore[union-attr]  # matches anywhere
    return _Objects(records, end)


_BREAKS_OFF: Final = "breaks off"
_TYPE_NAMES: Final = {list: "a list", str: "a text", bool: "a truth value", type(None): "null"}


def _error_message(line: str, start: int, error: json.JSONDecodeError) -> str:
    if "\0" in line:
        return "contains NUL bytes"
    if line[start] != "{":
        return "not JSON" if start == 0 else f"more than a JSON object (from character {start + 1})"
    if error.pos >= len(line) or error.msg.startswith("Unterminated"):
        return _BREAKS_OFF
    return f"not JSON ({error.msg.lower()} at character {error.pos + 1})"


def _records_after_break(line: str, start: int) -> list[Record]:
    """Return the records after a broken one on its line.

    A killed process leaves half a line, and the next process appends to it.
    """
    for _ in range(_RESCUES):
        start = line.find("{", start + 1)
        if start < 0:
            return []
        decoded = _decode_objects(line[start:])
        if not decoded.reason:
            return decoded.records
    return []


@lru_cache(maxsize=2)
def repair(text: str) -> str:
    """Return JSON with its numbers in the form that Python's decoder accepts.

    Cached, as the detection of several formats repairs the same line.
    """
    return _TRAILING_COMMA.sub("", _JSON_TOKEN.sub(_as_json, text))


def _as_json(match: re.Match[str]) -> str:
    written = match["odd"] or match["word"]
    if not written or written in _CONSTANTS:
        return match.group()
    state, value, _ = meaning(written)
    return {NUMBER: json.dumps(value), NULL: "null"}.get(state, match.group())


# No log is nested deeper than this in a document.
MAX_DOCUMENT_DEPTH: Final = 20

# The end of a broken record before another one, in a list or outside of one, and the token that the
# end of the text may cut.
_BEFORE_NEXT: Final = lazy_pattern(r"\}(?=\s*,\s*\{)")
_BETWEEN_VALUES: Final = lazy_pattern(r"[\s,]+")
_RECORD_BELOW: Final = lazy_pattern(r"\n[ \t]*(?=\{)")
_END_ABOVE_NEXT: Final = lazy_pattern(r"(?<=\n)\}(?=[\s,]*\{)")
_CUT: Final = lazy_pattern(r'(?:"[^"]*|[^\s,:\]}"]{0,16}\s*)\Z')

# An error message shows this many characters. At most this many records may be left out.
_MAX_SHOWN_CHARS: Final = 20
_MAX_FAULTS: Final = 1000

# Lists without an end are decoded up to the end of the text, each in vain, at most this many times.
_MAX_VAIN_DECODES: Final = 100


class _Broken(Exception):
    """The text cannot be read past this point."""


class Documents:
    """The ``values`` of a text, which is usually one JSON document.

    Valid values are decoded in one call. If an object is broken, the members before the fault are
    kept. If a list is broken, the elements before the fault are kept, and later records as well.
    """

    def __init__(self, text: str) -> None:
        """Read the text up to the first fault that cannot be skipped."""
        self.values: list[object] = []
        self._text = text
        self._at = 0
        self._faults: list[tuple[int, str]] = []
        self._is_repaired = False
        self._vain = 0  # the characters that were decoded without a result
        self.is_cut = False
        try:
            while self._peek():
                self._take_next()
        except _Broken as broken:
            self._faults.append((self._at, str(broken)))
            # A list may be written record by record. An object, or a list on one line, is written
            # in one piece.
            content = text.strip()
            self.is_cut = content[:1] == "{" or (content[:1] == "[" and "\n" not in content)

    def bad(self) -> list[BadLine]:
        """Return the places that could not be read."""
        bad_lines: list[BadLine] = []
        line, counted = 1, 0
        for at, reason in self._faults:
            line, counted = line + self._text.count("\n", counted, at), at
            bad_lines.append(BadLine(line=line, reason=reason))
        return bad_lines

    def _take_next(self) -> None:
        """Read a value outside any other, or skip the text above the next record.

        Records copied from a list may lack its brackets, and have notes between them.
        """
        opening = self._peek()
        is_below = bool(self.values) and isinstance(self.values[-1], dict)
        if opening == "," and is_below:
            self._at = _BETWEEN_VALUES.match(self._text, self._at).end()  # type: ignore[union-attr]
        elif opening in ("{", "[") or not is_below:
            try:
                self._take(self.values.append, skips=True)
            except _Broken as broken:
                if not self._skip(broken, _END_ABOVE_NEXT):
                    raise
        elif not self._skip(misplaced := self._expected("a value"), _RECORD_BELOW):
            raise misplaced

    def _skip(self, broken: _Broken, to: re.Pattern[str]) -> bool:
        """Note a fault and go behind the next match of a pattern; return False without one."""
        following = to.search(self._text, self._at)
        is_lost = self._vain > _MAX_VAIN_DECODES * len(self._text)
        if following is None or is_lost or len(self._faults) == _MAX_FAULTS:
            return False
        self._faults.append((self._at, str(broken)))
        self._at = following.end()
        return True

    def _take(self, put: Callable[[object], object], *, depth: int = 0, skips: bool) -> None:
        """Read a value. A container is ``put`` before its members, as it may lack an end.

        With ``skips``, broken records in it may be left out.
        """
        opening = self._peek()
        valid = self._decode_valid()
        if valid is not None:
            value, stop = valid
            # A part of a truncated number is a number as well.
            if isinstance(value, float) and not self._text[stop : stop + 4].strip(".eE+-"):
                raise _Broken("breaks off")
            self._at = stop
            put(value)
        elif opening not in ("{", "["):
            raise self._expected("a value")
        elif depth == MAX_DOCUMENT_DEPTH:
            raise _Broken("nested too deeply")
        elif opening == "{":
            members: dict[str, object] = {}
            put(members)
            self._members(members, depth + 1, skips=skips)
        else:
            elements: list[object] = []
            put(elements)
            self._elements(elements, depth + 1, skips=skips)

    def _decode_valid(self) -> tuple[object, int] | None:
        """Return the value at the current position and its end, or None if it is not valid."""
        try:
            return DECODER.raw_decode(self._text, self._at)
        except RecursionError:
            self._vain += len(self._text)
            return None
        except json.JSONDecodeError as error:
            self._vain += error.pos - self._at
            if self._is_repaired or _CUT.match(self._text, error.pos):
                return None
        self._text = self._text[: self._at] + repair(self._text[self._at :])
        self._is_repaired = True
        return self._decode_valid()

    def _members(self, into: dict[str, object], depth: int, *, skips: bool) -> None:
        self._at += 1
        while True:
            if self._peek() != '"':
                raise self._expected("a name in double quotes")
            keys: list[object] = []
            self._take(keys.append, skips=skips)
            if self._peek() != ":":
                raise self._expected("a :")
            self._at += 1
            self._take(partial(into.__setitem__, str(keys[0])), depth=depth, skips=skips)
            if not self._continues("}"):
                return

    def _elements(self, into: list[object], depth: int, *, skips: bool) -> None:
        self._at += 1
        skips = skips and self._peek() == "{"
        while True:
            elements: list[object] = []
            try:
                self._take(elements.append, depth=depth, skips=False)
                into.append(elements.pop())
                if not self._continues("]"):
                    return
            except _Broken as broken:
                if not (skips and self._skip(broken, _BEFORE_NEXT)):
                    into += _plain_members(elements)
                    raise
                self._continues("]")

    def _peek(self) -> str:
        """Return the next character that is not a blank; an empty string at the end."""
        self._at = _JSON_SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
        return self._text[self._at : self._at + 1]

    def _continues(self, end: str) -> bool:
        """Step over a comma and return True, or over ``end`` and return False."""
        comma = self._peek() == ","
        self._at += comma
        ends = self._peek() == end
        if not (comma or ends):
            raise self._expected(f"a comma or {end}")
        self._at += ends
        return not ends

    def _expected(self, expected: str) -> _Broken:
        if _CUT.match(self._text, self._at):
            return _Broken("breaks off")
        shown = self._text[self._at : self._at + _MAX_SHOWN_CHARS].partition("\n")[0].rstrip()
        return _Broken(f"not JSON, expecting {expected} at {shown!r}")


def _plain_members(elements: list[object]) -> Iterator[Record]:
    """Yield the values of records that break off, without objects and lists in them."""
    for element in elements:
        if isinstance(element, dict):
            plain = {k: v for k, v in element.items() if not isinstance(v, dict | list)}
            if plain:
                yield plain
