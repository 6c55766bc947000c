"""What a report shows that the lines of the checklists ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.findings import Severity
from stabdiag.tree.words import checkpoint_before, num

if TYPE_CHECKING:
    from stabdiag.findings import Finding
    from stabdiag.manifest import Manifest
    from stabdiag.report import Report

# Findings by what they blame, as the beginnings of slugs.
DATA = (
    *("spike-duplicate-batch", "spike-long-tail-batch", "batch-repeats", "epoch-boundary-jump"),
    *("plateau-at-chance", "too-good", "eval-gap-from-start", "resume-data-replayed"),
    *("not-learning", "loss-constant", "frequent-spikes"),
)
RATE = (
    *("spike-lr-jump", "divergence-lr-rising", "divergence-grad-norm-rising", "lr-no-warmup"),
    *("lr-warmup-mismatch", "lr-decays-early", "lr-discontinuity", "lr-never-decays"),
    *("loss-oscillating", "grad-exploding", "resume-lr-reset", "plateau-early"),
)
DECAY = (
    *("divergence-weight-norm-climbing", "divergence-weight-norm-collapsing"),
    *("weight-norm-runaway", "weight-norm-shrinking"),
)
PRECISION = (
    *("nan-fp16-overflow", "gradient-overflow", "loss-scale", "overflow-rate-high"),
    "adam-underflow-risk",
)
ARCHITECTURE = (
    *("grad-layer-outlier", "grad-vanishing", "dead-neurons", "activation-saturated"),
    *("attention-entropy-collapse", "initial-loss-off", "update-ratio-off"),
)
RESUME = ("resume-loss-jump", "resume-lr-reset", "resume-data-replayed", "resume-step-gap")


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A report, as the lines ask of it."""

    report: Report

    @property
    def manifest(self) -> Manifest:
        """What is known of the configuration."""
        return self.report.manifest

    def finding(self, slugs: tuple[str, ...]) -> Finding | None:
        """Return the first finding whose slug begins with one of these."""
        return next((f for f in self.report.findings if f.slug.startswith(slugs)), None)

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
        """An imperative clause: reload the last checkpoint before what was found."""
        step = self.report.diagnosis.step
        if step is None or not self.broke:
            return "Begin at any checkpoint"
        return checkpoint_before(self.manifest, step).reload(f"step {step}")

    @property
    def warmup(self) -> str | None:
        """How long the learning rate warmed up, in words, or None where nothing tells of one."""
        told = self.manifest.warmup_steps
        if told:
            return f"the manifest tells of a warm-up of {told} steps"
        lr = self.report.history.get("lr")
        if lr is None or not len(lr.finite()):
            return None
        rates = lr.finite()
        peak, first = float(rates.values.max()), float(rates.values[0])
        if peak <= 0 or first > peak / 2:
            return None
        return f"the learning rate rose from {num(first)} to {num(peak)}"

    @property
    def peak_rate(self) -> float | None:
        """The highest learning rate: logged, or told."""
        lr = self.report.history.get("lr")
        if lr is not None and len(lr.finite()):
            return float(lr.finite().values.max())
        return self.manifest.peak_lr
