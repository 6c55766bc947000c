"""Lists of different lengths in one log: the rows of the table that their values belong to.

A loss of each batch may be next to a validation loss of each epoch, or the losses of two models.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from stabdiag.model.arrays import Positions
from stabdiag.model.events import Event, EventKind
from stabdiag.model.frozen import frozen
from stabdiag.model.roles.choice import assign
from stabdiag.model.text import clipped, plural

# A list with at least this fraction of the longest length counts as about as long.
SIMILAR_LENGTH: Final = 0.5

# The name of a list is clipped to this length.
_MAX_LIST_NAME: Final = 60

# Roles that do not belong to rows: counts that lack some rows do not order them.
_WITHOUT_ROWS: Final = frozenset({"step", "epoch", "setting"})
# Roles that are known, not measured: the losses set the number of rows.
_KNOWN: Final = frozenset({"lr", "wall_time", *_WITHOUT_ROWS})


@frozen
class Alignment:
    """The rows that the values of a list belong to, and which of its values are used.

    ``description`` says so in one clause, or is empty if each row has a value.
    """

    rows: Positions
    values: Positions
    description: str = ""


def table_length(lengths: Mapping[str, int]) -> int:
    """Return the number of rows of the table that lists of these lengths make.

    This is the length of the longest lists with measures. An evaluation before the first step makes
    its list longer by one than the losses.
    """
    measured = {name: length for name, length in lengths.items() if _roles(name) - _KNOWN}
    counted = measured or lengths
    longest = max(counted.values(), default=0)
    names = [name for name, length in counted.items() if length == longest - 1]
    return longest - 1 if names and assign(names).has("loss") else longest


def name_columns(lengths: Mapping[str, int], rows: int) -> dict[str, str]:
    """Return the name of the column of each list.

    Lists of similar lengths, each with a loss, belong to different models. They get a number, so
    that their losses are not taken as parts of one loss.
    """
    names: dict[int, list[str]] = defaultdict(list)
    for name, length in lengths.items():
        if length == rows or _is_similar(length, rows):
            names[length].append(name)
    models = [length for length in sorted(names, reverse=True) if assign(names[length]).has("loss")]
    if len(models) < 2:
        return {name: name for name in lengths}
    number = {length: f"#{n}/" for n, length in enumerate(models)}
    return {name: f"{number.get(length, '')}{name}" for name, length in lengths.items()}


def align(name: str, length: int, rows: int) -> Alignment | None:
    """Return the rows that the values of a list belong to, in a table of ``rows`` rows.

    Return None for a list of another length that has no role, or whose role has no rows.
    """
    if length == rows:
        return Alignment(rows=np.arange(rows), values=np.arange(rows))
    roles = _roles(name)
    if not length or not roles or roles & _WITHOUT_ROWS:
        return None
    if length < rows and not roles - _KNOWN:
        return None  # learning rates of groups, or of the runs of a search
    if length == rows + 1:
        return Alignment(
            rows=np.arange(rows),
            values=np.arange(1, length),
            description="the first, before the training, is left out",
        )
    shorter, longer = sorted((length, rows))
    each = np.arange(shorter)
    if _is_similar(length, rows):
        first = f"the first {shorter} of both are matched"
        return Alignment(rows=each, values=each, description=first)
    spread = np.arange(1, shorter + 1) * longer // shorter - 1
    stride = f"{longer / shorter:.4g}"
    if length == shorter:
        description = f"one is matched with every {stride} records"
        return Alignment(rows=spread, values=each, description=description)
    return Alignment(rows=each, values=spread, description=f"one of every {stride} is used")


def describe(lengths: Mapping[str, int], rows: int) -> Iterator[Event]:
    """Describe the alignment of the lists of other lengths, one event for each length."""
    names: dict[tuple[int, str], list[str]] = defaultdict(list)
    for name, length in lengths.items():
        alignment = align(name, length, rows)
        if alignment is not None and alignment.description:
            names[length, alignment.description].append(name)
    for (length, description), others in names.items():
        verb = f" and {plural(len(others) - 1, 'more list')} have" if len(others) > 1 else " has"
        yield Event(
            kind=EventKind.COLUMN,
            message=f"{shown_list(others[0])}{verb} {plural(length, 'value')}, others have {rows}: "
            f"{description}",
        )


def shown_list(name: str) -> str:
    """Return the quoted, clipped name of a list."""
    return repr(clipped(name, _MAX_LIST_NAME))


def _is_similar(length: int, rows: int) -> bool:
    """Return True if neither length counts groups of the other's records."""
    shorter, longer = sorted((length, rows))
    return SIMILAR_LENGTH * longer < shorter < longer and length != rows + 1


def _roles(name: str) -> set[str]:
    """Return the roles of a list without the others."""
    return {role.partition("/")[0] for role in assign([name]).columns}
