"""Clean blocks of a text log: of colors, and of the carriage returns of progress bars."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from copy import copy
from functools import lru_cache
from typing import Final

import numpy as np

from stabdiag.model.arrays import Ints, Mask
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.foreign_names import has_foreign_loss_name, translate_names
from stabdiag.model.text import clipped
from stabdiag.readers.blocks import bytes_after, bytes_before
from stabdiag.readers.source_code import begins_as_source
from stabdiag.readers.text.emphasis import without_emphasis
from stabdiag.readers.text.glued import separate_records
from stabdiag.readers.text.values import name_bare_tensors, plain_values

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
_SHOWN_ANSI: Final = lazy_pattern(rb"(?:\^\[|\xe2\x90\x9b)?\[\d{0,3}(?:;\d{1,3}){0,4}m")
_RESETS: Final = (b"[0m", b"[39m", b"[m")

# The number of a cell before its output, as a notebook shows it.
_NOTEBOOK_LABEL: Final = lazy_pattern(rb"\AOut\[\d{1,6}\]:[ \t]?")

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

# A line end that is shown before the real one.
_SHOWN_END: Final = lazy_pattern(rb"(?:<br ?/?>|\^M)[ \t]{0,8}(?=\n|\Z)")

# A block of a post between two fences. Code in it is not a log, and its messages are literals.
_FENCE_MARK: Final = b"```"
_FENCED: Final = lazy_pattern(
    rb"((?:\A|(?<=\n))[ \t>]{0,8}```\w{0,20}[ \t]{0,8}\r?\n)(.{1,20000}?)(?=\n[ \t>]{0,8}```)",
    re.DOTALL,
)

_SHOWN_TAG: Final = lazy_pattern(rb"</?(?:pre|code)>")

# Blanks of other widths, and what a page shows for signs of HTML.
_WIDE_BLANKS: Final = (b"\xc2\xa0", b"\xe3\x80\x80")
_HTML_SIGNS: Final = (
    *((b"&#39;", b"'"), (b"&#x27;", b"'"), (b"&quot;", b'"'), (b"&nbsp;", b" ")),
    *((b"&lt;", b"<"), (b"&gt;", b">"), (b"&amp;", b"&")),
)

# The full-width punctuation of Chinese and Japanese texts (Unicode, FF00 to FF5E), and the plain.
# And the quotation marks that a forum makes of plain ones.
_ASCII_SIGNS: Final = {
    **{chr(ord(sign) + 0xFEE0).encode(): sign.encode() for sign in ":,;()[]=%/-.|#"},
    **dict.fromkeys(("‘".encode(), "’".encode()), b"'"),
    **dict.fromkeys(("“".encode(), "”".encode()), b'"'),
}
_WIDE_SIGN: Final = lazy_pattern(b"|".join(_ASCII_SIGNS))

# Julia's 32-bit numbers: 2.31f0, 1.5f-5.
_JULIA_FLOAT32: Final = lazy_pattern(rb"(?<![\w.])(\d{1,9}\.\d{1,9})f(-?\d{1,2})(?!\w)")

# A dict of numbers that is printed over several lines, as pprint and json.dumps(indent=2) do; words
# are among the arguments of a program.
_DICT_ENTRY: Final = (
    rb"[\"'][^\"'\n]{1,80}[\"']: [\"']?[-+]?"
    rb"(?:[\d.]|[nN]a[nN]|[iI]nf|np\.|Array\(|tensor\()[^\n{}]{0,60}"
)
# And a value that a terminal of 80 columns put below its name: loss: at the end of a line.
_SPREAD_DICT: Final = lazy_pattern(
    rb"\{(?:\n[ \t]{1,16})?%b(?:,\n[ \t]{1,16}%b){1,200}(?:(?:,?\n[ \t]{0,16})?\}"
    # A paste may end within its last dict.
    rb"|,?\s{0,40}(?:[\"'][\w /.-]{0,80}[\"']?:?\s{0,40})?\Z)" % (_DICT_ENTRY, _DICT_ENTRY)
)
# The end of such a dict, where a paste begins within it.
_CUT_DICT: Final = lazy_pattern(
    rb"\A(?:[^\n{]{0,200},\n)?[ \t]{0,16}%b(?:,\n[ \t]{1,16}%b){1,200}(?:,?\n[ \t]{0,16})?\}"
    % (_DICT_ENTRY, _DICT_ENTRY)
)
_SPREAD_VALUE: Final = lazy_pattern(
    rb"(?:oss|OSS|[Nn]orm)(?: is| was|[\"'])? ?[:=] ?\n {0,4}"
    rb"(?=[-+]?(?:\d{1,9}(?:\.\d{0,20})?(?:[eE][-+]?\d{1,3})?|nan|NaN|inf)(?:[\s,;|})]|$))"
)
# The characters at the end of a line that may continue below it: of a dict, and before a value.
_DICT_ENDS: Final = np.isin(np.arange(256), [*b",{"])
_VALUE_ENDS: Final = np.isin(np.arange(256), [*b":="])

_NO_BREAKS: Final = np.empty(0, dtype=np.int64)

# The part of a longer line beyond this is not read: it is a picture, a model or a page, and would
# take seconds. The records of programs have some hundreds of characters.
LONGEST_TEXT_LINE: Final = 1 << 16
# A line is cut at a blank or a comma in this many bytes before, so that no number is cut.
_CUT_BYTES: Final = 1000
_BETWEEN_DICTS: Final = b"}, {"
_NAMED_LOSS: Final = lazy_pattern(rb"oss\w{0,20}[\"']?[\s:=]{1,4}[-+]?(?:\d|[nN]a[nN]|inf)")
_LAST_CELL: Final = lazy_pattern(rb"[\s,;|][^\s,;|]{0,%d}\Z" % _CUT_BYTES)

# With this table for ``bytes.translate``, lines that differ only in digits other than 0 are equal.
SAME_DIGITS: Final = bytes.maketrans(b"23456789", b"11111111")
# Hashes of adjacent bytes are below this number. They are collected in pieces of this size, which
# needs little memory.
_HASHES: Final = 1 << 18
_PIECE_BYTES: Final = 1 << 14


class Text:
    """A stretch of whole lines, cleaned.

    ``data`` begins with a newline, so that a pattern can ask for the start of any line. A single
    carriage return has become a newline, which ``line_numbers`` does not count; so has the end of a
    record that another one follows on the same line. A dict of numbers
    that is printed on several lines is one line, as is a name above its value. The ``>`` of a
    quoted mail is removed, as are source code between fences and marks of emphasis. Full-width
    punctuation and quotation marks are ASCII, and names of losses are in English. Only the
    beginning of a very long line is kept; ``cut_losses`` is the number of losses in the ends that
    are cut off.
    """

    def __init__(
        self, block: bytes, *, first_line: int = 1, longest_line: int = LONGEST_TEXT_LINE
    ) -> None:
        """Clean ``block``, whose first line has the number ``first_line``.

        Lines are cut if they are longer than ``longest_line``.
        """
        if b"\x1b" in block:
            block = _ANSI.sub(b"", block)
        if b"`" in block and _FENCE_MARK in block:
            block = _FENCED.sub(_without_code, block)
        block = separate_records(without_emphasis(_plain_signs(block)))
        self._first = first_line
        self._breaks = _NO_BREAKS
        block, self.cut_losses = _without_long_ends(block, longest_line)
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
            if b"\r" in block:
                self._breaks = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\r"))
                block = block.replace(b"\r", b"\n")
        if b"\xef" in block or (b"\xe2" in block and b"\xe2\x80" in block):
            block = _WIDE_SIGN.sub(lambda sign: _ASCII_SIGNS[sign[0]], block)
        block = plain_values(name_bare_tensors(block))
        if b"f0" in block:
            block = _JULIA_FLOAT32.sub(rb"\1e\2", block)
        if has_foreign_loss_name(block):
            block = plain_values(translate_names(block))
        self._joined = _NO_BREAKS
        joined = _joined(block)
        if joined is not block:
            arrays = (np.frombuffer(version, dtype=np.uint8) for version in (block, joined))
            self._joined = np.flatnonzero(np.not_equal(*arrays))
            block = joined
        if block[:4] == b"Out[":
            block = _NOTEBOOK_LABEL.sub(b"", block)
        self.data = b"\n" + block
        # The search for a single byte is much faster, and most logs lack it.
        if b">" in self.data and b"\n> " in self.data:
            self.data = self.data.replace(b"\n> ", b"\n")

    def line_numbers(self, places: Sequence[int]) -> Ints:
        """Return the line numbers, from 1, of positions in ``data``."""
        ends = np.flatnonzero(np.frombuffer(self.data, dtype=np.uint8)[1:] == ord("\n"))
        at = np.array(places, dtype=np.int64) - 1
        count = np.searchsorted
        return self._first + count(ends, at) + count(self._joined, at) - count(self._breaks, at)


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
    if len(block) <= longest:
        return []
    text = np.frombuffer(block, dtype=np.uint8)
    is_end = text == ord("\n")
    if b"\r" in block:
        is_end |= text == ord("\r")
    ends = np.append(np.flatnonzero(is_end), len(block))
    begins = np.append(0, ends[:-1] + 1)
    is_long = ends - begins > longest
    return list(zip(begins[is_long].tolist(), ends[is_long].tolist(), strict=True))


def _without_code(fenced: re.Match[bytes]) -> bytes:
    """Return a block between fences; if it is source code, only the ends of its lines."""
    begin, content = fenced.groups()
    return begin + b"\n" * content.count(b"\n") if begins_as_source(content) else fenced[0]


def _plain_signs(block: bytes) -> bytes:
    """Return a block without colors whose escapes are lost, odd blanks, and signs of HTML.

    The search for a single byte is much faster, and most logs lack it.
    """
    block = block.removeprefix(_BYTE_ORDER_MARK)
    if b"[" in block and _has_spelled_escapes(block):
        block = _SPELLED_ANSI.sub(b"", block)
    if b"[" in block and _has_resets(block):
        block = _SHOWN_ANSI.sub(b"", block)
    if b"\xc2" in block or b"\xe3" in block:
        for blank in _WIDE_BLANKS:
            block = block.replace(blank, b" ")
    if (b"<" in block and b"<br" in block) or (b"^" in block and b"^M\n" in block):
        block = _SHOWN_END.sub(b"", block)
    if b"<" in block and (b"<pre" in block or b"<code" in block):
        block = _SHOWN_TAG.sub(b"", block)
    if b"&" in block and b";" in block:
        for escaped, sign in _HTML_SIGNS:
            block = block.replace(escaped, sign)
    return block


def _has_spelled_escapes(block: bytes) -> bool:
    """Return True if a block has an escape sequence that is spelled."""
    before = bytes_before(block, b"[")
    return any(escape[-2:-1] in before and escape in block for escape in _SPELLED_ESCAPES)


def _has_resets(block: bytes) -> bool:
    """Return True if a block has a reset of colors."""
    after = bytes_after(block, b"[")
    return any(reset[1:2] in after and reset in block for reset in _RESETS)


def _joined(block: bytes) -> bytes:
    """Return a block in which a dict or a value on several lines is on one; of the same length."""
    text = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(text[1:] == ord("\n"))
    before = text[ends]
    if b"}" in block and _DICT_ENDS[before].any():
        block = _CUT_DICT.sub(lambda spread: spread[0].replace(b"\n", b" "), block)
    if b"{" in block and _DICT_ENDS[before].any():
        block = _SPREAD_DICT.sub(lambda spread: spread[0].replace(b"\n", b" "), block)
    before = np.where(before == ord(" "), text[ends - 1], before)
    if _VALUE_ENDS[before].any():
        block = _SPREAD_VALUE.sub(lambda spread: spread[0].replace(b"\n", b" "), block)
    return block


def words_in(data: bytes, words: Sequence[bytes]) -> list[bytes]:
    """Return the words that a text contains; fast, as most lack five bytes that follow each other.

    ``words`` have at least three bytes.
    """
    if not words:
        return []
    hashes, starts = _word_hashes((*words,))
    candidates = np.logical_and.reduceat(_text_hashes(data)[hashes], starts)
    return [words[at] for at in np.flatnonzero(candidates).tolist() if words[at] in data]


@lru_cache(maxsize=1)
def _text_hashes(data: bytes) -> Mask:
    """Return a mask of the hashes of adjacent bytes in a text. Cached for one text."""
    mask = np.zeros(2 * _HASHES, dtype=np.bool_)
    for start in range(0, len(data), _PIECE_BYTES):
        for hashes in _hashes(data[start : start + _PIECE_BYTES + 4]):
            mask[hashes] = True
    return mask


@lru_cache(maxsize=1 << 6)
def _word_hashes(words: tuple[bytes, ...]) -> tuple[Ints, Ints]:
    """Return the hashes of all words, and where each word starts.

    The parts of a phrase of common words are all in a text more often if they have three bytes.
    """
    hashes = [fives if len(fives) else threes for threes, fives in map(_hashes, words)]
    return np.concatenate(hashes), np.cumsum([0, *map(len, hashes[:-1])])


def _hashes(text: bytes) -> tuple[Ints, Ints]:
    """Return the hashes of each three and each five adjacent bytes, the latter above the former."""
    codes = np.frombuffer(text, dtype=np.uint8).astype(np.int64)
    threes = (codes[:-2] << 10) ^ (codes[1:-1] << 5) ^ codes[2:]
    return threes, ((37 * threes[:-2] + threes[2:]) & (_HASHES - 1)) | _HASHES


@lru_cache(maxsize=1)
def line_forms(data: bytes) -> frozenset[bytes]:
    """Return the different lines of a text, with digits other than 0 as 1. Cached for one text."""
    return frozenset(data.translate(SAME_DIGITS).split(b"\n"))


@lru_cache(maxsize=1)
def _head_text(head: bytes) -> Text:
    return Text(head)


def cleaned(head: bytes) -> bytes:
    """Return a cleaned head. Cached, as several formats are tried on it."""
    return _head_text(head).data


def first_text(block: bytes) -> Text:
    """Return the text of the first block of a log, which is often the whole head."""
    return copy(_head_text(block))


def find_positions(data: bytes, text: bytes) -> Iterator[int]:
    """Yield the positions of a text in the data."""
    # Most logs lack the first byte of most texts, and the search for a single byte is much faster.
    place = data.find(text) if text[:1] in data else -1
    while place >= 0:
        yield place
        place = data.find(text, place + len(text))


def line_end(data: bytes, place: int, longest: int) -> int:
    """Return the end of the line at ``place``, or ``longest`` bytes after it if it is longer."""
    end = data.find(b"\n", place, place + longest)
    return end if end >= 0 else min(place + longest, len(data))


def inert(line: bytes, longest: int) -> str:
    """Return a line as text without control characters, cut to ``longest`` characters."""
    text = _ANSI.sub(b"", line[: 8 * longest]).decode("utf-8", "replace")
    text = "".join(c if c.isprintable() else " " for c in text)
    return clipped(" ".join(text.split()), longest)
