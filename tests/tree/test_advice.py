"""What to do first, with the run's own numbers in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import stabdiag
from stabdiag.model.findings import ActionKind
from stabdiag.model.manifest import Manifest
from stabdiag.model.text import num
from stabdiag.tree.advice import ADVICE
from stabdiag.tree.case import Case
from stabdiag.tree.checkpoint import checkpoint_before

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from stabdiag.model.report import Report

    Ints = NDArray[np.int64]
    Log = dict[str, Any]


def shifted(log: Log, onset: int) -> Log:
    log["loss"][onset:] += 3.0
    return log


@pytest.mark.parametrize(
    ("onset", "every", "expected"),
    [
        # Written after the update that showed at 501, it may hold what is damaged, too.
        (
            501,
            100,
            "Reload the checkpoint of step 500, the last before the spike at 501 (should it be "
            "damaged already, that of step 400), and",
        ),
        # A checkpoint that is written at the onset holds what is damaged.
        (500, 100, "Reload the checkpoint of step 400, the last before the spike at 500, and"),
        (499, 100, "Reload the checkpoint of step 400, the last before the spike at 499"),
        (
            500,
            1000,
            "Restart from the beginning with the clip threshold at 0.5: no checkpoint had been "
            "written before the spike at 500",
        ),
        (500, None, "Reload the last checkpoint before the spike at 500"),
    ],
)
def test_the_checkpoint_to_go_back_to(
    calm: Callable[..., Log], onset: int, every: int | None, expected: str
) -> None:
    manifest = {"checkpoint_every": every} if every else {}
    report = stabdiag.diagnose(shifted(calm(), onset), manifest=manifest)
    assert report.diagnosis.slug == "spike-persistent"
    assert report.diagnosis.step == onset
    assert report.diagnosis.first_action.startswith(expected)


@pytest.mark.parametrize(
    ("step", "every", "last"),
    [
        (1, 1, 0),
        (2, 1, 1),
        (0, 10, 0),
        (10, 10, 0),
        (11, 10, 10),
        (25, 10, 20),
        (-5, 10, 0),
        (7, None, None),
    ],
)
def test_the_last_checkpoint_is_strictly_before(
    step: int, every: int | None, last: int | None
) -> None:
    assert checkpoint_before(Manifest(checkpoint_every=every), step).step == last


@pytest.mark.parametrize(
    ("clip", "told"),
    [
        (None, "with the clip threshold at 0.5."),
        (1.0, "with the clip threshold at 0.5 (now 1)."),
        (0.5, "with the clip threshold at 0.25 (now 0.5)."),
        (0.1, "with the clip threshold at 0.05 (now 0.1)."),
        (-1.0, "with the clip threshold at 0.5 (now off)."),
    ],
)
def test_the_clip_threshold_goes_down(
    calm: Callable[..., Log], clip: float | None, told: str
) -> None:
    manifest = {"grad_clip": clip} if clip else {}
    report = stabdiag.diagnose(shifted(calm(), 500), manifest=manifest)
    assert report.diagnosis.first_action.endswith(told)


@pytest.mark.parametrize(
    ("peak", "told"),
    [
        (0.002, "half the learning rate (0.002 at its peak, 0 by then) and"),
        (0.0, "half the learning rate and"),
    ],
)
def test_of_a_learning_rate_that_has_come_down_to_0_the_peak_is_told(
    calm: Callable[..., Log], peak: float, told: str
) -> None:
    log = calm()
    surge(log)
    log["lr"] = np.where(log["step"] < 700, np.maximum(peak * (1 - log["step"] / 500), 0.0), 1.0)
    assert told in stabdiag.diagnose(log).diagnosis.first_action


def nan(log: Log) -> None:
    log["loss"][600:] = np.nan


def surge(log: Log) -> None:
    nan(log)
    log["grad_norm"][596:600] = 60.0


def overflow(log: Log) -> None:
    nan(log)
    log["grad_norm"][595:] = np.inf


def static(log: Log) -> None:
    overflow(log)
    log["loss_scale"] = np.full(800, 4096.0)


def spike(log: Log) -> None:
    log["loss"][500] += 3.0


def lr_jump(log: Log) -> None:
    spike(log)
    log["lr"][499:520] = 0.01


def lr_stays(log: Log) -> None:
    shifted(log, 501)
    log["lr"][499:] = 0.01


def twice(log: Log) -> None:
    spike(log)
    log["batch_id"][500] = 470


def long_tail(log: Log) -> None:
    spike(log)
    log["grad_norm"][500] = 50.0


def unresolved(log: Log) -> None:
    log["loss"][780:] += 3.0


def climb(log: Log) -> None:
    log["loss"][400:] += np.linspace(0, 3.0, 400)


def warming(log: Log) -> None:
    climb(log)
    log["lr"] = np.linspace(1e-4, 1e-2, 800)


def growing(log: Log) -> None:
    climb(log)
    log["weight_norm/attn"] = np.geomspace(10, 300, 800)


def shrinking(log: Log) -> None:
    climb(log)
    log["weight_norm/attn"] = np.geomspace(300, 10, 800)


def straining(log: Log) -> None:
    climb(log)
    log["grad_norm"] = np.geomspace(1, 9, 800)


def overflows(log: Log) -> None:
    log["grad_norm"][100::40] = np.inf


FIRST: list[tuple[str, Callable[[Log], None], dict[str, Any], list[str]]] = [
    (
        "nan-fp32",
        nan,
        {"dtype": "fp32"},
        ["step one batch forward with isnan checks", "of step 500"],
    ),
    (
        "nan-fp32",
        surge,
        {"dtype": "fp32"},
        ["half the learning rate (now 0.001)", "clipped at 0.5"],
    ),
    ("nan-bf16", nan, {"dtype": "bf16"}, ["isnan checks", "of step 500"]),
    ("nan-dtype-unknown", nan, {}, ["isnan checks", "of step 500"]),
    ("nan-fp16-overflow", overflow, {"dtype": "fp16"}, ["of step 500", "switch from fp16 to bf16"]),
    ("nan-fp16-overflow", static, {"dtype": "fp16"}, ["engage dynamic loss scaling"]),
    ("nan-fp16-overflow", nan, {"dtype": "fp16", "static_loss_scale": False}, ["of step 500"]),
    ("spike-recovered", spike, {}, ["Keep the run going", "the batch of step 500"]),
    ("spike-lr-jump", lr_jump, {}, ["Fix the schedule at step 499", "from 0.001 to 0.01"]),
    ("spike-duplicate-batch", twice, {}, ["Fix the data loader", "around step 500"]),
    (
        "spike-long-tail-batch",
        long_tail,
        {},
        ["the batch of step 500", "clip the gradient norm at 0.5"],
    ),
    (
        "spike-persistent",
        lr_stays,
        {"grad_clip": 1.0},
        ["checkpoint of step 400, the last before the jump of the learning rate at 499, and"],
    ),
    ("spike-unresolved", unresolved, {"total_steps": 800}, ["Reload the checkpoint of step 700"]),
    (
        "spike-unresolved",
        unresolved,
        {},
        ["Run on to step 830", "reload the checkpoint of step 700"],
    ),
    ("gradient-overflow", overflows, {"dtype": "fp16"}, ["Switch from fp16 to bf16"]),
    ("gradient-overflow", overflows, {"dtype": "bf16"}, ["overflows at step 100"]),
    ("divergence-lr-rising", warming, {}, ["Fix the schedule", "warm-up that never ends"]),
    (
        "divergence-weight-norm-climbing",
        growing,
        {"weight_decay": 0.1},
        ["double the weight decay (now 0.1)"],
    ),
    ("divergence-weight-norm-collapsing", shrinking, {}, ["halve the weight decay."]),
    ("divergence-weight-norm-climbing", growing, {"weight_decay": 0}, ["turn weight decay on"]),
    (
        "divergence-weight-norm-collapsing",
        shrinking,
        {"weight_decay": 0},
        ["look for what shrinks the weights"],
    ),
    ("divergence-grad-norm-rising", straining, {}, ["halve the learning rate (now 0.001)"]),
    ("divergence-unexplained", climb, {}, ["check the data from step"]),
]


@pytest.mark.parametrize(
    ("slug", "change", "manifest", "told"),
    FIRST,
    ids=[f"{number}-{row[0]}" for number, row in enumerate(FIRST)],
)
def test_the_first_action_has_the_numbers_of_the_run(
    calm: Callable[..., Log],
    slug: str,
    change: Callable[[Log], None],
    manifest: dict[str, Any],
    told: list[str],
) -> None:
    log = calm()
    change(log)
    report: Report = stabdiag.diagnose(log, manifest={"checkpoint_every": 100, **manifest})
    finding = report.diagnosis
    assert finding.slug == slug
    for words in told:
        assert words in finding.first_action
    assert finding.first_action.endswith(".")
    assert finding.first_action[0].isupper()
    assert not finding.summary[0].islower()
    assert finding.next_actions
    assert all(action.endswith(".") for action in finding.next_actions)
    assert finding.step is not None
    assert finding.evidence


def test_the_schedule_of_the_manifest_is_quoted(calm: Callable[..., Log]) -> None:
    log = calm()
    warming(log)
    manifest = {"schedule": "cosine", "warmup_steps": 50, "total_steps": 900}
    report = stabdiag.diagnose(log, manifest=manifest)
    assert "schedule cosine, warm-up 50, total 900" in report.diagnosis.next_actions[0]
    assert "it names neither" in stabdiag.diagnose(log).diagnosis.next_actions[0]


def test_a_nan_that_lacks_the_fingerprint_is_first_run_again_in_fp32(
    calm: Callable[..., Log],
) -> None:
    log = calm() | {"loss_scale": np.full(800, 1024.0)}
    nan(log)
    report = stabdiag.diagnose(log, manifest={"dtype": "fp16"})
    assert report.diagnosis.first_action.startswith("Re-run step 600 once in fp32")
    assert "does not carry the fingerprint" in report.diagnosis.summary


def test_without_a_gradient_norm_the_lead_up_is_not_known(calm: Callable[..., Log]) -> None:
    log = calm()
    nan(log)
    del log["grad_norm"]
    report = stabdiag.diagnose(log, manifest={"dtype": "fp32"})
    assert "No gradient norm was logged" in report.diagnosis.summary


@pytest.mark.parametrize("slug", ["nan-fp32", "spike-persistent", "divergence-unexplained"])
def test_advice_is_never_asked_of_what_is_not_there(calm: Callable[..., Log], slug: str) -> None:
    case = Case(
        history=stabdiag.read({"step": range(5), "loss": [1.0] * 5}),
        manifest=Manifest(),
        limits=stabdiag.Limits(),
    )
    with pytest.raises(LookupError):
        ADVICE[slug](case, {})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (3.0, "3"),
        (-2.0, "-2"),
        (1234567.0, "1234567"),
        (65536.0, "65536"),
        (1e7, "1e+07"),
        (2.0**32, "4.295e+09"),
        (0.00012345, "0.0001234"),
        (3.14159, "3.142"),
        (float("nan"), "NaN"),
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
    ],
)
def test_numbers_in_words(value: float, text: str) -> None:
    assert num(value) == text


def test_a_loss_that_is_finite_again_is_not_said_to_be_lost(calm: Callable[..., Log]) -> None:
    log = calm()
    log["loss"][[600, 610]] = np.nan
    told = stabdiag.diagnose(log).diagnosis.summary
    assert "is not finite at step 600 (last finite loss: step 599), but is again later" in told
    log["loss"][600:] = np.nan
    assert "not finite from step 600 on" in stabdiag.diagnose(log).diagnosis.summary


def test_a_gradient_that_went_first_names_its_own_batch(calm: Callable[..., Log]) -> None:
    log = calm()
    log["grad_norm"][640:] = np.nan
    log["loss"][641:] = np.nan
    found = stabdiag.diagnose(log, manifest={"dtype": "fp32"}).diagnosis
    assert "grad_norm went first, at step 640" in found.summary
    assert any("the data of step 640:" in action for action in found.next_actions)


def test_a_sparse_log_names_all_steps_that_a_line_stands_for(calm: Callable[..., Log]) -> None:
    log = calm(stride=10)
    log["loss"][600:] = np.nan
    found = stabdiag.diagnose(log, manifest={"dtype": "fp16"}).diagnosis
    assert any("steps 5991 to 6000" in action for action in found.next_actions)
    log = calm(stride=10)
    log["loss"][600] += 3.0
    action = stabdiag.diagnose(log, manifest={"dtype": "fp32"}).diagnosis.first_action
    assert "the batches of steps 5991 to 6000" in action


def test_no_checkpoint_is_named_from_after_the_trouble_began(calm: Callable[..., Log]) -> None:
    log = calm()
    log["loss"][590:600] += 9.0
    log["loss"][605:] = np.nan
    log["loss"][600:605] += 9.0
    report = stabdiag.diagnose(log, manifest={"dtype": "fp32", "checkpoint_every": 10})
    assert "checkpoint of step 580, the last before the trouble" in report.diagnosis.first_action
    assert "an optimization blow-up" in report.diagnosis.summary


def test_a_jump_of_the_learning_rate_goes_before_the_checkpoint(calm: Callable[..., Log]) -> None:
    for dtype in ("fp32", "fp16"):
        log = calm()
        log["lr"][598:] = 1.0
        log["loss"][601:] = np.nan
        report = stabdiag.diagnose(log, manifest={"dtype": dtype, "checkpoint_every": 599})
        first = report.diagnosis.first_action
        assert first.startswith("Fix the schedule at step 598: restart from the beginning")


def test_a_jump_is_named_by_its_own_step_however_early_the_loss_rose(
    calm: Callable[..., Log],
) -> None:
    log = shifted(calm(), 500)
    log["lr"][503:] = 0.1
    found = stabdiag.diagnose(log, manifest={"checkpoint_every": 100}).diagnosis
    assert found.step == 500
    assert found.first_action.startswith(
        "Reload the checkpoint of step 400, the last before the jump of the learning rate at 503"
    )


def test_a_run_that_was_never_finite_is_begun_again(calm: Callable[..., Log]) -> None:
    log = calm()
    log["loss"][:] = np.nan
    found = stabdiag.diagnose(log, manifest={"dtype": "fp32"}).diagnosis
    assert "Restart from the beginning, or from before this log" in found.first_action
    assert "Too few finite gradient norms were logged" in found.summary
    log["step"] += 5000  # after a resume: there are checkpoints from before
    again = stabdiag.diagnose(log, manifest={"dtype": "fp32", "checkpoint_every": 1000})
    assert again.diagnosis.first_action.startswith("Reload the checkpoint of step 4000")


def test_a_first_loss_that_is_not_finite_is_not_all_of_them(calm: Callable[..., Log]) -> None:
    log = calm()
    log["loss"][0] = np.nan
    found = stabdiag.diagnose(log, manifest={"dtype": "fp32", "checkpoint_every": 100}).diagnosis
    assert "but is again later; 1 of 800" in found.summary
    assert "no finite loss" not in found.first_action


def test_of_several_errors_before_a_nan_the_earliest_tells_the_checkpoint(
    calm: Callable[..., Log],
) -> None:
    log = shifted(calm(), 500) | {"loss_scale": np.full(800, 1024.0)}
    log["loss_scale"][220:] = 2.0 ** -np.minimum(np.arange(580), 30)
    log["grad_norm"][690:] = np.inf
    log["loss"][700:] = np.nan
    report = stabdiag.diagnose(log, manifest={"dtype": "fp16", "checkpoint_every": 50})
    # In the order of the sections.
    before = [(one.slug, one.step) for one in report.findings[1:] if one.severity == "error"]
    assert before == [("spike-persistent", 500), ("loss-scale-collapsed", 220)]
    assert "checkpoint of step 200" in report.diagnosis.first_action
    assert "from step 220 on: see loss-scale-collapsed below" in report.diagnosis.next_actions[0]


def test_only_what_is_not_logged_is_asked_for(calm: Callable[..., Log]) -> None:
    log = calm()
    spike(log)
    assert not any("Log the" in one for one in stabdiag.diagnose(log).diagnosis.next_actions)
    del log["batch_id"], log["lr"]
    actions = stabdiag.diagnose(log).diagnosis.next_actions
    assert "Log the learning rate and batch id of every step." in actions


def test_the_level_before_a_jump_is_not_called_the_end(calm: Callable[..., Log]) -> None:
    answers = {a.question: a for a in stabdiag.diagnose(shifted(calm(), 700)).tree.answers}
    assert answers["Q4.1"].because.startswith("before the jump at step 700 the loss stood at")
    answers = {a.question: a for a in stabdiag.diagnose(shifted(calm(), 300)).tree.answers}
    assert "best level since the jump at step 300" in answers["Q4.1"].because


def test_a_spike_beyond_all_noise_has_no_number_of_deviations() -> None:
    losses = np.full(200, 2.0)
    losses[150] = 1e12
    found = stabdiag.diagnose({"step": np.arange(200), "loss": losses}).diagnosis
    assert "(far beyond all noise)" in found.summary
    still = stabdiag.diagnose({"step": np.arange(200), "loss": np.full(200, 2.0)})
    assert not any("e-" in answer.because for answer in still.tree.answers)


def test_a_log_that_begins_with_nan_does_not_say_when_it_went_nan() -> None:
    log = {"step": [200, 400, 600], "loss": [np.nan] * 3}
    summary = stabdiag.diagnose(log).diagnosis.summary
    assert "at step 200, the first that was logged; 3 of 3" in summary
    assert (
        "not finite from step 0 on" in stabdiag.diagnose({"loss": [np.nan] * 3}).diagnosis.summary
    )


def test_the_only_layer_that_went_with_the_norm_of_all_is_named(calm: Callable[..., Log]) -> None:
    log = calm()
    for name in ("grad_norm", "grad_norm/body", "grad_norm/head"):
        log[name] = np.where(log["step"] >= 601, np.nan, 1.0 + 0.01 * (log["step"] % 7))
    log["loss"][601:] = np.nan
    for name in ("grad_norm", "grad_norm/body"):
        log[name][600] = np.nan
    found = stabdiag.diagnose(log).diagnosis
    assert "grad_norm/body went first, at step 600" in found.summary
    log["grad_norm/head"][600] = np.nan
    assert "grad_norm went first, at step 600" in stabdiag.diagnose(log).diagnosis.summary
    del log["grad_norm/head"]
    assert "grad_norm went first, at step 600" in stabdiag.diagnose(log).diagnosis.summary


def test_a_gradient_norm_that_went_first_is_named_however_little_was_logged() -> None:
    log = {"step": range(3), "loss": [2.0, np.nan, np.nan], "grad_norm": [np.nan] * 3}
    assert "grad_norm went first, at step 0" in stabdiag.diagnose(log).diagnosis.summary


def test_a_learning_rate_that_has_moved_on_is_told_with_its_step(
    calm: Callable[..., Log],
) -> None:
    log = calm()
    straining(log)
    log["lr"] = np.linspace(0.02, 0.001, 800)
    told = stabdiag.diagnose(log).diagnosis.first_action
    assert re.search(r"halve the learning rate \(0\.0\d+ at step \d+\)", told)


def test_what_the_first_action_says_is_not_said_again(runs: Path) -> None:
    found = stabdiag.diagnose(runs / "nan-activations-fp16" / "log.jsonl").diagnosis
    assert "halve the learning rate (0.53 at step 264)" in found.first_action
    assert not any("halve the learning rate" in action for action in found.next_actions)
    static = stabdiag.diagnose(next((runs / "nan-static-scale-fp16").glob("log.*"))).diagnosis
    assert any("halve the learning rate" in action for action in static.next_actions)


def resumed(log: Log, at: int, back: int, rise: Any) -> Log:
    """Return a run that broke off at one step and resumed at another with a loss that is higher."""
    again = {role: values.copy() for role, values in log.items()}
    again["loss"][back:] += rise
    return {role: np.concatenate([log[role][:at], again[role][back:]]) for role in log}


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        (100, "Reload the checkpoint of step 300, the last before the spike at 400, only if it"),
        (1000, "Keep the run going: no checkpoint is older, and the loss was back by step "),
        (None, "Reload the last checkpoint before the spike at 400, only if it evaluates better"),
    ],
)
def test_a_loss_that_was_back_late_is_weighed(
    calm: Callable[..., Log], every: int | None, expected: str
) -> None:
    log = calm()
    log["loss"] -= 2.0 * np.exp(-np.arange(800) / 200)  # as low before as at the end
    log["loss"][400:520] += 3.0
    manifest = {"checkpoint_every": every} if every else {}
    found = stabdiag.diagnose(log, manifest=manifest).diagnosis
    assert (found.slug, found.step) == ("spike-persistent", 400)
    assert found.first_action.startswith(expected)
    told = re.search(r"came back, but only by step (\d+), and not within 50 steps", found.summary)
    assert told is not None
    assert 520 <= int(told[1]) <= 540
    assert found.title == "Loss spike that recovered late"
    assert found.back == int(told[1])
    kept = found.first_action.startswith("Keep the run going")
    again = "If it happens again, clip the gradient norm at 0.5."
    weighed = "If it does, restart with the clip threshold at 0.5."
    assert found.next_actions[0] == (again if kept else weighed)
    # Who keeps the run going does not restart it, nor skips batches on the way.
    words = " ".join(found.next_actions)
    assert ("restart" in words or "Skip" in words) is not kept
    kinds = (ActionKind.RELOAD_CHECKPOINT, ActionKind.CLIP_GRADIENTS)
    assert found.actions[0].kinds == ((ActionKind.KEEP_GOING,) if kept else kinds)
    # The loss is back: the full re-train is no question any more.
    assert "If no checkpoint is older" not in words


def test_a_loss_that_is_lower_by_now_than_before_its_spike_is_kept(
    calm: Callable[..., Log],
) -> None:
    log = calm()
    log["loss"][300:420] += 3.0
    found = stabdiag.diagnose(log, manifest={"checkpoint_every": 100}).diagnosis
    assert (found.slug, found.title) == ("spike-persistent", "Loss spike that recovered late")
    assert re.match(
        r"Keep the run going: the loss was back by step 4\d\d, and is 2\.0\d+ by now, below the "
        r"2\.[45]\d+ from before the spike\.",
        found.first_action,
    )
    assert found.actions[0].kinds == (ActionKind.KEEP_GOING,)


def test_a_learning_rate_that_kept_to_its_schedule_is_not_asked_about(
    calm: Callable[..., Log],
) -> None:
    log = calm()
    log["loss"][400:] += 3.0
    ask = "Compare the learning rate at the onset with the intended schedule."
    assert ask not in stabdiag.diagnose(log).diagnosis.next_actions
    del log["lr"]
    assert ask in stabdiag.diagnose(log).diagnosis.next_actions


def test_a_loss_that_rises_with_jumps_of_the_learning_rate_that_come_again(
    calm: Callable[..., Log],
) -> None:
    log = calm(1600)
    log["lr"] = 1e-3 * (1.01 - np.arange(1600) % 200 / 200)
    log["loss"][800:900] += 3.0
    found = stabdiag.diagnose(log).diagnosis
    assert found.slug == "spike-persistent"
    assert any(
        "If these jumps of the learning rate are intended" in one for one in found.next_actions
    )


@pytest.mark.parametrize(
    "up",
    [
        pytest.param(np.r_[400:520, 700:800], id="it is up again at the end"),
        pytest.param(np.r_[400:520, 790:800], id="it is up again in the last steps"),
        pytest.param(np.r_[400:560, 580:740], id="it was back for a moment alone"),
        pytest.param(np.r_[400:800], id="it stayed up"),
    ],
)
def test_a_loss_that_was_not_back_for_good_is_not(calm: Callable[..., Log], up: Ints) -> None:
    log = calm()
    log["loss"][up] += 3.0
    found = stabdiag.diagnose(log, manifest={"checkpoint_every": 100}).diagnosis
    assert found.slug == "spike-persistent"
    assert "only by step" not in found.summary
    assert "only if" not in found.first_action


def test_a_jump_at_a_resume_has_the_resume_mended(calm: Callable[..., Log]) -> None:
    log = resumed(calm(), 550, 500, 3.0)
    found = stabdiag.diagnose(log, manifest={"checkpoint_every": 100}).diagnosis
    assert found.slug == "spike-persistent"
    assert "It began where the run resumed, at step 500." in found.summary
    assert found.first_action.startswith("Resume at step 500 once more")
    assert "reload the checkpoint of step 400" in found.next_actions[0]
    assert found.actions[0].kinds == (ActionKind.RESTORE_STATE,)
    assert (found.actions[1].kind, found.actions[1].checkpoint) == (ActionKind.CLIP_GRADIENTS, 400)
    back = resumed(calm(), 550, 500, 3.0 * np.exp(-np.arange(300) / 5))
    recovered = stabdiag.diagnose(back).diagnosis
    assert recovered.slug == "spike-recovered"
    assert "None of the logged series" not in recovered.summary
    assert "the next resume loads the optimizer's moments" in recovered.first_action


def test_a_jump_at_a_resume_that_was_back_late_lets_the_run_go_on(
    calm: Callable[..., Log],
) -> None:
    log = resumed(calm(), 450, 400, np.where(np.arange(400) < 120, 3.0, 0.0))
    found = stabdiag.diagnose(log, manifest={"checkpoint_every": 100}).diagnosis
    assert found.title == "Loss spike that recovered late"
    assert found.first_action.startswith("Keep the run going, and see that the next resume loads")
    assert f"back by step {found.back}." in found.first_action
    words = " ".join([found.first_action, *found.next_actions])
    assert "Reload" not in words
    assert "Skip" not in words


def test_a_jump_long_after_a_resume_is_not_its_doing(calm: Callable[..., Log]) -> None:
    log = resumed(calm(), 350, 300, np.where(np.arange(500) < 200, 0.0, 3.0))
    found = stabdiag.diagnose(log).diagnosis
    assert found.slug == "spike-persistent"
    assert "resumed" not in found.summary


def test_what_went_wrong_before_a_nan_is_mended_first(calm: Callable[..., Log]) -> None:
    log = shifted(calm(), 502)
    log["lr"][500:] = 0.03
    log["loss"][700:] = np.nan
    manifest = {"dtype": "bf16", "checkpoint_every": 100}
    found = stabdiag.diagnose(log, manifest=manifest).diagnosis
    # The checkpoint of step 500 already holds a step of the rate that jumped there.
    assert found.first_action.startswith("Reload the checkpoint of step 400, the last before the")
    assert "restart without the jump" in found.first_action
    assert found.next_actions[0].startswith("If the loss goes NaN again, step one batch forward")
    assert found.evidence["checkpoint"] == 400


def test_a_loss_far_beyond_all_that_it_fell_blames_the_step_and_not_the_data(
    calm: Callable[..., Log],
) -> None:
    log = calm()
    log["loss"][500:] *= np.exp(np.arange(300) / 20)
    found = stabdiag.diagnose(log, manifest={"grad_clip": 1.0}).diagnosis
    assert found.slug == "divergence-unexplained"
    assert found.first_action.endswith(
        "halve the learning rate (now 0.001) and clip the gradient norm at 0.5 (now 1)."
    )
    assert "optimization blow-up" in found.summary
    assert found.next_actions[0].startswith("Check the data from step")


def test_a_learning_rate_of_0_is_not_halved(calm: Callable[..., Log]) -> None:
    log = calm()
    log["loss"][500:] += np.arange(300) / 100
    log["lr"][400:] = 0.0
    found = stabdiag.diagnose(log).diagnosis
    assert found.slug == "divergence-unexplained"
    assert "The learning rate was 0 by then" in found.summary
    assert "check the data" in found.first_action
    assert not any("learning rate" in action for action in found.next_actions)
    straining(log)
    strained = stabdiag.diagnose(log).diagnosis
    assert strained.slug == "divergence-grad-norm-rising"
    assert strained.next_actions == ()


def test_no_checkpoint_is_asked_for_from_before_the_first_step(calm: Callable[..., Log]) -> None:
    log = calm()
    log["loss"][::97] = np.nan
    found = stabdiag.diagnose(log, manifest={"dtype": "fp32"}).diagnosis
    assert found.first_action.startswith("Restart from the beginning: nothing in this log is older")
    log["step"] += 5000
    log["loss"][:] = np.nan
    late = stabdiag.diagnose(log, manifest={"dtype": "fp32"}).diagnosis
    assert late.first_action.startswith("Reload the last checkpoint from before this log")


def test_weight_norms_that_are_logged_are_not_to_be_logged(calm: Callable[..., Log]) -> None:
    log = calm()
    straining(log)
    logged = stabdiag.diagnose(log).diagnosis
    assert logged.slug == "divergence-grad-norm-rising"
    assert logged.next_actions[-1].startswith("Check the weight norms for drift")
    del log["weight_norm/attn"]
    found = stabdiag.diagnose(log).diagnosis
    assert found.slug == "divergence-grad-norm-rising"
    assert found.next_actions[-1].endswith("log weight norms per group.")


def test_weights_that_grew_over_a_climb_are_named(calm: Callable[..., Log]) -> None:
    log = calm()
    straining(log)
    log["weight_norm/attn"] = 10 * np.exp(np.maximum(np.arange(800) - 300, 0) / 350)
    found = stabdiag.diagnose(log).diagnosis
    assert found.slug == "divergence-grad-norm-rising"
    assert re.fullmatch(
        r"The weight norm of 'attn' grew from \S+ to \S+ over the climb: double the weight decay, "
        r"or check that it applies to 'attn' at all\.",
        found.next_actions[-1],
    )


@pytest.mark.parametrize("strained", [True, False])
def test_a_weight_decay_of_the_wrong_sign_is_mended_first(
    calm: Callable[..., Log], strained: bool
) -> None:
    log = calm()
    log["loss"][500:] += np.arange(300) / 100
    if strained:
        straining(log)
    found = stabdiag.diagnose(log, manifest={"weight_decay": -0.1}).diagnosis
    assert found.slug.startswith("divergence-")
    assert found.first_action.endswith(
        "and fix the sign of the weight decay, -0.1, which makes weights grow."
    )


@pytest.mark.parametrize(
    ("end", "says"), [(2.1, "what made the training data harder"), (5.0, "Do not blame harder")]
)
def test_an_evaluation_loss_that_was_logged_is_looked_at(
    calm: Callable[..., Log], end: float, says: str
) -> None:
    log = calm()
    log["loss"][500:] += np.arange(300) / 100
    at = np.arange(800)
    evaluated = np.where(at < 500, 2.0, 2.0 + (end - 2.0) * (at - 500) / 300)
    log["eval_loss"] = np.where(at % 50 == 0, evaluated, np.nan)
    found = stabdiag.diagnose(log).diagnosis
    assert found.slug == "divergence-unexplained"
    assert any(says in action for action in found.next_actions)
    del log["eval_loss"]
    without = stabdiag.diagnose(log).diagnosis.next_actions
    assert any("Compare with the evaluation loss" in action for action in without)


def test_a_spike_under_a_learning_rate_that_rose_until_then_blames_it(
    calm: Callable[..., Log],
) -> None:
    log = shifted(calm(), 500)
    log["lr"] = 1e-3 * 1.005 ** np.arange(800)
    found = stabdiag.diagnose(log).diagnosis
    assert found.slug == "spike-persistent"
    assert "The learning rate rose until then, from 0.004465 to 0.01211" in found.summary
    assert found.first_action.endswith(
        "restart with the learning rate held below 0.01211 and the clip threshold at 0.5."
    )
    assert not any("Skip the batches" in action for action in found.next_actions)


@pytest.mark.parametrize(
    ("climb", "runs_on"), [(np.zeros(30), True), (np.arange(30) / 2, False)], ids=["flat", "climbs"]
)
def test_a_loss_that_still_rises_at_the_end_is_not_to_be_run_on(
    calm: Callable[..., Log], climb: Any, runs_on: bool
) -> None:
    log = shifted(calm(), 770)
    log["loss"][770:] += climb
    found = stabdiag.diagnose(log).diagnosis
    assert found.slug == "spike-unresolved"
    assert found.first_action.startswith("Run on to step 820") == runs_on
    assert ("with the loss still rising" in found.summary) != runs_on


def test_a_gradient_norm_short_of_a_long_tail_is_told_of(calm: Callable[..., Log]) -> None:
    log = calm()
    log["loss"][500] += 5.0
    log["grad_norm"][500] = 22.0
    found = stabdiag.diagnose(log).diagnosis
    assert found.slug == "spike-recovered"
    assert "The gradient norm reached 19.77 x its rolling mean, not quite the 30 x" in found.summary


def test_a_scaler_that_is_engaged_is_not_to_be_engaged(calm: Callable[..., Log]) -> None:
    log = calm() | {"loss_scale": np.where(np.arange(800) < 300, 65536.0, 131072.0)}
    log["grad_norm"][500] = np.inf
    log["loss"][501:] = np.nan
    found = stabdiag.diagnose(log, manifest={"dtype": "fp16"}).diagnosis
    assert found.slug == "nan-fp16-overflow"
    assert found.first_action.endswith(
        "switch from fp16 to bf16, or halve the learning rate (now 0.001)."
    )


def test_the_batches_of_a_blow_up_are_all_that_a_line_stands_for(calm: Callable[..., Log]) -> None:
    log = calm()
    log["loss"][580:] += 30.0
    log["loss"][600:] = np.nan
    del log["grad_norm"]
    sparse = {role: values[::10] for role, values in log.items()}
    found = stabdiag.diagnose(sparse, manifest={"dtype": "fp32"}).diagnosis
    assert "Inspect the batches of steps 591 to 600." in found.next_actions
    every = stabdiag.diagnose(log, manifest={"dtype": "fp32"}).diagnosis
    assert "Inspect the batches of steps 598 to 600." in every.next_actions
    sparse["epoch"] = np.arange(80) + 1
    del sparse["step"]
    epochs = stabdiag.diagnose(sparse, manifest={"dtype": "fp32"}).diagnosis
    assert any("Inspect what changed at epoch 61" in action for action in epochs.next_actions)


def test_of_epochs_no_single_batch_is_to_be_looked_at(calm: Callable[..., Log]) -> None:
    log = calm(60)
    jumped = {"epoch": log["step"] + 1, "loss": shifted(log, 52)["loss"]}
    found = stabdiag.diagnose(jumped).diagnosis
    assert found.slug == "spike-unresolved"
    assert "Look at what changed at epoch 53" in found.next_actions[0]
    longer = calm(160)
    stayed = {"epoch": longer["step"] + 1, "loss": shifted(longer, 90)["loss"]}
    persistent = stabdiag.diagnose(stayed).diagnosis
    assert persistent.slug == "spike-persistent"
    assert not any("Skip the batches" in action for action in persistent.next_actions)


@pytest.mark.parametrize(
    ("last", "slug", "first"),
    [(45, "spike-unresolved", "Run on to epoch 51 "), (60, "spike-persistent", "Reload the last ")],
)
def test_of_epochs_a_few_are_waited_for_and_not_fifty(
    calm: Callable[..., Log], last: int, slug: str, first: str
) -> None:
    log = calm(last)
    jumped = {"epoch": log["step"] + 1, "loss": shifted(log, 40)["loss"]}
    found = stabdiag.diagnose(jumped).diagnosis
    assert found.slug == slug
    assert found.first_action.startswith(first)


@pytest.mark.parametrize("every", [50, None])
def test_the_checkpoint_is_from_before_a_slow_climb_and_not_from_within(
    calm: Callable[..., Log], every: int | None
) -> None:
    log = calm(6000)
    log["loss"] += np.clip((np.arange(6000) - 4000) / 2000, 0, 1)
    found = stabdiag.diagnose(log, manifest={"checkpoint_every": every} if every else {}).diagnosis
    assert found.slug == "divergence-unexplained"
    assert found.step is not None
    assert found.step > 4150  # by then it is beyond its noise
    told = re.search(r"left its best level near step (\d+)", found.first_action)
    assert told is not None
    assert int(told[1]) == pytest.approx(4050, abs=100)
    if every:
        named = int(told[1]) - 1
        assert f"the checkpoint of step {named - named % 50}, the last" in found.first_action


@pytest.mark.parametrize(("at", "early"), [(150, True), (1500, False)])
def test_a_longer_warm_up_is_advised_where_it_was_not_long_over(
    calm: Callable[..., Log], at: int, early: bool
) -> None:
    log = calm(2000)
    log["lr"] = 1e-3 * np.minimum(1, (np.arange(2000) + 1) / 40)
    log["grad_norm"][at - 3 : at] = 80.0
    log["loss"][at:] = np.nan
    found = stabdiag.diagnose(log, manifest={"dtype": "bf16"}).diagnosis
    assert "half the learning rate" in found.first_action
    assert any("Lengthen the warm-up" in one for one in found.next_actions) is early


def test_a_jump_of_the_learning_rate_is_not_mended_by_other_batches(
    calm: Callable[..., Log],
) -> None:
    log = calm()
    log["lr"][398:] *= 10
    log["loss"][400:] += 3.0
    found = stabdiag.diagnose(log).diagnosis
    assert found.slug == "spike-persistent"
    assert found.next_actions[0].startswith("Find what raised the learning rate")
    assert not any("batches" in one for one in found.next_actions)


@pytest.mark.parametrize(
    ("step", "every", "stride", "older"),
    [
        (901, 100, 1, 800),  # of the very step before
        (900, 100, 1, 0),
        (704, 100, 5, 600),  # the record of 699 was good: 700 may not be
        (700, 100, 10, 0),
        (710, 100, 10, 0),
        (619, 10, 20, 590),  # neither 600 nor 610 is known to be good
        (104, 100, 5, 0),  # nothing is older
    ],
)
def test_a_checkpoint_written_since_the_last_good_record_may_be_damaged(
    step: int, every: int, stride: int, older: int
) -> None:
    last = checkpoint_before(Manifest(checkpoint_every=every), step, stride)
    assert last.older == older


def test_a_sparse_log_names_an_older_checkpoint(calm: Callable[..., Log]) -> None:
    log = shifted(calm(), 704)
    sparse = {name: values[4::5] for name, values in log.items()}
    report = stabdiag.diagnose(sparse, manifest={"checkpoint_every": 100})
    assert report.diagnosis.first_action.startswith(
        "Reload the checkpoint of step 700, the last before the spike at 704 (should it be damaged "
        "already, that of step 600)"
    )


@pytest.mark.parametrize(("kept", "is_gone"), [(2, True), (3, True), (4, False), (None, False)])
def test_a_checkpoint_that_is_not_kept_so_long_is_told_of(
    calm: Callable[..., Log], kept: int | None, is_gone: bool
) -> None:
    manifest = {"dtype": "bf16", "save_steps": 100, "save_total_limit": kept}
    stays = shifted(calm(), 450)
    ends = calm()
    ends["loss"][450:] = np.nan
    for log in (stays, ends):
        found = stabdiag.diagnose(log, manifest=manifest).diagnosis
        assert "checkpoint of step 400" in found.first_action
        gone = [one for one in found.next_actions if one.startswith("Should that checkpoint be")]
        assert bool(gone) == is_gone
        if kept == 2:
            assert "(the last 2 are kept, from step 600 on, if the run" in gone[0]


@pytest.mark.parametrize(
    ("decay", "act"),
    [
        (0.1, "halve the learning rate (now 0.001) and double the weight decay (now 0.1)"),
        (-0.1, "and fix the sign of the weight decay, -0.1, which makes weights grow"),
    ],
)
def test_more_decay_alone_holds_no_weights_that_blow_up(
    calm: Callable[..., Log], decay: float, act: str
) -> None:
    log = calm()
    since = np.maximum(log["step"] - 400, 0)
    log["loss"] *= np.exp(since / 20)
    log["lr"] = np.full(800, 1e-3)
    log["weight_norm/attn"] = 10.0 * np.exp(since / 40)
    found = stabdiag.diagnose(log, manifest={"weight_decay": decay}).diagnosis
    assert found.slug == "divergence-weight-norm-climbing"
    assert act in found.first_action
    assert ("optimization blow-up" in found.summary) == (decay > 0)


def test_a_checkpoint_that_is_gone_is_told_of_only_where_it_is_to_be_reloaded(
    calm: Callable[..., Log],
) -> None:
    log = calm() | {"loss_scale": np.full(800, 65536.0)}
    log["loss"][450:] = np.nan
    manifest = {"dtype": "fp16", "save_steps": 100, "save_total_limit": 2}
    found = stabdiag.diagnose(log, manifest=manifest).diagnosis
    assert found.first_action.startswith("Re-run step 450 once in fp32")
    assert "Should that checkpoint be gone" not in " ".join(found.next_actions)


@pytest.mark.parametrize(
    ("every", "told"),
    [
        (None, "or restart from the beginning if there is none, with half the learning rate"),
        (500, "(it holds no finite loss), with half the learning rate"),
    ],
)
def test_a_log_without_a_finite_loss_is_restarted_with_what_cures_the_surge(
    calm: Callable[..., Log], every: int | None, told: str
) -> None:
    log = calm(300)
    log["grad_norm"][195:] *= 1e3
    records = [{name: log[name][at] for name in ("step", "lr", "grad_norm")} for at in range(300)]
    for at in (200, 250, 299):
        records[at]["loss"] = np.nan
    report = stabdiag.diagnose(records, manifest={"dtype": "fp32", "checkpoint_every": every})
    assert told in report.diagnosis.first_action
