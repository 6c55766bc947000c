"""What went NaN first, and what was wrong before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.tree.causes import Panel, before, lr_panel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.history import Series
    from stabdiag.tree.case import Case

# A surge shows in one of so many gradient norms before the NaN.
_NEAR = 5


@dataclass(frozen=True, kw_only=True)
class FirstBad:
    """The first loss that was not finite, the last good step before it (or None), and how many.

    ``for_good`` says that no loss after it was finite again.
    """

    step: int
    last_good: int | None
    count: int
    total: int
    for_good: bool


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where non-finite values were seen first, and how the gradient norm behaved before.

    ``role`` is the first series to go non-finite, at ``step``; ``surge`` the largest gradient norm
    shortly before, over its rolling mean, or None where that cannot be told. ``surged_from`` is the
    first step with a norm so large that it counts as a surge, or None where there was none.
    """

    role: str
    step: int
    surge: float | None
    surge_step: int | None
    surged_from: int | None


def first_bad(case: Case) -> FirstBad | None:
    """Return the first loss that is NaN or infinite, or None."""
    loss = case.history.series["loss"]
    bad = np.flatnonzero(~np.isfinite(loss.values))
    if not len(bad):
        return None
    at = int(bad[0])
    return FirstBad(
        step=int(loss.steps[at]),
        last_good=int(loss.steps[at - 1]) if at else None,
        count=len(bad),
        total=len(loss),
        for_good=len(bad) == len(loss) - at,
    )


def found_bad(case: Case) -> FirstBad:
    """Return the first loss that is not finite, where Q1.1 has found one."""
    bad = first_bad(case)
    if bad is None:
        raise LookupError("asked of a NaN that is not there")
    return bad


def origin(case: Case, bad: FirstBad) -> Origin:
    """Return where the NaN started, as far as the log shows it."""
    first = {"loss": bad.step}
    for role, series in case.history.series.items():
        if role.partition("/")[0] in ("grad_norm", "activation_norm", "weight_norm"):
            found = np.flatnonzero(~np.isfinite(series.values))
            # A scaler skips single overflows and lives on: only what leads to the NaN counts.
            if len(found):
                first[role] = _start_of_last_stretch(series, bad.step)
    # At the same step the gradient norm is a consequence of the loss, not its cause.
    role = min(first, key=lambda name: (first[name], name != "loss"))
    role = _only_layer(case, first, role) or role
    surge, at, since = _surge(case, min(first[role], bad.step))
    return Origin(role=role, step=first[role], surge=surge, surge_step=at, surged_from=since)


def _only_layer(case: Case, first: Mapping[str, int], role: str) -> str | None:
    """Return the one layer whose norm went non-finite with the norm of all, or None.

    The norm of all goes with any of them. Where several go at once, or no other was logged, none
    is known to be the first.
    """
    logged = [f"{role}/{name}" for name in case.history.group(role) if name != "all"]
    bad = [name for name in logged if first.get(name) == first[role]]
    return bad[0] if len(bad) == 1 < len(logged) else None


def begun(case: Case, bad: FirstBad, start: Origin) -> int:
    """Return the first step of all that was wrong: a sound checkpoint is from before it."""
    jump = jump_before(case, start)
    surge = () if start.surged_from is None else (start.surged_from,)
    # What jumped before the damage had begun sooner.
    panels = (lr_panel(case, before(case, step), step) for step in case.damaged)
    causes = [step for panel in panels if panel.holds for step in panel.steps]
    return min(bad.step, start.step, *surge, *case.damaged, *causes, *(jump.steps if jump else ()))


def blew_up(case: Case, bad: FirstBad, start: Origin) -> bool:
    """Tell whether the optimization blew up: gradients surged, or the run broke just before."""
    return start.surged_from is not None or broke(case, bad)


def broke(case: Case, bad: FirstBad) -> bool:
    """Tell whether the run was damaged shortly before its loss went NaN."""
    return bool(case.damaged) and bad.step - case.damaged[-1] <= case.recovery_steps


def _start_of_last_stretch(series: Series, bad: int) -> int:
    """Return where the stretch of non-finite values that reaches ``bad`` begins."""
    finite = series.steps[np.isfinite(series.values) & (series.steps < bad)]
    after = series.steps[series.steps > finite[-1]] if len(finite) else series.steps
    found = after[~np.isfinite(series.values[-len(after) :])] if len(after) else after
    return int(found[0]) if len(found) else bad + 1


def _surge(case: Case, step: int) -> tuple[float | None, int | None, int | None]:
    """Return the largest gradient norm just before a step over the mean before that, and where.

    The third value is the step of the first norm there that is large enough for a surge, or None.
    """
    norm = _norms_until(case, step)
    if norm is None or len(norm) < 2 * _NEAR:
        return None, None, None
    near = norm.values[-_NEAR:]
    usual = float(np.mean(norm.values[max(len(norm) - 100 - _NEAR, 0) : -_NEAR]))
    if usual <= 0:
        return None, None, None
    steps, at = norm.steps[-_NEAR:], int(np.argmax(near))
    surging = steps[near / usual > case.limits.nan.grad_surge]
    since = int(surging[0]) if len(surging) else None
    return float(near[at]) / usual, int(steps[at]), since


def _norms_until(case: Case, step: int) -> Series | None:
    norm = case.history.get("grad_norm")
    if norm is None or not len(norm):
        return None
    return norm.finite().between(int(norm.steps[0]), step)


def no_lead_up(case: Case, bad: FirstBad, start: Origin) -> str:
    """Return why the gradient norm tells nothing of what led up to the NaN."""
    norm = _norms_until(case, min(start.step, bad.step))
    if norm is None:
        # Those of layers tell where a NaN began, but not whether all gradients surged.
        total = "total " if case.history.group("grad_norm") else ""
        return f"no {total}gradient norm was logged"
    few = len(norm) < 2 * _NEAR
    return "too few finite gradient norms were logged" if few else "the gradient norm was 0"


def jump_before(case: Case, start: Origin) -> Panel | None:
    """Return the jump of the learning rate that led to the NaN, if there was one."""
    panel = lr_panel(case, before(case, start.step), start.step)
    return panel if panel.holds else None
