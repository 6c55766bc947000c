"""The recorder as a callback of Lightning."""

from __future__ import annotations

import os
from typing import Any

from lightning.pytorch import Callback

from stabdiag.torch.recorder import Recorder


class LightningCallback(Callback):  # type: ignore[misc, unused-ignore]
    """Records a run of Lightning: ``Trainer(..., callbacks=[LightningCallback("run.jsonl")])``.

    Evaluations are read from ``val_loss``, or from the metric that ``eval_loss`` names. Other
    options go to ``Recorder``.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, eval_loss: str = "val_loss", **options: Any
    ) -> None:
        self._path, self._options, self._eval_loss = path, options, eval_loss
        self._last_step = 0
        self.recorder: Recorder | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the recorder, once the optimizers are made."""
        optimizers = list(trainer.optimizers)
        if not optimizers:
            return
        self.recorder = Recorder(pl_module, optimizers, self._path, **self._options)
        self._last_step = trainer.global_step
        steps = trainer.estimated_stepping_batches
        checkpoints = trainer.checkpoint_callback
        self.recorder.configure(
            total_steps=int(steps) if steps not in (-1, float("inf")) else None,
            grad_clip=trainer.gradient_clip_val or 0.0,
            checkpoint_every=getattr(checkpoints, "_every_n_train_steps", 0) or None,
        )

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Measure the batch."""
        if self.recorder is not None:
            self.recorder.see_batch(batch)

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Measure the gradients: Lightning computes them inside the optimizer's step."""
        if self.recorder is not None:
            self.recorder.see_gradients(optimizer)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Write the row, if the batch ended an optimizer step."""
        if self.recorder is None or trainer.global_step == self._last_step:
            return
        self._last_step = trainer.global_step
        self.recorder.step(step=trainer.global_step)
        if self.recorder.should_stop:
            trainer.should_stop = True

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Write the loss of an evaluation."""
        loss = trainer.callback_metrics.get(self._eval_loss)
        if self.recorder is not None and loss is not None and not trainer.sanity_checking:
            self.recorder.evaluated(loss, step=trainer.global_step)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Write what is left."""
        if self.recorder is not None:
            self.recorder.close()
