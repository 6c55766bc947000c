"""Losses next to the one that is diagnosed: components, auxiliary losses, other candidates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.model.roles.loss_kinds import DISCRIMINATOR, LossKind, is_adversarial_loss
from stabdiag.model.roles.names import name_words
from stabdiag.model.roles.other_losses import is_of_answers, is_other_loss, is_regularizer
from stabdiag.model.text import SHOWN_NAMES, listed, num, plural, word_list
from stabdiag.stats.course import position_after
from stabdiag.stats.levels import levels
from stabdiag.stats.standards import (
    CLEAR_RATIO,
    CONTEXT_POINTS,
    FAR_RATIO,
    HALF,
    LEAST,
    MIN_CONSECUTIVE,
    QUARTERS,
    TENFOLD,
    TENTHS,
    TWENTIETHS,
    TWICE,
)
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case

# Roles that are losses, or terms of one, under names of their own.
_LOSSES = ("other_loss", "load_balance")
_ROLES = (*_LOSSES, "policy_kl", "policy_entropy", "failed_value")

# Without a policy, a divergence is a term of the loss, as in a variational autoencoder.
_RISING_ROLES = (*_LOSSES, "policy_kl")
_OF_POLICIES = ("reward", "policy_entropy", "clip_fraction")
_POLICY_WORDS = frozenset({"approx", "policy", "actor", "ppo", "objective", "pg", "advantage"})

# In adversarial training, a distance to the data still has to fall.
_DISTANCES = frozenset(
    word_list("mel stft recon reconst reconstruction cycle cyc idt identity l1 mse pixel")
)

# A loss that was finite for this many records, and is not for most that follow, has failed. In
# tables with several kinds of records, NaN fills the gaps from the start, or is rare.
_MIN_FINITE = MIN_CONSECUTIVE
_MIN_BAD = MIN_CONSECUTIVE
# A loss without any finite value needs more: it may be a placeholder of the first records.
_MIN_ONLY_BAD = CONTEXT_POINTS
_MOSTLY = HALF

# Tables that were converted have a column of NaN if it has no values.
_CONVERTED_FORMATS = frozenset({"memory", "parquet", "sqlite", "wandb"})

# The run is divided into twentieths. A loss climbs if its end is far above the best level of its
# middle and above all of its first quarter, which a loss that fell far at first needs not exceed
# much. Terms that grow from zero to a plateau do not.
_QUARTER_PARTS = TWENTIETHS // QUARTERS
_MIN_CLIMB = FAR_RATIO
_MIN_RISE = TWICE
_MIN_LARGE_CLIMB = TENFOLD
# A smaller climb counts as well if the loss did not grow from its start, as a term does whose
# weight rises: from a quarter of the run to its end, that makes it four times as high.
_MIN_LATE_CLIMB = FAR_RATIO / TWICE
_MIN_LATE_RISE = CLEAR_RATIO


@Symptom(
    slug="other-loss-nonfinite",
    title="Another loss went NaN",
    needs=(" or ".join(_ROLES),),
    inconclusive_if=(at_least(_MIN_FINITE, *_ROLES, groups=True),),
    explained_by=("nan",),
    next_actions=(
        Action(Do.CHECK_LOSS_FUNCTION, "Check its inputs for empty batches, log(0) and 0/0."),
        Action(Do.LOG_MORE, "If it is the training loss, pass it with --column loss=NAME."),
    ),
)
def other_loss_nonfinite(case: Case) -> Evidence | None:
    """Did a component, an auxiliary loss or another logged value go NaN and stay so?"""
    printed = case.history.source.format not in _CONVERTED_FORMATS
    failed = [
        (step, series)
        for role in _ROLES
        for series in case.history.group(role).values()
        if (step := _failure_step(series, printed=printed or is_of_answers(series.column)))
        is not None
    ]
    if not failed:
        return _occasional_failure(case)
    step, series = min(failed, key=lambda failure: failure[0])
    bad = series.values[series.steps >= step]
    count = int(np.count_nonzero(~np.isfinite(bad)))
    names = [f"{loss.column!r}" for _, loss in failed[:SHOWN_NAMES]]
    is_known = any(not loss.role.startswith("failed_value/") for _, loss in failed)
    return Evidence(
        title="" if is_known else "A logged value went NaN",
        because=f"{listed(names)} {'is' if len(names) == 1 else 'are'} not finite from {case.unit} "
        f"{step} on ({plural(count, 'value')} of {series.column!r}); the diagnosed loss "
        f"{_name(case)} continues.",
        step=step,
        measured={"loss": series.column, "not_finite": count, "losses": len(failed)},
        first=Action(
            Do.CHECK_LOSS_FUNCTION,
            f"Find out why {series.column!r} is not finite from {case.unit} {step} on, and "
            "whether its gradient reaches the weights.",
        ),
    )


def _occasional_failure(case: Case) -> Evidence | None:
    """Report logits or rewards of answers that are not finite in a few records."""
    for series in case.history.group("failed_value").values():
        bad = ~np.isfinite(series.values)
        if bad.any() and is_of_answers(series.column):
            step = int(series.steps[np.argmax(bad)])
            return Evidence(
                title="A logged value is NaN in some records",
                severity=Severity.NOTE,
                because=f"{series.column!r} is not finite in {int(bad.sum())} of {len(bad)} "
                f"records, first at {case.unit} {step}; the loss {_name(case)} is finite.",
                step=step,
                measured={"loss": series.column, "not_finite": int(bad.sum())},
                first=Action(
                    Do.INSPECT_DATA,
                    f"Look at the batch of {case.unit} {step}: answers that are empty after "
                    "truncation, or none of one kind, leave nothing to average.",
                ),
            )
    return _passing_failure(case)


def _passing_failure(case: Case) -> Evidence | None:
    """Report a loss that is not finite in some records, and finite in most.

    In a table that was converted, these may be gaps.
    """
    if case.history.source.format in _CONVERTED_FORMATS:
        return None
    for role in _RISING_ROLES:
        for series in case.history.group(role).values():
            rows = np.flatnonzero(~np.isfinite(series.values))
            if len(rows) and rows[0] >= _MIN_FINITE and not _are_gaps(rows):
                return _passing_evidence(case, series, rows)
    return None


def _are_gaps(rows: np.ndarray) -> bool:
    """Return True if records are at equal distances, as those of another kind are."""
    distances = np.diff(rows)
    return len(rows) >= _MIN_BAD and distances[0] > 1 and bool((distances == distances[0]).all())


def _passing_evidence(case: Case, series: Series, rows: np.ndarray) -> Evidence:
    step, count = int(series.steps[rows[0]]), len(rows)
    is_stretch = count >= _MIN_BAD and rows[-1] - rows[0] == count - 1
    if is_stretch and rows[-1] < len(series) - 1:
        course = f"{count} records in a row, from {case.unit} {step} on, and recovers"
    else:
        course = f"{count} of {len(series)} records, first at {case.unit} {step}"
    return Evidence(
        title="Another loss was NaN for a while" if is_stretch else "Another loss has a NaN",
        severity=Severity.NOTE,
        because=f"{series.column!r} is not finite in {course}; the loss {_name(case)} is finite.",
        step=step,
        measured={"loss": series.column, "not_finite": count},
        first=Action(
            Do.CHECK_LOSS_FUNCTION,
            f"Find out what {series.column!r} lacked at {case.unit} {step}.",
        ),
    )


@Symptom(
    slug="other-loss-rising",
    title="Another loss climbs",
    needs=(" or ".join(_RISING_ROLES),),
    preconditions=(at_least(LEAST, *_RISING_ROLES, groups=True),),
    explained_by=("nan", "divergence", "spike-persistent"),
    next_actions=(
        Action(Do.CHECK_LOSS_FUNCTION, "Check its sign and its weight in the total."),
        Action(Do.LOG_MORE, "If it is the training loss, pass it with --column loss=NAME."),
    ),
)
def other_loss_rising(case: Case) -> Evidence | None:
    """Does another loss end far above the best level it had?"""
    kind = case.loss_kind
    if kind not in (None, LossKind.ADVERSARIAL) or case.history.group("loss_weight"):
        return None
    is_of_policy = _trains_a_policy(case)
    losses = (
        loss
        for loss in _others(case, _RISING_ROLES)
        if not (is_of_policy and _may_rise_next_to_policy(loss.column))
    )
    climbs = [climb for series in losses if (climb := _climb(series)) is not None]
    climbs = [
        climb
        for climb in climbs
        if (kind is None and not is_adversarial_loss(climb[2].column))
        or _fails_next_to_adversary(*climb)
    ]
    if not climbs:
        return None
    ratio, step, series = max(climbs, key=lambda climb: climb[0])
    level = _Levels.of(series.finite().values)
    return Evidence(
        because=f"{series.column!r} ended at {num(level.end)}, {num(ratio)} times its best level "
        f"of {num(level.best)}; the diagnosed loss {_name(case)} did not climb.",
        step=step,
        measured={"loss": series.column, "ratio": ratio, "best": level.best, "last": level.end},
        first=Action(
            Do.CHECK_LOSS_FUNCTION,
            f"Find out what {series.column!r} measures and why it rises from {case.unit} {step} "
            "on.",
        ),
    )


def _name(case: Case) -> str:
    return repr(case.history.logged("loss").column)


def _fails_next_to_adversary(ratio: float, _step: int, series: Series) -> bool:
    """Return True if a loss should not climb in adversarial training.

    It is a distance to the data, or belongs to a discriminator that ends far above its best level.
    """
    words = {*name_words(series.column)}
    is_lost = ratio >= TENFOLD and bool(words & DISCRIMINATOR)
    return bool(words & _DISTANCES) or is_lost


def _others(case: Case, roles: tuple[str, ...]) -> Iterator[Series]:
    """Yield the other losses."""
    for role in roles:
        yield from case.history.group(role).values()


def _may_rise_next_to_policy(name: str) -> bool:
    """Return True for the divergence of a policy, and for the error of its critic."""
    return "kl" in name_words(name) or is_adversarial_loss(name)


def _trains_a_policy(case: Case) -> bool:
    """Return True if a column belongs to a policy, whose divergence grows while it learns."""
    losses = (loss.column for loss in _others(case, _ROLES))
    words = (name_words(name) for name in losses if not is_adversarial_loss(name))
    return any(map(case.history.has, _OF_POLICIES)) or any(
        not _POLICY_WORDS.isdisjoint(own) for own in words
    )


def _failure_step(series: Series, *, printed: bool) -> int | None:
    """Return the step where a loss becomes non-finite in most of its records, or None.

    A column of only NaN has no values, unless the NaN is ``printed`` in the records of a log.
    """
    bad = ~np.isfinite(series.values)
    if not bad.any():
        return None
    if bad.all():
        return int(series.steps[0]) if printed and len(bad) >= _MIN_ONLY_BAD else None
    first = int(np.argmax(bad))
    after = bad[first:]
    if first < _MIN_FINITE or after.sum() < _MIN_BAD or after.mean() < _MOSTLY:
        return None
    return int(series.steps[first])


@frozen
class _Levels:
    """The levels of a loss: its highest ones, its lowest ones, and the level of its end."""

    start: float
    first_quarter: float
    first_half: float
    best: float
    end: float

    @classmethod
    def of(cls, values: np.ndarray) -> _Levels:
        """Return the levels of the values of a loss."""
        reached = levels(values, TWENTIETHS).tolist()
        first = reached[:_QUARTER_PARTS]
        return cls(
            start=min(first),
            first_quarter=max(first),
            first_half=max(reached[:TENTHS]),
            best=min(reached[_QUARTER_PARTS:-_QUARTER_PARTS]),
            end=max(min(reached[-2:]), _jump_at_end(values[len(values) // QUARTERS :])),
        )

    @property
    def is_climb(self) -> bool:
        """Whether the loss ends far above its best level."""
        ratio = self.end / self.best
        if ratio >= _MIN_LARGE_CLIMB:
            return self.end >= self.first_quarter
        if ratio >= _MIN_CLIMB and self.end >= _MIN_RISE * self.first_quarter:
            return True
        is_late = self.starts_high and self.is_above_half(_MIN_LATE_RISE)
        return is_late and ratio >= _MIN_LATE_CLIMB

    @property
    def starts_high(self) -> bool:
        """Whether the loss began near its best level or above it."""
        return self.start >= HALF * self.best

    def is_above_half(self, ratio: float) -> bool:
        """Return True if the loss ends at this ratio to the highest level of its first half."""
        return self.end >= ratio * self.first_half


def _jump_at_end(values: np.ndarray) -> float:
    """Return the lowest value after a tenfold jump that lasts to the end, or 0 without one.

    Every value behind the jump is far above every value before it. The last tenth of the run may
    be mostly before it.
    """
    highest = np.maximum.accumulate(values)[:-CONTEXT_POINTS]
    lowest = np.minimum.accumulate(values[::-1])[::-1][1 : len(highest) + 1]
    jumps = np.flatnonzero(lowest >= TENFOLD * highest)
    return float(lowest[jumps[-1]]) if len(jumps) else 0.0


def _climb(series: Series) -> tuple[float, int, Series] | None:
    """Return the ratio of a loss's end to its best level, and the step where it began to climb.

    Losses with values below zero have no ratio. A regularizer grows with the weights, and a critic
    with what it measures, so that they climb only if they end far above their first half.
    """
    finite = series.finite()
    values = finite.values
    if len(values) < LEAST or values.min() < 0:
        return None
    level = _Levels.of(values)
    if level.best <= 0 or not level.is_climb:
        return None
    if not is_other_loss(series.column):
        may_climb = is_regularizer(series.column) or is_adversarial_loss(series.column)
        if not may_climb or not (level.starts_high and level.is_above_half(_MIN_CLIMB)):
            return None
    at = min(position_after(values <= _MIN_RISE * level.best), len(values) - 1)
    return level.end / level.best, int(finite.steps[at]), series
