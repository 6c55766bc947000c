"""A history as Parquet: one column a role, one row a step, and what else is known as metadata.

``stabdiag convert`` writes it, and the log that it has written only has to be read back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from stabdiag.errors import NoUsableRecord
from stabdiag.files import atomic_write
from stabdiag.model.arrays import Ints
from stabdiag.model.history import History, Series, Source, unit_of
from stabdiag.model.manifest import Manifest
from stabdiag.model.manifest.keys import (
    NUMBERS,
    PRETRAINED,
    SAVE_STRATEGY,
    is_pretrained,
    other_number,
    saves_by_epoch,
)
from stabdiag.model.roles.table import ROLES
from stabdiag.model.text import plural
from stabdiag.readers.columns import Columns
from stabdiag.readers.converted import KEY, ConversionMetadata, as_metadata

_ROLES = frozenset(role.name for role in ROLES)


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
    config = _beside(history, manifest) | {
        name: value for name, value in manifest.known.items() if name not in manifest.inferred
    }
    source = history.source
    name = f"{source.name} ({source.format}): {plural(source.records, 'record')}"
    told = ConversionMetadata(
        config=config,
        events=history.events,
        columns={role: one.column for role, one in history.series.items() if one.column != role},
        loss_kind=history.loss_kind,
        words={role: one.words for role, one in history.series.items() if one.words},
        retaken=history.retaken,
    )
    table = pa.table(columns).replace_schema_metadata({KEY: as_metadata(told, name)})
    with atomic_write(output) as file:
        parquet.write_table(table, file)


def _beside(history: History, manifest: Manifest) -> dict[str, object]:
    """Return what is told beside the manifest's fields, each by its first name.

    A warm-up's share is none of them: it would speak against a warm-up given by hand.
    """
    told = manifest.others(history.config)
    found: dict[str, object] = {}
    # The header of a recorder says how weights are stored and how many there are.
    if isinstance(header := history.config.get("config"), dict):
        found["config"] = header
    for field, names in NUMBERS.items():
        value = other_number(told, field)
        if value is not None and field != "warmup_share":
            found[names[0]] = value
    if (pretrained := is_pretrained(told)) is not None:
        found[PRETRAINED[0]] = pretrained
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


def converted_history(columns: Columns, told: ConversionMetadata) -> History | None:
    """Return the history in a converted log, whose columns have the names of their roles.

    None if the log only says that it was converted: a column has another name or holds words, or
    the steps do not rise from row to row.
    """
    clock = columns.load("step")
    roles = (name.partition("/")[0] for name in columns.names)
    rising = clock.present.all() and np.all(np.diff(clock.values) > 0)
    if clock.is_text or not rising or not _ROLES.issuperset(roles):
        return None
    steps = clock.values.astype(np.int64)
    series = {}
    for role in columns.names:
        if role == "step":
            continue
        column = columns.load(role)
        if column.is_text:
            return None
        values = column.logged
        at = steps if len(values) == len(steps) else steps[column.present]
        was = told.columns.get(role, role)
        words = told.words.get(role, ())
        series[role] = Series(role=role, column=was, steps=at, values=values, words=words)
    source = Source(
        name=columns.source,
        format=columns.format,
        records=columns.rows,
        files=columns.files,
        other_runs=columns.other_runs,
    )
    return History(
        series=series,
        source=source,
        events=columns.events,
        config=columns.config,
        loss_kind=told.loss_kind,
        unit=unit_of(columns.events),
        retaken=told.retaken,
    )
