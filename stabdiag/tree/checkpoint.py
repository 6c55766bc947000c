"""The last checkpoint before a step, by the manifest's cadence, and how to go back to it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, TypedDict, Unpack

from stabdiag.model.findings import Action
from stabdiag.model.text import every, listed, sentence, uncapitalised

if TYPE_CHECKING:
    from stabdiag.model.findings import ActionKind
    from stabdiag.model.manifest import Manifest


class Facts(TypedDict, total=False):
    """What an action tells beside its kind and its words: see ``Action``."""

    also: tuple[ActionKind, ...]
    setting: str
    from_: float | str | None
    to: float | str | None
    step: int | None


@dataclass(frozen=True)
class Reload:
    """Which checkpoint to go back to: an imperative clause, and the checkpoint's step if known.

    ``joint`` is what joins the clause with how to restart, where it says to restart already, and
    ``why`` the end of the clause, after that.
    """

    clause: str
    _: KW_ONLY
    checkpoint: int | None = None
    joint: str = ""
    why: str = ""

    def __str__(self) -> str:
        """Return the whole clause."""
        return f"{self.clause}{self.why}"

    def and_then(self, kind: ActionKind, *what: str, **facts: Unpack[Facts]) -> Action:
        """Return the action to go back, and to do something then, or several things."""
        text = f"{self}, {'' if len(what) > 1 else 'and '}{listed(what)}."
        alone = sentence(listed(what))
        return Action(kind, text, checkpoint=self.checkpoint, alone=alone, **facts)

    def restart(self, kind: ActionKind, how: str, **facts: Unpack[Facts]) -> Action:
        """Return the action to restart from there in another way: ``with half the rate``."""
        if not self.joint:
            return self.and_then(kind, f"restart {how}", **facts)
        text = f"{self.clause}{self.joint}{how}{self.why}."
        return Action(kind, text, checkpoint=self.checkpoint, **facts)

    def following(self, kind: ActionKind, what: str, **facts: Unpack[Facts]) -> Action:
        """Return the action to do something, and to go back after it."""
        text = f"{what}: {uncapitalised(str(self))}."
        return Action(kind, text, checkpoint=self.checkpoint, **facts)


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
        return "" if self.every is None else f"one is written {every(self.every)}"

    def reload(self, what: str) -> Reload:
        """Return the advice to reload the last checkpoint before ``what``, at its step."""
        if self.step is None:
            return Reload(f"Reload the last checkpoint before {what}")
        if self.step == 0:
            why = f"no checkpoint had been written before {what} ({self.cadence})"
            if not self.every:
                why = f"nothing in this log is older than {what}"
            return Reload("Restart from the beginning", checkpoint=0, joint=" ", why=f": {why}")
        older = f" (should it be damaged already, that of step {self.older})" if self.older else ""
        return Reload(
            f"Reload the checkpoint of step {self.step}, the last before {what}{older}",
            checkpoint=self.step,
        )


def checkpoint_before(manifest: Manifest, step: int, stride: float = 1.0) -> Checkpoint:
    """Return the last checkpoint strictly before a step; there is none before step 0.

    Of a log with one record in ``stride`` steps, what the record of a step shows may have happened
    at any step since the record before.
    """
    every, last = manifest.checkpoint_every, manifest.checkpoint_before(step)
    if every is None or last is None:
        return Checkpoint(step=last, every=None)
    since = step - round(stride)
    close = last > min(since, step - 2)
    return Checkpoint(
        step=last, every=every, older=max(since - 1, 0) // every * every if close else 0
    )
