"""Marks in a paste for the lines that its author left out: ``...``, ``[...]``, ``<snip>``.

::

    step 40: loss 2.31
    ...
    step 9000: loss 0.84

The steps between are not missing from the log itself.
"""

from __future__ import annotations

import re
from typing import Final

from stabdiag.model.events import Event, EventCode, EventKind
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.text import clipped
from stabdiag.readers.source import Stream

# A longer log is not a paste.
_LONGEST_PASTE: Final = 1 << 18

# Each mark has one of these texts.
_ANCHORS: Final = (
    *(b"..", b"\n.", b"\n:", b"omitted", b"runcated", b"RUNCATED", b"snip", b"elided"),
    *("…".encode(), "⋮".encode(), "省略".encode(), b" columns]"),
)
_DOTS: Final = rb"(?:\.{2,80}|(?:\xe2\x80\xa6){1,9})"
_BRACKETED_DOTS: Final = rb"[\[(<{]? ?%b ?[\])>}]?" % _DOTS
# A table has a mark in each cell. A column of dots is one mark.
_OMISSION: Final = lazy_pattern(
    rb"(?im)^[ \t>|`]{0,16}(?:%b(?:[ \t|,]{1,80}%b){0,40}"
    rb"|\.(?:[ \t\r]{0,8}\n[ \t>]{0,16}\.){1,9}|:(?:[ \t\r]{0,8}\n[ \t>]{0,16}:){0,9}"
    rb"|(?:\xe2\x8b\xae){1,9}"
    # pandas prints both ends of a table.
    rb"|\[\d{1,9} rows x \d{1,6} columns\]"
    # [200 lines omitted], ... (truncated) ..., <snip>
    rb"|(?:[^\w\n\x80-\xff]|\xe2\x80\xa6){0,12}"
    rb"(?:(?:\d{1,9}|many|more|some|several|other|the|rest|of) ){0,4}"
    rb"(?:(?:lines?|rows?|outputs?|steps|epochs|iterations|logs?|entries|records) ){0,2}"
    rb"(?:(?:is|are|was|were) )?(?:omitted|truncated|snip|snipped|elided)"
    rb"(?: for brevity| here| lines?| output)?(?:[^\w\n\x80-\xff]|\xe2\x80\xa6){0,12}"
    rb"|[^\w\n]{0,12}\xe7\x9c\x81\xe7\x95\xa5[^\w\n]{0,24})[ \t|,`\r]{0,80}$"
    % (_BRACKETED_DOTS, _DOTS)
)


def without_omissions(stream: Stream) -> Stream:
    """Return the stream with blank lines in place of marks, or the stream itself.

    The first mark is added to ``stream.omissions``.
    """
    text = stream.peek(_LONGEST_PASTE)
    if len(text) == _LONGEST_PASTE or b"\0" in text or not any(map(text.__contains__, _ANCHORS)):
        return stream
    first = _OMISSION.search(text)
    if first is None:
        return stream
    line = text.count(b"\n", 0, first.start()) + 1
    quote = clipped(first.group().decode("utf-8", "replace").strip(" \t\r`").partition("\n")[0], 40)
    stream.omissions.append(
        Event(
            kind=EventKind.SOURCE,
            code=EventCode.LINES_OMITTED,
            message=f"lines were left out at line {line}: {quote!r}",
            line=line,
        )
    )
    return stream.rewritten(iter([_OMISSION.sub(_line_ends, text)]))


def _line_ends(mark: re.Match[bytes]) -> bytes:
    return b"\n" * mark.group().count(b"\n")
