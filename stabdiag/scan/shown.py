"""The overview of a scan with output methods: terminal, notebook, JSON and pandas."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final

from stabdiag.api.shown import Displayable
from stabdiag.model import scan as scanned
from stabdiag.model.manifest.parsing import number

if TYPE_CHECKING:
    from stabdiag.model.frames import DataFrame

# Fields of a row that identify a log for the next scan, and the curve for a sparkline.
_INTERNAL_FIELDS: Final = frozenset(
    {"curve", "etag", "key", "limits", "scan", "scanned", "settings"}
)
_COUNT_COLUMNS: Final = ("step", "losses", "first_step", "last_step", "lost_steps", "seed")
_ROW_COLUMNS: Final = tuple(
    entry.name for entry in fields(scanned.Row) if entry.name not in _INTERNAL_FIELDS
)


class Overview(Displayable, scanned.Overview):
    """The result of a scan, with output methods.

    An overview has no truth value; use ``overview.of("error")``, the number of runs that failed.
    """

    _kind = "overview"
    _attribute = 'overview.of("error")'

    def to_pandas(self) -> DataFrame:
        r"""Return a DataFrame with one row for each run, the worst first.

        The other settings of the manifests are columns such as ``setting/weight_decay``, numbers if
        all of their values are.

        >>> from pathlib import Path
        >>> from stabdiag import scan
        >>> losses = [3.0 * 0.99**step + 0.01 * (step * 7 % 5) for step in range(300)]
        >>> for name, last in (("good", 0.2), ("bad", float("nan"))):
        ...     _ = Path(f"{name}.csv").write_text("\n".join(map(str, ["loss", *losses, last])))
        >>> frame = scan(["good.csv", "bad.csv"]).to_pandas()
        >>> frame[["outcome", "step"]]
                     outcome  step
        0  nan-dtype-unknown   300
        1            healthy  <NA>
        """
        from stabdiag.formats.scans import name
        from stabdiag.model.frames import data_frame

        rows = list(self.rows)
        columns = {field: [getattr(row, field) for row in rows] for field in _ROW_COLUMNS}
        columns["run"] = [name(row, self) for row in rows]
        for key in dict.fromkeys(key for row in rows for key in row.settings):
            texts = [row.settings.get(key) for row in rows]
            numbers = [None if text is None else number(text) for text in texts]
            is_number = all(
                (text is None) == (value is None)
                for text, value in zip(texts, numbers, strict=True)
            )
            columns[f"setting/{key}"] = numbers if is_number else texts
        return data_frame(columns, counts=_COUNT_COLUMNS)

    def _repr_html_(self) -> str:
        """Return the overview as a page for a notebook."""
        from stabdiag.formats import render
        from stabdiag.formats.html import framed

        return framed(render(self, "html", self._kind), title=f"{self.runs} runs")
