"""Records without the loss that hold something else: an evaluation, or a later loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.assemble.company import any_of, stretches, up_to_last
from stabdiag.model.history import Event, EventKind
from stabdiag.model.roles import is_evaluation, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stabdiag.model.arrays import Mask
    from stabdiag.readers.columns import Column, Columns

_COUNTERS: Final = ("step", "epoch")


def successors(
    columns: Columns, names: Mapping[str, str], loss: Column
) -> Iterator[tuple[str, Mask]]:
    """Yield the losses that begin where this one ends, like that of a second stage.

    Each comes with the records that hold it: that the other is missing there proves nothing.
    """
    end = int(up_to_last(loss).sum())
    if end in (0, columns.rows):
        return
    taken = set(names.values())
    for name in columns.names:
        if name not in taken and "loss" in words_of(name) and not is_evaluation(name):
            other = columns.load(name)
            if other.present.any() and not other.is_text and not other.present[:end].any():
                yield name, other.present & np.isfinite(other.values)


def about_successor(name: str, step: int) -> Event:
    """Say which loss follows the one that was chosen."""
    message = (
        f"from step {step} on {name!r} is logged in place of the loss; --column 'loss={name}' has "
        "that one diagnosed"
    )
    return Event(kind=EventKind.COLUMN, message=message, step=step)


def evaluation(
    columns: Columns,
    names: Mapping[str, str],
    loss: Column,
    company: Mapping[str, Column],
    absent_records: int,
) -> Mask:
    """Return the records of evaluations, in which no training loss is expected.

    A log of epochs has evaluation and loss in the same record: there the one does not excuse that
    the other is missing, but in a record or two of their own, such as one at the end.
    """
    if loss.present.all():
        return np.zeros(columns.rows, bool)
    known = names.get("eval_loss")
    apart, beside = np.zeros(columns.rows, bool), np.zeros(columns.rows, bool)
    so_far = up_to_last(loss)
    for name in (n for n in columns.names if n == known or is_evaluation(n)):
        present = columns.load(name).present
        if _is_apart(present, loss, so_far):
            apart |= present
        else:
            beside |= present
    alone = beside & ~any_of([loss, *company.values()], like=beside)
    for begin, end in stretches(alone):
        if end - begin < absent_records:
            apart[begin:end] = True
    return apart


def of_another_kind(columns: Columns, names: Mapping[str, str], loss: Column) -> Mask:
    """Return the records of columns that are blank beside the losses, such as a final score.

    What counts records of all kinds tells nothing.
    """
    found = np.zeros(columns.rows, bool)
    so_far = up_to_last(loss)
    counters = {names.get(role) for role in _COUNTERS}
    for name in columns.names:
        if name not in counters:
            column = columns.load(name)
            blank = bool((column.null & loss.present).any())
            if blank and _is_apart(column.present, loss, so_far):
                found |= column.present
    return found


def _is_apart(present: Mask, loss: Column, so_far: Mask) -> bool:
    """Tell whether most of what was logged of a column so far was logged without the loss."""
    return 2 * int((present & loss.present).sum()) <= int((present & so_far).sum())
