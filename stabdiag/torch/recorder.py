"""The recorder: writes what a diagnosis needs while a model is trained."""

from __future__ import annotations

import functools
import os
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter
from typing import Any, Literal, TypeVar

import torch
from torch import nn

from stabdiag.torch import patches
from stabdiag.torch.batches import Batches
from stabdiag.torch.cost import Cost
from stabdiag.torch.graph import ends_in_product, inspect_loss, is_scaled
from stabdiag.torch.header import header_of
from stabdiag.torch.held import HeldBatch
from stabdiag.torch.isolated import is_finite
from stabdiag.torch.logfile import LogFile
from stabdiag.torch.modes import Modes
from stabdiag.torch.norms import StepMeasurement, Vector, columns_of
from stabdiag.torch.optimizers import Optimizers
from stabdiag.torch.parameters import Parameters, local
from stabdiag.torch.stale import StaleGradients

_Method = TypeVar("_Method", bound=Callable[..., Any])

# The graph of the loss is inspected in the first steps, and at each probe.
_FIRST_STEPS = 3

# The batch of a step whose loss is not finite, and the one before it.
_KEPT_BATCHES = 3

# Gradients of more micro-batches than this are not followed one by one.
_MAX_ROOTS = 256


def guarded(method: _Method) -> _Method:
    """Make a method that costs what it costs, and switches the recorder off if it fails."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._off:
            return None
        start = perf_counter()
        try:
            return method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - training must go on, whatever went wrong here
            self._switch_off(error)
            return None
        finally:
            self._cost.add(perf_counter() - start)

    return call  # type: ignore[return-value]


class Recorder:
    """Records a training run for ``stabdiag diagnose``.

    Training stays identical to the last bit, and no error of the recorder reaches it.

    Args:
        model: the model that is trained.
        optimizer: its optimizer, or several, the main one first.
        path: the log, JSON Lines. A second process of the same run appends to it.
        every: steps between two measurements of all layers.
        probe_every: steps between two forward passes of the held batch.
        budget: the fraction of a step's time that the recorder may take.
        on_nonfinite: what to do about a loss that is not finite: ``record`` the last batches in
            ``run.nan.pt``, ``stop`` ``batches()`` as well, ``skip`` the step (fused optimizers
            only), or ``ignore`` it and keep no batch.
        layers: a regular expression that picks layers by the names of their parameters.
        scaler: the GradScaler; it is found by itself once it steps the optimizer.
        accelerator: an Accelerator, which has wrapped model and optimizer.
        held: a batch that is never trained on. With ``loss``, it is measured every ``probe_every``
            steps.
        loss: a function of model and batch that returns the loss of each example, or of all.
        prefix: put before each column, where several recorders write one log.
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
        scaler: Any = None,
        accelerator: Any = None,
        held: Any = None,
        loss: Callable[[nn.Module, Any], torch.Tensor] | None = None,
        prefix: str = "",
    ) -> None:
        self._off = False
        self._closed = False
        self._cost = Cost(every, probe_every, budget)
        self._path = path
        self.should_stop = False
        self._file: LogFile | None = None
        self._handles: list[Any] = []
        self._stale: StaleGradients | None = None
        self._set_up(
            model,
            optimizer,
            on_nonfinite=on_nonfinite,
            layers=layers,
            scaler=scaler,
            accelerator=accelerator,
            held=held,
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
        scaler: Any,
        accelerator: Any,
        held: Any,
        loss: Any,
        prefix: str,
    ) -> None:
        if accelerator is not None:
            model = accelerator.unwrap_model(model)
            scaler = scaler or getattr(accelerator, "scaler", None)
        self._model = weakref.ref(model)
        self._optimizers = Optimizers(optimizer)
        self._parameters = Parameters(model, layers)
        self._modes = Modes(model)
        self._scaler = scaler
        self._prefix = prefix
        self._on_nonfinite = on_nonfinite
        self._held = None
        if held is not None and loss is not None and not self._parameters.is_sharded:
            self._held = HeldBatch(model, held, loss)
        self._file = LogFile(self._path, _rank())
        self._step = self._optimizers.steps_done or 0
        self._batches = Batches()
        self._recent: deque[dict[str, Any]] = deque(maxlen=_KEPT_BATCHES)
        self._saved = False
        self._guarded_optimizer: Any = None
        self._header_written = False
        self._settings: dict[str, Any] = {}
        self._clip: float | None = None
        self._reset_step()
        self._waiting: list[tuple[dict[str, Any], Vector]] = []
        self._losses: list[Any] = []
        self._roots: list[tuple[torch.Tensor, Any]] = []
        self._last_event = ""
        self._pending_columns: dict[str, float] = {}
        self._pending_values: list[tuple[str, torch.Tensor]] = []
        self._stale = StaleGradients(
            p for p in self._parameters.named.values() if id(p) in self._optimizers.ids
        )
        self._handles = self._optimizers.hook(self._before_step, self._after_step)
        patches.listen(self)
        self._finalizer = weakref.finalize(self, _finish, self._file, self._handles)

    def _reset_step(self) -> None:
        """Forget what is known of the step that ends."""
        self._vector = Vector()
        self._row: dict[str, Any] = {}
        self._measurement: StepMeasurement | None = None
        self._used_scale: torch.Tensor | None = None
        self._stepped = False
        self._is_due = (self._step + 1) % self._cost.row_every == 0 or self._step < _FIRST_STEPS

    # What the training loop calls.

    @guarded
    def step(self, loss: Any = None, *, step: int | None = None) -> None:
        """Report the loss of a batch, after the optimizer's step; a tensor costs least.

        With gradient accumulation it may be called for each micro-batch, or once. Without a loss,
        it is the sum of what the backward passes of this step began with. ``step`` is the number
        of this step, where it is not counted from the optimizer's first.
        """
        if step is not None:
            self._step = step - 1
        if loss is None:
            self._take_roots()
        else:
            self._take_loss(loss)
        if self._stepped:
            self._finish_row()
        self._last_event = "loss"

    @guarded
    def evaluated(self, loss: Any, *, step: int | None = None) -> None:
        """Report the loss of an evaluation, right after it."""
        self._write_waiting(wait=True)
        row = {"step": self._step if step is None else step, "eval_loss": _number(loss)}
        self._write({**row, **self._modes.on_evaluation()})

    @guarded
    def configure(self, **settings: Any) -> None:
        """Add settings to the header, under the names of a manifest: ``total_steps=10_000``."""
        self._settings.update(
            {name: value for name, value in settings.items() if value is not None}
        )

    @guarded
    def see_batch(self, batch: Any, seconds: float = 0.0) -> None:
        """Measure a batch that does not come from ``batches()``, before it is trained on."""
        self._measure_batch(batch, seconds)

    @guarded
    def see_gradients(self, optimizer: Any) -> None:
        """Measure the gradients, where they are computed inside the optimizer's step."""
        if self._is_due and self._optimizers.has(optimizer):
            self._measure_step(optimizer)

    @guarded
    def log(self, **columns: float) -> None:
        """Add columns of your own to the next row, such as ``accuracy``."""
        self._pending_columns.update({name: float(value) for name, value in columns.items()})

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """Yield the batches of a loader; measures what they hold, and how long they took."""
        iterator = iter(loader)
        while not self.should_stop:
            start = perf_counter()
            try:
                batch = next(iterator)
            except StopIteration:
                return
            self.see_batch(batch, perf_counter() - start)
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

    # What PyTorch calls.

    @guarded
    def on_backward(self, roots: Any) -> None:
        """Keep the root of a backward pass until the loss is reported."""
        self._last_event = "backward"
        self._modes.on_backward()
        if not self._is_due:
            return
        if isinstance(roots, torch.Tensor):
            roots = (roots,)
        for root in roots:
            if root.numel() == 1 and len(self._roots) < _MAX_ROOTS:
                self._roots.append((root.detach(), root.grad_fn))

    @guarded
    def on_mode(self, module: Any, training: bool) -> None:
        """Note a switch between training and evaluation mode."""
        self._modes.on_mode(module, training)

    @guarded
    def on_clip(self, parameters: Any, max_norm: Any, total: Any) -> None:
        """Keep the norm of the gradient before it was clipped."""
        if isinstance(parameters, torch.Tensor):
            parameters = [parameters]
        if self._is_due and any(id(p) in self._parameters.ids for p in parameters):
            self._clip = _number(max_norm)
            self._vector.add(["clip"], _as_vector(total))

    @guarded
    def on_scaler_step(self, scaler: Any, optimizer: Any, done: bool) -> None:
        """Note the loss scale, and a step that the scaler skipped."""
        if not self._optimizers.has(optimizer):
            return
        self._scaler = scaler
        if not done:
            self._row["skipped"] = 1
            scale = getattr(scaler, "_scale", None)
            if scale is not None:
                self._used_scale = scale.detach().clone()
                self._vector.add(["loss_scale"], _as_vector(self._used_scale))
            self._row["lr"] = self._optimizers.lr
        elif self._row.get("skipped"):
            self._end_step()

    @guarded
    def _before_step(self, optimizer: Any, arguments: Any, keywords: Any) -> None:
        if not self._optimizers.is_main(optimizer, self._parameters.ids):
            return
        self._row["skipped"] = 0
        if not self._is_due:
            return
        self._row["lr"] = self._optimizers.lr
        self._row["recorder/optimizer_steps"] = self._optimizers.steps_done
        # A closure computes the gradients after this.
        if all(argument is None for argument in (*arguments[1:], *keywords.values())):
            self._measure_step(optimizer)

    def _measure_step(self, optimizer: Any) -> None:
        """Measure gradients and weights just before the step."""
        self._parameters.note_gradients()
        due = self._step < _FIRST_STEPS or (self._step + 1) % self._cost.every == 0
        self._measurement = StepMeasurement(self._parameters, by_layer=due)
        scale = getattr(optimizer, "grad_scale", None)
        with torch.no_grad():
            self._measurement.before(self._vector, scale=scale)
        if self._on_nonfinite == "skip":
            self._skip_nonfinite(optimizer)
        found = getattr(optimizer, "found_inf", None)
        if found is not None:
            self._vector.add(["found_inf"], _as_vector(found))

    def _skip_nonfinite(self, optimizer: Any) -> None:
        """Let a fused optimizer skip a step whose gradients are not finite, without waiting."""
        if not getattr(optimizer, "_step_supports_amp_scaling", False):
            return
        if getattr(optimizer, "found_inf", None) is None:
            bad = [
                (~torch.isfinite(local(p.grad))).any()
                for p in self._parameters.named.values()
                if p.grad is not None
            ]
            optimizer.found_inf = torch.stack(bad).any().float()
            self._guarded_optimizer = optimizer

    @guarded
    def _after_step(self, optimizer: Any, *_: object) -> None:
        if not self._optimizers.is_main(optimizer, self._parameters.ids):
            return
        if self._guarded_optimizer is not None:
            del self._guarded_optimizer.found_inf
            self._guarded_optimizer = None
        if self._measurement is not None:
            with torch.no_grad():
                self._measurement.after(self._vector)
        stale = None if self._stale is None else self._stale.on_step()
        if stale is not None:
            self._row["recorder/stale_gradients"] = stale
        self._end_step()

    # From a step to a row.

    def _end_step(self) -> None:
        """Mark the step as done. A loop that reports the loss before the step ends its row here."""
        self._stepped = True
        if self._last_event == "loss" and self._losses:
            self._finish_row()

    def _measure_batch(self, batch: Any, seconds: float) -> None:
        if self._on_nonfinite != "ignore":
            self._recent.append(
                {"step": self._step + 1, "batch": batch, "rng": torch.get_rng_state()}
            )
        self._pending_columns["recorder/data_time"] = (
            self._pending_columns.get("recorder/data_time", 0.0) + seconds
        )
        if self._is_due:
            known, pending = self._batches.measure(batch)
            self._pending_columns.update(known)
            self._pending_values += pending

    def _take_loss(self, loss: Any) -> None:
        if not self._is_due:
            self._losses.append(None)
            return
        if isinstance(loss, torch.Tensor):
            if loss.grad_fn is not None:
                self._inspect(loss)
            self._losses.append(loss.detach())
        else:
            self._losses.append(float(loss))

    def _take_roots(self) -> None:
        """Take the roots of the backward passes for the loss, without the loss scale."""
        roots = [root for root, _ in self._roots]
        if not self._is_due or not roots:
            self._losses.append(None)
            return
        nodes = [node for _, node in self._roots if node is not None]
        if nodes and self._inspects_graph:
            self._take_facts(nodes[-1])
        total = torch.stack([root.reshape(()).float() for root in roots]).sum()
        scale = self._used_scale
        self._losses.append(total if scale is None else total / scale.to(total.device))

    @property
    def _inspects_graph(self) -> bool:
        return self._step < _FIRST_STEPS or (self._step + 1) % self._cost.probe_every == 0

    def _take_facts(self, node: Any) -> None:
        facts, settings = inspect_loss(node)
        self._row.update({f"recorder/{name}": value for name, value in facts.items()})
        self._settings = {**settings, **self._settings}

    def _inspect(self, loss: torch.Tensor) -> None:
        """Read the graph of a loss, and compare the roots of backward passes with it."""
        if self._inspects_graph:
            self._take_facts(loss.grad_fn)
        for root, node in self._roots:
            if node is not None and is_scaled(node, loss.grad_fn):
                # A loss that was divided before it was reported hides by how much.
                same = node is loss.grad_fn
                if not (same and ends_in_product(loss)):
                    count = len(self._losses)
                    self._vector.add([("root", count)], _as_vector(root))
                    self._vector.add([("loss", count)], _as_vector(loss))
                break

    def _finish_row(self) -> None:
        """End a step: send its numbers, and write the row before it."""
        is_due = self._is_due
        self._step += 1
        by_layer = self._measurement is not None and self._measurement.by_layer
        part = ("layers" if by_layer else "row") if is_due else None
        row, vector = self._row, self._vector
        losses = self._losses
        self._roots.clear()
        self._losses = []
        modes = self._modes.on_step()
        if is_due and self._held is not None and self._measure_held(by_layer, row):
            part = "probe"
        if is_due:
            row = {"step": self._step, **row, **modes, **self._pending_columns}
            row["recorder/micro_steps"] = len(losses)
            tensors = [value for value in losses if isinstance(value, torch.Tensor)]
            numbers = [value for value in losses if isinstance(value, float)]
            if tensors:
                vector.add(["loss"], _as_vector(torch.stack([t.float() for t in tensors]).mean()))
            elif numbers:
                row["loss"] = sum(numbers) / len(numbers)
            for name, value in self._pending_values:
                vector.add([name], _as_vector(value))
            if by_layer:
                row["recorder/by_layer"] = 1
            vector.send()
            self._waiting.append((row, vector))
        self._pending_columns, self._pending_values = {}, []
        self._write_waiting(wait=False)
        self._reset_step()
        seconds = self._cost.end_step(part)
        if seconds is not None:
            self._pending_columns["step_time"] = seconds

    def _measure_held(self, by_layer: bool, row: dict[str, Any]) -> bool:
        """Measure the held batch, if that is due; return True if it was."""
        model = self._model()
        if model is None or self._held is None:
            return False
        if by_layer:
            self._held.update_average(model)
        # Once in the beginning, before training has changed much.
        if self._step != 1 and self._step % self._cost.probe_every:
            return False
        trained = self._recent[-1]["batch"] if self._recent else None
        row.update(self._held.measure(model, trained))
        return True

    def _write_waiting(self, *, wait: bool) -> None:
        """Write the rows whose numbers have arrived, in order."""
        while self._waiting and (wait or len(self._waiting) > 2 or self._waiting[0][1].is_ready):
            row, vector = self._waiting.pop(0)
            self._write_row(row, vector.read())

    def _write_row(self, row: dict[str, Any], numbers: dict[Any, float]) -> None:
        row.update(columns_of(numbers, self._parameters))
        for name in ("loss", "loss_scale"):
            if name in numbers:
                row[name] = numbers[name]
        row.update({n: v for n, v in numbers.items() if isinstance(n, str) and "/" in n})
        if "clip" in numbers:
            # Clipped gradients have the norm that they were cut to; this one is from before.
            row["grad_norm"] = numbers["clip"]
        if numbers.get("found_inf"):
            row["skipped"] = 1
        self._add_multiple(row, numbers)
        row["recorder/finite"] = int(
            all(
                value == value and abs(value) != float("inf")
                for value in (row.get("loss", 0.0), row.get("grad_norm", 0.0))
            )
        )
        if not row["recorder/finite"]:
            self._on_failure(row)
        if row.pop("recorder/by_layer", None):
            facts = self._parameters.facts(self._optimizers.seen_ids, numbers)
            row.update({f"recorder/{name}": value for name, value in facts.items()})
        # Readers leave out a column that has a single value.
        if row["step"] <= 2:
            row.update(self._parameters.initial_columns())
        self._write({name: value for name, value in row.items() if value is not None})

    def _on_failure(self, row: dict[str, Any]) -> None:
        """Save the batches of a step that is not finite, once, for the probe."""
        if self._on_nonfinite == "stop":
            self.should_stop = True
        bad = sum(not is_finite(p) for p in self._parameters.named.values())
        row["recorder/nonfinite_parameters"] = bad
        # A batch that came after it has nothing to do with the failure.
        kept = [entry for entry in self._recent if entry["step"] <= row["step"]]
        if self._saved or not kept or self._file is None:
            return
        self._saved = True
        path = self._file.path.with_suffix(".nan.pt")
        names = [name for name, p in self._parameters.named.items() if not is_finite(p)]
        torch.save({"step": row["step"], "batches": kept, "nonfinite_parameters": names}, path)
        row["recorder_saved"] = path.name

    def _add_multiple(self, row: dict[str, Any], numbers: dict[Any, float]) -> None:
        """Add by what factor gradients are larger than those of the loss that was reported."""
        scale = row.get("loss_scale", 1.0)
        multiple = 0.0
        for key, root in numbers.items():
            if isinstance(key, tuple) and key[0] == "root":
                loss = numbers["loss", key[1]]
                if not loss or loss != loss:
                    return
                multiple += root / loss / scale
        if multiple:
            row["recorder/gradient_multiple"] = multiple

    def _write(self, row: dict[str, Any]) -> None:
        if self._file is None:
            return
        if self._prefix:
            row = {
                name if name == "step" else f"{self._prefix}{name}": value
                for name, value in row.items()
            }
        model = self._model()
        if not self._header_written and model is not None:
            # The first row of a segment carries the header: by then the loss has been seen.
            self._header_written = True
            header = header_of(
                model,
                self._optimizers,
                self._parameters,
                segment=self._file.segment,
                rank=_rank(),
                settings={"grad_clip": self._clip, **self._settings},
                has_held=self._held is not None,
            )
            row = {**header, **row}
        self._file.write(row)

    # The end.

    @guarded
    def _write_rest(self) -> None:
        if self._losses and self._stepped:
            self._finish_row()
        self._write_waiting(wait=True)

    def _remove_hooks(self) -> None:
        patches.stop_listening(self)
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._stale is not None:
            self._stale.close()

    def _switch_off(self, error: Exception) -> None:
        """Stop recording: an error must not reach the training, nor repeat itself."""
        self._off = True
        message = f"{type(error).__name__}: {error}"
        try:
            self._remove_hooks()
            if self._file is not None:
                self._file.write({"recorder_error": message})
        except Exception:  # noqa: BLE001 - the disk may be what failed
            pass
        sys.stderr.write(f"stabdiag: the recorder is off, training goes on ({message})\n")


def _finish(file: LogFile | None, handles: Sequence[Any]) -> None:
    for handle in handles:
        handle.remove()
    if file is not None:
        file.close()


def _rank() -> int:
    """Return the rank of this process, 0 where there is one."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return int(os.environ.get("RANK", "0"))


def _number(value: Any) -> float:
    return float(value.detach()) if isinstance(value, torch.Tensor) else float(value)


def _as_vector(value: Any) -> torch.Tensor:
    """Return one number as a vector of shape (1,), on its device."""
    if not isinstance(value, torch.Tensor):
        return torch.tensor([float(value)])
    value = value.detach()
    if hasattr(value, "full_tensor"):
        value = value.to_local()
    return value.reshape(-1)[:1].float()
