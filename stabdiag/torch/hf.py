"""The recorder as a callback of the Hugging Face Trainer."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from transformers import TrainerCallback

from stabdiag.torch.loader import WatchedLoader
from stabdiag.torch.recorder import Recorder


class HFCallback(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Records a run of the Trainer: ``Trainer(..., callbacks=[HFCallback("run.jsonl")])``.

    The loss of a step is the loss of its backward passes, regardless of ``logging_steps``. The
    options go to ``Recorder``.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        self._path, self._options = path, options
        self._loader: WatchedLoader | None = None
        self.recorder: Recorder | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Start the recorder, once model and optimizer are made."""
        model, optimizer = given.get("model"), given.get("optimizer")
        if model is None or optimizer is None:
            return
        self.recorder = Recorder(model, optimizer, self._path, **self._options)
        if given.get("train_dataloader") is not None:
            with suppress(TypeError, AttributeError):  # a loader without a class of its own
                self._loader = WatchedLoader(given["train_dataloader"], self.recorder)
        saves = getattr(args.save_strategy, "value", args.save_strategy)
        self.recorder.configure(
            peak_lr=args.learning_rate,
            total_steps=state.max_steps,
            warmup_steps=args.get_warmup_steps(state.max_steps),
            schedule=str(getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type)),
            grad_clip=args.max_grad_norm,
            checkpoint_every=int(state.save_steps) if saves == "steps" else None,
            batch_size=args.train_batch_size * args.gradient_accumulation_steps * args.world_size,
            seed=args.seed,
        )

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Write the row of an optimizer step."""
        if self.recorder is None:
            return
        self.recorder.step(step=state.global_step)
        if self.recorder.should_stop:
            control.should_training_stop = True

    def on_evaluate(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Write the loss of an evaluation."""
        loss = (given.get("metrics") or {}).get("eval_loss")
        if self.recorder is not None and loss is not None:
            self.recorder.evaluated(loss, step=state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Write what is left."""
        if self._loader is not None:
            self._loader.close()
            self._loader = None
        if self.recorder is not None:
            self.recorder.close()
