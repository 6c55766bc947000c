"""Evidence from counters: on the lines of a loss, above them, or at their start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from operator import itemgetter
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.evidence.sample import MANY_VALUES, Counts, Sample, TextEvidence, is_lost
from stabdiag.readers.text.lines.counters import (
    COARSE,
    EPOCH,
    FIRST,
    LONE_COUNT,
    NTH,
    STEP,
    is_word,
)
from stabdiag.readers.text.lines.tokens import lines_with_a_loss

# A counter has at least this many values, and rises in at least this fraction of its moves.
MIN_COUNTS: Final = 3
_RISING: Final = 0.8

# A run counts its epochs from one of these on.
FIRST_EPOCHS: Final = (0, 1)

# The epoch of each run, from one begin to the next, changes more often than this on average.
_MOVES_OF_RUN: Final = 3

# The most lines with a loss below a heading, on average.
_LINES_BELOW: Final = 1.5

# The heading of rsl_rl above the losses of an iteration:  Learning iteration 412/2000
_ITERATION_WORD: Final = b"iteration"

_ITERATION_ALONE: Final = lazy_pattern(
    rb"\n[ \t]{0,80}Learning iteration \d{1,9}/\d{1,9}[ \t]{0,80}\n"
)

# Lines with a counter alone, above the values that belong to it. Estimators of TensorFlow print
# global_step = 343 among the results of an evaluation. VITS has its step and rate on a line.
# Keras, nnU-Net, Coqui and Colossal-AI name the epoch: Epoch 1/10, …: Epoch 0, epoch:  0,
# > EPOCH: 0/1000, === Epoch 3 ===, INFO: [Epoch 4 / Train]:; Lasagne: Epoch 3 of 500 took 2.5s;
# others … - epoch=3, Starting epoch 3 of 10
_COUNTERS_ALONE: Final = (
    (_ITERATION_WORD, _ITERATION_ALONE),
    (
        b"global_step",
        lazy_pattern(
            rb"\n(?:[\w:]{1,40}[ \t])?[ \t]{0,8}(?:\w{1,20}/)?global_step(?: ?[=:] ?| )"
            rb"\d{1,12}[ \t]{0,8}\n"
        ),
    ),
    # Iteration 12, ---- Iteration #12 ----, Iteration: 12
    (
        _ITERATION_WORD,
        lazy_pattern(
            rb"\n[ \t>*#=|-]{0,80}(?:[Ii]teration|ITERATION)[ #:]{1,4}\d{1,9}[ \t*#=|-]{0,80}\n"
        ),
    ),
    # step: 100, ===== Step 100/400 =====
    (
        STEP.encode(),
        lazy_pattern(
            rb"\n(?:[^\n]{0,80}:step: \d{1,12}, lr: [^\n]{1,40}"
            rb"|[ \t>*=|-]{0,80}(?:\w{1,20}/)?(?:[Ss]tep|STEP)[ #:=]{1,4}\d{1,12}(?:/\d{1,12})?"
            rb"[ \t:*#=|-]{0,80})\n"
        ),
    ),
    (
        EPOCH,
        lazy_pattern(
            rb"\n(?:(?:[^\n]{0,160}(?: - |\] |\| |: ))?[\d:. >*#=|-]{0,40}"
            rb"(?:(?:Start|Begin|Train)(?:ing|ning)? )?(?:[Ee]poch|EPOCH)(?:[:=] ?|(?= ))"
            rb"[ ]{0,4}\d{1,6}(?:(?:/| / | of )\d{1,6})?[ \t*#=|:;-]{0,40}"
            rb"|[^\n]{0,80}\[Epoch \d{1,6} / Train\]:[ \t]{0,8}"
            rb"|[ \t]{0,8}Epoch \d{1,6} of \d{1,6} took [^\n]{1,20})\n"
        ),
    ),
)

# The name of a position whose total has at most two digits.
_MIN_TOTAL: Final = len(NTH) + 2

# The results of an evaluation may be printed twice.
_MAX_REPEATS: Final = 2


def on_loss_lines(counters: Mapping[tuple[bytes, str], Counts]) -> TextEvidence | None:
    """Return the evidence for the best counter on the lines of a loss."""
    candidates = [
        _evidence_for_counter(word, loss, counts)
        for (word, loss), counts in counters.items()
        if word != FIRST and len(set(counts)) >= MIN_COUNTS and may_count(word, loss, counters)
    ]
    # The finest counter on the same lines is the step, even if it restarts with each epoch.
    candidates.sort(
        key=lambda candidate: (
            COARSE.index(candidate.counter) + 1 if candidate.counter in COARSE else 0,
            candidate.restarts,
            -candidate.lines,
            0 if candidate.counter and is_word(candidate.counter) else 1 / candidate.moves,
            -candidate.rising,
            # iter 8 step 2: if two words move alike, the optimizer's is the step.
            -candidate.moves,
            candidate.counter != b"step",
        )
    )
    rising = (
        candidate
        for candidate in candidates
        if candidate.rising >= _RISING or _counts_runs(candidate, counters)
    )
    return next(
        (candidate for candidate in rising if _has_several_values(candidate, counters)), None
    )


def _counts_runs(candidate: TextEvidence, counters: Mapping[tuple[bytes, str], Counts]) -> bool:
    """Return True if a word or a number between brackets counts each of several short runs."""
    counter = candidate.counter or b""
    counts = [count for _, count in counters[counter, candidate.loss]]
    if counter == EPOCH:
        return _is_of_runs(counts)
    falls = {after for before, after in pairwise(counts) if after < before}
    return (
        (is_word(counter) or counter == LONE_COUNT) and falls <= {counts[0]} and _is_of_runs(counts)
    )


def _has_several_values(
    candidate: TextEvidence, counters: Mapping[tuple[bytes, str], Counts]
) -> bool:
    """Return True if a counter restarts with each epoch, or takes several values.

    A progress bar that is only drawn when full always shows its total.
    """
    assert candidate.counter is not None
    counts = counters[candidate.counter, candidate.loss]
    return candidate.restarts or len({count for _, count in counts}) >= MIN_COUNTS


def _evidence_for_counter(word: bytes, loss: str, counts: Counts) -> TextEvidence:
    values = [count for _, count in counts]
    # A counter may restart with each epoch.
    inside = [(a[1], b[1]) for a, b in pairwise(counts) if a[0] == b[0]]
    within = sum(b > a for a, b in inside) / max(sum(b != a for a, b in inside), 1)
    overall = rising_fraction(values)
    restarts = overall < _RISING <= within
    return TextEvidence(
        counter=word,
        loss=loss,
        lines=len(counts),
        rising=within if restarts else overall,
        moves=max(count_moves(values), 1),
        restarts=restarts,
    )


def may_count(word: bytes, loss: str, counters: Mapping[tuple[bytes, str], Counts]) -> bool:
    """Return True if a counter may count steps, given the other counters on the same lines."""
    counts = counters[word, loss]
    bars = _bars(STEP.encode(), loss, counters)
    if bars and (word == STEP.encode() or word in bars[1:]):
        return False
    # A position with a name, as in "Epoch 3/10", is one counter. Another run has another total.
    named = Counter(counts)
    return is_word(word) or not any(
        named <= Counter(counters.get((coarse, loss))) for coarse in COARSE
    )


def _bars(word: bytes, loss: str, counters: Mapping[tuple[bytes, str], Counts]) -> list[bytes]:
    """Return the positions that a word names, if they belong to several bars that restart.

    These are the bars of the training and of its evaluation: step 10/100, then step 10/30.
    """
    named = Counter(counters.get((word, loss), []))
    bars = {
        name: counts
        for (name, counted_loss), counts in counters.items()
        if counted_loss == loss
        and name.startswith(NTH)
        and rising_fraction([n for _, n in counts]) < 1
    }
    counted = sum((Counter(counts) for counts in bars.values()), Counter())
    return [*bars] if len(bars) > 1 and counted == named else []


def heading_evidence(
    headings: Mapping[bytes, list[int]], values: Mapping[str, list[bytes]], fewest: int = MIN_COUNTS
) -> TextEvidence | None:
    """Return the evidence for a counter on separate lines, above the lines of a loss."""
    if not values:
        return None
    loss, lines = most_frequent_loss(values)
    candidates = (
        TextEvidence(
            counter=word,
            loss=loss,
            lines=lines,
            rising=rising_fraction(counts) if len(counts) > 1 else 1.0,
            above=True,
        )
        for word, counts in sorted(headings.items(), key=lambda item: item[0] in COARSE)
        # Several losses below each heading, or below all headings of an epoch, would share a step.
        # A single loss below many headings is prose.
        if len(set(counts)) >= fewest
        and (lines > 1 or len(set(counts)) < MIN_COUNTS)
        and lines <= _LINES_BELOW * (count_moves(counts) + 1 if word in COARSE else len(counts))
    )
    return next(
        (
            candidate
            for candidate in candidates
            if candidate.rising >= _RISING
            or (candidate.counter == EPOCH and _is_of_runs(headings[EPOCH]))
        ),
        None,
    )


def _is_of_runs(counts: list[int]) -> bool:
    """Return True if a counter rises, or begins again with the first count, in another run.

    Short runs count each epoch, from the first one on: 1, 2, 3, 1, 2, 3, and 48, 49, 50, 1.
    """
    moves = [(before, after) for before, after in pairwise(counts) if after != before]
    falls = [after for before, after in moves if after < before]
    if {*falls} <= {counts[0]} and len(moves) > _MOVES_OF_RUN * len(falls):
        return True
    is_each = all(after in (before + 1, *falls[:1]) for before, after in moves)
    return is_each and {*falls} <= {*FIRST_EPOCHS} and len(moves) >= _MOVES_OF_RUN * len(falls)


def position_evidence(positions: Mapping[bytes, list[int]], sample: Sample) -> TextEvidence | None:
    """Return the evidence for a position on separate lines, above the lines of a loss.

    Two records suffice if the position has a total that cannot come from a date or from ranks. For
    a loss that is not finite one record suffices; two loggers may print it.
    """
    finest_first = sorted(positions, key=lambda name: -count_moves(positions[name]))
    positions = {name: positions[name] for name in finest_first}
    long = {name: counts for name, counts in positions.items() if len(name) > _MIN_TOTAL}
    several = heading_evidence(positions, sample.values)
    several = several or heading_evidence(long, sample.values, fewest=2)
    lost = any(is_lost(value) for values in sample.values.values() for value in values)
    if several is not None or not lost:
        return several
    counter = next((name for name, counts in long.items() if len({*counts}) == 1), None)
    loss, lines = most_frequent_loss(sample.values)
    if counter is None or lines > _LINES_BELOW * len(long[counter]):
        return None
    return TextEvidence(counter=counter, loss=loss, lines=lines, rising=1.0, above=True)


def evidence_at_start(
    values: Mapping[str, list[bytes]], counters: Mapping[tuple[bytes, str], Counts]
) -> TextEvidence | None:
    """Return the evidence for a number at the start of each line that always rises."""
    loss, lines = most_frequent_loss(values)
    counts = [count for _, count in counters.get((FIRST, loss), [])]
    if len(counts) < max(MIN_COUNTS, lines) or any(b <= a for a, b in pairwise(counts)):
        return None
    return TextEvidence(counter=FIRST, loss=loss, lines=lines, rising=1.0, moves=lines - 1)


def rising_fraction(counts: list[int]) -> float:
    """Return the fraction of the moves of a counter that are rises."""
    return sum(b > a for a, b in pairwise(counts)) / max(count_moves(counts), 1)


def count_moves(counts: list[int]) -> int:
    """Return the number of changes of a counter."""
    return sum(after != before for before, after in pairwise(counts))


def most_frequent_loss(values: Mapping[str, list[bytes]]) -> tuple[str, int]:
    """Return the loss with the most lines, and their number; ("", 0) without a loss."""
    return max(
        ((name, len(lines)) for name, lines in values.items()), key=itemgetter(1), default=("", 0)
    )


def evidence_of_few_epochs(
    data: bytes, sample: Sample, headings: Mapping[bytes, list[int]]
) -> TextEvidence | None:
    """Return the evidence in two epochs or iterations, each with a line of its own.

    One is enough if it has several losses, or a loss that is not finite.
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
