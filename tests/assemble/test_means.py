"""Losses that are means since their epoch began."""

import numpy as np
import pytest

import stabdiag
from stabdiag.assemble.means import interval_means

BATCHES = 600


def running_mean(values):
    return np.cumsum(values) / np.arange(1, len(values) + 1)


def bars(*epochs, stride=5, sign="=", final=True):
    """Return the Keras output for epochs with these losses of batches."""
    lines = []
    for number, losses in enumerate(epochs, start=1):
        lines.append(f"Epoch {number}/10\n")
        total = len(losses)
        means = running_mean(losses)
        for count in range(stride, total + stride * final, stride):
            bar = f"[{sign * 20}>....]" if sign == "=" else sign * 20
            lines.append(f"{count}/{total} {bar} - ETA: 9s - loss: {means[count - 1]:.4f}\n")
    return "".join(lines)


def losses(level, noise=0.15, seed=0):
    return level + np.random.default_rng(seed).normal(0, noise, BATCHES)


@pytest.fixture
def diagnosed(tmp_path):
    def diagnose(text):
        (tmp_path / "run.txt").write_text(text)
        return stabdiag.diagnose(tmp_path / "run.txt")

    return diagnose


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("sign", ["=", "━"])
def test_a_mean_that_settles_is_no_divergence(diagnosed, seed, sign):
    report = diagnosed(bars(losses(0.45, seed=seed), sign=sign, final=False))
    assert report.diagnosis.severity.value in ("ok", "note")
    assert 40 <= len(report.history.series["loss"]) <= 50


def test_the_means_of_intervals_are_the_losses_of_their_batches(diagnosed):
    own = [losses(2.0, seed=1), losses(1.5, seed=2)]
    series = diagnosed(bars(*own)).history.series["loss"]
    expected = np.concatenate([batch.reshape(50, 12).mean(axis=1) for batch in own])
    assert len(series) == len(expected)
    np.testing.assert_allclose(series.values, expected, atol=0.3)
    assert series.values[:50].mean() == pytest.approx(own[0].mean(), abs=0.005)


def test_a_loss_that_climbs_within_an_epoch_diverges(diagnosed):
    climb = losses(0.5) + np.linspace(0, 6, BATCHES).clip(2) - 2
    assert diagnosed(bars(climb)).diagnosis.severity.value == "error"


def test_a_mean_that_is_not_finite_stays_so(diagnosed):
    broken = losses(0.5)
    broken[300:] = np.nan
    report = diagnosed(bars(broken))
    assert report.diagnosis.slug.startswith("nan")
    assert (
        report.history.series["loss"].steps[np.isnan(report.history.series["loss"].values)][0]
        == 305
    )


def tqdm(values, stride=1):
    """Return the states of a bar of tqdm that shows these losses."""
    return "".join(
        f"{n // 6:3d}%|███   | {n}/{len(values)} [00:10<01:00,  8it/s, loss={values[n - 1]:.4f}]\n"
        for n in range(stride, len(values) + 1, stride)
    )


@pytest.mark.parametrize(
    ("counts", "means", "kept", "values"),
    [
        ([1, 2, 4], [3.0, 2.0, 1.0], [False, True, True], [3.0, 2.0, 0.0]),
        ([1, 2, 2], [3.0, 2.0, 2.0], [True, False, True], [3.0, 2.0, 1.0]),
        ([2, 2], [3.0, 1.0], [False, True], [3.0, 1.0]),
        ([1, 2, 1, 2], [3.0, 2.0, 2.0, 1.5], [True] * 4, [3.0, 1.0, 2.0, 1.0]),
        ([1, 2, 3], [3.0, np.nan, np.nan], [True] * 3, [3.0, np.nan, np.nan]),
    ],
)
def test_intervals(counts, means, kept, values):
    mask, changed = interval_means(np.array(counts), np.array(means))
    assert mask.tolist() == kept
    np.testing.assert_allclose(changed, values)


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_mean_that_settles_on_another_bar_is_recognized(diagnosed, seed):
    report = diagnosed(tqdm(running_mean(losses(0.45, seed=seed))))
    assert len(report.history.series["loss"]) <= 50
    assert report.diagnosis.severity.value in ("ok", "note")


def test_other_logs_do_not_show_means(build):
    shown = running_mean(losses(0.45, seed=1)).round(4).tolist()
    history = build([{"step": n, "loss": loss} for n, loss in enumerate(shown, start=1)])
    assert len(history.series["loss"]) == BATCHES


STEPS = np.arange(1, BATCHES + 1)
NOISE = np.random.default_rng(3).normal(size=BATCHES)
NO_MEANS = {
    "noise": 0.45 + 0.05 * NOISE,
    "little noise": 0.45 + 0.001 * NOISE,
    "a fall": running_mean(0.4 + 2 * np.exp(-STEPS / 90)),
    "a power law with noise in proportion": 9 * STEPS**-0.7 * np.exp(0.1 * NOISE),
    "a fall to noise": 0.4 + 2 / STEPS + 0.02 * NOISE,
    "an unstable start": np.where(STEPS < 30, 10 + 3 * NOISE, 3 + 0.2 * NOISE).clip(0.1),
    "noise that fades with the rate": 0.45 + 0.05 * NOISE * np.cos(STEPS / 400) ** 2,
    "a mean of losses of any sign": running_mean(NOISE),
}


@pytest.mark.parametrize("shape", NO_MEANS)
def test_other_losses_on_a_bar_are_kept(diagnosed, shape):
    assert len(diagnosed(tqdm(NO_MEANS[shape])).history.series["loss"]) == BATCHES


def test_an_average_that_starts_at_zero_does_not_climb():
    values = 0.9 + 1.4 * np.exp(-np.arange(1000) / 200)
    values += np.random.default_rng(3).normal(0, 0.05, 1000)
    average, loss = 0.0, []
    for value in values:
        average = 0.98 * average + 0.02 * value
        loss.append(average)
    report = stabdiag.diagnose({"step": np.arange(1000), "loss": loss})
    assert report.diagnosis.slug == "healthy"
    assert any(
        "a moving average that started at 0" in event.message for event in report.history.events
    )
    # A loss that grows to its level at another pace rose.
    rises = 2.3 - 2.2 * np.exp(-np.arange(1000) / 200)
    report = stabdiag.diagnose(
        {"step": np.arange(1000), "loss": rises + (values - values.mean()) / 9}
    )
    assert report.diagnosis.severity.value in ("warning", "error")


def test_the_losses_of_an_excerpt_stay_as_printed(diagnosed):
    series = diagnosed(bars(losses(2.5), stride=50)).history.series["loss"]
    means = running_mean(losses(2.5))
    assert series.steps.tolist() == list(range(50, 601, 50))
    assert series.values == pytest.approx(means[49::50], abs=1e-4)
