"""The recorder: writes what a diagnosis needs while a model is trained."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter
from typing import Any, Literal

import torch
from torch import nn

from stabdiag.torch import patches
from stabdiag.torch.cost import Cost
from stabdiag.torch.failures import SavedFailures
from stabdiag.torch.guard import guarded
from stabdiag.torch.heldout import HeldoutBatch
from stabdiag.torch.logfile import LogFile
from stabdiag.torch.modes import Modes
from stabdiag.torch.optimizers import Optimizers
from stabdiag.torch.parameters import Parameters
from stabdiag.torch.processes import process_rank
from stabdiag.torch.rows import RowWriter
from stabdiag.torch.skipping import StepSkipper
from stabdiag.torch.stale import StaleGradients
from stabdiag.torch.step_follower import StepFollower
from stabdiag.torch.unsupported import check_supported
from stabdiag.torch.vector import as_number


class Recorder(StepFollower):
    """Records a training run for ``stabdiag diagnose``.

    Training stays identical to the last bit, and no error of the recorder reaches it.

    Args:
        model: the model that is trained.
        optimizer: its optimizer, or several, the main one first.
        path: the log, JSON Lines. A second process of the same run appends to it.
        every: steps between two measurements of all layers.
        probe_every: steps between two forward passes of the held-out batch.
        budget: the fraction of a step's time that the recorder may take.
        on_nonfinite: the reaction to a loss that is not finite: ``record`` the last batches in
            ``run.nan.pt``, ``stop`` ``batches()`` as well, ``skip`` the step (fused optimizers
            only), or ``ignore`` it and keep no batch.
        layers: a regular expression that picks layers by the names of their parameters.
        accelerator: an Accelerator, which has wrapped the model and the optimizer.
        heldout: a batch that is never trained on. With ``loss``, it is measured every
            ``probe_every`` steps.
        loss: a function of model and batch that returns the loss of each example, or of all.
        prefix: put before each column if several recorders write one log.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Any,
        path: str | os.PathLike[str],
        *,
        every: int = 10,
        probe_every: int = 100,
        budget: float = 0.01,
        on_nonfinite: Literal["record", "stop", "skip", "ignore"] = "record",
        layers: str | None = None,
        accelerator: Any = None,
        heldout: Any = None,
        loss: Callable[[nn.Module, Any], torch.Tensor] | None = None,
        prefix: str = "",
    ) -> None:
        super().__init__(Cost(every, probe_every, budget))
        self._closed = False
        self._path = path
        self._set_up(
            model,
            optimizer,
            on_nonfinite=on_nonfinite,
            layers=layers,
            accelerator=accelerator,
            heldout=heldout,
            loss=loss,
            prefix=prefix,
        )

    @guarded
    def _set_up(
        self,
        model: nn.Module,
        optimizer: Any,
        *,
        on_nonfinite: str,
        layers: str | None,
        accelerator: Any,
        heldout: Any,
        loss: Any,
        prefix: str,
    ) -> None:
        self._file = LogFile(self._path, process_rank())
        check_supported(model, optimizer)
        if accelerator is not None:
            model = accelerator.unwrap_model(model)
        self._model = weakref.ref(model)
        self._optimizers = Optimizers(optimizer)
        self._parameters = Parameters(model, layers)
        self._modes = Modes(model)
        self._skipper = StepSkipper(self._parameters) if on_nonfinite == "skip" else None
        self._stops_at_failure = on_nonfinite == "stop"
        self._heldout = None
        if heldout is not None and loss is not None and not self._parameters.is_sharded:
            self._heldout = HeldoutBatch(model, heldout, loss)
        self._failures = SavedFailures(
            model, self._parameters, self._file.path, mode=on_nonfinite, loss=loss
        )
        self._rows = RowWriter(
            model,
            self._optimizers,
            self._parameters,
            self._failures,
            self._file,
            prefix=prefix,
            has_heldout_batch=self._heldout is not None,
        )
        self._step = self._optimizers.steps_done or 0
        self._begin_step()
        self._stale = StaleGradients(
            p for p in self._parameters.named.values() if id(p) in self._optimizers.ids
        )
        self._stale.attach()
        self._handles = self._optimizers.hook(self._before_step, self._after_step)
        patches.listen(self)
        self._finalizer = weakref.finalize(self, _finish, self._file, self._handles)

    # Methods for the training loop.

    def step(self, loss: Any = None, *, step: int | None = None) -> None:
        """Report the loss of a batch, after the optimizer's step; a tensor costs least.

        With gradient accumulation it may be called for each micro-batch, or once. Without a loss,
        it is the sum of what the backward passes of this step began with. ``step`` is the number
        of this step, where it is not counted from the optimizer's first.
        """
        sleep = self._sleep
        if sleep is not None:
            # Most steps of a run whose steps take a millisecond: each call counts.
            sleep.calls_left -= 1
            if sleep.calls_left <= 0 or (step is not None and step >= self._idle_until):
                self._wake(step)
        elif self._is_idle:
            self._count_step(step)
        else:
            self._report_step(loss, step)

    @guarded
    def evaluated(self, loss: Any, *, step: int | None = None) -> None:
        """Report the loss of an evaluation, right after it."""
        self._rows.write_waiting(wait=True)
        row = {"step": self._last_step if step is None else step, "eval_loss": as_number(loss)}
        self._rows.write({**row, **self._modes.on_evaluation()})

    @guarded
    def configure(self, **settings: Any) -> None:
        """Add settings to the header, under the names of a manifest: ``total_steps=10_000``."""
        given = {name: value for name, value in settings.items() if value is not None}
        self._rows.settings.update(given)

    def see_batch(self, batch: Any, seconds: float = 0.0) -> None:
        """Measure a batch that does not come from ``batches()``, before it is trained on."""
        # Between rows a failure is not noticed, so only the batches just before a row are kept.
        if not self._is_idle:
            self._keep_batch(batch, seconds)

    @guarded
    def see_gradients(self, optimizer: Any) -> None:
        """Measure the gradients, where they are computed inside the optimizer's step."""
        if self._is_due and self._optimizers.has(optimizer):
            self._measure_step(optimizer)

    @guarded
    def log(self, **columns: float) -> None:
        """Add columns of your own to the next row, such as ``accuracy``."""
        self._record.inputs.columns.update({name: float(columns[name]) for name in columns})

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """Yield the batches of a loader; measures what they hold, and how long they took."""
        iterator = iter(loader)
        while not self.should_stop:
            if self._sleep is not None:
                for batch in iterator:
                    yield batch
                    if self._sleep is None:
                        break
                else:
                    return
                continue
            start = perf_counter()
            try:
                batch = next(iterator)
            except StopIteration:
                return
            if not self._is_idle:
                self._keep_batch(batch, perf_counter() - start)
            yield batch

    @property
    def cost(self) -> float:
        """The fraction of the run's time that the recorder took so far."""
        return self._cost.fraction

    @property
    def cadence(self) -> tuple[int, int]:
        """The steps between two rows, and between two measurements of all layers."""
        return self._cost.row_every, self._cost.every

    def close(self) -> None:
        """Write what is left, and remove every hook; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._write_rest()
        self._remove_hooks()
        self._off = True
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The end.

    @guarded
    def _write_rest(self) -> None:
        if len(self._record.losses) and self._stepped:
            self._finish_row()
        self._rows.write_waiting(wait=True)


def _finish(file: LogFile | None, handles: Sequence[Any]) -> None:
    for handle in handles:
        handle.remove()
    if file is not None:
        file.close()
