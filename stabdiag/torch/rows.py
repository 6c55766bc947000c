"""Rows of the log: written in order, once their numbers have arrived from the device."""

from __future__ import annotations

import weakref
from typing import Any

from torch import nn

from stabdiag.torch.failures import SavedFailures
from stabdiag.torch.header import segment_header
from stabdiag.torch.logfile import LogFile
from stabdiag.torch.losses import gradient_multiple
from stabdiag.torch.norms import norm_columns
from stabdiag.torch.optimizers import Optimizers
from stabdiag.torch.parameters import Parameters
from stabdiag.torch.processes import process_rank
from stabdiag.torch.vector import Vector

# Wait for the device if the numbers of more steps than this are pending.
_MAX_WAITING = 2

# The initial sizes of the weights are in this many rows: readers may leave out a single value.
_INITIAL_ROWS = 2


class RowWriter:
    """Turns the measurements of steps into rows of a file.

    ``settings`` go into the header of the segment, which is written with its first row: by then
    the graph of the loss has been inspected.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizers: Optimizers,
        parameters: Parameters,
        failures: SavedFailures,
        file: LogFile,
        *,
        prefix: str,
        has_heldout_batch: bool,
    ) -> None:
        self._model = weakref.ref(model)
        self._optimizers, self._parameters = optimizers, parameters
        self._failures, self._file = failures, file
        self._prefix, self._has_heldout_batch = prefix, has_heldout_batch
        self._has_header = False
        self._waiting: list[tuple[dict[str, Any], Vector]] = []
        self.settings: dict[str, Any] = {}
        self.graph_settings: dict[str, Any] = {}

    def add(self, row: dict[str, Any], vector: Vector, graph_settings: dict[str, Any]) -> None:
        """Add a row; ``vector`` has its numbers that may be on a GPU.

        ``graph_settings`` are those that the graph of its loss shows.
        """
        self.graph_settings = {**graph_settings, **self.graph_settings}
        vector.send()
        self._waiting.append((row, vector))

    @property
    def has_waiting(self) -> bool:
        """Whether a row waits for its numbers."""
        return bool(self._waiting)

    def write_waiting(self, *, wait: bool) -> None:
        """Write the rows whose numbers have arrived, in order."""
        while self._waiting and (
            wait or len(self._waiting) > _MAX_WAITING or self._waiting[0][1].is_ready
        ):
            row, vector = self._waiting.pop(0)
            self._write_step(row, vector.read())

    def _write_step(self, row: dict[str, Any], numbers: dict[Any, float]) -> None:
        row.update(norm_columns(numbers, self._parameters))
        for name in ("loss", "loss_scale"):
            if name in numbers:
                row[name] = numbers[name]
        row.update({n: v for n, v in numbers.items() if isinstance(n, str) and "/" in n})
        if "clip" in numbers:
            # Clipped gradients have the norm that they were cut to; this one is from before.
            row["grad_norm"] = numbers["clip"]
        if numbers.get("found_inf"):
            row["skipped"] = 1
        row["recorder/gradient_multiple"] = gradient_multiple(numbers, row.get("loss_scale", 1.0))
        self._failures.on_row(row)
        if row.pop("recorder/by_layer", None):
            facts = self._parameters.facts(self._optimizers.seen_ids, numbers)
            row.update({f"recorder/{name}": value for name, value in facts.items()})
        if row["step"] <= _INITIAL_ROWS:
            row.update(self._parameters.initial_columns())
        self.write({name: value for name, value in row.items() if value is not None})

    def write(self, row: dict[str, Any]) -> None:
        """Write a row whose numbers are all on the host."""
        if self._prefix:
            row = {
                name if name == "step" else f"{self._prefix}{name}": value
                for name, value in row.items()
            }
        model = self._model()
        if not self._has_header and model is not None:
            self._has_header = True
            header = segment_header(
                model,
                self._optimizers,
                self._parameters,
                segment=self._file.segment,
                rank=process_rank(),
                settings={**self.graph_settings, **self.settings},
                has_heldout_batch=self._has_heldout_batch,
                files=self._failures.files,
            )
            row = {**header, **row}
        self._file.write(row)
