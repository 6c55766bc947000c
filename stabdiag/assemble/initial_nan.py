"""Placeholders of a loss that precedes the first update: the mean of no values is NaN."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stabdiag.assemble.records import stretches
from stabdiag.model.arrays import Ints, Mask
from stabdiag.model.events import Event, EventCode, EventKind
from stabdiag.model.text import plural
from stabdiag.readers.columns import Column


def are_at_starts(counter: Column, records: Mask) -> bool:
    """Return True if a counter is 0 at all of several records. A single one may have failed.

    If it counts from 1, they are all of its ones, maybe but the first, and the counter restarts.
    """
    count = np.count_nonzero(records)
    if counter.is_text or count < 2:
        return False
    at_zero, at_one = (counter.present & (counter.values == start) for start in (0, 1))
    are_all_ones = not at_zero.any() and np.count_nonzero(at_one) <= count + 1
    return bool((at_one if are_all_ones else at_zero)[records].all())


def without_nan_at_starts(
    loss: Column, counter: Column, norm: Column | None
) -> tuple[Column, list[Event]]:
    """Drop the NaN or null of each epoch from its first count on, if all other losses are finite.

    A progress bar prints it before the first batch, or until it has values to average, which takes
    no longer in a later epoch. NaN in the weights would persist.
    """
    lost = loss.null | (loss.present & ~np.isfinite(loss.values))
    at = np.flatnonzero(lost)
    begins, ends = np.array(stretches(lost), dtype=np.int64).reshape(-1, 2).T
    is_begin = np.zeros_like(lost)
    is_begin[begins] = True
    if not are_at_starts(counter, is_begin) or np.argmax(ends - begins):
        return loss, []
    following = ends[ends < len(lost)]
    is_measured = norm is not None and bool(norm.present[at].any())
    if is_measured or not loss.present[following].all():
        return loss, []
    message = (
        f"{plural(len(at), 'loss', 'losses')} at the start of an epoch left out: a placeholder"
    )
    event = Event(kind=EventKind.PLACEHOLDER, code=EventCode.INITIAL_NAN, message=message)
    return replace(loss, present=loss.present & ~lost, null=loss.null & ~lost), [event]


def without_initial_nan(
    loss: Column, norm: Column | None, steps: Ints
) -> tuple[Column, list[Event]]:
    """Drop a single NaN at the start of the loss if it has no gradient norm.

    It is the mean of no values, before the first update: NaN in the weights would persist. It is
    kept if the next loss is not finite either.
    """
    if not loss.present.any() or not np.isnan(loss.values[np.argmax(loss.present)]):
        return loss, []
    rows = np.flatnonzero(loss.present)[:2]
    if len(rows) < 2 or np.diff(steps[rows]) <= 0 or (norm is not None and norm.present[rows[0]]):
        return loss, []
    if not np.isfinite(loss.values[rows[1]]):
        return loss, []
    present = loss.present.copy()
    present[rows[0]] = False
    message = (
        "the first loss is NaN and the next is not: left out, it precedes the first measurement"
    )
    kind, code = EventKind.PLACEHOLDER, EventCode.INITIAL_NAN
    return replace(loss, present=present), [Event(kind=kind, code=code, message=message)]
