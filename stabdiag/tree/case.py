"""The case that the questions examine, and the reply to a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

from stabdiag.model.findings import Scalar, Verdict
from stabdiag.model.frozen import frozen
from stabdiag.model.text import sigmas
from stabdiag.stats.quantiles import median
from stabdiag.stats.rise import Rise
from stabdiag.stats.shape import Spike
from stabdiag.stats.spikes import SpikeScan
from stabdiag.stats.standards import MIN_SAMPLE
from stabdiag.tree.comparable import CurriculumRamp, ObjectiveChange
from stabdiag.tree.measure import Measures, measure
from stabdiag.tree.recurring import RecurringSpikes
from stabdiag.tree.reward import Reward
from stabdiag.tree.run import Run


@frozen
class Reply:
    """The reply to a question: the verdict, one sentence, the numbers, the steps.

    ``branch`` names the edge to take where a verdict has more than one.
    """

    verdict: Verdict
    because: str
    branch: str | None = None
    measured: Mapping[str, Scalar] = field(default_factory=dict)
    steps: tuple[int, ...] = ()


def _reply(
    verdict: Verdict,
    because: str,
    *steps: int,
    branch: str | None = None,
    measured: Mapping[str, Scalar] | None = None,
) -> Reply:
    return Reply(
        verdict=verdict, because=because, branch=branch, measured=measured or {}, steps=steps
    )


yes = partial(_reply, Verdict.YES)
no = partial(_reply, Verdict.NO)
unknown = partial(_reply, Verdict.UNKNOWN)


@frozen
class Case(Run):
    """A run, and the context of its questions.

    ``focus`` is the spike of Q2.2 to Q2.4. ``before_nan`` is true if the history ends before a NaN.
    ``error_steps`` are the steps, in ascending order, where errors began before the NaN. A sound
    checkpoint precedes ``damage_start``.
    """

    answers: ClassVar[Mapping[str, Callable[[Any], Reply]]] = {}
    """Replacements for the default answers, by question."""

    stops_early: ClassVar[bool] = False
    """Whether the first section that finds something ends the walk."""

    focus: Spike | None = None
    before_nan: bool = False
    error_steps: tuple[int, ...] = ()
    damage_start: int | None = None

    def about(self, spike: Spike) -> Case:
        """Return the same case, focused on one spike; measurements are kept."""
        self.measures, self.causes  # noqa: B018 - computed once, shared by all spikes
        other = replace(self, focus=spike)
        # Copied in one step: another thread may be adding measurements.
        other.__dict__.update(self.__dict__.copy() | {"focus": spike})
        return other

    @cached_property
    def measures(self) -> Measures:
        """All measurements, taken on first use."""
        return measure(self)

    @property
    def negative_result(self) -> str:
        """What the tree looked for and did not find, in words."""
        if self.recurring is not None or self.scan.frequent_peaks is not None:
            return "no NaN, no spike other than those that recur, no lasting climb"
        if self.has_high_peaks:
            reach = f"single losses reach {sigmas(self.scan.largest)}"
            return f"no NaN, no spike separated from the noise ({reach}), no lasting climb"
        return "no NaN, no spike above the noise, no lasting climb"

    @property
    def scan(self) -> SpikeScan:
        """All spikes of the loss, including the climbs that §4 answers for."""
        return self.measures.scan

    @property
    def has_high_peaks(self) -> bool:
        """Whether the highest loss is far above its level and recovered, but is not a spike.

        The noise of the run reaches as high, or other losses do.
        """
        scan, x = self.scan, self.loss.values
        if scan.spikes or self.recurring is not None or self.reward is not None:
            return False
        if scan.largest <= min(scan.limit, self.limits.data.tail_sigma):
            return False
        after = x[scan.largest_at + 1 : scan.largest_at + 1 + MIN_SAMPLE]
        middle = (scan.largest_level + float(x[scan.largest_at])) / 2
        return not len(after) or median(after) < middle

    @property
    def reward(self) -> Reward | None:
        """The reward if the run maximizes one and it did not collapse."""
        return self.measures.reward

    @property
    def objective_changes(self) -> tuple[ObjectiveChange, ...]:
        """The lasting jumps that began where the data or the objective changed."""
        return self.measures.objective_changes

    @property
    def ramp(self) -> CurriculumRamp | None:
        """The setting that gradually made the task harder and raised the loss, if any."""
        return self.measures.ramp

    @property
    def spikes(self) -> tuple[Spike, ...]:
        """The spikes of §2, without climbs and jumps that end a climb."""
        return self.measures.spikes

    @property
    def recurring(self) -> RecurringSpikes | None:
        """The recurring spikes, which are judged as a group."""
        return self.measures.recurring

    @property
    def comparable_range(self) -> slice:
        """The positions of the losses where §4 looks for a climb."""
        return self.measures.comparable_range

    @property
    def rise(self) -> Rise | None:
        """The rise over ``comparable_range``."""
        return self.measures.rise
