"""The checklists, filled in from logs."""

import re
from functools import cache

import numpy as np
import pytest

import stabdiag
from stabdiag.checks.checklist import checklist
from stabdiag.checks.facts import FixKind, fix_kinds
from stabdiag.model.checks import State
from tests.conftest import NAMES, diagnosed

DONE, NOT_DONE, UNKNOWN = State.PASSED, State.FAILED, State.UNKNOWN


@cache
def checklists(run):
    return checklist(diagnosed(run))


def get_item(run, slug):
    return next(item for item in checklists(run).items if item.slug == slug)


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
def test_items_get_their_state_from_the_log(run, done, not_done, unknown):
    for slugs, state in ((done, DONE), (not_done, NOT_DONE), (unknown, UNKNOWN)):
        assert {get_item(run, slug).state for slug in slugs.split()} <= {state}


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
    interventions = checklists(run).lists[1]
    assert interventions.begin == begin
    before = [item.slug for item in interventions.items].index(begin)
    assert {item.state for item in interventions.items[:before]} <= {DONE}


@pytest.mark.parametrize("run", ["healthy-fp32", "nan-activations-fp16", "spike-lr-jump"])
def test_the_lists_have_their_items_with_unique_slugs(run):
    report = checklists(run)
    fp16 = run.endswith("fp16")  # the loss scale as well
    assert [len(checklist.items) for checklist in report.lists] == [10, 7, 9 + fp16, 5]
    slugs = [item.slug for item in report.items]
    assert len(set(slugs)) == len(slugs)
    for item in report.lists[0].items:
        assert (item.state is DONE) != bool(item.do)


# The kind of fix of a first action, and the item that must not be done then.
CALLED_FOR = {
    FixKind.RATE: "try-rate",
    FixKind.CLIP: "try-clip",
    FixKind.DECAY: "safety-nets",
    FixKind.DATA: "data",
    FixKind.MODEL: "architecture",
    FixKind.OPERATIONS: "try-operations",
}


@pytest.mark.parametrize("run", NAMES)
def test_the_checklist_and_the_diagnosis_agree(run):
    diagnosis = diagnosed(run).diagnosis
    first = diagnosis.actions[0]
    match = re.search(r"checkpoint of \w+ (\d+)|beginning", get_item(run, "reproduce").do[0])
    if first.checkpoint is not None and diagnosis.severity == "error":
        assert int(match[1] or 0) == first.checkpoint
    for fix in fix_kinds(diagnosis):
        if fix in CALLED_FOR:
            assert get_item(run, CALLED_FOR[fix]).state is not DONE, fix


def test_the_advice_on_clipping_comes_from_the_diagnosis():
    line = get_item("spike-persistent-moments", "try-clip")
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
    assert axis in get_item(run, "narrow").because


def items_by_slug(log, **manifest):
    report = checklist(stabdiag.diagnose(log, manifest=manifest))
    return {item.slug: item for item in report.items}


STEP = np.arange(400)
LOG = {"step": STEP, "loss": 2 + np.exp(-STEP / 50)}


def test_the_peak_learning_rate_ignores_an_unintended_jump():
    assert "(now 0.005)" in " ".join(get_item("spike-lr-jump", "try-rate").do)
    lr = 5e-3 * np.minimum((STEP + 1) / 50, 1)
    lr[260:263] = 0.27
    loss = LOG["loss"].copy()
    loss[261:264] += 9
    line = items_by_slug({"step": STEP, "loss": loss, "lr": lr})["try-rate"]
    assert line.state is NOT_DONE
    assert "(now 0.005)" in " ".join(line.do)


def test_norms_by_layer_count_as_instrumented():
    layers = {
        f"{role}/{layer}": np.ones(400)
        for role in ("grad_norm", "weight_norm", "activation_norm")
        for layer in ("first", "last")
    }
    assert items_by_slug({**LOG, **layers})["instrument"].state is DONE


@pytest.mark.parametrize(
    ("rates", "first", "state"),
    [
        (None, 0, UNKNOWN),
        (np.full(400, 1e-3), 0, NOT_DONE),
        (1e-3 * np.minimum((STEP + 1) / 50, 1), 0, DONE),
        (np.full(400, 1e-3), 50_000, UNKNOWN),  # the log begins after any warm-up
    ],
)
def test_a_warmup_is_detected_in_the_learning_rates(rates, first, state):
    log = {**LOG, "step": STEP + first} | ({} if rates is None else {"lr": rates})
    assert items_by_slug(log)["learning-rate"].state is state


def test_clipping_that_is_off_is_not_done():
    items = items_by_slug(LOG, grad_clip=0)
    assert {items["try-clip"].state, items["safety-nets"].state} == {NOT_DONE}


def test_a_learning_rate_of_0_fails_without_advice_to_lower_it():
    items = items_by_slug({"step": STEP, "loss": np.full(400, 2.5), "lr": np.zeros(400)})
    assert (items["learning-rate"].state, len(items["learning-rate"].do)) == (NOT_DONE, 1)
    assert items["data"].state is UNKNOWN
