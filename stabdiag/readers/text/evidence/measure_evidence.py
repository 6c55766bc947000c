"""The evidence in a log without a loss: rewards, norms or scores next to a counter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.scores import score_direction
from stabdiag.readers.text.evidence.counter_evidence import (
    FIRST_EPOCHS,
    MIN_COUNTS,
    heading_evidence,
    on_loss_lines,
)
from stabdiag.readers.text.evidence.examined_log import ExaminedLog
from stabdiag.readers.text.evidence.excerpts import (
    MAX_SHORT,
    MIN_EXCERPT,
    SENTENCE,
    find_few_rewards,
    find_few_scores,
)
from stabdiag.readers.text.evidence.sample import MANY_VALUES, Counts, Sample, TextEvidence, is_lost
from stabdiag.readers.text.evidence.uncounted import find_uncounted
from stabdiag.readers.text.lines.counters import (
    EPOCH,
    FIRST,
    GAMES,
    LONE_COUNT,
    is_word,
    line_counters,
)
from stabdiag.readers.text.lines.line_forms import contains
from stabdiag.readers.text.lines.measure_words import (
    LOSS_STEM,
    OTHER_MEASURES,
    REWARDS,
    SCORE,
    SCORES,
    makes_a_record,
)
from stabdiag.readers.text.lines.tokens import line_fields, lines_with_a_loss

# A counter that restarts with each run, or goes back at a resume, still rises mostly.
_MOSTLY_RISING: Final = 0.9

# A statement of source code.
_RETURNED: Final = lazy_pattern(rb"\breturn -?[\d.]{1,20};?[ \t\r]{0,8}\n")

# The parts that vary on the lines of numbered records.
_VARYING_NUMBERS: Final = lazy_pattern(rb"[-+]?(?:\d[\d.]{0,30}(?:e[-+]?\d{1,4})?|nan)")

# The rewards of a log have this many times more lines than losses that only sum up the training.
_DENSER: Final = 4

# The fewest lines of a log without a loss.
_EVIDENT: Final = 10

# The fewest lines with a score in a log without a loss, if a line has only one.
_MIN_SCORE_VALUES: Final = 5


def evidence_without_loss(log: ExaminedLog) -> TextEvidence | None:
    """Return the evidence in lines of other measures, if no line has a loss.

    More lines are required than for a loss: these words also appear in prose and model sizes. Far
    more rewards than losses show that the losses are summaries.
    """
    losses = [*chain.from_iterable(log.sample(LOSS_STEM).values.values())]
    if any(map(is_lost, losses)):
        return None
    samples = [(word, log.sample(word)) for word in OTHER_MEASURES if contains(log.data, word)]
    results = [(word, on_loss_lines(sample.counters)) for word, sample in samples]
    if not any(result for _, result in results):
        # A reward on a line of its own, below the counter.
        rewards = ((word, sample) for word, sample in samples if word in REWARDS)
        results = [
            (word, heading_evidence(log.heading_counts(sample), sample.values))
            for word, sample in rewards
        ]
    # The counter of a reward restarts where several runs follow each other in one log.
    candidates = [
        replace(result, word=word)
        for word, result in results
        if result and (result.rising == 1 or (word in REWARDS and result.rising >= _MOSTLY_RISING))
    ]
    # A score is a reward next to a counter of games.
    of_games = any(_counts_games(sample) for _, sample in samples)
    measures = (
        result
        for result in candidates
        if result.word != SCORE or of_games or result.counter in GAMES
    )
    best = max(measures, key=lambda result: result.lines, default=None)
    is_reward = best is not None and best.word in REWARDS
    best = best if is_reward or not losses else None
    if losses and best is None:
        best = _evidence_of_scores(log, samples)
    if losses and (best is None or best.lines < _DENSER * len(losses)):
        return None
    if best is None:
        return _evidence_of_scores(log, samples) or _few_measures(log, samples)
    if best.word in SCORES:
        return best
    fewest = MIN_COUNTS if best.word in REWARDS and is_word(best.counter or b"") else _EVIDENT
    return best if best.lines >= fewest else None


def _counts_games(sample: Sample) -> bool:
    """Return True if lines with a value count episodes or games."""
    return any(name in GAMES for name, _ in sample.counters)


def _few_measures(log: ExaminedLog, samples: Sequence[tuple[bytes, Sample]]) -> TextEvidence | None:
    """Return the evidence in two records of rewards or scores."""
    if _RETURNED.search(log.data):
        return None
    rewards = (
        (word, sample)
        for word, sample in samples
        # The score of a game, too.
        if word in REWARDS[:-1] or (word == SCORE and _counts_games(sample))
    )
    scores = [(word, log.sample(word)) for word in SCORES if contains(log.data, word)]
    results = chain(
        ((word, find_few_rewards(log.data, sample)) for word, sample in rewards),
        ((word, find_few_scores(log.data, sample)) for word, sample in scores),
        ((word, _scores_below_epochs(log, sample)) for word, sample in scores),
    )
    return next((replace(result, word=word) for word, result in results if result), None)


def _scores_below_epochs(log: ExaminedLog, sample: Sample) -> TextEvidence | None:
    """Return the evidence in a score below the line of each epoch, with others on their own lines.

    Epoch: 5, and below it HR@50: 0.41, MRR: 0.08 and AUC: 0.9.
    """
    epochs = [count for place, word, count in log.headings if word == EPOCH]
    is_rising = len(epochs) >= MIN_EXCERPT and all(a < b for a, b in pairwise(epochs))
    if not is_rising or len(log.data) > MAX_SHORT * len(epochs) or SENTENCE.search(log.data):
        return None
    counts = Counter(
        item.name
        for line in log.data.split(b"\n")
        for item in line_fields(line)[:1]
        if not line_counters(line) and score_direction(item.name) is not None
    )
    names = [name for name, count in counts.items() if count == len(epochs)]
    own = next((name for name in names if sample.word.decode() in name), None)
    if own is None or len(names) < MIN_EXCERPT:
        return None
    return TextEvidence(counter=EPOCH, loss=own, lines=len(epochs), rising=1.0, above=True)


def _evidence_of_scores(
    log: ExaminedLog, samples: Sequence[tuple[bytes, Sample]]
) -> TextEvidence | None:
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
        if contains(log.data, word):
            sample = log.sample(word)
            result = on_loss_lines(sample.counters)
            counter = b"" if result is None else result.counter or b""
            is_known = is_word(counter) or counter == LONE_COUNT
            # The position in an epoch, next to that epoch and no other value
            if result is not None and (result.loss,) in sample.shapes:
                is_known |= (EPOCH, result.loss) in sample.counters
            if result is not None and is_known:
                counts = sample.counters[counter, result.loss]
                if _is_one_rise(counts) if counter == LONE_COUNT else _rises_in_runs(counts):
                    is_short = (
                        _has_several_scores(sample)
                        or _has_no_gap(counts)
                        or _is_shared(sample, result.loss, counts)
                    )
                    fewest = MIN_COUNTS if is_short else _MIN_SCORE_VALUES
                    return replace(result, word=word) if result.lines >= fewest else None
            numbered = _numbered_scores(log, sample)
            if numbered is not None:
                return replace(numbered, word=word)
            epochs = {EPOCH: log.heading_counts(sample)[EPOCH]}
            below = heading_evidence(epochs, sample.values, fewest=_MIN_SCORE_VALUES)
            if below is not None and below.lines >= _MIN_SCORE_VALUES and below.rising == 1:
                return replace(below, word=word)
    return None


def _numbered_scores(log: ExaminedLog, sample: Sample) -> TextEvidence | None:
    """Return the evidence in scores behind a number that begins their lines and rises evenly.

    The lines differ only in their numbers, unlike a list of models.
    """
    lines = [line for _, line in lines_with_a_loss(log.data, sample.word)]
    forms = {_VARYING_NUMBERS.sub(b"0", line.strip()) for line in lines}
    for (counter, name), counts in sample.counters.items():
        is_even = counter == FIRST and len(counts) >= _MIN_SCORE_VALUES and _is_one_rise(counts)
        has_many = all(len(names) >= MANY_VALUES for names in sample.shapes)
        is_full = has_many or _has_several_scores(sample) or _is_shared(sample, name, counts)
        if is_even and is_full and len(counts) * len(forms) <= len(lines):
            return TextEvidence(counter=FIRST, loss=name, lines=len(counts), rising=1.0)
    return None


def _has_no_gap(counts: Counts) -> bool:
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

    A resume goes back to an earlier count, and a run whose beginning is cut off is followed by one
    from its first epoch on. A sentence above the log may name one of its scores.
    """
    falls = [n for n, (a, b) in enumerate(pairwise(counts)) if a[0] >= b[0] and a[1] > b[1]]
    are_rare = len(falls) <= (1 - _MOSTLY_RISING) * len(counts)
    return (
        all(counts[n + 1] == counts[0] for n in falls)
        or (are_rare and all(counts[n + 1] in counts[: n + 1] for n in falls))
        or (are_rare and all(counts[n + 1][1] in FIRST_EPOCHS for n in falls))
        or (falls == [0] and len(counts) > _MIN_SCORE_VALUES)
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
