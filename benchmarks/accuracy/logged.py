"""From the rows of a training loop to what a logger writes: one row in `stride` steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
GROUPS = ("attn", "emb", "head", "ln", "mlp")
COLUMNS = (
    *("loss", "grad_norm", "lr", "loss_scale", "batch_id"),
    *(f"weight_norm/{group}" for group in GROUPS),
)


@dataclass(frozen=True)
class Log:
    """Steps, and for each column its values and where it was logged."""

    step: npt.NDArray[np.int64]
    values: Mapping[str, Floats]
    present: Mapping[str, npt.NDArray[np.bool_]]

    def __getitem__(self, name: str) -> Floats:
        """A column's values; NaN where it was not logged."""
        return self.values[name]

    def has(self, name: str) -> bool:
        """Whether a column was logged at all."""
        return name in self.values and bool(self.present[name].any())


def full_log(rows: Sequence[Mapping[str, float | int | None]]) -> Log:
    """Every step."""
    values, present = {}, {}
    for name in COLUMNS:
        values_of_column = [row.get(name) for row in rows]
        values[name] = np.array([np.nan if v is None else float(v) for v in values_of_column])
        present[name] = np.array([v is not None for v in values_of_column])
    return Log(np.array([row["step"] for row in rows], np.int64), values, present)


def six_digits(values: Floats) -> Floats:
    """Six significant digits, as loggers write them."""
    with np.errstate(divide="ignore", invalid="ignore"):
        power = 10.0 ** (5 - np.floor(np.log10(np.abs(values))))
        rounded = np.round(values * power) / power
    return np.where(np.isfinite(rounded) & np.isfinite(power), rounded, values)


def thin(log: Log, stride: int, *, mean: bool, drop: Sequence[str] = ()) -> Log:
    """The last step of each interval; the loss may be the interval's mean."""
    count = len(log.step) // stride
    rows = np.arange(count) * stride + stride - 1
    values, present = {}, {}
    for name in COLUMNS:
        if name.partition("/")[0] in drop:
            continue
        logged = log.present[name][: count * stride].reshape(count, stride)
        values_of_column = log.values[name][: count * stride].reshape(count, stride)
        if name == "loss" and mean:
            picked = values_of_column.mean(-1)
        elif name.startswith("weight_norm"):
            last = stride - 1 - logged[:, ::-1].argmax(-1)
            picked = values_of_column[np.arange(count), last]
        else:
            picked, logged = values_of_column[:, -1], logged[:, -1:]
        values[name] = picked if name in ("loss_scale", "batch_id") else six_digits(picked)
        present[name] = np.asarray(logged.any(-1), np.bool_)
    return Log(log.step[rows], values, present)
