"""Settings that changed where something began: reported if not by chance, with the advice."""

import numpy as np
import pytest

import stabdiag
from stabdiag.model.findings import ActionKind, Verdict
from stabdiag.model.history import History, Series, Source
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest
from stabdiag.tree.case import Case
from stabdiag.tree.changes import nearby_changes
from tests.tree.made import answer_to

AT = 400


def switched(log, at, before, after):
    """Return a setting that changes at a step."""
    return np.where(log["step"] < at, before, after)


def jumping(calm, height=1.0):
    """Return a log whose loss rises permanently."""
    log = calm()
    log["loss"] = log["loss"] + np.where(log["step"] >= AT, height, 0.0)
    return log


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (400, "batch_size went from 64 to 8 at step 400, right at the onset."),
        (399, "batch_size went from 64 to 8 at step 399, 1 step before the onset."),
        (393, "batch_size went from 64 to 8 at step 393, 7 steps before the onset."),
    ],
)
def test_a_jump_where_a_setting_changed(calm, at, expected):
    log = jumping(calm)
    finding = stabdiag.diagnose({**log, "batch_size": switched(log, at, 64, 8)}).diagnosis
    assert finding.slug == "spike-persistent"
    assert finding.summary.endswith(expected)
    assert (finding.actions[0].kind, finding.actions[0].step) == (ActionKind.CHECK_SETTINGS, at)
    assert finding.actions[1].kind is ActionKind.CLIP_GRADIENTS
    assert finding.evidence["changed_step"] == at


def test_near_misses_are_not_reported(calm):
    log = jumping(calm)
    plain, n = stabdiag.diagnose(log), log["step"]
    for shape, setting in {
        "away": np.where(n < 300, 64, 8),
        "afterwards": np.where(n < 405, 64, 8),
        "constant": np.full(len(n), 64),
        "a counter": n + 1,
        "to and fro": 64 + n % 2,
        "again and again": 64 + n // 10,
        "smooth": np.clip(n - 380, 0, 200),
        "once only": np.where(n == 400, 8, 64),
        "never a number": np.full(len(n), np.nan),
    }.items():
        report = stabdiag.diagnose({**log, "batch_size": setting * 1.0})
        assert report.findings == plain.findings, shape


def test_a_jump_of_the_learning_rate_is_the_cause_before_any_setting(calm):
    log = calm()
    up = (log["step"] >= AT) & (log["step"] < AT + 8)
    log["loss"] = log["loss"] + np.where(up, 2.0, 0.0)
    log["lr"] = np.where(up, 0.1, 0.001)
    log["batch_size"] = switched(log, AT, 64, 8)
    finding = stabdiag.diagnose(log).diagnosis
    assert finding.slug == "spike-lr-jump"
    assert "batch_size went from 64 to 8" in finding.summary
    assert finding.first_action.startswith("Fix the schedule")


@pytest.mark.parametrize("name", ["seq_len", "curriculum/stage", "dataset", "img_size"])
def test_a_jump_where_the_loss_is_measured_on_something_else(calm, name):
    log = jumping(calm)
    assert stabdiag.diagnose(log).diagnosis.slug == "spike-persistent"
    report = stabdiag.diagnose({**log, name: switched(log, AT, 1, 2)})
    assert report.diagnosis.slug == "healthy"
    assert f"{name} went from 1 to 2 at step 400" in (report.diagnosis.summary)
    assert "the loss rose permanently where" in answer_to(report, "Q2.1").because
    assert answer_to(report, "Q4.1").verdict is Verdict.NO
    assert report.diagnosis.first_action == (
        f"Check that the change of {name} at step 400 was intended."
    )


def after(fall):
    """Return a function that gives the addition to the loss by step, starting at the change."""
    return lambda n: np.where(n >= AT, fall(np.maximum(n - AT, 0)), 0.0)


@pytest.mark.parametrize(
    ("n", "added"),
    [
        (520, after(lambda k: 1 + 0.02 * k)),
        (403, after(lambda k: 1.0)),
        (800, after(lambda k: 2 - 2 * np.exp(-2 - k / 200))),
        (800, after(lambda k: 50.0)),
    ],
    ids=["goes on climbing", "too few losses to tell", "back at chance", "has lost all"],
)
def test_a_loss_that_settles_above_its_start_is_not_excused(calm, n, added):
    log = calm(n)
    log["loss"] = log["loss"] + added(log["step"])
    log["stage"] = switched(log, AT, 1, 2)
    finding = stabdiag.diagnose(log).diagnosis
    assert finding.slug in ("spike-persistent", "spike-unresolved", "divergence-unexplained")
    assert "stage went from 1 to 2 at step 400" in finding.summary


@pytest.mark.parametrize(
    ("column", "before", "later"),
    [
        ("lr", 1e-3, 1e-2),
        ("weight_norm/head", 10.0, 30.0),
        ("weight_norm/head", 10.0, 3.0),
        ("grad_norm", 1.0, 100.0),
        ("grad_norm", 1.0, 0.0),
    ],
)
def test_rises_without_a_change_of_data_are_not_excused(calm, column, before, later):
    log = jumping(calm)
    log["stage"] = switched(log, AT, 1, 2)
    wave = 1 + 0.1 * np.sin(log["step"]) * (column == "grad_norm")
    usual = stabdiag.diagnose({**log, column: before * wave})
    # A weight norm that never changes belongs to a frozen group.
    assert usual.diagnosis.slug in ("healthy", "group-frozen")
    finding = stabdiag.diagnose({**log, column: switched(log, AT, before, later) * wave}).diagnosis
    assert finding.slug == "spike-persistent"
    assert "stage went from 1 to 2 at step 400" in finding.summary


def test_the_gradients_of_a_loss_in_another_unit_are_as_many_times_larger(calm):
    log = calm()
    wave = 1 + 0.1 * np.sin(log["step"])
    log["loss"] = 0.2 * np.exp(-log["step"] / 60) + 0.002 * wave
    log |= {"loss": log["loss"] * switched(log, AT, 1, 17), "grad_norm": wave}
    log |= {"grad_norm": wave * switched(log, AT, 1, 40), "temperature": switched(log, AT, 4, 1)}
    assert stabdiag.diagnose(log).diagnosis.slug == "healthy"


@pytest.mark.parametrize(
    ("added", "slug"),
    [
        (lambda n: np.where(n >= 800, 0.7, 0.0), "spike-persistent"),
        (lambda n: np.clip((n - 800) * 0.005, 0, None), "divergence-unexplained"),
    ],
)
def test_a_failure_after_a_new_stage_is_reported(calm, added, slug):
    log = calm(1200)
    n = log["step"]
    log["loss"] = log["loss"] + np.where(n >= AT, 1.0, 0.0) + added(n)
    finding = stabdiag.diagnose({**log, "stage": switched(log, AT, 1, 2)}).diagnosis
    assert finding.slug == slug
    assert 795 <= finding.step <= 850


def test_a_climb_between_two_new_stages_is_found(calm):
    log = calm(1150)
    n = log["step"]
    climb = np.clip((n - 600) * 0.004, 0, 1.6)
    stages = np.where(n >= 300, 1.5, 0.0) + np.where(n >= 1060, 0.8, 0.0)
    log["loss"] = 2 + 8 * np.exp(-n / 100) + (log["loss"] - log["loss"].mean()) * 0.05
    log["loss"] += stages + climb
    log["stage"] = 1 + (n >= 300) + (n >= 1060)
    report = stabdiag.diagnose(log)
    assert report.diagnosis.slug == "divergence-unexplained"
    assert 595 <= report.diagnosis.step <= 650
    assert "before the jump at step 1060" in answer_to(report, "Q4.1").because


@pytest.mark.parametrize(
    ("logged", "expected"),
    [
        ((0, AT), "from 64 to 8 at step 400, right at the onset."),  # where it changes alone
        (range(7, 800, 16), "from 64 to 8 between steps 392 and 407, right at the onset."),
    ],
)
def test_setting_logged_with_some_losses(calm, tmp_path, logged, expected):
    log, path = jumping(calm), tmp_path / "log.jsonl"
    rows = [f'"step": {n}, "loss": {x:.5f}' for n, x in zip(log["step"], log["loss"], strict=True)]
    for n in logged:
        rows[n] += f', "batch_size": {64 if n < AT else 8}'
    path.write_text("".join(f"{{{row}}}\n" for row in rows))
    assert expected in stabdiag.diagnose(path).diagnosis.summary


def test_a_symptom_where_a_setting_changed(calm):
    log = calm()
    noise = np.random.default_rng(5).normal(0, 1e3, 800)
    log["tokens_per_second"] = 1e5 * np.where(log["step"] < AT, 1, 0.4) + noise
    plain = stabdiag.diagnose(log)
    assert plain.diagnosis.slug == "throughput-drop"
    assert plain.tree.outcome.slug == "healthy"
    report = stabdiag.diagnose({**log, "seq_len": switched(log, AT, 512, 1024)})
    finding = report.diagnosis
    assert finding.summary.endswith(
        "seq_len went from 512 to 1024 at step 400, right at the onset."
    )
    assert finding.first_action.startswith("Check first whether the change of seq_len at step 400")


def test_a_column_that_the_user_names(calm):
    log = jumping(calm)
    log["knob"] = switched(log, AT, 1, 2)
    assert "knob" not in stabdiag.diagnose(log).diagnosis.summary
    report = stabdiag.diagnose(log, columns={"setting/knob": "knob"})
    assert "knob went from 1 to 2 at step 400" in report.diagnosis.summary
    # The name identifies the setting.
    report = stabdiag.diagnose(log, columns={"setting/stage": "knob"})
    assert report.diagnosis.slug == "healthy"


def test_settings_are_rarely_reported_by_chance():
    rng, text, steps = np.random.default_rng(0), 0, np.arange(800)
    for _ in range(400):
        series = {"loss": Series(role="loss", column="loss", steps=steps, values=steps * 1.0)}
        for role in (f"setting/{n}" for n in range(4)):
            at = np.sort(rng.integers(1, 800, 3))
            values = np.searchsorted(at, steps, side="right") * 1.0
            series[role] = Series(role=role, column="wd", steps=steps, values=values)
        source = Source(name="", format="", records=800)
        history = History(series=series, source=source)
        case = Case(history=history, manifest=Manifest(), limits=Limits())
        at_step = int(rng.integers(800))
        text += bool(nearby_changes(case, at_step, at_step))
    assert text < 0.05 * 400 + 2 * (0.05 * 400) ** 0.5


def with_part(log, at, height=1.0):
    """Return a log whose loss gains a term at a step, as YOLOX adds an L1 loss."""
    part = np.where(log["step"] < at, 0.0, height + 0.1 * np.sin(log["step"]))
    return {**log, "total_loss": log["loss"] + part, "iou_loss": log["loss"], "l1_loss": part}


def of_parts(calm, at=AT):
    log = with_part(calm(), at)
    del log["loss"]
    return log


def test_a_loss_component_added_later(calm):
    log = of_parts(calm)
    finding = stabdiag.diagnose(log).diagnosis
    assert finding.slug == "healthy"
    assert "l1_loss went from 'off' to 'on' at step 400" in finding.summary
    assert finding.first_action == "Check that the change of l1_loss at step 400 was intended."
    # One that is not logged, and one that was on before, explain nothing.
    for part in (None, log["l1_loss"] + 0.1, np.where(log["step"] < 5, 0.0, 1.0)):
        other = {**log, "l1_loss": part} if part is not None else {**log}
        if part is None:
            del other["l1_loss"]
        assert stabdiag.diagnose(other).diagnosis.slug == "spike-persistent"


@pytest.mark.parametrize("name", ["val/l1_loss", "l1", "aux_loss_weight", "eval_loss_l1"])
def test_other_columns_are_not_parts_of_the_loss(calm, name):
    log = of_parts(calm)
    log[name] = log.pop("l1_loss")
    history = stabdiag.read(log)
    assert all(item.words != ("off", "on") for item in history.group("setting").values())


def spiking(calm, **extra):
    """Return a log with a spike that recovers, and other series."""
    log = calm()
    log["loss"][AT : AT + 3] += 5.0
    return {**log, **extra}


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (lambda at: np.where(at < AT - 2, 1e-3, 1e-4), "fell from 0.001 to 0.0001 at step 398"),
        (lambda at: np.where(at < AT - 2, 1e-3, 1e-2), "jumped from 0.001 to 0.01 at step 398"),
        (lambda at: np.where(at < AT - 100, 1e-3, 1e-4), ""),
        (lambda at: 1e-3 * 0.99**at, ""),
    ],
    ids=["falls", "jumps", "fell long before", "decays"],
)
def test_a_step_of_the_learning_rate_in_either_direction_is_named(calm, rate, expected):
    finding = stabdiag.diagnose(spiking(calm, lr=rate(np.arange(800)))).diagnosis
    assert finding.section == "§2"
    assert (f"The learning rate {expected}" in finding.summary) is bool(expected)
    checks = [action.text for action in finding.actions if "rate falls from" in action.text]
    assert bool(checks) is expected.startswith("fell")


LENGTHS = 500 + 50 * np.random.default_rng(2).standard_normal(800)


@pytest.mark.parametrize(
    ("lengths", "is_named"),
    [
        (np.where(np.arange(800) == AT, 4096, LENGTHS), True),
        (np.where(np.arange(800) == AT, 4096, 512), True),
        # As long as others, long elsewhere, and long throughout.
        (LENGTHS, False),
        (np.where(np.arange(800) == AT + 100, 4096, LENGTHS), False),
        (np.where(np.arange(800) % 4 == 0, 4096, 512), False),
    ],
)
def test_a_sequence_length_that_jumps_at_a_spike_is_named(calm, lengths, is_named):
    finding = stabdiag.diagnose(spiking(calm, seq_len=lengths)).diagnosis
    assert finding.section == "§2"
    assert ("seq_len was 4096 at step 400" in finding.summary) is is_named
    assert ("Check the batch of step 400, where seq_len" in finding.first_action) is is_named
