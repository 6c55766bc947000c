"""Recognize lines of an evaluation that look like training lines, by the lines above them.

``epoch: 4, loss is: 0.36`` below ``testing in eval mode`` has the form of a training loss. Its
names get the prefix of an evaluation here, so that it is read like any other evaluation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.scores import is_known_score
from stabdiag.readers.copyable import Copyable
from stabdiag.readers.text.lines.counters import EPOCH, NTH, counter_value, line_counters
from stabdiag.readers.text.lines.evaluated import VALIDATED
from stabdiag.readers.text.lines.fixed_texts import lines_with
from stabdiag.readers.text.lines.grammar import Normalization, is_a_loss
from stabdiag.readers.text.lines.measure_words import LOSS_STEM
from stabdiag.readers.text.lines.tokens import line_fields, lines_with_a_loss

# The words of a time: 03:48:28 PM, Thu Sep 26 10:00:01 2019
_WORD_OF_TIME: Final = (
    rb"[AP]M(?!\w)|[A-Z][a-z]{2} {1,2}(?=(?:[A-Z][a-z]{2} {1,2})?\d{1,2},? (?:\d{4},? )?\d\d?:\d)"
)
# A heading begins with one of these words, after a time and the name of a logger: Validation at
# epoch 5, testing in eval mode, ===== Start evaluating =====, 开始验证
_HEADING: Final = lazy_pattern(
    # Two classes in a row would take quadratic time.
    rb"(?:[\s\d:.,/T=*#>+|\[\]()-]|%b|\xe2\x94[\x80-\xbf]){0,120}"
    rb"(?:(?:[a-z_.]{1,40} )?\[?(?:INFO|DEBUG)\]?[\s:|-]{1,6}[\s\d:.,=*#>|\[\]()-]{0,60})?"
    rb"(?:epoch[ :#]{1,3}\d{1,6}[ :,-]{1,4})?"
    rb"(?:(?:start|begin|run|now|perform)(?:ning|ing|s)?(?: the| an| to|,)? )?"
    rb"(?:valid(?:at(?:e|ing|ion))?|eval(?:uat(?:e|ing|ion))?|test(?:ing)?"
    rb"|\xe5\xbc\x80\xe5\xa7\x8b(?:\xe9\xaa\x8c\xe8\xaf\x81|\xe6\xb5\x8b\xe8\xaf\x95))"
    rb"(?:[ _](?:in|at|on|of|for|after|the|a|eval(?:uation)?|test|val(?:id(?:ation)?)?|mode"
    rb"|model|set|data|phase|stage|start(?:s|ed|ing)?|begins?|epoch|step|iter(?:ation)?|#?\d{1,9})){0,6}"
    rb"[^\w]{0,80}$" % _WORD_OF_TIME,
    re.IGNORECASE,
)
# Every heading has one of these texts.
_HEADING_STEMS: Final = (
    *(b"alid", b"val", b"ALID", b"VAL", b"est", b"EST"),
    *("验证".encode(), "测试".encode()),
)
# The training continues: Training at epoch 6, Now continue training, Epoch 6
_TRAINING: Final = lazy_pattern(
    r"(?<![a-z])(?:train(?:ing)?|epoch)(?![a-z_])|训练".encode(), re.IGNORECASE
)
_NAMES_TRAINING: Final = lazy_pattern(
    r"(?<![a-z])train(?:ing)?(?![a-z])|训练".encode(), re.IGNORECASE
)
_NAMES_EVALUATION: Final = lazy_pattern(rb"(?<![a-z])(?:val|eval|test|valid)", re.IGNORECASE)

# The first word of a line, and what is between it and the scores of a split.
_SPLIT: Final = lazy_pattern(
    rb"(?i)[\s\W]{0,40}(train(?:ing)?|val(?:id(?:ation)?)?|eval(?:uation)?|test(?:ing)?)"
    rb"\b[\s:|>\])-]{1,12}"
)

_MAX_HEADING: Final = 160

# The fewest training lines that look like a line of an evaluation.
_MIN_TRAINING: Final = 2

# Headings are searched for in this many bytes at the head.
_EVALUATION_HEAD: Final = 1 << 19

# A bar that is full: 3708/3708. The fewest pairs of bars, and the most that are searched.
_FULL_BAR: Final = lazy_pattern(rb"(?<![\d/])(\d{1,9})/\1(?![\d/])")
_MIN_BARS: Final = 2
_BAR_NAMES: Final = (b"Validation - ", b"Test - ")
_BAR_OF_TOTAL: Final = rb"(?m)^(?=[^\n]{0,400}(?<!\d)%b/%b(?!\d))"
# The words of its line. The epoch may be on the first bar of a pair only.
_BAR_WORD: Final = lazy_pattern(rb"[A-Za-z]+")
_EPOCH_LABEL: Final = lazy_pattern(rb"(?i)\bepochs?\b")
_MAX_BARS: Final = 500

# The first position of an evaluation is at most this many times the distance to the next one.
_FIRST_STRIDES: Final = 2

# Positions of an evaluation are searched for on this many lines with a loss.
_MAX_EVALUATION_LINES: Final = 300


class EvaluationBlocks(Copyable):
    """The blocks of evaluation lines in a text, read piece by piece."""

    def __init__(self) -> None:
        """Begin outside of a block."""
        self._inside = False
        self._is_first = False
        self._counts: dict[bytes, int] = {}
        self._trained: set[tuple[str, ...]] = set()
        self._bars: set[bytes] = set()

    def mark(self, data: bytes) -> bytes:
        """Return a text whose lines below the heading of an evaluation have names of one."""
        if not self._inside and not _may_have_headings(data):
            return data
        lines = data.split(b"\n")
        block: list[int] = []
        for at, inside in self.find_losses(lines):
            if inside:
                block.append(at)
            elif block:
                _mark_block(lines, block)
                block = []
        _mark_block(lines, block)
        return b"\n".join(lines)

    def find_losses(self, lines: list[bytes]) -> Iterator[tuple[int, bool]]:
        """Yield the position of each line with a loss, and whether it is in a block."""
        for at, line in enumerate(lines):
            if LOSS_STEM in line and _loss_names(line):
                self._inside &= not (_NAMES_TRAINING.search(line) or self._continues(line))
                self._is_first = False
                is_marked = _NAMES_EVALUATION.search(line) or self._is_other_bar(line)
                yield at, self._inside and not is_marked
            elif _is_heading(line) or self._has_scores_of_evaluation(line):
                self._inside = self._is_first = True
            elif self._inside and len(line) <= _MAX_HEADING and _TRAINING.search(line):
                self._inside = False

    def _has_scores_of_evaluation(self, line: bytes) -> bool:
        """Return True if a line has the scores that a training line above has.

        Validation: tpr 34.8, tnr 69.0 is above a loss, like Train: tpr 13.8, tnr 51.4.
        """
        split = _SPLIT.match(line) if len(line) <= _MAX_HEADING else None
        if split is None:
            return False
        names = (*(item.name for item in line_fields(line[split.end() :])),)
        if names and _NAMES_TRAINING.search(split[1]):
            self._trained.add(names)
            return False
        return names in self._trained

    def _continues(self, line: bytes) -> bool:
        """Return True if a record continues the count of the training, or of its epochs."""
        spans = line_counters(line).items()
        counts = {name: counter_value(line[slice(*span)]) for name, span in spans}
        rising = {name for name, count in counts.items() if count > self._counts.get(name, count)}
        if self._inside and not (rising if self._is_first else EPOCH in rising):
            return False
        self._counts = counts
        self._bars.update(name for name in counts if name.startswith(NTH))
        return True

    def _is_other_bar(self, line: bytes) -> bool:
        """Return True if the only counter is a position in a bar that the training does not have.

        The length of the bar shows it: step 10/80 after step 600/600.
        """
        counters = line_counters(line)
        bars = {name for name in counters if name.startswith(NTH)}
        return bool(bars) and bars.isdisjoint(self._bars) and len({*counters.values()}) == 1


def has_evaluation_blocks(data: bytes) -> bool:
    """Return True if lines below headings of evaluations have the form of training lines."""
    head = data[:_EVALUATION_HEAD]
    candidates = (line for stem in _HEADING_STEMS for _, line in lines_with(head, stem))
    has_heading = any(map(_is_heading, candidates))
    lines = head.split(b"\n")
    if not has_heading and not (_may_have_headings(head) and any(map(_SPLIT.match, lines))):
        return False
    training: list[tuple[str, ...]] = []
    evaluated: list[tuple[str, ...]] = []
    for at, inside in EvaluationBlocks().find_losses(lines):
        names = tuple(item.name for item in line_fields(lines[at]))
        (evaluated if inside else training).append(names)
    usual = [{*names} for names in {*training} if training.count(names) >= _MIN_TRAINING]
    return any({*names} <= trained for names in {*evaluated} for trained in usual)


def find_evaluation_bars(data: bytes, *, is_counted: bool) -> tuple[Normalization, ...]:
    """Return the replacements that mark the bars behind the first one of each epoch.

    Processing |####| (3708/3708) … Loss: 0.0030, then (493/493): the bars are only drawn when full,
    and the lines differ only in their totals. The second bar is an evaluation, and a third one a
    test. Return nothing for another log. In a log whose lines name the epoch (``is_counted``), all
    lines must have such bars, and the same words.
    """
    lines = [line for _, line in islice(lines_with_a_loss(data[:_EVALUATION_HEAD]), _MAX_BARS)]
    # The last epoch is full, too: 10/10.
    bars = [totals[-1] for totals in map(_FULL_BAR.findall, lines) if totals]
    is_alike = len(bars) == len(lines) and len({*map(_label, lines)}) <= 1
    for count in range(2, 2 + len(_BAR_NAMES)):
        if (is_counted or count > 2) and not is_alike:
            continue
        first, *others = (bars[at::count] for at in range(count))
        totals = [{*own} for own in (first, *others)]
        is_regular = len(others[-1]) >= _MIN_BARS and all(len(own) == 1 for own in totals)
        if is_regular and totals[0].isdisjoint(set().union(*totals[1:])):
            pairs = [*zip(others, _BAR_NAMES, strict=False)]
            names = {own[0]: name for own, name in reversed(pairs)}
            return tuple(
                Normalization((), _BAR_OF_TOTAL % (total, total), name)
                for total, name in names.items()
            )
    return ()


def _label(line: bytes) -> bytes:
    """Return the words of a line with a bar, without the epoch."""
    words = _BAR_WORD.findall(_EPOCH_LABEL.sub(b"", line))
    return b" ".join(word for word in words if word.lower() not in (b"nan", b"inf"))


def find_evaluation_positions(data: bytes) -> Normalization | None:
    """Return the replacement that marks lines of other positions, without an epoch, as evaluations.

    Epoch: [7][200/250] … Loss 4.46, then [200/313] … Loss 5.01: only the training names its epoch,
    on several lines. Return None for another log.
    """
    lines = [
        line
        for _, line in islice(lines_with_a_loss(data[:_EVALUATION_HEAD]), _MAX_EVALUATION_LINES)
    ]
    named = [b"poch" in line or b"POCH" in line for line in lines]
    if all(named) or not any(named) or _NAMES_EVALUATION.search(b"\n".join(lines)) is not None:
        return None
    counters = [line_counters(line) for line in lines]
    pairs = zip(lines, counters, strict=True)
    trained = [(line, counts) for line, counts in pairs if EPOCH in counts]
    evaluated = {frozenset(counts) for counts in counters if EPOCH not in counts}
    epochs = [line[slice(*counts[EPOCH])] for line, counts in trained]
    repeats = len(epochs) > len({*epochs}) and len(lines) - len(epochs) >= _MIN_TRAINING
    if not repeats or len(evaluated) != 1 or EPOCH not in counters[0]:
        return None
    names = [*evaluated.pop()]
    totals = {name for _, counts in trained for name in counts if name.startswith(NTH)}
    if len(names) != 1 or not names[0].startswith(NTH) or not totals or names[0] in totals:
        return None
    counts = [
        counter_value(line[slice(*counts[names[0]])])
        for line, counts in zip(lines, counters, strict=True)
        if EPOCH not in counts
    ]
    # A training that continues in another form does not count from the start.
    if counts[0] > _FIRST_STRIDES * (counts[1] - counts[0]) and not any(
        named[named.index(False) :]
    ):
        return None
    total = names[0].removeprefix(NTH)
    position = rb"(?m)^(?=[^\n]{0,200}(?<!\d)\d{1,9}/%b(?!\d))" % total
    return Normalization((), position, b"Validation: ")


def _may_have_headings(data: bytes) -> bool:
    return any(stem in data for stem in _HEADING_STEMS)


def _is_heading(line: bytes) -> bool:
    """Return True if a line announces an evaluation."""
    if not line or len(line) > _MAX_HEADING or not _may_have_headings(line):
        return False
    return _HEADING.match(line) is not None


def _loss_names(line: bytes) -> list[str]:
    return [item.name for item in line_fields(line) if is_a_loss(item.name)]


def _mark_block(lines: list[bytes], block: list[int]) -> None:
    """Rename the measurements of a block's lines, and remove the counters of its batches."""
    for at in block:
        line = bytearray(lines[at])
        if len(block) > 1:
            for name, (begin, end) in line_counters(lines[at]).items():
                if name != EPOCH:
                    line[begin:end] = b" " * (end - begin)
        fields = sorted(line_fields(lines[at]), key=lambda item: item.at, reverse=True)
        for item in fields:
            is_score = is_known_score(item.name)
            if is_a_loss(item.name) or is_score:
                line[item.at[0] : item.at[0]] = VALIDATED.encode()
        lines[at] = bytes(line)
