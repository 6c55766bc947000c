"""Where a spike began, and how long the loss had to recover from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.model.text import plural
from stabdiag.tree.panels import before, lr_panel

if TYPE_CHECKING:
    from stabdiag.stats.shape import Spike
    from stabdiag.tree.case import Case


def focus(case: Case) -> Spike:
    """Return the spike that the questions are about."""
    if case.focus is None:
        raise LookupError("Q2.2 to Q2.4 are asked of a spike")
    return case.focus


@dataclass(frozen=True, kw_only=True)
class Start:
    """Where a spike began: a step that a sound checkpoint precedes, what it was, and why."""

    step: int
    what: str
    cause: str = ""


def start(case: Case) -> Start:
    """Return where a spike began: at the jump of the learning rate that led to it, or its onset."""
    onset = case.at(focus(case).onset)
    panel = lr_panel(case, before(case, onset), case.at(focus(case).peak))
    if not panel.holds:
        return Start(step=onset, what=f"the spike at {onset}")
    # The onset is where the loss left its level, and noise may have lifted it a little before.
    jump = panel.steps[0]
    what = f"the jump of the learning rate at {jump}"
    return Start(step=min(jump, onset), what=what, cause=panel.because)


def time_to_recover(case: Case) -> str:
    """Return how long a spike had to come back, and why that is not what the limit says."""
    if case.by_epoch:
        return plural(case.recovery_steps, "epoch")
    widened = case.recovery_steps > case.limits.spike.recovery_steps
    told = plural(case.recovery_steps, "step")
    return told + (" (widened: the log is sparse)" if widened else "")
