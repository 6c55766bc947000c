"""The band of earlier good runs on the page, in a browser."""

import pytest

import stabdiag
from tests.baseline.made import run
from tests.html.conftest import expect, find_serious_violations

GREEN = """({number}) => {
  const {ctx} = panels[number].plot;
  const {data} = ctx.getImageData(0, 0, ctx.canvas.width, ctx.canvas.height);
  let green = 0;
  for (let i = 0; i < data.length; i += 4) {
    const [red, own, blue] = data.subarray(i, i + 3);
    green += own > red + 10 && own > blue + 10;
  }
  return green;
}"""


@pytest.fixture(scope="module")
def worse():
    good = [run(seed) for seed in range(5)]
    return stabdiag.diagnose(run(50, end=0.7), baseline=good)


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_band_is_drawn_behind_each_series(opened, worse, width, scheme):
    shown = opened(worse)
    page = shown.page
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    page.wait_for_timeout(300)
    assert page.locator("h1").inner_text().startswith("Worse than the baseline")
    count = page.evaluate("panels.length")
    assert count >= 2
    for number in range(count):
        assert page.evaluate(GREEN, {"number": number}) > 1000
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.complaints == []


def test_a_page_without_a_baseline_has_no_green(opened):
    page = opened(stabdiag.diagnose(run(50))).page
    for number in range(page.evaluate("panels.length")):
        assert page.evaluate(GREEN, {"number": number}) < 50


def test_the_key_hides_and_shows_the_band(opened, worse):
    page = opened(worse).page
    before = page.evaluate(GREEN, {"number": 0})
    for key in page.get_by_role("button", name="your 5 good runs").all():
        key.click()
        expect(key).to_have_attribute("aria-pressed", "false")
    assert page.evaluate(GREEN, {"number": 0}) < before / 10
    for key in page.get_by_role("button", name="your 5 good runs").all():
        key.click()
    assert page.evaluate(GREEN, {"number": 0}) == before


def test_the_page_says_where_the_run_left_and_who_was_left_out(opened):
    good = [run(seed) for seed in range(4)]
    good.append(run(9, worse=3, since=100))
    page = opened(stabdiag.diagnose(run(50, end=0.7), baseline=good)).page
    text = page.locator("body").inner_text()
    assert "Left out: dict (differs from the others from step" in text
    marks = page.evaluate("data.marks.map((mark) => mark.label)")
    assert any("leaves the band" in mark for mark in marks)


def test_the_page_with_a_band_is_accessible(opened, worse):
    assert find_serious_violations(opened(worse).page) == []
