"""The leaves of the tree, one row each: slug, severity, section and title."""

from __future__ import annotations

from typing import NamedTuple

from stabdiag.model.findings import Severity


class Outcome(NamedTuple):
    """A leaf: its slug, how bad it is, its section and its title."""

    slug: str
    severity: Severity
    section: str
    title: str


_ERROR, _WARNING = Severity.ERROR, Severity.WARNING

_ROWS = (
    ("nan-fp32", _ERROR, "§1", "The loss went NaN in full precision"),
    ("nan-bf16", _ERROR, "§1", "The loss went NaN in bf16"),
    ("nan-fp16-overflow", _ERROR, "§1", "The loss went NaN in fp16"),
    ("nan-dtype-unknown", _ERROR, "§1", "The loss went NaN"),
    ("spike-long-tail-batch", _WARNING, "§2", "Loss spike from a long-tail batch"),
    ("spike-lr-jump", _WARNING, "§2", "Loss spike from a learning-rate jump"),
    ("spike-duplicate-batch", _WARNING, "§2", "Loss spike from a repeated batch"),
    ("spike-recovered", _WARNING, "§2", "Loss spike that recovered"),
    ("spike-persistent", _ERROR, "§2", "Loss spike that did not recover"),
    ("spike-unresolved", _ERROR, "§2", "Loss spike, not seen to recover"),
    ("gradient-overflow", _WARNING, "§3", "Gradients overflow"),
    ("loss-scale-static", _ERROR, "§3", "Gradients overflow under a static loss scale"),
    ("loss-scale-collapsed", _ERROR, "§3", "The loss scale collapsed"),
    ("divergence-lr-rising", _ERROR, "§4", "The loss diverged as the learning rate rose"),
    ("divergence-weight-norm-climbing", _ERROR, "§4", "The loss diverged as weights grew"),
    ("divergence-weight-norm-collapsing", _ERROR, "§4", "The loss diverged as weights shrank"),
    ("divergence-grad-norm-rising", _ERROR, "§4", "The loss diverged with the gradient norm"),
    ("divergence-unexplained", _ERROR, "§4", "The loss diverged; nothing logged explains it"),
    ("plateau", Severity.NOTE, "§4", "The loss has stopped falling"),
    ("healthy", Severity.OK, "", "No instability found"),
    ("insufficient-data", Severity.NOTE, "", "Too little was logged to tell"),
)

OUTCOMES = tuple(map(Outcome._make, _ROWS))

BY_SLUG = {outcome.slug: outcome for outcome in OUTCOMES}
