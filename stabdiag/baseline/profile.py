"""Reduce a run to its profile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from stabdiag.baseline.roles import is_compared
from stabdiag.comparison.settings import is_secret
from stabdiag.model.history import History, Series
from stabdiag.model.manifest import Manifest
from stabdiag.model.profile import Levels, RunProfile
from stabdiag.sources.names import identity, run_name
from stabdiag.stats.bands import bin_levels, levels_of_rows

# A loss that is not finite is a failure; an evaluation loss may overflow where the run is fine.
_LOSS_ROLE: Final = "loss"

# Settings kept, and characters of each: a profile stays small regardless of the manifest.
_MAX_PROFILE_SETTINGS: Final = 200
_MAX_TEXT: Final = 200

# Groups of a role, such as layers: a few dozen show where to look.
_MAX_PROFILE_GROUPS: Final = 50

# Longer series are measured one by one: a copy of all of them would take much memory.
_MAX_TOGETHER: Final = 10_000


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
    levels = _levels(compared, last)
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


def _levels(compared: Mapping[str, Series], last_step: int) -> dict[str, Levels]:
    """Return the levels of each series; those with the same steps are measured together."""
    together: dict[str | bytes, list[str]] = {}
    for role, series in compared.items():
        is_alone = len(series) > _MAX_TOGETHER or not np.isfinite(series.values).all()
        together.setdefault(role if is_alone else series.steps.tobytes(), []).append(role)
    levels: dict[str, Levels] = {}
    for roles in together.values():
        steps, rows = compared[roles[0]].steps, [compared[role].values for role in roles]
        if len(roles) == 1:
            levels[roles[0]] = bin_levels(steps, rows[0], last_step)
        else:
            levels |= zip(roles, levels_of_rows(steps, np.stack(rows), last_step), strict=True)
    return {role: levels[role] for role in compared}


def _compared(history: History) -> Iterator[tuple[str, Series]]:
    """Yield the series that a baseline keeps; the first groups if a role has many."""
    groups: Counter[str] = Counter()
    for role, series in history.series.items():
        first, _, group = role.partition("/")
        groups[first] += bool(group)
        if len(series) and is_compared(role) and groups[first] <= _MAX_PROFILE_GROUPS:
            yield role, series


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
