"""Lists of JSON objects that each hold whole columns: folds, runs, or the curves of a chart."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from stabdiag.model.roles import is_evaluation
from stabdiag.model.roles.opponents import opponent_of
from stabdiag.readers.json.epochs import has_a_loss, is_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.readers.chunks import Piece
    from stabdiag.readers.json.keyed import Path
    from stabdiag.readers.nested import Record

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


def told_apart(columns: dict[Path, list[Piece]]) -> dict[Path, list[Piece]]:
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
    if len(runs) < 2 or opponent_of([f"{name}/loss" for name in runs]):
        return columns
    number = {name: f"{name} #{n}" for n, name in enumerate(runs)}
    return {
        (*path[:shared], number.get(path[shared], path[shared]), *path[shared + 1 :]): pieces
        for path, pieces in columns.items()
    }
