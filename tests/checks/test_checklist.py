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

DONE, NOT_DONE = State.PASSED, State.FAILED
UNKNOWN, MANUAL = State.UNKNOWN, State.MANUAL


@cache
def checklists(run):
    return checklist(diagnosed(run))


def get_item(run, slug):
    return next(item for item in checklists(run).checks if item.slug == slug)


@pytest.mark.parametrize(
    ("run", "done", "not_done", "unknown"),
    [
        (
            *("healthy-fp32", "precision learning-rate safety-nets try-clip grad-norm"),
            *("instrument", "architecture"),
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
        ("spike-persistent-moments", "try-clip"),
        ("healthy-fp32", None),
    ],
)
def test_interventions_begin_with_that_of_the_diagnosis(run, begin):
    assert checklists(run).begin == begin
    if begin is not None:
        assert get_item(run, begin).state is NOT_DONE


@pytest.mark.parametrize("slug", ["reproduce", "distributed", "minimal", "carry-minimal", "data"])
def test_items_that_logs_cannot_show_are_manual(slug):
    assert get_item("healthy-fp32", slug).state is MANUAL


@pytest.mark.parametrize("run", ["healthy-fp32", "nan-activations-fp16", "spike-lr-jump"])
def test_the_lists_have_their_items_with_unique_slugs(run):
    report = checklists(run)
    fp16 = run.endswith("fp16")  # the loss scale as well
    assert list(map(len, report.sections.values())) == [10, 7, 9 + fp16, 5]
    slugs = [item.slug for item in report.checks]
    assert len(set(slugs)) == len(slugs)
    for item in report.checks[:10]:
        assert (item.state is DONE) != bool(item.actions)


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
    match = re.search(r"checkpoint of \w+ (\d+)|beginning", get_item(run, "reproduce").first_action)
    if first.checkpoint is not None and diagnosis.severity == "error":
        assert int(match[1] or 0) == first.checkpoint
    for fix in fix_kinds(diagnosis):
        if fix in CALLED_FOR:
            assert get_item(run, CALLED_FOR[fix]).state is not DONE, fix
    if FixKind.RATE in fix_kinds(diagnosis):  # one number for the learning rate
        assert get_item(run, "try-rate").actions == (first,)
    if diagnosis.severity == "ok":
        assert checklists(run).begin is None
        assert get_item(run, "try-rate").state is not NOT_DONE


def test_the_advice_on_clipping_comes_from_the_diagnosis():
    line = get_item("spike-persistent-moments", "try-clip")
    assert line.state is NOT_DONE
    assert line.actions == diagnosed("spike-persistent-moments").diagnosis.actions[:1]


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
    assert axis in get_item(run, "narrow").summary


def items_by_slug(log, **manifest):
    report = checklist(stabdiag.diagnose(log, manifest=manifest))
    return {item.slug: item for item in report.checks}


STEP = np.arange(400)
LOG = {"step": STEP, "loss": 2 + np.exp(-STEP / 50)}


def test_a_finding_about_the_learning_rate_fails_its_check():
    lr = 5e-3 * np.minimum((STEP + 1) / 50, 1)
    lr[260:263] = 0.27
    loss = LOG["loss"].copy()
    loss[261:264] += 9
    line = items_by_slug({"step": STEP, "loss": loss, "lr": lr})["try-rate"]
    assert line.state is NOT_DONE


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
        (np.full(400, 1e-3), 0, DONE),  # without a warm-up, but healthy
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
    assert (items["learning-rate"].state, len(items["learning-rate"].actions)) == (NOT_DONE, 1)
    assert items["data"].state is MANUAL


def test_an_unexplained_divergence_leaves_the_learning_rate_a_suspect():
    at = np.arange(600)
    loss = 3.0 - at / 400 + np.random.default_rng(0).normal(0, 0.02, 600)
    settings = {"warmup_steps": 50, "peak_lr": 1e-3}
    for rise, state in ((3.0, State.FAILED), (0.0, State.PASSED)):
        run = loss + np.maximum(at - 400, 0) / 200 * rise
        log = {"step": at, "loss": run, "grad_norm": np.ones(600)}
        checks = checklist(stabdiag.diagnose(log, manifest=settings)).checks
        (rate,) = (check for check in checks if check.slug == "learning-rate")
        assert rate.state is state


def test_the_advice_for_bf16_does_not_name_bf16_again():
    assert "switch to bf16" not in " ".join(
        map(str, get_item("nan-blow-up-bf16", "precision").actions)
    )
    assert "switch to bf16" in " ".join(
        map(str, get_item("nan-dtype-unknown", "precision").actions)
    )
