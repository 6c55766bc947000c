"""Name the scores of lines that recur, and tell them from the results of several trainings.

A text without a loss may have its only score in a sentence, behind its value, or in a block of
several lines: Episode 4 got 1.0 reward, 85.2% accuracy, The F1 of the model: 0.81. Lines that
differ only in their numbers are records, also if a score is always the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from functools import lru_cache
from itertools import pairwise
from typing import Final

from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_a_reward, is_evaluation, is_fitness, name_words
from stabdiag.model.roles.scores import is_training_score, score_direction
from stabdiag.model.text import word_list
from stabdiag.readers.text.lines.counters import (
    DIGITS,
    STEP,
    counter_matches,
    counter_word,
    is_word,
    line_counters,
)
from stabdiag.readers.text.lines.grammar import Normalization
from stabdiag.readers.text.lines.measure_words import REWARDS, SCORES
from stabdiag.readers.text.lines.tokens import Span
from stabdiag.readers.text.names.recurring_lines import (
    Group,
    MaskedLine,
    find_groups,
    mask_lines,
    record_pattern,
)
from stabdiag.readers.text.names.standard_names import normalize
from stabdiag.readers.text.names.words_of_numbers import find_words

# The most lines of a record, and of other lines for each of them.
_MOST_LINES: Final = 8
_LINES_BETWEEN: Final = 12

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
_NAN_OR_INF: Final = rb"(?<![A-Za-z])(?:[nN]a[nN]|[iI]nf)(?![A-Za-z])"
_PERCENT_SIGN: Final = Normalization((), rb"(?<=\d)[ \t]?%(?=[\s,;)\]]|$)", b"")
# Statements of source code.
_LINE_OF_SOURCE: Final = lazy_pattern(rb"(?:return\b.*|.*[;{])\Z")

# Words whose numbers belong to several trainings, or to parts and settings of models.
_SEVERAL_RUNS: Final = rb"folds?|cv|splits?|seeds?|experiments?|exp|runs?"
_PART_OF_MODEL: Final = lazy_pattern(
    rb"(?i)(?<![a-z])(?:%b|models?|classifiers?|class(?:[_ ]id)?|label|cluster|subjects?"
    rb"|participants?|k|n|clients?|agents?|players?|head|layer|rank|teams?|candidates?"
    rb"|individuals?|tasks?|level|depth|threshold|degree|neighbors|components)"
    rb"[ \t#:=(\[]{0,4}\Z" % _SEVERAL_RUNS
)
# These words, or none, may be in front of a counter: t=300, #3, no. 3, TotalEnvInteracts 4000
_LAST_WORD: Final = lazy_pattern(rb"([A-Za-z]*)[^A-Za-z]*\Z")
_COUNTED_WORD: Final = lazy_pattern(
    rb"|t|i|it|no|number|total|\w{0,40}(?:interacts|frames|steps|samples|examples|tokens|evals?"
    rb"|evaluations|nfe|games|episodes|epochs|iterations|updates|batches)"
)
# A counter rises in at least this fraction of its moves.
_RISES_OF_COUNTER: Final = 0.8
# Settings of models with a fraction as their value.
_SEARCHED_SETTINGS: Final = (
    b"c",
    b"alpha",
    b"gamma",
    b"lambda",
    b"sigma",
    b"threshold",
    b"ratio",
    b"snr",
)
_OF_SEVERAL_RUNS: Final = lazy_pattern(
    rb"(?i)(?<![a-z])(?:%b)[ \t#:=(\[_-]{0,4}(\d{1,9})(?![\d.])" % _SEVERAL_RUNS
)


@frozen
class ScoredRecords:
    """Records with a score, or with several.

    Attributes:
        rows: the replacements that write each record with the names of its values.
        name: the name of the first score.
        count: the number of records.
        counter: the word of their counter, if they have one.
        counts: the values of this counter.
        has_others: there are other values with names, and one may be the loss.
    """

    rows: tuple[Normalization, ...]
    name: bytes
    count: int
    counter: bytes | None
    counts: tuple[int, ...]
    has_others: bool

    @property
    def word(self) -> bytes:
        """The word that finds the lines of the score."""
        return next((word for word in (*REWARDS, *SCORES) if word in self.name), self.name)


def find_scored_records(head: bytes) -> ScoredRecords | None:
    """Return the records at the head of a text with the most scores, or None."""
    # A value that is not finite has no unit.
    units = (_PERCENT_SIGN,) if re.search(_NAN_OR_INF, head) and b"%" in head else ()
    lines = mask_lines(normalize(head, units))
    if _are_results(lines):
        return None
    best: tuple[Sequence[Group], list[bytes], list[bytes]] | None = None
    most = 0
    for groups in find_groups(lines, _MOST_LINES):
        if len({line.mask for line in groups[0]}) < len(groups[0]):
            continue  # several records
        scores, counters, are_results = _names_of_numbers(groups)
        if are_results and any(scores):
            return None
        count = len(groups) * sum(map(bool, scores))
        if count > most and _are_dense(lines, groups, {*scores}):
            best, most = (groups, scores, counters), count
    if best is None:
        return None
    records, scores, counters = best
    pattern, slots = record_pattern(records[0])
    names = [a or b for a, b in zip(scores, counters, strict=True)]
    fields = [
        rb"%b: \g<%d>," % (name, slot) for name, slot in zip(names, slots, strict=True) if name
    ]
    breaks = sorted({*range(1, max(slots))}.difference(slots))
    ends = (rb"\g<%d>" % group for group in breaks)
    row = Normalization((), pattern, b" ".join(fields) + b"".join(ends))
    counted = [at for at, counter in enumerate(counters) if counter]
    at = counted[0] if counted else 0
    return ScoredRecords(
        rows=(*units, row),
        name=next(filter(None, scores)),
        count=len(records),
        counter=counters[at] if counted else None,
        counts=(*map(int, _cells(records, at)),) if counted else (),
        has_others=_has_others(records, names),
    )


def _has_others(groups: Sequence[Group], names: Sequence[bytes]) -> bool:
    """Return True if a number that is no score has a name, and decimals or no finite value."""
    words = find_words(groups[0])
    return any(
        word and not own and not is_other and any(not cell.isdigit() for cell in _cells(groups, at))
        for at, (own, (word, is_other)) in enumerate(zip(names, words, strict=True))
    )


def _cells(groups: Sequence[Group], at: int) -> Iterator[bytes]:
    """Yield a number of each record."""
    for group in groups:
        numbers = [(line, span) for line in group for span in line.numbers]
        line, span = numbers[at]
        yield line.text[slice(*span)]


def _are_results(lines: Sequence[MaskedLine]) -> bool:
    """Return True if several lines count folds, seeds or runs instead of steps."""
    counts = [match[1] for line in lines if (match := _OF_SEVERAL_RUNS.search(line.text))]
    moves = sum(before != after for before, after in pairwise(counts))
    return len({*counts}) > 1 and 2 * moves >= len(counts) - 1


def _are_dense(lines: Sequence[MaskedLine], groups: Sequence[Group], scores: Set[bytes]) -> bool:
    """Return True if the lines between records recur as well: no model or class is named there.

    Neither has another line one of the ``scores``.
    """
    own = {line.mask for line in groups[0]}
    places = [at for at, line in enumerate(lines) if line.mask in own]
    between = [line.mask for line in lines[places[0] : places[-1]] if line.mask not in own]
    forms = Counter(DIGITS.sub(b"0", mask) for mask in between)
    once = sum(count == 1 for count in forms.values())
    scored = len(places) - len(groups) * len(groups[0])
    scored += sum(
        not scores.isdisjoint({*filter(None, _scores_of_line(line.text, line.numbers))})
        for line in lines
        if line.mask not in own
    )
    is_short = len(between) <= _LINES_BETWEEN * len(groups)
    return is_short and 2 * max(once, scored) <= len(groups)


def _names_of_numbers(groups: Sequence[Group]) -> tuple[list[bytes], list[bytes], bool]:
    """Return the name of the score in each number of a record, and the name of the counter.

    Names are empty for other numbers. The third value is whether the records are the results of
    several trainings.
    """
    scores: list[bytes] = []
    counters: list[bytes] = []
    are_results = False
    for position, line in enumerate(groups[0]):
        rows = [group[position] for group in groups]
        columns = [
            [row.text[slice(*row.numbers[at])] for row in rows] for at in range(len(line.numbers))
        ]
        names = _scores_of_line(line.text, line.numbers)
        counts = _counters_of_line(line, columns)
        if any(
            _alternates(column) for column, count in zip(columns, counts, strict=True) if not count
        ):
            names = [b""] * len(names)
        for at, (name, count, column) in enumerate(zip(names, counts, columns, strict=True)):
            before = line.text[: line.numbers[at][0]]
            are_results |= not name and _numbers_results(column, before, count)
            is_new = name and name not in scores and _may_be_scores(column)
            scores.append(name if is_new else b"")
        counters += counts
    if any(counter != STEP.encode() for counter in filter(None, counters)):
        counters = [b"" if counter == STEP.encode() else counter for counter in counters]
    return scores, counters, are_results


def _numbers_results(column: Sequence[bytes], before: bytes, counter: bytes) -> bool:
    """Return True if numbers name a part or a setting of a model in each record.

    Whole numbers of an unknown word that rise evenly are settings of a search: k = 3, acc = 0.8.
    A counter that mostly falls is none, and neither is one without a word that rises unevenly.
    """
    last = _LAST_WORD.search(before)
    word = b"" if last is None else last[1].lower()
    if not all(map(bytes.isdigit, column)):
        return word in _SEARCHED_SETTINGS and len({*column}) == len(column)
    moves = [b - a for a, b in pairwise(map(int, column)) if a != b]
    rises = sum(move > 0 for move in moves)
    if counter:
        is_even = counter != STEP.encode() or len({*moves[:-1]}) <= 1
        return rises < _RISES_OF_COUNTER * len(moves) or not is_even
    if len({*column}) < len(column):
        return False
    is_counter = len({*moves}) > 1 or _COUNTED_WORD.fullmatch(word)
    return not is_counter or _PART_OF_MODEL.search(before) is not None


def _alternates(column: Sequence[bytes]) -> bool:
    """Return True if whole numbers tell the lines of several scores apart: Test score #0, #1."""
    recur = 1 < len({*column}) <= len(column) // 2 and all(map(bytes.isdigit, column))
    return recur and all(a != b for a, b in pairwise(column))


def _may_be_scores(column: Sequence[bytes]) -> bool:
    """Return True unless all numbers are the same whole number, which may be a setting."""
    return len({*column}) > 1 or not column[0].isdigit() or column[0] in (b"0", b"100")


def _counters_of_line(line: MaskedLine, columns: Sequence[Sequence[bytes]]) -> list[bytes]:
    """Return the name of the counter in each number of a line, or nothing."""
    words = {
        span: word if is_word(word) else STEP.encode()
        for word, span in line_counters(line.text).items()
    }
    names = [words.get(span) or _counter_before(line.text[: span[0]]) for span in line.numbers]
    return [
        name if all(map(bytes.isdigit, column)) and len({*column}) > 1 else b""
        for name, column in zip(names, columns, strict=True)
    ]


def _counter_before(text: bytes) -> bytes:
    """Return the word of a counter at the end of a text, with any signs behind it."""
    last = _LAST_WORD.search(text)
    counted = counter_matches(b"%b 1" % last[1]) if last is not None else ()
    return next(map(counter_word, counted), b"")


def _scores_of_line(text: bytes, numbers: Sequence[Span]) -> list[bytes]:
    """Return the name of the score in each number of a line, or nothing."""
    names = [b""] * len(numbers)
    mentions = [*_mentions(text)] if _LINE_OF_SOURCE.match(text) is None else []
    # The 5 of mAP@0.5 is no value.
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

    The words behind it may say of what it is: reward of the episode.
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
