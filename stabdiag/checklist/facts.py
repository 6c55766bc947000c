"""The facts about a run that the lines of the checklists ask for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from stabdiag.findings import RATE, ActionKind, Severity
from stabdiag.symptoms.losses import from_the_start
from stabdiag.tree.case import Case
from stabdiag.tree.checkpoint import checkpoint_before
from stabdiag.words import num, plural

if TYPE_CHECKING:
    from stabdiag.findings import Finding
    from stabdiag.history import Series
    from stabdiag.manifest import Manifest
    from stabdiag.report import Report


class Remedy(Enum):
    """What an action sets about, as the checklists tell such things apart."""

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
    """Return what the first action of a finding sets about; what tells most comes first."""
    kinds = found.actions[0].kinds if found.actions else ()
    return tuple(remedy for remedy in Remedy if remedy.value.intersection(kinds))


@dataclass(frozen=True, kw_only=True)
class Facts:
    """A report, with what the lines of the checklists ask of it."""

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
        before = checkpoint_before(self.manifest, found.step, self._case.stride)
        return found.reload or str(before.reload(f"step {found.step}"))

    @property
    def warmup(self) -> str | None:
        """How long the learning rate warmed up, in words, or None where nothing tells of one."""
        told = self.manifest.warmup_steps
        if told:
            return f"the manifest tells of a warm-up of {plural(told, 'step')}"
        rates = self._rates
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
        """Whether the log has the beginning of the run."""
        return from_the_start(self._case)

    @cached_property
    def _case(self) -> Case:
        report = self.report
        return Case(history=report.history, manifest=report.manifest, limits=report.limits)

    @cached_property
    def _rates(self) -> Series | None:
        """The learning rates, up to the first jump: what it jumped to was never meant."""
        rates, jumps = self.report.history.finite("lr"), self._case.causes.lr_jumps
        if not len(rates):
            return None
        before = rates.until(int(jumps[0]) - 1) if len(jumps) else rates
        return before if len(before) else rates
