"""The evidence in a log without known names of values: D: 0.69 G: 0.7, or kimg 40.0 augment 0.1.

A text is searched for it last, when nothing else was found. The search may take longer than others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Final

from stabdiag.model.roles.names import is_fitness, is_setting, name_words
from stabdiag.model.roles.scores import score_direction
from stabdiag.readers.text.evidence.counter_evidence import (
    heading_evidence,
    on_loss_lines,
    rising_fraction,
)
from stabdiag.readers.text.evidence.loss_evidence import evidence
from stabdiag.readers.text.evidence.sample import Sample, TextEvidence, is_lost, take_sample
from stabdiag.readers.text.lines.counters import LONE_COUNT, find_headings, is_word
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, Normalization
from stabdiag.readers.text.lines.line_forms import is_frequent
from stabdiag.readers.text.lines.measure_words import SPLIT, makes_a_record
from stabdiag.readers.text.lines.spans import find_spans
from stabdiag.readers.text.lines.tokens import LONGEST, has_number
from stabdiag.readers.text.names.counted_names import numbers_parts
from stabdiag.readers.text.names.notations import find_decimal_commas, find_notations
from stabdiag.readers.text.names.positions import MEASURE, Positions, find_positions
from stabdiag.readers.text.names.score_records import ScoredRecords, find_scored_records
from stabdiag.readers.text.names.split_scores import are_scores
from stabdiag.readers.text.names.standard_names import find_normalizations, normalize
from stabdiag.readers.text.names.unknown_names import (
    CRITERIA,
    MAX_NAMES,
    MIN_COUNTED,
    NAMED,
    find_fitness,
    find_totals,
    find_unknown_names,
)

# The search covers this many bytes at the head, and this many lines with a number.
_UNKNOWN_HEAD_BYTES: Final = 1 << 18
_MAX_LINES: Final = 500

# At least one in this many lines is a record. Source code and prose repeat fewer.
_LINES_APART: Final = 3
# The lines of a generation of an evolution: -- Generation 3 --, Evaluated 181 individuals, Min 44.0
_LINES_OF_GENERATION: Final = 8

# Names that a loss has only where nothing else is named: total: 2.4, L1: 0.12, bpd=3.2, and E = 0.5
# in DyNet
_NAMED_CRITERION: Final = rb"(?<![\w./-])(?:%b)[ :=]{1,3}(?:-?\d{0,9}\.\d|nan)" % CRITERIA

# Totals are the losses of batches if each score has the same number of them.
_TOTALS_PER_SCORE: Final = 4

# The text behind a number of a list.
_NEXT_OF_LIST: Final = rb"[.]?[ \t]{0,8}[,; \t][ \t]{0,8}[-+]?\.?\d"

# 0.70 (0.02) with: {'batch_size': 10, 'epochs': 50}: the scores of a search over settings
_SETTINGS_BEHIND: Final = rb"(?m)^%b \(%b\) with: \{" % (NUMBER_PATTERN, NUMBER_PATTERN)
_EXTREMES: Final = frozenset({"max_fitness", "min_fitness"})
_VALUE_ALONE: Final = rb"(?m)^[ \t]{0,8}(%b)[ \t]{0,8}$" % NUMBER_PATTERN

# Numbered parts of a model are looked for in this many lines.
_LINES_OF_PARTS: Final = 300


def unknown_evidence(data: bytes, source: str) -> TextEvidence | None:
    """Return the evidence in values without known names, or None if there is too little.

    Args:
        data: the head of the text.
        source: the name of its file, which may say what numbers without a name are.
    """
    head = data[:_UNKNOWN_HEAD_BYTES]
    result = _evidence_after(data, find_unknown_names(head))
    if result is not None:
        return result
    # The number of a part is not a step, and neither is a setting.
    if numbers_parts(head.split(b"\n", _LINES_OF_PARTS)[:_LINES_OF_PARTS]):
        return None
    if is_frequent(_SETTINGS_BEHIND, head):
        return None
    standard = (*find_decimal_commas(head), *find_notations(head), *find_normalizations(head))
    head = normalize(head, standard)
    fitness = tuple(find_fitness(head))
    standard, head = (*standard, *fitness), normalize(head, fitness)
    positions = find_positions(head, source)
    scores = find_scored_records(head)
    result = (
        _scores_of_records(head, None if scores is None or scores.has_others else scores)
        or _values_by_position(head, positions if positions and positions.is_named else None)
        or _values_by_name(head)
        or _values_by_position(head, positions)
        or _scores_of_records(head, scores)
        or _values_alone(head)
    )
    if result is None:
        return None
    return replace(result, normalizations=(*standard, *result.normalizations))


def evidence_of_totals(data: bytes, scores: TextEvidence) -> TextEvidence:
    """Return the evidence in totals without the word for a loss, if scores are on few lines.

    [epoch: 3/200, iter: 25/448] total: 1.08, and after each epoch its accuracy. A criterion may be
    next to each score: focal: 1.08 iou: 0.4.
    """
    result = _evidence_after(data, (*find_totals(data[:_UNKNOWN_HEAD_BYTES]),))
    if result is None or result.is_without_loss:
        return scores
    is_criterion = is_frequent(_NAMED_CRITERION, data[:_UNKNOWN_HEAD_BYTES])
    per_score = 1 if is_criterion else _TOTALS_PER_SCORE
    return result if result.lines >= per_score * scores.lines else scores


def _evidence_after(data: bytes, rows: Sequence[Normalization]) -> TextEvidence | None:
    """Return the evidence in a text after replacements, if there are any."""
    result = evidence(normalize(data, rows)) if rows else None
    return result and replace(result, normalizations=(*rows, *result.normalizations))


def _scores_of_records(head: bytes, records: ScoredRecords | None) -> TextEvidence | None:
    """Return the evidence in scores on lines that recur; their step may have no number."""
    if records is None:
        return None
    result = evidence(normalize(head, records.rows))
    if result is None:
        name, word = records.name.decode(), records.word
        if not (is_fitness(name) or makes_a_record(name, word)):
            return None  # the reward of an evaluation serves no role
        result = TextEvidence(
            counter=records.counter,
            loss=name,
            lines=records.count,
            rising=rising_fraction([*records.counts]),
            word=word,
            is_unknown=is_fitness(name),
        )
    return replace(result, normalizations=(*records.rows, *result.normalizations))


def _values_by_name(head: bytes) -> TextEvidence | None:
    """Return the evidence in the values of a name next to, or below, a counter that only rises.

    A name with a value that is not finite is the name of a loss.
    """
    lines = [line for line in head.split(b"\n") if len(line) <= LONGEST and has_number(line)]
    counts = Counter(
        name
        for line in lines[:_MAX_LINES]
        for name, at in find_spans(line).items()
        if not _begins_list(line, at)
    )
    names = [name for name, count in counts.most_common() if count >= MIN_COUNTED]
    named = (name for name in names if name.isascii() and not is_setting(name))
    samples = [(name, take_sample(head, name.encode())) for name in islice(named, MAX_NAMES)]
    # A value that is not finite says most, then a known score; times and rates say least. The mean
    # of a population says more than its extremes.
    samples.sort(
        key=lambda item: (
            not any(map(is_lost, item[1].values[item[0]])),
            _rank(item[0]),
            item[0] in _EXTREMES,
        )
    )
    for name, sample in samples:
        result = _counted(head, sample)
        each = _LINES_OF_GENERATION if is_fitness(name) else _LINES_APART
        if result is None or not _is_dense(head, result.lines, each):
            continue
        values = sample.values[name]
        if are_scores(values) and SPLIT.fullmatch(name):
            continue  # the score of a split, not its loss
        if any(map(is_lost, values)):
            pattern = NAMED % (re.escape(name.encode()), NUMBER_PATTERN)
            lost = (Normalization((), pattern, name.encode() + b"_loss"),)
            as_a_loss = _evidence_after(head, lost)
            if as_a_loss is not None:
                return as_a_loss
        # A known score may be constant.
        if len({*values}) >= MIN_COUNTED or not _rank(name):
            return replace(result, word=name.encode(), is_unknown=True)
    return None


def _begins_list(line: bytes, at: tuple[int, int]) -> bool:
    """Return True for the first number of several between brackets, such as x: [3. 8.]."""
    is_first = line[: at[0]].rstrip().endswith(b"[")
    return is_first and re.match(_NEXT_OF_LIST, line[at[1] :]) is not None


def _rank(name: str) -> int:
    """Return 0 for the name of a known score, 2 for the name of a time or a rate, 1 for others."""
    words = {*name_words(name)}
    if "/" in name or not words.isdisjoint(("time", "sec", "speed", "mem", "memory", "lr")):
        return 2
    return 0 if score_direction(name) is not None else 1


def _values_by_position(head: bytes, positions: Positions | None) -> TextEvidence | None:
    """Return the evidence in numbers that are named by their positions."""
    if positions is None:
        return None
    row = (positions.row,)
    if not (positions.is_named or positions.is_a_loss):
        sample = take_sample(normalize(head, row), MEASURE)
        return _as_measures(on_loss_lines(sample.counters), row)
    result = _evidence_after(head, row)
    return result and replace(result, is_assumed=positions.is_a_loss)


def _values_alone(head: bytes) -> TextEvidence | None:
    """Return the evidence in values on lines of their own, below a counter."""
    values = re.findall(_VALUE_ALONE, head)
    if len(values) < MIN_COUNTED or not any(b"." in value or is_lost(value) for value in values):
        return None
    has_loss = any(map(is_lost, values))
    name = b"loss" if has_loss else MEASURE
    row = (Normalization((), _VALUE_ALONE, name + rb": \1"),)
    normalized = normalize(head, row)
    if has_loss:
        result = evidence(normalized)
        return None if result is None else replace(result, normalizations=row)
    result = _counted(normalized, take_sample(normalized, MEASURE))
    return _as_measures(result if result and _is_dense(head, result.lines) else None, row)


def _as_measures(
    result: TextEvidence | None, row: tuple[Normalization, ...]
) -> TextEvidence | None:
    """Return the evidence in values that may be anything."""
    if result is None:
        return None
    return replace(result, word=MEASURE, is_unknown=True, normalizations=row)


def _counted(head: bytes, sample: Sample) -> TextEvidence | None:
    r"""Return the evidence for a counter with a word that only rises, at least in each epoch.

    Boosted trees count between brackets: [3]\ttrain-gini:0.41.
    """
    result = on_loss_lines(sample.counters)
    if result is not None and result.rising == 1:
        is_named = any(
            is_word(word) or (word == LONE_COUNT and _is_even([count for _, count in counts]))
            for (word, _), counts in sample.counters.items()
        )
        return result if is_named else None
    headings: dict[bytes, list[int]] = {}
    for place, word, count in find_headings(head):
        if place < sample.end:
            headings.setdefault(word, []).append(count)
    below = heading_evidence(headings, sample.values)
    return below if below is not None and below.rising == 1 else None


def _is_even(counts: Sequence[int]) -> bool:
    """Return True if counts rise by the same number each time; the last one may follow sooner."""
    return len({after - before for before, after in pairwise(counts[:-1])}) <= 1


def _is_dense(head: bytes, lines: int, each: int = _LINES_APART) -> bool:
    """Return True if a text has at most a few other lines for each of these lines."""
    return each * lines >= sum(1 for line in head.split(b"\n") if line.strip())
