"""The scores that a line names: Episode 4 got 1.0 reward, 85.2% accuracy, F1 of the model: 0.81."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_a_reward, is_evaluation, is_fitness, name_words
from stabdiag.model.roles.scores import is_training_score, score_direction
from stabdiag.model.text import word_list
from stabdiag.readers.text.lines.tokens import Span

# The most words of the name of a score.
_MOST_WORDS: Final = 4

_NAME_WORD: Final = lazy_pattern(rb"[A-Za-z][\w@./-]{0,40}")

# Signs and quotes between a name and its value, and a sign or a verb in front of a value: F1 of the
# model: 0.8, the reward is 12.
_JOINED_VALUE: Final = lazy_pattern(rb"[\"')\]]{0,2}[ \t:=>~|-]{0,12}[\"'(\[]{0,2}")
_ASSIGNED_VALUE: Final = lazy_pattern(
    rb"[^|;,\t]{0,60}(?:[:=>]|\b(?:is|was|are|now|of|to|reached|got))[ \t\"'(\[]{0,4}"
)
# A value in front of its name: 85.2% accuracy, 0.8 (F1), 12.5 of reward
_BEHIND_VALUE: Final = lazy_pattern(rb"[ \t]{0,2}%?[ \t]{0,2}\(?(?:of |in |as )?")
# The end of the words about a value.
_CLAUSE_END: Final = lazy_pattern(rb"[|;,\t]|\. | and ")

_SPLIT_PATTERNS: Final = tuple(
    (lazy_pattern(rb"(?i)(?<![a-z])(?:%b)(?![a-z])" % words), name)
    for words, name in (
        (rb"test(?:ing)?", b"test "),
        (rb"val(?:id(?:ation)?)?|eval(?:uation)?|dev", b"val "),
        (rb"train(?:ing)?", b"train "),
    )
)
_OTHER_SCORE: Final = lazy_pattern(rb"(?i)(?<![a-z])(?:best|target|previous|old)(?![a-z])")
_WORDS_OF_FITNESS: Final = frozenset(
    word_list("fitness best mean avg average max min top current global overall population")
)
# Statements of source code.
_STATEMENT_OF_CODE: Final = lazy_pattern(rb"(?:return\b.*|.*[;{])\Z")


def scores_of_line(text: bytes, numbers: Sequence[Span]) -> list[bytes]:
    """Return the name of the score in each number of a line, or nothing."""
    names = [b""] * len(numbers)
    mentions = [*_mentions(text)] if _STATEMENT_OF_CODE.match(text) is None else []
    # The 5 of mAP@0.5 is not a value.
    values = [
        at
        for at, (begin, _) in enumerate(numbers)
        if not any(start <= begin < end for start, end in mentions)
    ]
    if not mentions or not values:
        return names
    # 0.85 F1, 0.9 AUC: each name is behind its value.
    is_behind = numbers[values[-1]][0] < mentions[-1][0]
    ends = [*(start for start, _ in mentions[1:]), len(text)]
    for (start, end), until in zip(mentions, ends, strict=True):
        above = [at for at in values if numbers[at][1] <= start]
        if is_behind:
            value = above[-1] if above and _is_behind(text, numbers[above[-1]][1], start) else None
            above = above[:-1]
        else:
            below = [numbers[at] for at in values if end <= numbers[at][0] < until]
            span = _value_below(text, end, below)
            value = None if span is None else [*numbers].index(span)
        if value is None or names[value]:
            continue
        clause = text[numbers[above[-1]][1] if above else 0 : max(end, numbers[value][0])]
        # Most evolutions only print the fitness of the best individual.
        if is_fitness(text[start:end].decode("ascii", "replace")) or not _OTHER_SCORE.search(
            clause
        ):
            names[value] = _of_split(text[start:end], clause) or _of_split(text[start:end], text)
    return names


def names_score(text: bytes) -> bool:
    """Return True if a line names a score, also a best one."""
    return next(_mentions(text), None) is not None


def _is_behind(text: bytes, begin: int, end: int) -> bool:
    """Return True if a name at ``end`` belongs to the value in front of it."""
    return _BEHIND_VALUE.fullmatch(text, begin, end) is not None


def _value_below(text: bytes, end: int, values: Sequence[Span]) -> Span | None:
    """Return the span of the value that follows a name, the one with a sign before it first."""
    begin = end
    for at, value in enumerate(values):
        between = text[begin : value[0]]
        if _CLAUSE_END.search(text, end, value[0]) is not None:
            break
        if _ASSIGNED_VALUE.fullmatch(between) or (not at and b"\t" in between):
            return value
        begin = value[1]
    is_joined = bool(values) and _JOINED_VALUE.fullmatch(text, end, values[0][0]) is not None
    return values[0] if is_joined else None


def _of_split(name: bytes, *words: bytes) -> bytes:
    """Return the name of a score with the split that the first of these words name, if any."""
    text = name.decode("ascii", "replace")
    if is_evaluation(text) or is_training_score(text):
        return name
    splits = (split for part in words for pattern, split in _SPLIT_PATTERNS if pattern.search(part))
    return next(splits, b"") + name


def _mentions(text: bytes) -> Iterator[Span]:
    """Yield the span of each name of a score in a line, with the words in front that belong to it.

    Words behind the name may belong to it as well: reward of the episode.
    """
    words = [match.span() for match in _NAME_WORD.finditer(text)]
    at = 0
    while at < len(words):
        begin, end = words[at]
        for last in range(at, min(at + _MOST_WORDS, len(words))):
            if last > at and text[end : words[last][0]] != b" ":
                break
            end = words[last][1]
            if _names_score(text[begin:end]):
                yield begin, end
                at = last
                break
        at += 1


@lru_cache(maxsize=1 << 12)
def _names_score(name: bytes) -> bool:
    """Return True if words are the name of a score, of a reward or of a fitness."""
    text = name.decode("ascii", "replace")
    # An error may be the loss.
    if b"err" in name.lower():
        return False
    is_score = score_direction(text) is not None or is_a_reward(text, of_episodes=True)
    words = {*name_words(text)}
    return is_score or ("fitness" in words and words <= _WORDS_OF_FITNESS)
