"""What is measured of a run, in order: noise, comparable segments, spikes, rise."""

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
from stabdiag.tree.comparable import Ramp, Shift, ramp_of, shifts_of
from stabdiag.tree.recurring import RecurringSpikes, find_recurring
from stabdiag.tree.reward import Reward, held_reward, lost_reward
from stabdiag.tree.rises import has_rising_lr, is_clear, is_material, rise_of
from stabdiag.tree.run import Run


@frozen
class Measures:
    """What was measured of a run.

    ``scan`` has every spike of the loss and how far its noise reaches; ``reward`` is the reward
    that holds, ``shifts`` and ``ramp`` are where the loss came to be measured on something else, at
    once or by and by; ``spikes`` are those that §2 answers for, and ``recurring`` those that are
    judged together; ``settled`` are the positions of the losses in which §4 looks for a climb, and
    ``rise`` is what it finds there.
    """

    scan: SpikeScan
    reward: Reward | None = None
    shifts: tuple[Shift, ...] = ()
    ramp: Ramp | None = None
    spikes: tuple[Spike, ...]
    recurring: RecurringSpikes | None = None
    settled: slice
    rise: Rise | None


def measure(run: Run) -> Measures:
    """Measure a run: each step is a function of what stands before it."""
    limits = run.limits.spike
    scan = find_spikes(
        run.loss.values,
        run.reach,
        limits.sigma,
        limits.false_alarm,
        limits.min_rise,
        atypical=run.on_repeats,
        after_logged_cause=run.after_logged_cause,
        of_means=run.history.counts_epochs or is_evaluation(run.loss.column),
    )
    scan = _judge_by_steps(run, scan)
    reward = held_reward(run)
    shifts = shifts_of(run, scan.spikes)
    ramp = ramp_of(run, scan.spikes, shifts)
    spikes = () if reward is not None else _spikes(run, scan.spikes, shifts, ramp)
    recurring = None
    if reward is None and lost_reward(run) is None:
        recurring = find_recurring(run, scan.group, scan.spikes)
    singles = spikes if recurring is None else _without_recurring(run, spikes, scan)
    settled = _settled(run, spikes, shifts, ramp)
    return Measures(
        scan=scan,
        reward=reward,
        shifts=shifts,
        ramp=ramp,
        spikes=singles,
        recurring=recurring,
        settled=settled,
        rise=rise_of(run, settled, spikes),
    )


def _without_recurring(run: Run, spikes: Sequence[Spike], scan: SpikeScan) -> tuple[Spike, ...]:
    """Return the spikes that are judged one by one: those that stayed up or have a logged cause."""

    def is_recurring(spike: Spike) -> bool:
        belongs = scan.group is not None and scan.group.has(spike.peak)
        return bool(spike.recovered) and belongs and not run.after_logged_cause[spike.onset]

    return tuple(spike for spike in spikes if not is_recurring(spike))


def _judge_by_steps(run: Run, scan: SpikeScan) -> SpikeScan:
    """Return the scan with spikes that had their time to recover in steps, if not in records.

    Where records are left out of a log, fewer follow the onset than the time to recover has steps.
    A loss that is still high after that time did not recover.
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


def jumps_that_stay(spikes: Sequence[Spike], shifts: Sequence[Shift]) -> list[Spike]:
    """Return the jumps that stayed up, or may stay, whatever they are owed to."""
    stayed = [spike for spike in spikes if not spike.recovered]
    return sorted((*stayed, *(one.spike for one in shifts)), key=lambda one: one.onset)


def _spikes(
    run: Run, found: Sequence[Spike], shifts: Sequence[Shift], ramp: Ramp | None
) -> tuple[Spike, ...]:
    """Return the spikes that §2 answers for.

    A loss that rises slowly and stays up is a climb, and §4's, unless a logged cause came just
    before. So is a jump of a loss that was climbing already: it is the climb's end, not its cause.
    The loss of one of two opponents may shift, and so may one that is measured on something else.
    """
    caused, shifted = run.after_logged_cause, [shift.spike for shift in shifts]
    lost = lost_reward(run)
    longest = run.points(run.limits.spike.recovery_steps / 2, MIN_CONSECUTIVE)

    def is_ours(spike: Spike) -> bool:
        # Up to its best level, the reward held.
        if lost is not None and run.at(spike.end) < lost.best_at:
            return False
        if spike.recovered or caused[spike.onset]:
            return True
        if spike in shifted or (ramp is not None and ramp.holds(spike)):
            return False
        return spike.is_blowup or run.history.loss_kind is not LossKind.ADVERSARIAL

    def is_sudden(spike: Spike) -> bool:
        took = rise_points(run.loss.values, spike.onset, run.reach)
        return bool(spike.recovered or caused[spike.onset] or took <= longest)

    ours = [spike for spike in found if is_ours(spike) and is_sudden(spike)]
    stayed = next((spike for spike in ours if not spike.recovered), None)
    if stayed is not None and (
        _climbs_before(run, stayed, ours, shifts)
        or (not caused[stayed.onset] and _climbs_on(run, stayed, ours, shifts))
    ):
        ours = [spike for spike in ours if spike.recovered]
    return tuple(ours)


def _settled(
    run: Run, spikes: Sequence[Spike], shifts: Sequence[Shift], ramp: Ramp | None
) -> slice:
    """Return the losses, as positions, in which §4 looks for a climb.

    A loss that jumped and stayed up is §2's, or is measured on something else since: the part after
    the jump counts if it is long enough, else the part before; of several where the loss came to be
    measured on something else, the last that is. Nor are losses comparable while what they are
    measured on gets harder.
    """
    begin, end = 0 if ramp is None else ramp.until, len(run.loss)
    stayed = [spike for spike in jumps_that_stay(spikes, shifts) if spike.onset < end]
    if not stayed:
        return slice(begin, end)
    shifted = [shift.spike for shift in shifts]

    def after(jump: Spike) -> int:
        # What is measured on something else needs no time to come to rest, and may break meanwhile.
        return max(jump.onset if jump in shifted else jump.end, begin)

    if end - after(stayed[-1]) >= run.rise_window:
        return slice(after(stayed[-1]), end)
    while len(stayed) > 1 and stayed[-2] in shifted:
        stop = stayed.pop().onset
        if stop - after(stayed[-1]) >= run.rise_window:
            return slice(after(stayed[-1]), stop)
    return slice(begin, max(stayed[0].onset, begin))


def _comparable_from(position: int, shifts: Sequence[Shift]) -> int:
    """Return from which position on losses can be compared with the one at a position."""
    ends = (shift.spike.end for shift in shifts if shift.spike.onset < position)
    return min(max(ends, default=0), position)


def _climbs_before(run: Run, jump: Spike, spikes: Sequence[Spike], shifts: Sequence[Shift]) -> bool:
    """Tell whether the loss was already climbing materially before it jumped.

    Where the learning rate rose as long as the loss did, and beyond where it had been, the two have
    a cause in common: then the climb needs no test, however small it is beside the jump.
    """
    part = slice(_comparable_from(jump.onset, shifts), jump.onset)
    rise = rise_of(run, part, spikes)
    if rise is None or not is_material(run, rise):
        return False
    explains = rise.amount > run.limits.divergence.material * jump.height
    return has_rising_lr(run, rise) or (explains and is_clear(run, rise))


def _climbs_on(run: Run, jump: Spike, spikes: Sequence[Spike], shifts: Sequence[Shift]) -> bool:
    """Tell whether a jump is only the beginning of a larger climb.

    Labels that rot, or data that get harder by and by, tear the loss up in single bursts at first.
    A loss that stands still, or comes down, before it rises again has another trouble then. One
    that multiplies time and again to the end of a log too short to test for spikes diverges.
    """
    span = run.points(2 * run.limits.spike.recovery_steps, MIN_TREND_POINTS)
    after = run.loss.values[jump.onset :]
    if len(after) >= 2 * span:
        levels = medians(after[: len(after) // span * span].reshape(-1, span)) - jump.base
        if levels[1] <= MIN_LEVEL_RATIO * max(levels[0], 0.0):
            return False
    elif len(run.loss) >= run.fewest_for_spikes or not multiplies(run.loss.values, jump):
        return False
    part = slice(_comparable_from(jump.onset, shifts), len(run.loss))
    rise = rise_of(run, part, spikes)
    return rise is not None and is_clear(run, rise)
