"""Clean blocks of a text log: of colors, and of the carriage returns of progress bars."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from copy import copy
from functools import lru_cache
from io import BytesIO
from typing import Final

import numpy as np

from stabdiag.model.arrays import Ints
from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.foreign_names import (
    ASCII_LOSSES,
    has_foreign_loss_name,
    translate_names,
)
from stabdiag.model.text import clipped
from stabdiag.readers.blocks import blocks
from stabdiag.readers.source import Stream
from stabdiag.readers.source_code import begins_as_source
from stabdiag.readers.text.lines.emphasis import without_emphasis
from stabdiag.readers.text.lines.glued import separate_records
from stabdiag.readers.text.lines.grammar import TEXT_BLOCK
from stabdiag.readers.text.lines.line_forms import may_contain, outline
from stabdiag.readers.text.lines.values import name_bare_tensors, plain_values

# Colors and the movements of the cursor (ECMA-48), and the titles that shells set.
_ANSI: Final = lazy_pattern(
    rb"\x1b(?:\[[0-9;?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,256}\x07|[=>])"
)

# Colors and movements whose escape character a viewer or a string of Python shows: ESC[4A, ^[[K
_SPELLED_ESCAPES: Final = (b"ESC[", b"^[[", b"\\x1b[", b"\\033[", b"\\u001b[")
_SPELLED_ANSI: Final = lazy_pattern(
    rb"(?:%b)[\d;?]{0,16}[A-Za-z]" % b"|".join(map(re.escape, _SPELLED_ESCAPES))
)
# Colors whose escape character a page or a viewer dropped or shows: [32m, ^[[0m, ␛[0m
# Each alternative begins with a fixed byte, for speed.
_SHOWN_ANSI: Final = lazy_pattern(rb"(?:\^\[\[|\xe2\x90\x9b\[|\[)\d{0,3}(?:;\d{1,3}){0,4}m")
_RESETS: Final = (b"[0m", b"[39m", b"[m")

# The number of a cell before its output, as a notebook shows it. It would move the names of a table
# away from their columns.
_NOTEBOOK_LABEL: Final = lazy_pattern(rb"\A\nOut\[\d{1,6}\]:[ \t]?")

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

# UTF-16 that PowerShell appended to a log in UTF-8. The second byte of a wide line end begins the
# next line.
_WIDE_CHARACTERS: Final = lazy_pattern(rb"(?:\xff\xfe)?\0?(?:[\x01-\x7f]\0){8,}[\x01-\x7f]?")
# Each match has this part, whose first byte is found much faster in the bytes of another format.
_WIDE_PART: Final = lazy_pattern(rb"\0(?:[\x01-\x7f]\0){7}")

# A block of a post between two fences. Code in it is not a log, and its messages are literals.
_FENCE_MARK: Final = b"```"
_FENCED: Final = lazy_pattern(
    rb"((?:\A|(?<=\n))[ \t>]{0,8}```\w{0,20}[ \t]{0,8}\r?\n)(.{1,20000}?)(?=\n[ \t>]{0,8}```)",
    re.DOTALL,
)

# Blanks of other widths, and what a page shows for signs of HTML.
_WIDE_BLANKS: Final = (b"\xc2\xa0", b"\xe3\x80\x80")
_HTML_SIGNS: Final = (
    *((b"&#39;", b"'"), (b"&#x27;", b"'"), (b"&quot;", b'"'), (b"&nbsp;", b" ")),
    *((b"&lt;", b"<"), (b"&gt;", b">"), (b"&amp;", b"&")),
)

# The full-width punctuation of Chinese and Japanese texts (Unicode, FF00 to FF5E), and the
# quotation marks that a forum makes of plain ones, each with its plain sign.
_ASCII_SIGNS: Final = {
    **{chr(ord(sign) + 0xFEE0).encode(): sign.encode() for sign in ":,;()[]=%/-.|#"},
    **dict.fromkeys(("‘".encode(), "’".encode()), b"'"),
    **dict.fromkeys(("“".encode(), "”".encode()), b'"'),
}
_WIDE_SIGN: Final = lazy_pattern(b"|".join(_ASCII_SIGNS))

# Julia's 32-bit numbers: 2.31f0, 1.5f-5.
_JULIA_FLOAT32: Final = lazy_pattern(rb"(?<![\w.])(\d{1,9}\.\d{1,9})f(-?\d{1,2})(?!\w)")

# A dict of numbers that is printed over several lines, as pprint and json.dumps(indent=2) do; words
# are among the arguments of a program. A loss may be any word that does not begin like
# a number: an entry that matches in two ways would double the time with each line.
_NUMBER_BEGINS: Final = rb"[\"']?[-+]?(?:[\d.]|[nN]a[nN]|[iI]nf|np\.|Array\(|tensor\()"
_DICT_ENTRY: Final = (
    rb"(?:[\"'][^\"'\n]{1,80}[\"']: %b|[\"'][\w/]{0,40}loss[\"']: (?!%b))[^\n{}]{0,60}"
    % (_NUMBER_BEGINS, _NUMBER_BEGINS)
)
# The pattern also finds a value that a terminal of 80 columns put below its name.
_SPREAD_DICT: Final = lazy_pattern(
    rb"\{(?:\n[ \t]{1,16})?%b(?:,\n[ \t]{1,16}%b){1,200}(?:(?:,?\n[ \t]{0,16})?\}"
    # A paste may end within its last dict.
    rb"|,?\s{0,40}(?:[\"'][\w /.-]{0,80}[\"']?:?\s{0,40})?\Z)" % (_DICT_ENTRY, _DICT_ENTRY)
)
# The end of the same kind of dict, if a paste begins within it.
_CUT_DICT: Final = lazy_pattern(
    rb"(?:[^\n{]{0,200},\n)?[ \t]{0,16}%b(?:,\n[ \t]{1,16}%b){1,200}(?:,?\n[ \t]{0,16})?\}"
    % (_DICT_ENTRY, _DICT_ENTRY)
)
_SPREAD_VALUE: Final = lazy_pattern(
    rb"(?:oss|OSS|[Nn]orm)(?: is| was|[\"'])? ?[:=] ?\n {0,4}"
    # A column of numbers stays below its name.
    rb"(?!(?:[-+]?\d[\d.eE+-]{0,30}[,;]?[ \t\r]{0,8}\n[ \t]{0,8}){2})"
    rb"(?=[-+]?(?:\d{1,9}(?:\.\d{0,20})?(?:[eE][-+]?\d{1,3})?|nan|NaN|inf)(?:[\s,;|})]|$))"
)
# The last characters of a line that may continue below: within a dict, and before a value.
_DICT_ENDS: Final = (b",", b"{")
_VALUE_ENDS: Final = (b":", b": ", b"=", b"= ")

_NO_BREAKS: Final = np.empty(0, dtype=np.int64)

# The part of a longer line beyond this is not read: it is a picture, a model or a page, and would
# take seconds. The records of programs have some hundreds of characters.
LONGEST_TEXT_LINE: Final = 1 << 16
# A line is cut at a blank or a comma in this many bytes before, so that no number is cut.
_CUT_BYTES: Final = 1000
_BETWEEN_DICTS: Final = b"}, {"
_NAMED_LOSS: Final = lazy_pattern(rb"oss\w{0,20}[\"']?[\s:=]{1,4}[-+]?(?:\d|[nN]a[nN]|inf)")
_LAST_CELL: Final = lazy_pattern(rb"[\s,;|][^\s,;|]{0,%d}\Z" % _CUT_BYTES)


class Text:
    """A stretch of whole lines, cleaned.

    ``data`` begins with a newline, so that a pattern can ask for the start of any line. A single
    carriage return has become a newline, which ``line_numbers`` does not count; so has the end of a
    record that another one follows on the same line. A dict of numbers
    that is printed on several lines is one line, as is a name above its value. The ``>`` of a
    quoted mail is removed, as are source code between fences and marks of emphasis. Full-width
    punctuation, quotation marks and appended UTF-16 are ASCII, and names of losses are in English.
    Only the beginning of a very long line is kept, unless the text ``is_whole``; ``cut_losses`` is
    the number of losses in the ends that are cut off.
    """

    def __init__(
        self, block: bytes, *, first_line: int = 1, longest_line: int = LONGEST_TEXT_LINE
    ) -> None:
        """Clean ``block``, whose first line has the number ``first_line``.

        Lines are cut if they are longer than ``longest_line``.
        """
        if b"\0" in block and _WIDE_PART.search(block) is not None:
            block = _WIDE_CHARACTERS.sub(lambda wide: _narrow(wide[0]), block)
        if b"\x1b" in block:
            block = _ANSI.sub(b"", block)
        block = b"\n" + block.removeprefix(_BYTE_ORDER_MARK)
        if b"`" in block and _FENCE_MARK in block and _may_have_source(block):
            block = _FENCED.sub(_without_code, block)
        block = separate_records(without_emphasis(_plain_signs(block)))
        self._first = first_line
        self._breaks = _NO_BREAKS
        whole = block
        block, self.cut_losses = _without_long_ends(block, longest_line)
        self.is_whole = block is whole
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
            if b"\r" in block:
                text = np.frombuffer(block, dtype=np.uint8)[1:]
                ends = text[(text == ord("\n")) | (text == ord("\r"))]
                # By their numbers: values that are rewritten below move the positions.
                self._breaks = np.flatnonzero(ends == ord("\r"))
                block = block.replace(b"\r", b"\n")
        if b"\xef" in block or (b"\xe2" in block and b"\xe2\x80" in block):
            block = _WIDE_SIGN.sub(lambda sign: _ASCII_SIGNS[sign[0]], block)
        block = plain_values(name_bare_tensors(block))
        if may_contain(block, b"f0"):
            block = _JULIA_FLOAT32.sub(rb"\1e\2", block)
        if may_contain(block, *ASCII_LOSSES) or has_foreign_loss_name(outline(block)):
            block = plain_values(translate_names(block))
        self._joined = _NO_BREAKS
        joined = _joined(block)
        if joined is not block:
            arrays = (np.frombuffer(version, dtype=np.uint8)[1:] for version in (block, joined))
            self._joined = np.flatnonzero(np.not_equal(*arrays))
            block = joined
        if block[:5] == b"\nOut[":
            block = _NOTEBOOK_LABEL.sub(b"\n", block)
        self.data = block.replace(b"\n> ", b"\n") if b">" in block else block

    def from_line(self, first_line: int) -> Text:
        """Return a copy of the text, whose first line has the number ``first_line``."""
        text = copy(self)
        text._first = first_line
        return text

    def line_numbers(self, places: Sequence[int]) -> Ints:
        """Return the line numbers, from 1, of positions in ``data``."""
        ends = np.flatnonzero(np.frombuffer(self.data, dtype=np.uint8)[1:] == ord("\n"))
        at = np.array(places, dtype=np.int64) - 1
        count = np.searchsorted
        above = count(ends, at) + count(self._joined, at)
        return self._first + above - count(self._breaks, above)


def _narrow(wide: bytes) -> bytes:
    """Return characters of two bytes each as one byte each."""
    return wide.removeprefix(codecs.BOM_UTF16_LE).replace(b"\0", b"")


def _without_long_ends(block: bytes, longest: int) -> tuple[bytes, int]:
    """Return a block without the ends of very long lines, and the number of losses in them.

    A list of dicts is put on several lines instead.
    """
    long_lines = _long_lines(block, longest)
    for begin, end in long_lines:
        line = block[begin:end]
        if _BETWEEN_DICTS in line:
            block = block[:begin] + line.replace(_BETWEEN_DICTS, b"},\r{") + block[end:]
    kept: list[bytes] = []
    place = losses = 0
    for begin, end in _long_lines(block, longest) if long_lines else ():
        until = begin + longest
        cut = _LAST_CELL.search(block, until - _CUT_BYTES, until)
        until = until if cut is None else cut.start()
        kept.append(block[place:until])
        losses += sum(1 for _ in _NAMED_LOSS.finditer(block, until, end))
        place = end
    return b"".join([*kept, block[place:]]) if kept else block, losses


def _long_lines(block: bytes, longest: int) -> list[tuple[int, int]]:
    """Return the spans of the lines that are longer than ``longest``."""
    # A longer line fills a stretch of half its length.
    half = max(longest // 2, 1)
    stretches = range(0, len(block) - half + 1, half)
    if all(block.find(b"\n", begin, begin + half) >= 0 for begin in stretches):
        return []
    text = np.frombuffer(block, dtype=np.uint8)
    is_end = text == ord("\n")
    if b"\r" in block:
        is_end |= text == ord("\r")
    ends = np.append(np.flatnonzero(is_end), len(block))
    begins = np.append(0, ends[:-1] + 1)
    is_long = ends - begins > longest
    return list(zip(begins[is_long].tolist(), ends[is_long].tolist(), strict=True))


def _may_have_source(block: bytes) -> bool:
    """Return True if a line of a block is a statement; a few lines are repeated in most logs."""
    return any(map(begins_as_source, outline(block).split(b"\n")))


def _without_code(fenced: re.Match[bytes]) -> bytes:
    """Return a block between fences; if it is source code, only the ends of its lines."""
    begin, content = fenced.groups()
    return begin + b"\n" * content.count(b"\n") if begins_as_source(content) else fenced[0]


def _plain_signs(block: bytes) -> bytes:
    """Return a block without colors whose escapes are lost, odd blanks, and signs of HTML.

    The search for a single byte is much faster, and most logs lack it.
    """
    if b"[" in block and may_contain(block, *_SPELLED_ESCAPES):
        block = _SPELLED_ANSI.sub(b"", block)
    if b"[" in block and may_contain(block, *_RESETS) and any(map(block.__contains__, _RESETS)):
        block = _SHOWN_ANSI.sub(b"", block)
    if b"\xc2" in block or b"\xe3" in block:
        for blank in _WIDE_BLANKS:
            block = block.replace(blank, b" ")
    if b"&" in block and b";" in block:
        for escaped, sign in _HTML_SIGNS:
            block = block.replace(escaped, sign)
    return block


def _joined(block: bytes) -> bytes:
    """Return a block of the same length, with dicts and values on several lines joined to one."""
    ends = {line[-2:] for line in outline(block).split(b"\n")}
    may_have_dicts = any(end.endswith(_DICT_ENDS) for end in ends)
    cut = _CUT_DICT.match(block, 1) if may_have_dicts else None
    if cut is not None:
        block = block[:1] + cut[0].replace(b"\n", b" ") + block[cut.end() :]
    if may_have_dicts and b"{" in block:
        block = _SPREAD_DICT.sub(lambda spread: spread[0].replace(b"\n", b" "), block)
    if any(end.endswith(_VALUE_ENDS) for end in ends):
        block = _SPREAD_VALUE.sub(lambda spread: spread[0].replace(b"\n", b" "), block)
    return block


@frozen
class _HeadText:
    """The text of a head, and the texts of its blocks."""

    data: bytes
    blocks: Mapping[bytes, Text]


# A text without a known form is tried in full, at its head, and without its decorations.
@lru_cache(maxsize=8)
def _head_text(head: bytes) -> _HeadText:
    parts = [*blocks(Stream("", BytesIO(head)), size=TEXT_BLOCK, joined=True)]
    texts = {part: Text(part) for part in parts}
    data = b"\n" + b"".join(texts[part].data[1:] for part in parts)
    return _HeadText(data=data, blocks=texts)


def cleaned(head: bytes) -> bytes:
    """Return a cleaned head. Cached, as several formats are tried on it."""
    return _head_text(head).data


def head_blocks(head: bytes) -> Mapping[bytes, Text]:
    """Return the texts of the blocks of a head, which are the first blocks of the log. Cached."""
    return _head_text(head).blocks


def whole_text(head: bytes) -> bytes:
    """Return a cleaned head in which very long lines have their ends."""
    is_whole = all(text.is_whole for text in head_blocks(head).values())
    return cleaned(head) if is_whole else Text(head, longest_line=len(head)).data


def inert(line: bytes, longest: int) -> str:
    """Return a line as text without control characters, cut to ``longest`` characters."""
    text = _ANSI.sub(b"", line[: 8 * longest]).decode("utf-8", "replace")
    text = "".join(c if c.isprintable() else " " for c in text)
    return clipped(" ".join(text.split()), longest)
