"""Saves the batches of a step that fails, for the probe."""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

from stabdiag.torch.isolated import is_finite, unwrap
from stabdiag.torch.layers import plain_name
from stabdiag.torch.parameters import Parameters
from stabdiag.torch.probe import ProbeResult, probe
from stabdiag.torch.vector import Vector

# The batch of a failed step, the batch before it, and one that may have been drawn since.
_KEPT_BATCHES = 3

# Weights beyond this size are left to the checkpoints of the run.
_MAX_WEIGHT_BYTES = 256 * 2**20

# A gradient norm of this many times the median of the last norms is a surge.
_SURGE_RATIO = 10.0
_SURGE_WINDOW, _MIN_NORMS = 100, 20

# A later surge is saved if it exceeds the saved one by this factor, and at most this often.
_HIGHER, _MAX_SURGES = 2.0, 5


class SavedFailures:
    """Keeps the last batches, and saves them if a step is not finite or its gradient surges.

    ``run.nan.pt`` has the batches, the random state before each, and the weights if they are still
    finite; ``run.spike.pt`` the same for a surge of the gradient norm. With a loss function and
    weights on the CPU, the probe runs before the step that would spoil them.

    Args:
        model: the model that is trained.
        parameters: its parameters.
        path: the log.
        mode: the option ``on_nonfinite``.
        loss: a function of model and batch, or None.
    """

    def __init__(
        self,
        model: nn.Module,
        parameters: Parameters,
        path: Path,
        *,
        mode: str,
        loss: Callable[[nn.Module, Any], torch.Tensor] | None,
    ) -> None:
        self._model = weakref.ref(model)
        self._parameters = parameters
        self._loss = loss
        self._keeps_batches = mode != "ignore"
        self._recent: deque[dict[str, Any]] = deque(maxlen=_KEPT_BATCHES)
        self._norms: deque[float] = deque(maxlen=_SURGE_WINDOW)
        self._highest_surge, self._surges = 0.0, 0
        self._weights: dict[str, torch.Tensor] | None = None
        self._result: ProbeResult | None = None
        self._is_saved = self._is_examined = False
        self.has_failed = False
        self.nan_path = path.with_suffix(".nan.pt")
        self.spike_path = path.with_suffix(".spike.pt")

    @property
    def last_batch(self) -> Any:
        """The last batch, or None."""
        return self._recent[-1]["batch"] if self._recent else None

    @property
    def files(self) -> dict[str, str] | None:
        """The names of the files for the header; None if no batch is kept."""
        if not self._keeps_batches:
            return None
        return {"nan_file": self.nan_path.name, "spike_file": self.spike_path.name}

    def see_batch(self, step: int, batch: Any) -> None:
        """Keep a batch, and the random state before it is trained on."""
        if self._keeps_batches:
            self._recent.append({"step": step, "batch": batch, "rng": torch.get_rng_state()})

    def postpone(self, count: int) -> None:
        """Assign the last batches to the next step: the step before them was skipped."""
        for entry in list(self._recent)[len(self._recent) - count :]:
            entry["step"] += 1

    def before_step(self, vector: Vector) -> None:
        """Examine a step whose gradients are not finite, while the weights still are.

        On a GPU this would wait for the device, so a failure is noticed a step later there.
        """
        if self._is_examined or not self._recent or not vector.is_on_host:
            return
        if all(map(math.isfinite, vector.read().values())):
            return
        self._is_examined = True
        self._weights = self._finite_weights()
        self._result = self._probe()

    def on_row(self, row: dict[str, Any]) -> None:
        """Add columns to the row of a failed step, and save its batches."""
        loss, norm = row.get("loss", 0.0), row.get("grad_norm", 0.0)
        is_finite_step = math.isfinite(loss) and math.isfinite(norm)
        row["recorder/finite"] = int(is_finite_step)
        if not is_finite_step:
            # A loss scaler skips steps in search of its scale: these are not failures.
            if not math.isfinite(loss) or not row.get("skipped"):
                self._on_failure(row)
        elif norm > 0:
            self._on_norm(row, norm)

    def _on_failure(self, row: dict[str, Any]) -> None:
        self.has_failed = True
        names = [name for name, p in self._parameters.named.items() if not is_finite(p)]
        row["recorder/nonfinite_parameters"] = len(names)
        kept = self._drawn_batches(row["step"])
        if self._is_saved or not kept:
            return
        self._is_saved = True
        weights = self._weights if self._weights is not None else self._finite_weights()
        content = {
            "step": row["step"],
            "batches": kept,
            "nonfinite_parameters": names,
            "weights": weights,
            "result": None if self._result is None else vars(self._result),
        }
        torch.save(content, self.nan_path)
        self._weights = None
        row["recorder/saved_batches"] = len(kept)
        row["recorder/saved_weights"] = int(weights is not None)
        if self._result is not None and not self._result.ok:
            row[f"recorder/failed_phase/{self._result.phase}"] = 1
            row[f"recorder/failed_module/{self._result.module or 'loss'}"] = 1
            if self._result.operation:
                row[f"recorder/failed_operation/{self._result.operation}"] = 1

    def _on_norm(self, row: dict[str, Any], norm: float) -> None:
        """Save the batch of a surge of the gradient norm."""
        usual = median(self._norms) if len(self._norms) >= _MIN_NORMS else math.inf
        self._norms.append(norm)
        is_surge = norm > _SURGE_RATIO * usual and norm > _HIGHER * self._highest_surge
        kept = self._drawn_batches(row["step"]) if is_surge else []
        if kept and self._surges < _MAX_SURGES:
            self._highest_surge, self._surges = norm, self._surges + 1
            torch.save({"step": row["step"], "batches": kept}, self.spike_path)
            row["recorder/saved_surge"] = norm / usual

    def _drawn_batches(self, step: int) -> list[dict[str, Any]]:
        """Return the kept batches, without those that were drawn after the step."""
        return [entry for entry in self._recent if entry["step"] <= step]

    def _finite_weights(self) -> dict[str, torch.Tensor] | None:
        """Return a copy of the weights; None if they are not finite, sharded, or very large."""
        model = self._model()
        if model is None or self._parameters.is_sharded:
            return None
        state = unwrap(model).state_dict()
        tensors = {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
        size = sum(tensor.nbytes for tensor in tensors.values())
        if size > _MAX_WEIGHT_BYTES:
            return None
        if not all(is_finite(p) for p in self._parameters.named.values()):
            return None
        return {plain_name(name): value.detach().cpu().clone() for name, value in tensors.items()}

    def _probe(self) -> ProbeResult | None:
        """Probe the model on the last batch; None if that is not possible."""
        model = self._model()
        if model is None or self._loss is None or self._parameters.is_sharded:
            return None
        try:
            return probe(model, self.last_batch, self._loss, quiet=True)
        except Exception:  # noqa: BLE001 - the batches are saved for the command
            return None
