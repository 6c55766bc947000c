"""What a manifest says of how often a run is saved and evaluated, and of its seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag import words
from stabdiag.findings import Severity
from stabdiag.ticks import Line

if TYPE_CHECKING:
    from stabdiag.preflight.settings import Launch
    from stabdiag.ticks import Tick


def checkpoints(at: Launch) -> Tick:
    """Is a checkpoint written often enough?"""
    line = Line(slug="checkpoints", title="Checkpoints")
    every, total = at.manifest.checkpoint_every, at.manifest.total_steps
    if every is None:
        return line.unknown(
            "The manifest does not say how often.",
            "Write one as often as you can afford to lose the steps between two.",
        )
    often = f"One {words.every(every)}"
    if total is None:
        return line.ticked(f"{often}.")
    if every > total:
        return line.crossed(
            f"{often}, and the run has {total}: there would be none.",
            f"Write one {words.every(_often(at, total))}.",
            severity=Severity.ERROR,
        )
    if every > at.limits.preflight.checkpoint_share * total:
        return line.crossed(
            f"{often}: a failure costs up to {every / total:.0%} of the run.",
            f"Write one {words.every(_often(at, total))}.",
            severity=Severity.WARNING,
        )
    return line.ticked(f"{often}; a failure costs {every / total:.1%} at most.")


def _often(at: Launch, total: int) -> int:
    """Return a cadence well within the limit."""
    return max(round(at.limits.preflight.checkpoint_share * total / 2), 1)


def evaluations(at: Launch) -> Tick:
    """Is the model evaluated often enough to see a trend?"""
    line = Line(slug="evaluations", title="Evaluations")
    every, total = at.eval_every, at.manifest.total_steps
    least = at.limits.generalisation.min_evaluations
    if at.eval_strategy is not None and at.eval_strategy.lower().endswith("no"):
        return line.crossed(
            "There are none: nobody would see the model overfit.",
            "Evaluate on held-back data at regular steps.",
            severity=Severity.WARNING,
        )
    if every is None:
        return line.unknown(
            "The manifest does not say how often.",
            f"Evaluate at regular steps, {least} times or more in the run.",
        )
    # Lightning takes a share of an epoch as well.
    often = f"One {words.every(every)}"
    if total is None or every < 1:
        return line.ticked(f"{often}.")
    count = int(total // every)
    if count < least:
        return line.crossed(
            f"{often}, {count} in the run: fewer than {least} show no trend.",
            f"Evaluate {words.every(max(total // (4 * least), 1))}.",
            severity=Severity.WARNING,
        )
    return line.ticked(f"{often}, {count} in the run.")


def seed(at: Launch) -> Tick:
    """Is the seed fixed?"""
    line = Line(slug="seed", title="Seed")
    if at.manifest.seed is None:
        return line.unknown(
            "The manifest names none.",
            "Fix the seeds of Python, NumPy, the framework and the loader, and write them down.",
        )
    return line.ticked(f"It is {at.manifest.seed}.")
