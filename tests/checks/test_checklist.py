"""The checklists, ticked off from what logs show."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stabdiag
from stabdiag.checks.checklist import checklist
from stabdiag.model.checks import Sheet, State, Tick
from stabdiag.model.report import Report

RUNS = Path(__file__).parents[2] / "fixtures" / "runs"


@cache
def report_of(run: str) -> Report:
    (log,) = (RUNS / run).glob("log.*")
    return stabdiag.diagnose(log)


@cache
def sheet_of(run: str) -> Sheet:
    return checklist(report_of(run))


def tick(run: str, slug: str) -> Tick:
    return next(tick for tick in sheet_of(run).ticks if tick.slug == slug)


@pytest.mark.parametrize(
    ("run", "slug", "state"),
    [
        ("healthy-fp32", "reproduce", State.UNKNOWN),
        ("healthy-fp32", "data", State.UNKNOWN),
        ("spike-duplicate-stuck-loader", "data", State.CROSSED),
        ("symptom-plateau-at-chance", "data", State.CROSSED),
        ("healthy-fp32", "instrument", State.CROSSED),
        ("spike-lr-jump", "narrow", State.TICKED),
        ("spike-recovered-labels", "narrow", State.UNKNOWN),
        ("healthy-fp32", "precision", State.TICKED),
        ("healthy-bf16", "precision", State.TICKED),
        ("nan-activations-fp16", "precision", State.CROSSED),
        ("nan-dtype-unknown", "precision", State.CROSSED),
        ("healthy-loss-only", "precision", State.UNKNOWN),
        ("spike-lr-jump", "learning-rate", State.CROSSED),
        ("healthy-fp32", "learning-rate", State.TICKED),
        ("healthy-loss-only", "learning-rate", State.UNKNOWN),
        ("healthy-fp32", "safety-nets", State.TICKED),
        ("divergence-weight-norm-climbing", "safety-nets", State.CROSSED),
        ("healthy-loss-only", "safety-nets", State.UNKNOWN),
        ("symptom-initial-loss-off", "architecture", State.CROSSED),
        ("healthy-fp32", "architecture", State.UNKNOWN),
        ("nan-log0-fp32", "try-operations", State.CROSSED),
        ("nan-activations-fp16", "try-precision", State.CROSSED),
        ("healthy-fp32", "try-clip", State.TICKED),
        ("healthy-fp32", "grad-norm", State.TICKED),
        ("healthy-loss-only", "grad-norm", State.CROSSED),
        ("nan-activations-fp16", "carry-precision", State.CROSSED),
        ("spike-lr-jump", "carry-tried", State.CROSSED),
        ("healthy-fp32", "carry-minimal", State.UNKNOWN),
    ],
)
def test_lines(run: str, slug: str, state: State):
    assert tick(run, slug).state is state


@pytest.mark.parametrize(
    ("run", "begin"),
    [
        ("spike-lr-jump", "try-rate"),
        ("nan-activations-fp16", "try-rate"),
        ("loss-scale-static", "try-precision"),
        ("healthy-fp32", "try-data"),
    ],
)
def test_interventions_begin_at_the_first_that_was_not_tried(run: str, begin: str):
    tries = sheet_of(run).lists[1]
    assert tries.begin == begin
    before = [tick.slug for tick in tries.ticks].index(begin)
    assert {tick.state for tick in tries.ticks[:before]} <= {State.TICKED}


def test_the_lists_are_those_of_the_practitioners():
    sheet = sheet_of("healthy-fp32")
    assert [len(one.ticks) for one in sheet.lists] == [10, 7, 9, 5]
    assert len(sheet_of("nan-activations-fp16").lists[2].ticks) == 10  # the loss scale as well
    for one in (sheet, sheet_of("nan-activations-fp16")):
        slugs = [tick.slug for tick in one.ticks]
        assert len(set(slugs)) == len(slugs)


@pytest.mark.parametrize("run", ["healthy-loss-only", "nan-activations-fp16", "spike-lr-jump"])
def test_every_open_line_of_the_ten_says_what_to_do(run: str):
    for one in sheet_of(run).lists[0].ticks:
        assert one.because.endswith(".")
        assert (one.state is State.TICKED) != bool(one.do)


def test_the_checkpoint_before_the_failure_is_named():
    assert (
        tick("nan-activations-fp16", "reproduce")
        .do[0]
        .startswith("Reload the checkpoint of step 200")
    )


EVERY = sorted(folder.name for folder in RUNS.iterdir() if any(folder.glob("log.*")))
CHECKPOINT = re.compile(
    r"[Rr]eload the checkpoint of step \d+|[Rr]estart from the beginning|[Rr]eload the last"
)


@pytest.mark.parametrize("run", EVERY)
def test_the_checklist_and_the_diagnosis_name_the_same_checkpoint(run: str):
    named = CHECKPOINT.search(report_of(run).diagnosis.first_action)
    told = CHECKPOINT.search(tick(run, "reproduce").do[0])
    if named is not None:
        assert told is not None
        assert told.group().lower() == named.group().lower()


# What a first action says, and the line that must not be ticked then.
CALLED_FOR = {
    "try-rate": re.compile("(half|halve|lower|divide) the (peak )?learning rate|fix the schedule"),
    "try-clip": re.compile("clip threshold|gradient norm (clipped )?at"),
    "safety-nets": re.compile("weight decay"),
    "data": re.compile("the data|the batch of step|the batches"),
    "try-precision": re.compile("bf16|loss scaling"),
    "try-operations": re.compile("isnan checks|operation"),
}


@pytest.mark.parametrize("run", EVERY)
def test_no_line_is_ticked_that_the_first_action_calls_for(run: str):
    report = report_of(run)
    # Where the tree finds nothing the first action is that of a warning, which names alternatives.
    well = report.tree.outcome.slug == "healthy"
    first = "" if well else report.diagnosis.first_action.lower()
    for slug, words in CALLED_FOR.items():
        if words.search(first):
            assert tick(run, slug).state is not State.TICKED, slug


def test_the_advice_on_clipping_is_that_of_the_diagnosis():
    line = tick("spike-persistent-moments", "try-clip")
    assert line.state is State.CROSSED
    assert line.because == "It is clipped at 1. Loss spike that did not recover (spike-persistent)."
    assert line.do == (report_of("spike-persistent-moments").diagnosis.first_action,)


@pytest.mark.parametrize(
    ("run", "axis"),
    [
        ("nan-blow-up-fp32", "the optimizer: its learning rate (nan-fp32)"),
        ("nan-blow-up-bf16", "the optimizer: its learning rate (nan-bf16)"),
        ("nan-log0-fp32", "the optimizer: its weight decay (nan-fp32)"),
        ("loss-scale-collapsed-often", "the numerics (loss-scale-collapsed)"),
        ("spike-duplicate-stuck-loader", "the data (spike-duplicate-batch)"),
    ],
)
def test_the_fault_is_where_the_diagnosis_says(run: str, axis: str):
    assert tick(run, "narrow").because == f"The log points at {axis}."


def test_the_peak_of_the_learning_rate_is_the_one_that_was_meant():
    assert "(now 0.005)" in " ".join(tick("spike-lr-jump", "try-rate").do)
    lr = 5e-3 * np.minimum((STEP + 1) / 50, 1)
    lr[260:263] = 0.27
    loss = LOG["loss"].copy()
    loss[261:264] += 9
    line = diagnosed({"step": STEP, "loss": loss, "lr": lr}, {})["try-rate"]
    assert line.state is State.CROSSED
    assert "(now 0.005)" in " ".join(line.do)


def diagnosed(log: dict[str, Any], manifest: dict[str, object]) -> dict[str, Tick]:
    sheet = checklist(stabdiag.diagnose(log, manifest=manifest))
    return {tick.slug: tick for tick in sheet.ticks}


STEP = np.arange(400)
LOG = {"step": STEP, "loss": 2 + np.exp(-STEP / 50)}


def test_what_is_logged_by_layer_is_instrumented():
    layers = {
        f"{role}/{layer}": np.ones(400)
        for role in ("grad_norm", "weight_norm", "activation_norm")
        for layer in ("first", "last")
    }
    found = diagnosed({**LOG, **layers}, {})
    assert found["instrument"].state is State.TICKED
    assert "No layer stands out among 2" in found["architecture"].because


def test_a_learning_rate_that_begins_at_its_peak_had_no_warmup():
    flat = diagnosed({**LOG, "lr": np.full(400, 1e-3)}, {})
    risen = diagnosed({**LOG, "lr": 1e-3 * np.minimum((STEP + 1) / 50, 1)}, {})
    assert flat["learning-rate"].state is State.CROSSED
    assert risen["learning-rate"].state is State.TICKED
    assert diagnosed(LOG, {})["learning-rate"].state is State.UNKNOWN


def test_clipping_that_is_off_is_crossed():
    found = diagnosed(LOG, {"grad_clip": 0})
    assert found["try-clip"].state is State.CROSSED
    assert found["safety-nets"].state is State.CROSSED


def test_a_log_that_begins_late_shows_no_warmup():
    at = np.arange(200)
    log = {"step": 50_000 + at, "loss": 2.0 - at / 1000, "lr": np.full(200, 1e-3)}
    assert diagnosed(log, {})["learning-rate"].state is State.UNKNOWN


def test_a_learning_rate_of_0_is_a_matter_of_the_rate_and_not_lowered():
    at = np.arange(400)
    log = {"step": at, "loss": np.full(400, 2.5), "lr": np.zeros(400)}
    sheet = checklist(stabdiag.diagnose(log))
    ticks = {tick.slug: tick for tick in sheet.ticks}
    rate = ticks["learning-rate"]
    assert rate.state is State.CROSSED
    assert rate.do == ("Find out what sets the learning rate to 0: no step changes the weights.",)
    assert ticks["data"].state is State.UNKNOWN
