"""The overview as one HTML file, of the kind of a run's own page: it sorts, filters and opens runs.

What logs brought along reaches the page through the template, which escapes it, and through the
data, which the script writes as text alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np

from stabdiag.formats import scans as words
from stabdiag.formats.canvas import Scale
from stabdiag.formats.html.shell import page, source
from stabdiag.formats.measured import visible
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


class _Coded:
    """Values by run: those that differ, and the number of each run's among them; -1 is none."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._codes = array("i")

    def put(self, run: int, value: object) -> None:
        """Note the value of a run; it may be None, and runs may be left out."""
        self._codes.extend([-1] * (run - len(self._codes)))
        number = self._numbers.setdefault(value, len(self._numbers)) if value is not None else -1
        self._codes.append(number)

    def __len__(self) -> int:
        """Return how many values there are."""
        return len(self._numbers)

    def told(self, runs: int) -> dict[str, Any]:
        """Return them as the page wants them: as numbers if they all are, which sort as such."""
        values: list[Any] = list(self._numbers)
        with suppress(ValueError):
            values = [_short(float(value)) for value in values]
        shown = [visible(one) if isinstance(one, str) else one for one in values]
        return {"values": shown, "codes": [*self._codes, *[-1] * (runs - len(self._codes))]}


def _payload(overview: Overview) -> dict[str, Any]:
    """Return the rows, column by column; what is held of a row is less than the row."""
    numbers: dict[str, list[float | None]] = {name: [] for name in _NUMBERS}
    texts = {name: _Coded() for name in _TEXTS}
    named = [split.setting for one in overview.common for split in (one.split, *one.along)]
    settings = {name: _Coded() for name in [*named, *_TYPED]}
    runs: list[str] = []
    paths, curves = [], []
    for at, row in enumerate(islice(overview.rows, _MOST_ROWS)):
        runs.append(visible(words.name(row, overview)))
        paths.append(visible(row.path))
        curves.append(_curve(row.curve))
        for name, column in numbers.items():
            column.append(_short(getattr(row, name)))
        for name, coded in texts.items():
            coded.put(at, getattr(row, name))
        for name, value in {**row.settings, **{n: getattr(row, n) for n in _TYPED}}.items():
            settings.setdefault(name, _Coded()).put(at, value)
    # Settings that vary, those that a statement names first.
    varying = ((name, coded) for name, coded in settings.items() if len(coded) > 1)
    return {
        "run": runs,
        "path": paths,
        "curve": curves,
        "settings": {
            visible(name): coded.told(len(runs)) for name, coded in islice(varying, _MOST_SETTINGS)
        },
        "told": [visible(name) for name in dict.fromkeys(named)],
        **numbers,
        **{name: coded.told(len(runs)) for name, coded in texts.items()},
    }


def _short(value: float | None) -> float | None:
    if value is None or not np.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.6g}")


def _curve(values: Sequence[float]) -> str:
    finite = np.array([value for value in values if np.isfinite(value)])
    shares = Scale.of(finite).share(finite)
    return "".join(_LETTERS[i] for i in np.rint(shares * (len(_LETTERS) - 1)).astype(int))
