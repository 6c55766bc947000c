"""Separate records that share a line.

A program that ends its lines with a carriage return only on a terminal, or that prints without a
line end, writes its progress bars or records one after the other. So does a paste that lost them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Final

import numpy as np

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.blocks import count_line_ends
from stabdiag.readers.text.lines.fixed_texts import lines_with
from stabdiag.readers.text.lines.grammar import TEXT_BLOCK
from stabdiag.readers.text.lines.line_forms import may_contain, outline

# The end of tqdm's bar, and another bar on the same line: … 2.15it/s, loss=0.5]Validating: 100%|██
# A blank may separate a bar from its own values.
_CLOSED_BAR: Final = lazy_pattern(
    rb"(?:/s|s/[a-z]{1,8})(?:, [^\[\]\n\r]{0,400})?\]"
    rb"(?=(?: {2,19})?[^\s,;.:)\]|}][^\n\r]{0,400}?\d%\|| {20,400}[A-Za-z])"
)
# A bar and a record that a program prints next to it, which begins with a count or a name:
# … 12.3s/it]10, 2.2398 and … 580.1s/it]epoch: 11 loss: 0.706
_COUNT_AFTER_BAR: Final = lazy_pattern(
    rb"\](?<=(?:/s|it)\])(?=[(\[]?\d{1,9}(?:, ?|[: \t]{1,3})"
    rb"[-+]?(?:\d{1,9}\.\d|[nN]a[nN]|inf)[\d.e+-]{0,20}[)\]]?[ \t\r]{0,8}(?:\n|\Z)"
    rb"|(?:[Ee]poch|EPOCH|[Ee]pisode|[Ss]tep|STEP|[Ii]ter(?:ation)?)[ :=\[#]{1,3}\d)"
)
# Lightning's bar without its end: …, throughput=19.00, Epoch 0:   3%|, and fairseq's, which ends at
# the width of the terminal: …, gnorm=0.410, cl| epoch 017:  40%|
_OPEN_BAR: Final = lazy_pattern(
    rb", (?=[A-Z]\w{1,20}(?: \d{1,6})?: {1,4}\d{1,3}%\|)"
    rb"|(?<=[^\n\r])\| (?=epoch \d{1,6}: {1,4}\d{1,3}%\|)"
)

# Another bar of Keras: … - mrcnn_class 2/632 [..............................] - ETA: 2:07:20 - …
_NEXT_KERAS_BAR: Final = lazy_pattern(rb"(?<=\S) (?=\d{1,9}/\d{1,9} \[[=>.]{5,40}\] - )")
# Its count follows the four digits of a value if it fills its place: … - loss: 0.228910/19 [====…
_NEXT_FULL_COUNT: Final = lazy_pattern(
    rb"\.\d{4}(?:e[+-]\d\d)?(?=\d{1,9}/\d{1,9} \[[=>.]{5,40}\] - )"
)

# A heading of an epoch, in a paste that became one line: … - loss: 0.1760 Epoch 2/20 1213/1213
# [====…
_NEXT_EPOCH: Final = lazy_pattern(rb" [Ee]poch(?<=[\d\])][ ].{5})(?=[ :]{1,2}\[?\d{1,6}/\d{1,6}\b)")
_EPOCHS: Final = (b" Epoch ", b" epoch ", b" Epoch:", b" epoch:")

# A record that begins as its line does, after the last value of the line: the end of a line between
# them was lost. Epoch... (2/90 | Loss: 0.43)      Epoch... (3/90 | Loss: 0.26)
_SAME_START: Final = lazy_pattern(
    # Many lines have no digit near their start, which is found faster than a word.
    rb"\n((?=[^\d\n]{2,41}\d)"
    rb"(?=[^\d\n]{0,30}(?:poch|POCH|[Ss]tep|STEP|[Ii]ter|ITER|[Bb]atch|pisode|ound))"
    rb"[^\s\d][^\d\n]{1,40})\d[^\n]{4,600}?[\d)\]}%][ \t]{1,200}\1\d[^\n]*"
)
# At least three of them may follow a sentence on its line: My log is: step 3 loss 0.5 step 4 …
_AFTER_SENTENCE: Final = lazy_pattern(
    rb": (?<=[^\d\n]{20}: )"
    rb"((?=[^\d\n]{0,30}(?:poch|[Ss]tep|[Ii]ter|[Bb]atch|pisode))"
    rb"[^\s\d][^\d\n]{1,40})\d(?:[^\n]{4,600}?[\d)\]}%][ \t]{1,200}\1\d){2}[^\n]*"
)
# Each match of these patterns has one of these texts, which are found faster.
_COUNTER_STEMS: Final = (
    *(b"poch", b"POCH", b"step", b"Step", b"STEP", b"iter", b"Iter", b"ITER"),
    *(b"batch", b"Batch", b"pisode", b"ound"),
)
_AFTER_VALUE: Final = rb"(?<=[\d)\]}%%])[ \t]{1,200}(?=%b\d)"

# The records of a list in JSON or Python that is printed on a line: [{"step": 1, "loss": 2.5}, {"…
_LISTED_RECORDS: Final = lazy_pattern(
    rb"(?m)(?:^[^\n{\[]{0,80}|[\"']log_history[\"']: ?)\[(\{[\"'][\w/ .-]{1,40}[\"']: )"
    rb"(?=[^\n{}]{0,600}oss)[^\n{}]{1,600}\}, ?\1[^\n]*"
)

# A record that begins with a time: … loss: 1.2656 2024-02-11 10:15:04,995|INFO|epoch:0, batch: 691
_NEXT_TIME: Final = lazy_pattern(
    rb" (?<=[\d)\]}%] )(?=(?:\d{4}-\d\d-\d\d|\d{4}/\d\d/\d\d)[ T]\d\d:\d\d:\d\d)"
)

_DATES: Final = (b" 2024-02-11 10:15:04", b" 2024-02-11T10:15:04", b" 2024/02/11 10:15:04")

# A text next to a bar of Keras that another one was written over, if the backspaces were lost:
# … [=====] - ETA: 0s - loss: 0.91 - ETA: 0s - loss: 0.87  - 0s 8ms/step - loss: 0.85.
_ETA: Final = b" - ETA: "
_WRITTEN_OVER: Final = lazy_pattern(rb"\] - ETA: [^\[\]\n\r]{1,2000}(?= - ETA: \d| - \d{1,9}m?s )")

# A row below has texts, a pattern and its replacement. Each match has a text of its row. A pattern
# begins with a fixed byte: a search for a lookbehind at every position takes five times as long.

# A label of fastText: ETA: 17Progress:   0.1%
_PROGRESS_LABEL: Final = b"Progress:"
_NEXT_PROGRESS: Final = lazy_pattern(rb"Progress:(?<=\w.{9})(?= {1,4}\d{1,3}\.\d%)")

# A record after the last value of another one: val_acc: 0.97Epoch 2/40, images/s[2024-02-11 …
_NEXT_RECORD: Final = (
    (
        (b"poch", b"EPOCH", b"pisode", b"tep", b"STEP", b"ter"),
        lazy_pattern(
            rb"[EeSsIi](?:(?<=[\d.)\]%}].)|(?<=nan.))"
            rb"(?:(?<=[Ee])p(?:och|isode)|(?<=E)POCH|(?<=[Ss])tep|(?<=S)TEP|(?<=[Ii])ter(?:ation)?)"
            rb"(?=[ :=\[#]{1,3}\d)"
        ),
        rb"\r\g<0>",
    ),
    ((b"[",), lazy_pattern(rb" \[(?<=\S..)(?=\d{4}[-/]\d\d[-/]\d\d[ T]\d)"), b"\r["),
    ((b"[",), lazy_pattern(rb"\[(?<=\S.)(?=\d{4}[-/]\d\d[-/]\d\d[ T]\d)"), b"\r["),
    (
        (b"-0", b"-1", b"-2", b"-3"),
        lazy_pattern(rb"\d(?<=[a-z%)\]}].)(?=\d{3}-\d\d-\d\d[ T]\d\d:)"),
        rb"\r\g<0>",
    ),
    ((b"}{",), lazy_pattern(rb"\}(?=\{[\"'])"), b"}\r"),
    ((_PROGRESS_LABEL,), _NEXT_PROGRESS, rb"\r\g<0>"),
)
_MIN_GLUED: Final = 2
# Most records are at most as long.
_LONGEST_RECORD: Final = 2000

# A message of glog after a record, which another thread wrote: grad_norm 1.2W0304 05:06:07.123 …
_MESSAGE: Final = lazy_pattern(rb"(?<=[\d)\]}])(?=[WE]\d{4} \d\d:\d\d:\d\d\.\d)")
_MESSAGE_STARTS: Final = (b"W0000 00:", b"E0000 00:")

# A message that Keras prints on its bar: … - loss: 44.4110Batch 3: Invalid loss, terminating
# training
_INVALID_LOSS: Final = lazy_pattern(rb"Batch (?<=[\d.fn]Batch )(?=\d{1,9}: Invalid loss)")

# In some versions, Keras prints the heading of a validation on the bar, and the full bar below it:
# 99/100 [=>.] - ETA: 2s - loss: 0.24Epoch 1/9
_VALIDATED_BAR: Final = lazy_pattern(
    rb"(?m)^ {0,8}\d{1,9}/\d{1,9} \[[=>.]{5,60}\] - ETA: "
    rb"[^\n]{0,200}(?<=[\d.fn])Epoch 1/\d{1,6}[ \r]{0,4}$"
)

# Keras draws a full bar before the messages of its callbacks, and again below them with the values
# of the evaluation:
# 30/30 [====] - ETA: 0s - loss: 0.62
# Epoch 1: val_loss improved from inf to 0.55, saving model to best.h5
# 30/30 [====] - 9s 300ms/step - loss: 0.62 - val_loss: 0.55
_COMPLETE_BAR: Final = rb"(?:\[={5,60}\]|(?:\xe2\x94\x81){5,60}) "
_DRAWN_TWICE: Final = lazy_pattern(
    rb"(?m)^[ \t]{0,8}(\d{1,9})/\1 %b(?:- ETA: 0s - [^\n]{1,2000}"
    rb"|(?:(?!val_)[^\n]){1,2000}"
    rb"(?=\n\s{0,8}Epoch \d{1,6}: (?:\w{1,60} (?:improved|did)|saving|Reduce)))"
    # No other bar and no heading of an epoch is between them.
    rb"(?=\n(?:(?![ \t]{0,8}(?:\d{1,9}/\d{1,9} |Epoch \d{1,6}/))[^\n]{0,2000}\n){0,8}"
    rb"[ \t]{0,8}\1/\1 %b(?!- ETA))" % (_COMPLETE_BAR, _COMPLETE_BAR)
)
_COMPLETE_BAR_ENDS: Final = (b"=] - ETA: 0s - ", b"\xe2\x94\x81 ")

# Keras 2.0 counts epochs from 0 in the messages of callbacks, and prints them in the next epoch:
# Epoch 3/40
#  50/472 [==>...................] - ETA: 2s - loss: 0.44Epoch 00001: val_loss did not improve
_KERAS_EPOCH: Final = lazy_pattern(
    rb"Epoch (\d{1,6})(?:/\d{1,6}\b|(: (?:\w{1,60} (?:improved|did not)|saving model|reducing)))"
)

# The label of a bar that ends at the width of the terminal; the next one follows without a blank:
# Training epoch 3 loss: 0.5:  79%|7| 104/131 [00Training epoch 3 loss: 0.5:  80%|8| 105/131 [00
_BAR_LABEL: Final = lazy_pattern(
    # Most lines are shorter, which is found faster than each end of a label.
    rb"[\n\r](?=[A-Za-z])(?=[^\n\r]{85})([A-Za-z][A-Za-z_./ -]{4,40})[^\n\r]{80}"
)
# A word may be cut before a bar: …, loss=0.5, v_nuEpoch 2:  3%| A search for the fixed text of the
# label is the fastest.
_GLUED_LABEL: Final = rb"%b(?:(?<=[\d.)\]}%%]%b)|(?<=[A-Za-z]%b)(?=\d{0,6}: {1,4}\d{1,3}%%\|))"
_MAX_BAR_LABELS: Final = 8

# Replacements of a line end in a page, a viewer or a string of Python.
_SHOWN_LINE_ENDS: Final = (
    ((b"<br",), lazy_pattern(rb"<br ?/?>"), b"\r"),
    ((b"^M",), lazy_pattern(rb"\^M"), b"\r"),
    ((b"\\n",), lazy_pattern(rb"\\r\\n|\\n"), b"\r"),
    (
        (b"', '", b"', \"", b"\", '", b'", "'),
        lazy_pattern(rb", (?<=['\"]..)(?=['\"](?:[^'\"\n]{0,200}\d){2})"),
        b"\r",
    ),
)

# Only text with lines of this mean length, or with hardly any line, is searched for records.
_LONG_LINES: Final = 1000
_FEW_LINES: Final = 2

# Records that share a line follow each other from its first bytes to its last.
_END_BYTES: Final = 1 << 17

_BAR: Final = b"%|"
# A paste has at most as many bytes as a block and the line end before it. Bars on one line are
# searched for in each line of it.
_PASTE: Final = 1 + TEXT_BLOCK
_TWO_BARS: Final = lazy_pattern(rb"%\|[^\n\r]{0,2000}%\|")


def separate_records(block: bytes) -> bytes:
    """Return a block with a carriage return between the bars or records that share a line.

    The block begins with a newline.
    """
    if may_contain(block, b": val_") and b"Epoch " in block:
        block = _without_past_epochs(block)
    lines = count_line_ends(block) - 1 + (block.count(b"\r") if b"\r" in block else 0)
    if may_contain(block, _BAR):
        block = _separate_bars(block, lines)
    if may_contain(block, _ETA):
        block = _separate_keras_bars(block, lines)
    if may_contain(block, *_MESSAGE_STARTS):
        block = _MESSAGE.sub(b"\r", block)
    if may_contain(block, b": Invalid loss, "):
        block = _INVALID_LOSS.sub(b"\rBatch ", block)
    if may_contain(block, _ETA):
        block = _VALIDATED_BAR.sub(b"", block)
    if len(block) <= _PASTE and _BAR_LABEL.search(b"\n" + outline(block)) is not None:
        block = _separate_labels(block)
    if may_contain(block, b"/step - ") and any(end in block for end in _COMPLETE_BAR_ENDS):
        block = _DRAWN_TWICE.sub(b"", block)
    if len(block) <= _PASTE:
        block = _separate_paste(block, lines)
    if lines <= _FEW_LINES and sum(map(block.count, _EPOCHS)) > lines + 1:
        block = _NEXT_EPOCH.sub(lambda match: b"\r" + match.group()[1:], block)
    if lines > _FEW_LINES and len(block) < _LONG_LINES * lines:
        return block
    return _separate_long_lines(block)


def _without_past_epochs(block: bytes) -> bytes:
    """Return a block whose messages of the epoch before the current one do not name it."""
    epoch = 0

    def replaced(match: re.Match[bytes]) -> bytes:
        nonlocal epoch
        if match[2] is None:
            epoch = int(match[1])
        if match[2] is None or int(match[1]) != epoch - 1:
            return match[0]
        is_glued = match.start() > 0 and block[match.start() - 1 : match.start()] not in b"\r\n"
        return b"%bMessage%b" % (b"\r" if is_glued else b"", match[2])

    return _KERAS_EPOCH.sub(replaced, block)


def _separate_bars(block: bytes, lines: int) -> bytes:
    """Return a block with a carriage return around each of several bars of tqdm on a line."""
    if block.count(_BAR) > lines + 1 or (
        len(block) <= _PASTE and _TWO_BARS.search(outline(block)) is not None
    ):
        block = _OPEN_BAR.sub(b"\r", _CLOSED_BAR.sub(lambda bar: bar[0] + b"\r", block))
    if all(_COUNT_AFTER_BAR.search(text, 0, _PASTE) for text in (outline(block), block)):
        block = _COUNT_AFTER_BAR.sub(b"]\r", block)
    return block


def _separate_keras_bars(block: bytes, lines: int) -> bytes:
    """Return a block with a carriage return between several bars of Keras on a line."""
    if block.count(b"]" + _ETA) > lines + 1:
        block = _NEXT_KERAS_BAR.sub(b"\r", block)
        block = _NEXT_FULL_COUNT.sub(rb"\g<0>\r", block)
    if b"]" + _ETA in block and (
        len(block) <= _PASTE or block.count(_ETA) > block.count(b"]" + _ETA)
    ):
        block = _WRITTEN_OVER.sub(b"]", block)
    return block


def _separate_paste(block: bytes, lines: int) -> bytes:
    """Return a paste with a carriage return before records that begin alike or with a time."""
    if may_contain(block, _PROGRESS_LABEL) and block.count(_PROGRESS_LABEL) > lines:
        block = _NEXT_PROGRESS.sub(rb"\r\g<0>", block)
    if may_contain(block, b"}, {"):
        block = _LISTED_RECORDS.sub(
            lambda match: re.sub(rb"(?<=\}), ?(?=%b)" % re.escape(match[1]), b"\r", match[0]), block
        )
    counted = _lines_with_a_counter(block)
    for pattern in (_AFTER_SENTENCE, _SAME_START):
        if pattern.search(counted) is not None:
            block = pattern.sub(_separated, block)
    times = len(_NEXT_TIME.findall(block)) if may_contain(block, *_DATES) else 0
    return _NEXT_TIME.sub(b"\r", block) if times > max(lines, _MIN_GLUED) else block


def _lines_with_a_counter(block: bytes) -> bytes:
    """Return the forms of the lines that may have a counter, each below a line end."""
    forms = outline(block)
    lines = {line for text in _COUNTER_STEMS for _, line in lines_with(forms, text)}
    return b"\n" + b"\n".join(lines)


def _separate_long_lines(block: bytes) -> bytes:
    """Return a block of long lines with a line end between their records."""
    ends = block if len(block) <= 2 * _END_BYTES else block[:_END_BYTES] + block[-_END_BYTES:]
    for separators in (_SHOWN_LINE_ENDS, _NEXT_RECORD):
        # The search for a fixed text is far faster than that for a pattern.
        present = [
            (pattern, replacement)
            for parts, pattern, replacement in separators
            if any(part in ends for part in parts)
        ]
        if _are_records(
            match.start() for pattern, _ in present for match in pattern.finditer(ends)
        ):
            for pattern, replacement in present:
                block = pattern.sub(replacement, block)
    return block


def _are_records(places: Iterable[int]) -> bool:
    """Return True if records end at these places: in a text of any bytes, they are far apart."""
    ordered = sorted(places)
    return len(ordered) >= _MIN_GLUED and bool(np.median(np.diff(ordered)) <= _LONGEST_RECORD)


def _separate_labels(block: bytes) -> bytes:
    """Return a paste with a carriage return before each label that follows another record."""
    labels = {match[1] for match in islice(_BAR_LABEL.finditer(block), _MAX_BAR_LABELS)}
    for label in sorted(labels):
        if block.count(label) <= _MIN_GLUED:
            continue
        glued = re.compile(_GLUED_LABEL % ((re.escape(label),) * 3))
        if len(glued.findall(block)) >= _MIN_GLUED:
            block = glued.sub(rb"\r\g<0>", block)
    return block


def _separated(line: re.Match[bytes]) -> bytes:
    """Return the end of a line with a carriage return before each record that begins alike."""
    sentence, records = (
        line[0][: line.start(1) - line.start()],
        line[0][line.start(1) - line.start() :],
    )
    records = re.sub(_AFTER_VALUE % re.escape(line[1]), b"\r", records)
    return sentence + records if sentence == b"\n" else sentence + b"\r" + records
