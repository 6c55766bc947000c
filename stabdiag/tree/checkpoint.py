"""The last checkpoint before a step, worked out from the manifest's cadence, and its wording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag import words

if TYPE_CHECKING:
    from stabdiag.manifest import Manifest


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The last checkpoint before a step, as far as the manifest's cadence tells.

    ``step`` is None where the cadence is not known, 0 where none had been written. ``older`` is the
    one to fall back on where the last may hold the damage already, else 0: one written after the
    update of the very step before, or since the record before the one that shows the damage.
    """

    step: int | None
    every: int | None
    older: int = 0

    @property
    def cadence(self) -> str:
        """How often a checkpoint is written, in words."""
        return "" if self.every is None else f"one is written {words.every(self.every)}"

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
        older = f" (should it be damaged already, that of step {self.older})" if self.older else ""
        return f"Reload the checkpoint of step {self.step}, the last before {what}{older}{restart}"


def checkpoint_before(manifest: Manifest, step: int, stride: float = 1.0) -> Checkpoint:
    """Return the last checkpoint strictly before a step; there is none before step 0.

    Of a log with one record in ``stride`` steps, what the record of a step shows may have happened
    at any step since the record before.
    """
    every = manifest.checkpoint_every
    if every is None:
        return Checkpoint(step=0 if step <= 0 else None, every=None)
    last = (max(step - 1, 0) // every) * every
    since = step - round(stride)
    close = last > min(since, step - 2)
    return Checkpoint(
        step=last, every=every, older=max(since - 1, 0) // every * every if close else 0
    )
