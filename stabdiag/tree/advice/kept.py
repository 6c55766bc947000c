"""A word on checkpoints that a run is to go back to, and that are not kept as long."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stabdiag.model.findings import Action, ActionKind

if TYPE_CHECKING:
    from stabdiag.model.findings import Finding
    from stabdiag.model.manifest import Manifest
    from stabdiag.tree.case import Case


def with_lost(case: Case, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings, with what to do where the checkpoint to go back to was deleted."""
    oldest = _oldest(case.manifest, case.history.last_step or 0)
    if oldest is None:
        return findings
    told = (
        f"Should that checkpoint be gone (the last {case.manifest.checkpoints_kept} are kept, from "
        f"step {oldest} on, if the run ended with this log), find a copy, or restart from the "
        "beginning: all that are kept are from after the damage began."
    )
    word = Action(ActionKind.RELOAD_CHECKPOINT, told, checkpoint=0)

    def is_lost(one: Finding) -> bool:
        named = one.actions[0].checkpoint if one.actions else None
        return 0 < (named or 0) < oldest

    return tuple(
        replace(one, actions=(*one.actions[:1], word, *one.actions[1:])) if is_lost(one) else one
        for one in findings
    )


def _oldest(manifest: Manifest, last: int) -> int | None:
    """Return the step of the oldest checkpoint that is kept, if that is told."""
    every, kept = manifest.checkpoint_every, manifest.checkpoints_kept
    if every is None or kept is None:
        return None
    return (last // every - kept + 1) * every
