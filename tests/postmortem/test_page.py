"""The HTML page: it needs no network and no scripts, and draws the log."""

from xml.etree import ElementTree

import numpy as np
import pytest

import stabdiag
from stabdiag import postmortem
from stabdiag.formats.canvas import svg_chart
from stabdiag.formats.postmortem.document import BLANK_FIELD
from stabdiag.formats.subject import Mark, choose
from tests.conftest import diagnosed
from tests.postmortem.conftest import broken

WIDTH = 760


@pytest.fixture
def page():
    return postmortem(diagnosed("nan-blow-up-fp32"), "html")


def drawn(report, *marks):
    return ElementTree.fromstring(svg_chart(choose(report), marks))


def points(line):
    pairs = (pair.split(",") for pair in line.attrib["points"].split())
    return [(float(x), float(y)) for x, y in pairs]


def lines(svg):
    return [points(element) for element in svg.iter("polyline")]


def test_the_plot_is_a_picture_and_the_tables_are_tables(page):
    assert page.count("<svg ") == 1
    assert "<pre>" not in page
    assert "| ---" not in page
    assert page.count("<table") == page.count("</table>") > 4


def test_blanks_are_boxes(page):
    assert page.count('<li class="blank">') == page.count(f"<strong>{BLANK_FIELD}:</strong>") > 5
    assert "[ ]" not in page


def test_the_highest_loss_touches_the_top_of_its_frame():
    svg = drawn(diagnosed("spike-persistent-moments"))
    frame = next(rect for rect in svg.iter("rect") if rect.attrib["class"] == "frame")
    top, high = float(frame.attrib["y"]), float(frame.attrib["height"])
    heights = [y for _, y in lines(svg)[0]]
    assert min(heights) == top
    assert max(heights) == top + high


def test_a_nan_breaks_the_line_and_is_shaded():
    svg = drawn(broken())
    (bad,) = [rect for rect in svg.iter("rect") if rect.attrib["class"] == "bad"]
    ends = [line[-1][0] for line in lines(svg)]
    assert max(ends) <= float(bad.attrib["x"])
    end = float(bad.attrib["x"]) + float(bad.attrib["width"])
    assert end == pytest.approx(WIDTH - 14, abs=1)


def test_everything_stays_within_the_picture():
    report = diagnosed("divergence-weight-norm-climbing")
    marks = [Mark(step=s, label="label", kind="good") for s in (0, 700, 959, 10**6)]
    svg = drawn(report, *marks)
    _, _, width, height = map(float, svg.attrib["viewBox"].split())
    for line in lines(svg):
        assert all(0 <= x <= width and 0 <= y <= height for x, y in line)
    labels = [text.text for text in svg.iter("text") if "label" in text.attrib["class"]]
    assert labels == ["label 0", "label 700", "label 959"]


def test_many_points_make_a_small_picture():
    steps = np.arange(200_000)
    loss = 2 + 5 * np.exp(-steps / 2e4) + np.random.default_rng(0).normal(0, 0.05, steps.size)
    loss[154_321] = 50.0
    svg = drawn(stabdiag.diagnose({"step": steps, "loss": loss}))
    assert min(y for _, y in lines(svg)[0]) == 34.0  # the single high point is kept
    assert len(ElementTree.tostring(svg)) < 80_000


@pytest.mark.parametrize("values", [[2.0] * 40, [1e-30, 1e30] * 20, [-1.0, 1.0] * 20])
def test_any_range_has_an_axis(values):
    svg = drawn(stabdiag.diagnose({"step": range(40), "loss": values}))
    axis = [text.text for text in svg.iter("text") if text.attrib["class"] == "value"]
    assert 1 <= len(axis) <= 8
    steps = [text.text for text in svg.iter("text") if text.attrib["class"] == "step"]
    assert steps[0] == "0"


@pytest.mark.parametrize("least", [5e-324, 1e-310])
def test_a_loss_with_tiny_variation_is_drawn(least):
    losses = [*(least * (at % 3) for at in range(100)), float("nan")]
    svg = drawn(stabdiag.diagnose({"step": range(101), "loss": losses}))
    assert len(lines(svg)) == 1
