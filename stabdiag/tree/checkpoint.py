"""The last checkpoint before a step, worked out from the manifest's cadence, and its wording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stabdiag.manifest import Manifest


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The last checkpoint before a step, as far as the manifest's cadence tells.

    ``step`` is None where the cadence is not known, 0 where none had been written. ``close`` says
    that it is of the very step before: written after that step's update, it may hold the damage.
    """

    step: int | None
    every: int | None
    close: bool = False

    @property
    def cadence(self) -> str:
        """How often a checkpoint is written, in words."""
        return f"one is written every {'step' if self.every == 1 else f'{self.every} steps'}"

    def reload(self, what: str, how: str = "") -> str:
        """Return an imperative clause: reload the last checkpoint before ``what``, at its step.

        ``how`` says how to restart from there: ``with half the learning rate``.
        """
        restart = f", and restart {how}" if how else ""
        if self.step is None:
            return f"Reload the last checkpoint before {what}{restart}"
        if self.step == 0:
            why = f"no checkpoint had been written before {what} ({self.cadence})"
            if not self.every:
                why = f"nothing in this log is older than {what}"
            return f"Restart from the beginning{f' {how}' if how else ''}: {why}"
        older = ""
        if self.close and self.every is not None and self.step > self.every:
            older = f" (should it be damaged already, that of step {self.step - self.every})"
        return f"Reload the checkpoint of step {self.step}, the last before {what}{older}{restart}"


def checkpoint_before(manifest: Manifest, step: int) -> Checkpoint:
    """Return the last checkpoint strictly before a step; there is none before step 0."""
    every = manifest.checkpoint_every
    if every is None and step <= 0:
        return Checkpoint(step=0, every=None)
    last = (max(step - 1, 0) // every) * every if every else None
    return Checkpoint(step=last, every=every, close=last is not None and last == step - 1)
