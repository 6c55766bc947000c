"""Tables with the columns of several runs, as a chart that W&B exports: ``oak-1 - train/loss``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from stabdiag.model.roles.names import exported_run, is_a_loss, is_evaluation, without_run
from stabdiag.readers.columns import Column, Columns, StoredRun


def with_runs(columns: Columns, run_id: str | None) -> Columns:
    """Return the columns of one run of the table, or all columns with the names of the runs.

    Rows count only if the run, by default the first one, has a value there: in the others only
    another run logged something.
    """
    if not any(" - " in name for name in columns.names):
        return columns
    names_by_run: dict[str, list[str]] = {}
    for name in columns.names:
        names_by_run.setdefault(exported_run(name), []).append(name)
    runs = [run for run, names in names_by_run.items() if run and any(map(_is_loss, names))]
    if len(runs) < 2:
        return columns
    if run_id is None:
        stored = tuple(StoredRun(id=run, name=run) for run in runs)
        return replace(_select_run(columns, names_by_run, runs[0]), stored=stored)
    columns = _select_run(columns, names_by_run, run_id)
    own = [name for name in columns.names if exported_run(name) in ("", run_id)]
    return replace(columns, names=tuple(own))


def _is_loss(name: str) -> bool:
    own = without_run(name)
    return is_a_loss(own) or (is_evaluation(own) and "loss" in own.lower())


def _select_run(columns: Columns, names_by_run: Mapping[str, Sequence[str]], run: str) -> Columns:
    """Return columns without the empty rows of a run."""
    logged = np.zeros(columns.rows, dtype=np.bool_)
    for name in names_by_run.get(run, ()):
        logged |= columns.load(name).present

    def keep_logged(name: str, column: Column) -> Column:
        if exported_run(name) not in ("", run):
            return column
        return replace(column, present=column.present & logged, null=column.null & logged)

    return columns.with_changed(keep_logged)
