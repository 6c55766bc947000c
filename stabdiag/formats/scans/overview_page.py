"""The overview as one HTML file, similar to the page of a run, with sorting and filters.

Log text enters the page through the template, which escapes it, and through the data, which the
script writes as text only.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np

from stabdiag.formats import scans as words
from stabdiag.formats.canvas import Scale
from stabdiag.formats.html.shell import page, source
from stabdiag.formats.measured import visible
from stabdiag.model.scan import Common, Overview, totals

_OVERVIEW_SCRIPTS = ("values.js", "scan.js", "scan_charts.js", "copy.js")

# Numbers of runs, and of settings per run, that a browser can show.
_MAX_ROWS = 20_000
_MAX_SHOWN_SETTINGS = 40

_TYPED = ("peak_lr", "batch_size", "optimizer", "dtype", "seed")
_NUMBER_COLUMNS = (
    "step",
    "last_step",
    "lost_steps",
    "loss_first",
    "loss_best",
    "loss_last",
    "eval_loss",
)
_TEXTS = ("outcome", "severity", "format", "headline", "action_kind", "action", "reason")

# A curve is written as letters, the lowest loss as A.
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def to_html(overview: Overview, *, command: str | None = None) -> str:
    """Return the overview as a page; ``command`` reproduces it, if known."""
    severities = ("error", "warning", "note", "ok", None)
    return page(
        "scan.html",
        styles=("page.css", "scan.css"),
        scripts=("\n".join(map(source, _OVERVIEW_SCRIPTS)),),
        data=_payload(overview),
        overview=overview,
        words=words,
        worst=next((count.severity for count in overview.counts if count.severity), "note"),
        bar=_bar([overview.of(severity) for severity in severities]),
        titles=words.titles(overview),
        kinds=words.kinds(overview),
        shown=min(overview.runs, _MAX_ROWS),
        command=command,
    )


def _bar(counts: Sequence[int]) -> list[tuple[str, float, float, str]]:
    """Return the parts of a bar: class, left edge and width in percent, and their label."""
    shares = np.array(counts) / max(sum(counts), 1) * 100
    lefts = np.cumsum(shares) - shares
    names = ("error", "warning", "note", "ok", "unread")
    parts = zip(names, lefts.tolist(), shares.tolist(), counts, strict=True)
    return [(name, left, share, totals({name: n})) for name, left, share, n in parts if n]


class _CodedValues:
    """Values by run: the distinct values, and the index of each run's value; -1 is none."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._codes = array("i")

    def put(self, run: int, value: object) -> None:
        """Store the value of a run; it may be None, and runs may be left out."""
        self._codes.extend([-1] * (run - len(self._codes)))
        number = self._numbers.setdefault(value, len(self._numbers)) if value is not None else -1
        self._codes.append(number)

    def __len__(self) -> int:
        """Return the number of distinct values."""
        return len(self._numbers)

    @property
    def values(self) -> list[Any]:
        """The distinct values, in the order of their indices."""
        return list(self._numbers)

    def to_dict(self, runs: int) -> dict[str, Any]:
        """Return the data for the page: as numbers if all values are, so that they sort."""
        values = self.values
        with suppress(ValueError):
            values = [_short(float(value)) for value in values]
        shown = [visible(value) if isinstance(value, str) else value for value in values]
        return {"values": shown, "codes": [*self._codes, *[-1] * (runs - len(self._codes))]}


def _payload(overview: Overview) -> dict[str, Any]:
    """Return the rows by column, without the parts that the page does not need."""
    numbers: dict[str, list[float | None]] = {name: [] for name in _NUMBER_COLUMNS}
    texts = {name: _CodedValues() for name in _TEXTS}
    setting_names = [
        split.setting for common in overview.common for split in (common.split, *common.along)
    ]
    settings = {name: _CodedValues() for name in [*setting_names, *_TYPED]}
    runs: list[str] = []
    paths, curves = [], []
    for index, row in enumerate(islice(overview.rows, _MAX_ROWS)):
        runs.append(visible(words.name(row, overview)))
        paths.append(visible(row.path.removeprefix(overview.root)))
        curves.append(_curve(row.curve))
        for name, column in numbers.items():
            column.append(_short(getattr(row, name)))
        for name, coded in texts.items():
            coded.put(index, getattr(row, name))
        for name, value in {**row.settings, **{n: getattr(row, n) for n in _TYPED}}.items():
            settings.setdefault(name, _CodedValues()).put(index, value)
    # Settings that vary; the ones in a statement come first.
    varying = ((name, coded) for name, coded in settings.items() if len(coded) > 1)
    titles = words.titles(overview)
    return {
        "run": runs,
        "root": visible(overview.root),
        "path": paths,
        "titles": [visible(titles.get(slug, slug)) for slug in texts["outcome"].values],
        "curve": curves,
        "settings": {
            visible(name): coded.to_dict(len(runs))
            for name, coded in islice(varying, _MAX_SHOWN_SETTINGS)
        },
        "common": [_common(common, titles) for common in overview.common],
        **numbers,
        **{name: coded.to_dict(len(runs)) for name, coded in texts.items()},
    }


def _common(common: Common, titles: Mapping[str, str]) -> dict[str, Any]:
    """Return the data for the chart of a common property."""
    split = common.split
    is_ordered = split.relation in ("≥", "<") and not isinstance(split.value, str)
    return {
        "setting": visible(split.setting),
        "cut": split.value if is_ordered else None,
        "outcome": visible(common.outcome),
        "title": visible(titles.get(common.outcome, common.outcome)),
    }


def _short(value: float | None) -> float | None:
    if value is None or not np.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.6g}")


def _curve(values: Sequence[float]) -> str:
    finite = np.array([value for value in values if np.isfinite(value)])
    shares = Scale.of(finite).share(finite)
    return "".join(_LETTERS[i] for i in np.rint(shares * (len(_LETTERS) - 1)).astype(int))
