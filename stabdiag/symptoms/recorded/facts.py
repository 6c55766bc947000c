"""Facts that the recorder writes: one column for each, and one for each layer.

Most facts do not depend on the curves. They come before equally severe findings, because they name
the mistake in the code.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.model.text import SHOWN_NAMES, and_more
from stabdiag.tree.case import Case

PREFIX: Final = "recorder"


def first_true_step(case: Case, role: str) -> int | None:
    """Return the first step where a fact was true, if it is true in the last record."""
    series = case.history.finite(role)
    if not len(series) or not series.values[-1]:
        return None
    return int(series.steps[np.flatnonzero(series.values)[0]])


def fact_layers(case: Case, fact: str) -> list[str]:
    """Return the layers listed for a fact in its last record, the largest first."""
    totals = case.history.finite(fact)
    last = int(totals.steps[-1]) if len(totals) else -1
    values = {
        role.removeprefix(f"{fact}/"): float(series.values[-1])
        for role, series in case.history.series.items()
        if role.startswith(f"{fact}/") and len(series) and int(series.steps[-1]) == last
    }
    return sorted(values, key=lambda layer: -values[layer])


def quoted(layers: list[str]) -> str:
    """Return the names of the first layers in quotes, and the number of the others."""
    return and_more([f"{layer!r}" for layer in layers], SHOWN_NAMES)
