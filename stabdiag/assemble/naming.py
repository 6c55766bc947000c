"""Which columns serve a log: by their names, by what stands in, and by what they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.assemble.due import Due
from stabdiag.assemble.long import with_measurements
from stabdiag.assemble.splits import with_splits
from stabdiag.assemble.telling import with_telling_loss
from stabdiag.assemble.totals import with_totals
from stabdiag.errors import ColumnError, NoUsableRecord
from stabdiag.roles import assign, contested, is_auxiliary, names_results, stand_ins

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.readers.columns import Columns


# So many records are enough to say that each is of a run of its own.
_FEWEST: Final = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Named:
    """The columns, those that were made of others among them, and the name for each role.

    ``notes`` tell what was decided on the way, ``contested`` what the loss is if it may rise while
    the run learns. A loss is ``due`` in the records that say so.
    """

    columns: Columns
    names: Mapping[str, str]
    notes: tuple[str, ...]
    contested: str | None
    due: Due | None


def name_columns(columns: Columns, chosen: Mapping[str, str] | None) -> Named:
    """Find the column of each role.

    Raises:
        NoUsableRecord: if the records are of several runs, one each.
        ColumnError: if there is no loss nor anything else to go by, or a chosen column does not
            exist.
    """
    assignment = assign(columns.names, chosen)
    columns, roles, totals = with_totals(columns, assignment)
    names: Mapping[str, str] = roles
    stand_in: tuple[str, ...] = ()
    named: Due | None = None
    if "loss" not in (chosen or {}):
        _refuse_results(columns, roles)
        names, stand_in = _with_a_loss(columns, roles)
        columns, names, long, named = with_measurements(columns, names)
        names, lost = with_telling_loss(columns, names, assignment.other_losses)
        stand_in += (*long, *lost)
    columns, names, split, marked = with_splits(columns, names)
    return Named(
        columns=columns,
        names=names,
        notes=(*assignment.notes, *totals, *stand_in, *split),
        contested=contested(names.get("loss", ""), columns.names, has_reward="reward" in names),
        due=named if marked is None else marked.both(named),
    )


def _with_a_loss(
    columns: Columns, names: Mapping[str, str]
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the columns' names by role, with what stands in for a loss that was not logged.

    That is the evaluation loss, or what goes by the name of what it measures. Where there is none
    either, a log that tells of overflows is still worth reading: §3 needs no loss.
    """
    main = names.get("loss")
    if main is not None and not all(map(is_auxiliary, main.split(" + "))):
        return names, ()
    if main is None and "eval_loss" in names:
        others = {role: name for role, name in names.items() if role != "eval_loss"}
        note = f"no training loss was logged: {names['eval_loss']!r} stands in for it"
        return {**others, "loss": names["eval_loss"]}, (note,)
    for one in stand_ins(columns.names, counted=not names.keys().isdisjoint(("step", "epoch"))):
        column = columns.load(one.loss)
        if not column.is_text and column.present.any() and one.loss not in names.values():
            evaluation = {} if one.eval_loss is None else {"eval_loss": one.eval_loss}
            return {**names, "loss": one.loss, **evaluation}, (one.note,)
    if main is not None:
        return names, ()
    if "loss_scale" in names or "grad_norm" in names:
        return names, ("no loss was logged: only what needs none can be told",)
    raise ColumnError(
        f"{columns.source}: no column looks like a training loss (it has "
        f"{_some(columns.names)}); name it with --column loss=NAME"
    )


def _refuse_results(columns: Columns, names: Mapping[str, str]) -> None:
    """Raise an error if each record is of a model, a team or a trial of its own."""
    if "step" in names or "epoch" in names or columns.rows < _FEWEST:
        return
    for name in columns.names:
        if names_results(name):
            column = columns.load(name)
            here = column.values[column.present]
            if len(here) == columns.rows and len(np.unique(here)) == len(here):
                raise NoUsableRecord(
                    f"{columns.source}: each record has a {name!r} of its own: a table of results, "
                    "not the log of a run; give the log of one of them"
                )


def _some(names: tuple[str, ...]) -> str:
    # A damaged file has names of many lines.
    shown = ", ".join(" ".join(name.split())[:60] for name in names[:8])
    return f"{shown}, …" if len(names) > 8 else shown
