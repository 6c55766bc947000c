"""Name the columns of a table of numbers without a header, by its file and by how they change."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from stabdiag.model.events import Event
from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.readers.csv.cells import BLANKS, DELIMITERS, first_rows, offset
from stabdiag.readers.csv.decimal_commas import without_decimal_commas
from stabdiag.readers.csv.dialect import LINES, Dialect, are_records, content_lines, detect_dialect
from stabdiag.readers.csv.table_shape import MAX_UNNAMED, TableShape
from stabdiag.readers.unnamed import (
    A_TIME,
    FEWEST,
    is_named_loss,
    is_named_score,
    is_rate,
    may_be_losses,
    may_have_losses,
    name_of_course,
    name_of_values,
    naming_event,
)
from stabdiag.readers.words import NUMBER, WORD, meaning

# 2024-03-01 12:00:00.5 and 12:00:00
_TIME: Final = lazy_pattern(
    r"\d{4}[-/]\d\d[-/]\d\d(?:[T _-]\d\d[:-]\d\d(?:[:-]\d\d)?(?:[.,]\d{1,9})?Z?)?"
    r"|\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?"
)

_COUNTER_NAMES: Final = ("step", "epoch")

# What pandas writes above a series or an array without names: ,0,1
_NUMBERED_HEADER: Final = lazy_pattern(r"([,;\t])0(?:\1[1-9]\d?){0,20}\r?")

# The only row of a table has few cells. A longer line is text.
_LONGEST_ONLY_ROW: Final = 1 << 12


@lru_cache(maxsize=1)
def find_table(head: bytes, source: str = "") -> TableShape | None:
    """Return the table at the head of a CSV file without a header. Cached.

    Args:
        head: the bytes at the head of the file.
        source: the name of the file if this selects the format.
    """
    lines = head.decode("utf-8", "replace").split("\n")[:-1]
    places = content_lines(lines, LINES)
    if places and _NUMBERED_HEADER.fullmatch(lines[places[0]]):
        places = places[1:]
    if not places:
        return None
    content = [lines[place] for place in places]
    if len(content) == 1 and len(content[0]) > _LONGEST_ONLY_ROW:
        return None
    for delimiter in DELIMITERS:
        table = table_of_cells(content, delimiter, above=places[0])
        width = len(table.rows[0]) if table.rows else 0
        if width > (2 if len(table.rows) == 1 else max(MAX_UNNAMED, len(table.rows) ** 2)):
            continue  # lists, one a row
        # Or the rows have names, below counts that have none.
        named = width and any(meaning(cell)[0] == WORD for cell in table.rows[0])
        later = [meaning(row[0])[0] == WORD for row in table.rows[1:] if row]
        named = named or (any(later) and all(later))
        if (
            (width > 1 or table.ends_open or table.time)
            and not named
            and are_records(table.rows, width)
        ):
            return table
    # Numbers with only blanks in between also have to look like series.
    table = table_of_cells(content, BLANKS, above=places[0])
    if len(set(map(len, table.rows))) != 1:
        return None
    is_series = bool(table.series or len(table.counted) == 1 or table.names_of_losses)
    # Whole numbers next to scores, if the name of the file says so.
    is_series = is_series or bool(table.names_after_score("score") and is_named_score(source))
    return table if is_series else None


def has_only_unknown_columns(head: bytes, source: str, *, is_complete: bool) -> bool:
    """Return True for a table of numbers whose columns may be anything."""
    if detect_dialect(head, is_complete=is_complete) is not None:
        return False
    table = find_table(head)
    dialect = None if table is None else assumed(table, head, source)
    return table is not None and (dialect is None or dialect.is_unknown)


def table_of_cells(content: list[str], delimiter: str, *, above: int) -> TableShape:
    """Return the table of these lines, which are below some lines ``above`` them."""
    rows, commas = without_decimal_commas(first_rows(content, delimiter), delimiter)
    width = len(rows[0]) if rows else 0
    ends_open = width > 1 and all(len(row) == width and not row[-1].strip() for row in rows)
    rows = [row[:-1] for row in rows] if ends_open else rows
    time = _name_times([row[0].strip() if row else "" for row in rows]) if width > 1 else ""
    return TableShape(
        delimiter=delimiter,
        commas=commas,
        rows=[row[1:] for row in rows] if time else rows,
        above=above,
        ends_open=ends_open,
        time=time,
    )


def _name_times(cells: Sequence[str]) -> str:
    """Return a name for times: dates, or seconds or milliseconds since 1970. Otherwise, ""."""
    if all(map(_TIME.fullmatch, cells)):
        return "date"
    states, times = zip(*(meaning(cell)[:2] for cell in cells), strict=True)
    are_times = {*states} == {NUMBER} and min(times) >= A_TIME and [*times] == sorted(times)
    return "wall_time" if are_times else ""


@frozen
class TableNames:
    """The names given to the columns of a table, and whether none of them is a measure."""

    names: tuple[str, ...]
    event: Event
    is_unknown: bool


def name_table(table: TableShape, source: str) -> TableNames | None:
    """Return names for unnamed losses, or for unknown values next to a counter, else None."""
    named = _assumed_names(table, source)
    if named is None:
        return None
    names, description = named
    measures = (
        name for name in names if name not in _COUNTER_NAMES and not name.startswith("column_")
    )
    loss = "loss" if "loss" in names else next(measures, "step")
    is_unknown = loss == "step" or not assign([loss]).columns
    return TableNames(names=names, event=naming_event(description, loss), is_unknown=is_unknown)


def assumed(table: TableShape, head: bytes, source: str) -> Dialect | None:
    """Return the dialect of a table without names, else None; see ``name_table``."""
    named = name_table(table, source)
    if named is None:
        return None
    return Dialect(
        delimiter=table.delimiter,
        commas=table.commas,
        names=(table.time, *named.names) if table.time else named.names,
        start=offset(head, table.above),
        lines=table.above,
        ends_open=table.ends_open,
        assumed=named.event,
        is_unknown=named.is_unknown,
    )


def _assumed_names(table: TableShape, source: str) -> tuple[tuple[str, ...], str] | None:
    """Return the names of the columns, and a description of the one that is taken."""
    if len(table.rows) < FEWEST:  # a row may have a hundred thousand columns
        return None
    name = name_of_values(source)
    is_series = table.is_series or _is_named(source, table.series)
    if table.series and is_series and not _ends_with_epsilons(table, name):
        name = name_of_course(source, table.series)
        if len(table.rows[0]) == 1:
            return (name,), "the file names no column: its numbers are taken"
        last = "second" if len(table.rows[0]) == 2 else "last"
        counter = "step" if "step" in table.counters else "epoch"
        number = table.counters.index(counter) + 1
        which = "the first" if number == 1 else f"column {number}"
        return (*table.counters, name), (
            f"the file names no columns: {which}, which rises in whole numbers, is taken as the"
            f" {counter}, the {last}"
        )
    may_name = not table.may_overfit
    names = table.names_of_losses if may_name and is_named_loss(source) else ()
    if names:
        count = sum(name.startswith("loss") for name in names)
        which = f"the first of its {count} columns" if count > 1 else "its column"
        return names, (
            f"the file is named after a loss, and names no columns: {which} of decimal numbers is"
            " taken"
        )
    names = table.names_after_score(name) if is_named_score(source) else ()
    if names:
        number = names.index(name) + 1
        return names, f"the file names no columns: column {number} is taken"
    names = table.names_by_course if may_name and may_have_losses(source) else ()
    if names:
        number = names.index("loss") + 1
        return names, f"{_describe(table.counted)} as the step, and column {number}, which falls,"
    if table.counted:
        return table.counted_names, _describe(table.counted)
    return None


def _describe(counted: tuple[str, ...]) -> str:
    """Describe the column of a table without names that is its step."""
    which = "first" if counted[0] == "step" else "second"
    return f"the file names no columns: the {which}, which rises in whole numbers, is taken"


def _ends_with_epsilons(table: TableShape, name: str) -> bool:
    """Return True if the last of several columns behind a step may be epsilons, not the rewards."""
    return len(table.rows[0]) > 2 and assign([name]).has("reward") and is_rate(table.series)


def _is_named(source: str, numbers: Sequence[float]) -> bool:
    """Return True if a file is named after what these numbers may be. A loss may always be 0."""
    may_be = may_be_losses(numbers) or len({*numbers}) == 1
    return is_named_score(source) or (is_named_loss(source) and may_be)
