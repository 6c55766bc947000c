"""Real runs, healthy ones and ones that were broken on purpose."""

import json
import re

import jsonschema
import numpy as np
import pytest

from stabdiag.formats.json import schema
from stabdiag.model.edges import OUTCOME_BY_SLUG
from stabdiag.model.findings import EARLIER_RUN_FAILED, PARTLY_READ, Severity
from stabdiag.symptoms.registry import SYMPTOM_BY_SLUG as SYMPTOMS
from tests.conftest import NAMES, ONE_EACH, about, diagnosed

# A fault that is there from the first step on has no date.
WITH_ONSET = [run for run in NAMES if about(run)["onset"]]
SUDDEN = [run for run in WITH_ONSET if not about(run)["expect"].startswith("divergence-")]
SLOW = [run for run in WITH_ONSET if about(run)["expect"].startswith("divergence-")]


def stride(report):
    return float(np.median(np.diff(report.history.series["loss"].steps)))


def margin(report):
    """Return the allowed distance between a fault and its first sign, in steps."""
    return max(60.0, 5 * stride(report))


@pytest.mark.parametrize("run", NAMES)
def test_the_diagnosis_is_right(run):
    report, label = diagnosed(run), about(run)
    slugs = {finding.slug for finding in report.findings}
    expected = {label["expect"], *label["also_ok"]}
    assert {report.diagnosis.slug, report.tree.outcome.slug} & expected
    assert set(label["also"]) <= slugs
    if label["expect"] in SYMPTOMS:
        assert label["expect"] in slugs
        assert report.diagnosis.slug in {*expected, *label["also"]}
    if label["expect"] == "healthy":
        assert report.diagnosis.severity is not Severity.ERROR
        warned = [f.slug for f in report.findings if f.severity is Severity.WARNING]
        assert not SYMPTOMS.keys() & {*warned}


def test_every_outcome_is_reached_by_a_run():
    assert {diagnosed(run).tree.outcome.slug for run in NAMES} == set(OUTCOME_BY_SLUG) - {
        EARLIER_RUN_FAILED,
        PARTLY_READ,
    }


# Symptoms that no trained run shows: the tests of each make logs that show it and near misses.
SHOWN_BY_SYNTHETIC_LOGS = {
    *("heavy-tailed-loss", "overconfident", "collapse-recovered", "discriminator-wins"),
    *("eval-only-rising", "loss-scale-stuck", "policy-drifts", "policy-entropy-collapsed"),
    *("epoch-pattern", "loss-negative", "kl-collapsed"),
}


def test_every_symptom_is_shown_by_a_run():
    shown = {slug for run in NAMES for slug in (about(run)["expect"], *about(run)["also"])}
    assert set(SYMPTOMS) - shown - SHOWN_BY_SYNTHETIC_LOGS == set()


# Near misses of a symptom: it was checked, the tree did not preempt it, and it is absent.
NEAR_MISSES = {
    "eval-far-below-train": ("symptom-train-loss-summed", "healthy-eval-rows"),
    "eval-loss-scaled": ("symptom-eval-gap-from-start", "symptom-overfitting"),
    "train-loss-summed": ("symptom-eval-far-below-train", "healthy-eval-rows"),
    "eval-equals-train": ("symptom-overfitting", "symptom-eval-gap-from-start"),
    "learning-not-transferring": ("symptom-overfitting", "symptom-eval-gap-from-start"),
    "no-progress": ("symptom-learning-slow", "healthy-batch-1"),
    "other-loss-rising": ("healthy-auxiliary-1", "symptom-other-loss-nonfinite"),
    "other-loss-nonfinite": ("healthy-auxiliary-2", "symptom-other-loss-rising"),
    "lr-range-test": ("symptom-lr-warmup-endless", "healthy-warm-restarts"),
    "one-batch-test": ("symptom-batch-repeats", "healthy-epochs"),
    "score-collapsed": ("healthy-auxiliary-1", "symptom-score-constant"),
    "score-constant": ("healthy-auxiliary-2", "symptom-score-collapsed"),
    "setting-unusual": ("healthy-fp32", "symptom-learning-slow"),
    "loss-implausible": ("symptom-train-loss-summed", "healthy-heavy-tails"),
    "rise-recovered": ("healthy-curriculum", "healthy-warm-restarts"),
    "softmax-twice": ("symptom-plateau-at-chance", "symptom-too-good"),
    "ends-mid-cycle": ("healthy-warm-restarts", "symptom-lr-never-decays"),
    "data-loading-slow": ("healthy-loader-1", "healthy-loader-2"),
    "activation-exploding": ("healthy-layers-1", "healthy-layers-2"),
    "attention-logits-growing": ("healthy-layers-1", "healthy-layers-2"),
    "norm-jump": ("symptom-weight-norm-runaway", "healthy-curriculum"),
    "grad-vanishing-by-depth": ("healthy-layers-1", "healthy-layers-2"),
    "group-frozen": ("healthy-layers-1", "symptom-grad-layer-outlier"),
    "dead-from-start": ("healthy-recorded-cnn", "healthy-recorded-regression"),
    "saturated-from-start": ("healthy-recorded-tanh", "healthy-recorded-tanh-sgd"),
    "ends-at-noise-floor": ("healthy-recorded-cnn", "healthy-recorded-tanh-sgd"),
    "training-labels-wrong": ("healthy-recorded-cnn", "healthy-recorded-tanh"),
    "loss-of-probabilities": ("healthy-recorded-cnn", "healthy-recorded-accumulation"),
    "loss-broadcast": ("healthy-recorded-regression", "healthy-recorded-one-hot"),
    "gradients-not-zeroed": ("healthy-recorded-accumulation", "healthy-recorded-cnn"),
    "gradient-of-a-multiple": ("healthy-recorded-accumulation", "healthy-recorded-cnn"),
    "not-in-optimizer": ("healthy-recorded-fine-tuning", "recorded-frozen-at-init"),
    "frozen-at-init": ("healthy-recorded-fine-tuning", "healthy-recorded-cnn"),
    "no-gradient": ("healthy-recorded-fine-tuning", "recorded-frozen-at-init"),
    "evaluated-in-training-mode": ("healthy-recorded-cnn", "healthy-recorded-accumulation"),
    "left-in-evaluation-mode": ("healthy-recorded-cnn", "healthy-recorded-accumulation"),
    "batch-norm-of-few": ("healthy-recorded-cnn", "healthy-recorded-accumulation"),
    "optimizer-replaced": ("healthy-recorded-cnn", "healthy-recorded-fine-tuning"),
    "initial-weights-off": ("healthy-recorded-bf16", "healthy-recorded-regression"),
    "inputs-rescaled": ("healthy-recorded-cnn", "recorded-inputs-nonfinite"),
    "labels-in-order": ("healthy-recorded-cnn", "healthy-recorded-accumulation"),
    "ranks-differ": ("healthy-recorded-ranks", "recorded-ranks-share-batches"),
    "ranks-share-batches": ("healthy-recorded-ranks", "recorded-ranks-differ"),
    "inputs-nonfinite": ("healthy-recorded-cnn", "healthy-recorded-accumulation"),
    "updates-lost": ("healthy-recorded-bf16", "healthy-recorded-cnn"),
    "log-of-softmax": ("healthy-recorded-cnn", "healthy-recorded-accumulation"),
    "relu-on-logits": ("healthy-recorded-cnn", "healthy-recorded-accumulation"),
    "loss-constant": ("symptom-not-learning", "symptom-plateau-at-chance"),
    "plateau-at-chance": ("symptom-underfitting", "symptom-not-learning"),
    "not-learning": ("symptom-underfitting", "symptom-plateau-at-chance"),
    "lr-too-high": ("healthy-batch-1", "symptom-lr-no-warmup"),
    "reward-not-rising": ("healthy-policy", "healthy-q-learning"),
    "learning-slow": ("symptom-underfitting", "symptom-not-learning"),
    "initial-loss-off": ("healthy-batch-1", "symptom-plateau-at-chance"),
    "plateau-early": ("healthy-epochs", "healthy-epochs-restarts"),
    "too-good": ("symptom-overfitting", "symptom-loss-constant"),
    "loss-oscillating": ("healthy-warm-restarts", "healthy-heavy-tails"),
    "overfitting": ("symptom-eval-gap-from-start", "symptom-eval-rising"),
    "eval-rising": ("symptom-overfitting", "symptom-eval-gap-from-start"),
    "eval-gap-from-start": ("symptom-overfitting", "symptom-eval-rising"),
    "eval-constant": ("symptom-eval-rising", "healthy-eval-rows"),
    "eval-nonfinite": ("symptom-eval-rising", "symptom-overfitting"),
    "underfitting": ("healthy-eval-rows", "symptom-eval-gap-from-start"),
    "epoch-boundary-jump": ("healthy-epochs", "healthy-epochs-restarts"),
    "batch-repeats": ("healthy-epochs", "healthy-resumed"),
    "frequent-spikes": ("healthy-heavy-tails", "healthy-batch-1"),
    "grad-nonfinite": ("healthy-fp16-probing", "healthy-fp16-calibrating"),
    "grad-exploding": ("spike-long-tail-garbage", "healthy-heavy-tails"),
    "grad-vanishing": ("symptom-underfitting", "symptom-plateau-at-chance"),
    "grad-clip-saturated": ("healthy-batch-1", "healthy-heavy-tails"),
    "grad-layer-outlier": ("healthy-by-layer", "healthy-relu"),
    "weight-norm-runaway": ("symptom-lr-never-decays", "healthy-long"),
    "weight-norm-shrinking": ("healthy-regression", "symptom-weight-norm-runaway"),
    "update-ratio-off": ("healthy-by-layer", "healthy-relu"),
    "dead-neurons": ("healthy-relu", "healthy-relu-low"),
    "activation-saturated": ("healthy-tanh", "healthy-tanh-large"),
    "attention-entropy-collapse": ("healthy-by-layer", "healthy-sharper"),
    "lr-no-warmup": ("healthy-epochs-restarts", "symptom-lr-never-decays"),
    "lr-warmup-mismatch": ("healthy-resumed", "healthy-short"),
    "lr-decays-early": ("healthy-sgd", "healthy-step-decay"),
    "lr-never-decays": ("healthy-warm-restarts", "healthy-step-decay"),
    "lr-discontinuity": ("healthy-warm-restarts", "healthy-step-decay"),
    "overflow-rate-high": ("healthy-fp16-skips", "healthy-fp16-searching"),
    "adam-underflow-risk": ("healthy-fp16-skips", "healthy-fp16-searching"),
    "resume-loss-jump": ("healthy-resumed", "healthy-resumed-twice-bf16"),
    "resume-lr-reset": ("healthy-resumed", "healthy-resumed-twice-bf16"),
    "resume-data-replayed": ("healthy-resumed", "symptom-resume-lr-reset"),
    "resume-step-gap": ("healthy-resumed", "healthy-sparse-50"),
    "straggler": ("healthy-ranks", "healthy-ranks-in-turn"),
    "throughput-drop": ("healthy-shared-machine", "healthy-checkpointing"),
    "throughput-sawtooth": ("healthy-shared-machine", "healthy-checkpointing"),
    "mfu-low": ("healthy-wide", "healthy-narrower"),
    "stall": ("healthy-torn-line", "insufficient-data"),
    "memory-growth": ("healthy-cache", "healthy-memory"),
}


def test_every_symptom_has_two_near_misses():
    assert set(NEAR_MISSES) == set(SYMPTOMS) - SHOWN_BY_SYNTHETIC_LOGS
    assert all(len(set(runs)) == 2 for runs in NEAR_MISSES.values())


@pytest.mark.parametrize("slug", NEAR_MISSES)
def test_a_near_miss_does_not_fire(slug):
    for run in NEAR_MISSES[slug]:
        report = diagnosed(run)
        slugs_found = {finding.slug for finding in report.findings}
        assert slug not in slugs_found, run
        assert slug not in {number.symptom for number in report.not_checked}, run
        assert not any(other.startswith(SYMPTOMS[slug].explained_by) for other in slugs_found), run


@pytest.mark.parametrize("run", SUDDEN)
def test_a_sudden_fault_is_dated(run):
    report = diagnosed(run)
    steps = {finding.step for finding in report.findings if finding.step is not None}
    steps |= {step for answer in report.tree.answers for step in answer.steps}
    assert min(abs(step - about(run)["onset"]) for step in steps) <= margin(report)
    # A fault shows after it is made, give or take the noise of a point or two, and the diagnosis
    # may be of a later one of its kind.
    assert report.diagnosis.step >= about(run)["onset"] - 2 * stride(report)


@pytest.mark.parametrize("run", SLOW)
def test_a_slow_fault_is_not_dated_before_it_was_made(run):
    report = diagnosed(run)
    step, last = report.diagnosis.step, report.history.last_step
    assert about(run)["onset"] - margin(report) <= step < last


TURNED = [
    "divergence-lr-growing-exponential",
    *(run for run in SLOW if about(run)["expect"].startswith("divergence-weight-norm")),
]


@pytest.mark.parametrize("run", TURNED)
def test_a_climb_is_dated_by_its_cause_to_the_point(run):
    report = diagnosed(run)
    assert abs(report.diagnosis.step - about(run)["onset"]) <= 2 * stride(report)
    # The climb shows much later, and its own step is reported as well.
    answer = next(answer for answer in report.tree.answers if answer.question == "Q4.1")
    assert answer.steps[0] > report.diagnosis.step + 10 * stride(report)
    assert re.search(rf"began (at|near) step {report.diagnosis.step}\b", report.diagnosis.summary)


@pytest.mark.parametrize("run", ["divergence-lr-endless-warmup", "divergence-lr-inverse-cosine"])
def test_a_rate_that_rises_throughout_or_gradually_has_no_turn(run):
    assert "turning_step" not in diagnosed(run).diagnosis.evidence


SCHEMA = jsonschema.Draft202012Validator(json.loads(schema()))

# What a persistent spike is called whose loss was back in the end.
LATE = "Loss spike that recovered late"


# The titles of symptoms that have a second form.
OTHER_TITLES = {
    "stall": "The run stopped early",
    "frequent-spikes": "A hard batch recurs",
    "loss-implausible": "The loss jumped far above all before it",
    "lr-never-decays": "The learning rate was still warming up at the end",
    "lr-warmup-mismatch": "The warm-up takes most of the run",
    "initial-loss-off": "The first loss is a sum over the batch",
    "ends-mid-cycle": "The learning rate rises again after its decay",
}


@pytest.mark.parametrize("run", NAMES)
def test_a_report_is_strict_json_and_says_what_to_do(run):
    report = diagnosed(run)
    if run in ONE_EACH:
        slugs_found = json.loads(report.to_json(), parse_constant=pytest.fail)
        SCHEMA.validate(slugs_found)
        assert slugs_found["diagnosis"]["slug"] == report.diagnosis.slug
    for finding in report.findings:
        title = {**OUTCOME_BY_SLUG, **SYMPTOMS}[finding.slug].title
        titles = {title, OTHER_TITLES.get(finding.slug, title)}
        assert finding.title in (titles if finding.back is None else {LATE})
        assert finding.summary
        words = " ".join((finding.summary, finding.first_action, *finding.next_actions))
        assert not re.search(r"\b(None(?! of)|nan|inf)\b", words)
        for action in finding.actions:
            check_numbers(action)


def check_numbers(action):
    """Check that the text of an action contains its numbers."""
    assert action.text.endswith(".")
    halved = re.search(r"\b(half|halve|double)\b", action.text, re.IGNORECASE)
    label = [action.step, action.checkpoint or None, action.from_, None if halved else action.to]
    shown = [float(value) for value in re.findall(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", action.text)]
    for number in (value for value in label if isinstance(value, int | float)):
        assert number == 0 or any(number == pytest.approx(value, rel=1e-3) for value in shown), (
            action
        )
