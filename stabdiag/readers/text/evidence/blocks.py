"""The evidence in a paste with one value on each line, in blocks of a few lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_setting
from stabdiag.readers.text.evidence.excerpts import MAX_SHORT, names_training_loss
from stabdiag.readers.text.evidence.sample import TextEvidence, is_lost
from stabdiag.readers.text.lines.counters import (
    COARSE,
    DIGIT,
    find_headings,
    is_word,
    line_counters,
)
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN
from stabdiag.readers.text.lines.tokens import line_fields

# The fewest lines of the only record of a paste whose values are on lines of their own, and the
# value of a loss instead of a setting.
_MIN_BLOCK: Final = 4
_LONG_VALUE: Final = lazy_pattern(rb"[-+]?\d{1,9}\.\d{3,60}(?:[eE][-+]?\d{1,4})?|[-+]?(?:nan|inf)")
_IS_LOSS: Final = lazy_pattern(r"(?i)loss$|^loss of ")
_TWO_LETTERS: Final = lazy_pattern(rb"[A-Za-z]{2}")

# The fewest lines of a block that has only losses, and the fewest digits of most of its values: the
# weights of a configuration are round.
_MIN_LOSS_LINES: Final = 3
_MIN_DIGITS: Final = 5
_LINE_OF_LOSS: Final = lazy_pattern(
    rb"[\s>*|-]{0,12}[A-Za-z][\w ()./-]{0,40}[:=]?[ \t]{0,20}%b[ \t|,]{0,8}" % NUMBER_PATTERN
)


def find_block_record(data: bytes) -> TextEvidence | None:
    """Return the evidence in the only records of a paste, with each value on a line of its own.

    All records have lines with the same names: one with a counter, and one with a loss of several
    digits, because settings are round.
    """
    if len(data) > MAX_SHORT:
        return None
    counts: dict[bytes, list[int]] = {}
    for _, word, count in find_headings(data):
        counts.setdefault(word, []).append(count)
    lines = [line for line in data.split(b"\n") if _TWO_LETTERS.search(line)]
    fields = [list(line_fields(line)) for line in lines]
    single = [
        (line, items[0]) for line, items in zip(lines, fields, strict=True) if len(items) == 1
    ]
    names = [item.name for _, item in single]
    losses = [
        item.name
        for line, item in single
        if _IS_LOSS.search(item.name)
        and names_training_loss(item.name)
        and _LONG_VALUE.fullmatch(line[slice(*item.value)])
    ]
    block = [*dict.fromkeys(names)]
    records = names.count(names[0]) if names else 0
    is_block = len(names) >= _MIN_BLOCK and names == records * block and 2 * len(names) > len(lines)
    if not losses or not is_block or any(map(is_setting, block)):
        return None
    counter = _counter_of_blocks(counts, records)
    if counter is None:
        return None
    return TextEvidence(
        counter=counter,
        loss=losses[0],
        lines=records,
        rising=1.0,
        above=True,
        is_counted_below=records == 1,
    )


def _counter_of_blocks(counts: Mapping[bytes, Sequence[int]], records: int) -> bytes | None:
    """Return the counter that rises from record to record; the only one of a single record."""
    if records == 1:
        is_one = len(counts) == 1 and all(len({*values}) == 1 for values in counts.values())
        return next(iter(counts), None) if is_one else None
    rising = [
        word
        for word, values in counts.items()
        if len(values) == records and all(a < b for a, b in pairwise(values))
    ]
    return min(rising, key=lambda word: word in COARSE, default=None)


def find_block_of_losses(data: bytes) -> TextEvidence | None:
    """Return the evidence in the only block of several losses, each on a line of its own.

    The line above may count the record. One of the losses is not finite, or most have several
    digits.
    """
    if len(data) > MAX_SHORT:
        return None
    blocks: list[list[tuple[str, bytes]]] = [[]]
    above = before = b""
    for line in data.split(b"\n"):
        item = _loss_alone(line)
        if item is None:
            blocks += [[]] if blocks[-1] else []
        else:
            above = above if blocks[-1] else before
            blocks[-1].append(item)
        before = line
    blocks = [block for block in blocks if block]
    if len(blocks) != 1 or len({name for name, _ in blocks[0]}) < max(
        len(blocks[0]), _MIN_LOSS_LINES
    ):
        return None
    block = blocks[0]
    lost = [name for name, value in block if is_lost(value)]
    digits = [len(DIGIT.findall(value.strip(b"0."))) for _, value in block]
    if not lost and 2 * sum(count >= _MIN_DIGITS for count in digits) < len(block):
        return None
    totals = [name for name, _ in block if "total" in name.lower()]
    words = sorted(filter(is_word, line_counters(above)), key=COARSE.__contains__)
    return TextEvidence(
        counter=next(iter(words), None),
        loss=[*lost, *totals, block[0][0]][0],
        lines=1,
        rising=1.0,
        above=bool(words),
    )


def _loss_alone(line: bytes) -> tuple[str, bytes] | None:
    """Return the name and the value of the training loss that a line consists of, or None."""
    if not _LINE_OF_LOSS.fullmatch(line):
        return None
    losses = [item for item in line_fields(line) if names_training_loss(item.name)]
    return (losses[0].name, line[slice(*losses[0].value)]) if len(losses) == 1 else None
