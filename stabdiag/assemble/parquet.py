"""A history as Parquet: a column per role, a row per step, and everything else as metadata.

``stabdiag convert`` writes these files; reading them back needs no further analysis.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from stabdiag.errors import NoUsableRecord
from stabdiag.files import atomic_write
from stabdiag.model.arrays import Ints
from stabdiag.model.events import step_unit
from stabdiag.model.history import History, Series, Source
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
from stabdiag.model.unique import unique_values
from stabdiag.readers.columns import Columns
from stabdiag.readers.converted import KEY, ConversionMetadata, as_metadata

_ROLE_NAMES = frozenset(role.name for role in ROLES)


def write_parquet(history: History, manifest: Manifest, output: Path) -> None:
    """Write a history and the known facts about the run atomically.

    Missing values are null; NaN remains NaN.

    Raises:
        NoUsableRecord: If there is nothing to write.
        StabdiagError: If the file cannot be written.
    """
    import pyarrow as pa
    from pyarrow import parquet

    if not history.series:
        raise NoUsableRecord(f"{history.source.name}: no usable data to convert")
    steps = unique_values(np.concatenate([series.steps for series in history.series.values()]))
    columns: dict[str, Any] = {"step": pa.array(steps)}
    columns |= {role: _column(series, steps) for role, series in history.series.items()}
    config = _other_settings(history, manifest) | {
        name: value for name, value in manifest.known.items() if name not in manifest.inferred
    }
    source = history.source
    name = f"{source.name} ({source.format}): {plural(source.records, 'record')}"
    metadata = ConversionMetadata(
        config=config,
        events=history.events,
        columns={
            role: series.column for role, series in history.series.items() if series.column != role
        },
        loss_kind=history.loss_kind,
        words={role: series.words for role, series in history.series.items() if series.words},
        repeated_steps=history.repeated_steps,
    )
    table = pa.table(columns).replace_schema_metadata({KEY: as_metadata(metadata, name)})
    with atomic_write(output) as file:
        parquet.write_table(table, file)


def _other_settings(history: History, manifest: Manifest) -> dict[str, object]:
    """Return the settings without a manifest field, each by its first name.

    A warm-up fraction is left out because it would conflict with a warm-up set by hand.
    """
    settings = manifest.others(history.config)
    kept: dict[str, object] = {}
    # The header of a recorder says how weights are stored and how many there are.
    if isinstance(header := history.config.get("config"), dict):
        kept["config"] = header
    for field, names in NUMBERS.items():
        value = other_number(settings, field)
        if value is not None and field != "warmup_share":
            kept[names[0]] = value
    if (pretrained := is_pretrained(settings)) is not None:
        kept[PRETRAINED[0]] = pretrained
    # It would override a checkpoint interval in steps that was set by hand.
    convert_to_steps = manifest.checkpoint_every and "checkpoint_every" not in manifest.inferred
    if saves_by_epoch(settings) and not convert_to_steps:
        kept[SAVE_STRATEGY] = "epoch"
    return kept


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


def converted_history(columns: Columns, metadata: ConversionMetadata) -> History | None:
    """Return the history in a converted log, whose columns are named after their roles.

    Return None if the log is not what it claims: a column has another name or contains words, or
    the steps do not increase.
    """
    clock = columns.load("step")
    roles = (name.partition("/")[0] for name in columns.names)
    rising = clock.present.all() and np.all(np.diff(clock.values) > 0)
    if clock.is_text or not rising or not _ROLE_NAMES.issuperset(roles):
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
        was = metadata.columns.get(role, role)
        words = metadata.words.get(role, ())
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
        loss_kind=metadata.loss_kind,
        unit=step_unit(columns.events),
        repeated_steps=metadata.repeated_steps,
    )
