"""A history as Parquet: one column a role, one row a step, and what else is known as metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stabdiag.errors import NoUsableRecord
from stabdiag.files import written_whole
from stabdiag.model.manifest.keys import KEYS
from stabdiag.model.manifest.other import NUMBERS, SAVE_STRATEGY, other_number, saves_by_epoch
from stabdiag.model.text import plural
from stabdiag.readers.converted import KEY, Told, as_metadata

if TYPE_CHECKING:
    from pathlib import Path

    from stabdiag.model.arrays import Ints
    from stabdiag.model.history import History, Series
    from stabdiag.model.manifest import Manifest


def write_parquet(history: History, manifest: Manifest, output: Path) -> None:
    """Write a history and what is known of the run, as a whole or not at all.

    What was not logged at a step is null there; a NaN stays one.

    Raises:
        NoUsableRecord: If there is nothing to write.
        StabdiagError: If the file cannot be written.
    """
    import pyarrow as pa
    from pyarrow import parquet

    if not history.series:
        raise NoUsableRecord(f"{history.source.name}: nothing in it can be used or converted")
    steps = np.unique(np.concatenate([one.steps for one in history.series.values()]))
    columns: dict[str, Any] = {"step": pa.array(steps)}
    columns |= {role: _column(one, steps) for role, one in history.series.items()}
    known = {key.name: getattr(manifest, key.name) for key in KEYS}
    config = _beside(history, manifest) | {
        name: value
        for name, value in known.items()
        if value is not None and name not in manifest.inferred
    }
    source = history.source
    name = f"{source.name} ({source.format}): {plural(source.records, 'record')}"
    told = Told(
        config=config,
        events=history.events,
        columns={role: one.column for role, one in history.series.items() if one.column != role},
        contested=history.contested,
        words={role: one.words for role, one in history.series.items() if one.words},
    )
    table = pa.table(columns).replace_schema_metadata({KEY: as_metadata(told, name)})
    with written_whole(output) as file:
        parquet.write_table(table, file)


def _beside(history: History, manifest: Manifest) -> dict[str, object]:
    """Return what is told beside the manifest's fields, each by its first name.

    A warm-up's share is none of them: it would speak against a warm-up given by hand.
    """
    told = manifest.others(history.config)
    found: dict[str, object] = {}
    for field, names in NUMBERS.items():
        value = other_number(told, field)
        if value is not None and field != "warmup_share":
            found[names[0]] = value
    # Beside it a cadence in steps, which may have been given by hand, would not count.
    in_steps = manifest.checkpoint_every and "checkpoint_every" not in manifest.inferred
    if saves_by_epoch(told) and not in_steps:
        found[SAVE_STRATEGY] = "epoch"
    return found


def _column(series: Series, steps: Ints) -> Any:
    import pyarrow as pa

    if len(series) == len(steps):
        return pa.array(series.values)
    values = np.full(len(steps), np.nan)
    missing = np.ones(len(steps), dtype=bool)
    at = np.searchsorted(steps, series.steps)
    values[at] = series.values
    missing[at] = False
    return pa.array(values, mask=missing, from_pandas=False)
