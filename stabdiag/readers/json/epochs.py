"""Epochs that hold the records, or the lists, of their steps: [{"epoch": 1, "batches": […]}, …]."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from stabdiag.model.roles import assign, is_evaluation
from stabdiag.readers.nested import flattened

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stabdiag.readers.nested import Record

# A record may hold the learning rates of its groups; a list of more values is a column.
LONG: Final = 16


def steps_of(epochs: list[Record]) -> list[Record]:
    """Return the records of all steps, in order; none if the records are no epochs that hold them.

    What is told of a whole epoch is known at its end: it goes with its last step. If its evaluation
    is, the batches of that are no steps, as in the history of skorch.
    """
    if not epochs or not any(isinstance(value, list | dict) for value in epochs[0].values()):
        return []
    epochs = flattened(epochs)[0]
    counter = _counter(epochs)
    inside = _holder(epochs) if counter else None
    if counter is None or inside is None:
        return []
    records: list[Record] = []
    evaluated = assign(epochs[0]).has("eval_loss")
    for epoch in epochs:
        steps = _records(epoch.get(inside), inside, epoch)
        if evaluated:
            steps = [step for step in steps if not _only_evaluates(tuple(step))]
        told = {
            key: value
            for key, value in epoch.items()
            if not isinstance(value, list) and not has_a_loss([key])
        }
        records += ({counter: epoch[counter], **step} for step in steps)
        if steps:
            records[-1] = {**told, **records[-1]}
    return records


def has_a_loss(names: Iterable[str]) -> bool:
    """Tell whether one of these columns is a training loss."""
    return assign(names).has("loss")


@cache
def _only_evaluates(names: tuple[str, ...]) -> bool:
    found = assign(names)
    return found.has("eval_loss") and not found.has("loss")


def is_column(values: object) -> bool:
    """Tell whether a value is a list of plain values, one a step."""
    return (
        isinstance(values, list)
        and len(values) > LONG
        and not any(isinstance(one, list | dict) for one in values)
    )


def _counter(epochs: Sequence[Record]) -> str | None:
    """Return the key under which the records tell their epoch, each a later one than the last."""
    key = assign(epochs[0]).columns.get("epoch")
    numbers = [epoch.get(key) for epoch in epochs] if key else []
    told = [number for number in numbers if isinstance(number, float)]
    rising = len(told) == len(epochs) and all(a < b for a, b in pairwise(told))
    return key if rising else None


def _holder(epochs: Sequence[Record]) -> str | None:
    """Return the key under which the epochs hold the losses of their steps."""
    first = epochs[0]
    # Beside the epoch's own loss a list may as well hold those of classes or layers.
    mean = has_a_loss(key for key, value in first.items() if not isinstance(value, list))
    for key, value in first.items():
        if not isinstance(value, list) or not value or is_evaluation(key):
            continue
        if isinstance(value[0], dict):
            found = has_a_loss(value[0])
        else:
            found = is_column(value) and has_a_loss([key]) and not mean
        if found:
            return key
    return None


def _records(steps: object, inside: str, epoch: Record) -> list[Record]:
    """Return the records of the steps of one epoch, made of its lists where these are all."""
    if not isinstance(steps, list):
        return []
    if not steps or isinstance(steps[0], dict):
        return [step for step in steps if isinstance(step, dict)]
    lists = {
        key: values
        for key, values in epoch.items()
        if isinstance(values, list) and len(values) == len(steps)
    }
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
