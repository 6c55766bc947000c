"""The everyday failures: their changes to healthy settings, and where to look for them.

``fixed_by`` lists the kinds of advice that lead to a fault outside the plain settings: a look at
the place that the advice names finds and fixes the fault. Only an action with the right number
fixes a failure of plain settings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from settings import HEALTHY, TASKS, Fault, Settings

Break = Callable[[Settings, float], Settings]

CLASSIFIERS: Final = ("chars", "images", "blobs", "sequence")
FLOATS: Final = ("images", "blobs", "regression")
EMBEDDED: Final = ("chars", "sequence")


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A kind of failure: ``broken`` gives the settings for each of its ``sizes``."""

    name: str
    family: str
    broken: Break
    sizes: tuple[float, ...]
    tasks: tuple[str, ...] = TASKS
    fixed_by: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Case:
    """One broken run of the benchmark."""

    failure: Failure
    task: str
    size: float
    seed: int

    @property
    def key(self) -> str:
        """The name of the run."""
        return f"{self.failure.name}/{self.task}/{self.size:g}/{self.seed}"

    @property
    def twin(self) -> Settings:
        """The settings without the failure."""
        return replace(HEALTHY[self.task], seed=self.seed)

    @property
    def settings(self) -> Settings:
        """The settings with it."""
        return self.failure.broken(self.twin, self.size)


def with_fault(name: str, at: float = 0.0) -> Break:
    """Return a function that adds a fault of a given size to a run."""
    return lambda run, size: replace(run, faults=(*run.faults, Fault(name=name, at=at, size=size)))


def fault(
    name: str,
    family: str,
    *,
    sizes: tuple[float, ...] = (1.0,),
    at: float = 0.0,
    tasks: tuple[str, ...] = TASKS,
    fixed_by: tuple[str, ...] = (),
) -> Failure:
    """Return a failure that is one fault of the trainer."""
    return Failure(
        name=name,
        family=family,
        broken=with_fault(name, at),
        sizes=sizes,
        tasks=tasks,
        fixed_by=fixed_by,
    )


DATA: Final = ("inspect-data", "fix-loader", "skip-batches")
LABELS: Final = ("check-labels", "inspect-data")
LOSS: Final = ("check-loss-function", "safe-operations", "inspect-layers")
MODEL: Final = ("check-model",)
ORDER: Final = ("shuffle-data", "fix-loader")
RESUME: Final = ("restore-state",)
EVALUATION: Final = ("check-evaluation",)

FAILURES: Final = (
    # The learning rate.
    Failure(
        name="rate-too-high",
        family="learning rate",
        broken=lambda run, size: replace(run, lr=run.lr * size),
        sizes=(30.0, 100.0, 300.0),
    ),
    Failure(
        name="rate-too-high-unclipped",
        family="learning rate",
        broken=lambda run, size: replace(run, lr=run.lr * size, clip=None, optimizer="sgd"),
        sizes=(100.0, 300.0),
    ),
    Failure(
        name="rate-too-low",
        family="learning rate",
        broken=lambda run, size: replace(run, lr=run.lr / size),
        sizes=(100.0, 300.0),
    ),
    Failure(
        name="no-warmup",
        family="schedule",
        broken=lambda run, size: replace(run, lr=run.lr * size, warmup=0, clip=None),
        sizes=(8.0, 20.0),
        tasks=("chars", "sequence"),
    ),
    Failure(
        name="endless-warmup",
        family="schedule",
        broken=lambda run, size: replace(run, lr=run.lr * 3, warmup=int(run.steps * size)),
        sizes=(20.0, 100.0),
    ),
    Failure(
        name="schedule-stepped-twice",
        family="schedule",
        broken=lambda run, size: replace(run, schedule_calls=int(size)),
        sizes=(2.0, 4.0),
        fixed_by=("fix-schedule",),
    ),
    Failure(
        name="schedule-each-epoch",
        family="schedule",
        broken=lambda run, size: replace(run, schedule_per_epoch=True, lr=run.lr * size),
        sizes=(3.0,),
        fixed_by=("fix-schedule",),
    ),
    Failure(
        name="never-decays",
        family="schedule",
        broken=lambda run, size: replace(run, schedule="constant", lr=run.lr * size),
        sizes=(5.0,),
        fixed_by=("fix-schedule",),
    ),
    Failure(
        name="decays-early",
        family="schedule",
        broken=lambda run, size: replace(run, schedule_steps=int(run.steps * size)),
        sizes=(0.1, 0.2),
        fixed_by=("fix-schedule",),
    ),
    # Gradients, weights, initial values.
    Failure(
        name="no-clipping",
        family="gradients",
        broken=lambda run, size: with_fault("outliers")(
            replace(run, clip=None, optimizer="sgd", lr=run.lr * 10), size
        ),
        sizes=(10.0, 30.0),
        tasks=FLOATS,
        fixed_by=DATA,
    ),
    Failure(
        name="weight-decay-decoupled",
        family="weight decay",
        broken=lambda run, size: replace(run, weight_decay=size),
        sizes=(3.0, 30.0),
    ),
    Failure(
        name="weight-decay-l2",
        family="weight decay",
        broken=lambda run, size: replace(run, weight_decay=size, optimizer="adam"),
        sizes=(0.1, 1.0),
    ),
    Failure(
        name="initial-weights-large",
        family="model",
        broken=lambda run, size: replace(run, gain=size),
        sizes=(10.0,),
        fixed_by=MODEL,
    ),
    fault("embedding-large", "model", sizes=(30.0, 300.0), tasks=EMBEDDED, fixed_by=MODEL),
    fault(
        "dead-units",
        "model",
        sizes=(10.0,),
        tasks=("blobs", "regression"),
        fixed_by=(*MODEL, "change-model"),
    ),
    fault("frozen", "model", tasks=CLASSIFIERS, fixed_by=MODEL),
    fault("head-replaced", "model", fixed_by=MODEL),
    # Precision.
    Failure(
        name="fp16-unscaled",
        family="precision",
        broken=lambda run, size: with_fault("no-master-weights")(
            replace(run, dtype="fp16", scaler="none"), size
        ),
        sizes=(1.0,),
        fixed_by=("dynamic-loss-scale", "change-dtype"),
    ),
    Failure(
        name="fp16-static-scale",
        family="precision",
        broken=lambda run, size: replace(run, dtype="fp16", scaler="static", loss_scale=2.0**size),
        sizes=(20.0, 24.0),
        fixed_by=("dynamic-loss-scale",),
    ),
    Failure(
        name="fp16-scaler-floor",
        family="precision",
        broken=lambda run, size: with_fault("scaler-floor")(
            replace(run, dtype="fp16", scaler="dynamic", gain=size, clip=None), size
        ),
        sizes=(40.0,),
        fixed_by=("change-dtype",),
    ),
    Failure(
        name="bf16-updates-lost",
        family="precision",
        broken=lambda run, size: with_fault("no-master-weights")(
            replace(run, dtype="bf16", lr=run.lr / size), size
        ),
        sizes=(30.0,),
        fixed_by=("change-dtype", "check-precision"),
    ),
    # The loss.
    Failure(
        name="log-of-zero",
        family="loss",
        broken=lambda run, size: with_fault("log-of-zero")(replace(run, lr=run.lr * size), size),
        sizes=(20.0,),
        tasks=CLASSIFIERS,
        fixed_by=LOSS,
    ),
    fault("empty-mask", "loss", sizes=(0.05, 0.2), at=0.3, fixed_by=(*LOSS, *DATA)),
    fault("softmax-twice", "loss", tasks=CLASSIFIERS, fixed_by=(*LOSS, *MODEL)),
    fault("no-mask", "loss", tasks=("chars",), fixed_by=(*LOSS, *MODEL, *DATA)),
    fault("auxiliary-loss", "loss", sizes=(3.0, 30.0), fixed_by=LOSS),
    fault("no-zero-grad", "loop", fixed_by=(*LOSS, *MODEL)),
    Failure(
        name="accumulated",
        family="loop",
        broken=lambda run, size: with_fault("accumulated")(
            replace(run, optimizer="sgd", clip=None, lr=run.lr * 10), size
        ),
        sizes=(16.0, 64.0),
        fixed_by=LOSS,
    ),
    # Data and labels.
    fault("nan-in-data", "data", sizes=(100.0, 700.0), tasks=FLOATS, fixed_by=(*DATA, *LOSS)),
    fault("corrupt-shard", "data", sizes=(3.0, 10.0), at=0.5, fixed_by=DATA),
    fault("other-shard", "data", sizes=(1.0, 3.0), at=0.5, fixed_by=DATA),
    fault("labels-shuffled", "labels", sizes=(1.0,), fixed_by=LABELS),
    fault("labels-shifted", "labels", fixed_by=LABELS),
    fault("labels-wrong-from", "labels", sizes=(0.5, 1.0), at=0.5, fixed_by=LABELS),
    fault("leak", "labels", tasks=FLOATS, fixed_by=(*LABELS, "check-evaluation")),
    Failure(
        name="sorted",
        family="order",
        broken=lambda run, size: with_fault("sorted")(replace(run, shuffle=False), size),
        sizes=(1.0,),
        tasks=("images", "blobs"),
        fixed_by=ORDER,
    ),
    fault("same-batch", "order", at=0.0, fixed_by=(*ORDER, *DATA)),
    # Resuming.
    fault("resume-no-optimizer", "resume", at=0.6, fixed_by=RESUME),
    fault("resume-no-schedule", "resume", at=0.6, fixed_by=(*RESUME, "fix-schedule")),
    # What the model generalizes to.
    Failure(
        name="overfit",
        family="generalization",
        broken=lambda run, size: replace(run, examples=int(size), width=4 * run.width),
        sizes=(64.0, 200.0),
        fixed_by=("regularize", "stop-early"),
    ),
    Failure(
        name="underfit",
        family="generalization",
        broken=lambda run, size: replace(run, width=int(size)),
        sizes=(2.0, 4.0),
        fixed_by=("change-model",),
    ),
    fault("eval-in-train-mode", "evaluation", tasks=FLOATS, fixed_by=EVALUATION),
    fault("eval-other-input", "evaluation", sizes=(0.1, 10.0), fixed_by=(*EVALUATION, *DATA)),
    Failure(
        name="batch-of-one",
        family="evaluation",
        broken=lambda run, size: replace(run, batch=int(size)),
        sizes=(2.0,),
        tasks=("images",),
        fixed_by=("change-batch", "change-model"),
    ),
    # Kinds that were added last: no rule was developed on them.
    Failure(
        name="clip-far-too-low",
        family="gradients",
        broken=lambda run, size: replace(run, optimizer="sgd", lr=run.lr * 5, clip=size),
        sizes=(0.003, 0.03),
    ),
    Failure(
        name="optimizers-mixed-up",
        family="learning rate",
        broken=lambda run, size: replace(run, optimizer="sgd", lr=run.lr * size),
        sizes=(0.1, 1.0),
    ),
    Failure(
        name="initial-weights-tiny",
        family="model",
        broken=lambda run, size: replace(run, gain=size),
        sizes=(0.003, 0.03),
        fixed_by=MODEL,
    ),
    Failure(
        name="labels-partly-shuffled",
        family="labels",
        broken=with_fault("labels-shuffled"),
        sizes=(0.3, 0.7),
        fixed_by=LABELS,
    ),
    Failure(
        name="schedule-far-too-long",
        family="schedule",
        broken=lambda run, size: replace(run, lr=run.lr * 3, schedule_steps=int(run.steps * size)),
        sizes=(20.0,),
        fixed_by=("fix-schedule",),
    ),
)


def cases(seeds: tuple[int, ...]) -> list[Case]:
    """Return the broken runs: each size of each failure, on another of its tasks for each seed."""
    drawn = []
    for number, failure in enumerate(FAILURES):
        for size in failure.sizes:
            for seed in seeds:
                task = failure.tasks[(number + seed) % len(failure.tasks)]
                drawn.append(Case(failure=failure, task=task, size=size, seed=seed))
    return drawn
