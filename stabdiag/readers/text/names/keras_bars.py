"""Distinguish the bars that Keras draws for a test from the bars of its epochs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, Normalization, as_float

# Epoch 3/10, or a bar: 40/313 [===>....] - ETA: 2s - loss: 0.41, 313/313 ━━━━ 1s - loss: 0.39
_EPOCH_OF_BARS: Final = rb" {0,8}Epoch \d{1,6}/\d{1,6}\b"
_DRAWN_BAR: Final = rb"(?:-|\[[=>.]{2,80}\]|(?:\xe2\x94\x81){2,80})[^\n]{1,80}?[ -]loss: "
_BAR_WITH_LOSS: Final = rb" {0,8}(\d{1,9})/(\d{1,9}) %b(%b)[^\n]{0,400}" % (
    _DRAWN_BAR,
    NUMBER_PATTERN,
)

# The bars that Keras draws for an evaluation after the last epoch: 313/313 - 1s - loss: 0.39 below
# the bar of Epoch 10/10 looks like another state of it.
_EPOCHS_AND_BARS: Final = lazy_pattern(rb"(?m)^(?:%b|%b)" % (_EPOCH_OF_BARS, _BAR_WITH_LOSS))
_MAX_STATES: Final = 100_000
# What a program prints of a test below its bar, with more digits: loss : 0.3901234
_VALUE_BELOW: Final = lazy_pattern(
    rb"(?m)^ {0,8}[A-Za-z][A-Za-z_]{1,20} ?[:=] {0,4}(%b)[ \t\r]{0,8}$" % NUMBER_PATTERN
)
_VALUE_OF_BAR: Final = lazy_pattern(rb": (%b)" % NUMBER_PATTERN)
# Epoch 00007: val_loss improved from 2.41 to 2.39, below the bar of this epoch
_CHECKPOINT_BELOW_BAR: Final = (
    rb"(?m)^( {0,8}(?:# ?)?)Epoch \d{1,6}(?=: \w{1,40} (?:improved|did not improve) from )"
)
# At most this many tests are marked: one of each model, in a log of several.
_MAX_TESTS: Final = 20

_BEGINS_EPOCH: Final = b"Epoch "
# Only the bar of an epoch has one.
_VALIDATES: Final = b" val_loss: "


def find_test_bars(data: bytes) -> tuple[Normalization, ...]:
    """Return the replacements that mark the bars of tests, by their totals or as whole lines."""
    if _BEGINS_EPOCH not in data or b"loss: " not in data:
        return ()
    # Fitting, and testing a model, with the same number of batches differ in their place.
    fitted: set[bytes] = set()
    tested: dict[bytes, None] = {}
    lines: dict[bytes, None] = {}
    # The values of tests, by where their bars end.
    tests: dict[int, list[bytes]] = {}
    total = last_loss = b""
    has_headings = is_below = is_full = False
    for match in islice(_EPOCHS_AND_BARS.finditer(data), _MAX_STATES):
        position, bar_total, loss = match.groups()
        if position is None:
            has_headings, is_below, is_full, total = True, True, False, b""
        # A paste may begin below the heading of its epoch.
        elif not (is_below := is_below or _VALIDATES in match[0]):
            continue
        elif not total:
            total = bar_total
            fitted.add(total)
            is_full, last_loss = position == total, loss
        elif bar_total != total:
            tested |= {bar_total: None} if is_full else {}
        elif is_full and position == total and loss != last_loss and _VALIDATES not in match[0]:
            lines[match[0]] = None
        else:
            is_full |= position == total
            last_loss = loss
        if bar_total in tested or match[0] in lines:
            tests[match.end()] = _VALUE_OF_BAR.findall(match[0])
    totals = [total for total in tested if total not in fitted][:_MAX_TESTS]
    patterns = [rb"(?=\d{1,9}/%b (?:-|\[|\xe2))" % total for total in totals]
    patterns += [rb"(?=%b$)" % re.escape(line.lstrip()) for line in [*lines][:_MAX_TESTS]]
    patterns += [rb"(?=%b$)" % re.escape(line) for line in _find_printed(data, tests)]
    # The heading of an epoch is above its bar, and a checkpoint below it is not another one.
    below = [Normalization((), _CHECKPOINT_BELOW_BAR, rb"\1Checkpoint")] if has_headings else []
    tests_of = (Normalization((), rb"(?m)^ {0,8}%b" % pattern, b"Test: ") for pattern in patterns)
    return (*below, *tests_of)


def _find_printed(data: bytes, tests: Mapping[int, list[bytes]]) -> list[bytes]:
    """Return the lines below the bars of tests that print a value of one again."""
    begin = min(tests, default=len(data))
    rounded = {value for values in tests.values() for value in values if b"." in value}
    printed = islice(_VALUE_BELOW.finditer(data, begin), _MAX_TESTS)
    return [
        match[0].strip()
        for match in printed
        if any(_is_rounded(as_float(match[1]), value) for value in rounded)
    ]


def _is_rounded(number: float, rounded: bytes) -> bool:
    """Return True if a number is another one without its last digits."""
    digits = len(rounded.partition(b".")[2])
    return rounded.replace(b".", b"").isdigit() and round(number, digits) == float(rounded)
