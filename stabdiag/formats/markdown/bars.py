"""The evidence as rows of bars: a chart that every page, mail and terminal shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.formats.canvas import View, bad_columns, strip
from stabdiag.formats.markdown_text import block
from stabdiag.formats.measured import span
from stabdiag.model.text import clipped

if TYPE_CHECKING:
    from stabdiag.formats.subject import Plot
    from stabdiag.model.history import Series

COLUMNS = 60
_LABEL = 20


def chart(plot: Plot) -> str:
    """Return a row of bars for each series, each as high as the highest point in its column.

    What is NaN or infinite is a ``×``; the row below marks the step that the finding names.
    """
    view = View(first=plot.first, last=plot.last, columns=COLUMNS)
    series = (plot.series, *plot.companions)
    labels = [clipped(one.role, _LABEL) for one in series]
    width = max(map(len, labels))
    rows = [
        f"{label:<{width}}  {_bars(one, view)}  {span(one.finite().values)}"
        for label, one in zip(labels, series, strict=True)
    ]
    return block("\n".join([*rows, f"{'step':<{width}}  {_axis(plot, view)}".rstrip()]), "text")


def _bars(series: Series, view: View) -> str:
    bad = bad_columns(series, view)
    drawn = strip(series, view, ascii=False)
    return "".join("×" if b else char for char, b in zip(drawn, bad, strict=True))


def _axis(plot: Plot, view: View) -> str:
    """Return the first and the last step, and the finding's between them where there is room."""
    first, last = str(plot.first), str(plot.last)
    row = list(f"{first}{' ' * (COLUMNS - len(first) - len(last))}{last}")
    if plot.event is not None:
        label = f"▲ {plot.event}"
        begin = min(view.column(plot.event), COLUMNS - len(label))
        room = slice(max(begin - 1, 0), begin + len(label) + 1)
        if "".join(row[room]).strip():  # the finding's step is the one that must be told
            row = [" "] * COLUMNS
        row[begin : begin + len(label)] = label
    return "".join(row)
