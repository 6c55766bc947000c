"""The health signals that every run should log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.ticks import Line
from stabdiag.words import plural

if TYPE_CHECKING:
    from stabdiag.checklist.facts import Facts
    from stabdiag.ticks import Tick

# Each by its roles, of which one will do, and what it is good for.
_SIGNALS = (
    ("loss", "Loss", ("loss",), "without it there is no diagnosis"),
    ("grad-norm", "Gradient norm before clipping", ("grad_norm",), "it is the smoke alarm"),
    ("lr", "Learning rate", ("lr",), "it shows faults of the schedule"),
    (
        "throughput",
        "Tokens per second, or the time of a step",
        ("tokens_per_second", "step_time"),
        "it shows a starving loader and a failing machine",
    ),
    ("mfu", "MFU", ("mfu",), "it shows how much of the machine is used"),
    ("eval-loss", "Evaluation loss", ("eval_loss",), "it shows overfitting"),
    ("weight-norm", "Weight norms", ("weight_norm",), "they show what weight decay does"),
    ("batch-id", "Batch ids", ("batch_id",), "they show faults of the loader"),
    ("memory", "Memory in use", ("memory",), "it shows a leak before the memory is full"),
)
_SCALE = ("loss-scale", "Loss scale", ("loss_scale",), "it shows overflows")


def signals(facts: Facts) -> tuple[Tick, ...]:
    """Tell of each signal whether it is logged; the loss scale where there is one to log."""
    wanted = (*_SIGNALS, _SCALE) if facts.manifest.dtype == "fp16" else _SIGNALS
    return tuple(_signal(facts, *one) for one in wanted)


def _signal(facts: Facts, slug: str, title: str, roles: tuple[str, ...], why: str) -> Tick:
    line, count = Line(slug=slug, title=title), sum(map(facts.logged, roles))
    if count:
        return line.ticked(f"{plural(count, 'point')}.")
    return line.crossed(f"Not logged; {why}.", f"Log it as `{roles[0]}`.")
