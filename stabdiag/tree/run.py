"""A run: a history with its manifest and limits, and the sizes of the tree's windows."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from stabdiag.model.arrays import Mask
from stabdiag.model.findings import RollingBaseline
from stabdiag.model.frozen import frozen
from stabdiag.model.history import History, Series
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest
from stabdiag.model.manifest.keys import ARCHITECTURES, LOSS_FUNCTION, is_pretrained
from stabdiag.model.roles.loss_kinds import LossKind, is_value_loss
from stabdiag.model.roles.names import is_evaluation, name_words
from stabdiag.model.text import num
from stabdiag.stats.course import late_spread
from stabdiag.stats.quantiles import diff_sigma, usual_gap
from stabdiag.stats.rolling import trailing_moments
from stabdiag.stats.shape import SearchWindows
from stabdiag.stats.smoothing import MovingAverage, chance_start, find_average
from stabdiag.stats.standards import CONTEXT_POINTS, HALF, MIN_TREND_POINTS
from stabdiag.stats.trend import is_running_sum
from stabdiag.tree.causes import Causes

# In the needs of a symptom: a message in the log suffices.
MESSAGE = "message"


@frozen
class Run:
    """The input of all measurements; nothing here depends on their results."""

    history: History
    manifest: Manifest
    limits: Limits

    @cached_property
    def loss(self) -> Series:
        """The finite losses; empty if no loss was logged."""
        return self.history.finite("loss")

    @property
    def has_only_evaluations(self) -> bool:
        """Whether the loss was measured on held-out data, because no training loss was logged."""
        return is_evaluation(self.loss.column)

    @cached_property
    def loss_kind(self) -> LossKind | None:
        """The kind of loss if it may rise while the run learns, else None."""
        if self.history.loss_kind is not None:
            return self.history.loss_kind
        if self._has_vague_reward():
            return LossKind.VALUE if is_value_loss(self.loss.column) else LossKind.POLICY
        if self._explores_less():
            return LossKind.VALUE
        return LossKind.RUNNING_SUM if self._is_running_sum() else None

    def _has_vague_reward(self) -> bool:
        """Return True if a policy has too few rewards to judge it by, or one that never changes."""
        others = self.history.group("other_loss").values()
        is_policy = any(
            map(self.history.has, ("policy_kl", "policy_entropy", "clip_fraction"))
        ) or any("kl" in name_words(series.column) for series in others)
        rewards = self.history.finite("reward").values
        if not len(rewards):
            return False
        if not np.ptp(rewards):
            return is_policy or is_value_loss(self.loss.column)
        half = len(rewards) // 2
        # Better returns are larger values to predict, with larger errors.
        is_better = half and rewards[half:].mean() > rewards[:half].mean()
        is_explained = is_policy or (is_better and is_value_loss(self.loss.column))
        return bool(is_explained) and len(rewards) < self.limits.divergence.min_points

    def _explores_less(self) -> bool:
        """Return True if a run without rewards lowers the fraction of its random actions.

        The epsilon of an optimizer is constant, and the one of an adversary is small or grows.
        """
        if "reward" in self.history.series:
            return False
        logged = (self.history.finite(f"setting/{name}").values for name in ("epsilon", "eps"))
        return any(
            len(x) > 1 and HALF <= x[0] <= 1 and 0 <= x.min() <= x[-1] < x[0] for x in logged
        )

    def _is_running_sum(self) -> bool:
        """Return True if the loss accumulates: from 0, or while evaluations improve.

        In a short log, the accuracy improves as well.
        """
        x, heldout = self.loss.values, self.history.finite("eval_loss").values
        if len(x) < MIN_TREND_POINTS or x[0] <= 0 or not is_running_sum(x):
            return False
        if len(heldout) > CONTEXT_POINTS and heldout[1:].max() < heldout[0]:
            return True
        accuracy = self.history.finite("accuracy").values
        improves = len(accuracy) > CONTEXT_POINTS and accuracy[1:].min() > accuracy[0]
        is_shown = improves or len(x) >= self.limits.divergence.min_points
        return bool(is_shown and x[0] <= 2 * np.diff(x).max())

    @cached_property
    def overall_grad_norm(self) -> Series | None:
        """The gradient norm or, if only layers were logged, a series that fails where one does."""
        overall, layers = self.history.get("grad_norm"), self.history.group("grad_norm").values()
        if overall is not None or not layers:
            return overall
        longest = max(layers, key=len)
        bad = [layer.steps[~np.isfinite(layer.values)] for layer in layers]
        values = np.where(np.isin(longest.steps, np.concatenate(bad)), np.inf, longest.values)
        return replace(longest, role="grad_norm", values=values)

    @cached_property
    def logged_or_configured(self) -> frozenset[str]:
        """The logged roles, the known fields as ``manifest.dtype``, and ``message``, if any."""
        fields = [f"manifest.{name}" for name in self.manifest.known]
        messages = [MESSAGE] if self.history.messages else []
        return self.history.logged_roles.union(fields, messages)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The settings without a field in the manifest, by plain spelling."""
        return self.manifest.others(self.history.config)

    @cached_property
    def names_pretrained_model(self) -> bool | None:
        """Whether the settings name a pretrained model; None if they do not say."""
        return is_pretrained(self.settings)

    @cached_property
    def loss_function_words(self) -> frozenset[str]:
        """The words of the loss function that the settings name; a model may name it, too."""
        settings = self.settings
        named = (settings[name] for name in (*LOSS_FUNCTION, ARCHITECTURES) if name in settings)
        return frozenset(word for value in named for word in name_words(str(value)))

    @cached_property
    def chance_start(self) -> int:
        """The number of losses that the first one lowers if it was low by chance, or 0."""
        return chance_start(self.loss.values, self.average)

    @cached_property
    def average(self) -> MovingAverage | None:
        """The moving average that the loss is, or None."""
        return find_average(self.loss.values)

    @cached_property
    def loss_sigma(self) -> float:
        """The deviation of single losses; there are at least two losses."""
        return diff_sigma(self.loss.values)

    @cached_property
    def late_spread(self) -> float:
        """The spread of the losses in the second half; there are at least two losses."""
        return late_spread(self.loss.values, self.loss_sigma)

    @property
    def unit(self) -> str:
        """The unit of the steps: ``step`` or ``epoch``."""
        return self.history.unit

    def describe(self, step: int) -> str:
        """Describe a step; in a log without steps, the record number and its epoch."""
        epochs = self.history.finite("epoch").until(step).values
        if not self.history.counts_records:
            return f"{self.unit} {step}"
        return f"record {step}" + (f" (epoch {num(float(epochs[-1]))})" if len(epochs) else "")

    def at(self, position: int) -> int:
        """Return the step of the loss at a position."""
        return int(self.loss.steps[min(position, len(self.loss) - 1)])

    @cached_property
    def stride(self) -> float:
        """The usual number of steps between two logged losses."""
        return usual_gap(self.loss.steps)

    def points(self, steps: float, least: int = 1) -> int:
        """Return the number of logged losses in a window of steps, at least ``least``."""
        return least if self.by_epoch else max(round(steps / self.stride), least)

    @cached_property
    def by_epoch(self) -> bool:
        """Whether windows are counted in epochs, because an epoch is longer than any window.

        If the longest window fits into the epochs, a batch may be the whole data set.
        """
        is_short = len(self.loss) < self.limits.divergence.window
        return is_short and self.history.counts_epochs

    @cached_property
    def spike_window(self) -> int:
        """The window of §2's rolling mean, in logged points."""
        return self.points(self.limits.spike.window, self.limits.spike.min_points)

    @cached_property
    def recovery_steps(self) -> int:
        """The number of steps for a spike to recover; more than the limit on a sparse log."""
        least = round(MIN_TREND_POINTS * self.stride)
        return least if self.by_epoch else max(self.limits.spike.recovery_steps, least)

    @property
    def lookback(self) -> float:
        """The number of steps before a spike where causes are searched."""
        return self.stride if self.by_epoch else max(self.limits.spike.lookback, self.stride)

    @property
    def min_losses_for_spikes(self) -> int:
        """The number of losses required to test two of them against a baseline."""
        return self.limits.spike.min_points + 2

    @cached_property
    def rise_window(self) -> int:
        """The window of §4 in logged points; on a short log, all of it."""
        points = self.points(self.limits.divergence.window, self.limits.divergence.min_points)
        return min(points, max(len(self.loss), MIN_TREND_POINTS))

    @cached_property
    def reach(self) -> SearchWindows:
        """The search windows of §2, in logged points."""
        limits = self.limits.spike
        return SearchWindows(
            window=self.spike_window,
            least=limits.min_points,
            recovery=self.points(limits.recovery_steps, MIN_TREND_POINTS),
            recovery_sigma=limits.recovery_sigma,
        )

    @property
    def baseline_window(self) -> int:
        """The window of §2, but at most half of the log."""
        return min(self.spike_window, max(len(self.loss) // 2, self.limits.spike.min_points))

    @cached_property
    def baseline(self) -> RollingBaseline:
        """The rolling mean and standard deviation of the literal rule of Q2.1."""
        window = self.baseline_window
        mean, sigma = trailing_moments(self.loss.values, window)
        bar = self.limits.spike.sigma * sigma
        bar += mean  # in place: a long log takes less memory
        above = self.loss.values > bar
        return RollingBaseline(
            window=window, steps=self.loss.steps, mean=mean, deviation=sigma, above=above
        )

    @cached_property
    def causes(self) -> Causes:
        """The logged causes of spikes."""
        return Causes(
            history=self.history,
            limits=self.limits.spike,
            grad_clip=self.manifest.grad_clip,
            schedule=self.manifest.schedule,
        )

    def is_usual_jump(self, step: int) -> bool:
        """Return True if a jump of the learning rate belongs to a schedule with many jumps."""
        return step not in self.causes.lr_jumps

    @cached_property
    def after_logged_cause(self) -> Mask:
        """A mask of the losses just after a jump of the learning rate or a repeated batch."""
        steps = self.causes.lr_jumps
        if self.causes.repeat_steps is not None:
            steps = np.union1d(steps, self.causes.repeat_steps)
        if not len(steps):
            return np.zeros(len(self.loss), dtype=bool)
        last = steps[np.maximum(np.searchsorted(steps, self.loss.steps, side="right") - 1, 0)]
        since = self.loss.steps - last
        return (since >= 0) & (since <= self.lookback)

    @cached_property
    def duplicate_batch_mask(self) -> Mask | None:
        """A mask of the losses of batches that were seen shortly before, or None.

        A model overfits a batch that is stuck in the loader: the loss falls, and then returns to
        its real level in a jump.
        """
        steps = self.causes.repeat_steps
        return None if steps is None else np.isin(self.loss.steps, steps)
