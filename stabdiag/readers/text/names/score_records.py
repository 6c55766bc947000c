"""Name the scores of lines that recur, and tell them from the results of several trainings.

A text without a loss may have its only score in a sentence, behind its value, or in a block of
several lines: Episode 4 got 1.0 reward, 85.2% accuracy, The F1 of the model: 0.81. Lines that
differ only in their numbers are records, also if a score is always the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from itertools import pairwise
from typing import Final

from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
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
from stabdiag.readers.text.names.recurring_lines import (
    Group,
    MaskedLine,
    find_groups,
    mask_lines,
    record_pattern,
)
from stabdiag.readers.text.names.score_words import names_score, scores_of_line
from stabdiag.readers.text.names.standard_names import normalize
from stabdiag.readers.text.names.words_of_numbers import find_words

_FEWEST_RUNS: Final = 2

# The most lines of a record, and of other lines for each of them.
_MOST_LINES: Final = 8
_LINES_BETWEEN: Final = 12

_NAN_OR_INF: Final = rb"(?<![A-Za-z])(?:[nN]a[nN]|[iI]nf)(?![A-Za-z])"
_PERCENT_SIGN: Final = Normalization((), rb"(?<=\d)[ \t]?%(?=[\s,;)\]]|$)", b"")
# Words whose numbers belong to several trainings, or to parts and settings of models.
_SEVERAL_RUNS: Final = rb"folds?|cv|splits?|seeds?|experiments?|exp|runs?"
_PART_OF_MODEL: Final = lazy_pattern(
    rb"(?i)(?<![a-z])(?:%b|models?|classifiers?|class(?:[_ ]id)?|label|cluster|subjects?"
    rb"|participants?|k|n|clients?|agents?|players?|head|layer|rank|teams?|candidates?"
    rb"|individuals?|tasks?|level|depth|threshold|degree|neighbors|components)"
    rb"[ \t#:=(\[]{0,4}\Z" % _SEVERAL_RUNS
)
# These words, or none, may be in front of a counter: t=300, #3, no. 3, TotalEnvInteracts 4000
_LAST_WORD: Final = lazy_pattern(rb"([A-Za-z]*)[^A-Za-z\d]*\Z")
_COUNTED_WORD: Final = lazy_pattern(
    rb"|t|i|it|no|number|total|\w{0,40}(?:interacts|frames|steps|samples|examples|tokens|evals?"
    rb"|evaluations|nfe|games|episodes|epochs|iterations|updates|batches)"
)
# What a search prints: Best trial: 3. Best value: 0.8
_BEST_TRIAL: Final = lazy_pattern(rb"(?i)\bbest (?:trial|is trial)[: ]")
# A loss with a value, which is what a log is judged by.
_LOSS_OF_RECORD: Final = lazy_pattern(rb"(?i)loss(?![a-z])[^\n\d]{0,20}(?:\d|nan|inf)")
# Results of the models: a title says that the lines below it belong to several trainings.
_HEADING_OF_MODELS: Final = lazy_pattern(
    rb"(?mi)^[ \t#*=-]{0,20}(?:results?|scores?|comparison) (?:of|for) (?:the |all |each ){0,2}"
    rb"(?:models|classifiers|methods|folds|seeds|runs|experiments|subjects|tasks)\b"
)
# The fewest records of a counter without a word that does not begin at the start.
_FEWEST_COUNTED: Final = 5
# A counter rises in at least this fraction of its moves.
_RISES_OF_COUNTER: Final = 0.8
# Settings of models with a fraction as their value.
_SEARCHED_SETTINGS: Final = (b"c", b"alpha", b"gamma", b"lambda", b"sigma", b"threshold", b"snr")
_OF_SEVERAL_RUNS: Final = lazy_pattern(
    rb"(?i)(?<![a-z])(%b)[ \t#:=(\[_-]{0,4}(\d{1,9})(?![\d.])" % _SEVERAL_RUNS
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
    if _word_of_runs(lines) or _HEADING_OF_MODELS.search(head):
        return None
    best: tuple[Sequence[Group], list[bytes], list[bytes]] | None = None
    most = 0
    for groups in find_groups(lines, _MOST_LINES):
        if len({line.mask for line in groups[0]}) < len(groups[0]):
            continue  # several records
        if any(_LOSS_OF_RECORD.search(line.text) for line in groups[0]):
            continue  # a log of losses
        scores, counters, counted = _names_of_numbers(groups)
        if counted and any(scores):
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
    places = [at for at, counter in enumerate(counters) if counter]
    at = places[0] if places else 0
    return ScoredRecords(
        rows=(*units, row),
        name=next(filter(None, scores)),
        count=len(records),
        counter=counters[at] if places else None,
        counts=(*map(int, _cells(records, at)),) if places else (),
        has_others=_has_others(records, names),
    )


def _has_others(groups: Sequence[Group], names: Sequence[bytes]) -> bool:
    """Return True if a number that is not a score has a name, and decimals or no finite value."""
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


def find_word_of_results(head: bytes) -> bytes:
    """Return the word whose numbers distinguish the results of several trainings, or nothing."""
    lines = mask_lines(head)
    if len(_BEST_TRIAL.findall(head)) >= _FEWEST_RUNS:
        return b"trial"
    runs = _word_of_runs(lines)
    if runs:
        return runs
    for groups in find_groups(lines, _MOST_LINES):
        scores, _, counted = _names_of_numbers(groups)
        if counted and any(scores):
            return counted
    return b""


def _word_of_runs(lines: Sequence[MaskedLine]) -> bytes:
    """Return the word if several lines count folds, seeds or runs of a score, or nothing.

    They count these instead of steps, or each of them has only one value of each score.
    """
    scored = Counter(line.mask for line in lines if line.numbers and names_score(line.text))
    matches = [match for line in lines if (match := _OF_SEVERAL_RUNS.search(line.text))]
    counts = [match[2] for match in matches]
    several = len({*counts})
    if several < _FEWEST_RUNS or not scored:
        return b""
    moves = sum(before != after for before, after in pairwise(counts))
    are_results = 2 * moves >= len(counts) - 1 or max(scored.values()) <= several
    return matches[0][1] if are_results else b""


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
        not scores.isdisjoint({*filter(None, scores_of_line(line.text, line.numbers))})
        for line in lines
        if line.mask not in own
    )
    is_short = len(between) <= _LINES_BETWEEN * len(groups)
    return is_short and 2 * max(once, scored) <= len(groups)


def _names_of_numbers(groups: Sequence[Group]) -> tuple[list[bytes], list[bytes], bytes]:
    """Return the name of the score in each number of a record, and the name of the counter.

    Names are empty for other numbers. The third value is the word of a number that differs in each
    record, such as fold, if the records are results of several trainings.
    """
    scores: list[bytes] = []
    counters: list[bytes] = []
    results = b""
    for position, line in enumerate(groups[0]):
        rows = [group[position] for group in groups]
        columns = [
            [row.text[slice(*row.numbers[at])] for row in rows] for at in range(len(line.numbers))
        ]
        names = scores_of_line(line.text, line.numbers)
        counts = _counters_of_line(line, columns)
        if any(
            _alternates(column) for column, count in zip(columns, counts, strict=True) if not count
        ):
            names = [b""] * len(names)
        for at, (name, count, column) in enumerate(zip(names, counts, columns, strict=True)):
            before = line.text[: line.numbers[at][0]]
            if not name and not results and _numbers_results(column, before, count):
                last = _LAST_WORD.search(before)
                results = last[1] if last is not None and last[1] and not count else b"number"
            is_new = name and name not in scores and _may_be_scores(column)
            scores.append(name if is_new else b"")
        counters += counts
    if any(counter != STEP.encode() for counter in filter(None, counters)):
        counters = [b"" if counter == STEP.encode() else counter for counter in counters]
    return scores, counters, results


def _numbers_results(column: Sequence[bytes], before: bytes, counter: bytes) -> bool:
    """Return True if numbers name a part or a setting of a model in each record.

    Whole numbers of an unknown word that rise evenly are settings of a search: k = 3, acc = 0.8.
    A counter rises mostly. Without a word, it also rises evenly, and begins early on a few lines.
    """
    last = _LAST_WORD.search(before)
    word = b"" if last is None else last[1].lower()
    if not all(map(bytes.isdigit, column)):
        return word in _SEARCHED_SETTINGS and len({*column}) == len(column)
    pairs = [*pairwise(map(int, column))]
    moves = [b - a for a, b in pairs if a != b]
    # It may begin again with another run.
    rises = sum(a < b or a > b == pairs[0][0] for a, b in pairs)
    if counter:
        is_early = len(column) >= _FEWEST_COUNTED or int(column[0]) <= 1
        is_even = counter != STEP.encode() or (len({*moves[:-1]}) <= 1 and is_early)
        return rises < _RISES_OF_COUNTER * len(moves) or not is_even
    if len({*column}) < len(column):
        return False
    is_counter = len({*moves}) > 1 or _COUNTED_WORD.fullmatch(word)
    return not is_counter or _PART_OF_MODEL.search(before) is not None


def _alternates(column: Sequence[bytes]) -> bool:
    """Return True if whole numbers distinguish the lines of several scores: Test score #0, #1."""
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
