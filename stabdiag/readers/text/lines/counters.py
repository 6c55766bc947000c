"""Find the counters on a line: a word with an integer, or a position such as 10/600."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from stabdiag.model.patterns import lazy_pattern

DIGIT: Final = lazy_pattern(rb"\d")
DIGITS: Final = lazy_pattern(rb"\d{1,100}")
STEP: Final = "step"
EPOCH: Final = b"epoch"
NTH: Final = b"N/"
FIRST: Final = b"N at the start"
_WITHIN_EPOCH: Final = b"[epoch, N]"
LONE_COUNT: Final = b"[N]"
_BAR_COUNT: Final = b"Nit ["

# Within each of these, other counters may restart; the coarsest last.
COARSE: Final = (EPOCH, b"episode", b"round", b"cycle")

# Counters of games: next to them, a score is a reward.
GAMES: Final = (b"episode", b"game", b"trial", b"generation")

# 3000, 3,000, 3K, or 3.5K
_COUNT_PATTERN: Final = rb"\d{1,3}(?:,\d{3}){1,4}|\d{1,4}(?:\.\d{1,3})?[KMB]|\d{1,12}"
# An epoch in other languages, and a training step in Chinese tutorials.
_OF_EPOCHS: Final = "epoca|época|Época|epoche|epoque|époque|Époque".encode()
_EPOCH_WORDS: Final = frozenset({b"ep", *_OF_EPOCHS.split(b"|")})
_OF_STEPS: Final = "训练次数|迭代次数".encode()
# The word "it" is also tqdm's unit, and a time follows: 12 it [00:01. Lightning's bars count 9.000,
# It is searched for in lower case, by the first bytes of all these words. An option of a command
# line and a number of steps are settings: --epochs 100, max_steps=500. Episode steps: 157 is the
# length of an episode.
_COUNTER: Final = lazy_pattern(
    rb"(?=[gsinmbeurtfc\xc3\xe8])(?<![a-z])(?<!_in_)(?<!best[ _])(?<!episode[ _](?=s))"
    rb"(?<![\s(\[`'\"]--)(?<!num_)(?<!max_)(?<!save_)"
    rb"(global[ _]step|step|tick|game|generation|trial|cycle|(?:total[ _])?timestep|frame"
    rb"|iteration|iter|itr|it(?=[:=]| {1,4}\d)|num_updates|n?update"
    rb"|mini[-_ ]?batch|batch(?:_idx|_id|_index)?|%b|epoch|episode|ep|round|%b)s?"
    rb"(?:\([a-z]{1,10}\)(?! \()|(?:[ _]?(?:id|idx|index)| is| no| num| number)(?=[\s:=.]))?[\"']?"
    rb"(?:[\s:=#\[(.]{1,16}[\"']?|\]:? {1,12})(%b)"
    # 1 epoch = 2640 batches is a length.
    rb"(?:\.0{1,6}(?=[,\]]))?(?=(?:st|nd|rd|th)\b"
    rb"|(?![\d\w%%]|[.,]\d|-\d\d-| (?:batches|steps|iterations)\b(?! ?[:=\d])))"
    % (_OF_EPOCHS, _OF_STEPS, _COUNT_PATTERN.lower())
)
# [ 640/60000 (1%)], 3/10 [00:01<00:02, and the bars that count 3.0it/10.0it. icefall writes the
# rank before an epoch: (0/4) Epoch 1, batch 50.
POSITION: Final = lazy_pattern(
    rb"(?<![\w./:,-])(%b)(?:\.0)?(?:it)? ?/ {0,6}(%b)(?![\d/-]|:\d|\.[1-9]|\) Epoch )"
    % (_COUNT_PATTERN, _COUNT_PATTERN)
)

# A score may be written as a count of all: Acc: 61.2% (612/1000), correct: 612/1000
_SCORE_BEFORE: Final = lazy_pattern(
    rb"(?i)(?:acc|accuracy|correct|hits?|top-?[15])(?:@\d)?[\"']?[ \t:=]{1,4}"
    rb"(?:(\d{1,3}(?:\.\d{1,9})?) ?%?[ \t]{0,2}[(\[][ \t]{0,2})?\Z"
)
# This many bytes in front of a count are searched for the name of a score.
_SCORE_BYTES: Final = 40

# Counters that are identified by their punctuation, the name of each group, and a text that lines
# with a match contain, which is found faster; it is empty for a match at the start of a line. If
# several patterns have the same name, the last counts.
_BY_PUNCTUATION: Final = tuple(
    (lazy_pattern(pattern), names, text)
    for pattern, names, text in (
        # Train: 3 [  20/600 (  3%)], as timm writes an epoch and a batch.
        (
            rb"(?<![A-Za-z])(?i:train(?:ing)?): {1,4}(\d{1,9}) {1,4}\[ {0,6}\d{1,12}/",
            (EPOCH,),
            b"[",
        ),
        # [1/5][20/600], where the first is the epoch
        (rb"\[ {0,6}(\d{1,9})/ {0,6}\d{1,9}\] ?\[ {0,6}\d{1,12}/", (EPOCH,), b"["),
        # [1,  2000], an epoch and a batch; 1epoch:train:51-100batch, 1epoch results: [train] …
        (rb"\[ {0,6}(\d{1,9}), {1,6}(\d{1,12})\]", (EPOCH, _WITHIN_EPOCH), b"["),
        (
            rb"(\d{1,9})epoch(?: results: |:train:\d{1,12}-(\d{1,12})batch)",
            (EPOCH, _WITHIN_EPOCH),
            b"epoch",
        ),
        # 1 100 loss: 2.31, an epoch and a batch
        (
            rb"[ \t]{0,8}(\d{1,6})[ \t]{1,4}(\d{1,8})[ \t]{1,4}(?=[A-Za-z])",
            (EPOCH, _WITHIN_EPOCH),
            b"",
        ),
        # 100 loss: 2.31, 100: loss=2.31, [100] loss: 2.31, 100 [D loss: 2.31]; the same position
        # may have a rank, a process number, or a time.
        (
            rb"[ \t]{0,8}(?:[\[(] {0,8})?(\d{1,8})[\])]?(?:[ \t]?[:,|.-][ \t]{0,8}|[ \t]{1,12})"
            rb"[\[{]?(?=[A-Za-z\"'])",
            (FIRST,),
            b"",
        ),
        # logging_writer.py:48] [30] loss=3.8, as clu writes it for Flax and T5X; INFO [ 30] loss=3;
        # and at the start [30]: train's l2:0.95, or below any label with a tab, as LightGBM and
        # XGBoost do. A blank follows a rank, unless the next name is a set and its metric.
        (
            rb"(?:(?<=[\s:|>+`*\"'-])\[ {0,8}(\d{1,12})\]\t"
            rb"|(?:\] |[A-Za-z]:|\b(?:INFO|DEBUG|[Tt]rain(?:ing)?) {1,4})\[ {0,8}(\d{1,12})\] "
            rb"|^\[ {0,8}(\d{1,12})\](?::[ \t]{1,12}|\t| {2,12}"
            rb"| (?=(?:[Tt]rain|[Ee]val|[Vv]al|[Tt]est)[a-z]{0,10}(?:_\d)?(?:-|'s )[a-z])))"
            rb"(?=[A-Za-z_])",
            (LONE_COUNT, LONE_COUNT, LONE_COUNT),
            b"[",
        ),
        # 540it [09:59,  1.05s/it], tqdm's bar if the total is unknown
        (rb"(?<![\w./,-])(\d{1,12}) ?[a-z]{1,10} \[\d\d:\d\d(?::\d\d)?, ", (_BAR_COUNT,), b" ["),
    )
)


@lru_cache(maxsize=1 << 12)
def line_counters(line: bytes) -> Mapping[bytes, tuple[int, int]]:
    """Return the spans of the counters of a line by name.

    The name is a word or, for a position such as 10/600, its total: ``N/600``.
    """
    positions = POSITION.finditer(line) if b"/" in line else ()
    counters = {NTH + match[2]: match.span(1) for match in positions if not _is_score(match)}
    for pattern, names, text in _BY_PUNCTUATION:
        if text not in line:
            continue
        match = pattern.search(line) if text else pattern.match(line)
        if match is not None:
            groups = enumerate(names, start=1)
            counters |= {name: match.span(n) for n, name in groups if match[n] is not None}
    return counters | {counter_word(match): match.span(2) for match in counter_matches(line)}


def _is_score(position: re.Match[bytes]) -> bool:
    """Return True if a position is how many of all are right, and no progress."""
    begin = position.start()
    if begin == 0:
        return False
    named = _SCORE_BEFORE.search(position.string, max(begin - _SCORE_BYTES, 0), begin)
    if named is None or named[1] is None:
        return named is not None
    right = counter_value(position[1]) / max(counter_value(position[2]), 1)
    tolerance = 10.0 ** -len(named[1].partition(b".")[2])
    return any(abs(float(named[1]) - scale * right) <= tolerance for scale in (1, 100))


def counter_matches(data: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the matches of counters with a word, in all lines: the word and the count."""
    return _COUNTER.finditer(data.lower())


def counter_word(match: re.Match[bytes]) -> bytes:
    """Return the normalized word of a counter."""
    word: bytes = match[1]
    return EPOCH if word in _EPOCH_WORDS else word


def find_headings(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Yield the position, the word and the count of each counter with a word, in all lines."""
    return (
        (match.start(), counter_word(match), counter_value(match[2]))
        for match in counter_matches(data)
    )


def find_positions(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Yield the place, the name and the count of each position such as [20/600], in all lines."""
    return (
        (match.start(1), NTH + match[2], counter_value(match[1]))
        for match in (POSITION.finditer(data) if b"/" in data else ())
    )


def counter_value(digits: bytes) -> int:
    """Return the value of a counter."""
    if digits.isdigit():
        return int(digits)
    unit = b" KMB".find(digits[-1:].upper())
    if unit < 0:
        return int(digits.replace(b",", b""))
    return round(float(digits[:-1]) * float(1000**unit))


def is_word(counter: bytes) -> bool:
    """Return True if a counter is a word, rather than a position."""
    return counter[:1].islower()
