"""The points of a run that are drawn."""

import base64
import json
import re

import numpy as np
import pytest

import stabdiag
from stabdiag.formats import render
from stabdiag.formats.html.charts import is_flattened, panels
from stabdiag.formats.html.marks import marks
from stabdiag.formats.html.payload import other_axes
from stabdiag.formats.html.points import MAX_CHART_POINTS, select_points, stretches
from tests.conftest import diagnosed


@pytest.mark.parametrize("n", [MAX_CHART_POINTS + 1, 31_225, 42_772, 100_000])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_single_spike_is_kept_at_any_position(n, sign):
    noise = np.random.default_rng(n).normal(size=n)
    for at in (0, 1, n // 3, n // 2, n - 2, n - 1):
        values = noise.copy()
        values[at] = sign * 50
        positions = select_points(values, ())
        assert at in positions
        assert len(positions) <= MAX_CHART_POINTS + 2
        assert np.all(np.diff(positions) > 0)


def test_points_around_findings_and_gaps_are_kept():
    noise = np.random.default_rng(0).normal(size=200_000)
    assert set(range(149_750, 150_251)) <= set(select_points(noise, [150_000]).tolist())
    assert all(
        max_points - 2 <= len(select_points(noise, (), max_points)) <= max_points + 2
        for max_points in (1333, 1600)
    )
    assert len(select_points(noise[:MAX_CHART_POINTS], ())) == MAX_CHART_POINTS
    noise[[7, 20_000]] = np.nan
    noise[30_000:30_100] = np.inf
    assert {7, 20_000, 30_000, 30_099} <= set(select_points(noise, ()).tolist())
    begins, ends = stretches(~np.isfinite(noise))
    assert (begins.tolist(), ends.tolist()) == ([7, 20_000, 30_000], [7, 20_000, 30_099])
    assert select_points(np.full(20_000, np.nan), ()).tolist() == [0, 19_999]


@pytest.fixture(scope="module")
def million():
    """A run of a million steps, with a heavy tail and one step that is far too high."""
    n = 1_000_000
    rng = np.random.default_rng(3)
    steps = np.arange(n)
    loss = 2 + 5 * np.exp(-steps / 40_000) + 0.1 * rng.standard_t(5, n)
    loss[777_777] += 30
    norm = 1 + rng.gamma(3, 0.1, n)
    groups = {f"weight_norm/{i}": 10 + i + steps / n for i in range(4)}
    return stabdiag.diagnose(
        {"step": steps, "loss": loss, "grad_norm": norm, "lr": 1e-3 * (1 - steps / n), **groups}
    )


def test_outliers_among_a_million_points_are_drawn(million):
    loss = next(iter(panels(million)))
    above = million.rolling_baseline.steps[million.rolling_baseline.above]
    assert 777_777 in above
    assert loss.steps[loss.above].tolist() == above.tolist()
    assert len(loss.steps) < 50_000
    assert loss.thinned == 1_000_000 - len(loss.steps)
    assert len(render(million, "html").encode()) < 5_000_000


def test_packed_data_can_be_unpacked():
    report = diagnosed("nan-activations-fp16")
    page = render(report, "html")
    match = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    panel = next(panel for panel in json.loads(match[1])["panels"] if panel["role"] == "loss")
    steps, values = (
        np.frombuffer(base64.b64decode(text), dtype="<f8")
        for text in (panel["steps"], panel["lines"][0]["values"])
    )
    loss = report.history.series["loss"]
    assert steps.tolist() == loss.steps.tolist()
    assert np.array_equal(np.isinf(values), ~np.isfinite(loss.values))
    is_finite = np.isfinite(loss.values)
    assert np.array_equal(values[is_finite], loss.values[is_finite])


def test_the_groups_that_change_most_are_drawn():
    steps = np.arange(300)
    groups = {f"weight_norm/{i:02}": 10.0 * (1 + i * steps / 300) for i in range(30)}
    report = stabdiag.diagnose({"step": steps, "loss": 3 - steps / 300, **groups})
    panel = next(panel for panel in panels(report) if panel.role == "weight_norm")
    assert [name for name, _ in panel.lines] == [f"weight_norm/{i}" for i in range(20, 30)]
    assert panel.left_out == 20
    assert "Of 30 groups of weight_norm" in render(report, "html")


def test_series_with_different_steps_share_an_axis():
    steps = np.arange(300)
    evaluations = [float(step) if step % 50 == 0 else None for step in steps]
    report = stabdiag.diagnose({"step": steps, "loss": 3 - steps / 300, "eval_loss": evaluations})
    panel = next(iter(panels(report)))
    loss, evaluated = (values for _, values in panel.lines)
    assert np.isfinite(loss).all()
    assert np.flatnonzero(~np.isnan(evaluated)).tolist() == [0, 50, 100, 150, 200, 250]


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        ("spike-lr-jump", ["lr", "loss"]),
        ("divergence-weight-norm-climbing", ["weight_norm", "loss"]),
        ("symptom-throughput-drop", ["tokens_per_second", "loss"]),
        ("symptom-overfitting", ["loss", "grad_norm"]),
        ("nan-blow-up-bf16", ["loss", "grad_norm"]),
        ("healthy-bf16", ["loss", "grad_norm"]),
    ],
)
def test_the_series_with_the_cause_comes_first(name, roles):
    charts = list(panels(diagnosed(name)))
    assert [chart.role for chart in charts[:2]] == roles
    assert [chart.role for chart in charts if chart.is_main] == ["loss"]


def test_a_peak_of_the_learning_rate_needs_a_logarithmic_axis():
    schedule = 1e-3 * np.cos(np.linspace(0, 1.57, 500))
    assert not is_flattened(schedule)
    assert not is_flattened(np.full(500, 1e-3))
    assert not is_flattened(np.repeat([1e-3, 1e-4], 250))
    peak = schedule.copy()
    peak[200] = 0.1
    assert is_flattened(peak)
    # A logarithmic axis has no place for negative values.
    assert not is_flattened(np.where(peak == 0.1, 0.1, -peak))


def test_losses_that_explode_are_cut_off():
    steps = np.arange(300)
    loss = 3 - steps / 300.0
    assert next(iter(panels(stabdiag.diagnose({"step": steps, "loss": loss})))).ceiling is None
    loss[-2:] = 1e9, 1e16
    panel = next(iter(panels(stabdiag.diagnose({"step": steps, "loss": loss}))))
    assert panel.scale == "log"
    assert 10 < panel.ceiling < 1000


def test_scores_of_a_similar_size_share_a_chart():
    steps = np.arange(100)
    scores = {
        "val_acc": 0.5 + steps / 300,
        "val_f1": 0.4 + steps / 300,
        "val_ppl": 90.0 - steps / 2,
    }
    report = stabdiag.diagnose({"step": steps, "loss": 3 - steps / 100, **scores})
    drawn = [panel for panel in panels(report) if panel.role == "score"]
    names = [{name for name, _ in panel.lines} for panel in drawn]
    assert names == [{"val_acc", "val_f1"}, {"val_ppl"}]


@pytest.mark.parametrize(
    ("name", "last", "scale"),
    [("mAP50", 0.9, "linear"), ("acc", 93.0, "linear"), ("ppl", 3e4, "log")],
)
def test_a_fraction_has_a_linear_axis(name, last, scale):
    values = np.geomspace(1e-3, 1, 300) * last
    loss = 2 + np.exp(-np.arange(300) / 50)
    report = stabdiag.diagnose({"step": np.arange(300), "loss": loss, name: values})
    (panel,) = [panel for panel in panels(report) if panel.role == "score"]
    assert panel.scale == scale


def test_the_horizontal_axis_can_be_epochs_or_time():
    steps = np.arange(0, 1000, 10)
    seconds = 1.7e9 + steps * 0.5
    log = {"step": steps, "loss": 3 - steps / 1000, "epoch": steps // 250, "timestamp": seconds}
    axes = {axis.name: axis for axis in other_axes(stabdiag.diagnose(log).history)}
    assert set(axes) == {"epoch", "time"}
    # Whole epochs become fractions.
    at = np.interp([0, 125, 500], axes["epoch"].steps, axes["epoch"].values)
    assert at.tolist() == [0.0, 0.5, 2.0]
    assert axes["epoch"].values[-1] == pytest.approx(3.96)
    assert np.interp(500, axes["time"].steps, axes["time"].values) == 250.0
    plain = stabdiag.diagnose({"step": steps, "loss": 3 - steps / 1000})
    assert list(other_axes(plain.history)) == []
    constant = stabdiag.diagnose({"step": steps, "loss": 3 - steps / 1000, "epoch": 0 * steps})
    assert list(other_axes(constant.history)) == []


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("spike-persistent-fp16", {"event", "recovery", "reload"}),
        ("healthy-resumed", {"rewind"}),
        ("healthy-started-again", {"attempt"}),
        ("nan-blow-up-bf16", {"event", "bad", "reload"}),
        ("divergence-after-spike", {"event", "finding"}),
    ],
)
def test_marks_show_events_and_findings(name, kinds):
    result = list(marks(diagnosed(name)))
    assert kinds <= {mark.kind for mark in result}
    assert all(mark.last is None or mark.step < mark.last for mark in result)
