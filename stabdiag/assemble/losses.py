"""The losses of a log, including those that were NaN but not written as NaN."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.due import find_blank
from stabdiag.assemble.hidden import find_hidden
from stabdiag.assemble.norms import hidden_norms
from stabdiag.assemble.other_records import about_successor, evaluation, of_another_kind, successors
from stabdiag.assemble.skipped import wholly_skipped
from stabdiag.assemble.stopped import find_stopped
from stabdiag.model.history import Event, EventKind
from stabdiag.model.roles import ROLES
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stabdiag.assemble.due import Due
    from stabdiag.assemble.hidden import Hidden
    from stabdiag.assemble.steps import Steps
    from stabdiag.model.arrays import Floats, Mask
    from stabdiag.model.limits import Limits
    from stabdiag.readers.columns import Column, Columns

_TRAINING = frozenset(role.name for role in ROLES if role.training)


@dataclass(frozen=True, kw_only=True, eq=False)
class Losses:
    """The losses, logged or hidden: values of shape (rows,), and the records that have one."""

    values: Floats
    records: Mask
    events: list[Event] = field(default_factory=list)


def read_losses(
    columns: Columns,
    data: dict[str, Column],
    names: Mapping[str, str],
    limits: Limits,
    clock: Steps,
    due: Due | None,
) -> Losses:
    """Return the losses with hidden NaN put back; ``data`` gets back its hidden gradient norms.

    Args:
        columns: the raw columns of the log.
        data: the columns that serve a role, by role; changed in place.
        names: the columns' names by role.
        limits: ``nan.absent_records`` is used here.
        clock: the step of each record; a loss of those that have none is not missed.
        due: records that say that they are of the loss.
    """
    steps = clock.steps
    loss = data.get("loss")
    if loss is None:
        nothing = np.zeros(columns.rows, dtype=bool)
        return Losses(values=np.full(columns.rows, np.nan), records=nothing)
    company = {role: column for role, column in data.items() if _keeps_company(role)}
    events = _mark_norms(loss, company, null_is_nan=columns.tells_null)
    data.update(company)
    skipped = wholly_skipped(data.get("skipped"), names.get("skipped", ""), steps)
    if skipped.any():
        # What stands there, nothing or 0.0, is the loss of no step.
        loss = replace(loss, present=loss.present & ~(skipped & (loss.values == 0.0)))
    replaced = np.zeros(columns.rows, bool)
    for name, successor in successors(columns, names, loss):
        replaced |= successor
        events.append(about_successor(name, int(steps[np.argmax(successor)])))
    least = limits.nan.absent_records
    found = find_hidden(
        loss,
        company,
        evaluation(columns, names, loss, company, least) | skipped | replaced,
        of_another_kind=partial(of_another_kind, columns, names, loss),
        absent_records=least,
        null_is_nan=columns.tells_null,
    )
    blank = find_blank(loss, due, absent_records=least)
    found += [] if blank is None else [blank]
    stopped = find_stopped(
        _with_hidden(loss, found),
        company,
        steps,
        clock.usable,
        skipped | replaced,
        absent_records=least,
    )
    found += [] if stopped is None else [stopped]
    return _put_back(loss, found, clock, events)


def _put_back(loss: Column, found: Iterable[Hidden], clock: Steps, events: list[Event]) -> Losses:
    """Return the losses with NaN where they were hidden, and say so after what else was told."""
    records, values = loss.present.copy(), loss.values
    for hidden in found:
        new = hidden.records & clock.usable & (~records | np.isfinite(values))
        if not new.any():
            continue
        values = np.where(new, np.nan, values)
        records |= new
        count = plural(int(new.sum()), "loss counts", "losses count")
        at = int(clock.steps[np.argmax(new)])
        message = f"{count} as NaN, from step {at} on, though not written so: {hidden.grounds}"
        events.append(Event(kind=EventKind.HIDDEN_NAN, message=message, step=at))
    return Losses(values=values, records=records, events=events)


def _with_hidden(loss: Column, found: Iterable[Hidden]) -> Column:
    """Return the loss with what is hidden among the records that have one."""
    present = reduce(np.logical_or, (hidden.records for hidden in found), loss.present)
    return replace(loss, present=present)


def _keeps_company(role: str) -> bool:
    """Tell whether a role is measured with the training loss: then its records prove a step."""
    return role != "loss" and role.partition("/")[0] in _TRAINING


def _mark_norms(loss: Column, company: dict[str, Column], *, null_is_nan: bool) -> list[Event]:
    """Put back the gradient norms that were not finite and not written so."""
    found: dict[str, int] = {}
    norms = [role for role in company if role.partition("/")[0] == "grad_norm"]
    others = {role: company[role] for role in company.keys() - norms}
    for role in norms:
        norm = company[role]
        # DeepSpeed ZeRO-3 writes -1 for a norm that is not finite.
        hidden = norm.present & (norm.values == -1.0)
        if not norm.present[loss.present].all():
            hidden |= hidden_norms(loss, norm, others, null_is_nan=null_is_nan)
        if not hidden.any():
            continue
        found[role] = int(hidden.sum())
        company[role] = replace(
            norm,
            values=np.where(hidden, np.nan, norm.values),
            present=norm.present | hidden,
            null=norm.null & ~hidden,
        )
    if not found:
        return []
    role, count = next(iter(found.items()))
    more = f" and of {len(found) - 1} more like it" if len(found) > 1 else ""
    values = f"{plural(count, 'value')} of {role}{more}"
    verb = "counts" if count == 1 and not more else "count"
    message = f"{values} {verb} as not finite: missing, null or -1 beside a loss"
    return [Event(kind=EventKind.HIDDEN_NAN, message=message)]
