"""Counters on a line of any log: a word and a number, or a position such as 10/600."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    _Find = Callable[[bytes], re.Match[bytes] | None]

# 3000, or 3,000
_COUNT: Final = rb"\d{1,3}(?:,\d{3}){1,4}|\d{1,12}"
# An epoch in other languages, and a training step in Chinese tutorials.
_OF_EPOCHS: Final = "epoca|época|Época|epoche|epoque|époque|Époque".encode()
_OF_STEPS: Final = "训练次数|迭代次数".encode()
# The word "it" is also tqdm's unit, and what follows that is a time: 12 it [00:01
COUNTER: Final = re.compile(
    rb"(?<![A-Za-z])(global[ _]step|step|iteration|iter|itr|it(?=[:=]| {1,4}\d)|num_updates"
    rb"|n?update|mini[-_ ]?batch|batch(?:_idx|_id|_index)?|%b|epoch|episode|ep|round|%b)s?"
    rb"(?:\([a-z]{1,10}\))?[\"']?(?:[\s:=#\[(.]{1,12}|\]:? {1,12})(%b)"
    rb"(?=(?:st|nd|rd|th)\b|(?![\d\w%%]|[.,]\d|-\d\d-))" % (_OF_EPOCHS, _OF_STEPS, _COUNT),
    re.IGNORECASE,
)
# [ 640/60000 (1%)], 3/10 [00:01<00:02, and the bars that count 3.0it/10.0it.
POSITION: Final = re.compile(
    rb"(?<![\w./:,-])(%b)(?:\.0)?(?:it)? ?/ {0,6}(%b)(?![\d/:-]|\.[1-9])" % (_COUNT, _COUNT)
)
# [1/5][20/600], where the first is the epoch
_TWO_POSITIONS: Final = re.compile(rb"\[ {0,6}(\d{1,9})/ {0,6}\d{1,9}\] ?\[ {0,6}\d{1,12}/")
# [1,  2000], an epoch and a batch; 1epoch:train:51-100batch
_EPOCH_AND_BATCH: Final = re.compile(
    rb"\[ {0,6}(\d{1,9}), {1,6}(\d{1,12})\]|(\d{1,9})epoch:train:\d{1,12}-(\d{1,12})batch"
)
# Train: 3 [  20/600 (  3%)], as timm writes an epoch and a batch.
_OF_TRAINING: Final = re.compile(
    rb"(?<![A-Za-z])train(?:ing)?: {1,4}(\d{1,9}) {1,4}\[ {0,6}\d{1,12}/", re.IGNORECASE
)
# logging_writer.py:48] [30] loss=3.8, as clu writes it for Flax and T5X; and at the start of a line
# [30]: train's l2:0.95, or a tab, as LightGBM and XGBoost do. A blank follows the label of a rank.
_IN_BRACKETS: Final = re.compile(
    rb"(?:\] \[(\d{1,12})\] |^\[(\d{1,12})\](?::[ \t]{1,12}|\t| {2,12}))(?=[A-Za-z_])"
)
# Batch 4/203700, as WeNet writes it: the epoch, and a batch of that.
_BATCH: Final = re.compile(rb"(?<![A-Za-z])[Bb]atch \d{1,9}/(\d{1,12})(?![\d/])")
BATCH_OF_EPOCH: Final = b"Batch epoch/N"
# 100 loss: 2.31, 100: loss=2.31, [100] loss: 2.31, 100 [D loss: 2.31], at the start of a line; the
# same place may hold a rank, the number of a process, or a time.
_FIRST: Final = re.compile(
    rb"[ \t]{0,8}[\[(]?(\d{1,8})[\])]?(?:[:,|.-][ \t]{0,4}|[ \t]{1,12})\[?(?=[A-Za-z\"'])"
)
FIRST: Final = b"N at the start"
# 1 100 loss: 2.31, an epoch and a batch
_TWO_FIRST: Final = re.compile(rb"[ \t]{0,8}(\d{1,6})[ \t]{1,4}(\d{1,8})[ \t]{1,4}(?=[A-Za-z])")

STEP: Final = "step"
EPOCH: Final = b"epoch"
NTH: Final = b"N/"

# Within each of these, other counters may start again; the coarsest last.
COARSE: Final = (EPOCH, b"episode", b"round")

# What is told to be a counter by the signs around it, and what each group of the pattern counts; of
# several that count the same the last one holds.
_WITHIN_EPOCH: Final = b"[epoch, N]"
_ALONE: Final = b"[N]"
_BY_SIGNS: Final[tuple[tuple[_Find, tuple[bytes, ...]], ...]] = (
    (_OF_TRAINING.search, (EPOCH,)),
    (_TWO_POSITIONS.search, (EPOCH,)),
    (_EPOCH_AND_BATCH.search, (EPOCH, _WITHIN_EPOCH, EPOCH, _WITHIN_EPOCH)),
    (_BATCH.search, (BATCH_OF_EPOCH,)),
    (_TWO_FIRST.match, (EPOCH, _WITHIN_EPOCH)),
    (_FIRST.match, (FIRST,)),
    (_IN_BRACKETS.search, (_ALONE, _ALONE)),
)


def counters_of(line: bytes) -> dict[bytes, tuple[int, int]]:
    """Return where the counters of a line stand, by what each counts.

    That is a word or, for a position such as 10/600, what it counts up to: ``N/600``.
    """
    found = {NTH + one[2]: one.span(1) for one in POSITION.finditer(line)}
    for find, names in _BY_SIGNS:
        match = find(line)
        if match is not None:
            groups = enumerate(names, start=1)
            found |= {name: match.span(n) for n, name in groups if match[n] is not None}
    return found | {word_of(one): one.span(2) for one in COUNTER.finditer(line)}


def word_of(match: re.Match[bytes]) -> bytes:
    """Return the word of a counter that has one, in one spelling."""
    word = match[1].lower()
    return EPOCH if word == b"ep" or word in _OF_EPOCHS.split(b"|") else word


def headings_of(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the word and the number of each counter that has a word, in all lines."""
    return ((word_of(one), count_of(one[2])) for one in COUNTER.finditer(data))


def count_of(digits: bytes) -> int:
    """Return the number that a counter has come to."""
    return int(digits.replace(b",", b""))


def is_word(counter: bytes) -> bool:
    """Tell whether a counter is a word, and not a position."""
    return counter[:1].islower()
