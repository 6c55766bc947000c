"""Values under numbered keys: {"epoch_1": {"loss": 2.5, …}, …}, as pandas writes by index."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from stabdiag.model.roles import ROLES, assign, normal
from stabdiag.readers.columns import INDEX
from stabdiag.readers.unnamed import FEWEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
