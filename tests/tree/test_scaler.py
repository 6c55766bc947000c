"""Normal and abnormal behavior of a loss scaler."""

import tracemalloc

import numpy as np
import pytest

import stabdiag
from tests.tree.made import answer_to


class Scaler:
    """A dynamic loss scaler, as the frameworks have it."""

    def __init__(self, start, window, floor=0.0, hysteresis=1):
        self.scale, self.window, self.floor = start, window, floor
        self.hysteresis, self.patience, self.good = hysteresis, hysteresis, 0

    def step(self, overflow):
        """Return the scale after a step."""
        if overflow:
            self.good = 0
            self.patience -= 1
            if self.patience <= 0:
                self.scale = max(self.scale / 2, self.floor)
        else:
            self.good += 1
            if self.good >= self.window:
                self.scale, self.good, self.patience = 2 * self.scale, 0, self.hysteresis
        return self.scale


def train(log, scaler, fits, norm_is_logged=True):
    """Let a scaler live through a run whose gradients overflow above the scale ``fits(step)``."""
    n = len(log["step"])
    scales, norms = np.empty(n), log["grad_norm"].copy()
    for at in range(n):
        overflow = scaler.scale > fits(at)
        norms[at] = np.inf if overflow else norms[at]
        scales[at] = scaler.step(overflow)
    return log | {"loss_scale": scales} | ({"grad_norm": norms} if norm_is_logged else {})


def diagnose(log, **manifest):
    return stabdiag.diagnose(log, manifest={"dtype": "fp16", **manifest})


TORCH = {"start": 65536.0, "window": 2000}
MEGATRON = {"start": 2.0**32, "window": 1000, "floor": 1.0, "hysteresis": 2}
DEEPSPEED = {"start": 2.0**16, "window": 1000, "floor": 1.0, "hysteresis": 2}
FAIRSEQ = {"start": 128.0, "window": 250, "floor": 1e-4}


@pytest.mark.parametrize("scaler", [TORCH, MEGATRON, DEEPSPEED, FAIRSEQ])
@pytest.mark.parametrize("norm", [True, False], ids=["norm logged", "norm not logged"])
@pytest.mark.parametrize("fits", [2.0**20, 2.0**10, 64.0])
def test_a_scaler_that_calibrates_and_probes_is_working(calm, scaler, norm, fits):
    report = diagnose(train(calm(5000), Scaler(**scaler), lambda at: fits, norm))
    assert report.diagnosis.slug == "healthy"


@pytest.mark.parametrize(
    ("scaler", "floor"), [(MEGATRON, "1"), (FAIRSEQ, "0.0001")], ids=["Megatron", "fairseq"]
)
def test_a_scale_pinned_at_its_floor_has_collapsed(calm, scaler, floor):
    log = train(calm(), Scaler(**scaler), lambda at: 2.0**40 if at < 200 else 0.0)
    report = diagnose(log)
    assert report.diagnosis.slug == "loss-scale-collapsed"
    assert (
        f"to {floor}" in report.diagnosis.summary or f"floor, {floor}" in report.diagnosis.summary
    )


FLOOR = {"loss_scale_min": 128, "loss_scale_window": 500}


@pytest.mark.parametrize("logged", [("step", "loss", "loss_scale", "grad_norm"), ("loss_scale",)])
@pytest.mark.parametrize("start", [0, 300])
def test_a_scaler_that_rests_at_its_floor_is_at_work(calm, logged, start):
    resting = Scaler(start=65536.0, window=500, floor=128.0)
    log = train(calm(), resting, lambda at: 2.0**20 if at < start else 2.0**7)
    assert log["loss_scale"][-1] == 128.0
    for others, is_at_work in ((400, True), (20, False)):
        text = {name: log[name][: start + 9 + others] for name in ("step", "loss", *logged)}
        slug = diagnose(text, **FLOOR).diagnosis.slug
        assert (slug != "loss-scale-collapsed") == is_at_work


@pytest.mark.parametrize(
    ("overflows", "manifest", "slug"),
    [
        ([100, 300, 500], {}, "loss-scale-static"),
        ([100], {}, "loss-scale-static"),
        # Megatron's and DeepSpeed's scalers let two pass.
        ([100, 300], {"hysteresis": 2}, "healthy"),
        ([100, 300, 500], {"hysteresis": 2}, "loss-scale-static"),
        # No scale was logged after the last overflow.
        ([799], {}, "healthy"),
        ([], {}, "healthy"),
    ],
)
def test_a_scale_that_overflows_leave_unchanged_is_static(calm, overflows, manifest, slug):
    log = calm() | {"loss_scale": np.full(800, 1024.0)}
    log["grad_norm"][overflows] = np.inf
    finding = diagnose(log, **manifest).diagnosis
    assert finding.slug == slug
    assert finding.step == (100 if slug == "loss-scale-static" else None)


@pytest.mark.parametrize(("window", "works"), [(100, True), (10**9, False)])
def test_a_scale_that_never_grows_again_does_not_work(calm, window, works):
    log = train(calm(), Scaler(65536.0, window), lambda at: 2.0**14 if at < 200 else 2.0**20)
    answer = answer_to(diagnose(log, loss_scale_window=100), "Q3.2")
    assert answer.verdict == "no"
    assert ("the scaler works" in answer.because) is works
    assert ("never grows again" in answer.because) is not works


def unusable(calm, n=100, usable=()):
    """Return a run that does not learn, and has usable gradients at a few records alone."""
    log = calm() | {"loss": 2.3 + 0.01 * calm()["grad_norm"]}
    log["grad_norm"] = np.where(np.isin(np.arange(800), usable), 1.0, np.nan)
    return {name: values[:n] for name, values in log.items()}


def test_a_scale_at_its_floor_throughout_has_collapsed(tmp_path):
    line = (
        "[deepscale] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {0}, reducing to {0}\n"
    )
    slugs = []
    for scale, count in ((1, 8), (4096, 8), (0.0, 1)):
        path = tmp_path / f"{scale}.log"
        path.write_text(line.format(scale) * count)
        slugs.append(stabdiag.diagnose(path).diagnosis.slug)
    # A scale that could fall and does not is static. One overflow at a scale of 0 is enough.
    assert slugs == ["loss-scale-collapsed", "loss-scale-static", "loss-scale-collapsed"]


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32", None])
def test_a_run_whose_updates_were_all_skipped_is_an_error(calm, dtype):
    manifest = {"dtype": dtype} if dtype else {}
    report = stabdiag.diagnose(unusable(calm), manifest=manifest)
    assert report.diagnosis.title.startswith("No update was made")
    assert report.diagnosis.severity == "error"
    assert report.diagnosis.step == 0
    some = stabdiag.diagnose(unusable(calm, usable=[30]), manifest=manifest)
    assert not some.diagnosis.title.startswith("No update was made")
    learning = unusable(calm) | {"loss": np.linspace(2.3, 1.0, 100)}
    falls = stabdiag.diagnose(learning, manifest=manifest)
    assert not falls.diagnosis.title.startswith("No update was made")


@pytest.mark.parametrize("dtype", ["fp8", "float8_e4m3fn"])
def test_a_nan_in_fp8_is_compared_with_bf16(calm, dtype):
    log = calm()
    log["loss"][600:] = np.nan
    finding = stabdiag.diagnose(log, manifest={"dtype": dtype}).diagnosis
    assert (finding.slug, finding.title) == ("nan-bf16", "The loss went NaN in fp8")
    assert any("once in bf16" in action.text for action in finding.actions[:4])


def test_a_single_overflow_in_a_spike_belongs_to_the_spike(calm):
    log = calm() | {"loss_scale": np.full(800, 1024.0)}
    log["grad_norm"][400] = np.inf
    log["loss"][400:403] += 10
    assert diagnose(log).diagnosis.slug == "spike-recovered"
    log["grad_norm"][600] = np.inf
    assert diagnose(log).diagnosis.slug == "loss-scale-static"


def test_an_averaged_scale_cannot_tell(calm):
    log = train(calm(4000), Scaler(start=65536.0, window=33), lambda at: 65536.0 / (1 + at % 7))
    mean = log["loss_scale"].reshape(-1, 40).mean(axis=1)
    short = {name: values[::40] for name, values in log.items()} | {"loss_scale": mean}
    short["grad_norm"] = np.ones(100)
    answer = answer_to(diagnose(short), "Q3.1")
    assert answer.verdict == "unknown"
    assert "logged as a mean" in answer.because


def test_an_averaged_scale_below_the_floor_has_collapsed():
    steps = np.arange(60)
    report = diagnose(noisy(steps, np.round(50000.0 * 0.75**steps, 3)))
    assert report.diagnosis.slug == "loss-scale-collapsed"


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [({"loss_scale_window": 40}, "from the manifest"), ({}, "from the log")],
    ids=["manifest", "log"],
)
def test_a_short_growth_interval_explains_many_probes(calm, manifest, expected):
    report = diagnose(train(calm(3000), Scaler(65536.0, 40), lambda at: 65536.0), **manifest)
    answer = answer_to(report, "Q3.2")
    assert answer.verdict == "no"
    assert expected in answer.because
    assert report.diagnosis.slug == "healthy"


def test_the_calibration_of_a_short_run_is_short(calm):
    log = calm(150)
    log["grad_norm"][[0, 3, 28, 53, 81, 110, 146]] = np.inf
    report = diagnose(log)
    assert report.diagnosis.slug == "gradient-overflow"
    answer = answer_to(report, "Q3.2")
    assert answer.measured["while_calibrating"] == 2


def noisy(steps, scale, **extra):
    """Return a log of a loss that stays where it is, and of a loss scale."""
    noise = 0.05 * np.random.default_rng(0).standard_normal(len(steps))
    scales = np.broadcast_to(scale, len(steps)).astype(float)
    return {"step": steps, "loss": 2.0 + noise, "loss_scale": scales, **extra}


@pytest.mark.parametrize(
    ("begin", "scale", "calibrating"),
    [(600, 64.0, 0), (0, 64.0, 4), (600, 65536.0, 4), (600, 128.0, 4)],
)
def test_a_low_scale_in_a_later_part_of_a_run_is_not_calibrating(begin, scale, calibrating):
    at = begin + np.arange(60)
    log = noisy(at, scale / 2.0 ** np.minimum(np.arange(60), 4))
    answer = answer_to(diagnose(log, dtype="fp16"), "Q3.1")
    assert answer.measured["while_calibrating"] == calibrating


def test_skipped_steps_are_overflows_in_fp16():
    at = np.arange(400)
    log = noisy(at, 16384.0, skipped=(at % 20 == 13).astype(float))
    report = diagnose(log)
    assert (report.diagnosis.slug, report.diagnosis.step) == ("loss-scale-static", 13)
    assert (
        "calibrating" not in answer_to(report, "Q3.1").because
    )  # a constant scale is not calibrating
    # Some optimizers skip steps for other reasons in bf16.
    assert diagnose(log, dtype="bf16").tree.outcome.slug == "healthy"
    log["skipped"][:] = 0.0
    because = answer_to(diagnose(log), "Q3.1").because
    assert because == "the loss scale never fell and no step was skipped"


@pytest.mark.parametrize("reported_at", [99, 100, 105, 109])
def test_a_skipped_step_and_the_fall_of_the_scale_are_one_overflow(reported_at):
    scale = np.full(400, 1024.0)
    scale[100:] = 512.0
    skipped = np.full(400, np.nan)
    skipped[9::10] = 0.0  # counted up, every tenth record
    skipped[reported_at:] = np.where(np.isnan(skipped[reported_at:]), np.nan, 1.0)
    skipped[reported_at] = 1.0
    answer = answer_to(diagnose(noisy(np.arange(400), scale, skipped=skipped)), "Q3.1")
    assert answer.because.startswith("1 overflow, at step 100")


def test_a_count_that_resets_with_each_record_is_not_a_running_total():
    log = noisy(np.arange(0, 4000, 10), 16384.0)
    every = log | {"number of skipped iterations": np.full(400, 3.0)}
    finding = diagnose(every).diagnosis
    assert finding.slug == "loss-scale-static"
    assert finding.evidence["overflows"] == 1 + 3 * 399
    total = log | {"skipped": np.full(400, 3.0)}
    assert diagnose(total).tree.outcome.slug == "healthy"


def test_steps_that_were_skipped_before_the_first_record_do_not_convict_the_scale():
    log = noisy(np.arange(10, 4010, 10), 1024.0, skipped=np.full(400, 6.0))
    assert diagnose(log).tree.outcome.slug == "healthy"
    log["skipped"][200:] += np.arange(200)
    finding = diagnose(log).diagnosis
    assert (finding.slug, finding.evidence["overflows"]) == ("loss-scale-static", 6 + 199)


@pytest.mark.parametrize(
    ("early", "expected"),
    [
        # A scale that fell eight times in its second interval, and once in the third.
        (0.0, "9 overflows, the first at step 20"),
        (10.0, "19 overflows, the first at step 10"),
    ],
)
def test_every_skipped_step_counts_once(early, expected):
    scale = np.full(400, 2.0**14)
    scale[:2] = 2.0**23, 2.0**15
    skipped = np.zeros(400)
    skipped[:3] = early, 8.0, 1.0
    log = noisy(np.arange(10, 4010, 10), scale) | {"number of skipped iterations": skipped}
    assert answer_to(diagnose(log), "Q3.1").because.startswith(expected)


# Of 2, hysteresis makes a search; with pauses of 10 or 40 no scale comes down.
@pytest.mark.parametrize(("every", "searching"), [(2, 64), (10, 1), (40, 1)])
def test_a_search_for_the_scale_has_an_end(calm, every, searching):
    log = calm(6000)
    log["grad_norm"][::every] = np.inf
    report = diagnose(log)
    assert report.diagnosis.slug == "gradient-overflow"
    answer = answer_to(report, "Q3.2")
    assert answer.measured["while_calibrating"] == searching


def scales(*stretches):
    """Return a log whose scale keeps each value for the given number of steps."""
    values = np.concatenate([np.full(count, value) for count, value in stretches])
    return noisy(np.arange(len(values)), values)


def halving(start, end):
    steps = int(np.log2(start / end))
    return [(30, start / 2**i) for i in range(1, steps + 1)]


@pytest.mark.parametrize(
    "stretches",
    [
        [(500, 0.5), (500, 1.0), (500, 2.0), (500, 1024.0), (1, 512.0), (500, 1024.0)],
        [(1000, 4.0), *halving(4.0, 1.0), *[(80, 1.0), (40, 2.0)] * 20, (10, 1.0)],
        [(1000, 65536.0), *halving(65536.0, 1.0), (3000, 64.0), (10, 1.0)],
    ],
    ids=["began low and grew", "near its floor throughout", "at its floor again at the end"],
)
def test_a_scale_that_has_not_collapsed(stretches):
    report = diagnose(scales(*stretches), loss_scale_window=80).tree.outcome
    assert report.slug != "loss-scale-collapsed"


def test_the_fall_counts_and_not_a_low_beginning():
    fall = halving(65536.0, 1.0)
    log = scales((1, 1.0), (2000, 65536.0), *fall, *[(50, 1.0), (50, 2.0)] * 5, (50, 1.0))
    report = diagnose(log, checkpoint_every=1000)
    assert report.diagnosis.slug == "loss-scale-collapsed"
    assert report.diagnosis.evidence["below_since"] == 2001 + 30 * 15
    assert "Reload the checkpoint of step 2000" in report.diagnosis.first_action


@pytest.mark.parametrize("last", [1.0, 2.0])
def test_a_scale_that_probes_above_its_floor_is_still_pinned(last):
    fall = halving(65536.0, 1.0)
    log = scales((1000, 65536.0), *fall, *[(80, 1.0), (40, 2.0)] * 20, (10, 1.0), (10, last))
    report = diagnose(log, loss_scale_window=80)
    assert report.diagnosis.slug == "loss-scale-collapsed"
    assert "to the scaler's floor, 1" in report.diagnosis.summary


def test_a_scale_that_collapsed_may_come_back():
    fall = halving(65536.0, 0.125)
    climb = [(100, 0.125 * 2**i) for i in range(1, 20)]
    report = diagnose(scales((500, 65536.0), *fall, *climb, (3000, 65536.0)))
    assert report.diagnosis.slug == "loss-scale-collapsed"
    assert "below 1 at step" in report.diagnosis.summary


def test_a_scale_that_is_below_one_all_along_and_falls_has_collapsed():
    report = diagnose(scales((500, 0.5), *halving(0.5, 0.03125)))
    assert report.diagnosis.slug == "loss-scale-collapsed"
    assert "from 0.5 to 0.03125, below 1 at step 500" in report.diagnosis.summary


def test_a_decline_of_the_scale_begins_where_it_left_its_usual_level(calm):
    log = train(
        calm(4000), Scaler(**TORCH), lambda at: 0.0 if at > 900 and at % 100 == 0 else 2.0**20
    )
    finding = diagnose(log, checkpoint_every=50).diagnosis
    assert (finding.slug, finding.step) == ("loss-scale-collapsed", 1100)
    assert finding.first_action.startswith("Reload the checkpoint of step 1050,")


def test_many_skipped_steps_in_one_record_take_little_memory(calm):
    log = calm(200) | {"skipped": np.append(np.zeros(199), 3e8)}
    log["step"][-1] = 300_000_000
    tracemalloc.start()
    report = diagnose(log)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    answer = answer_to(report, "Q3.1")
    assert answer.measured["overflows"] == 299_999_802
    assert peak < 1 << 26


@pytest.mark.parametrize(
    ("last", "expected"), [(1e-3, "(now 0.001)"), (0.95e-3, "(0.001 at step 147)")]
)
def test_a_rate_is_that_of_now_if_it_is_the_last_one(calm, last, expected):
    log = calm(800)
    norms = np.ones(800)
    norms[[147, 148, 150, 152, 154, 156, 158]] = np.inf
    rates = np.full(800, 1e-3)
    rates[400:] = last
    report = diagnose(log | {"grad_norm": norms, "lr": rates})
    assert report.diagnosis.slug == "gradient-overflow"
    assert f"halve the learning rate to 0.0005 {expected}" in report.diagnosis.first_action


@pytest.mark.parametrize(
    ("places", "slug"),
    [([2500, 2800, 3000, 3150, 3250], "gradient-overflow"), ([300, 1300, 2300, 3300], "healthy")],
    ids=["crowded", "one a probe"],
)
def test_overflows_that_crowd_between_two_probes_are_too_many(calm, places, slug):
    log = calm(3400)
    log["grad_norm"][places] = np.inf
    # By their number alone, the interval would explain them.
    interval = {"loss_scale_window": 1000 if slug == "healthy" else 2000}
    report = diagnose(log, **interval)
    assert report.diagnosis.slug == slug


def test_a_log_cut_down_to_the_search_of_its_scaler_has_no_overflow_too_many():
    log = {"step": [10, 20], "loss": [None, 10.1], "loss_scale": [2.0**23, 2.0**15]}
    report = stabdiag.diagnose({**log, "number of skipped iterations": [10, 8]})
    assert report.diagnosis.slug == "insufficient-data"


@pytest.mark.parametrize(("stride", "slug"), [(1, "healthy"), (25, "gradient-overflow")])
def test_norms_of_a_sparse_log_show_few_of_its_overflows(calm, stride, slug):
    log = calm(n=12000 // stride, stride=stride)
    log["grad_norm"][(np.linspace(0.2, 0.9, 6) * len(log["step"])).astype(int)] = np.inf
    assert diagnose(log, dtype="fp16").diagnosis.slug == slug


def test_nonfinite_gradient_norms_are_reported_without_a_dtype(calm):
    log = calm(40)
    log["grad_norm"][[3, 9]] = np.nan
    assert answer_to(stabdiag.diagnose(log), "Q3.1").because.startswith(
        "2 gradient norms not finite"
    )


@pytest.mark.parametrize(
    ("scale", "slug"), [("1", "loss-scale-collapsed"), ("16384", "loss-scale-static")]
)
def test_a_log_of_two_overflows_at_the_floor(tmp_path, scale, slug):
    path = tmp_path / "train.log"
    line = f"[Rank 0] Overflow detected. Skipping step. Attempted loss scale: {scale}, reducing to "
    path.write_text(2 * f"{line}{scale}\n")
    assert stabdiag.diagnose(path).diagnosis.slug == slug
