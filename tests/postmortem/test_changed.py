"""Settings that changed where an incident began, in a post-mortem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import stabdiag
from stabdiag.postmortem import postmortem
from tests.postmortem.test_document import rows, section

if TYPE_CHECKING:
    from stabdiag.report import Report

LOSS = "The log points at a cause, and does not prove it."


def jumped(at: int | None = None, **more: Any) -> Report:
    """Return the report on a loss that jumps at step 300, with a batch size that changes."""
    steps = np.arange(600)
    noise = np.random.default_rng(3).normal(0, 0.03, 600)
    log = {"step": steps, "loss": 1.0 + 2.0 * np.exp(-steps / 60) + noise + (steps >= 300)}
    if at is not None:
        log["batch_size"] = np.where(steps < at, 64, 8)
    return stabdiag.diagnose(log, **more)


def test_it_is_told_in_the_timeline_and_as_a_cause() -> None:
    text = postmortem(jumped(298))
    assert rows(text, "Timeline")[1][:2] == ["298", "**Setting changed**"]
    assert "batch_size went from 64 to 8 at step 298" in section(text, "Timeline")
    why = section(text, "Root cause, as far as the log shows it")
    assert LOSS in why
    assert "- batch_size went from 64 to 8 at step 298, near where the trouble began" in why
    assert "A setting that changed" not in text


def test_one_that_changed_elsewhere_is_ruled_out() -> None:
    out = rows(postmortem(jumped(100)), "What was ruled out, and how")
    assert out[-1][:2] == [
        "A setting that changed where it began",
        "no change lies within a few logged points of where it began (of batch_size)",
    ]


@pytest.mark.parametrize("more", [{}, {"literal": True}])
def test_without_a_setting_nothing_is_said_of_one(more: dict[str, bool]) -> None:
    assert "etting" not in section(postmortem(jumped(**more)), "What was ruled out, and how")


def test_to_the_letter_no_setting_is_told_of() -> None:
    assert "batch" not in section(postmortem(jumped(300, literal=True)), "Timeline")


def test_what_led_up_to_a_nan() -> None:
    steps = np.arange(600)
    loss = 1.0 + 2.0 * np.exp(-steps / 60) + 0.03 * np.sin(steps * 7.0) + (steps >= 300)
    loss[420:] = np.nan
    stage = np.where(steps < 300, 64, 8)
    text = postmortem(stabdiag.diagnose({"step": steps, "loss": loss, "batch_size": stage}))
    assert "batch_size went from 64 to 8 at step 300" in section(text, "Timeline")
