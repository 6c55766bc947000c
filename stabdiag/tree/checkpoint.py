"""The last checkpoint before a step, as far as is known, and how to go back to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict, Unpack

from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.frozen import frozen
from stabdiag.model.text import every, listed, plural
from stabdiag.stats.quantiles import MIN_TREND_POINTS, usual_gap
from stabdiag.tree.run import Run


class Facts(TypedDict, total=False):
    """The fields of an ``Action`` beside its kind, its text and its checkpoint."""

    also: tuple[ActionKind, ...]
    setting: str
    from_: float | str | None
    to: float | str | None
    step: int | None


@dataclass(frozen=True, eq=False)
class Reload:
    """How to go back: an imperative clause, and the checkpoint's step if known, 0 for none."""

    clause: str
    checkpoint: int | None = None

    def and_then(self, kind: ActionKind, *what: str, **facts: Unpack[Facts]) -> Action:
        """Return the action to go back and then do one thing, or several."""
        text = f"{self.clause}, {'' if len(what) > 1 else 'and '}{listed(what)}."
        return Action(kind, text, checkpoint=self.checkpoint, **facts)

    def restart(self, kind: ActionKind, how: str, **facts: Unpack[Facts]) -> Action:
        """Return the action to go back and restart in another way: ``with half the rate``."""
        joint = "" if self.checkpoint == 0 else "and restart "
        text = f"{self.clause}, {joint}{how}."
        return Action(kind, text, checkpoint=self.checkpoint, **facts)


@frozen
class Checkpoint:
    """The last checkpoint before a step, of those there or as far as the manifest's cadence tells.

    ``step`` is None where neither is known, 0 where no checkpoint had been written. ``older`` is
    the one to fall back on if the last was written so close to the damage that it may hold it
    already, else 0. ``there`` is how many lie beside the log.
    """

    step: int | None
    every: int | None
    older: int = 0
    unit: str = "step"
    there: int = 0

    @property
    def cadence(self) -> str:
        """How often a checkpoint is written, or how many there are, in words."""
        if self.there:
            return f"{plural(self.there, 'checkpoint lies', 'checkpoints lie')} beside the log"
        return "" if self.every is None else f"one is written {every(self.every, self.unit)}"

    def reload(self, what: str) -> Reload:
        """Return how to go back to the last checkpoint before ``what``."""
        if self.step is None:
            return Reload(f"Reload the last checkpoint before {what}")
        if self.step == 0:
            none = "no checkpoint" if self.every else "nothing worth keeping"
            if self.there:
                none = "none of the checkpoints beside the log"
            return Reload(f"Restart from the beginning ({none} precedes {what})", 0)
        older = f" (or {self.unit} {self.older} if that is already damaged)" if self.older else ""
        return Reload(
            f"Reload the checkpoint of {self.unit} {self.step}, the last before {what}{older}",
            self.step,
        )


def checkpoint_before(run: Run, step: int, stride: float = 1.0) -> Checkpoint:
    """Return the last checkpoint strictly before a step; there is none before step 0.

    In a log with one record in ``stride`` steps, what a record shows may have happened at any step
    since the record before.
    """
    manifest, last = run.manifest, run.manifest.checkpoint_before(step)
    every, there = manifest.checkpoint_every, len(manifest.checkpoints or ())
    known = there > 0 or every is not None
    if not known:
        last = 0 if _at_the_beginning(run, step) else None
    if not known or last is None:
        return Checkpoint(step=last, every=None, unit=run.unit)
    since = step - round(stride)
    close = last > min(since, step - 2)
    older = manifest.checkpoint_before(since) if close else 0
    return Checkpoint(step=last, every=every, older=older or 0, unit=run.unit, there=there)


def _at_the_beginning(run: Run, step: int) -> bool:
    """Tell whether a step is among the first two of a run that begins in this log."""
    logged = run.history.get("loss")
    if run.history.counts_records:
        return False  # a piece of a log may begin anywhere
    if logged is None or len(logged) < MIN_TREND_POINTS:
        return step <= 0
    return step <= int(logged.steps[1]) and int(logged.steps[0]) <= usual_gap(logged.steps)
