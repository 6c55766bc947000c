"""Batches that the recorder saved when a step failed, and what its probe found on them."""

from __future__ import annotations

from typing import Final

import numpy as np

from stabdiag.model.frozen import frozen
from stabdiag.model.history import History, recorder_header

_BATCHES: Final = "recorder/saved_batches"
_WEIGHTS: Final = "recorder/saved_weights"
_SURGE: Final = "recorder/saved_surge"
_FAILED: Final = "recorder/failed_{}/"


@frozen
class SavedFailure:
    """The file that the recorder wrote at a step, and the result of the probe if it ran.

    ``phase`` is ``batch``, ``parameters``, ``forward``, ``loss``, ``backward`` or ``optimizer``; it
    is None if the probe did not run. ``operation`` is an aten operation or a node of the graph.
    """

    step: int
    file: str
    has_weights: bool
    phase: str | None
    module: str
    operation: str

    @property
    def command(self) -> str:
        """The command that repeats the step."""
        weights = "" if self.has_weights else " --weights CHECKPOINT"
        return f"python -m stabdiag.torch probe {self.file} --factory train:make{weights}"


def saved_failure(history: History) -> SavedFailure | None:
    """Return the first failed step that the recorder saved."""
    batches = history.finite(_BATCHES)
    file = recorder_header(history.config).get("nan_file")
    if not len(batches) or not isinstance(file, str):
        return None
    step = int(batches.steps[0])
    weights = history.finite(_WEIGHTS)
    return SavedFailure(
        step=step,
        file=file,
        has_weights=bool(len(weights)) and bool(weights.values[0]),
        phase=_logged_name(history, "phase", step),
        module=_logged_name(history, "module", step) or "",
        operation=_logged_name(history, "operation", step) or "",
    )


def saved_surge_file(history: History, step: int) -> str | None:
    """Return the file with the batch of a surge of the gradient norm at a step, if it was saved.

    A later surge overwrites the file.
    """
    surges = history.finite(_SURGE)
    file = recorder_header(history.config).get("spike_file")
    is_last = bool(len(surges)) and int(surges.steps[-1]) == step
    return file if is_last and isinstance(file, str) else None


def _logged_name(history: History, kind: str, step: int) -> str | None:
    """Return the name that the recorder gave at a step, as the last part of a column's name."""
    prefix = _FAILED.format(kind)
    for role, series in history.series.items():
        if role.startswith(prefix) and np.any(series.steps == step):
            return role.removeprefix(prefix)
    return None
