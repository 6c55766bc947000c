"""Which column serves each role: by name, by what stands in for it, and by what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.assemble.long import with_measurements
from stabdiag.assemble.named import Named
from stabdiag.assemble.other_loss import with_other_loss
from stabdiag.assemble.splits import with_splits
from stabdiag.assemble.totals import with_totals
from stabdiag.errors import ColumnError, NoUsableRecord
from stabdiag.model.roles import assign, is_auxiliary, names_results, stand_ins

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.readers.columns import Columns


# So many records are enough to say that each is of a run of its own.
_FEWEST: Final = 3


def name_columns(columns: Columns, chosen: Mapping[str, str] | None) -> Named:
    """Find the column of each role.

    Raises:
        NoUsableRecord: if the records are of several runs, one each.
        ColumnError: if there is no loss nor anything else to go by, or a chosen column does not
            exist.
    """
    assignment = assign(columns.names, chosen, source=columns.source)
    named = with_totals(columns, assignment)
    if "loss" not in (chosen or {}):
        _refuse_results(columns, named.names)
        named = with_measurements(_with_a_loss(named))
        named = with_other_loss(named, assignment.other_losses)
    return with_splits(named)


def _with_a_loss(named: Named) -> Named:
    """Take what stands in for a loss that was not logged.

    That is the evaluation loss, or what goes by the name of what it measures. Where there is none
    either, a log that tells of overflows is still worth reading: §3 needs no loss.
    """
    columns, names = named.columns, named.names
    main = names.get("loss")
    if main is not None and not all(map(is_auxiliary, main.split(" + "))):
        return named
    if main is None and "eval_loss" in names:
        others = {role: name for role, name in names.items() if role != "eval_loss"}
        note = f"no training loss was logged: {names['eval_loss']!r} stands in for it"
        return named.take({**others, "loss": names["eval_loss"]}, note)
    for one in stand_ins(columns.names, counted=not names.keys().isdisjoint(("step", "epoch"))):
        column = columns.load(one.loss)
        if not column.is_text and column.present.any() and one.loss not in names.values():
            evaluation = {} if one.eval_loss is None else {"eval_loss": one.eval_loss}
            return named.take({**names, "loss": one.loss, **evaluation}, one.note)
    if main is not None:
        return named
    if "loss_scale" in names or "grad_norm" in names:
        return named.take(names, "no loss was logged: only what needs none can be told")
    raise ColumnError(
        f"{columns.source}: no column looks like a training loss (it has "
        f"{_some(columns.names)}); name it with --column loss=NAME, in Python with "
        'columns={"loss": NAME}'
    )


def _refuse_results(columns: Columns, names: Mapping[str, str]) -> None:
    """Raise an error if each record is of a model, a team or a trial of its own."""
    if "step" in names or "epoch" in names or columns.rows < _FEWEST:
        return
    for name in columns.names:
        if names_results(name):
            column = columns.load(name)
            if column.present.all() and len(np.unique(column.values)) == columns.rows:
                raise NoUsableRecord(
                    f"{columns.source}: each record has a {name!r} of its own: a table of results, "
                    "not the log of a run; give the log of one of them"
                )


def _some(names: tuple[str, ...]) -> str:
    # A damaged file has names of many lines.
    shown = ", ".join(" ".join(name.split())[:60] for name in names[:8])
    return f"{shown}, …" if len(names) > 8 else shown
