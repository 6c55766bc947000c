"""Lists of JSON objects that each hold whole columns: folds, runs, or the curves of a chart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stabdiag.roles import assign

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.readers.nested import Record

# A record may hold the learning rates of its groups; a list of more values is a column.
LONG: Final = 16

# Nobody draws or keeps more curves or runs at once.
_MOST: Final = 200

# The keys that an object may be named by.
_NAMES: Final = ("name", "label", "title", "id", "run")


def lists_of(records: Sequence[Record]) -> dict[tuple[str, str], list[object]]:
    """Return the columns in objects, by the object's name or number; none if these are records."""
    lists = [
        {key: one for key, one in record.items() if isinstance(one, list) and _is_column(one)}
        for record in records
    ]
    if len(records) > _MOST or not all(lists):
        return {}
    told = [next((r[key] for key in _NAMES if isinstance(r.get(key), str)), "") for r in records]
    called = [str(number) for number in range(len(records))]
    if len(set(told)) == len(told):
        # Not parts of one loss, which would differ in one word.
        runs = sum(assign(names).has("loss") for names in lists) > 1
        called = [f"{name} #{n}" if runs else str(name) for n, name in enumerate(told)]
    return {
        (name, key): values
        for name, found in zip(called, lists, strict=True)
        for key, values in found.items()
    }


def _is_column(values: list[object]) -> bool:
    return len(values) > LONG and not any(isinstance(one, list | dict) for one in values)
