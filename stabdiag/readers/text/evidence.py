"""The evidence that any text is a log: a loss on line after line, and a counter that rises.

``evidence`` looks at the first lines that name a loss. The finest rising counter on them, or above
them, is the step.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import chain, pairwise
from typing import Final

from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_evaluation
from stabdiag.readers.text.counter_evidence import (
    MIN_COUNTS,
    evidence_at_start,
    heading_evidence,
    on_loss_lines,
    rising_fraction,
)
from stabdiag.readers.text.counters import (
    EPOCH,
    GAMES,
    LONE_COUNT,
    NTH,
    STEP,
    find_headings,
    is_word,
)
from stabdiag.readers.text.decimal_commas import find_decimal_commas
from stabdiag.readers.text.enclosed_values import find_enclosed_values
from stabdiag.readers.text.evaluation_blocks import (
    EvaluationBlocks,
    find_evaluation_bar,
    has_evaluation_blocks,
)
from stabdiag.readers.text.excerpts import (
    find_block_record,
    find_excerpt,
    find_few_rewards,
    find_few_scores,
    find_short_paste,
    find_single_epoch,
    find_single_record,
)
from stabdiag.readers.text.failures import Failures
from stabdiag.readers.text.glued_counters import find_glued_counters
from stabdiag.readers.text.grammar import as_float, trains
from stabdiag.readers.text.measure_words import (
    BY_SPLIT,
    LOSS_STEM,
    OTHER_LOSSES,
    OTHER_MEASURES,
    REWARDS,
    SCORE,
    SCORES,
    SUMMED,
    TRAINED,
    makes_a_record,
)
from stabdiag.readers.text.name_lists import find_name_lists
from stabdiag.readers.text.printed_tuples import find_printed_tuples
from stabdiag.readers.text.sample import (
    MANY_VALUES,
    Counts,
    Sample,
    TextEvidence,
    find_counter_alias,
    find_new_counter,
    find_planned_steps,
    is_lost,
    names_several_epochs,
    sample_tail,
    take_sample,
)
from stabdiag.readers.text.standard_names import find_normalizations, normalize
from stabdiag.readers.text.status_lines import failure_lines, handwritten_failure_lines
from stabdiag.readers.text.tokens import EVALUATED, lines_with_a_loss
from stabdiag.readers.text.uncounted import find_uncounted

# Headings are searched for in this many bytes at the head.
_HEADING_BYTES: Final = 1 << 22

# The counter of a reward restarts with each run in the log, so that it rises less often.
_RISING_REWARDS: Final = 0.9

# A statement of source code.
_RETURNED: Final = lazy_pattern(rb"\breturn -?[\d.]{1,20};?[ \t\r]{0,8}\n")

# The fewest lines of a log without a loss.
_EVIDENT: Final = 10

# The fewest lines with a score in a log without a loss, if a line has only one.
_MIN_SCORE_VALUES: Final = 5

# The training loss has this many times more lines than a loss that is evaluated occasionally.
_DENSER: Final = 4

# This many losses may be in a sentence about a log of other measures.
_FEW_LOSSES: Final = 2

# The largest score, in percent.
_LARGEST_SCORE: Final = 100

# What rsl_rl prints above the losses of an iteration:  Learning iteration 412/2000
_ITERATION_WORD: Final = b"iteration"
_ITERATION_ALONE: Final = lazy_pattern(
    rb"\n[ \t]{0,80}Learning iteration \d{1,9}/\d{1,9}[ \t]{0,80}\n"
)

# Lines with a counter alone, above the values that belong to it. Estimators of TensorFlow print
# global_step = 343 among the results of an evaluation. VITS has its step and rate on a line.
# Keras, nnU-Net, Coqui and Colossal-AI name the epoch: Epoch 1/10, …: Epoch 0, epoch:  0,
# > EPOCH: 0/1000, === Epoch 3 ===, INFO: [Epoch 4 / Train]:; Lasagne: Epoch 3 of 500 took 2.5s
_COUNTERS_ALONE: Final = (
    (_ITERATION_WORD, _ITERATION_ALONE),
    (
        b"global_step",
        lazy_pattern(rb"\n(?:[\w:]{1,40}[ \t])?[ \t]{0,8}global_step = \d{1,12}[ \t]{0,8}\n"),
    ),
    # Iteration 12, ---- Iteration #12 ----, Iteration: 12
    (
        _ITERATION_WORD,
        lazy_pattern(
            rb"\n[ \t>*#=|-]{0,80}(?:[Ii]teration|ITERATION)[ #:]{1,4}\d{1,9}[ \t*#=|-]{0,80}\n"
        ),
    ),
    (STEP.encode(), lazy_pattern(rb"\n[^\n]{0,80}:step: \d{1,12}, lr: [^\n]{1,40}\n")),
    (
        EPOCH,
        lazy_pattern(
            rb"\n(?:[\d:. >*#=|-]{0,40}(?:[Ee]poch|EPOCH):?[ ]{1,4}\d{1,6}(?:/\d{1,6})?"
            rb"[ \t*#=|-]{0,40}|[^\n]{0,80}\[Epoch \d{1,6} / Train\]:[ \t]{0,8}"
            rb"|[ \t]{0,8}Epoch \d{1,6} of \d{1,6} took [^\n]{1,20})\n"
        ),
    ),
)

# The results of an evaluation may be printed twice.
_MAX_REPEATS: Final = 2


@frozen
class _Log:
    """A text, with the results that do not depend on the name of its loss."""

    data: bytes

    @cached_property
    def _samples(self) -> dict[bytes, Sample]:
        return {}

    def sample(self, word: bytes) -> Sample:
        """Return a sample of the lines whose loss has a name with this word."""
        if word not in self._samples:
            self._samples[word] = take_sample(self.data, word)
        return self._samples[word]

    @cached_property
    def headings(self) -> list[tuple[int, bytes, int]]:
        """The counters with a word at its head."""
        return [*find_headings(self.data[:_HEADING_BYTES])]

    @cached_property
    def reports_failure(self) -> bool:
        """Whether a line reports a failure of the training."""
        lines = (*failure_lines("loss", STEP), *handwritten_failure_lines("loss"))
        if any(line.search(self.data) for line in lines):
            return True
        return bool(Failures(pattern=b"").find_raised(self.data))


@lru_cache(maxsize=1)
def evidence(data: bytes) -> TextEvidence | None:
    """Return the evidence that lines are a log, or None if there is too little. Cached.

    The loss may have another name, such as a cost, only if nothing is called a loss.
    """
    commas = find_decimal_commas(data)
    data = normalize(data, commas)
    normalizations = (
        *commas,
        *find_normalizations(data),
        *find_name_lists(data),
        *find_glued_counters(data),
        *find_printed_tuples(data),
        *find_enclosed_values(data),
    )
    data = normalize(data, normalizations)
    has_blocks = has_evaluation_blocks(data)
    result = _find_evidence(EvaluationBlocks().mark(data) if has_blocks else data)
    if not has_blocks and (result is None or result.counter is None):
        bar = find_evaluation_bar(data)
        if bar is not None:
            normalizations = (*normalizations, bar)
            result = _find_evidence(normalize(data, (bar,)))
    if result is None:
        return None
    return replace(result, normalizations=normalizations, has_evaluation_blocks=has_blocks)


def _find_evidence(data: bytes) -> TextEvidence | None:
    log = _Log(data=data)
    named = _evidence_by_word(log, LOSS_STEM)
    # The losses of saved models end where the training fails.
    has_only_bests = named is not None and log.sample(LOSS_STEM).has_only_bests
    if named is not None and named.lines > _FEW_LOSSES and not has_only_bests:
        return named
    matches = [match[1] for match in (SUMMED.search(data), BY_SPLIT.search(data)) if match]
    words = [*matches, *(word for word in OTHER_LOSSES if word in data)]
    results = (_evidence_by_word(log, word) for word in words)
    candidates = [result for result in results if result is not None]
    # The names are in the order of preference.
    best = next(iter(candidates), None)
    if best is not None:
        denser = (other for other in candidates if other.lines >= _DENSER * best.lines)
        best = next(denser, best)
    if named is not None and not has_only_bests:
        return best if best is not None and best.lines >= _DENSER * named.lines else named
    if named is not None:
        return best if best is not None and best.lines >= named.lines else _as_bests(named, log)
    return best or _evidence_without_loss(log)


def _as_bests(named: TextEvidence, log: _Log) -> TextEvidence:
    """Return the evidence of a log in which only saved models have a loss."""
    saved = log.sample(LOSS_STEM).saved
    return replace(named, has_only_bests=all(words & {b"best", b"improved"} for words in saved))


def _evidence_without_loss(log: _Log) -> TextEvidence | None:
    """Return the evidence in lines of other measures, if no line has a loss.

    More lines are required than for a loss: these words also appear in prose and model sizes.
    """
    if log.sample(LOSS_STEM).values:
        return None
    samples = [(word, log.sample(word)) for word in OTHER_MEASURES if word in log.data]
    results = [(word, on_loss_lines(sample.counters)) for word, sample in samples]
    if not any(result for _, result in results):
        # A reward on a line of its own, below the counter.
        rewards = ((word, sample) for word, sample in samples if word in REWARDS[:-1])
        results = [
            (word, heading_evidence(_heading_counts(log, sample), sample.values))
            for word, sample in rewards
        ]
    # The counter of a reward restarts where several runs follow each other in one log.
    candidates = [
        replace(evidence, word=word)
        for word, evidence in results
        if evidence
        and (evidence.rising == 1 or (word in REWARDS and evidence.rising >= _RISING_REWARDS))
    ]
    # A score is a reward next to a counter of games.
    of_games = any(name in GAMES for word, sample in samples for name, _ in sample.counters)
    measures = (result for result in candidates if result.word != SCORE or of_games)
    best = max(measures, key=lambda result: result.lines, default=None)
    if best is None:
        return _evidence_of_scores(log, samples) or _few_measures(log, samples)
    fewest = MIN_COUNTS if best.word in REWARDS and is_word(best.counter or b"") else _EVIDENT
    return best if best.lines >= fewest else None


def _few_measures(log: _Log, samples: Sequence[tuple[bytes, Sample]]) -> TextEvidence | None:
    """Return the evidence in two records of rewards or scores."""
    rewards = ((word, sample) for word, sample in samples if word in REWARDS[:-1])
    scores = ((word, log.sample(word)) for word in SCORES if word in log.data)
    results = chain(
        ((word, find_few_rewards(log.data, sample)) for word, sample in rewards),
        ((word, find_few_scores(log.data, sample)) for word, sample in scores),
    )
    return next((replace(result, word=word) for word, result in results if result), None)


def _evidence_of_scores(log: _Log, samples: Sequence[tuple[bytes, Sample]]) -> TextEvidence | None:
    """Return the evidence in rewards without a counter, or in scores next to a counter.

    A score needs a word as its counter, which rises within each run, or a number in brackets that
    rises evenly, or an epoch on a line of its own above it.
    """
    rewards = ((word, sample) for word, sample in samples if word in REWARDS[:-1])
    for word, sample in rewards:
        uncounted = find_uncounted(log.data, sample.values, sample)
        if uncounted is not None and not _RETURNED.search(log.data):
            return replace(uncounted, word=word)
    for word in SCORES:
        if word in log.data:
            sample = log.sample(word)
            result = on_loss_lines(sample.counters)
            counter = b"" if result is None else result.counter or b""
            if result is not None and (is_word(counter) or counter == LONE_COUNT):
                counts = sample.counters[counter, result.loss]
                if _is_one_rise(counts) if counter == LONE_COUNT else _rises_in_runs(counts):
                    is_short = (
                        _has_several_scores(sample)
                        or _counts_on(counts)
                        or _is_shared(sample, result.loss, counts)
                    )
                    fewest = MIN_COUNTS if is_short else _MIN_SCORE_VALUES
                    return replace(result, word=word) if result.lines >= fewest else None
            epochs = {EPOCH: _heading_counts(log, sample)[EPOCH]}
            below = heading_evidence(epochs, sample.values, fewest=_MIN_SCORE_VALUES)
            if below is not None and below.lines >= _MIN_SCORE_VALUES and below.rising == 1:
                return replace(below, word=word)
    return None


def _counts_on(counts: Counts) -> bool:
    """Return True if a counter counts from the first round or epoch on, without a gap."""
    values = [count for _, count in counts]
    return values[0] <= 1 and values == [values[0] + place for place in range(len(values))]


def _is_shared(sample: Sample, name: str, counts: Counts) -> bool:
    """Return True if the lines of another score have the counts of this one."""
    values = [count for _, count in counts]
    return any(
        other != name and [count for _, count in pairs] == values
        for (_, other), pairs in sample.counters.items()
    )


def _rises_in_runs(counts: Counts) -> bool:
    """Return True if a counter rises, at least in each epoch, or begins again with a new run.

    A sentence above the log may name a score of it.
    """
    falls = [n for n, (a, b) in enumerate(pairwise(counts)) if a[0] >= b[0] and a[1] > b[1]]
    return all(counts[n + 1] == counts[0] for n in falls) or (
        falls == [0] and len(counts) > _MIN_SCORE_VALUES
    )


def _is_one_rise(counts: Counts) -> bool:
    """Return True if a number without a word rises evenly: it could be anything otherwise.

    The last interval may be shorter. Boosting that stops early prints the best line again below.
    """
    values = [count for _, count in counts]
    values = values[:-1] if values[-1] in values[:-1] or values[-1] < values[-2] else values
    steps = [after - before for before, after in pairwise(values)]
    return len({*steps[:-1]}) <= 1 and 0 < steps[-1] <= steps[0]


def _has_several_scores(sample: Sample) -> bool:
    """Return True if each line has several scores, as of the training set and of another set."""
    scores = (
        [name for name in names if makes_a_record(name, sample.word)] for names in sample.shapes
    )
    return all(len(names) > 1 for names in scores)


def _evidence_by_word(log: _Log, word: bytes) -> TextEvidence | None:
    """Return the evidence in lines whose loss has a name with this word."""
    sample = log.sample(word)
    result = _evidence(log, sample)
    if result is None or (word.lower() in TRAINED and are_scores(sample.values[result.loss])):
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
        repeats_saved=sample.repeats_saved,
    )


def are_scores(values: list[bytes]) -> bool:
    """Return True if values may be scores, which rise from the start and are at most 100."""
    numbers = [*map(as_float, values)]
    third = max(len(numbers) // 3, 1)
    rise = sum(numbers[-third:]) > sum(numbers[:third]) and min(numbers) in numbers[:third]
    return rise and max(numbers) <= _LARGEST_SCORE


def _evidence(log: _Log, sample: Sample) -> TextEvidence | None:
    trained = {
        name: values
        for name, values in sample.values.items()
        if not (name.startswith(EVALUATED) or (is_evaluation(name) and not trains(name)))
    }
    training = {key: counts for key, counts in sample.counters.items() if key[1] in trained}
    best = on_loss_lines(training) or on_loss_lines(sample.counters)
    is_training = best is not None and (best.loss in trained or not trained)
    first = evidence_at_start(trained, sample.counters)
    if first is not None and (best is None or first.lines >= _DENSER * best.lines):
        return first
    if best and is_training:
        on_its_line = (EPOCH, best.loss) in sample.counters
        if on_its_line or (best.rising == 1 and not best.restarts):
            # The first epoch may be longer than the sample.
            is_position = (best.counter or b"").startswith(NTH) and not on_its_line
            return replace(best, epochs=is_position and names_several_epochs(log.data))
    headings = _heading_counts(log, sample)
    if best and not is_training:
        # The counter of evaluation losses need not count the training losses.
        best = heading_evidence(headings, trained) or best
    if best is not None:
        return best if best.above else replace(best, epochs=rising_fraction(headings[EPOCH]) == 1)
    return (
        heading_evidence(headings, sample.values)
        or find_excerpt(sample.shapes)
        or _with_few_epochs(log.data, sample, headings)
        or _failed_excerpt(log, sample)
        or find_single_record(log.data, sample)
        or find_single_epoch(log.data, sample, headings)
        or find_uncounted(log.data, trained, sample)
        or find_short_paste(log.data, sample)
        or find_block_record(log.data)
    )


def _heading_counts(log: _Log, sample: Sample) -> dict[bytes, list[int]]:
    """Return the counts of each counter with a word, on all lines above the end of a sample."""
    counts: dict[bytes, list[int]] = defaultdict(list)
    for place, name, count in log.headings:
        if place < sample.end:
            counts[name].append(count)
    # Games between two losses are not steps of the training.
    for game in [name for name in counts if name in GAMES]:
        if len(_counts_above_losses(log, sample, game)) < MIN_COUNTS:
            del counts[game]
    return counts


def _counts_above_losses(log: _Log, sample: Sample, counter: bytes) -> set[int]:
    """Return the counts of a counter that are the last ones above a loss."""
    places = [(place, count) for place, name, count in log.headings if name == counter]
    lines = lines_with_a_loss(log.data[: sample.end + 1], sample.word)
    above = (bisect_left(places, (begin, 0)) - 1 for begin, _ in lines)
    return {places[at][1] for at in above if at >= 0}


def _with_few_epochs(
    data: bytes, sample: Sample, headings: Mapping[bytes, list[int]]
) -> TextEvidence | None:
    """Return the evidence in two epochs or iterations, each with a line of its own.

    One is enough if it has several losses, such as one of an evaluation, or one that is not finite.
    """
    counter = next(
        (word for word, line in _COUNTERS_ALONE if line.search(data, 0, sample.end)), None
    )
    if counter is None:
        return None
    counts = headings[counter]
    if len(counts) > 2 and counts[0] >= counts[1]:  # a sentence above the log may name an epoch
        counts = counts[1:]
    if counter == _ITERATION_WORD and counts and _is_cut_above(data, sample):
        counts = [counts[0] - 1, *counts]
    lost = any(is_lost(value) for values in sample.values.values() for value in values)
    repeats = max(map(len, sample.values.values()), default=0)
    is_wide = repeats == 1 and max(map(len, sample.shapes), default=0) >= MANY_VALUES
    several = len(sample.values) > 1 and repeats <= _MAX_REPEATS
    fewest = 1 if lost or several or is_wide else 2
    values = sample.values
    if several and len({*counts}) == 1:
        values = {name: first[:1] for name, first in values.items()}
    return heading_evidence({counter: counts}, values, fewest=fewest)


def _is_cut_above(data: bytes, sample: Sample) -> bool:
    """Return True if the first loss is above the first heading of an iteration."""
    first = next((begin for begin, _ in lines_with_a_loss(data, sample.word)), len(data))
    return _ITERATION_ALONE.search(data, 0, first) is None


def _failed_excerpt(log: _Log, sample: Sample) -> TextEvidence | None:
    """Return the evidence in an excerpt that reports a failure of the training."""
    if sample.shapes and log.reports_failure:
        excerpt = find_excerpt(sample.shapes, reports_failure=True)
        if excerpt:
            return excerpt
    lost, lines = (sum(map(len, shapes.values())) for shapes in (sample.not_finite, sample.shapes))
    return find_excerpt(sample.not_finite, reports_failure=True) if 2 * lost >= lines else None
