"""The runs of a database or a file that holds several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from stabdiag.readers.columns import StoredRun


def stored_runs(runs: Iterable[tuple[object, object]]) -> tuple[StoredRun, ...]:
    """Return runs by id and name, if there are several.

    If runs have the same name, their ids distinguish them.
    """
    pairs = [(str(run), str(name or run)) for run, name in runs]
    counts = Counter(name for _, name in pairs)
    if len(pairs) < 2:
        return ()
    return tuple(
        StoredRun(id=run, name=name if counts[name] == 1 else f"{name} ({run[:8]})")
        for run, name in pairs
    )
