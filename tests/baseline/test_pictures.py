"""The band of the references in the plots of the terminal and of the page."""

import re

import numpy as np
import pytest

import stabdiag
from stabdiag.formats import render
from stabdiag.formats.html.charts import panels
from stabdiag.formats.html.marks import marks
from tests.baseline.made import run


@pytest.fixture(scope="module")
def worse():
    good = [run(seed) for seed in range(5)]
    return stabdiag.diagnose(run(50, end=0.7), baseline=good)


def test_the_page_draws_a_band_behind_each_series(worse):
    charts = list(panels(worse))
    assert [chart.role for chart in charts] == ["eval_loss", "loss", "grad_norm"]
    assert [(chart.is_main, chart.scale) for chart in charts[:2]] == [(True, "log"), (False, "log")]
    assert all(chart.mean is None for chart in charts)  # the range of the noise would hide the band
    bands = [band for chart in charts for band in chart.bands]
    names = ("eval_loss", "loss", "grad_norm")
    assert [band.name for band in bands] == [f"{name}: your 5 good runs" for name in names]
    for band in bands:
        inside = np.isfinite(band.low)
        assert inside.sum() > 30
        assert (band.low[inside] < band.high[inside]).all()
    good = bands[1]
    assert good.low[-20] < 0.56 < good.high[-20]  # where good runs end
    assert good.high[-20] < 0.7  # and the worse one does not


def test_the_page_marks_the_first_series_to_leave(worse):
    first = worse.baseline.first_to_leave
    (mark,) = [mark for mark in marks(worse) if "leaves the band" in mark.label]
    assert mark.step == first.step
    assert first.name in mark.label


def test_the_page_names_its_baseline(worse):
    page = render(worse, "html")
    assert "compared with dict" in page
    assert '"bands"' in page


def test_a_page_without_a_baseline_has_no_band():
    report = stabdiag.diagnose(run(50))
    assert all(panel.bands == () for panel in panels(report))
    assert '"bands"' not in render(report, "html")


def test_the_terminal_plot_draws_the_edges(worse):
    text = render(worse, "terminal")
    plot = text[text.index("eval_loss; dots: the band") :].split("Checked")[0]
    rows = [line.partition("│")[2] or line.partition("┤")[2] for line in plot.splitlines()]
    dotted = [row for row in rows if "·" in row]
    assert len(dotted) >= 2
    assert not re.search("·", render(stabdiag.diagnose(run(50)), "terminal"))
