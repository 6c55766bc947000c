"""Read one JSON document piece by piece, so that all before a cut or a fault is kept."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Final

from stabdiag.readers.json.rows import DECODER, mended
from stabdiag.readers.source import Stream

_SPACE: Final = re.compile(r"[ \t\r\n]*")

# The end of a broken record, and what lies between it and the next one.
_END_OF_RECORD: Final = re.compile(r"\}(?=\s*[,\]])")
_TO_THE_NEXT: Final = re.compile(r"\}\s*,\s*(?=\{)")

# Little is held at a time, because an error of the decoder costs all of it.
_READ: Final = 1 << 17

# How many characters of a list of plain values are decoded at once.
_BUNCH: Final = 1 << 16

# An error so near the end of what was read so far may be due to that end: "nul", "-Infin".
_NEAR: Final = 16

# How many characters are shown of what is not JSON.
_SHOWN: Final = 20


class Broken(Exception):
    """The document cannot be read on from here."""


class Document:
    """A place in a JSON text that is read from a stream as it is needed."""

    def __init__(self, stream: Stream) -> None:
        """Begin at the start of a stream."""
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8-sig")(errors="replace").decode
        self._text = ""
        self._at = 0
        self._ended = False
        self._lines = 0
        self._counted = 0  # up to here the line ends of the text are counted

    def line(self) -> int:
        """Return the number of the line, from 1."""
        self._lines += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._lines + 1

    def peek(self) -> str:
        """Return the next character that is no blank; an empty string at the end."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def members(self) -> Iterator[str]:
        """Yield the keys of an object; the caller has to take each value before the next key."""
        self._expect("{")
        if self.peek() == "}":
            self._at += 1
            return
        while True:
            if self.peek() != '"':
                raise self._broken("a name in double quotes")
            key = str(self.value())
            self._expect(":")
            yield key
            if not self.goes_on("}"):
                return

    def open_list(self) -> str:
        """Step into a list, and return the first character of what it holds, or ``]``."""
        self._expect("[")
        return self.peek()

    def bunches(self, *, together: bool = True) -> Iterator[list[object]]:
        """Yield the elements of an open list, many at a time where they are plain.

        Plain are numbers and words, and records without lists or records in them. A list that is
        known to hold something else must not be read ``together``.
        """
        end = "}" if self.peek() == "{" else ""
        while self.peek() != "]":
            found = self._bunch(end) if together else None
            if found is None:
                together = False
                found = [self.value()]
            yield found
            if self.peek() != "]":
                self._expect(",")
        self._at += 1

    def goes_on(self, end: str) -> bool:
        """Step over a comma and return True, or over ``end`` and return False."""
        following = self.peek()
        if following not in (",", end) or not following:
            raise self._broken(f"a comma or {end}")
        self._at += 1
        return following == ","

    def value(self) -> object:
        """Take one whole value."""
        if not self.peek():
            raise self._broken("a value")
        while True:
            try:
                found, stop = DECODER.raw_decode(self._text, self._at)
            except RecursionError:
                raise Broken("nested too deeply") from None
            except json.JSONDecodeError as error:
                at_end = error.pos > len(self._text) - _NEAR or error.msg.startswith("Untermin")
                if at_end and self._more():
                    continue
                return self._mended(error, cut=at_end)
            # Of "2.5" cut in two the first half is a number, too.
            if len(self._text) - stop < _NEAR and not self._ended:
                self._more()
                continue
            near = len(self._text) - stop < _NEAR
            if near and isinstance(found, float) and not self._text[stop:].strip(".eE+-"):
                raise Broken("breaks off")  # perhaps in the midst of the number
            self._at = stop
            return found

    def skip_to_next_record(self) -> bool:
        """Skip to the beginning of the next record of a list, if there is one."""
        while True:
            found = _TO_THE_NEXT.search(self._text, self._at)
            if found is not None:
                self._at = found.end()
                return True
            self._at = max(self._at, len(self._text) - _NEAR)
            if not self._more():
                return False

    def _bunch(self, end: str) -> list[object] | None:
        """Take elements up to a comma or the end of the list; None if they are not plain.

        ``end`` is the character that ends an element, where there is one.
        """
        if len(self._text) - self._at < _BUNCH:
            self._more()
        limit = self._at + _BUNCH
        close = self._text.find("]", self._at, limit)
        if close >= 0 and not end:
            cut = close
        else:
            until = close if close >= 0 else limit
            cut = self._text.rfind(end or ",", self._at, until) + len(end)
        if cut <= self._at:
            return None
        found = _listed(self._text[self._at : cut])
        if found is not None:
            self._at = cut
        return found

    def _mended(self, error: json.JSONDecodeError, *, cut: bool) -> object:
        """Take a record that is JSON except for numbers such as a bare ``nan``."""
        end = _END_OF_RECORD.search(self._text, self._at)
        if end is not None and self._text[self._at] == "{":
            found = _listed(mended(self._text[self._at : end.end()]))
            if found is not None:
                self._at = end.end()
                return found[0]
        raise Broken(
            "breaks off" if cut else f"not JSON, {error.msg.lower()}{self._shown(error.pos)}"
        )

    def _expect(self, char: str) -> None:
        if self.peek() != char:
            raise self._broken(f"a {char}")
        self._at += 1

    def _broken(self, wanted: str) -> Broken:
        if not self.peek():
            return Broken("breaks off")
        return Broken(f"not JSON, expecting {wanted}{self._shown(self._at)}")

    def _shown(self, place: int) -> str:
        found = self._text[place : place + _SHOWN].partition("\n")[0].rstrip()
        return f" at {found!r}"

    def _more(self) -> bool:
        """Read on: as much again as is held, so that a long value is not tried too often."""
        if self._ended:
            return False
        data = self._stream.read(max(_READ, len(self._text) - self._at))
        self._ended = not data
        self.line()
        self._text = self._text[self._at :] + self._decode(data, final=self._ended)
        self._at = self._counted = 0
        return not self._ended


def _listed(text: str) -> list[object] | None:
    found = _decoded(f"[{text}]")
    return found if found is not None else _decoded(mended(f"[{text}]"))


def _decoded(text: str) -> list[object] | None:
    try:
        found: list[object] = DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return found
