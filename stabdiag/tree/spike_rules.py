"""The rules that give a spike to §2, to a climb, or to no section."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from stabdiag.model.frozen import frozen
from stabdiag.model.roles.loss_kinds import LossKind
from stabdiag.stats.shape import Spike, rise_points
from stabdiag.stats.standards import (
    MIN_CONSECUTIVE,
)
from stabdiag.tree.comparable import CurriculumRamp, ObjectiveChange
from stabdiag.tree.reward import find_collapsed_reward
from stabdiag.tree.rises import is_end_of_climb, is_start_of_climb
from stabdiag.tree.rules import EventVerdict, Rule, classify
from stabdiag.tree.run import Run


@frozen
class SpikeContext:
    """A spike of a run, and the facts that may give it to another section or no section.

    ``recovered`` are the recovered spikes of §2, whose heights do not count as a climb.
    """

    run: Run
    spike: Spike
    objective_changes: Sequence[ObjectiveChange]
    ramp: CurriculumRamp | None
    recovered: Sequence[Spike] = ()

    @property
    def has_cause(self) -> bool:
        """Whether the spike begins just after a logged cause."""
        return bool(self.run.after_logged_cause[self.spike.onset])

    @property
    def is_before_collapse(self) -> bool:
        """Whether the reward, which collapsed later, was still rising at the spike."""
        collapsed = find_collapsed_reward(self.run)
        return collapsed is not None and self.run.at(self.spike.end) < collapsed.best_step

    @property
    def is_expected(self) -> bool:
        """Whether the data or the objective changed at the spike, at once or gradually."""
        if any(change.spike == self.spike for change in self.objective_changes):
            return True
        return self.ramp is not None and self.ramp.contains(self.spike)

    @property
    def is_adversarial(self) -> bool:
        """Whether the loss is adversarial, so that its level may jump, and did not blow up."""
        kind = self.run.history.loss_kind
        return kind is LossKind.ADVERSARIAL and not self.spike.is_blowup

    @property
    def is_adversarial_swing(self) -> bool:
        """Whether only a loss or two of an adversarial network are high."""
        return self.is_adversarial and self.spike.end - self.spike.onset < MIN_CONSECUTIVE

    @property
    def is_warm_restart(self) -> bool:
        """Whether the schedule just restarted the rate, and the loss was as high in the last cycle.

        The first cycle begins with the log.
        """
        run, x = self.run, self.run.loss
        onset, peak = run.at(self.spike.onset), run.at(self.spike.peak)
        restarts = run.causes.warm_restarts
        at = int(np.searchsorted(restarts, onset, side="right")) - 1
        if at < 0 or onset - int(restarts[at]) > run.lookback:
            return False
        begin = int(restarts[at - 1]) if at else int(x.steps[0])
        before = x.between(begin, begin + peak - int(restarts[at])).values
        return len(before) > 0 and float(x.values[self.spike.peak]) <= float(before.max())

    @property
    def is_slow(self) -> bool:
        """Whether the loss rose over more than half of the recovery window."""
        run = self.run
        longest = run.points(run.limits.spike.recovery_steps / 2, MIN_CONSECUTIVE)
        return rise_points(run.loss.values, self.spike.onset, run.reach) > longest

    @property
    def ends_climb(self) -> bool:
        """Whether the loss was already climbing before it jumped."""
        return is_end_of_climb(self.run, self.spike, self.recovered, self._comparable_start)

    @property
    def starts_climb(self) -> bool:
        """Whether the jump is the first part of a sustained increase."""
        return is_start_of_climb(self.run, self.spike, self.recovered, self._comparable_start)

    @property
    def _comparable_start(self) -> int:
        """The first position whose loss is comparable with the loss at the spike."""
        onset = self.spike.onset
        changes = self.objective_changes
        ends = (change.spike.end for change in changes if change.spike.onset < onset)
        return min(max(ends, default=0), onset)


# Rows about a single spike.
SPIKE_RULES: Final[tuple[Rule[SpikeContext], ...]] = (
    Rule(
        name="before a collapse",
        purpose="the loss of a policy may jump while its reward rises",
        applies=lambda c: c.is_before_collapse,
        verdict=EventVerdict.EXPECTED,
    ),
    Rule(
        name="warm restart",
        purpose="a schedule with restarts raises the loss with the rate at each of them",
        applies=lambda c: c.is_warm_restart,
        verdict=EventVerdict.EXPECTED,
    ),
    Rule(
        name="adversarial swing",
        purpose="a single high loss of one of two networks that train against each other is usual",
        applies=lambda c: c.is_adversarial_swing and not c.has_cause,
        verdict=EventVerdict.EXPECTED,
    ),
    Rule(
        name="recovered or caused",
        purpose="a recovered spike, and one after a logged cause, is not a climb",
        applies=lambda c: bool(c.spike.recovered) or c.has_cause,
        verdict=EventVerdict.SPIKE,
    ),
    Rule(
        name="changed objective",
        purpose="a lasting jump where the data or the objective changed is not a fault",
        applies=lambda c: c.is_expected,
        verdict=EventVerdict.EXPECTED,
    ),
    Rule(
        name="adversarial loss",
        purpose="the level of an adversarial loss shifts as both sides learn",
        applies=lambda c: c.is_adversarial,
        verdict=EventVerdict.EXPECTED,
    ),
    Rule(
        name="slow rise",
        purpose="a loss that takes long to rise and stays up climbs",
        applies=lambda c: c.is_slow,
        verdict=EventVerdict.CLIMB,
    ),
)

# Rows about the first jump that did not recover; later ones share its verdict.
JUMP_RULES: Final[tuple[Rule[SpikeContext], ...]] = (
    Rule(
        name="climbs before",
        purpose="a jump of a loss that was climbing already ends the climb",
        applies=lambda c: c.ends_climb,
        verdict=EventVerdict.CLIMB,
    ),
    Rule(
        name="climbs on",
        purpose="a jump after which the loss continues to twice as high begins a climb",
        applies=lambda c: not c.has_cause and c.starts_climb,
        verdict=EventVerdict.CLIMB,
    ),
)


def spikes_of_section_2(
    run: Run,
    candidates: Sequence[Spike],
    objective_changes: Sequence[ObjectiveChange],
    ramp: CurriculumRamp | None,
) -> tuple[Spike, ...]:
    """Return the spikes that belong to §2; climbs and expected jumps are removed."""

    def make_context(spike: Spike, recovered: Sequence[Spike] = ()) -> SpikeContext:
        return SpikeContext(
            run=run,
            spike=spike,
            objective_changes=objective_changes,
            ramp=ramp,
            recovered=recovered,
        )

    spikes = [
        spike
        for spike in candidates
        if classify(SPIKE_RULES, make_context(spike)) is EventVerdict.SPIKE
    ]
    recovered = [spike for spike in spikes if spike.recovered]
    jump = next((spike for spike in spikes if not spike.recovered), None)
    if (
        jump is not None
        and classify(JUMP_RULES, make_context(jump, recovered)) is EventVerdict.CLIMB
    ):
        return tuple(recovered)
    return tuple(spikes)
