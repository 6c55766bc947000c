"""What is known of a step while it runs, until its row is complete."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from stabdiag.torch.losses import StepLosses
from stabdiag.torch.norms import StepMeasurement
from stabdiag.torch.parameters import Parameters
from stabdiag.torch.vector import Vector, as_vector


@dataclass
class Inputs:
    """Columns of batches, and of the training loop, whose loss is not yet reported."""

    columns: dict[str, float] = field(default_factory=dict)
    values: list[tuple[str, torch.Tensor]] = field(default_factory=list)
    data_time: float = 0.0
    batches: int = 0

    def count_batch(self, seconds: float) -> None:
        """Count a batch, and the time that it took to load."""
        self.data_time += seconds
        self.batches += 1

    def add(self, columns: dict[str, float], values: list[tuple[str, torch.Tensor]]) -> None:
        """Add the measurements of a batch; ``values`` may be on a GPU."""
        self.columns.update(columns)
        self.values += values


class StepRecord:
    """Collects the numbers of one optimizer step, with all its micro-batches.

    ``columns`` are numbers on the host, ``vector`` those that may be on a GPU. ``inputs`` belong to
    the step once the loss of their batch is reported: until then, the step before may still turn
    out to be skipped.
    """

    def __init__(self, inputs: Inputs | None = None) -> None:
        self.inputs = inputs or Inputs()
        self.vector = Vector()
        self.losses = StepLosses()
        self.columns: dict[str, Any] = {}
        self._reported = Inputs()
        self._measurement: StepMeasurement | None = None
        self._used_scale: torch.Tensor | None = None

    @property
    def is_by_layer(self) -> bool:
        """Whether the layers are measured in this step."""
        return self._measurement is not None and self._measurement.by_layer

    def take_loss(self, loss: Any, *, inspects_graph: bool) -> None:
        """Take the loss of a micro-batch; None means the sum of the backward roots."""
        self.take_inputs()
        if loss is None:
            self.losses.add_sum_of_roots(self._used_scale, inspects_graph=inspects_graph)
        else:
            self.losses.add(loss, self.vector, inspects_graph=inspects_graph)

    def take_scale(self, scale: torch.Tensor) -> None:
        """Take the loss scale of a step that may be skipped."""
        self._used_scale = scale.detach().clone()
        self.vector.add(["loss_scale"], as_vector(self._used_scale))

    def measure_before(self, parameters: Parameters, optimizer: Any, *, by_layer: bool) -> None:
        """Measure gradients and weights before the optimizer's step."""
        self._measurement = StepMeasurement(parameters, by_layer=by_layer)
        with torch.no_grad():
            self._measurement.before(self.vector, scale=getattr(optimizer, "grad_scale", None))

    def measure_after(self) -> None:
        """Measure what the optimizer's step changed."""
        if self._measurement is not None:
            with torch.no_grad():
                self._measurement.after(self.vector)

    def forget(self) -> None:
        """Forget a step without a row, but keep what the training loop logged for the next row."""
        self.losses.clear()
        self.inputs.data_time, self.inputs.batches = 0.0, 0
        if self.columns:
            self.columns = {}

    def row(self, step: int, step_time: float | None, modes: dict[str, float]) -> dict[str, Any]:
        """Return the numbers on the host as a row; the rest is in the vector."""
        row = {"step": step, **self.columns, **self.losses.facts, **modes, **self._reported.columns}
        row["step_time"] = step_time
        row["recorder/data_time"] = self._reported.data_time
        row["recorder/micro_steps"] = len(self.losses)
        self.losses.add_mean(row, self.vector)
        for name, value in self._reported.values:
            self.vector.add([name], as_vector(value))
        if self.is_by_layer:
            row["recorder/by_layer"] = 1
        return row

    def take_inputs(self) -> None:
        """Count the inputs so far to this step."""
        self._reported.columns.update(self.inputs.columns)
        self._reported.values += self.inputs.values
        self._reported.data_time += self.inputs.data_time
        self.inputs = Inputs()
