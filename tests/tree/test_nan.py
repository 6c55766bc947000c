"""§1: what led up to a NaN, and which checkpoint is from before all of it."""

import numpy as np
import pytest

import stabdiag
from stabdiag.model.findings import ActionKind
from tests.tree.made import answer_to, changed, climb, drop, put


def lost(at):
    """Lose the loss and the gradient norm from a record on."""
    return [put(name, slice(at, None), np.nan) for name in ("loss", "grad_norm")]


@pytest.fixture
def surging(calm):
    """A gradient norm that surges at step 599 and comes down again before the NaN at 603."""
    surge = (put("grad_norm", 599, 300.0), put("grad_norm", slice(600, 603), 50.0))
    return changed(calm(), *surge, *lost(603))


def because(report, question):
    return answer_to(report, question).because


def test_the_checkpoint_precedes_the_gradient_norm_surge(surging):
    finding = stabdiag.diagnose(surging, manifest={"checkpoint_every": 50}).diagnosis
    assert "checkpoint of step 550, the last before the trouble that began at step 599" in (
        finding.first_action
    )
    assert finding.evidence["checkpoint"] == 550
    assert "Inspect the batches of steps 599 to 603 (batch id 603)." in finding.next_actions


def test_a_surge_shows_however_large_the_steps_are(surging):
    surging["step"] = surging["step"] * 400_000_000  # counted in tokens
    report = stabdiag.diagnose(surging)
    assert "surged" in report.diagnosis.summary
    assert "surged to" in because(report, "Q1.3")


@pytest.mark.parametrize(
    ("norms", "expected"),
    [
        (None, "no gradient norm was logged"),
        ([*[None] * 595, *[1.0] * 5, *[None] * 200], "too few finite gradient norms were logged"),
        ([*[0.0] * 700, *[1.0] * 100], "the gradient norm was 0"),
    ],
)
def test_the_reason_for_an_unknown_lead_up_is_reported(calm, norms, expected):
    log = changed(calm(), *lost(600), drop("grad_norm"))
    report = stabdiag.diagnose(log | ({"grad_norm": norms} if norms else {}))
    assert because(report, "Q1.3") == f"{expected}, so the lead-up is unknown"
    assert because(report, "Q1.4").startswith(expected)
    assert expected[1:] in report.diagnosis.summary


def test_gradient_norms_by_layer_are_not_called_missing(calm):
    log = changed(calm(), put("loss", slice(600, None), np.nan))
    log["grad_norm/first"] = log.pop("grad_norm")
    assert because(stabdiag.diagnose(log), "Q1.3").startswith(
        "no total gradient norm was logged, and the layers' norms were calm"
    )


def test_a_surge_of_one_layer_shows_without_the_norm_of_all(surging):
    surging["grad_norm/first"] = surging.pop("grad_norm")
    surging["grad_norm/last"] = np.where(np.arange(800) < 603, 1.0, np.nan)
    report = stabdiag.diagnose(surging, manifest={"checkpoint_every": 50})
    assert "The gradient norm of 'first' surged to 268.4 x" in report.diagnosis.summary
    assert "the gradient norm of 'first' surged" in because(report, "Q1.3")
    assert "checkpoint of step 550" in report.diagnosis.first_action


def test_a_norm_that_was_cut_off_by_clipping_was_not_calm(surging):
    surging["grad_norm"] = np.minimum(surging["grad_norm"], 2.0)
    report = stabdiag.diagnose(surging, manifest={"grad_clip": 2.0})
    assert because(report, "Q1.3") == (
        "the gradient norm was logged after clipping, so the lead-up is unknown"
    )
    assert "calm" in stabdiag.diagnose(surging, manifest={"grad_clip": 3.0}).diagnosis.summary


def test_gradients_at_a_new_level_are_not_all_that_led_to_a_nan(calm):
    log = calm(1000)
    log["loss"][500:] += 0.02 * np.arange(500)
    log["grad_norm"][500:] *= 1 + 0.1 * np.arange(500)
    log["loss"][900:] = log["grad_norm"][900:] = np.nan
    report = stabdiag.diagnose(log)
    result, earlier, *_ = report.findings
    assert earlier.slug == "divergence-grad-norm-rising"
    assert "bad sample" not in result.summary
    assert f"An earlier error began at step {earlier.step}" in result.summary
    assert f"an earlier error began at step {earlier.step}" in because(report, "Q1.3")
    assert because(report, "Q1.4") == f"fix the error from step {earlier.step} on first"
    del log["grad_norm"]
    result, earlier, *_ = stabdiag.diagnose(log).findings
    assert f"An earlier error began at step {earlier.step}." in result.summary


def test_a_piece_of_a_log_without_steps_may_begin_anywhere():
    log = {"loss": [0.2, np.nan, np.nan], "grad_norm": [np.nan] * 3}
    action = "Reload the last checkpoint before record 0, "
    assert stabdiag.diagnose(log).diagnosis.first_action.startswith(action)
    action = "Restart from the beginning (nothing worth keeping precedes step 0)"
    log["step"] = np.arange(3)
    assert stabdiag.diagnose(log).diagnosis.first_action.startswith(action)


@pytest.mark.parametrize("dtype", ["fp16", None])
def test_a_schedule_that_led_to_a_nan_is_mended_before_anything_else(calm, dtype):
    rate = put("lr", slice(500, None), 1e-3 * 1.02 ** np.arange(500))
    surge = put("grad_norm", slice(795, 800), 300.0)
    log = changed(calm(1000), rate, climb(600, 4.0), surge, *lost(800))
    manifest = {"checkpoint_every": 100} | ({"dtype": dtype} if dtype else {})
    result, cause, *_ = stabdiag.diagnose(log, manifest=manifest).findings
    assert result.slug.startswith("nan-")
    assert cause.slug == "divergence-lr-rising"
    assert result.first_action == cause.first_action
    assert result.reload == cause.reload
    assert not any("half the learning rate" in action for action in result.next_actions)


def test_a_planned_warmup_is_not_a_broken_schedule(calm):
    log = changed(calm(1000), climb(600, 4.0), put("loss", slice(800, None), np.nan))
    log["lr"] = 1e-5 * np.arange(1, 1001)
    manifest = {"dtype": "fp16", "warmup_steps": 2000, "checkpoint_every": 100}
    result, cause, *_ = stabdiag.diagnose(log, manifest=manifest).findings
    assert cause.slug == "divergence-lr-rising"
    assert "schedule" not in result.first_action
    assert "keep the learning rate below 0.006" in cause.first_action
    assert "the warm-up of 2000 steps goes beyond it" in cause.first_action


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_a_run_that_came_through_a_nan_need_not_be_set_back(calm, dtype):
    def text(log):
        finding = stabdiag.diagnose(log, manifest={"dtype": dtype}).diagnosis
        return [item.text for item in finding.actions if item.kind is ActionKind.KEEP_GOING]

    log = calm(600)
    log["loss"][300:303] = np.nan
    before, after = np.median(log["loss"][279:300]), np.median(log["loss"][-21:])
    (action,) = text(log)
    assert f"from {before:.4g} before the NaN to {after:.4g} now" in action
    worse = log | {"loss": log["loss"] + (np.arange(600) > 302)}
    soon = {role: values[:315] for role, values in log.items()}
    for_good = log | {"loss": np.where(np.arange(600) < 300, log["loss"], np.nan)}
    assert not any(map(text, (worse, soon, for_good)))


def nan_after(calm, at=600, **extra):
    """Return a run whose loss is NaN from a record on, with other series."""
    return changed(calm(), put("loss", slice(at, None), np.nan)) | extra


def from_record(first, last, value, at=600):
    """Return a series of 800 values that are ``value`` from record ``at`` on."""
    return np.where(np.arange(800) < at, np.linspace(first, last, 800), value)


@pytest.mark.parametrize("shuffled", [False, True])
def test_activations_at_the_step_of_the_loss_name_the_earliest_layer(calm, shuffled):
    layers = {f"activation_norm/h.{i}": from_record(5, 6, np.nan) for i in (2, 10, 9)}
    layers["activation_norm/embed"] = from_record(1, 1, 1.0)
    layers["activation_norm/lm_head"] = from_record(5, 6, np.nan)
    items = list(layers.items())[:: -1 if shuffled else 1]
    report = stabdiag.diagnose(nan_after(calm, **dict(items)), manifest={"dtype": "fp32"})
    assert answer_to(report, "Q1.3").measured["first_series"] == "activation_norm/h.2"
    assert "isnan checks inside 'h.2' and on its input" in report.diagnosis.first_action


@pytest.mark.parametrize(("value", "is_named"), [(np.nan, True), (7.0, False)])
def test_the_earliest_layer_is_named_in_fp16_as_well(calm, value, is_named):
    layers = {f"activation_norm/h.{i}": from_record(5, 6, value) for i in (3, 4)}
    log = nan_after(calm, **layers, **{"activation_norm/h.0": from_record(1, 1, 1.0)})
    report = stabdiag.diagnose(log, manifest={"dtype": "fp16"})
    assert ("'h.3' is the earliest layer" in report.diagnosis.summary) is is_named


def test_weights_at_the_step_of_the_loss_come_after_it(calm):
    log = nan_after(calm, **{"weight_norm/h.2": from_record(5, 6, np.nan)})
    report = stabdiag.diagnose(log, manifest={"dtype": "fp32"})
    assert answer_to(report, "Q1.3").measured["first_series"] == "loss"


@pytest.mark.parametrize(
    ("column", "peak", "is_near"),
    [
        ("activation_max/h.3", 60000.0, True),
        ("activation_max/h.3", 20000.0, False),
        # The norm of many values exceeds what one of them may be.
        ("activation_norm/h.3", 60000.0, False),
    ],
)
@pytest.mark.parametrize("dtype", ["fp16", None])
def test_largest_activations_are_compared_with_what_fp16_holds(calm, column, peak, is_near, dtype):
    log = nan_after(calm, **{column: np.linspace(10, peak, 800)})
    log[column][600:] = np.nan
    log[column][599] = peak
    report = stabdiag.diagnose(log, manifest={"dtype": dtype} if dtype else {})
    assert ("near the fp16 maximum of 65504" in report.diagnosis.summary) is is_near
    if dtype:
        assert (answer_to(report, "Q3.3").verdict == "yes") is is_near


@pytest.mark.parametrize(
    ("column", "value", "is_clipped"),
    [
        ("grad_norm/embedding", np.inf, True),
        ("grad_norm/wte", np.inf, True),
        ("grad_norm/h.0", np.inf, False),
        ("grad_norm/embedding", np.nan, False),
    ],
)
def test_an_infinite_embedding_gradient_is_clipped_by_value(calm, column, value, is_clipped):
    log = nan_after(calm, 601, **{column: from_record(1, 1, value)})
    first = stabdiag.diagnose(log, manifest={"dtype": "fp32"}).diagnosis.first_action
    assert ("clip gradients by value at ±100" in first) is is_clipped


def first_kinds(report, count=3):
    return {kind for action in report.diagnosis.actions[:count] for kind in action.kinds}


SMALLER = {ActionKind.LOWER_LR, ActionKind.ADD_WARMUP, ActionKind.CLIP_GRADIENTS}


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32", None])
def test_smaller_steps_are_among_the_first_actions_on_a_nan(calm, dtype):
    log = changed(calm(), put("loss", slice(60, None), np.nan), drop("grad_norm", "lr"))
    report = stabdiag.diagnose(log, manifest={"dtype": dtype} if dtype else {})
    assert first_kinds(report) >= SMALLER


def test_evidence_against_the_rate_keeps_smaller_steps_away(calm):
    calm_gradients = nan_after(calm)
    assert not SMALLER & first_kinds(stabdiag.diagnose(calm_gradients))
    rate_of_0 = changed(nan_after(calm), put("lr", slice(None), 0.0), drop("grad_norm"))
    assert not SMALLER & first_kinds(stabdiag.diagnose(rate_of_0))
    before_any_update = changed(calm(), put("loss", slice(None), np.nan), drop("grad_norm"))
    assert not SMALLER & first_kinds(stabdiag.diagnose(before_any_update))


def test_a_warm_up_that_is_long_over_is_not_to_blame(calm):
    warmed_up = 1e-3 * np.minimum(np.arange(800) / 20, 1)
    log = changed(nan_after(calm, lr=warmed_up), drop("grad_norm"))
    assert first_kinds(stabdiag.diagnose(log)) & SMALLER == SMALLER - {ActionKind.ADD_WARMUP}


@pytest.mark.parametrize(("factor", "rate"), [(1.0, "half the"), (100.0, "a tenth of the")])
def test_an_explosion_asks_for_a_tenth_of_the_rate(surging, factor, rate):
    surging["loss"][599:603] *= factor
    assert rate in stabdiag.diagnose(surging).diagnosis.first_action


def test_the_batch_of_a_nan_is_named(calm):
    log = nan_after(calm)
    log["batch_id"] = log["batch_id"] + 7000
    actions = stabdiag.diagnose(log).diagnosis.actions
    assert any("(batch id 7600)" in action.text for action in actions)
    del log["batch_id"]
    assert not any("batch id" in a.text for a in stabdiag.diagnose(log).diagnosis.actions)


@pytest.mark.parametrize(("term", "is_named"), [("kl_loss", True), ("loss", False)])
def test_a_term_of_the_loss_that_goes_nan_is_named(calm, term, is_named):
    log = calm()
    log |= {"loss": log["loss"].copy(), "recon_loss": 0.9 * log["loss"], "kl_loss": log["loss"] / 9}
    log[term] = np.where(np.arange(800) < 600, log[term], np.nan)
    summary = stabdiag.diagnose(log).diagnosis.summary
    assert summary.startswith(f"The loss {term!r} is" if is_named else "The loss is non-finite")


@pytest.mark.parametrize(("last", "is_blowup"), [(9e23, True), (60.0, False)])
def test_a_loss_that_explodes_within_two_steps_needs_a_tenth_of_the_rate(last, is_blowup):
    log = {"step": np.arange(1, 41), "loss": [13.8, last] + [np.nan] * 38, "lr": [0.15] * 40}
    finding = stabdiag.diagnose(log, manifest={"dtype": "fp32"}).diagnosis
    assert finding.slug == "nan-fp32"
    assert ("a tenth" in finding.first_action) is is_blowup
    assert ("blow-up" in finding.summary) is is_blowup
