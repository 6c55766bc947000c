"""Keys with a meaning: numbered keys, epochs with the records of their steps, runs by name.

Examples: numbered keys {"epoch_1": {"loss": 2.5, …}, …}, as pandas writes by index; epochs with
steps [{"epoch": 1, "batches": […]}, …]; runs {"sgd": {"loss": […]}, "adam": …}.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Final, TypeAlias, TypeVar

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.fallbacks import fallback_columns
from stabdiag.model.roles.loss_kinds import find_discriminator_loss
from stabdiag.model.roles.names import is_evaluation, normal
from stabdiag.model.roles.table import ROLES
from stabdiag.readers.columns import INDEX
from stabdiag.readers.lengths import shown_list
from stabdiag.readers.nested import Record, flattened
from stabdiag.readers.unnamed import FEWEST
from stabdiag.readers.words import NUMBER, WORD, meaning

# A record may have a list of learning rates, one per group. A longer list is a column.
LONG: Final = 16


# A list as Python or NumPy prints it, with commas or blanks between the numbers.
_LIST_IN_TEXT: Final = lazy_pattern(r"\s*\[([^\[\]]+)\]\s*")
_NUMBER_IN_LIST: Final = lazy_pattern(r"[^\s,]+")


def epoch_steps(epochs: list[Record]) -> list[Record]:
    """Return the records of all steps, in order; none if the records are not epochs with steps.

    Values of a whole epoch are known at its end and belong to its last step. If the epoch has an
    evaluation loss, the batches of the evaluation are not steps, as in the history of skorch.
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
        steps = _records(epoch.get(inside), epoch)
        if evaluated:
            steps = [step for step in steps if not _only_evaluates(tuple(step))]
        summary = {
            key: value
            for key, value in epoch.items()
            if not isinstance(value, list) and not has_a_loss([key])
        }
        records += ({counter: epoch[counter], **step} for step in steps)
        if steps:
            records[-1] = {**summary, **records[-1]}
    return records


def has_a_loss(names: Iterable[str]) -> bool:
    """Return True if one of these columns is a training loss."""
    return assign(names).has("loss")


@cache
def _only_evaluates(names: tuple[str, ...]) -> bool:
    roles = assign(names)
    return roles.has("eval_loss") and not roles.has("loss")


def shown_path(path: Path) -> str:
    """Return the quoted, clipped name of a list."""
    return shown_list("/".join(path))


def list_in_text(text: str) -> list[object]:
    """Return the numbers of a list that was written as text, "[2.5, 2.25]", else an empty list."""
    match = _LIST_IN_TEXT.fullmatch(text)
    cells = [meaning(cell) for cell in _NUMBER_IN_LIST.findall(match[1])] if match else []
    if len(cells) < 2 or any(state == WORD for state, *_ in cells):
        return []
    return [number if state == NUMBER else None for state, number, _ in cells]


def is_column(values: object) -> bool:
    """Return True if a value is a list with a plain value for each step."""
    return (
        isinstance(values, list)
        and len(values) > LONG
        and not any(isinstance(value, list | dict) for value in values)
    )


def _counter(epochs: Sequence[Record]) -> str | None:
    """Return the key of the epoch, if it rises from record to record."""
    key = assign(epochs[0]).columns.get("epoch")
    numbers = [epoch.get(key) for epoch in epochs] if key else []
    valid = [number for number in numbers if isinstance(number, float)]
    rising = len(valid) == len(epochs) and all(a < b for a, b in pairwise(valid))
    return key if rising else None


def _holder(epochs: Sequence[Record]) -> str | None:
    """Return the key of the losses of the steps in each epoch."""
    first = epochs[0]
    # If the epoch has its own loss, a list may have the losses of classes or layers.
    mean = has_a_loss(key for key, value in first.items() if not isinstance(value, list))
    for key, value in first.items():
        if not isinstance(value, list) or not value or is_evaluation(key):
            continue
        if isinstance(value[0], dict):
            has_steps = has_a_loss(value[0])
        else:
            has_steps = is_column(value) and has_a_loss([key]) and not mean
        if has_steps:
            return key
    return None


def _records(steps: object, epoch: Record) -> list[Record]:
    """Return the records of the steps of one epoch, or make them from its lists."""
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

_NUMBERED_KEY: Final = lazy_pattern(r"(\D{0,30}?)[\W_]*(\d{1,15})", re.ASCII)

# Folds, clients and layers are numbered as well.
_COUNTER_ROLES: Final = {
    name: role.name for role in ROLES if role.name in ("step", "epoch") for name in role.names
} | {"": "step"}


def key_number(key: str) -> tuple[str, int] | None:
    """Return the counter of a key, ``step`` or ``epoch``, and its number; else None."""
    match = _NUMBERED_KEY.fullmatch(key)
    counter = _COUNTER_ROLES.get(normal(match[1])) if match else None
    return (counter, int(match[2])) if match and counter else None


def take_keyed(values: dict[Path, object]) -> tuple[Numbered, str]:
    """Remove the values under numbered keys from all values, if they include a loss.

    Returns:
        the values by number, and the counter of the numbers.
    """
    for counter, candidates in _by_counter(values, bare=True).items():
        series = {name: at for name, at in candidates.items() if name and len(at) >= FEWEST}
        names = ["/".join(name) for name in series]
        assigned = assign(names)
        if assigned.has("loss", "eval_loss") or _has_evaluated_measure(names):
            index_name = INDEX if assigned.has(counter) else counter
            return {name: _pop(values, at) for name, at in series.items()}, index_name
    return {}, "step"


def _has_evaluated_measure(names: Sequence[str]) -> bool:
    """Return True if columns have a measure such as train_mse next to val_mse: no folds do."""
    return any(column.eval_loss for column in fallback_columns(names, counted=True))


def join_keyed(
    lists: dict[Path, list[Part]], contain_loss: Callable[[Mapping[Path, list[Part]]], bool]
) -> None:
    """Concatenate the lists under epochs: {"epoch_1": {"loss": […]}, …}.

    Keys that are only a number are skipped, as they may be folds. Lists are joined if
    ``contain_loss`` is true of the joined lists, by their paths without the epoch.
    """
    for paths in _by_counter(lists, bare=False).values():
        joined = {
            name: [part for number in sorted(at) for part in lists[at[number]]]
            for name, at in paths.items()
            if len(at) > 1
        }
        if joined and contain_loss(joined):
            for name, parts in joined.items():
                for path in paths[name].values():
                    del lists[path]
                lists[name] = parts


def _by_counter(paths: Iterable[Path], *, bare: bool) -> dict[str, dict[Path, dict[int, Path]]]:
    """Return paths with a numbered key, by its counter, the other keys, and its number.

    With ``bare``, a key may be only a number.
    """
    result: dict[str, dict[Path, dict[int, Path]]] = defaultdict(lambda: defaultdict(dict))
    for path in paths:
        for place, key in enumerate(path):
            counted = key_number(key) if bare or not key.isdigit() else None
            if counted is not None:
                counter, number = counted
                result[counter][*path[:place], *path[place + 1 :]][number] = path
                break
    return result


def _pop(values: dict[Path, object], at: Mapping[int, Path]) -> tuple[list[int], list[object]]:
    numbers = sorted(at)
    return numbers, [values.pop(at[number]) for number in numbers]


# No chart has more curves or runs than this.
_MAX_CHART_CURVES: Final = 200

# The keys with the name of an object.
_NAME_KEYS: Final = ("name", "label", "title", "id", "run")


def collect_lists(records: Sequence[Record]) -> dict[Path, list[object]]:
    """Return the columns in objects, by the object's name or number; none for records."""
    lists = [
        {
            key: value
            for key, value in record.items()
            if isinstance(value, list) and is_column(value)
        }
        for record in records
    ]
    return label_curves(records, lists)


def label_curves(
    records: Sequence[Record], lists: Sequence[Mapping[str, list[object]]]
) -> dict[Path, list[object]]:
    """Return the lists of each record by its name or number and their own names."""
    if len(records) > _MAX_CHART_CURVES or not all(lists):
        return {}
    names = [
        next((r[key] for key in _NAME_KEYS if isinstance(r.get(key), str)), "") for r in records
    ]
    labels = [str(number) for number in range(len(records))]
    if len(set(names)) == len(names):
        # The number keeps the losses of several runs from being taken as parts of one loss.
        runs = sum(map(has_a_loss, lists)) > 1
        labels = [f"{name} #{n}" if runs else str(name) for n, name in enumerate(names)]
    return {
        (label, key): values
        for label, columns in zip(labels, lists, strict=True)
        for key, values in columns.items()
    }


def number_runs(columns: dict[Path, Part]) -> dict[Path, Part]:
    """Number the runs in one document, each with a loss: {"sgd": {"loss": […]}, "adam": …}.

    Without numbers, their losses would be taken as parts of one loss.
    """
    levels = list(zip(*(path[:-1] for path in columns), strict=False))
    shared = next((at for at, keys in enumerate(levels) if len(set(keys)) > 1), len(levels))
    members: dict[str, list[Path]] = defaultdict(list)
    for path in columns:
        members["/".join(path[shared : shared + 1])].append(path)
    runs = [
        name
        for name, paths in members.items()
        if not any(map(str.isdigit, name))  # a number in the name is enough
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
