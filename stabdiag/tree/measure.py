"""The measurements of a run, in order: noise, comparable segments, spikes, rise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stabdiag.model.frozen import frozen
from stabdiag.model.roles.loss_kinds import LossKind
from stabdiag.model.roles.names import is_evaluation
from stabdiag.stats.abrupt import MIN_LEVEL_RATIO, multiplies
from stabdiag.stats.levels import MIN_CONSECUTIVE
from stabdiag.stats.quantiles import MIN_TREND_POINTS, medians
from stabdiag.stats.rise import Rise
from stabdiag.stats.shape import Spike, rise_points
from stabdiag.stats.spikes import SpikeScan, find_spikes
from stabdiag.tree.comparable import (
    CurriculumRamp,
    ObjectiveChange,
    find_curriculum_ramp,
    find_objective_changes,
)
from stabdiag.tree.recurring import RecurringSpikes, find_recurring
from stabdiag.tree.reward import Reward, find_collapsed_reward, find_maintained_reward
from stabdiag.tree.rises import has_rising_lr, is_clear, is_material, rise_of
from stabdiag.tree.run import Run


@frozen
class Measures:
    """The measurements of a run.

    ``scan`` has all spikes of the loss and the limit of its noise. ``reward`` is a reward that did
    not collapse. ``objective_changes`` and ``ramp`` are sudden and gradual changes of the data or
    the objective. ``spikes`` belong to §2, and ``recurring`` ones are judged as a group. §4 looks
    for a climb within the positions ``comparable_range`` and finds ``rise`` there.
    """

    scan: SpikeScan
    reward: Reward | None = None
    objective_changes: tuple[ObjectiveChange, ...] = ()
    ramp: CurriculumRamp | None = None
    spikes: tuple[Spike, ...]
    recurring: RecurringSpikes | None = None
    comparable_range: slice
    rise: Rise | None


def measure(run: Run) -> Measures:
    """Measure a run; each measurement depends only on earlier ones."""
    limits = run.limits.spike
    scan = find_spikes(
        run.loss.values,
        run.reach,
        limits.sigma,
        limits.false_alarm,
        limits.min_rise,
        atypical=run.duplicate_batch_mask,
        after_logged_cause=run.after_logged_cause,
        of_means=run.history.counts_epochs or is_evaluation(run.loss.column),
    )
    scan = _judge_by_steps(run, scan)
    reward = find_maintained_reward(run)
    objective_changes = find_objective_changes(run, scan.spikes)
    ramp = find_curriculum_ramp(run, scan.spikes, objective_changes)
    spikes = () if reward is not None else _spikes(run, scan.spikes, objective_changes, ramp)
    recurring = None
    if reward is None and find_collapsed_reward(run) is None:
        recurring = find_recurring(run, scan.group, scan.spikes)
    singles = spikes if recurring is None else _without_recurring(run, spikes, scan)
    comparable = _find_comparable_range(run, spikes, objective_changes, ramp)
    return Measures(
        scan=scan,
        reward=reward,
        objective_changes=objective_changes,
        ramp=ramp,
        spikes=singles,
        recurring=recurring,
        comparable_range=comparable,
        rise=rise_of(run, comparable, spikes),
    )


def _without_recurring(run: Run, spikes: Sequence[Spike], scan: SpikeScan) -> tuple[Spike, ...]:
    """Return the spikes judged individually: unrecovered ones, and those with a logged cause."""

    def is_recurring(spike: Spike) -> bool:
        belongs = scan.group is not None and scan.group.has(spike.peak)
        return bool(spike.recovered) and belongs and not run.after_logged_cause[spike.onset]

    return tuple(spike for spike in spikes if not is_recurring(spike))


def _judge_by_steps(run: Run, scan: SpikeScan) -> SpikeScan:
    """Return the scan, with unresolved spikes judged by steps instead of records.

    If a log skips records, fewer records than recovery steps follow the onset. A loss that is still
    high after the recovery steps did not recover.
    """

    def judge(spike: Spike) -> Spike:
        after = run.loss.values[spike.onset + 1 :]
        elapsed = int(run.loss.steps[-1]) - run.at(spike.onset)
        if (
            spike.recovered is not None
            or len(after) < MIN_CONSECUTIVE
            or elapsed < run.recovery_steps
        ):
            return spike
        bound = spike.base + run.limits.spike.recovery_sigma * spike.sigma
        is_high = bool((after[-MIN_CONSECUTIVE:] > bound).all())
        return replace(spike, recovered=False) if is_high else spike

    return replace(
        scan, spikes=tuple(map(judge, scan.spikes)), abrupt=tuple(map(judge, scan.abrupt))
    )


def unrecovered_jumps(
    spikes: Sequence[Spike], objective_changes: Sequence[ObjectiveChange]
) -> list[Spike]:
    """Return the jumps that did not (yet) recover, regardless of cause."""
    stayed = [spike for spike in spikes if not spike.recovered]
    return sorted(
        (*stayed, *(change.spike for change in objective_changes)), key=lambda spike: spike.onset
    )


def _spikes(
    run: Run,
    candidates: Sequence[Spike],
    objective_changes: Sequence[ObjectiveChange],
    ramp: CurriculumRamp | None,
) -> tuple[Spike, ...]:
    """Return the spikes that belong to §2.

    A loss that rises slowly and stays up is a climb and belongs to §4, unless a logged cause
    precedes it. A jump at the end of a climb also belongs to §4. Jumps of an adversarial loss, or
    at a change of the data or the objective, are not spikes.
    """
    has_cause = run.after_logged_cause
    expected = [change.spike for change in objective_changes]
    collapsed = find_collapsed_reward(run)
    longest = run.points(run.limits.spike.recovery_steps / 2, MIN_CONSECUTIVE)

    def belongs_to_section_2(spike: Spike) -> bool:
        # The reward was still rising here.
        if collapsed is not None and run.at(spike.end) < collapsed.best_step:
            return False
        if spike.recovered or has_cause[spike.onset]:
            return True
        if spike in expected or (ramp is not None and ramp.contains(spike)):
            return False
        return spike.is_blowup or run.history.loss_kind is not LossKind.ADVERSARIAL

    def is_sudden(spike: Spike) -> bool:
        took = rise_points(run.loss.values, spike.onset, run.reach)
        return bool(spike.recovered or has_cause[spike.onset] or took <= longest)

    spikes = [spike for spike in candidates if belongs_to_section_2(spike) and is_sudden(spike)]
    stayed = next((spike for spike in spikes if not spike.recovered), None)
    if stayed is not None and (
        _is_end_of_climb(run, stayed, spikes, objective_changes)
        or (
            not has_cause[stayed.onset]
            and _is_start_of_climb(run, stayed, spikes, objective_changes)
        )
    ):
        spikes = [spike for spike in spikes if spike.recovered]
    return tuple(spikes)


def _find_comparable_range(
    run: Run,
    spikes: Sequence[Spike],
    objective_changes: Sequence[ObjectiveChange],
    ramp: CurriculumRamp | None,
) -> slice:
    """Return the positions of the losses where §4 looks for a climb.

    A lasting jump belongs to §2 or marks a change of the objective. The part after it is used if it
    is long enough, else the part before it. If the objective changed several times, the last part
    that is long enough is used. Losses during a gradual change are not comparable either.
    """
    begin, end = 0 if ramp is None else ramp.until, len(run.loss)
    stayed = [spike for spike in unrecovered_jumps(spikes, objective_changes) if spike.onset < end]
    if not stayed:
        return slice(begin, end)
    expected = [change.spike for change in objective_changes]

    def end_of(jump: Spike) -> int:
        # After a change of the objective the loss counts immediately, even while it settles.
        return max(jump.onset if jump in expected else jump.end, begin)

    if end - end_of(stayed[-1]) >= run.rise_window:
        return slice(end_of(stayed[-1]), end)
    while len(stayed) > 1 and stayed[-2] in expected:
        stop = stayed.pop().onset
        if stop - end_of(stayed[-1]) >= run.rise_window:
            return slice(end_of(stayed[-1]), stop)
    return slice(begin, max(stayed[0].onset, begin))


def _comparable_start(position: int, objective_changes: Sequence[ObjectiveChange]) -> int:
    """Return the first position whose loss is comparable with the loss at a position."""
    ends = (change.spike.end for change in objective_changes if change.spike.onset < position)
    return min(max(ends, default=0), position)


def _is_end_of_climb(
    run: Run, jump: Spike, spikes: Sequence[Spike], objective_changes: Sequence[ObjectiveChange]
) -> bool:
    """Return True if the loss was already climbing materially before it jumped.

    If the learning rate rose to a new maximum over the same steps, it explains both the climb and
    the jump. Then a climb of any material size counts, and needs no significance test.
    """
    part = slice(_comparable_start(jump.onset, objective_changes), jump.onset)
    rise = rise_of(run, part, spikes)
    if rise is None or not is_material(run, rise):
        return False
    explains = rise.amount > run.limits.divergence.material * jump.height
    return has_rising_lr(run, rise) or (explains and is_clear(run, rise))


def _is_start_of_climb(
    run: Run, jump: Spike, spikes: Sequence[Spike], objective_changes: Sequence[ObjectiveChange]
) -> bool:
    """Return True if a jump is the first part of a sustained increase.

    Growing label noise or gradually harder data first shows as isolated spikes. If the loss
    flattens or falls before it rises again, the second rise has its own cause. In a log too short
    to test for spikes, a loss that keeps multiplying until the end counts as divergence.
    """
    span = run.points(2 * run.limits.spike.recovery_steps, MIN_TREND_POINTS)
    after = run.loss.values[jump.onset :]
    if len(after) >= 2 * span:
        levels = medians(after[: len(after) // span * span].reshape(-1, span)) - jump.base
        if levels[1] <= MIN_LEVEL_RATIO * max(levels[0], 0.0):
            return False
    elif len(run.loss) >= run.min_losses_for_spikes or not multiplies(run.loss.values, jump):
        return False
    part = slice(_comparable_start(jump.onset, objective_changes), len(run.loss))
    rise = rise_of(run, part, spikes)
    return rise is not None and is_clear(run, rise)
