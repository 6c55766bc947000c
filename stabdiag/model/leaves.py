"""The leaves of the tree, one row each: slug, severity, section and title."""

from __future__ import annotations

from dataclasses import dataclass

from stabdiag.model.findings import Severity


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A leaf: its slug, how bad it is, its section and its title."""

    slug: str
    severity: Severity
    section: str
    title: str


def _outcome(slug: str, severity: Severity, section: str, title: str) -> Outcome:
    return Outcome(slug=slug, severity=severity, section=section, title=title)


OUTCOMES: tuple[Outcome, ...] = (
    _outcome("nan-fp32", Severity.ERROR, "§1", "The loss went NaN in full precision"),
    _outcome("nan-bf16", Severity.ERROR, "§1", "The loss went NaN in bf16"),
    _outcome("nan-fp16-overflow", Severity.ERROR, "§1", "The loss went NaN in fp16"),
    _outcome("nan-dtype-unknown", Severity.ERROR, "§1", "The loss went NaN"),
    _outcome("spike-long-tail-batch", Severity.WARNING, "§2", "Loss spike from a long-tail batch"),
    _outcome("spike-lr-jump", Severity.WARNING, "§2", "Loss spike from a learning-rate jump"),
    _outcome("spike-duplicate-batch", Severity.WARNING, "§2", "Loss spike from a repeated batch"),
    _outcome("spike-recovered", Severity.WARNING, "§2", "Loss spike that recovered"),
    _outcome("spike-persistent", Severity.ERROR, "§2", "Loss spike that did not recover"),
    _outcome("spike-unresolved", Severity.ERROR, "§2", "Loss spike at the end of the log"),
    _outcome("gradient-overflow", Severity.WARNING, "§3", "Gradients overflow"),
    _outcome(
        "loss-scale-static", Severity.ERROR, "§3", "Gradients overflow under a static loss scale"
    ),
    _outcome("loss-scale-collapsed", Severity.ERROR, "§3", "The loss scale collapsed"),
    _outcome(
        "divergence-lr-rising", Severity.ERROR, "§4", "The loss diverged as the learning rate rose"
    ),
    _outcome(
        "divergence-weight-norm-climbing", Severity.ERROR, "§4", "The loss diverged as weights grew"
    ),
    _outcome(
        "divergence-weight-norm-collapsing",
        Severity.ERROR,
        "§4",
        "The loss diverged as weights shrank",
    ),
    _outcome(
        "divergence-grad-norm-rising",
        Severity.ERROR,
        "§4",
        "The loss diverged with the gradient norm",
    ),
    _outcome(
        "divergence-unexplained",
        Severity.ERROR,
        "§4",
        "The loss diverged; nothing logged explains it",
    ),
    _outcome("plateau", Severity.NOTE, "§4", "The loss has stopped falling"),
    _outcome("healthy", Severity.OK, "", "No instability found"),
    _outcome("insufficient-data", Severity.NOTE, "", "Too little was logged to tell"),
)

BY_SLUG = {outcome.slug: outcome for outcome in OUTCOMES}
