"""The case of which the questions are asked, and what a question may reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

from stabdiag.model.findings import Scalar, Verdict
from stabdiag.model.frozen import frozen
from stabdiag.stats.quantiles import MIN_SAMPLE, median
from stabdiag.stats.rise import Rise
from stabdiag.stats.shape import Spike
from stabdiag.stats.spikes import SpikeScan
from stabdiag.tree.comparable import Ramp, Shift
from stabdiag.tree.measure import Measures, measure
from stabdiag.tree.recurring import RecurringSpikes
from stabdiag.tree.reward import Reward
from stabdiag.tree.run import Run


@frozen
class Reply:
    """What a question found: the verdict, one sentence, the numbers, the steps.

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
    """A run that questions are asked of.

    ``focus`` is the spike that Q2.2 to Q2.4 are about; ``before_nan`` says that the history is only
    the part before a NaN, and ``damaged`` the steps, rising, at which errors began before the NaN;
    a checkpoint that is sound lies before ``unsound_from``.
    """

    answers: ClassVar[Mapping[str, Callable[[Any], Reply]]] = {}
    """Questions that are answered otherwise."""

    stops_early: ClassVar[bool] = False
    """Whether the first section that finds something ends the walk."""

    focus: Spike | None = None
    before_nan: bool = False
    damaged: tuple[int, ...] = ()
    unsound_from: int | None = None

    def about(self, spike: Spike) -> Case:
        """Return the same case about one spike; what has been measured is kept."""
        self.measures, self.causes  # noqa: B018 - those of the run, which all spikes share
        other = replace(self, focus=spike)
        # Copied at once: another thread may be taking measurements meanwhile.
        other.__dict__.update(self.__dict__.copy() | {"focus": spike})
        return other

    @cached_property
    def measures(self) -> Measures:
        """All measurements, taken in order when the first of them is asked for."""
        return measure(self)

    @property
    def none_of(self) -> str:
        """What there is none of in a run in which nothing was found."""
        if self.recurring is not None:
            return "no NaN, no spike other than those that recur, no lasting climb"
        if self.has_high_single:
            return "no NaN, no spike separated from the noise, no lasting climb"
        return "no NaN, no spike above the noise, no lasting climb"

    @property
    def scan(self) -> SpikeScan:
        """All spikes of the loss, including the climbs that §4 answers for."""
        return self.measures.scan

    @property
    def has_high_single(self) -> bool:
        """Whether the highest single loss came back, and is beyond what is usual, but no spike.

        The noise of the run may reach as high, or other losses do.
        """
        scan, x = self.scan, self.loss.values
        if scan.spikes or self.recurring is not None or self.reward is not None:
            return False
        if scan.largest <= min(scan.limit, self.limits.data.tail_sigma):
            return False
        after = x[scan.largest_at + 1 : scan.largest_at + 1 + MIN_SAMPLE]
        level = median(x[max(scan.largest_at - self.spike_window, 0) : scan.largest_at])
        return not len(after) or median(after) < (level + float(x[scan.largest_at])) / 2

    @property
    def reward(self) -> Reward | None:
        """The reward, if the run is trained for one and it holds: then the loss says little."""
        return self.measures.reward

    @property
    def shifts(self) -> tuple[Shift, ...]:
        """The lasting jumps that began where what the loss is measured on changed."""
        return self.measures.shifts

    @property
    def ramp(self) -> Ramp | None:
        """What the loss is measured on, if it got harder by and by and the loss rose with it."""
        return self.measures.ramp

    @property
    def spikes(self) -> tuple[Spike, ...]:
        """The spikes that §2 answers for: climbs, and jumps that end a climb, are left out."""
        return self.measures.spikes

    @property
    def recurring(self) -> RecurringSpikes | None:
        """The spikes that recur, which are judged together."""
        return self.measures.recurring

    @property
    def settled(self) -> slice:
        """The losses, as positions, in which §4 looks for a climb."""
        return self.measures.settled

    @property
    def rise(self) -> Rise | None:
        """The rise of the settled losses."""
        return self.measures.rise
