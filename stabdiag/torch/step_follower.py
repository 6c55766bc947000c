"""Follows each training step from its backward pass to its row."""

from __future__ import annotations

import sys
import weakref
from typing import Any

import torch
from torch import nn

from stabdiag.torch import patches
from stabdiag.torch.batches import Batches
from stabdiag.torch.cost import Cost
from stabdiag.torch.failures import SavedFailures
from stabdiag.torch.guard import guarded, uncompiled, untimed
from stabdiag.torch.heldout import HeldoutBatch
from stabdiag.torch.logfile import LogFile
from stabdiag.torch.modes import Modes
from stabdiag.torch.optimizers import Optimizers
from stabdiag.torch.parameters import Parameters
from stabdiag.torch.rhythm import MIN_SLEEP, Rhythm, Sleep
from stabdiag.torch.rows import RowWriter
from stabdiag.torch.skipping import StepSkipper
from stabdiag.torch.stale import StaleGradients
from stabdiag.torch.step_record import Inputs, StepRecord
from stabdiag.torch.unsupported import IN_BACKWARD, UnsupportedTrainingError, describe_error
from stabdiag.torch.vector import as_number, as_vector

# The graph of the loss is inspected in the first steps, and at each probe.
_INSPECTED_STEPS = 3


class StepFollower:
    """What a recorder does between two calls of the training loop.

    PyTorch reports backward passes, optimizer steps, modes, clipped gradients and loss scalers to
    it. A step is *due* if it has a row. Between rows the follower is *idle*: it only counts steps.
    If the training loop reports losses in a steady rhythm, it sleeps: it counts these calls, and
    PyTorch reports no step.
    """

    _model: weakref.ref[nn.Module]
    _optimizers: Optimizers
    _parameters: Parameters
    _modes: Modes
    _failures: SavedFailures
    _rows: RowWriter
    _skipper: StepSkipper | None
    _heldout: HeldoutBatch | None

    def __init__(self, cost: Cost) -> None:
        self._off = False
        self._cost = cost
        self.should_stop = False
        self._stops_at_failure = False
        self._is_idle = self._only_counts = self._stepped = False
        self._step = self._idle_until = 0
        self._rhythm = Rhythm()
        self._sleep: Sleep | None = None
        self._last_event = ""
        self._is_in_backward = self._has_new_gradients = False
        self._batches = Batches()
        self._record = StepRecord()
        self._file: LogFile | None = None
        self._handles: list[Any] = []
        self._stale: StaleGradients | None = None

    def _begin_step(self) -> None:
        self._stepped = False
        self._is_due_next = (self._step + 2) % self._cost.row_every == 0
        self._is_due = (self._step + 1) % self._cost.row_every == 0 or self._step < _INSPECTED_STEPS
        # Between rows almost nothing is done. The step before a row is followed like the row's own.
        is_idle = not (self._is_due or self._is_due_next)
        # The rest of an idle step is to count, unless something is followed at each step.
        self._only_counts = is_idle and not (
            self._modes.has_batch_norms or self._rows.has_waiting or self._skipper
        )
        self._idle_until = self._step + -(self._step + 2) % self._cost.row_every
        if is_idle is not self._is_idle:
            self._is_idle = is_idle
            self._record.losses.clear()
            self._cost.set_idle(is_idle)
            if self._stale is not None:
                self._stale.detach() if is_idle else self._stale.attach()

    # Sleep between rows.

    @untimed
    def _fall_asleep(self) -> None:
        """Follow no step until the one before the next row."""
        if not self._only_counts or not (calls := self._rhythm.calls_per_step):
            return
        steps = self._idle_until - self._step
        if steps < MIN_SLEEP:
            return
        self._sleep = Sleep(steps, calls, self._optimizers.steps_done)
        self._unhook()
        patches.sleep(self)

    @untimed
    def _wake(self, step: int | None) -> None:
        """Follow steps again: the loop has just reported the last loss of one."""
        steps = self._slept_steps if step is None else max(step - self._step, 1)
        self._sleep = None
        patches.wake(self)
        # The finalizer of the recorder has this very list.
        self._handles += self._optimizers.hook(self._before_step, self._after_step)
        self._has_new_gradients = self._is_in_backward = False
        self._step = (self._step + steps if step is None else step) - 1
        self._cost.skipped += steps - 1
        self._cost.slept += steps
        self._last_event = "loss"
        self._finish_without_row()

    @property
    def _slept_steps(self) -> int:
        """The steps since the recorder fell asleep."""
        return 0 if self._sleep is None else self._sleep.steps(self._optimizers.steps_done)

    @property
    def _last_step(self) -> int:
        """The last step that has ended."""
        return self._step + self._slept_steps

    # Reports of the training loop.

    @untimed
    def _count_step(self, step: int | None) -> None:
        """Count a step without a row, or one of its micro-batches."""
        if step is not None:
            self._step = step - 1
        self._record.losses.skip()
        if self._stepped:
            self._rhythm.note(len(self._record.losses))
            self._finish_without_row()
            self._fall_asleep()
        self._last_event = "loss"

    @guarded
    def _report_step(self, loss: Any, step: int | None) -> None:
        if step is not None:
            self._step = step - 1
        self._take_loss(loss)
        if self._stepped:
            self._rhythm.note(len(self._record.losses))
            self._finish_row()
        self._last_event = "loss"

    @guarded
    def _keep_batch(self, batch: Any, seconds: float) -> None:
        self._record.inputs.count_batch(seconds)
        self._failures.see_batch(self._step + 1, batch)
        if self._is_due:
            self._record.inputs.add(*self._batches.measure(batch))

    # Hooks that PyTorch calls.

    def on_backward(self, roots: Any) -> None:
        """Keep the root of a backward pass until the loss is reported."""
        self._last_event = "backward"
        if self._has_new_gradients and self._gradients_are_gone:
            self._end_skipped_step()
        if not self._is_idle:
            self._keep_roots(roots)
        elif not self._only_counts:
            self._modes.on_backward()

    @guarded
    def _keep_roots(self, roots: Any) -> None:
        self._is_in_backward = True
        self._modes.on_backward()
        if self._is_due:
            self._record.losses.add_roots(roots)

    def after_backward(self) -> None:
        """Note the end of a backward pass, and that its gradients wait for a step."""
        self._is_in_backward = False
        self._has_new_gradients = not self._gradients_are_gone

    def on_mode(self, module: Any, training: bool) -> None:
        """Note a switch between training and evaluation mode."""
        # Some loops call ``train()`` at each step, which calls it for each module.
        if not training:
            self._note_evaluation(module)

    @guarded
    def _note_evaluation(self, module: Any) -> None:
        self._modes.on_evaluation_mode(module)

    def on_clip(self, parameters: Any, max_norm: Any, total: Any) -> None:
        """Keep the norm of the gradient before it was clipped."""
        if self._is_due:
            self._keep_clip(parameters, max_norm, total)

    @guarded
    def _keep_clip(self, parameters: Any, max_norm: Any, total: Any) -> None:
        if isinstance(parameters, torch.Tensor):
            parameters = [parameters]
        if any(id(p) in self._parameters.ids for p in parameters):
            self._rows.graph_settings["grad_clip"] = as_number(max_norm)
            self._record.vector.add(["clip"], as_vector(total))

    def on_scaler_step(self, scaler: Any, optimizer: Any, done: bool) -> None:
        """Note the loss scale, and a step that the scaler skipped."""
        if self._sleep is None:
            self._follow_scaler(scaler, optimizer, done)

    @guarded
    def _follow_scaler(self, scaler: Any, optimizer: Any, done: bool) -> None:
        if not self._optimizers.has(optimizer):
            return
        if not done:
            self._record.columns.update(skipped=1, lr=self._optimizers.lr)
            scale = getattr(scaler, "_scale", None) if self._is_due else None
            if scale is not None:
                self._record.take_scale(scale)
        elif self._record.columns.get("skipped"):
            self._end_step()

    # The step of an optimizer may be compiled: it would trace what the hooks call.

    def _before_step(self, optimizer: Any, arguments: Any, keywords: Any) -> None:
        if not self._is_idle:
            self._begin_update(optimizer, arguments, keywords)

    @uncompiled
    @guarded
    def _begin_update(self, optimizer: Any, arguments: Any, keywords: Any) -> None:
        if self._is_in_backward and self._optimizers.shares_parameters(optimizer):
            raise UnsupportedTrainingError(IN_BACKWARD)
        if not self._optimizers.is_main(optimizer, self._parameters.ids):
            return
        if not self._is_due:
            return
        self._record.columns.update(skipped=0, lr=self._optimizers.lr)
        self._record.columns["recorder/optimizer_steps"] = self._optimizers.steps_done
        # A closure computes the gradients after this.
        if all(argument is None for argument in (*arguments[1:], *keywords.values())):
            self._measure_step(optimizer)

    def _measure_step(self, optimizer: Any) -> None:
        """Measure gradients and weights just before the step."""
        self._parameters.note_gradients()
        due = self._step < _INSPECTED_STEPS or (self._step + 1) % self._cost.every == 0
        self._record.measure_before(self._parameters, optimizer, by_layer=due)
        if self._skipper is not None:
            self._skipper.before_step(optimizer)
        overflow = getattr(optimizer, "found_inf", None)
        if overflow is None:
            self._failures.before_step(self._record.vector)
        else:
            self._record.vector.add(["found_inf"], as_vector(overflow))

    def _after_step(self, optimizer: Any, *_: object) -> None:
        self._has_new_gradients = False
        if self._only_counts and self._optimizers.main is optimizer:
            self._stepped = True
            if self._last_event == "loss":
                self._count_optimizer_step()
        else:
            self._end_update(optimizer)

    @untimed
    def _count_optimizer_step(self) -> None:
        self._end_step()

    @uncompiled
    @guarded
    def _end_update(self, optimizer: Any) -> None:
        if not self._optimizers.is_main(optimizer, self._parameters.ids):
            return
        if self._skipper is not None:
            self._skipper.after_step()
        self._record.measure_after()
        stale = None if self._stale is None else self._stale.on_step()
        if stale is not None and self._is_due:
            self._record.columns["recorder/stale_gradients"] = stale
        self._end_step()

    # From a step to a row.

    @property
    def _gradients_are_gone(self) -> bool:
        """Whether the watched parameter has no gradient."""
        return self._stale is None or not self._stale.has_gradient

    @guarded
    def _end_skipped_step(self) -> None:
        """End a step that set its gradients to zero before any optimizer used them.

        The next backward pass shows this: code that skips a step calls nothing else.
        """
        record = self._record
        self._has_new_gradients = False
        if self._stepped or not len(record.losses) or not self._optimizers.are_hooked:
            return
        if not self._is_due:
            self._finish_without_row()
            return
        record.columns.update(skipped=1, lr=self._optimizers.lr)
        self._failures.postpone(record.inputs.batches)
        self._write_step("row", inputs=record.inputs)

    def _end_step(self) -> None:
        """Mark the step as done. A loop that reports the loss before the step ends its row here."""
        self._stepped = True
        if self._last_event == "loss" and len(self._record.losses):
            # No hook may be removed while an optimizer calls it, so the recorder never sleeps here.
            self._rhythm.restart()
            self._finish_row()

    def _take_loss(self, loss: Any) -> None:
        if not self._is_due:
            self._record.losses.skip()
            return
        due = self._step < _INSPECTED_STEPS or (self._step + 1) % self._cost.probe_every == 0
        self._record.take_loss(loss, inspects_graph=due)

    def _finish_row(self) -> None:
        """End a step: send its numbers, and write the row before it."""
        if not self._is_due:
            self._finish_without_row()
            return
        record = self._record
        record.take_inputs()
        part = "layers" if record.is_by_layer else "row"
        if self._heldout is not None and self._measure_heldout(record):
            part = "probe"
        self._write_step(part)

    def _write_step(self, part: str, inputs: Inputs | None = None) -> None:
        """Send the numbers of the step, and begin the next one, which may have inputs by now."""
        record = self._record
        self._step += 1
        row = record.row(self._step, self._cost.step_time, self._modes.on_step())
        self._rows.add(row, record.vector, record.losses.settings)
        self._rows.write_waiting(wait=False)
        self.should_stop = self._stops_at_failure and self._failures.has_failed
        self._cost.end_step(part)
        self._record = StepRecord(inputs)
        self._begin_step()

    def _finish_without_row(self) -> None:
        """End a step that has no row; this is most steps if they are very short."""
        self._step += 1
        self._modes.on_step()
        if self._rows.has_waiting:
            self._write_waiting()
        self._record.forget()
        self._cost.skip_step()
        self._begin_step()

    @guarded
    def _write_waiting(self) -> None:
        self._rows.write_waiting(wait=False)

    def _measure_heldout(self, record: StepRecord) -> bool:
        """Measure the held-out batch, if that is due; return True if it was."""
        model = self._model()
        if model is None or self._heldout is None:
            return False
        if record.is_by_layer:
            self._heldout.update_average(model)
        # Once in the beginning, before training has changed much.
        step = self._step + 1
        if step != 1 and step % self._cost.probe_every:
            return False
        record.columns.update(self._heldout.measure(model, self._failures.last_batch))
        return True

    # The end.

    def _unhook(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _remove_hooks(self) -> None:
        self._sleep = None
        patches.stop_listening(self)
        self._unhook()
        if self._stale is not None:
            self._stale.detach()

    def _switch_off(self, error: Exception) -> None:
        """Stop recording: an error must not reach the training or repeat itself."""
        self._off = True
        message = describe_error(error)
        try:
            self._remove_hooks()
            if self._file is not None:
                self._file.write({"recorder_error": message})
        except Exception:  # noqa: BLE001 - the disk may be what failed
            pass
        sys.stderr.write(f"stabdiag: the recorder is off, training goes on ({message})\n")
