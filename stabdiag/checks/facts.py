"""The facts about a run that the lines of the checklist ask for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import RATE, ActionKind, Severity
from stabdiag.model.text import num, plural

if TYPE_CHECKING:
    from stabdiag.model.findings import Finding
    from stabdiag.model.history import Series
    from stabdiag.model.manifest import Manifest
    from stabdiag.model.report import Report

# A log that begins within so many steps has the beginning of its run.
_BEGINNING = 10


class Remedy(Enum):
    """What an action sets about, as the checklist tells such things apart."""

    PRECISION = frozenset(
        {ActionKind.CHANGE_DTYPE, ActionKind.DYNAMIC_LOSS_SCALE, ActionKind.CHECK_PRECISION}
    )
    DECAY = frozenset(
        {
            ActionKind.RAISE_WEIGHT_DECAY,
            ActionKind.LOWER_WEIGHT_DECAY,
            ActionKind.FIX_WEIGHT_DECAY,
        }
    )
    OPERATIONS = frozenset({ActionKind.INSPECT_LAYERS, ActionKind.SAFE_OPERATIONS})
    MODEL = frozenset({ActionKind.CHECK_MODEL, ActionKind.CHANGE_MODEL})
    DATA = frozenset(
        {
            ActionKind.INSPECT_DATA,
            ActionKind.CHECK_LABELS,
            ActionKind.SKIP_BATCHES,
            ActionKind.SHUFFLE_DATA,
            ActionKind.FIX_LOADER,
            ActionKind.TRY_SMALL,
        }
    )
    RATE = RATE
    CLIP = frozenset({ActionKind.CLIP_GRADIENTS, ActionKind.RAISE_CLIP})


_NO_REMEDY = (ActionKind.KEEP_GOING, ActionKind.CHECK_SETTINGS)


def remedies(found: Finding) -> tuple[Remedy, ...]:
    """Return what the first action of a finding sets about; what tells most comes first.

    To let a run go on, or to look at a setting first, is no remedy: then the next action is one.
    """
    count = 2 if found.actions and found.actions[0].kind in _NO_REMEDY else 1
    kinds = [kind for action in found.actions[:count] for kind in action.kinds]
    return tuple(remedy for remedy in Remedy if remedy.value.intersection(kinds))


@dataclass(frozen=True, kw_only=True)
class Facts:
    """A report, with what the lines of the checklist ask of it."""

    report: Report

    @property
    def manifest(self) -> Manifest:
        """What is known of the configuration."""
        return self.report.manifest

    def calls_for(self, remedy: Remedy) -> Finding | None:
        """Return the first finding whose first action sets about this."""
        return next((f for f in self.report.findings if remedy in remedies(f)), None)

    @property
    def after_nan(self) -> frozenset[ActionKind]:
        """All that is to be done about a NaN, at first or should it come again."""
        found = self.report.diagnosis
        kinds = (kind for action in found.actions for kind in action.kinds)
        return frozenset(kinds if found.section == "§1" else ())

    def logged(self, role: str) -> int:
        """Return how many points of a role, or of its groups, were logged."""
        return sum(len(series) for series in self.report.history.group(role).values())

    def groups(self, role: str) -> int:
        """Return how many groups of a role were logged; one series for all is none."""
        return sum(name != "all" for name in self.report.history.group(role))

    @property
    def broke(self) -> bool:
        """Whether anything is worse than a note."""
        return any(f.severity.rank <= Severity.WARNING.rank for f in self.report.findings)

    @property
    def reload(self) -> str:
        """An imperative clause: reload the last checkpoint before what was found.

        It is that of the diagnosis, which may lie before the step at which the damage showed.
        """
        found = self.report.diagnosis
        if found.step is None or not self.broke:
            return "Begin at any checkpoint"
        if found.reload:
            return found.reload
        saved = self.manifest.checkpoint_before(found.step)
        if saved is None:
            return f"Reload the last checkpoint before step {found.step}"
        return f"Reload the checkpoint of step {saved}" if saved else "Restart from the beginning"

    @property
    def warmup(self) -> str | None:
        """How long the learning rate warmed up, in words, or None where nothing tells of one."""
        told, rates = self.manifest.warmup_steps, self._rates
        if told:
            return f"the manifest tells of a warm-up of {plural(told, 'step')}"
        if rates is None:
            return None
        peak, first = float(rates.values.max()), float(rates.values[0])
        if peak <= 0 or first > peak / 2:
            return None
        return f"the learning rate rose from {num(first)} to {num(peak)}"

    @property
    def peak_rate(self) -> float | None:
        """The highest learning rate that was meant: told, or logged."""
        told, rates = self.manifest.peak_lr, self._rates
        return told if told is not None or rates is None else float(rates.values.max())

    @property
    def from_the_start(self) -> bool:
        """Whether the log has the beginning of the run, and not what followed a resume."""
        steps = self.report.history.finite("loss").steps
        stride = float(np.median(np.diff(steps))) if len(steps) > 1 else 1.0
        return len(steps) > 0 and int(steps[0]) <= max(_BEGINNING, 2 * stride)

    @property
    def _rates(self) -> Series | None:
        """The learning rates, up to the first jump: what it jumped to was never meant."""
        rates = self.report.history.finite("lr")
        jumps = [
            step
            for found in self.report.findings
            for panel in found.panels
            if panel.holds and panel.branch == "lr-jump"
            for step in panel.steps
        ]
        jumps += [
            found.step
            for found in self.report.findings
            if found.slug == "lr-discontinuity" and found.step is not None
        ]
        before = rates.until(min(jumps) - 1) if jumps else rates
        return (before if len(before) else rates) if len(rates) else None
