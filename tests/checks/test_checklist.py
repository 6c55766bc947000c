"""The checklists, filled in from what logs show."""

import re
from functools import cache

import numpy as np
import pytest

import stabdiag
from stabdiag.checks.checklist import checklist
from stabdiag.checks.facts import Remedy, remedies
from stabdiag.model.checks import State
from tests.conftest import NAMES, diagnosed

DONE, NOT_DONE, UNKNOWN = State.PASSED, State.FAILED, State.UNKNOWN


@cache
def sheet_of(run):
    return checklist(diagnosed(run))


def item(run, slug):
    return next(item for item in sheet_of(run).items if item.slug == slug)


@pytest.mark.parametrize(
    ("run", "done", "not_done", "unknown"),
    [
        (
            *("healthy-fp32", "precision learning-rate safety-nets try-clip grad-norm"),
            *("instrument", "reproduce data architecture carry-minimal"),
        ),
        ("healthy-loss-only", "", "grad-norm", "precision learning-rate safety-nets"),
        ("healthy-bf16", "precision", "", ""),
        ("spike-duplicate-stuck-loader", "", "data", ""),
        ("symptom-plateau-at-chance", "", "data", ""),
        ("spike-recovered-labels", "", "", "narrow"),
        ("spike-lr-jump", "narrow", "learning-rate carry-tried", ""),
        ("nan-activations-fp16", "", "precision try-precision carry-precision", ""),
        ("nan-dtype-unknown", "", "precision", "try-precision"),
        ("divergence-weight-norm-climbing", "", "safety-nets", ""),
        ("symptom-initial-loss-off", "", "architecture", ""),
        ("nan-log0-fp32", "", "try-operations", ""),
    ],
)
def test_lines(run, done, not_done, unknown):
    for slugs, state in ((done, DONE), (not_done, NOT_DONE), (unknown, UNKNOWN)):
        assert {item(run, slug).state for slug in slugs.split()} <= {state}


@pytest.mark.parametrize(
    ("run", "begin"),
    [
        ("spike-lr-jump", "try-rate"),
        ("nan-activations-fp16", "try-rate"),
        ("loss-scale-static", "try-precision"),
        ("healthy-fp32", "try-data"),
    ],
)
def test_interventions_begin_at_the_first_that_was_not_tried(run, begin):
    tries = sheet_of(run).lists[1]
    assert tries.begin == begin
    before = [item.slug for item in tries.items].index(begin)
    assert {item.state for item in tries.items[:before]} <= {DONE}


@pytest.mark.parametrize("run", ["healthy-fp32", "nan-activations-fp16", "spike-lr-jump"])
def test_the_lists_are_those_of_the_practitioners(run):
    sheet = sheet_of(run)
    fp16 = run.endswith("fp16")  # the loss scale as well
    assert [len(one.items) for one in sheet.lists] == [10, 7, 9 + fp16, 5]
    slugs = [item.slug for item in sheet.items]
    assert len(set(slugs)) == len(slugs)
    for one in sheet.lists[0].items:
        assert (one.state is DONE) != bool(one.do)


# What a first action deals with, and the line that must not be done then.
CALLED_FOR = {
    Remedy.RATE: "try-rate",
    Remedy.CLIP: "try-clip",
    Remedy.DECAY: "safety-nets",
    Remedy.DATA: "data",
    Remedy.MODEL: "architecture",
    Remedy.OPERATIONS: "try-operations",
}


@pytest.mark.parametrize("run", NAMES)
def test_the_checklist_and_the_diagnosis_say_the_same(run):
    found = diagnosed(run).diagnosis
    first = found.actions[0]
    named = re.search(r"checkpoint of \w+ (\d+)|beginning", item(run, "reproduce").do[0])
    if first.checkpoint is not None and found.severity == "error":
        assert int(named[1] or 0) == first.checkpoint
    for remedy in remedies(found):
        if remedy in CALLED_FOR:
            assert item(run, CALLED_FOR[remedy]).state is not DONE, remedy


def test_the_advice_on_clipping_is_that_of_the_diagnosis():
    line = item("spike-persistent-moments", "try-clip")
    assert line.state is NOT_DONE
    assert line.do == (diagnosed("spike-persistent-moments").diagnosis.first_action,)


@pytest.mark.parametrize(
    ("run", "axis"),
    [
        ("nan-blow-up-fp32", "learning rate (nan-fp32)"),
        ("nan-log0-fp32", "weight decay (nan-fp32)"),
        ("loss-scale-collapsed-often", "the numerics (loss-scale-collapsed)"),
        ("spike-duplicate-stuck-loader", "the data (spike-duplicate-batch)"),
    ],
)
def test_the_fault_is_where_the_diagnosis_says(run, axis):
    assert axis in item(run, "narrow").because


def ticks_of(log, **manifest):
    sheet = checklist(stabdiag.diagnose(log, manifest=manifest))
    return {item.slug: item for item in sheet.items}


STEP = np.arange(400)
LOG = {"step": STEP, "loss": 2 + np.exp(-STEP / 50)}


def test_the_peak_of_the_learning_rate_is_the_one_that_was_meant():
    assert "(now 0.005)" in " ".join(item("spike-lr-jump", "try-rate").do)
    lr = 5e-3 * np.minimum((STEP + 1) / 50, 1)
    lr[260:263] = 0.27
    loss = LOG["loss"].copy()
    loss[261:264] += 9
    line = ticks_of({"step": STEP, "loss": loss, "lr": lr})["try-rate"]
    assert line.state is NOT_DONE
    assert "(now 0.005)" in " ".join(line.do)


def test_what_is_logged_by_layer_is_instrumented():
    layers = {
        f"{role}/{layer}": np.ones(400)
        for role in ("grad_norm", "weight_norm", "activation_norm")
        for layer in ("first", "last")
    }
    assert ticks_of({**LOG, **layers})["instrument"].state is DONE


@pytest.mark.parametrize(
    ("rates", "first", "state"),
    [
        (None, 0, UNKNOWN),
        (np.full(400, 1e-3), 0, NOT_DONE),
        (1e-3 * np.minimum((STEP + 1) / 50, 1), 0, DONE),
        (np.full(400, 1e-3), 50_000, UNKNOWN),  # the log begins after any warm-up
    ],
)
def test_a_warmup_is_read_off_the_rates(rates, first, state):
    log = {**LOG, "step": STEP + first} | ({} if rates is None else {"lr": rates})
    assert ticks_of(log)["learning-rate"].state is state


def test_clipping_that_is_off_is_not_done():
    found = ticks_of(LOG, grad_clip=0)
    assert {found["try-clip"].state, found["safety-nets"].state} == {NOT_DONE}


def test_a_learning_rate_of_0_is_a_matter_of_the_rate_and_not_lowered():
    found = ticks_of({"step": STEP, "loss": np.full(400, 2.5), "lr": np.zeros(400)})
    assert (found["learning-rate"].state, len(found["learning-rate"].do)) == (NOT_DONE, 1)
    assert found["data"].state is UNKNOWN
