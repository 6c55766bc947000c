"""The profile of a run: what a baseline keeps of it, about 300 bytes per series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property

import numpy as np

from stabdiag.model.arrays import Floats, Ints
from stabdiag.model.frozen import frozen


@frozen
class Levels:
    """A series by bin: all arrays have the shape (k,), ``bins`` rises.

    ``mean`` and ``noise`` describe the values, ``log_mean`` and ``log_noise`` their logarithms.
    The latter are NaN throughout if any value is not positive. ``noise`` is the standard deviation
    of a single value about its local trend.
    """

    bins: Ints
    count: Ints
    mean: Floats
    noise: Floats
    log_mean: Floats
    log_noise: Floats

    def __len__(self) -> int:
        return len(self.bins)

    @cached_property
    def is_positive(self) -> bool:
        """Whether all values are positive, so that their logarithms exist."""
        return bool(np.isfinite(self.log_mean).all())

    def with_logs_of_means(self) -> Levels:
        """Return the levels with the logarithm of each mean, not the mean of logarithms.

        The mean of logarithms is below the logarithm of the mean (Jensen). Only means make a log of
        averages over several steps comparable with a log of every step.
        """
        if not self.is_positive:
            return self
        return replace(self, log_mean=np.log(self.mean), log_noise=self.noise / self.mean)

    def center(self, *, log: bool) -> Floats:
        """Return the mean of the values, or of their logarithms."""
        return self.log_mean if log else self.mean

    def error(self, *, log: bool) -> Floats:
        """Return the squared standard error of each bin's mean."""
        noise = self.log_noise if log else self.noise
        return np.asarray(noise**2 / self.count)


@frozen
class RunProfile:
    """A run reduced to its level, count and noise per series and bin.

    ``key`` identifies the log, since a run is never its own reference; it is empty for a table in
    memory. ``non_finite`` is the first step with a loss that is NaN or infinite. ``loss_kind`` is
    set for a loss that may rise while the run learns. ``settings`` has the scalars of the manifest.
    ``outcome`` and ``severity`` belong to the diagnosis; they are empty without one.
    """

    name: str
    key: str
    series: Mapping[str, Levels]
    columns: Mapping[str, str] = field(default_factory=dict)
    first_step: int = 0
    last_step: int = 0
    unit: str = "step"
    non_finite: int | None = None
    settings: Mapping[str, str | float] = field(default_factory=dict)
    outcome: str = ""
    severity: str = ""
    loss_kind: str = ""
