"""What the lines of the checklist ask of a report."""

from __future__ import annotations

from enum import Enum
from typing import Final

from stabdiag.model.findings import RATE, ActionKind, Finding, Severity
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.model.manifest import Manifest
from stabdiag.model.report import Report
from stabdiag.model.text import num, plural
from stabdiag.stats.quantiles import usual_gap

# A log that begins within this many steps shows the beginning of its run.
_BEGINNING: Final = 10


class Remedy(Enum):
    """What an action deals with, in the terms of the checklist."""

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


def remedies(found: Finding) -> tuple[Remedy, ...]:
    """Return what the first action of a finding deals with; the most telling comes first."""
    kinds = found.actions[0].kinds if found.actions else ()
    return tuple(remedy for remedy in Remedy if remedy.value.intersection(kinds))


@frozen
class Facts:
    """A report, with what the lines of the checklist ask of it."""

    report: Report

    @property
    def manifest(self) -> Manifest:
        """What is known of the configuration."""
        return self.report.manifest

    def calls_for(self, remedy: Remedy) -> Finding | None:
        """Return the first finding whose first action deals with this."""
        return next((f for f in self.report.findings if remedy in remedies(f)), None)

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
        """An imperative clause: reload the last checkpoint from before the trouble began."""
        found, unit = self.report.diagnosis, self.report.history.unit
        began = found.step if found.began is None else found.began
        if began is None or not self.broke:
            return "Start from any checkpoint"
        saved = self.manifest.checkpoint_before(began)
        if found.severity is Severity.ERROR and found.actions[0].checkpoint is not None:
            saved = found.actions[0].checkpoint
        if saved is None:
            return f"Reload the last checkpoint before {unit} {began}"
        return f"Reload the checkpoint of {unit} {saved}" if saved else "Restart from the beginning"

    @property
    def warmup(self) -> str | None:
        """How long the learning rate warmed up, in words; None where nothing shows a warm-up."""
        steps, rates = self.manifest.warmup_steps, self._rates
        if steps:
            return f"the manifest sets a warm-up of {plural(steps, 'step')}"
        if rates is None:
            return None
        peak, first = float(rates.values.max()), float(rates.values[0])
        if peak <= 0 or first > peak / 2:
            return None
        return f"the learning rate rose from {num(first)} to {num(peak)}"

    @property
    def peak_rate(self) -> float | None:
        """The highest intended learning rate: configured, or logged."""
        peak, rates = self.manifest.peak_lr, self._rates
        return peak if peak is not None or rates is None else float(rates.values.max())

    @property
    def from_the_start(self) -> bool:
        """Whether the log has the beginning of the run, and not only what followed a resume."""
        steps = self.report.history.finite("loss").steps
        return len(steps) > 0 and int(steps[0]) <= max(_BEGINNING, 2 * usual_gap(steps))

    @property
    def _rates(self) -> Series | None:
        """The learning rates up to the first jump, which nobody intended."""
        rates, findings = self.report.history.finite("lr"), self.report.findings
        jumps = [
            step
            for found in findings
            for panel in found.panels
            if panel.holds and panel.branch == "lr-jump"
            for step in panel.steps
        ]
        jumps += [
            found.step
            for found in findings
            if found.slug == "lr-discontinuity" and found.step is not None
        ]
        before = rates.until(min(jumps) - 1) if jumps else rates
        return (before if len(before) else rates) if len(rates) else None
