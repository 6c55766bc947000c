"""The settings of a run of the cure benchmark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault of the data, the loss, the model or the loop, beyond plain settings.

    ``name`` is one of the trainer's faults, ``at`` the share of the run after which it strikes and
    ``size`` how bad it is, in the fault's own unit.
    """

    name: str
    at: float = 0.0
    size: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one run. ``lr`` is the peak rate; ``schedule_steps`` the schedule's horizon.

    ``schedule_calls`` is how often the schedule moves in a step, ``schedule_per_epoch`` whether it
    starts again with each epoch. ``width`` is the width of the hidden layers, ``examples`` how many
    training examples there are, ``gain`` a factor on the initial weights.
    """

    task: str
    seed: int = 0
    steps: int = 400
    batch: int = 32
    examples: int = 4096
    optimizer: str = "adamw"
    lr: float = 3e-3
    warmup: int = 20
    schedule: str = "cosine"
    schedule_steps: int | None = None
    schedule_calls: int = 1
    schedule_per_epoch: bool = False
    clip: float | None = 1.0
    weight_decay: float = 0.01
    dtype: str = "fp32"
    scaler: str = "none"
    loss_scale: float = 2.0**14
    width: int = 48
    gain: float = 1.0
    shuffle: bool = True
    faults: tuple[Fault, ...] = ()

    @property
    def horizon(self) -> int:
        """The number of steps over which the schedule decays."""
        return self.schedule_steps or self.steps

    def fault(self, name: str) -> Fault | None:
        """Return the fault of a name, if the run has it."""
        return next((fault for fault in self.faults if fault.name == name), None)

    def without(self, *names: str) -> Settings:
        """Return the settings without some faults."""
        return replace(
            self, faults=tuple(fault for fault in self.faults if fault.name not in names)
        )

    def manifest(self) -> dict[str, object]:
        """Return the manifest that a careful author writes."""
        fields: dict[str, object] = {
            "dtype": self.dtype,
            "optimizer": self.optimizer,
            "peak_lr": self.lr,
            "warmup_steps": self.warmup,
            "schedule": self.schedule,
            "total_steps": self.steps,
            "batch_size": self.batch,
            "weight_decay": self.weight_decay,
            "checkpoint_every": max(self.steps // 10, 10),
            "seed": self.seed,
        }
        classes = CLASSES.get(self.task)
        fields |= {} if classes is None else {"num_classes": classes}
        return fields | ({} if self.clip is None else {"grad_clip": self.clip})


@dataclass(frozen=True, kw_only=True)
class Switch:
    """From ``step`` on, the run continues with other settings, as after a restart."""

    step: int
    settings: Settings


TASKS: Final = ("chars", "images", "blobs", "regression", "sequence")
CLASSES: Final = {"chars": 27, "images": 4, "blobs": 10, "sequence": 8}

# Good rates for each task; a third and three times as much are hardly worse.
HEALTHY: Final = {
    "chars": Settings(task="chars", lr=1e-2),
    "images": Settings(task="images", lr=1e-2, width=16),
    "blobs": Settings(task="blobs", lr=5e-3),
    "regression": Settings(task="regression", lr=1e-2),
    "sequence": Settings(task="sequence", lr=1e-2),
}
