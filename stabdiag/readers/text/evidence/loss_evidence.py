"""The evidence that any text is a log: a loss on line after line, and a counter that rises.

``evidence`` looks at the first lines that name a loss. The finest rising counter on them, or above
them, is the step.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Final

from stabdiag.model.roles.names import is_evaluation
from stabdiag.readers.text.evidence.counter_evidence import (
    evidence_at_start,
    heading_evidence,
    on_loss_lines,
    rising_fraction,
)
from stabdiag.readers.text.evidence.examined_log import ExaminedLog
from stabdiag.readers.text.evidence.run_seams import find_changed_totals, find_run_headings
from stabdiag.readers.text.evidence.sample import (
    Sample,
    TextEvidence,
    find_counter_alias,
    find_new_counter,
    find_planned_steps,
    names_several_epochs,
    sample_tail,
)
from stabdiag.readers.text.lines.counters import EPOCH, NTH
from stabdiag.readers.text.lines.evaluated import is_evaluated
from stabdiag.readers.text.lines.line_forms import contains, outline
from stabdiag.readers.text.lines.measure_words import (
    BY_SPLIT,
    LIKELIHOOD,
    LOSS_STEM,
    OTHER_LOSSES,
    SUMMED,
    TRAINED,
)
from stabdiag.readers.text.losses.evaluation import find_lone_scores
from stabdiag.readers.text.losses.evaluation_blocks import (
    EvaluationBlocks,
    find_evaluation_bars,
    find_evaluation_positions,
    has_evaluation_blocks,
)
from stabdiag.readers.text.losses.measured import StageHeading
from stabdiag.readers.text.names.counted_names import find_counted_names
from stabdiag.readers.text.names.doubled_lines import find_doubled_lines
from stabdiag.readers.text.names.keras_bars import find_test_bars
from stabdiag.readers.text.names.name_lists import find_name_lists
from stabdiag.readers.text.names.notations import find_decimal_commas, find_notations
from stabdiag.readers.text.names.positions import find_counter
from stabdiag.readers.text.names.prose import find_prose
from stabdiag.readers.text.names.split_scores import are_scores, find_split_scores
from stabdiag.readers.text.names.standard_names import find_normalizations, normalize

# The training loss has this many times more lines than a loss that is evaluated occasionally.
_DENSER: Final = 4

# Scores on lines of their own are searched for in this many bytes at the head.
_LONE_SCORE_BYTES: Final = 1 << 18

# This many losses may be in a sentence about a log of other measures.
_FEW_LOSSES: Final = 2


@lru_cache(maxsize=1)
def evidence(data: bytes) -> TextEvidence | None:
    """Return the evidence that lines are a log, or None if there is too little. Cached.

    The loss may have another name, such as a cost, only if nothing is called a loss.
    """
    prose = (*find_prose(data),)
    data = normalize(data, prose)
    commas = find_decimal_commas(data)
    data = normalize(data, commas)
    scores = (*find_split_scores(data),)
    lists = find_name_lists(data)
    normalizations = (
        *prose,
        *commas,
        *find_normalizations(data),
        *find_counted_names(data),
        *lists,
        *find_notations(data),
        *find_test_bars(data),
        *filter(None, (find_evaluation_positions(data),)),
        *scores,
        *find_doubled_lines(data),
    )
    data = normalize(data, normalizations)
    has_blocks = has_evaluation_blocks(data)
    result = _find_evidence(EvaluationBlocks().mark(data) if has_blocks else data)
    if not has_blocks and (result is None or result.counter in (None, EPOCH)):
        is_counted = result is not None and result.counter is not None
        bars = find_evaluation_bars(data, is_counted=is_counted)
        if bars:
            normalizations = (*normalizations, *bars)
            result = _find_evidence(normalize(data, bars))
    # Names that are listed for values have a loss, even if it never changes.
    if result is None and not (scores or lists):
        return None
    if (result is None or result.counter is None) and (row := find_counter(data)) is not None:
        counted = _find_evidence(normalize(data, (row,)))
        fewest = 0 if result is None else result.lines
        if counted is not None and counted.counter and counted.lines >= fewest:
            result, normalizations = counted, (*normalizations, row)
    if result is None:
        return None
    if (totals := find_changed_totals(data, result.counter or b"", result.word)) is not None:
        counted = _find_evidence(normalize(data, (totals,)))
        if counted is not None and counted.lines > result.lines:
            result, normalizations = counted, (*normalizations, totals)
    return replace(
        result,
        normalizations=normalizations,
        has_evaluation_blocks=has_blocks,
        has_stages=bool(StageHeading().find(data)),
        run_heading=find_run_headings(data, result.loss, result.word)
        if result.counter is None
        else None,
    )


def _find_evidence(data: bytes) -> TextEvidence | None:
    log = ExaminedLog(data=data)
    named = _evidence_by_word(log, LOSS_STEM)
    # The losses of saved models end where the training fails.
    has_only_bests = named is not None and log.sample(LOSS_STEM).has_only_bests
    # The training loss may have another name than the evaluated one: nll: 2.31, val loss: 2.40
    is_frequent_loss = (
        named is not None and named.lines > _FEW_LOSSES and not is_evaluation(named.loss)
    )
    if named is not None and is_frequent_loss and not has_only_bests:
        return _find_denser_splits(named, log) or named
    words = [*_split_words(data), *(word for word in OTHER_LOSSES if contains(data, word))]
    results = (_evidence_by_word(log, word) for word in words)
    candidates = [result for result in results if result is not None]
    # The names are in the order of preference. Validation perplexity is not a training loss.
    of_training = (result for result in candidates if not is_evaluation(result.loss))
    best = next(of_training, next(iter(candidates), None))
    if best is not None:
        denser = (other for other in candidates if other.lines >= _DENSER * best.lines)
        best = next(denser, best)
    if named is not None and not has_only_bests:
        best = best or _without_loss(log)
        return best if best is not None and best.lines >= _DENSER * named.lines else named
    if named is not None:
        return best if best is not None and best.lines >= named.lines else _as_bests(named, log)
    return best or _without_loss(log)


def _without_loss(log: ExaminedLog) -> TextEvidence | None:
    """Return the evidence of a log of other measures."""
    # Imported here, as most logs have a loss.
    from stabdiag.readers.text.evidence.measure_evidence import evidence_without_loss

    return evidence_without_loss(log)


def _split_words(data: bytes) -> list[bytes]:
    """Return the words that name a loss by its split or as the sum of others."""
    # A text repeats a few lines, which are searched far faster.
    patterns = (pattern for pattern in (SUMMED, BY_SPLIT) if pattern.search(outline(data)))
    return [match[1] for pattern in patterns if (match := pattern.search(data))]


def _find_denser_splits(named: TextEvidence, log: ExaminedLog) -> TextEvidence | None:
    """Return the evidence of counted losses of splits, if no named loss has a counter on its line.

    Each start of a program may print the loss of the untrained model, above the epochs of the last:
    ``Initial loss: 11.9`` and ``epoch 3 train 2.31 val 2.40``.
    """
    if named.counter is not None and not named.above:
        return None
    results = (_evidence_by_word(log, word) for word in _split_words(log.data))
    return next(
        (
            result
            for result in results
            if result is not None
            and result.counter is not None
            and not result.above
            and result.lines >= _DENSER * named.lines
        ),
        None,
    )


def _as_bests(named: TextEvidence, log: ExaminedLog) -> TextEvidence:
    """Return the evidence of a log that prints a loss only for saved models."""
    saved = log.sample(LOSS_STEM).saved
    return replace(named, has_only_bests=all(words & {b"best", b"improved"} for words in saved))


def _evidence_by_word(log: ExaminedLog, word: bytes) -> TextEvidence | None:
    """Return the evidence in lines whose loss has a name with this word."""
    sample = log.sample(word)
    result = _evidence(log, sample)
    if result is None or (word.lower() in TRAINED and are_scores(sample.values[result.loss])):
        return None
    # Only the logarithm of a likelihood is a loss, with its sign turned.
    if word == LIKELIHOOD and not all(v.startswith(b"-") for v in sample.values[result.loss]):
        return None
    # Loss is nan, stopping training: a report names the loss in its own way.
    records = [names for names, lines in sample.shapes.items() if len(names) > 1 or any(lines)]
    names = chain.from_iterable(records or sample.shapes)
    total = next((name for name in names if name.lower() == "loss"), None)
    return replace(
        result,
        word=word,
        total=total,
        counter_alias=find_counter_alias(result, sample)
        or find_new_counter(result, sample, sample_tail(log.data, word)),
        planned_steps=find_planned_steps(result, sample, log.data),
        lone_scores=_find_lone_scores(log.data, result, sample),
        repeats_saved=sample.repeats_saved,
    )


def _find_lone_scores(data: bytes, result: TextEvidence, sample: Sample) -> frozenset[str]:
    """Return the names of scores on lines of their own, between the lines of a counted loss."""
    if result.counter is None or result.above or result.is_without_loss:
        return frozenset()
    records = {name for names in sample.shapes for name in names}
    return find_lone_scores(data[:_LONE_SCORE_BYTES], result.counter, sample.word, records)


def _evidence(log: ExaminedLog, sample: Sample) -> TextEvidence | None:
    trained = {name: values for name, values in sample.values.items() if not is_evaluated(name)}
    training = {key: counts for key, counts in sample.counters.items() if key[1] in trained}
    best = on_loss_lines(training) or on_loss_lines(sample.counters)
    is_training = best is not None and (best.loss in trained or not trained)
    first = evidence_at_start(trained, sample.counters)
    if first is not None and (best is None or first.lines >= _DENSER * best.lines):
        return first
    if best and is_training:
        # A mean may follow the losses of each epoch, and only its line names the epoch.
        on_its_line = 2 * len(sample.counters.get((EPOCH, best.loss), ())) > best.lines
        if on_its_line or (best.rising == 1 and not best.restarts):
            # The first epoch may be longer than the sample.
            is_position = (best.counter or b"").startswith(NTH) and not on_its_line
            return replace(best, epochs=is_position and names_several_epochs(log.data))
    headings = log.heading_counts(sample)
    if best and not is_training:
        # The counter of evaluation losses need not count the training losses.
        best = heading_evidence(headings, trained) or best
    if best is not None:
        # An excerpt may have one heading, of a later epoch, where the counter restarts.
        restarts = best.restarts or best.rising < 1
        later = restarts and len(headings[EPOCH]) == 1 and headings[EPOCH] > [1]
        rises = later or rising_fraction(headings[EPOCH]) == 1
        return best if best.above else replace(best, epochs=rises)
    # Imported here, as most logs have a counter on the lines of the loss.
    from stabdiag.readers.text.evidence.sparse_logs import sparse_evidence

    return sparse_evidence(log, sample, trained, headings)
