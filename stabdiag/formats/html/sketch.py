"""The loss as a small picture that needs no script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.formats.canvas import Scale
from stabdiag.formats.html.thin import kept

if TYPE_CHECKING:
    from stabdiag.model.report import Report

WIDTH, HEIGHT = 720, 150
_POINTS = 720


@dataclass(frozen=True, kw_only=True)
class Sketch:
    """A curve as SVG has it, one path of several pieces; the ends of its axes; where the event is.

    ``bad`` holds where the loss is not finite, as left edge and width.
    """

    path: str
    first: int
    last: int
    low: float
    high: float
    log: bool
    event: int | None
    event_x: float
    bad: tuple[tuple[float, float], ...]
    width: int = WIDTH
    height: int = HEIGHT


def sketch(report: Report) -> Sketch | None:
    """Return a picture of the loss, or None where there is too little of it."""
    loss = report.history.get("loss")
    if loss is None or len(loss.finite()) < 2:
        return None
    at = kept(loss.values, (), _POINTS)
    steps, values = loss.steps[at], loss.values[at]
    first, last = int(loss.steps[0]), int(loss.steps[-1])
    scale = Scale.of(loss.values)
    good = np.isfinite(values)
    x = (steps - first) / max(last - first, 1) * WIDTH
    y = (1 - scale.share(np.where(good, values, scale.high))) * HEIGHT
    step = report.diagnosis.step
    edges = np.append(x, WIDTH)
    return Sketch(
        path=_path(x, y, good),
        first=first,
        last=last,
        low=scale.low,
        high=scale.high,
        log=scale.log,
        event=step,
        event_x=0.0 if step is None else (step - first) / max(last - first, 1) * WIDTH,
        bad=tuple(
            (float(edges[i]), max(float(edges[i + 1] - edges[i]), 1.0))
            for i in np.flatnonzero(~good).tolist()
        ),
    )


def _path(x: np.ndarray, y: np.ndarray, good: np.ndarray) -> str:
    pieces = []
    pen = "M"
    for left, top, drawn in zip(x.tolist(), y.tolist(), good.tolist(), strict=True):
        if drawn:
            pieces.append(f"{pen}{left:.1f} {top:.1f}")
        pen = "L" if drawn else "M"
    return "".join(pieces)
