"""Name the columns of a table whose header only numbers them: x1,x2 in a file of losses."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.readers.csv.cells import DELIMITERS
from stabdiag.readers.csv.dialect import LINES, Dialect, content_lines
from stabdiag.readers.csv.headerless import name_table, table_of_cells

# Names that say nothing: x1, V2, Column3, a
_PLACEHOLDER: Final = lazy_pattern(
    r"(?i)[abcuvwxyz]|[xyzv]_?\d{1,2}|(?:col|column|field|var)[_ ]?\d{1,2}"
)


def with_meaning(dialect: Dialect, head: bytes, source: str) -> Dialect:
    """Return a dialect whose header only numbers its columns with names after the file.

    The names of other headers are kept.
    """
    if not all(_PLACEHOLDER.fullmatch(name) for name in dialect.names):
        return dialect
    lines = head[dialect.start :].decode("utf-8", "replace").split("\n")[: LINES + 1]
    content = [lines[place] for place in content_lines(lines, LINES)]
    if dialect.delimiter not in DELIMITERS or not content or assign(dialect.names).columns:
        return dialect
    named = name_table(table_of_cells(content, dialect.delimiter, above=0), source)
    if named is None or named.is_unknown or len(named.names) != len(dialect.names):
        return dialect
    return replace(dialect, names=named.names, assumed=named.event)
