"""What was not logged, and what that costs the diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.model.report import NotLogged

if TYPE_CHECKING:
    from stabdiag.tree.case import Case

_COSTS: tuple[tuple[str, str], ...] = (
    ("grad_norm", "a spike's cause (Q2.3), overflows (Q3.1) and a climb's cause (Q4.4) stay open"),
    ("lr", "a jump of the schedule (Q2.3) and a warm-up that never ends (Q4.2) cannot be seen"),
    ("batch_id", "a batch that comes twice (Q2.3) cannot be seen"),
    ("weight_norm", "weight decay as the cause of a climb (Q4.3) cannot be tested"),
    ("loss_scale", "whether the loss scaler copes (Q3.2) cannot be tested"),
)


def not_logged(case: Case) -> tuple[NotLogged, ...]:
    """Return the roles that the log lacks, in the order of what they cost."""
    fp16 = case.manifest.dtype == "fp16"
    missing = [
        NotLogged(role=role, cost=cost)
        for role, cost in _COSTS
        if not case.history.group(role) and (role != "loss_scale" or fp16)
    ]
    if case.manifest.dtype is None:
        cost = "fp16 and bf16 overflows (§3) cannot be told: name it in the manifest or by --dtype"
        missing.append(NotLogged(role="dtype (manifest)", cost=cost))
    if case.manifest.checkpoint_every is None:
        cost = "the checkpoint to go back to cannot be named: give it by --set checkpoint_every=N"
        missing.append(NotLogged(role="checkpoint cadence (manifest)", cost=cost))
    return tuple(missing)
