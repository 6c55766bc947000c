"""The losses of a log, those that went NaN and were not written so among them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.assemble.hidden import find_hidden, hidden_norms
from stabdiag.assemble.skipped import wholly_skipped
from stabdiag.history import Event, EventKind
from stabdiag.roles import ROLES, is_evaluation, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from stabdiag.limits import Limits
    from stabdiag.readers.columns import Column, Columns

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]


_TRAINING = frozenset(role.name for role in ROLES if role.training)


@dataclass(frozen=True, kw_only=True, eq=False)
class Losses:
    """The losses that were logged or hidden: values of shape (rows,), and which records count."""

    values: Floats
    records: Mask
    events: list[Event] = field(default_factory=list)


def read_losses(
    columns: Columns,
    data: dict[str, Column],
    names: Mapping[str, str],
    limits: Limits,
    steps: Ints,
    usable: Mask,
) -> Losses:
    """Return the losses, hidden NaN put back; gradient norms in ``data`` are mended on the way.

    Args:
        columns: the raw columns of the log.
        data: the columns that serve a role, by role; changed in place.
        names: the columns' names by role.
        limits: ``nan.absent_records`` is used here.
        steps: shape (rows,), for the events.
        usable: shape (rows,), the records that have a step; a loss of others is not missed.
    """
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
    elsewhere = np.zeros(columns.rows, bool)
    if not loss.present.all():
        elsewhere = _evaluation(columns, names) | skipped
        for name, records in _successors(columns, names, loss):
            elsewhere |= records
            events.append(_about_successor(name, int(steps[np.argmax(records)])))
    found = find_hidden(
        loss,
        company,
        elsewhere,
        absent_records=limits.nan.absent_records,
        null_is_nan=columns.tells_null,
    )
    records, values = loss.present.copy(), loss.values
    for hidden in found:
        new = hidden.records & usable & (~records | np.isfinite(values))
        if not new.any():
            continue
        values = np.where(new, np.nan, values)
        records |= new
        count, at = int(new.sum()), int(steps[np.argmax(new)])
        plural = "losses count" if count > 1 else "loss counts"
        message = (
            f"{count} {plural} as NaN, from step {at} on, though not written so: {hidden.grounds}"
        )
        events.append(Event(kind=EventKind.HIDDEN_NAN, message=message, step=at))
    return Losses(values=values, records=records, events=events)


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
    values = "1 value" if count == 1 else f"{count} values"
    verb = "counts" if count == 1 and not more else "count"
    message = f"{values} of {role}{more} {verb} as not finite: missing, null or -1 beside a loss"
    return [Event(kind=EventKind.HIDDEN_NAN, message=message)]


def _successors(
    columns: Columns, names: Mapping[str, str], loss: Column
) -> Iterator[tuple[str, Mask]]:
    """Yield the losses that begin where this one ends, as that of a second stage does.

    Each comes with the records that hold it: that the other is missing there proves nothing.
    """
    end = columns.rows - int(np.argmax(loss.present[::-1])) if loss.present.any() else columns.rows
    if end == columns.rows:
        return
    for name in columns.names:
        if name not in names.values() and "loss" in words_of(name) and not is_evaluation(name):
            other = columns.load(name)
            if other.present.any() and not other.is_text and not other.present[:end].any():
                yield name, other.present & np.isfinite(other.values)


def _about_successor(name: str, step: int) -> Event:
    message = (
        f"from step {step} on {name!r} is logged in place of the loss; --column 'loss={name}' has "
        "that one diagnosed"
    )
    return Event(kind=EventKind.COLUMN, message=message, step=step)


def _evaluation(columns: Columns, names: Mapping[str, str]) -> Mask:
    """Return the records that carry an evaluation value."""
    known = [name for role, name in names.items() if role == "eval_loss"]
    mask = np.zeros(columns.rows, bool)
    for name in dict.fromkeys([*known, *(n for n in columns.names if is_evaluation(n))]):
        mask |= columns.load(name).present
    return mask
