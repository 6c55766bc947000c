"""Records that a program writes as lists: ``[["step", 1], ["loss", 2.31]]`` and ``[1, 2.31]``.

The items of a list of YAML are on lines of their own, below the name of the list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.blocks import blocks
from stabdiag.readers.source import Stream

_LISTED_HEAD: Final = 1 << 12
_MIN_LISTED: Final = 3

_LISTED_VALUE: Final = (
    rb"(?:-?[\d.]{1,40}(?:[eE][-+]?\d{1,3})?|-?[nN]a[nN]|-?[iI]nf(?:inity)?|null|None)"
)
_TUPLE_NUMBER: Final = (
    rb"-?(?:\d{1,20}(?:\.\d{0,20})?(?:[eE][-+]?\d{1,3})?|[nN]a[nN]|[iI]nf(?:inity)?)"
)
_NAMED_PAIR: Final = (
    rb"[\[(] ?[\"'](\w[^\"'\n]{0,60})[\"'], ?(%b|\"[^\"\n]{0,60}\"|'[^\"'\n]{0,60}') ?[\])]"
    % _LISTED_VALUE
)

_PAIR_LIST: Final = lazy_pattern(rb"[\[(] ?%b(?:, ?%b){0,60} ?[\])]" % (_NAMED_PAIR, _NAMED_PAIR))
_NAMED_VALUE: Final = lazy_pattern(_NAMED_PAIR)
# [1, 2.31], and (1, 2.31, 2.45) with at least two numbers behind the count. Pairs, and tuples with
# other values, are read as text, which says when the meaning of a value is not known.
_NUMBER_LIST: Final = lazy_pattern(
    rb"\[ ?(\d{1,12})(?:, ?%b){1,60} ?\],?|\( ?(\d{1,12})(?:, ?%b){2,60} ?\),?"
    % (_LISTED_VALUE, _TUPLE_NUMBER)
)

# train_loss:
# - 2.31
_YAML_LIST: Final = lazy_pattern(
    rb"(?m)^([ \t]{0,20}[\"']?[A-Za-z][\w ./-]{0,60}[\"']?):[ \t]*\r?\n"
    rb"((?:[ \t]{0,20}-[ \t]{1,4}%b[ \t\r]*(?:\n|\Z)){3,100000})" % _LISTED_VALUE
)
_YAML_ITEM: Final = lazy_pattern(rb"-[ \t]{1,4}(%b)[ \t\r]*(?:\n|\Z)" % _LISTED_VALUE)
_MAX_YAML: Final = 1 << 22


def unlisted(stream: Stream) -> Stream:
    """Return a stream whose lists of pairs are JSON objects, and whose lists of numbers are rows.

    A list of numbers is a record if the first one counts.
    """
    head = stream.peek(_LISTED_HEAD)
    if b"\n- " in head or b" - " in head:
        return _with_lists_of_yaml(stream)
    if head.lstrip()[:1] not in (b"[", b"("):
        return stream
    lines = [line.strip() for line in head[: head.rfind(b"\n") + 1].splitlines() if line.strip()]
    if len(lines) < _MIN_LISTED:
        return stream
    if all(map(_PAIR_LIST.fullmatch, lines)):
        return stream.rewritten(_rewritten(stream, _as_object))
    if _are_counted(lines):
        return stream.rewritten(_rewritten(stream, _as_row))
    return stream


def _are_counted(lines: Sequence[bytes]) -> bool:
    matches = [_NUMBER_LIST.fullmatch(line) for line in lines]
    counts = [int(match[1] or match[2]) for match in matches if match is not None]
    if len(counts) < len(lines) or len({line.count(b",") for line in lines}) > 1:
        return False
    return all(count < following for count, following in pairwise(counts))


def _rewritten(stream: Stream, change: Callable[[bytes], bytes]) -> Iterator[bytes]:
    for block in blocks(stream):
        yield b"\n".join(map(change, block.split(b"\n")))


def _as_object(line: bytes) -> bytes:
    if _PAIR_LIST.fullmatch(line.strip()) is None:
        return line
    pairs = (
        b'"%b": %b' % (name, value.replace(b"'", b'"'))
        for name, value in _NAMED_VALUE.findall(line)
    )
    return b"{%b}" % b", ".join(pairs)


def _as_row(line: bytes) -> bytes:
    row = line.strip()
    return row.rstrip(b",")[1:-1] if _NUMBER_LIST.fullmatch(row) else line


def _with_lists_of_yaml(stream: Stream) -> Stream:
    """Return the stream with each list of numbers of YAML on one line, or the stream itself."""
    if _YAML_LIST.search(stream.peek(_LISTED_HEAD)) is None:
        return stream
    data = stream.peek(_MAX_YAML)
    if len(data) == _MAX_YAML:
        return stream

    def on_one_line(match: re.Match[bytes]) -> bytes:
        return b"%b: [%b]\n" % (match[1], b", ".join(_YAML_ITEM.findall(match[2])))

    return stream.rewritten(iter([_YAML_LIST.sub(on_one_line, data)]))
