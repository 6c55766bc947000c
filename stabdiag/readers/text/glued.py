"""Separate records that share a line.

A program that ends its lines with a carriage return only on a terminal, or that prints without a
line end, writes its progress bars or records one after the other. So does a paste that lost them.
"""

from __future__ import annotations

import re
from typing import Final

from stabdiag.readers.blocks import count_line_ends

# The end of tqdm's bar, and another bar on the same line: … 2.15it/s, loss=0.5]Validating: 100%|██
# A blank may separate a bar from its own values.
_CLOSED_BAR: Final = re.compile(
    rb"((?:/s|s/[a-z]{1,8})(?:, [^\[\]\n\r]{0,400})?\])(?=[^\s,;.:)\]|}][^\n\r]{0,400}?\d%\|)"
)
# Lightning's bar without its end: …, throughput=19.00, Epoch 0:   3%|, and fairseq's, which ends at
# the width of the terminal: …, gnorm=0.410, cl| epoch 017:  40%|
_OPEN_BAR: Final = re.compile(
    rb", (?=[A-Z]\w{1,20}(?: \d{1,6})?: {1,4}\d{1,3}%\|)"
    rb"|(?<=[^\n\r])\| (?=epoch \d{1,6}: {1,4}\d{1,3}%\|)"
)

# Another bar of Keras: … - mrcnn_class 2/632 [..............................] - ETA: 2:07:20 - …
_NEXT_KERAS_BAR: Final = re.compile(rb"(?<=\S) (?=\d{1,9}/\d{1,9} \[[=>.]{5,40}\] - )")

# A record after the last value of another one: val_acc: 0.97Epoch 2/40, images/s[2024-02-11 …
_NEXT_RECORD: Final = re.compile(
    rb"(?:(?<=[\d.)\]%}])|(?<=nan))"
    rb"(?=(?:[Ee]poch|EPOCH|[Ss]tep|STEP|[Ii]ter(?:ation)?)[ :=\[#]{1,3}\d)"
    rb"|(?<=\S) ?(?=\[\d{4}[-/]\d\d[-/]\d\d[ T]\d)|(?<=[a-z%)\]}])(?=\d{4}-\d\d-\d\d[ T]\d\d:)"
    rb"|(?<=\})(?=\{[\"'])"
)
_NEXT_RECORD_PARTS: Final = (
    *(b"poch", b"EPOCH", b"tep", b"STEP", b"ter", b"}{"),
    # Dates: 2024-02-11, 2024/12/01
    *(b"-0", b"-1", b"-2", b"-3", b"/0", b"/1", b"/2", b"/3"),
)
_MIN_GLUED: Final = 2

# What a page, a viewer or a string of Python shows in the place of a line end.
_LINE_ENDS: Final = re.compile(
    rb"<br ?/?>|\^M|\\r\\n|\\n|(?<=['\"]), (?=['\"](?:[^'\"\n]{0,200}\d){2})"
)

_LINE_END_PARTS: Final = (b"<br", b"^M", b"\\n", b"', '", b"', \"", b"\", '", b'", "')

# Only text with lines of this mean length, or with hardly any line, is searched for records.
_LONG_LINES: Final = 1000
_FEW_LINES: Final = 2

_BAR: Final = b"%|"


def separate_records(block: bytes) -> bytes:
    """Return a block with a carriage return between the bars or records that share a line."""
    lines = count_line_ends(block) + (block.count(b"\r") if b"\r" in block else 0)
    if b"%" in block and block.count(_BAR) > lines + 1:
        block = _OPEN_BAR.sub(b"\r", _CLOSED_BAR.sub(rb"\1\r", block))
    if b"]" in block and block.count(b"] - ETA: ") > lines + 1:
        block = _NEXT_KERAS_BAR.sub(b"\r", block)
    if lines > _FEW_LINES and len(block) < _LONG_LINES * lines:
        return block
    for between, parts in ((_LINE_ENDS, _LINE_END_PARTS), (_NEXT_RECORD, _NEXT_RECORD_PARTS)):
        # The search for a fixed text is far faster than that for a pattern.
        if not any(part in block for part in parts):
            continue
        if len(between.findall(block)) >= _MIN_GLUED:
            block = between.sub(b"\r", block)
    return block
