"""Keys that tell something: numbers, epochs that hold the records of their steps, runs by name.

Values under numbered keys are such as {"epoch_1": {"loss": 2.5, …}, …}, as pandas writes by index;
epochs with their steps [{"epoch": 1, "batches": […]}, …]; runs {"sgd": {"loss": […]}, "adam": …}.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Final, TypeAlias, TypeVar

from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.loss_kinds import find_discriminator_loss
from stabdiag.model.roles.names import is_evaluation, normal
from stabdiag.model.roles.table import ROLES
from stabdiag.readers.columns import INDEX
from stabdiag.readers.nested import Record, flattened
from stabdiag.readers.unnamed import FEWEST

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


Path: TypeAlias = tuple[str, ...]
Part = TypeVar("Part")
# Numbers and their values, by the path of keys without the numbered one.
Numbered: TypeAlias = dict[Path, tuple[list[int], list[object]]]

_KEY: Final = re.compile(r"(\D{0,30}?)[\W_]*(\d{1,15})", re.ASCII)

# Other things are numbered, too: a fold, a client or a layer.
_COUNTERS: Final = {
    name: role.name for role in ROLES if role.name in ("step", "epoch") for name in role.names
} | {"": "step"}


def number_of(key: str) -> tuple[str, int] | None:
    """Return what a key counts, ``step`` or ``epoch``, and its number; else None."""
    found = _KEY.fullmatch(key)
    counter = _COUNTERS.get(normal(found[1])) if found else None
    return (counter, int(found[2])) if found and counter else None


def take_keyed(values: dict[Path, object]) -> tuple[Numbered, str]:
    """Take the values under numbered keys out of all values, if a loss is among them.

    Returns:
        the values by number, and what the numbers count.
    """
    for counter, found in _by_counter(values, bare=True).items():
        series = {name: at for name, at in found.items() if name and len(at) >= FEWEST}
        assigned = assign("/".join(name) for name in series)
        if assigned.has("loss", "eval_loss"):
            called = INDEX if assigned.has(counter) else counter
            return {name: _pop(values, at) for name, at in series.items()}, called
    return {}, "step"


def join_keyed(
    lists: dict[Path, list[Part]], tell_of_a_loss: Callable[[Mapping[Path, list[Part]]], bool]
) -> None:
    """Concatenate the lists that stand under epochs: {"epoch_1": {"loss": […]}, …}.

    A key that is only a number may as well be that of a fold. ``tell_of_a_loss`` is asked of the
    joined lists, by their paths without the epoch.
    """
    for found in _by_counter(lists, bare=False).values():
        joined = {
            name: [part for number in sorted(at) for part in lists[at[number]]]
            for name, at in found.items()
            if len(at) > 1
        }
        if joined and tell_of_a_loss(joined):
            for name, parts in joined.items():
                for path in found[name].values():
                    del lists[path]
                lists[name] = parts


def _by_counter(paths: Iterable[Path], *, bare: bool) -> dict[str, dict[Path, dict[int, Path]]]:
    """Return paths with a numbered key, by what it counts, the other keys, and its number.

    ``bare`` says whether a key may be a number alone.
    """
    found: dict[str, dict[Path, dict[int, Path]]] = defaultdict(lambda: defaultdict(dict))
    for path in paths:
        for place, key in enumerate(path):
            counted = number_of(key) if bare or not key.isdigit() else None
            if counted is not None:
                counter, number = counted
                found[counter][*path[:place], *path[place + 1 :]][number] = path
                break
    return found


def _pop(values: dict[Path, object], at: Mapping[int, Path]) -> tuple[list[int], list[object]]:
    numbers = sorted(at)
    return numbers, [values.pop(at[number]) for number in numbers]


# Nobody draws or keeps more curves or runs at once.
_MOST: Final = 200

# The keys that an object may be named by.
_NAMES: Final = ("name", "label", "title", "id", "run")


def lists_of(records: Sequence[Record]) -> dict[tuple[str, str], list[object]]:
    """Return the columns in objects, by the object's name or number; none if these are records."""
    lists = [
        {key: one for key, one in record.items() if isinstance(one, list) and is_column(one)}
        for record in records
    ]
    if len(records) > _MOST or not all(lists):
        return {}
    told = [next((r[key] for key in _NAMES if isinstance(r.get(key), str)), "") for r in records]
    called = [str(number) for number in range(len(records))]
    if len(set(told)) == len(told):
        # Not parts of one loss, which would differ in one word.
        runs = sum(map(has_a_loss, lists)) > 1
        called = [f"{name} #{n}" if runs else str(name) for n, name in enumerate(told)]
    return {
        (name, key): values
        for name, found in zip(called, lists, strict=True)
        for key, values in found.items()
    }


def told_apart(columns: dict[Path, Part]) -> dict[Path, Part]:
    """Number runs that lie side by side, each with a loss: {"sgd": {"loss": […]}, "adam": …}.

    By their names alone, their losses would be parts of one.
    """
    levels = list(zip(*(path[:-1] for path in columns), strict=False))
    shared = next((at for at, keys in enumerate(levels) if len(set(keys)) > 1), len(levels))
    members: dict[str, list[Path]] = defaultdict(list)
    for path in columns:
        members["/".join(path[shared : shared + 1])].append(path)
    runs = [
        name
        for name, paths in members.items()
        if not any(map(str.isdigit, name))  # which is told apart as it is
        and not is_evaluation(f"{name}/loss")
        and has_a_loss("/".join(path[shared + 1 :]) for path in paths)
    ]
    if len(runs) < 2 or find_discriminator_loss([f"{name}/loss" for name in runs]):
        return columns
    number = {name: f"{name} #{n}" for n, name in enumerate(runs)}
    return {
        (*path[:shared], number.get(path[shared], path[shared]), *path[shared + 1 :]): pieces
        for path, pieces in columns.items()
    }
