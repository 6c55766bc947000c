"""Facts of a report that the checklist items use."""

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


class FixKind(Enum):
    """The kind of fix that an action is, in the terms of the checklist."""

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


def fix_kinds(finding: Finding) -> tuple[FixKind, ...]:
    """Return the kinds of fix in the first action of a finding, the most specific first."""
    kinds = finding.actions[0].kinds if finding.actions else ()
    return tuple(fix for fix in FixKind if fix.value.intersection(kinds))


@frozen
class Facts:
    """A report with the facts that the checklist items use."""

    report: Report

    @property
    def manifest(self) -> Manifest:
        """The known part of the configuration."""
        return self.report.manifest

    def finding_with_fix(self, fix: FixKind) -> Finding | None:
        """Return the first finding whose first action is this kind of fix."""
        return next((f for f in self.report.findings if fix in fix_kinds(f)), None)

    def logged(self, role: str) -> int:
        """Return the number of logged points of a role, or of its groups."""
        return sum(len(series) for series in self.report.history.group(role).values())

    def groups(self, role: str) -> int:
        """Return the number of logged groups of a role; a total over all groups does not count."""
        return sum(name != "all" for name in self.report.history.group(role))

    @property
    def has_failure(self) -> bool:
        """Whether anything is worse than a note."""
        return any(f.severity.rank <= Severity.WARNING.rank for f in self.report.findings)

    @property
    def reload(self) -> str:
        """Imperative clause: reload the last checkpoint from before the trouble began."""
        diagnosis, unit = self.report.diagnosis, self.report.history.unit
        began = diagnosis.step if diagnosis.began is None else diagnosis.began
        if began is None or not self.has_failure:
            return "Start from any checkpoint"
        checkpoint = self.manifest.earlier_checkpoint(began)
        if diagnosis.severity is Severity.ERROR and diagnosis.actions[0].checkpoint is not None:
            checkpoint = diagnosis.actions[0].checkpoint
        if checkpoint is None:
            return f"Reload the last checkpoint before {unit} {began}"
        return (
            f"Reload the checkpoint of {unit} {checkpoint}"
            if checkpoint
            else "Restart from the beginning"
        )

    @property
    def warmup(self) -> str | None:
        """The warm-up of the learning rate in words; None if nothing shows a warm-up."""
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
        """Whether the log has the beginning of the run, not only the part after a resume."""
        steps = self.report.history.finite("loss").steps
        return len(steps) > 0 and int(steps[0]) <= max(_BEGINNING, 2 * usual_gap(steps))

    @property
    def _rates(self) -> Series | None:
        """The learning rates before the first unintended jump."""
        rates, findings = self.report.history.finite("lr"), self.report.findings
        jumps = [
            step
            for finding in findings
            for panel in finding.panels
            if panel.holds and panel.branch == "lr-jump"
            for step in panel.steps
        ]
        jumps += [
            finding.step
            for finding in findings
            if finding.slug == "lr-discontinuity" and finding.step is not None
        ]
        before = rates.until(min(jumps) - 1) if jumps else rates
        return (before if len(before) else rates) if len(rates) else None
