"""The measurements of a run, in order: noise, comparable segments, spikes, rise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stabdiag.model.frozen import frozen
from stabdiag.stats.rise import Rise
from stabdiag.stats.shape import Spike
from stabdiag.stats.spikes import SpikeScan
from stabdiag.stats.standards import MIN_CONSECUTIVE
from stabdiag.tree.classify import find_spikes
from stabdiag.tree.comparable import (
    CurriculumRamp,
    ObjectiveChange,
    find_curriculum_ramp,
    find_objective_changes,
)
from stabdiag.tree.recurring import RecurringSpikes, find_periodic, find_recurring
from stabdiag.tree.reward import Reward, find_collapsed_reward, find_maintained_reward
from stabdiag.tree.rises import measure_rise
from stabdiag.tree.run import Run
from stabdiag.tree.spike_rules import spikes_of_section_2


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
        of_means=run.history.counts_epochs or run.has_only_evaluations,
        average_sigma=0.0 if run.average is None else run.average.sigma,
    )
    scan = _judge_by_steps(run, scan)
    reward = find_maintained_reward(run)
    objective_changes = find_objective_changes(run, scan.spikes)
    ramp = find_curriculum_ramp(run, scan.spikes, objective_changes)
    spikes: tuple[Spike, ...] = ()
    if reward is None:
        spikes = spikes_of_section_2(run, scan.spikes, objective_changes, ramp)
    recurring = None
    if reward is None and find_collapsed_reward(run) is None:
        recurring = find_recurring(run, scan.group, scan.spikes)
        if scan.high_peaks is not None:
            recurring = find_periodic(run, scan.high_peaks)
    singles = spikes if recurring is None else _without_recurring(run, spikes, scan, recurring)
    comparable = _find_comparable_range(run, spikes, objective_changes, ramp)
    return Measures(
        scan=scan,
        reward=reward,
        objective_changes=objective_changes,
        ramp=ramp,
        spikes=singles,
        recurring=recurring,
        comparable_range=comparable,
        rise=measure_rise(run, comparable, spikes),
    )


def _without_recurring(
    run: Run, spikes: Sequence[Spike], scan: SpikeScan, recurring: RecurringSpikes
) -> tuple[Spike, ...]:
    """Return the spikes judged individually: unrecovered ones, and those with a logged cause."""

    def is_recurring(spike: Spike) -> bool:
        belongs = spike.peak in recurring.positions
        belongs |= scan.group is not None and scan.group.has(spike.peak)
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
    # After a change of the objective the loss counts immediately, even while it settles, unless it
    # is a running mean.
    untils = {change.spike.onset: change.until for change in objective_changes}

    def jump_end(jump: Spike) -> int:
        return max(untils[jump.onset] if jump in expected else jump.end, begin)

    if end - jump_end(stayed[-1]) >= run.rise_window:
        return slice(jump_end(stayed[-1]), end)
    while len(stayed) > 1 and stayed[-2] in expected:
        stop = stayed.pop().onset
        if stop - jump_end(stayed[-1]) >= run.rise_window:
            return slice(jump_end(stayed[-1]), stop)
    return slice(begin, max(stayed[0].onset, begin))
