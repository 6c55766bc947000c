"""The last record of a paste, which may break off above its counter."""

from __future__ import annotations

from stabdiag.model.roles.choice import assign
from stabdiag.readers.nested import Record

_COUNTERS = ("step", "epoch")


def complete_last(records: list[Record]) -> list[Record]:
    """Return the records; the last one has the next counts if it breaks off above them.

    Without a count its values would not be in order, and a loss that is not finite would be lost.
    """
    if len(records) < 2 or not _is_start(records[-1], records[-2]):
        return records
    last = dict(records[-1])
    columns = assign(records[-2]).columns
    for name in (columns[role] for role in _COUNTERS if role in columns):
        counts = [record[name] for record in records[-3:-1] if name in record]
        numbers = [count for count in counts if isinstance(count, float)]
        if name not in last and numbers:
            last[name] = numbers[-1] + (numbers[-1] - numbers[0] if len(numbers) > 1 else 1.0)
    return [*records[:-1], last]


def _is_start(cut: Record, complete: Record) -> bool:
    """Return True if a record has only the first names of a complete record."""
    names = list(complete)
    return bool(cut) and len(cut) < len(names) and list(cut) == names[: len(cut)]
