"""§4: what convicts a climb."""

import json

import numpy as np
import pytest

import stabdiag
from tests.conftest import python
from tests.tree.made import answer_to


def test_clear_height_is_reported_without_a_p_value():
    """Four high losses at the end of twenty cannot be a trend, but are far above the noise."""
    at, noise = np.arange(20), 0.02 * np.random.default_rng(14).standard_normal(20)
    loss = 2.0 + 2.0 * np.exp(-at / 3.3) + noise
    loss[16:] += [0.7, 1.4, 2.1, 2.8]
    answer = answer_to(stabdiag.diagnose({"step": at, "loss": loss}), "Q4.1")
    assert answer.branch == "material"
    assert answer.measured["p_value"] == pytest.approx(0.03, abs=0.02)
    assert answer.because.endswith(", far beyond normal variation")


@pytest.mark.parametrize(
    ("rise", "over", "noise", "lr", "branch"),
    [
        (0.07, 500, 0.015, 1.0, "material"),
        (0.07, 500, 0.027, 1.0, None),
        (0.13, 500, 0.15, 1.0, "material"),
        (0.07, 500, 0.027, 2.0, "material"),
    ],
    ids=["visible", "below noise", "below noise but large", "with a rising rate"],
)
def test_a_rise_below_the_noise_has_to_be_larger(rise, over, noise, lr, branch):
    at = np.arange(4000)
    up = np.clip((at - 2000) / over, 0, 1)
    loss = 2 + np.exp(-at / 100) + rise * up
    loss += noise * np.random.default_rng(3).standard_normal(4000)
    answer = answer_to(stabdiag.diagnose({"step": at, "loss": loss, "lr": 1e-3 * lr**up}), "Q4.1")
    assert answer.branch == branch
    if branch is None:
        assert "a small rise (a rise counts from " in answer.because


@pytest.mark.parametrize(
    ("log", "slug"),
    [
        ("up = np.maximum(at - 805, 0) / 300; lr = np.where(at < 800, 1e-3, 5e-3)", "lr-rising"),
        ("up = np.where(at < 800, 0.0, 0.5 + 0.004 * (at - 800)); lr = None", "unexplained"),
    ],
    ids=["jump", "step up"],
)
def test_a_diagnosis_does_not_wait_for_unused_checks(log, slug):
    script = f"""
import sys, numpy as np, stabdiag
before = "numpy.ma" in sys.modules  # older NumPys import it themselves
at = np.arange(1600)
{log}
loss = 2 + 2 * np.exp(-at / 200) + 0.05 * np.random.default_rng(0).standard_normal(1600) + up
log = {{"step": at, "loss": loss, "grad_norm": np.ones(1600)}}
log |= {{}} if lr is None else {{"lr": lr}}
report = stabdiag.diagnose(log, manifest={{"dtype": "bf16"}})
print(report.diagnosis.slug, "numpy.ma" in sys.modules and not before)
"""
    assert python("-c", script).stdout == f"divergence-{slug} False\n"


@pytest.mark.parametrize(
    ("warm_up", "slug"),
    [(1000, "lr-rising"), (880, "unexplained")],
    ids=["endless", "over by then"],
)
def test_short_climb_is_compared_with_the_rate_over_the_window(calm, warm_up, slug):
    log = calm(1000)
    log["loss"][900:] += np.linspace(0.0, 3.0, 100)
    log["lr"] = 1e-3 * np.minimum((np.arange(1000) + 1) / warm_up, 1)
    report = stabdiag.diagnose(log)
    assert report.diagnosis.slug == f"divergence-{slug}"
    rate = answer_to(report, "Q4.2")
    assert rate.because.startswith("the learning rate went from ")
    assert rate.steps[1] - rate.steps[0] == pytest.approx(200, abs=10)


@pytest.mark.parametrize("seed", [3, 5, 7, 14, 19])
def test_a_loss_that_bursts_by_many_orders_of_magnitude_is_an_error(seed):
    # The bursts recover, and the losses between them are high enough to count as a rise.
    draw, at = np.random.default_rng(seed), np.arange(4000)
    loss = -2 + 2 * np.exp(-at / 200) + 0.5 * draw.standard_normal(4000)
    loss[530:] = 10 ** draw.uniform(4, 12, 3470)
    loss[draw.integers(600, 1300, 10)] = 10 ** draw.uniform(17, 24, 10)
    finding = stabdiag.diagnose({"step": at, "loss": loss}).diagnosis
    assert (finding.slug, finding.severity.value) == ("loss-implausible", "error")
    assert 530 <= finding.step <= 1300


def test_a_loss_that_rises_over_many_epochs_climbs_and_did_not_jump():
    at = np.arange(40)
    noise = 0.01 * np.random.default_rng(0).normal(size=40)
    loss = 0.2 + 1.2 * np.exp(-at / 5) + noise + 1.5 * np.clip((at - 22) / 12, 0, 1)
    assert stabdiag.diagnose({"epoch": at, "loss": loss}).diagnosis.slug == "divergence-unexplained"
    # The same number of single steps is too short a time.
    assert stabdiag.diagnose({"step": at, "loss": loss}).diagnosis.slug == "spike-unresolved"
    jumps = np.where(at > 22, loss + 1.5, loss)
    assert stabdiag.diagnose({"epoch": at, "loss": jumps}).diagnosis.slug == "spike-persistent"


def test_rise_beyond_noise_without_a_trend_is_described():
    at, noise = np.arange(80), np.random.default_rng(24).standard_normal(80)
    for i in range(1, 80):
        noise[i] += 0.6 * noise[i - 1]
    loss = 1.5 + 2.0 * np.exp(-at / 16) + 0.05 * noise
    loss[64:] += np.linspace(0, 0.4, 16)
    answer = answer_to(stabdiag.diagnose({"step": at, "loss": loss}), "Q4.1")
    assert answer.verdict == "no"
    assert answer.measured["rise"] > answer.measured["bar"]
    assert "times its normal variation, but no trend (p 0.0" in (answer.because)


def test_a_climb_that_a_jump_ends_does_not_end_where_the_log_does(calm):
    log = calm(1200)
    log["loss"][600:1160] += np.linspace(0, 3, 560)
    log["loss"][1160:] = 4e4
    report = stabdiag.diagnose(log)
    finding = next(
        finding for finding in report.findings if finding.slug == "divergence-unexplained"
    )
    level = answer_to(report, "Q4.1").measured["last"]
    assert isinstance(level, float)
    assert f"and was at {level:.4g} before the jump at step 1160, " in finding.summary
    assert "the loss was at" in answer_to(report, "Q4.1").because


def climbing(first, height, scale=1.0):
    """Return 800 losses that fall to 2 and climb from a step on, all of them multiplied."""
    at, noise = np.arange(800), 0.05 * np.random.default_rng(5).standard_normal(800)
    loss = 2 + 2 * np.exp(-at / 100) + noise
    loss[first:] += np.linspace(0, height, 800 - first)
    return {"step": at, "loss": scale * loss}


def test_huge_first_loss_is_not_blamed_on_the_data():
    log = climbing(400, 3.0)
    usual = stabdiag.diagnose({**log, "grad_norm": np.ones(800)}).diagnosis
    assert usual.slug == "divergence-unexplained"
    assert "check the data" in usual.first_action
    assert "halve the learning rate" in stabdiag.diagnose(log).diagnosis.first_action
    huge = stabdiag.diagnose(climbing(400, 3.0, 1e26)).diagnosis
    assert "blow-up" in huge.summary
    assert huge.first_action.startswith("Restart from the beginning")
    assert "lower the learning rate to a tenth" in huge.first_action


def test_weights_are_constant_only_while_the_rate_is_0():
    """A rate that decayed to 0 late in the climb moved them until then."""
    log = climbing(400, 3.0)
    decayed = np.linspace(1e-3, 0, 800)
    decayed[-100:] = 0
    for lr, says in ((decayed, False), (np.where(log["step"] < 380, 1e-3, 0.0), True)):
        finding = stabdiag.diagnose({**log, "lr": lr}).diagnosis
        assert finding.section == "§4"
        assert ("the weights did not change" in finding.summary) is says


def test_an_unknown_weight_decay_is_requested():
    def of(manifest, **columns):
        finding = stabdiag.diagnose({**climbing(400, 3.0), **columns}, manifest=manifest).diagnosis
        return [item for item in finding.actions if item.setting == "weight_decay"]

    (asks,) = of({})
    assert asks.to == 0.01
    assert asks.text.startswith("Check weight_decay, which was not logged: above 0.5 ")
    assert not of({"weight_decay": 0.1})
    assert not of({}, **{"weight_norm/attn": 10.0 + 0.001 * np.arange(800)})


def test_an_extreme_weight_decay_explains_a_climb():
    def first(decay):
        manifest = {"weight_decay": decay, "optimizer": "AdamW"}
        finding = stabdiag.diagnose(climbing(400, 3.0), manifest=manifest).diagnosis
        assert finding.slug == "divergence-unexplained"
        return finding.actions[0]

    assert (first(30.0).kind.value, first(30.0).to) == ("lower-weight-decay", 0.01)
    assert first(0.1).kind.value != "lower-weight-decay"


def test_record_without_a_step_is_called_a_record():
    loss = climbing(400, 0.0)["loss"]
    loss[500:] += 3.0
    finding = stabdiag.diagnose([{"loss": float(x)} for x in loss]).diagnosis
    assert "the spike at record 500" in finding.first_action


def test_the_last_window_of_a_climb_counts_even_after_most_of_it_was_done():
    at = np.arange(1200)
    fast = 3.0 * (1 - np.exp(-np.clip(at - 600, 0, None) / 40))
    log = {"step": at, "loss": 2 + 2 * np.exp(-at / 150) + fast + 0.05 * np.sin(37.0 * at)}
    log["lr"] = np.full(1200, 1e-3)
    grown = {**log, "weight_norm/mlp": np.where(at < 1100, 10.0, 10.0 * 1.012 ** (at - 1100))}
    assert stabdiag.diagnose(grown).diagnosis.slug == "divergence-weight-norm-climbing"
    still = {**log, "weight_norm/mlp": 10.0 + 0.001 * at}
    assert stabdiag.diagnose(still).diagnosis.slug != "divergence-weight-norm-climbing"


@pytest.mark.parametrize(("first", "is_cause"), [(1100, True), (1500, False)])
def test_the_last_window_of_a_climb_counts_if_the_climb_ended_early(first, is_cause):
    at = np.arange(2400)
    climb = 1.5 * np.clip((at - 600) / 700, 0, 1)
    log = {"step": at, "loss": 2 + 2 * np.exp(-at / 150) + climb + 0.05 * np.sin(37.0 * at)}
    norm = 10.0 * 2.8 ** np.clip((at - first) / 200, 0, 1)
    report = stabdiag.diagnose({**log, "lr": np.full(2400, 1e-3), "weight_norm/mlp": norm})
    assert (report.diagnosis.slug == "divergence-weight-norm-climbing") is is_cause


ZEROS = [0.0] * 9 + [1e-4] * 5


def test_a_change_of_the_last_printed_digit_is_not_a_rise():
    rounded = {"step": np.arange(40), "loss": [0.1] * 20 + [0.1001] * 20}
    assert stabdiag.diagnose(rounded).diagnosis.section != "§4"
    assert stabdiag.diagnose({"step": np.arange(14), "loss": ZEROS}).diagnosis.section != "§4"
    extra = {"step": np.arange(14), "loss": [0.0] * 9 + [1e-4, 3e-4, 9e-4, 2e-3, 5e-3]}
    assert stabdiag.diagnose(extra).diagnosis.section == "§4"


def test_a_policy_loss_is_exempt_in_a_short_log_too():
    losses = [0.0] * 9 + [1e-3, 3e-3, 9e-3, 2e-2, 5e-2]
    log = {"step": np.arange(14), "loss": losses, "reward": np.linspace(0.6, 0.9, 14)}
    policy = stabdiag.diagnose({**log, "kl": np.linspace(0, 1e-3, 14)})
    assert policy.diagnosis.slug == "insufficient-data"
    # The reward improves.
    assert answer_to(policy, "Q4.1").verdict == "no"
    falling = stabdiag.diagnose({**log, "reward": log["reward"][::-1], "kl": log["step"] / 1e4})
    assert answer_to(falling, "Q4.1").verdict == "unknown"
    assert stabdiag.diagnose({"step": log["step"], "loss": losses}).diagnosis.section == "§4"


@pytest.mark.parametrize(("rate", "diverges"), [(2e-7, False), (4e-5, False), (2e-4, True)])
def test_a_creep_by_less_than_two_percent_is_no_divergence(rate, diverges):
    creep = {"step": np.arange(400), "loss": 1.385664 + rate * np.arange(400)}
    assert (stabdiag.diagnose(creep).diagnosis.section == "§4") is diverges


@pytest.mark.parametrize("seed", [0, 2, 7, 10])
def test_a_smoothed_loss_that_does_not_learn_is_no_divergence(seed):
    smoothed, level = [], 0.69
    for loss in 0.69 + np.random.default_rng(seed).normal(0, 0.03, 1000):
        level = 0.99 * level + 0.01 * loss
        smoothed.append(level)
    report = stabdiag.diagnose({"step": np.arange(1000), "loss": smoothed})
    assert report.diagnosis.severity.value != "error"


@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_a_climb_counts_by_what_was_learned_at_any_offset(offset):
    at = np.arange(1600)
    noise = np.random.default_rng(0).standard_normal(1600)
    loss = offset + 1000 * np.exp(-at / 150) + noise + 80 * np.maximum(at - 1000, 0) / 600
    report = stabdiag.diagnose({"step": at, "loss": loss})
    assert report.diagnosis.slug == "divergence-unexplained"


def test_losses_of_repeated_batches_alone_are_judged_as_they_are(tmp_path):
    at = np.arange(50, 400, 30)
    rows = [{"step": n, "batch_id": n - 3 if n in at else n} for n in range(400)]
    for loss, n in zip(np.linspace(2, 3, len(at)), at, strict=True):
        rows[n]["loss"] = float(loss)
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert stabdiag.diagnose(path).diagnosis.slug == "divergence-unexplained"


@pytest.mark.parametrize(("times", "diverges"), [(20, True), (5, False)])
def test_a_rise_by_orders_of_magnitude_diverges_below_the_first_loss(times, diverges):
    """A fraction of the fall, and the noise of the first losses, are above every later loss."""
    at, rng = np.arange(400), np.random.default_rng(5)
    loss = (1.5 + 900 * np.exp(-at / 28)) * np.exp(0.03 * rng.standard_normal(400))
    loss *= 1 + (times - 1) * np.clip((at - 240) / 100, 0, 1)
    report = stabdiag.diagnose({"step": at, "loss": loss})
    assert (report.diagnosis.slug == "divergence-unexplained") == diverges


def test_a_random_walk_of_a_loss_near_zero_does_not_diverge():
    at, rng = np.arange(600), np.random.default_rng(2)
    wander = np.cumsum(rng.standard_normal(600)) * 0.25
    loss = np.exp(-at / 60) + 1e-5 * np.exp(wander - wander.mean())
    report = stabdiag.diagnose({"step": at, "loss": loss})
    assert report.diagnosis.severity != "error"


@pytest.mark.parametrize(("after", "diverges"), [(48.0, False), (150.0, True)])
def test_a_lone_peak_of_a_short_log_is_no_climb(after, diverges):
    """A log of 21 losses is too short to test for spikes; the last one is back, or it is not."""
    before = [45.7, 42.0, 42.4, 43.5, 46.1, 46.7, 45.2, 43.0, 42.6, 43.3, 43.9, 41.8, 42.7, 42.3]
    loss = np.array([*before, 41.0, 44.9, 45.3, 44.8, 49.0, 170.0, after])
    report = stabdiag.diagnose({"step": np.arange(len(loss)), "loss": loss})
    assert (report.diagnosis.severity == "error") == diverges
