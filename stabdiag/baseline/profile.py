"""The profile of a run: what a baseline keeps of it, about 300 bytes per series."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

import numpy as np

from stabdiag.baseline.roles import is_compared
from stabdiag.comparison.settings import is_secret
from stabdiag.model.frozen import frozen
from stabdiag.model.history import History, Series
from stabdiag.model.manifest import Manifest
from stabdiag.stats.bands import Levels, bin_levels

# A loss that is not finite is a failure; an evaluation loss may overflow where the run is fine.
_LOSS_ROLE: Final = "loss"

# Settings kept, and characters of each: a profile stays small regardless of the manifest.
_MAX_PROFILE_SETTINGS: Final = 200
_MAX_TEXT: Final = 200

# Groups of a role, such as layers: a few dozen show where to look.
_MAX_PROFILE_GROUPS: Final = 50


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


@np.errstate(all="ignore")  # losses may be infinite or huge
def run_profile(
    history: History,
    manifest: Manifest,
    *,
    name: str = "",
    key: str = "",
    outcome: str = "",
    severity: str = "",
) -> RunProfile:
    """Return the profile of a history; it is named by its source if no name is given."""
    last = history.last_step or 0
    compared = dict(_compared(history))
    levels = {
        role: bin_levels(series.steps, series.values, last) for role, series in compared.items()
    }
    loss = history.logged(_LOSS_ROLE)
    bad = np.flatnonzero(~np.isfinite(loss.values))
    source = history.source.name
    return RunProfile(
        name=name or run_name(source),
        key=key or (identity(source) if history.source.files or "://" in source else ""),
        series={role: level for role, level in levels.items() if len(level)},
        columns={role: series.column for role, series in compared.items()},
        first_step=history.first_step or 0,
        last_step=last,
        unit=history.unit,
        non_finite=int(loss.steps[bad[0]]) if len(bad) else None,
        settings=dict(_settings(history, manifest)),
        outcome=outcome,
        severity=severity,
        loss_kind="" if history.loss_kind is None else history.loss_kind.value,
    )


def _compared(history: History) -> Iterator[tuple[str, Series]]:
    """Yield the series that a baseline keeps; the first groups if a role has many."""
    groups: Counter[str] = Counter()
    for role, series in history.series.items():
        first, _, group = role.partition("/")
        groups[first] += bool(group)
        if len(series) and is_compared(role) and groups[first] <= _MAX_PROFILE_GROUPS:
            yield role, series


def identity(source: str) -> str:
    """Return the identity of a log: its real path, or its URL."""
    if not source or "://" in source:
        return source
    return os.path.realpath(source)


# File and folder names that many runs share.
_PLAIN_NAMES: Final = frozenset(
    """
    log logs metrics train training run history scalars progress results output trainer_state
    events tensorboard wandb-history log_history csv files stats
    """.split()  # noqa: SIM905 - so that it can be read
)


def run_name(source: str, *, parents: int | None = None) -> str:
    """Return the name by which people know a run: its file, or its folder if the file is plain.

    With ``parents``, numbered folders below it and that many folders above it are included.

    >>> run_name("good/run_b/log.jsonl"), run_name("good/run_b.csv"), run_name("metrics.csv")
    ('run_b', 'run_b', 'metrics.csv')
    >>> run_name("good/run_b/7/log.jsonl"), run_name("good/run_b/7/log.jsonl", parents=0)
    ('run_b', 'run_b/7')
    """
    parts = [part for part in source.split("/") if part not in ("", ".")]
    stems = [part.partition(".")[0] or part for part in parts]
    named = [at for at, stem in enumerate(stems) if stem.lower() not in _PLAIN_NAMES]
    at = next((at for at in reversed(named) if not stems[at].isdigit()), None)
    if at is None:
        return parts[-1] if parts else source
    if parents is None:
        return stems[at]
    return "/".join([*parts[max(at - parents, 0) : named[-1]], stems[named[-1]]])


def _settings(history: History, manifest: Manifest) -> Iterator[tuple[str, str | float]]:
    """Yield the scalars of the configuration, without what was inferred from the log."""
    stated_fields = {k: v for k, v in manifest.known.items() if k not in manifest.inferred}
    stated = {**history.config, **manifest.unknown, **manifest.also, **stated_fields}
    kept = [
        (str(key), value)
        for key, value in stated.items()
        if isinstance(value, str | int | float) and not is_secret(str(key))
    ]
    for key, value in kept[:_MAX_PROFILE_SETTINGS]:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        yield key[:_MAX_TEXT], float(value) if number else str(value)[:_MAX_TEXT]
