"""The measures that labels rest on: levels, deviations, and how a run compares with its twin."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def trailing(values: Floats, width: int) -> Floats:
    """The mean of the last `width` values, of fewer at the beginning."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    end = np.arange(1, len(values) + 1)
    start = np.maximum(0, end - width)
    out: Floats = (total[end] - total[start]) / (end - start)
    return out


def centered(values: Floats, half: int) -> Floats:
    """The mean over `half` values on either side."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    at = np.arange(len(values))
    start, end = np.maximum(0, at - half), np.minimum(len(values), at + half + 1)
    out: Floats = (total[end] - total[start]) / (end - start)
    return out


def excess(values: Floats, width: int, least: int = 20, smooth: int = 1) -> Floats:
    """The height of means of `smooth` values above the `width` values before, in deviations.

    Zero where fewer than `least` values, or values without any spread, came before.
    """
    about = values - values.mean()
    total = np.concatenate([[0.0], np.cumsum(about)])
    squares = np.concatenate([[0.0], np.cumsum(about**2)])
    end = np.maximum(0, np.arange(len(values)) + 1 - smooth)
    start = np.maximum(0, end - width)
    count = np.maximum(1, end - start)
    mean = (total[end] - total[start]) / count
    variance = (squares[end] - squares[start]) / count - mean**2
    is_defined = (end - start >= least) & (variance > 1e-9 * np.var(values))
    spread = np.sqrt(np.where(is_defined, variance, 1.0))
    out: Floats = np.where(is_defined, (trailing(about, smooth) - mean) / spread, 0.0)
    return out


def residual_deviation(twin: Floats, around: slice, smooth: int) -> float:
    """The deviation of the twin's own noise, smoothed over `smooth` points, in a stretch."""
    residual = twin - centered(twin, 15)
    return float(np.std(trailing(residual, smooth)[around]))


def level_deviation(twin: Floats, width: int) -> float:
    """The deviation of a mean over `width` points, estimated from means over quarters of it."""
    residual = twin - centered(twin, width)
    quarter = max(1, width // 4)
    count = len(residual) // quarter
    means = residual[: count * quarter].reshape(count, quarter).mean(-1)
    return float(np.std(means) / np.sqrt(width / quarter))


def rise(loss: Floats) -> tuple[float, float, float]:
    """The height of the last tenth above the best tenth, the progress until then, the width."""
    width = max(5, len(loss) // 10)
    level = trailing(loss, width)
    best = float(level[width - 1 :].min())
    start = float(loss[: max(3, len(loss) // 50)].mean())
    return float(level[-1]) - best, start - best, width


def wander(loss: Floats, width: int) -> float:
    """How far levels over `width` points wander about a straight line, in the second half."""
    level = trailing(loss, width)[len(loss) // 2 :]
    at = np.arange(len(level))
    return float(np.std(level - np.polyval(np.polyfit(at, level, 1), at)))
