"""A run: one history with its manifest and limits, and how wide the tree's windows are in it."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from stabdiag.model.arrays import Mask
from stabdiag.model.findings import RollingBaseline
from stabdiag.model.frozen import frozen
from stabdiag.model.history import History, Series
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest
from stabdiag.model.manifest.keys import is_pretrained
from stabdiag.model.roles.loss_kinds import LossKind
from stabdiag.model.text import num
from stabdiag.stats.levels import CONTEXT_POINTS
from stabdiag.stats.quantiles import MIN_TREND_POINTS, usual_gap
from stabdiag.stats.rolling import trailing_moments
from stabdiag.stats.shape import SearchWindows
from stabdiag.stats.trend import is_running_sum
from stabdiag.tree.causes import Causes


@frozen
class Run:
    """What is measured: nothing here depends on what a measurement has found."""

    history: History
    manifest: Manifest
    limits: Limits

    @cached_property
    def loss(self) -> Series:
        """The finite losses; none where no loss was logged."""
        return self.history.finite("loss")

    @cached_property
    def loss_kind(self) -> LossKind | None:
        """What the loss is if it may rise while the run learns; None if it may not."""
        if self.history.loss_kind is not None:
            return self.history.loss_kind
        if self._has_short_reward():
            return LossKind.POLICY
        return LossKind.RUNNING_SUM if self._is_running_sum() else None

    def _has_short_reward(self) -> bool:
        """Return True if a policy is trained for a reward that is too short to judge it by."""
        is_policy = any(map(self.history.has, ("policy_kl", "policy_entropy", "clip_fraction")))
        rewards = len(self.history.finite("reward"))
        return is_policy and 0 < rewards < self.limits.divergence.min_points

    def _is_running_sum(self) -> bool:
        """Tell whether each loss adds to the last: from 0 on, or while evaluations are better."""
        x, held = self.loss.values, self.history.finite("eval_loss").values
        if len(x) < MIN_TREND_POINTS or x[0] <= 0 or not is_running_sum(x):
            return False
        if len(held) > CONTEXT_POINTS and held[1:].max() < held[0]:
            return True
        return len(x) >= self.limits.divergence.min_points and x[0] <= 2 * np.diff(x).max()

    @cached_property
    def names_pretrained_model(self) -> bool | None:
        """Whether the settings name a pretrained model to start from; None if they do not say."""
        return is_pretrained(self.manifest.others(self.history.config))

    @property
    def unit(self) -> str:
        """What a step of the log is called: ``step``, or ``epoch``."""
        return self.history.unit

    def place_of(self, step: int) -> str:
        """Return a step in words; of a record that has none but its number, with the epoch."""
        epochs = self.history.finite("epoch").until(step).values
        if not self.history.counts_records:
            return f"{self.unit} {step}"
        return f"record {step}" + (f" (epoch {num(float(epochs[-1]))})" if len(epochs) else "")

    def numbered(self, step: int) -> str:
        """Return a step's number; of a record that has none in words: nobody could look it up."""
        return self.place_of(step) if self.history.counts_records else str(step)

    def at(self, position: int) -> int:
        """Return the step of the loss at a position."""
        return int(self.loss.steps[min(position, len(self.loss) - 1)])

    @cached_property
    def stride(self) -> float:
        """The usual number of steps between two logged losses."""
        return usual_gap(self.loss.steps)

    def points(self, steps: float, least: int = 1) -> int:
        """Return how many logged losses a window of this many steps holds, at least ``least``."""
        return least if self.by_epoch else max(round(steps / self.stride), least)

    @cached_property
    def by_epoch(self) -> bool:
        """Whether the windows are counted in epochs: an epoch is more steps than any of them.

        Of so many epochs that the longest window would fit, the batch may be the whole data.
        """
        few = len(self.loss) < self.limits.divergence.window
        return few and self.history.counts_epochs

    @cached_property
    def spike_window(self) -> int:
        """The window of §2's rolling mean, in logged points."""
        return self.points(self.limits.spike.window, self.limits.spike.min_points)

    @cached_property
    def recovery_steps(self) -> int:
        """How many steps a spike has to recover; on a sparse log more than the limit."""
        least = round(MIN_TREND_POINTS * self.stride)
        return least if self.by_epoch else max(self.limits.spike.recovery_steps, least)

    @property
    def lookback(self) -> float:
        """How many steps before a spike its cause is looked for."""
        return self.stride if self.by_epoch else max(self.limits.spike.lookback, self.stride)

    @property
    def fewest_for_spikes(self) -> int:
        """The number of losses it takes to test two of them against a baseline."""
        return self.limits.spike.min_points + 2

    @cached_property
    def rise_window(self) -> int:
        """The window of §4 in logged points; on a short log, all of it."""
        wanted = self.points(self.limits.divergence.window, self.limits.divergence.min_points)
        return min(wanted, max(len(self.loss), MIN_TREND_POINTS))

    @cached_property
    def reach(self) -> SearchWindows:
        """How far §2 looks, in logged points."""
        limits = self.limits.spike
        return SearchWindows(
            window=self.spike_window,
            least=limits.min_points,
            recovery=self.points(limits.recovery_steps, MIN_TREND_POINTS),
            recovery_sigma=limits.recovery_sigma,
        )

    @property
    def baseline_window(self) -> int:
        """The same window where a log shorter than two of them is tested with half of itself."""
        return min(self.spike_window, max(len(self.loss) // 2, self.limits.spike.min_points))

    @cached_property
    def baseline(self) -> RollingBaseline:
        """The rolling mean and deviation that the original rule of Q2.1 holds each loss against."""
        window = self.baseline_window
        mean, sigma = trailing_moments(self.loss.values, window)
        above = self.loss.values > mean + self.limits.spike.sigma * sigma
        return RollingBaseline(
            window=window, steps=self.loss.steps, mean=mean, deviation=sigma, above=above
        )

    @cached_property
    def causes(self) -> Causes:
        """What the log tells of the causes that spikes have."""
        clip = self.manifest.grad_clip
        return Causes(history=self.history, limits=self.limits.spike, grad_clip=clip)

    def jumps_as_usual(self, step: int) -> bool:
        """Tell whether a jump of the learning rate at a step is one of many: its schedule's."""
        return step not in self.causes.lr_jumps

    @cached_property
    def after_logged_cause(self) -> Mask:
        """The losses just after a jump of the learning rate or a repeated batch, as a mask."""
        steps = self.causes.lr_jumps
        if self.causes.repeated is not None:
            steps = np.union1d(steps, self.causes.repeated)
        if not len(steps):
            return np.zeros(len(self.loss), dtype=bool)
        last = steps[np.maximum(np.searchsorted(steps, self.loss.steps, side="right") - 1, 0)]
        since = self.loss.steps - last
        return (since >= 0) & (since <= self.lookback)

    @cached_property
    def duplicate_batch_mask(self) -> Mask | None:
        """The losses of batches that had been seen shortly before, as a mask, or None.

        A model overfits a batch that is stuck in the loader: the loss falls, and what it then jumps
        back to is its real level.
        """
        repeated = self.causes.repeated
        return None if repeated is None else np.isin(self.loss.steps, repeated)
