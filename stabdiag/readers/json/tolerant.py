"""The tolerant readers of JSON lines and documents: slow, but they read all that makes sense."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Final

from stabdiag.readers.columns import BadLine, Rows, rows_of
from stabdiag.readers.json.keyed import steps_of
from stabdiag.readers.nested import Record, flattened
from stabdiag.readers.words import NULL, NUMBER, meaning

# Integers become floats at once, which spares them the limit on the digits of an int.
DECODER: Final = json.JSONDecoder(strict=False, parse_int=float)

# Decoding so many lines at once takes half the time of decoding them one by one.
_BUNCH: Final = 500

# A string or a number of JSON, which are left alone, or what begins as another number does: -nan,
# inf, 007, .5, 1.#QNAN. Whether it is one is for ``meaning`` to say, as it is of any other word in
# the place of a value: None, N/A, (nan), tensor(nan, device='cuda:0'). A string that has no end is
# one up to the end of the text: else each of its quotes would be tried as a start.
_NUMBER: Final = re.compile(
    r'"(?:[^"\\]+|\\.)*(?:"|\\?\Z)'
    r"|(?<![-+.\w])(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:e[-+]?\d+)?(?![-+.\w(])"
    r"|(?P<odd>[-+]?(?:[.\d]|nan|inf)[-+.#\w]*(?:\(\w*\))?%?))"
    r"|(?:(?<=:)|(?<=:\s))(?P<word>[^\s\"{}\[\],:\d][^\s\"{}\[\],:]{0,40}?"
    r"(?:\([^()\n\"]{0,100}\))?)(?=\s*[,}\]]|\s*\Z)",
    re.IGNORECASE | re.DOTALL,
)

# {"loss": 2.5,}
_TRAILING_COMMA: Final = re.compile(r",(?=\s*\}\s*\Z)")

# The words that JSON knows.
_CONSTANTS: Final = frozenset({"true", "false", "null"})

_SPACE: Final = re.compile(r"\s*")

# How many opening braces of a broken line are tried as the start of a whole record.
_RESCUES: Final = 8


def read_lines(block: bytes) -> tuple[Rows, list[BadLine], int]:
    """Return the records of a block, its bad lines by their number in it, and its line count."""
    lines = block.decode("utf-8", "replace").split("\n")
    if not lines[-1]:
        lines.pop()
    records: list[Record] = []
    bad: list[BadLine] = []
    for start in range(0, len(lines), _BUNCH):
        bunch = [line.strip() for line in lines[start : start + _BUNCH]]
        together = _decode_bunch(bunch)
        if together is not None:
            records += together
            continue
        for number, line in enumerate(bunch, start=start + 1):
            found, reason = decode_line(line)
            if reason and line.startswith("{'") and '"' not in line:
                # A Python dict among JSON lines.
                found, reason = decode_line(line.replace("'", '"'))
            if reason:
                bad.append(
                    BadLine(line=number, reason=reason, above=len(records), text=lines[number - 1])
                )
            records += found
    steps = steps_of(records)
    if steps:
        return rows_of(*flattened(steps)), bad, len(lines)
    if block.count(b"{") > len(records):
        records, order = flattened(records)
        return rows_of(records, order), bad, len(lines)
    return rows_of(records), bad, len(lines)


def decode_line(line: str) -> tuple[list[Record], str]:
    """Return the records on a line, and what is wrong with it, if anything."""
    line = line.strip().lstrip("\ufeff")
    found, end, reason = _decode_along(line)
    if not reason:
        return found, ""
    better = mended(line)
    if better != line:
        again, _, still = _decode_along(better)
        if not still:
            return again, ""
    rescued = _after_a_cut(line, end)
    return found + rescued, reason


def _decode_bunch(lines: list[str]) -> list[Record] | None:
    lines = [line for line in lines if line]
    if not all(line[0] == "{" and line[-1] == "}" for line in lines):
        return None
    try:
        records = DECODER.decode(f"[{','.join(lines)}]")
    except (ValueError, RecursionError):
        return None
    whole = len(records) == len(lines) and all(type(record) is dict for record in records)
    return records if whole else None


def _decode_along(line: str) -> tuple[list[Record], int, str]:
    """Decode one object after the other; stop, and say why, at the first that is none."""
    found: list[Record] = []
    end = 0
    while end < len(line):
        try:
            value, stop = DECODER.raw_decode(line, end)
        except RecursionError:
            return found, end, "nested too deeply"
        except json.JSONDecodeError as error:
            return found, end, _why(line, end, error)
        if not isinstance(value, dict):
            return found, end, f"not an object but {_KINDS.get(type(value), 'a number')}"
        found.append(value)
        end = _SPACE.match(line, stop).end()  # type: ignore[union-attr]  # matches anywhere
    return found, end, ""


_KINDS: Final = {list: "a list", str: "a text", bool: "a truth value", type(None): "null"}


def _why(line: str, start: int, error: json.JSONDecodeError) -> str:
    if "\0" in line:
        return "holds NUL bytes"
    if line[start] != "{":
        return "not JSON" if start == 0 else f"more than a JSON object (from character {start + 1})"
    if error.pos >= len(line) or error.msg.startswith("Unterminated"):
        return "breaks off"
    return f"not JSON ({error.msg.lower()} at character {error.pos + 1})"


def _after_a_cut(line: str, start: int) -> list[Record]:
    """Return the records that follow a broken one on its line.

    A process that is killed leaves half a line; the next one appends to it.
    """
    for _ in range(_RESCUES):
        start = line.find("{", start + 1)
        if start < 0:
            return []
        found, _, reason = _decode_along(line[start:])
        if not reason:
            return found
    return []


def mended(text: str) -> str:
    """Return JSON whose numbers are spelt as Python's decoder knows them."""
    return _TRAILING_COMMA.sub("", _NUMBER.sub(_as_json, text))


def _as_json(match: re.Match[str]) -> str:
    written = match["odd"] or match["word"]
    if not written or written in _CONSTANTS:
        return match.group()
    state, value, _ = meaning(written)
    return {NUMBER: json.dumps(value), NULL: "null"}.get(state, match.group())


# No log lies deeper than this in a document.
DEEPEST: Final = 20

# The end of a broken record that another one follows, and what may be cut by the end of the text.
_TO_THE_NEXT: Final = re.compile(r"\}(?=\s*,\s*\{)")
_CUT: Final = re.compile(r'(?:"[^"]*|[^\s,:\]}"]{0,16}\s*)\Z')

# How many characters are shown of what is not JSON, and how many records may be left out.
_SHOWN: Final = 20
_MOST_FAULTS: Final = 1000


class _Broken(Exception):
    """The text cannot be read on from here."""


class Documents:
    """The ``values`` of a text, which is mostly one JSON document.

    What is sound is decoded at once. Of an object that is not, the members before the fault are
    kept; of a list the elements before it, and if these are records, those behind it as well.
    """

    def __init__(self, text: str) -> None:
        """Read the text as far as it goes."""
        self.values: list[object] = []
        self._text = text
        self._at = 0
        self._faults: list[tuple[int, str]] = []
        self._is_mended = False
        self.is_cut = False
        try:
            while self._peek():
                self._take(self.values.append, skips=True)
        except _Broken as broken:
            self._faults.append((self._at, str(broken)))
            # A list may be written record by record; an object is written as a whole.
            self.is_cut = text.lstrip()[:1] == "{"

    def bad(self) -> list[BadLine]:
        """Return what could not be read."""
        found: list[BadLine] = []
        line, counted = 1, 0
        for at, reason in self._faults:
            line, counted = line + self._text.count("\n", counted, at), at
            found.append(BadLine(line=line, reason=reason))
        return found

    def _take(self, put: Callable[[object], object], *, depth: int = 0, skips: bool) -> None:
        """Take a value, and ``put`` it where it belongs, before it is read to an end it may lack.

        ``skips`` says whether records in it may be left out.
        """
        opening = self._peek()
        sound = self._sound()
        if sound is not None:
            found, stop = sound
            # Of "2.5" cut in two the first half is a number, too.
            if isinstance(found, float) and not self._text[stop : stop + 4].strip(".eE+-"):
                raise _Broken("breaks off")
            self._at = stop
            put(found)
        elif opening not in ("{", "["):
            raise self._expected("a value")
        elif depth == DEEPEST:
            raise _Broken("nested too deeply")
        elif opening == "{":
            members: dict[str, object] = {}
            put(members)
            self._members(members, depth + 1, skips=skips)
        else:
            elements: list[object] = []
            put(elements)
            self._elements(elements, depth + 1, skips=skips)

    def _sound(self) -> tuple[object, int] | None:
        """Return the value that stands here, and where it ends; None if it is not sound."""
        try:
            return DECODER.raw_decode(self._text, self._at)
        except RecursionError:
            return None
        except json.JSONDecodeError as error:
            if self._is_mended or _CUT.match(self._text, error.pos):
                return None
        self._text = self._text[: self._at] + mended(self._text[self._at :])
        self._is_mended = True
        return self._sound()

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
            if not self._goes_on("}"):
                return

    def _elements(self, into: list[object], depth: int, *, skips: bool) -> None:
        self._at += 1
        skips = skips and self._peek() == "{"
        while True:
            whole: list[object] = []
            try:
                self._take(whole.append, depth=depth, skips=False)
                into += whole
                if not self._goes_on("]"):
                    return
            except _Broken as broken:
                following = _TO_THE_NEXT.search(self._text, self._at) if skips else None
                if following is None or len(self._faults) == _MOST_FAULTS:
                    raise
                self._faults.append((self._at, str(broken)))
                self._at = following.end()
                self._goes_on("]")

    def _peek(self) -> str:
        """Return the next character that is no blank; an empty string at the end."""
        self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
        return self._text[self._at : self._at + 1]

    def _goes_on(self, end: str) -> bool:
        """Step over a comma and return True, or over ``end`` and return False."""
        comma = self._peek() == ","
        self._at += comma
        ends = self._peek() == end
        if not (comma or ends):
            raise self._expected(f"a comma or {end}")
        self._at += ends
        return not ends

    def _expected(self, what: str) -> _Broken:
        if _CUT.match(self._text, self._at):
            return _Broken("breaks off")
        shown = self._text[self._at : self._at + _SHOWN].partition("\n")[0].rstrip()
        return _Broken(f"not JSON, expecting {what} at {shown!r}")
