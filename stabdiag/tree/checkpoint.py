"""The last known checkpoint before a step, and how to reload it."""

from __future__ import annotations

from typing import TypedDict, Unpack

from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.frozen import frozen
from stabdiag.model.manifest.keys import saves_none
from stabdiag.model.text import every, listed, plural
from stabdiag.stats.quantiles import usual_gap
from stabdiag.stats.standards import MIN_LONG_LOG, MIN_TREND_POINTS, TENTH
from stabdiag.tree.run import Run


class ActionFields(TypedDict, total=False):
    """The fields of an ``Action``, except its kind, text and checkpoint."""

    also: tuple[ActionKind, ...]
    setting: str
    from_: float | str | None
    to: float | str | None
    step: int | None


@frozen
class Reload:
    """An imperative clause, and the step of the checkpoint if known; 0 to start over."""

    clause: str
    checkpoint: int | None = None

    def and_then(self, kind: ActionKind, *clauses: str, **fields: Unpack[ActionFields]) -> Action:
        """Return the action to reload and then do one or more things."""
        text = f"{self.clause}, {'' if len(clauses) > 1 else 'and '}{listed(clauses)}."
        return Action(kind, text, checkpoint=self.checkpoint, **fields)

    def restart(self, kind: ActionKind, manner: str, **fields: Unpack[ActionFields]) -> Action:
        """Return the action to reload and restart differently: ``with half the rate``."""
        joint = "" if self.checkpoint == 0 else "and restart "
        text = f"{self.clause}, {joint}{manner}."
        return Action(kind, text, checkpoint=self.checkpoint, **fields)


@frozen
class Checkpoint:
    """The last checkpoint before a step, from the files found or the cadence in the manifest.

    ``step`` is None if neither is known, and 0 if no checkpoint had been written. ``older`` is the
    fallback if the last one is so close to the damage that it may contain it, else 0. ``count`` is
    the number of checkpoints next to the log. ``is_saving_off`` means that the run saves none.
    """

    step: int | None
    every: int | None
    older: int = 0
    unit: str = "step"
    count: int = 0
    is_saving_off: bool = False

    @property
    def cadence(self) -> str:
        """The cadence or the number of checkpoints, in words."""
        if self.count:
            return f"{plural(self.count, 'checkpoint is', 'checkpoints are')} next to the log"
        return "" if self.every is None else f"one is written {every(self.every, self.unit)}"

    def reload(self, event: str) -> Reload:
        """Return the instruction to reload the last checkpoint before an event."""
        if self.step is None:
            return Reload(clause=f"Reload the last checkpoint before {event}")
        if self.step == 0:
            none = "no checkpoint" if self.every else "nothing worth keeping"
            if self.is_saving_off:
                return Reload(
                    clause="Train again from the start with checkpoints (the settings save none)",
                    checkpoint=0,
                )
            if self.count:
                none = "none of the checkpoints next to the log"
            return Reload(
                clause=f"Restart from the beginning ({none} precedes {event})", checkpoint=0
            )
        older = f" (or {self.unit} {self.older} if that is already damaged)" if self.older else ""
        return Reload(
            clause=f"Reload the checkpoint of {self.unit} {self.step}, the last before "
            f"{event}{older}",
            checkpoint=self.step,
        )


def earlier_checkpoint(run: Run, step: int, stride: float = 1.0) -> Checkpoint:
    """Return the last checkpoint strictly before a step; no checkpoint precedes step 0.

    With one record every ``stride`` steps, a recorded event may have happened at any step since the
    previous record.
    """
    manifest, last = run.manifest, run.manifest.earlier_checkpoint(step)
    every, count = manifest.checkpoint_every, len(manifest.checkpoints or ())
    is_known = count > 0 or every is not None
    is_saving_off = not is_known and saves_none(run.settings)
    if is_saving_off:
        last = 0
    elif not is_known:
        last = 0 if _is_beginning(run, step) else None
    if not is_known or last is None:
        return Checkpoint(step=last, every=None, unit=run.unit, is_saving_off=is_saving_off)
    since = step - round(stride)
    is_close = last > min(since, step - 2)
    older = manifest.earlier_checkpoint(since) if is_close else 0
    return Checkpoint(step=last, every=every, older=older or 0, unit=run.unit, count=count)


def _is_beginning(run: Run, step: int) -> bool:
    """Return True if a step is so early in a run that no checkpoint before it is worth keeping.

    It is one of the first two records, or within the first hundred steps and the first tenth of a
    run that begins in this log.
    """
    logged = run.history.get("loss")
    if run.history.counts_records:
        return False  # a fragment of a log may begin anywhere
    if logged is None or len(logged) < MIN_TREND_POINTS:
        return step <= 0
    first, last = int(logged.steps[0]), int(logged.steps[-1])
    if first > usual_gap(logged.steps):
        return False
    early = first + min(MIN_LONG_LOG, TENTH * (last - first)) if run.unit == "step" else first
    return step <= max(early, int(logged.steps[1]))
