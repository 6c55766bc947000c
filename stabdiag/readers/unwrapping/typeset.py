r"""Rows of LaTeX tables and points of pgfplots, as tables of CSV.

::

    epoch & loss & acc \\ \hline         100 4.75 \\200 4.52 \\        xlabel={Epoch}, ylabel={Loss}
    1 & 2.31 & 0.12 \\                                                 \addplot coordinates
    2 & 2.10 & 0.23 \\                                                     {(0,2.30) (5,1.62)};

A plot becomes a table of its points, with the labels of the axes as names. Plots with the same
counts in one picture are the columns of one table, named after their legends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.source import Stream
from stabdiag.readers.words import NUMBER, meaning

_TYPESET_HEAD: Final = 1 << 16
_MAX_TYPESET: Final = 1 << 20
_MIN_TYPESET_ROWS: Final = 3

_ROW_END: Final = "\\\\"
# Numbers that blanks separate, in front of the end of a row, and their names.
_BARE_ROW: Final = lazy_pattern(r"[-+.\deE]{1,30}(?:[ \t]{1,20}(?:[-+.\deE]{1,30}|nan|inf)){1,30}")
_BARE_NAMES: Final = lazy_pattern(r"[A-Za-z_]\w{0,40}(?:[ \t]{1,20}[A-Za-z_]\w{0,40}){1,30}")
_TABLE_RULE: Final = lazy_pattern(
    r"\\(?:hline|toprule|midrule|bottomrule|addlinespace|cline\{[^{}]{0,40}\})|\[\d[^\[\]]{0,20}\]"
)
# \textbf{0.91} and \num{1e-3}, and commands without an argument.
_ARGUMENT: Final = lazy_pattern(r"\\[A-Za-z]{1,20}\{([^{}]{0,200})\}")
_COMMAND: Final = lazy_pattern(r"\\[A-Za-z]{1,20}\b|\\(?=[%&_#])|[${}]")

_PLOT_OF_POINTS: Final = lazy_pattern(
    r"\\addplot\+?\s{0,40}(?:\[[^\[\]]{0,400}\])?\s{0,40}coordinates\s{0,40}\{([^{}]{1,400000})\}"
    r"\s{0,40};?(?:\s{0,40}\\addlegendentry\{([^{}]{1,80})\})?"
)
_PLOTTED_POINT: Final = lazy_pattern(
    r"\(\s{0,40}([^(),\s]{1,40})\s{0,40},\s{0,40}([^(),\s]{1,40})\s{0,40}\)"
)
_AXIS_LABEL: Final = r"\b%s\s{0,40}=\s{0,40}(?:\{([^{}]{1,80})\}|([^,\]{}]{1,80}))"
_X_LABEL: Final = lazy_pattern(_AXIS_LABEL % "xlabel")
_Y_LABEL: Final = lazy_pattern(_AXIS_LABEL % "ylabel")
_PLOT_LEGEND: Final = lazy_pattern(
    r"\\legend\{([^{}]{1,400})\}|legend entries\s{0,40}=\s{0,40}\{([^{}]+)\}"
)
_AXIS: Final = "\\begin{axis}"


def untypeset(stream: Stream) -> Stream:
    """Return the stream with plain tables in place of LaTeX, or the stream itself."""
    head = stream.peek(_TYPESET_HEAD)
    has_plots = b"\\addplot" in head and b"coordinates" in head
    if not has_plots and head.count(b"\\\\") < _MIN_TYPESET_ROWS:
        return stream
    data = stream.peek(_MAX_TYPESET)
    if len(data) == _MAX_TYPESET or b"\0" in data:
        return stream
    text = data.decode("utf-8", "replace")
    plain = "\n\n".join(map(_plotted, text.split(_AXIS))).strip() if has_plots else ""
    plain = plain or "\n".join(_with_rows(text.split("\n")))
    return stream if plain == text else stream.rewritten(iter([plain.encode()]))


def _with_rows(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines, those that end as rows of LaTeX as rows of plain tables."""
    bare = [row.strip() for line in lines for row in line.split(_ROW_END) if row.strip()]
    has_names = _BARE_NAMES.fullmatch("".join(bare[:1])) is not None
    if len(bare) >= _MIN_TYPESET_ROWS + has_names and all(
        map(_BARE_ROW.fullmatch, bare[has_names:])
    ):
        yield from bare
        yield ""
        return
    rows = [_cells(line) for line in lines]
    table = [row for row in rows if row]
    # Programs print rows to be pasted into a table, which begin with & and have their names above.
    is_pasted = not any(row[0] for row in table)
    if is_pasted or len(table) < _MIN_TYPESET_ROWS or _is_broken(table):
        yield from lines
        return
    for line, row in zip(lines, rows, strict=True):
        yield ",".join(row) if row else line


def _is_broken(rows: Sequence[Sequence[str]]) -> bool:
    """Return True if a table begins with numbers, and has other values further below.

    Without names, only a reader of text finds the place of a loss that is not a number.
    """
    return _has_only_numbers(rows[0]) and not all(map(_has_only_numbers, rows))


def _has_only_numbers(row: Sequence[str]) -> bool:
    return all(meaning(cell)[0] == NUMBER for cell in row)


def _cells(line: str) -> list[str]:
    """Return the cells of a row of LaTeX with at least two, else nothing."""
    row = _TABLE_RULE.sub("", line).strip()
    if not row.endswith(_ROW_END) or "&" not in row:
        return []
    return [_plain(cell) for cell in row.removesuffix(_ROW_END).split("&")]


def _plain(cell: str) -> str:
    if "\\" not in cell and "$" not in cell:
        return cell.replace(",", ";").strip()
    return _COMMAND.sub("", _ARGUMENT.sub(r"\1", cell)).replace(",", ";").strip()


def _plotted(axis: str) -> str:
    """Return the points of the plots of an axis as CSV, or "" without plots."""
    plots = [
        (_PLOTTED_POINT.findall(plot[1]), plot[2] and _plain(plot[2]))
        for plot in _PLOT_OF_POINTS.finditer(axis)
    ]
    if not plots or len(plots[0][0]) < _MIN_TYPESET_ROWS:
        return ""
    x_name, y_name = (_find_label(label, axis) for label in (_X_LABEL, _Y_LABEL))
    legend = [
        _plain(name) for name in (_first(_PLOT_LEGEND, axis) or "").split(",") if name.strip()
    ]
    counts = [x for x, _ in plots[0][0]]
    alike = [*takewhile(lambda plot: [x for x, _ in plot[0]] == counts, plots)]
    legend += [""] * len(alike)
    names = [name or legend[at] for at, (_, name) in enumerate(alike)]
    columns = [" - ".join(filter(None, (name, y_name))) or "value" for name in names]
    columns = columns if len(alike) > 1 else [y_name or columns[0]]
    rows = zip(counts, *([y for _, y in points] for points, _ in alike), strict=True)
    return "\n".join(map(",".join, [[x_name or "step", *columns], *rows])) + "\n"


def _find_label(pattern: re.Pattern[str], axis: str) -> str:
    return _plain(_first(pattern, axis) or "")


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return None if match is None else next(filter(None, match.groups()), None)
