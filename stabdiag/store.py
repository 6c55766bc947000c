"""A history as Parquet: one column a role, one row a step, and what else is known as metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stabdiag.errors import NoUsableRecord
from stabdiag.files import written_whole
from stabdiag.manifest_keys import KEYS
from stabdiag.readers.converted import KEY, as_metadata
from stabdiag.words import plural

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from stabdiag.history import History, Series
    from stabdiag.manifest import Manifest


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
    config = {
        name: value
        for name, value in known.items()
        if value is not None and name not in manifest.inferred
    }
    source = history.source
    told = f"{source.name} ({source.format}): {plural(source.records, 'record')}"
    table = pa.table(columns).replace_schema_metadata(
        {KEY: as_metadata(config, told, history.events)}
    )
    with written_whole(output) as part, part.open("wb") as file:
        parquet.write_table(table, file)


def _column(series: Series, steps: NDArray[np.int64]) -> Any:
    import pyarrow as pa

    if len(series) == len(steps):
        return pa.array(series.values)
    values = np.full(len(steps), np.nan)
    missing = np.ones(len(steps), dtype=bool)
    at = np.searchsorted(steps, series.steps)
    values[at] = series.values
    missing[at] = False
    return pa.array(values, mask=missing, from_pandas=False)
