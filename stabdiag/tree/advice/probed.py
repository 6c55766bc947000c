"""Advice on a failed step that the recorder saved, and that its probe may have repeated."""

from __future__ import annotations

from typing import Final

from stabdiag.model.findings import Action, ActionKind
from stabdiag.tree.advice.shared import Advice
from stabdiag.tree.case import Case
from stabdiag.tree.checkpoint import Reload
from stabdiag.tree.saved_failure import SavedFailure, saved_surge_file

_FACTORY: Final = "train:make is your function that returns model and loss"


def repeat_clause(saved: SavedFailure, unit: str) -> str:
    """Return the clause to repeat the step by hand."""
    return (
        f"run `{saved.command}`: it repeats {unit} {saved.step} and names the module and the "
        f"operation that fail ({_FACTORY})"
    )


def probed(saved: SavedFailure, reload: Reload, unit: str, check_data: Action) -> Advice:
    """Return the advice if the probe has found the operation that fails."""
    where = "the loss function" if saved.phase == "loss" else f"module {saved.module!r}"
    operation = f"{saved.operation} in {where}" if saved.operation else where
    kind, fix = ActionKind.INSPECT_LAYERS, f"make {operation} safe"
    match saved.phase:
        case "batch":
            cause = f"{saved.module!r} of the batch is not finite"
            kind, fix = ActionKind.INSPECT_DATA, f"find the NaN in the batch of {unit} {saved.step}"
        case "parameters":
            cause = f"the weights {saved.module!r} were not finite before it"
            fix = f"check what changed {saved.module!r} before {unit} {saved.step}"
        case "optimizer":
            cause = f"{saved.operation} makes {saved.module!r} non-finite"
            kind, fix = ActionKind.CHANGE_OPTIMIZER, "raise the optimizer's epsilon"
        case "backward":
            cause = f"{operation} is the first operation with a non-finite gradient"
        case _:
            cause = f"{operation} is the first operation with a non-finite result"
    other_kinds = (ActionKind.SAFE_OPERATIONS,) if kind is ActionKind.INSPECT_LAYERS else ()
    repeat = f"Run `{saved.command}` to see each module ({_FACTORY})."
    return Advice(
        summary=f"The probe repeated the step: {cause}.",
        first=reload.and_then(kind, fix, also=other_kinds, step=saved.step),
        next_actions=(Action(ActionKind.INSPECT_LAYERS, repeat), check_data),
    )


def saved_batch_suffix(case: Case, step: int) -> str:
    """Return " (saved in run.spike.pt)" if the recorder saved the batch of a surge, else ""."""
    file = saved_surge_file(case.history, step)
    return "" if file is None else f" (saved in {file})"
