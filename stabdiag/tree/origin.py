"""What went NaN first, and what was wrong before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.tree.drivers import surge_before
from stabdiag.tree.panels import before, lr_panel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.model.findings import Panel
    from stabdiag.model.history import Event, Series
    from stabdiag.tree.case import Case
    from stabdiag.tree.drivers import Surge


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
    """Where a NaN started, as far as the log shows it, and what was wrong before.

    ``bad`` is the first loss that was not finite; ``role`` the first series that was not, at
    ``step``, which is the loss itself or one before it. ``surge`` is None where the log does not
    show the gradient norm. ``jump`` is the jump of the learning rate that led to it, if there was
    one, and ``broke`` says that the run was damaged shortly before. ``resumed`` is the resume that
    it followed, where the attempt before had come past this step with finite losses. ``began`` is
    the first step of all that was wrong: a sound checkpoint is from before it.
    """

    bad: FirstBad
    role: str
    step: int
    surge: Surge | None
    jump: Panel | None
    broke: bool
    resumed: Event | None
    began: int

    @property
    def surged_from(self) -> int | None:
        """The first step of a surge of the gradient norm, if there was one."""
        return self.surge.since if self.surge else None

    @property
    def blew_up(self) -> bool:
        """Whether the optimization blew up: gradients surged, or the run broke just before."""
        return self.surged_from is not None or self.broke


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


def origin(case: Case) -> Origin:
    """Return where the NaN that Q1.1 has found started."""
    bad = found_bad(case)
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
    step = first[role]
    surge = surge_before(case, step)
    jump = lr_panel(case, before(case, step), step)
    # What jumped before the damage had begun sooner.
    panels = (jump, *(lr_panel(case, before(case, damage), damage) for damage in case.damaged))
    jumps = (at for panel in panels if panel.holds for at in panel.steps)
    unsound = () if case.unsound_from is None else (case.unsound_from,)
    surged = () if surge is None or surge.since is None else (surge.since,)
    return Origin(
        bad=bad,
        role=role,
        step=step,
        surge=surge,
        jump=jump if jump.holds else None,
        broke=bool(case.damaged) and bad.step - case.damaged[-1] <= case.recovery_steps,
        resumed=_resumed(case, step),
        began=min((step, *surged, *case.damaged, *jumps, *unsound)),
    )


def _only_layer(case: Case, first: Mapping[str, int], role: str) -> str | None:
    """Return the one layer whose norm went non-finite with the norm of all, or None.

    The norm of all goes with any of them. Where several go at once, or no other was logged, none
    is known to be the first.
    """
    logged = [f"{role}/{name}" for name in case.history.group(role) if name != "all"]
    bad = [name for name in logged if first.get(name) == first[role]]
    return bad[0] if len(bad) == 1 < len(logged) else None


def _start_of_last_stretch(series: Series, bad: int) -> int:
    """Return where the stretch of non-finite values that reaches ``bad`` begins."""
    finite = series.steps[np.isfinite(series.values) & (series.steps < bad)]
    after = series.steps[series.steps > finite[-1]] if len(finite) else series.steps
    found = after[~np.isfinite(series.values[-len(after) :])] if len(after) else after
    return int(found[0]) if len(found) else bad + 1


def _resumed(case: Case, step: int) -> Event | None:
    """Return the resume shortly before a NaN at a step that the attempt before had come past."""
    since = before(case, step)
    for event in reversed(case.history.events):
        at, sound_to = event.step, event.sound_to
        if at is not None and sound_to is not None and since <= at <= step <= sound_to:
            return event
    return None
