"""What to do first, with the run's own numbers in it."""

import re

import numpy as np
import pytest

import stabdiag
from stabdiag.model.findings import ActionKind
from stabdiag.model.history import History, Source
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest
from stabdiag.tree.checkpoint import earlier_checkpoint
from stabdiag.tree.run import Run
from tests.tree.made import add, changed, climb, drop, put, ramp, series

K = ActionKind


def diagnosed(log, **manifest):
    """Return the diagnosis of a log; a setting that is None is not told."""
    text = {name: value for name, value in manifest.items() if value is not None}
    return stabdiag.diagnose(log, manifest=text).diagnosis


def kinds(finding):
    """Return the kind of each action."""
    return [action.kind for action in finding.actions]


def of_kind(finding, kind):
    """Return the first action of a kind."""
    return next(action for action in finding.actions if action.kind is kind)


NAN = put("loss", slice(600, None), np.nan)
SURGE = put("grad_norm", slice(596, 600), 60.0)
OVERFLOW = put("grad_norm", slice(595, None), np.inf)
STATIC = series("loss_scale", lambda at: 0 * at + 4096.0)
SPIKE = add(500, 3.0)
STRAIN = ramp("grad_norm", 1.0, 9.0, begin=0)
GROWS = ramp("weight_norm/attn", 10, 300, begin=0)
SHRINKS = ramp("weight_norm/attn", 300, 10, begin=0)
# A rise that is slow enough for a climb.
RISE = add(slice(500, 800), np.arange(300) / 100)


def shift(onset):
    """Raise the loss permanently."""
    return add(slice(onset, None), 3.0)


DTYPES = [("nan-fp32", "fp32"), ("nan-bf16", "bf16"), ("nan-dtype-unknown", None)]
FIRST = [
    *(
        (s, [NAN], {"dtype": d}, K.INSPECT_LAYERS, ["isnan checks", "of step 500"])
        for s, d in DTYPES
    ),
    (
        "nan-fp32",
        [NAN, SURGE],
        {"dtype": "fp32"},
        K.LOWER_LR,
        ["(0.0005; now 0.001)", "clipped at 0.5"],
    ),
    (
        *("nan-fp16-overflow", [NAN, OVERFLOW, STATIC], {"dtype": "fp16"}, K.DYNAMIC_LOSS_SCALE),
        ["enable dynamic"],
    ),
    (
        *("spike-long-tail-batch", [SPIKE, put("grad_norm", 500, 50.0)], {}, K.INSPECT_DATA),
        ["batch of step 500", "norm at 0.5"],
    ),
    (
        *("spike-persistent", [shift(501), put("lr", slice(499, None), 0.01)], {"grad_clip": 1.0}),
        K.FIX_SCHEDULE,
        [
            "checkpoint of step 400, the last before the jump of the learning rate at step 499",
            "(now 1)",
        ],
    ),
    ("spike-unresolved", [shift(780)], {"total_steps": 800}, K.CLIP_GRADIENTS, ["of step 700"]),
    ("spike-unresolved", [shift(780)], {}, K.KEEP_CHECKPOINT, ["run on to step 830"]),
    (
        *("gradient-overflow", [put("grad_norm", slice(100, None, 40), np.inf)]),
        *({"dtype": "bf16"}, K.INSPECT_LAYERS, ["at step 100"]),
    ),
    *(
        (
            f"divergence-weight-norm-{way}",
            [climb(), norm],
            {"weight_decay": decay},
            kind,
            [expected],
        )
        for way, norm, decay, kind, expected in (
            ("climbing", GROWS, 0.1, K.RAISE_WEIGHT_DECAY, "weight decay to 0.2 (now 0.1)"),
            ("climbing", GROWS, 0, K.RAISE_WEIGHT_DECAY, "turn on weight decay (now 0)"),
            ("collapsing", SHRINKS, None, K.LOWER_WEIGHT_DECAY, "halve the weight"),
            ("collapsing", SHRINKS, 0, K.CHECK_MODEL, "find what shrinks the weights"),
        )
    ),
]


@pytest.mark.parametrize(
    ("slug", "changes", "manifest", "kind", "expected"),
    FIRST,
    ids=[f"{number}-{row[0]}" for number, row in enumerate(FIRST)],
)
def test_the_first_action_has_the_numbers_of_the_run(calm, slug, changes, manifest, kind, expected):
    finding = diagnosed(changed(calm(), *changes), checkpoint_every=100, **manifest)
    assert (finding.slug, finding.actions[0].kind) == (slug, kind)
    for words in expected:
        assert words in finding.first_action
    for action in finding.actions:
        assert re.match(r"[A-Z].*\.$", action.text)
    assert not finding.summary[0].islower()
    assert finding.next_actions
    assert finding.step is not None
    assert finding.evidence


@pytest.mark.parametrize(
    ("onset", "every", "checkpoint", "expected"),
    [
        # Written after the update that showed at 501, it may hold what is damaged, too.
        (501, 100, 500, "before the spike at step 501 (or step 400 if that is already damaged)"),
        # A checkpoint that is written at the onset holds what is damaged.
        (
            500,
            100,
            400,
            "the last before the spike at step 500, and restart with the clip threshold",
        ),
        (499, 100, 400, "the last before the spike at step 499"),
        (
            500,
            1000,
            0,
            "Restart from the beginning (no checkpoint precedes the spike at step 500),",
        ),
        (500, None, None, "Reload the last checkpoint before the spike at step 500"),
    ],
)
def test_the_last_good_checkpoint_is_named(calm, onset, every, checkpoint, expected):
    finding = diagnosed(changed(calm(), shift(onset)), checkpoint_every=every)
    assert (finding.slug, finding.step) == ("spike-persistent", onset)
    assert finding.actions[0].checkpoint == checkpoint
    assert expected in finding.first_action
    assert finding.first_action.lower().count("restart") == 1


@pytest.mark.parametrize(
    ("step", "every", "last"),
    [
        *((1, 1, 0), (2, 1, 1), (0, 10, 0), (10, 10, 0), (11, 10, 10), (25, 10, 20), (-5, 10, 0)),
        (7, None, None),
    ],
)
def test_the_last_checkpoint_is_strictly_before(step, every, last):
    assert earlier_checkpoint(_saving(every), step).step == last


def _saving(every):
    history = History(series={}, source=Source(name="", format="", records=0))
    return Run(history=history, manifest=Manifest(checkpoint_every=every), limits=Limits())


@pytest.mark.parametrize(
    ("step", "every", "stride", "older"),
    [
        (901, 100, 1, 800),  # of the very step before
        (900, 100, 1, 0),
        (704, 100, 5, 600),  # the record of 699 was good: 700 may not be
        (700, 100, 10, 0),
        (710, 100, 10, 0),
        (619, 10, 20, 590),  # 600 and 610 may be bad
        (104, 100, 5, 0),  # nothing is older
    ],
)
def test_a_checkpoint_written_since_the_last_good_record_may_be_damaged(step, every, stride, older):
    last = earlier_checkpoint(_saving(every), step, stride)
    assert last.older == older


@pytest.mark.parametrize(
    ("clip", "lower"), [(None, 0.5), (1.0, 0.5), (0.5, 0.25), (0.1, 0.05), (-1.0, 1.0)]
)
def test_the_clip_threshold_goes_down(calm, clip, lower):
    finding = diagnosed(changed(calm(), shift(500)), grad_clip=clip)
    assert (finding.actions[0].setting, finding.actions[0].to) == ("grad_clip", lower)
    assert ("(now off)" in finding.first_action) == (clip == -1.0)


@pytest.mark.parametrize(("peak", "setting", "to"), [(0.002, "peak_lr", 0.001), (0.0, "lr", None)])
def test_the_peak_is_halved_if_the_rate_has_decayed_to_0(calm, peak, setting, to):
    log = changed(calm(), NAN, SURGE)
    log["lr"] = np.where(log["step"] < 700, np.maximum(peak * (1 - log["step"] / 500), 0.0), 1.0)
    first = diagnosed(log).actions[0]
    assert (first.kind, first.setting, first.to) == (K.LOWER_LR, setting, to)


def test_half_of_an_extreme_learning_rate_is_still_too_high(calm):
    log = changed(calm(), NAN, SURGE) | {"lr": np.full(800, 0.6)}
    first = diagnosed(log, optimizer="adamw", dtype="bf16").actions[0]
    assert (first.setting, first.from_, first.to) == ("lr", 0.6, 0.01)
    assert "with a learning rate of 0.01 (now 0.6)" in first.text


def test_a_nan_that_lacks_the_fingerprint_is_first_run_again_in_fp32(calm):
    log = changed(calm(), NAN) | {"loss_scale": np.full(800, 1024.0)}
    finding = diagnosed(log, dtype="fp16", save_steps=100, save_total_limit=1)
    assert finding.slug == "nan-fp16-overflow"
    assert finding.actions[0].kind is K.CHECK_PRECISION
    # No checkpoint is to be reloaded, so none is said to be gone.
    assert K.RELOAD_CHECKPOINT not in kinds(finding)


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ([600, 610], "non-finite at step 600 (last finite loss: step 599) and finite again later"),
        ([*range(600, 800)], "non-finite from step 600 on"),
        ([0], "finite again later; 1 of 800 losses is non-finite"),
    ],
)
def test_the_first_non_finite_loss_is_reported(calm, bad, expected):
    log = calm()
    log["loss"][bad] = np.nan
    assert expected in diagnosed(log).summary


def test_a_zero_in_place_of_nan_is_named(calm):
    log = calm()
    log["loss"][600:], log["grad_norm"][600:] = 0.0, np.nan
    summary = diagnosed(log).summary
    assert "non-finite from step 600 on" in summary
    assert "The log has 0.0 instead of NaN." in summary


def test_a_gradient_that_failed_first_names_its_batch(calm):
    log = calm()
    log["grad_norm"][640:] = np.nan
    log["loss"][641:] = np.nan
    finding = diagnosed(log, dtype="fp32")
    assert finding.evidence["first_series"] == "grad_norm"
    assert of_kind(finding, K.INSPECT_DATA).step == 640


@pytest.mark.parametrize(
    ("change", "at", "dtype", "kind"),
    [(NAN, 6000, "fp16", K.CHECK_PRECISION), (SPIKE, 5000, "fp32", K.INSPECT_DATA)],
    ids=["nan", "spike"],
)
def test_sparse_log_names_all_steps_of_a_record(calm, change, at, dtype, kind):
    text = of_kind(diagnosed(changed(calm(stride=10), change), dtype=dtype), kind).text
    assert f"steps {at - 9} to {at}" in text


def lost(at):
    return put("loss", slice(at, None), np.nan)


@pytest.mark.parametrize(
    ("changes", "dtype", "every", "kind", "checkpoint"),
    [
        # From before the trouble began.
        ([add(slice(590, 605), 9.0), lost(605)], "fp32", 10, K.LOWER_LR, 580),
        # A jump of the learning rate is fixed first.
        ([put("lr", slice(598, None), 1.0), lost(601)], "fp32", 599, K.FIX_SCHEDULE, 0),
        ([put("lr", slice(598, None), 1.0), lost(601)], "fp16", 599, K.FIX_SCHEDULE, 0),
        # The checkpoint of step 500 already holds a step of the rate that jumped there.
        (
            [shift(502), put("lr", slice(500, None), 0.03), lost(700)],
            *("bf16", 100, K.FIX_SCHEDULE, 400),
        ),
    ],
)
def test_the_cause_of_a_nan_is_fixed_first(calm, changes, dtype, every, kind, checkpoint):
    finding = diagnosed(changed(calm(), *changes), dtype=dtype, checkpoint_every=every)
    assert finding.slug.startswith("nan-")
    assert (finding.actions[0].kind, finding.actions[0].checkpoint) == (kind, checkpoint)


@pytest.mark.parametrize(
    ("begins", "every", "checkpoint"), [(0, None, 0), (0, 500, 0), (5000, 1000, 4000)]
)
def test_a_run_that_was_never_finite_is_begun_again(calm, begins, every, checkpoint):
    log = calm()
    log["loss"][:] = np.nan
    log["step"] += begins
    finding = diagnosed(log, dtype="fp32", checkpoint_every=every)
    assert finding.actions[0].checkpoint == checkpoint
    assert ("before this log" in finding.first_action) == (begins == 0)


@pytest.mark.parametrize("acquitted", [True, False])
def test_a_nan_at_an_extreme_learning_rate(calm, acquitted):
    log = changed(calm(), lost(300))
    log["lr"][:] = 20.0
    if not acquitted:
        del log["grad_norm"]
    finding = diagnosed(log, dtype="fp32")
    assert finding.actions[0].kind is (K.INSPECT_LAYERS if acquitted else K.LOWER_LR)
    assert ("peak learning rate is 20" in finding.summary) is not acquitted


def test_earliest_error_before_a_nan_determines_the_checkpoint(calm):
    log = changed(calm(), shift(500)) | {"loss_scale": np.full(800, 1024.0)}
    log["loss_scale"][220:] = 2.0 ** -np.minimum(np.arange(580), 30)
    log["grad_norm"][690:] = np.inf
    log["loss"][700:] = np.nan
    report = stabdiag.diagnose(log, manifest={"dtype": "fp16", "checkpoint_every": 50})
    # In the order of the sections.
    before = [(item.slug, item.step) for item in report.findings[1:] if item.severity == "error"]
    assert before == [("spike-persistent", 500), ("loss-scale-collapsed", 220)]
    first, see, *_ = report.diagnosis.actions
    assert first.checkpoint == 200
    assert (see.kind, see.step) == (K.SEE_FINDING, 220)


def test_a_late_recovery_is_an_error_if_the_loss_was_high_for_long(calm):
    log = calm()
    log["loss"] -= 2.0 * np.exp(-np.arange(800) / 200)
    log["loss"][400:620] += 3.0
    finding = diagnosed(log, checkpoint_every=100)
    assert finding.title == "Loss spike that recovered late"
    assert finding.severity == "error"


@pytest.mark.parametrize(
    ("every", "kept"), [(100, False), (1000, True), (None, False)], ids=["near", "none", "unknown"]
)
def test_a_loss_that_was_back_late_is_weighed(calm, every, kept):
    log = calm()
    log["loss"] -= 2.0 * np.exp(-np.arange(800) / 200)  # as low before as at the end
    log["loss"][400:520] += 3.0
    finding = diagnosed(log, checkpoint_every=every)
    assert (finding.slug, finding.step) == ("spike-persistent", 400)
    assert finding.title == "Loss spike that recovered late"
    assert finding.severity == "warning"  # the loss was high for less than a fifth of the log
    assert 520 <= finding.back <= 540
    first = finding.actions[0]
    assert first.kinds == ((K.KEEP_GOING,) if kept else (K.CLIP_GRADIENTS, K.INSPECT_DATA))
    assert f"recovered by step {finding.back}" in first.text
    # A run that continues is not restarted and skips no batches; as the loss has recovered,
    # a full re-train is not suggested.
    assert (K.SKIP_BATCHES in kinds(finding)) is not kept
    assert K.RERUN not in kinds(finding)


@pytest.mark.parametrize(
    "up",
    [np.r_[400:520, 700:800], np.r_[400:520, 790:800], np.r_[400:560, 580:740], np.r_[400:800]],
    ids=["again at the end", "again in the last steps", "back for a moment alone", "stays"],
)
def test_a_temporary_recovery_does_not_count(calm, up):
    finding = diagnosed(changed(calm(), add(up, 3.0)), checkpoint_every=100)
    assert (finding.slug, finding.back) == ("spike-persistent", None)


def resumed(log, at, back, rise):
    """Return a run that broke off at one step and resumed at another with a loss that is higher."""
    second = {role: values.copy() for role, values in log.items()}
    second["loss"][back:] += rise
    return {role: np.concatenate([log[role][:at], second[role][back:]]) for role in log}


def test_a_jump_at_a_resume_has_the_resume_fixed(calm):
    stayed = diagnosed(resumed(calm(), 550, 500, 3.0), checkpoint_every=100)
    assert stayed.slug == "spike-persistent"
    assert kinds(stayed)[:2] == [K.RESTORE_STATE, K.CLIP_GRADIENTS]
    assert stayed.actions[1].checkpoint == 400
    back = diagnosed(resumed(calm(), 550, 500, 3.0 * np.exp(-np.arange(300) / 5)))
    assert back.slug == "spike-recovered"
    assert kinds(back)[:2] == [K.KEEP_GOING, K.RESTORE_STATE]
    rise = np.where(np.arange(400) < 120, 3.0, 0.0)
    late = diagnosed(resumed(calm(), 450, 400, rise), checkpoint_every=100)
    assert late.back is not None
    assert kinds(late)[:2] == [K.KEEP_GOING, K.RESTORE_STATE]
    assert not {K.RELOAD_CHECKPOINT, K.SKIP_BATCHES}.intersection(kinds(late))


def test_a_loss_far_beyond_all_that_it_fell_blames_the_step_and_not_the_data(calm):
    log = calm()
    log["loss"][500:] *= np.exp(np.arange(300) / 20)
    finding = diagnosed(log, grad_clip=1.0)
    assert finding.slug == "divergence-unexplained"
    assert finding.actions[0].kinds == (K.LOWER_LR, K.CLIP_GRADIENTS)
    assert finding.actions[0].to == 0.0001
    assert finding.actions[1].kind is K.INSPECT_DATA


def test_a_learning_rate_of_0_is_not_halved(calm):
    log = changed(calm(), RISE, put("lr", slice(400, None), 0.0))
    finding = diagnosed(log)
    assert (finding.slug, finding.actions[0].kind) == ("divergence-unexplained", K.INSPECT_DATA)
    assert K.LOWER_LR not in kinds(finding)
    strained = diagnosed(changed(log, climb(), STRAIN))
    assert strained.slug == "divergence-grad-norm-rising"
    assert kinds(strained) == [K.INSPECT_DATA]


@pytest.mark.parametrize(
    ("decay", "kinds_"),
    [(0.1, (K.LOWER_LR, K.RAISE_WEIGHT_DECAY)), (-0.1, (K.FIX_WEIGHT_DECAY,))],
)
def test_more_decay_alone_holds_no_weights_that_blow_up(calm, decay, kinds_):
    log = calm()
    since = np.maximum(log["step"] - 400, 0)
    log["loss"] *= np.exp(since / 20)
    log["lr"] = np.full(800, 1e-3)
    log["weight_norm/attn"] = 10.0 * np.exp(since / 40)
    finding = diagnosed(log, weight_decay=decay)
    assert finding.slug == "divergence-weight-norm-climbing"
    assert finding.actions[0].kinds == kinds_


def test_a_spike_under_a_learning_rate_that_rose_until_then_blames_it(calm):
    finding = diagnosed(changed(calm(), shift(500), series("lr", lambda at: 1e-3 * 1.005**at)))
    assert finding.slug == "spike-persistent"
    first = finding.actions[0]
    assert (first.kind, first.setting) == (K.LOWER_LR, "peak_lr")
    assert first.to == 0.0061
    assert K.SKIP_BATCHES not in kinds(finding)


@pytest.mark.parametrize(
    ("climb", "runs_on"), [(np.zeros(30), True), (np.arange(30) / 2, False)], ids=["flat", "climbs"]
)
def test_run_is_not_continued_while_the_loss_rises(calm, climb, runs_on):
    finding = diagnosed(changed(calm(), shift(770), add(slice(770, None), climb)))
    assert finding.slug == "spike-unresolved"
    assert (K.KEEP_GOING in finding.actions[0].kinds) == runs_on


@pytest.mark.parametrize(("begins", "repeated"), [(1, True), (500, False)])
def test_a_loss_that_climbs_from_the_beginning_is_started_again(begins, repeated):
    finding = stabdiag.diagnose(
        {"step": begins + np.arange(60), "loss": 2.3 * 1.05 ** np.arange(60)}
    ).diagnosis
    assert finding.first_action.startswith(
        "Restart from the beginning" if repeated else "Reload the last"
    )
    assert (finding.actions[1].kind is K.CHECK_LOSS_FUNCTION) is repeated


@pytest.mark.parametrize("every", [50, None])
def test_the_checkpoint_is_from_before_a_slow_climb_and_not_from_within(calm, every):
    finding = diagnosed(changed(calm(6000), climb(4000, 1.0)), checkpoint_every=every)
    assert finding.slug == "divergence-unexplained"
    assert finding.step > 4150  # by then it is beyond its noise
    text = re.search(r"left its best level near step (\d+)", finding.first_action)
    assert int(text[1]) == pytest.approx(4050, abs=100)
    if every:
        named = int(text[1]) - 1
        assert f"the checkpoint of step {named - named % 50}, the last" in finding.first_action


@pytest.mark.parametrize(
    ("at", "norm", "expected"),
    [
        (150, 80.0, "engthen the warm-up"),
        (1500, 80.0, "warm the learning rate up"),
        (1500, 1.0, ""),
    ],
)
def test_a_warm_up_is_advised_early_or_after_a_blow_up(calm, at, norm, expected):
    log = calm(2000)
    log["lr"] = 1e-3 * np.minimum(1, (np.arange(2000) + 1) / 40)
    log["grad_norm"][at - 3 : at] = norm
    log["loss"][at:] = np.nan
    finding = diagnosed(log, dtype="bf16")
    warmups = [action.text for action in finding.actions if K.ADD_WARMUP in action.kinds]
    assert bool(warmups) is bool(expected)
    assert not warmups or expected.lower() in warmups[0].lower()


@pytest.mark.parametrize(("kept", "is_gone"), [(2, True), (3, True), (4, False), (None, False)])
def test_a_deleted_checkpoint_is_reported(calm, kept, is_gone):
    ends = calm()
    ends["loss"][450:] = np.nan
    for log in (changed(calm(), shift(450)), ends):
        report = diagnosed(log, dtype="bf16", save_steps=100, save_total_limit=kept)
        assert report.actions[0].checkpoint == 400
        assert (K.RELOAD_CHECKPOINT in kinds(report)) == is_gone
        if kept == 2:
            assert "(the last 2 are kept, from step 600 on)" in report.next_actions[0]


def test_a_loss_that_spiked_several_times_is_clipped_first(calm):
    log = changed(calm(), *(add(slice(at, at + 6), 4.0) for at in (200, 333, 521)))
    assert diagnosed(log).actions[0].to == 0.5
    assert diagnosed(log, grad_clip=1.0).actions[0].kind == K.KEEP_GOING


def test_a_loss_that_rises_with_jumps_of_the_learning_rate_that_come_again(calm):
    restarts = series("lr", lambda at: 1e-3 * (1.01 - at % 200 / 200))
    finding = diagnosed(changed(calm(1600), restarts, add(slice(800, 900), 3.0)))
    assert finding.slug == "spike-persistent"
    assert K.DO_NOTHING in kinds(finding)


@pytest.mark.parametrize(
    ("end", "kind"), [(2.1, K.INSPECT_DATA), (5.0, K.CHECK_EVALUATION), (None, K.CHECK_EVALUATION)]
)
def test_a_logged_evaluation_loss_is_used(calm, end, kind):
    log = changed(calm(), RISE)
    if end is not None:
        at = np.arange(800)
        evaluated = np.where(at < 500, 2.0, 2.0 + (end - 2.0) * (at - 500) / 300)
        log["eval_loss"] = np.where(at % 50 == 0, evaluated, np.nan)
    finding = diagnosed(log)
    assert finding.slug == "divergence-unexplained"
    assert kind in kinds(finding)[1:]


@pytest.mark.parametrize(
    ("norm", "kind"),
    [(10.0 + 0.001 * np.arange(800), K.CHECK_MODEL), (None, K.LOG_MORE)],
    ids=["logged", "not logged"],
)
def test_the_weights_are_looked_at_while_the_gradient_norm_rises(calm, norm, kind):
    log = changed(calm(), climb(), STRAIN, drop("weight_norm/attn"))
    if norm is not None:
        log["weight_norm/attn"] = norm
    finding = diagnosed(log)
    assert (finding.slug, kinds(finding)[-1]) == ("divergence-grad-norm-rising", kind)


@pytest.mark.parametrize("shift_at", [500, 700, 780])
@pytest.mark.parametrize("every", [None, 50])
def test_the_first_action_for_an_error_never_continues_the_run(calm, shift_at, every):
    manifest = {"checkpoint_every": every} if every else {}
    for last in (3, 40, 120, 300):
        log = changed(calm(), add(slice(shift_at, shift_at + last), 3.0))
        report = stabdiag.diagnose(log, manifest=manifest)
        for finding in report.findings:
            if finding.severity == "error":
                assert finding.actions[0].kind is not K.KEEP_GOING


@pytest.mark.parametrize(("resumed", "is_named"), [(350, True), (100, False), (None, False)])
def test_a_climb_after_a_resume_first_checks_the_resume(calm, resumed, is_named):
    log = changed(calm(), climb(370))
    if resumed is not None:
        log["step"][resumed:] -= 20
    finding = diagnosed(log, checkpoint_every=100)
    assert finding.slug.startswith("divergence")
    assert (finding.actions[0].kind is K.RESTORE_STATE) is is_named
    assert ("after the run resumed, at step 330" in finding.summary) is is_named


@pytest.mark.parametrize(
    ("dtype", "optimizer", "is_named"),
    [
        ("fp16", "adamw", True),
        ("bf16", "adamw", False),
        ("fp16", "sgd", False),
        (None, None, False),
    ],
)
def test_a_climb_of_adam_in_fp16_is_run_in_bf16(calm, dtype, optimizer, is_named):
    finding = diagnosed(changed(calm(), climb()), dtype=dtype, optimizer=optimizer)
    assert finding.slug.startswith("divergence")
    assert any("second moments" in action.text for action in finding.actions) is is_named


@pytest.mark.parametrize(
    "setting", [{"save_strategy": "no"}, {"enable_checkpointing": False, "checkpoint_every": 100}]
)
def test_a_run_that_saves_no_checkpoints_is_trained_again_with_them(calm, setting):
    finding = diagnosed(changed(calm(), shift(500)), **setting)
    assert finding.slug == "spike-persistent"
    assert finding.actions[0].checkpoint == 0
    assert "Train again from the start with checkpoints" in finding.first_action


def test_a_layer_that_overflows_alone_is_named(calm):
    layers = [series(f"grad_norm/{name}", lambda at: 1.0 + 0 * at) for name in ("a", "b")]
    overflow = [put(name, slice(500, 520), np.inf) for name in ("grad_norm", "grad_norm/b")]
    finding = diagnosed(changed(calm(), *layers, *overflow), dtype="bf16")
    assert finding.slug == "gradient-overflow"
    assert "overflows in 'b' at step 500" in finding.first_action
    every = put("grad_norm/a", slice(500, 520), np.inf)
    finding = diagnosed(changed(calm(), *layers, *overflow, every), dtype="bf16")
    assert "overflows at step 500" in finding.first_action


def test_a_gradient_that_went_first_is_searched_by_anomaly_detection(calm):
    log = changed(calm(), NAN, put("grad_norm", slice(598, None), np.nan))
    finding = diagnosed(log, dtype="fp32")
    assert finding.actions[0].kind is K.INSPECT_LAYERS
    assert "set_detect_anomaly(True)" in finding.first_action
    assert "set_detect_anomaly" not in diagnosed(changed(calm(), NAN), dtype="fp32").first_action


@pytest.mark.parametrize("rate", [1e-5 * np.arange(1, 61), np.full(60, 1e-3)])
def test_a_loss_that_multiplies_to_the_end_asks_for_a_tenth_of_the_rate(rate):
    at = np.arange(60)
    log = {"step": at, "loss": 2.3 + 1.3 * np.exp(at / 4), "lr": rate}
    finding = diagnosed(log, total_steps=60)
    assert finding.section == "§2"
    assert finding.actions[0].kind is K.LOWER_LR
    assert "a tenth of" in finding.first_action
    assert finding.actions[0].to == pytest.approx(rate[54] / 10, rel=0.02)


def test_a_sudden_jump_is_not_blamed_on_the_rate(calm):
    finding = diagnosed(changed(calm(), add(slice(500, None), 3e6)), checkpoint_every=100)
    assert finding.slug == "spike-persistent"
    assert finding.actions[0].kind is K.CLIP_GRADIENTS


@pytest.mark.parametrize(
    ("peaks", "name"), [({"b": 90.0}, "'b'"), ({"a": 90.0, "b": 90.0, "c": 90.0}, ""), ({}, "")]
)
def test_the_layer_that_leads_at_a_spike_is_named(calm, peaks, name):
    layers = [series(f"grad_norm/{layer}", lambda at: 1.0 + 0 * at) for layer in "abc"]
    jumps = [put(f"grad_norm/{layer}", 500, peak) for layer, peak in peaks.items()]
    finding = diagnosed(changed(calm(), SPIKE, *layers, *jumps))
    assert finding.slug == "spike-recovered"
    assert (f"norm of {name} rose most, to 90 x its median." in finding.summary) is bool(name)
    assert ("rose most" in finding.summary) is bool(name)


@pytest.mark.parametrize(
    ("falls", "pretrained", "is_asked"), [(False, True, True), (True, True, False)]
)
def test_a_pretrained_model_that_does_not_improve_is_asked_about(falls, pretrained, is_asked):
    at, noise = np.arange(800), np.random.default_rng(3).normal(0, 0.05, 800)
    log = {"step": at, "loss": 1.9 - (0.8 * at / 800 if falls else 0) + noise}
    finding = diagnosed(log, pretrained=pretrained)
    assert finding.slug == "healthy"
    assert ("requires_grad" in finding.first_action) is is_asked


def early_climb(first, **columns):
    """Return a run whose loss climbs from a step on, after it fell from the first step."""
    steps, noise = np.arange(1500), np.random.default_rng(2).standard_normal(1500)
    rise = 0.8 * (1 - np.exp(-np.maximum(steps - first, 0) / 60))
    loss = 1.4 + 0.9 * np.exp(-steps / (first / 4)) + rise + 0.03 * noise
    return {"step": steps, "loss": loss, "lr": np.full(1500, 0.05), **columns}


FLAT_NORM = {"grad_norm": np.exp(0.1 * np.random.default_rng(3).standard_normal(1500))}


@pytest.mark.parametrize(
    ("momentum", "words"), [(0.999, "Lower the momentum from 0.999 to 0.9"), (0.9, "Restart from")]
)
def test_an_unusual_setting_is_named_instead_of_the_data(momentum, words):
    finding = diagnosed(early_climb(60, **FLAT_NORM), optimizer="sgd", momentum=momentum)
    assert finding.slug == "divergence-unexplained"
    assert finding.first_action.startswith(words)
    assert ("nothing logged" in finding.title) == (momentum == 0.9)


@pytest.mark.parametrize(
    ("first", "begin"), [(60, "Restart from the beginning"), (600, "Reload the last checkpoint")]
)
def test_no_checkpoint_of_the_first_hundred_steps_is_reloaded(first, begin):
    assert diagnosed(early_climb(first)).first_action.startswith(begin)


@pytest.mark.parametrize(("first", "is_asked"), [(60, True), (600, False)])
def test_gradients_that_grow_from_the_start_may_add_up(first, is_asked):
    norm = {"grad_norm": 1 + np.maximum(np.arange(1500) - first / 2, 0) / 30}
    finding = diagnosed(early_climb(first, **norm))
    assert finding.slug == "divergence-grad-norm-rising"
    assert any("zero_grad" in action.text for action in finding.actions) == is_asked


@pytest.mark.parametrize(("factor", "words"), [(1.03, "to a tenth"), (1.001, "halve")])
def test_a_loss_that_explodes_in_its_first_steps_starts_again_at_a_tenth(factor, words):
    noise = np.random.default_rng(2).standard_normal(400)
    loss = 3.2 * factor ** np.minimum(np.arange(400), 300) * (1 + 0.02 * noise)
    finding = diagnosed({"step": np.arange(400), "loss": loss, "lr": np.full(400, 2.0)})
    assert finding.slug == "divergence-unexplained"
    assert words in finding.first_action
    assert finding.first_action.startswith("Restart from the beginning")
