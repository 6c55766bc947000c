"""The overview as one HTML file, of the kind of a run's own page: it sorts, filters and opens runs.

What logs brought along reaches the page through the template, which escapes it, and through the
data, which the script writes as text alone.
"""

from __future__ import annotations

from itertools import islice
from sys import intern
from typing import TYPE_CHECKING, Any

import numpy as np

from stabdiag.formats import scans as words
from stabdiag.formats.canvas import Scale
from stabdiag.formats.html.shell import page, source
from stabdiag.formats.measured import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stabdiag.model.scan import Overview

_SCRIPTS = ("values.js", "scan.js", "copy.js")

# A browser holds as many runs well, and as many settings of each.
_MOST_ROWS = 20_000
_MOST_SETTINGS = 40

_TYPED = ("peak_lr", "batch_size", "optimizer", "dtype", "seed")
_NUMBERS = ("step", "last_step", "lost_steps", "loss_first", "loss_best", "loss_last", "eval_loss")
_TEXTS = ("outcome", "severity", "format", "headline", "action", "reason")

# A curve is written as letters, the lowest loss as A.
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def html_of(overview: Overview, *, command: str | None = None) -> str:
    """Return the overview as a page; ``command`` is what makes it again, if that is known."""
    severities = ("error", "warning", "note", "ok", None)
    return page(
        "scan.html",
        styles=("page.css", "scan.css"),
        scripts=("\n".join(map(source, _SCRIPTS)),),
        data=_payload(overview),
        overview=overview,
        words=words,
        worst=next((one.severity for one in overview.counts if one.severity), "note"),
        bar=_bar([overview.of(one) for one in severities]),
        shown=min(overview.runs, _MOST_ROWS),
        command=command,
    )


def _bar(counts: Sequence[int]) -> list[tuple[str, float, float]]:
    """Return the parts of a bar: class, left edge and width in percent."""
    shares = np.array(counts) / max(sum(counts), 1) * 100
    lefts = np.cumsum(shares) - shares
    names = ("error", "warning", "note", "ok", "unread")
    parts = zip(names, lefts.tolist(), shares.tolist(), strict=True)
    return [(name, left, share) for name, left, share in parts if share]


def _payload(overview: Overview) -> dict[str, Any]:
    """Return the rows, column by column."""
    columns: dict[str, list[Any]] = {name: [] for name in (*_NUMBERS, *_TEXTS)}
    runs, paths, curves, settings = [], [], [], []
    for row in islice(overview.rows, _MOST_ROWS):  # what is held of a row is less than the row
        runs.append(visible(words.name(row, overview)))
        paths.append(visible(row.path))
        curves.append(_curve(row.curve))
        typed = {name: getattr(row, name) for name in _TYPED}
        settings.append({intern(name): value for name, value in {**row.settings, **typed}.items()})
        for name, column in columns.items():
            column.append(getattr(row, name))
    named = [split.setting for one in overview.common for split in (one.split, *one.along)]
    data: dict[str, Any] = {
        "run": runs,
        "path": paths,
        "curve": curves,
        "settings": {visible(name): _coded(held) for name, held in _settings(settings, named)},
        "told": [visible(name) for name in dict.fromkeys(named)],
    }
    data |= {name: [_short(value) for value in columns[name]] for name in _NUMBERS}
    data |= {name: _coded(columns[name]) for name in _TEXTS}
    return data


def _settings(
    rows: Sequence[Mapping[str, Any]], named: Sequence[str]
) -> list[tuple[str, list[Any]]]:
    """Return the settings that vary, and their values: those that a statement names come first."""
    names = dict.fromkeys([*named, *_TYPED])
    names |= dict.fromkeys(name for row in rows for name in row)
    held = ((name, [row.get(name) for row in rows]) for name in names)
    varying = ((name, values) for name, values in held if len({*values} - {None}) > 1)
    return [(name, _numbers(values)) for name, values in islice(varying, _MOST_SETTINGS)]


def _numbers(values: list[Any]) -> list[Any]:
    """Return values as numbers if they all are: they sort as such."""
    try:
        return [None if value is None else float(value) for value in values]
    except ValueError:
        return values


def _coded(values: Iterable[Any]) -> dict[str, list[Any]]:
    """Return values as a list of those that differ, and the number of each in it; None is -1."""
    numbers: dict[Any, int] = {}
    codes = [-1 if v is None else numbers.setdefault(v, len(numbers)) for v in values]
    shown = [visible(v) if isinstance(v, str) else _short(v) for v in numbers]
    return {"values": shown, "codes": codes}


def _short(value: float | None) -> float | None:
    """Return a number to six digits, as a page shows it."""
    if value is None or not np.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.6g}")


def _curve(values: Sequence[float]) -> str:
    finite = np.array([value for value in values if np.isfinite(value)])
    shares = Scale.of(finite).share(finite)
    return "".join(_LETTERS[i] for i in np.rint(shares * (len(_LETTERS) - 1)).astype(int))
