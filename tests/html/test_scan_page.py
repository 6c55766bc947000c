"""The page of a scan in a browser: opened from disk, with no network."""

import json
import re
from dataclasses import replace

import pytest

from stabdiag.formats import render
from stabdiag.model.scan import Row
from stabdiag.scan.overview import overview_of
from tests.formats.test_scans import named
from tests.html.conftest import expect, find_serious_violations, tab_order
from tests.html.test_browser import HOSTILE
from tests.scan.made import sweep


@pytest.fixture
def scanned(opened):
    """Return a function that opens the page of some rows."""

    def open_page(rows, **options):
        overview, command = overview_of(rows, places=("runs",)), "stabdiag scan runs"
        return opened(render(overview, "html", "overview", command=command), **options)

    return open_page


@pytest.fixture
def page(scanned):
    return scanned(sweep()).page


def listed(page, column=1):
    """Return the cells of a column, of the runs that are shown."""
    rows = page.locator(".runs tbody tr:not(.about)")
    return [row.locator(":scope > *").nth(column).inner_text() for row in rows.all()]


ODD = {
    "no run": [],
    "one": sweep()[:1],
    "only unread": sweep()[-2:],
    "nothing recorded": [Row(path="a", run="a", outcome="nan-fp32", severity="error")],
    "one loss": [replace(sweep()[0], curve=(1.0,))],
    "losses of all sizes": [replace(sweep()[0], curve=(1e300, -1e300, float("inf"), 0.0))],
}


@pytest.mark.parametrize("rows", [sweep(), *ODD.values()], ids=["sweep", *ODD])
def test_it_opens_without_requests_or_errors(scanned, rows):
    shown = scanned(rows)
    assert len(listed(shown.page)) == len(rows)
    assert len(shown.requests) == 1
    assert shown.complaints == []


def test_it_sorts_with_unknown_values_last(page):
    assert listed(page)[0] == "lr-0.03/seed0"
    rate = page.get_by_role("button", name="peak_lr", exact=True)
    rate.click()
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    ends = [listed(page)[0], *listed(page)[-2:]]
    assert ends == ["lr-0.0001/seed2", "broken/0", "broken/1"]
    rate.click()
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    ends = [listed(page)[0], *listed(page)[-2:]]
    assert ends == ["lr-0.03/seed0", "broken/0", "broken/1"]
    page.get_by_role("button", name="Run", exact=True).click()
    assert listed(page)[:2] == ["broken/0", "broken/1"]


def test_it_filters_by_words_and_outcome(page):
    page.get_by_role("searchbox", name="Find").fill("SEED1 schedule=linear")
    assert {name.partition("/")[2] for name in listed(page)} == {"seed1"}
    assert 0 < len(listed(page)) < 6
    page.get_by_role("searchbox", name="Find").fill("")
    page.get_by_role("combobox", name="Outcome").select_option("nan-bf16")
    assert set(listed(page, 2)) == {"nan-bf16"}
    expect(page.locator("#range")).to_have_text("Runs 1 to 3 of 3, of 26 in all")
    page.get_by_role("searchbox", name="Find").fill("no such run")
    expect(page.locator("#range")).to_have_text("No run fits, of 26 in all")


def test_a_run_opens_to_its_summary_and_the_command(scanned):
    rows = sweep()
    rows[-1] = replace(rows[-1], path="it's $(odd)/log.csv", reason="empty")
    page = scanned(rows, permissions=["clipboard-read", "clipboard-write"]).page
    run = page.get_by_role("button", name="lr-0.03/seed0")
    run.press("Enter")
    about = page.locator(".about")
    assert "Loss spiked and stayed up at step 500" in about.inner_text()
    assert "min_lr\n0.003" in about.inner_text()
    assert run.get_attribute("aria-expanded") == "true"
    expect(run).to_be_focused()
    about.get_by_role("button", name="Copy").click()
    expect(page.locator("#said")).to_have_text("Copied.")
    command = page.evaluate("navigator.clipboard.readText()")
    assert command == "stabdiag diagnose runs/lr-0.03/seed0/log.jsonl"
    run.press("Enter")
    assert about.count() == 0
    page.get_by_role("button", name="broken/1").click()
    assert "empty" in about.inner_text()
    quoted = "stabdiag diagnose 'it'\"'\"'s $(odd)/log.csv'"
    assert about.locator("code").inner_text() == quoted


def test_a_cell_of_the_matrix_shows_its_runs(page):
    setting = page.get_by_role("combobox", name="Setting")
    assert setting.input_value() == "peak_lr"
    page.get_by_role("button", name="3 runs, 75%: spike-persistent, peak_lr 0.01").click()
    assert {name.partition("/")[0] for name in listed(page)} == {"lr-0.01"}
    chosen = page.get_by_role("button", name="Show all runs again")
    assert "spike-persistent, peak_lr 0.01" in chosen.inner_text()
    chosen.click()
    assert len(listed(page)) == 26
    setting.select_option("optimizer")
    heads = page.locator(".matrix thead th").all_inner_texts()
    assert heads == ["Outcome", "adamw", "lion", "not recorded"]


def test_many_values_are_binned(scanned):
    rows = [replace(row, peak_lr=1e-4 * 1.1**i) for i, row in enumerate(sweep(2)[:48])]
    page = scanned(rows).page
    page.get_by_role("combobox", name="Setting").select_option("peak_lr")
    heads = page.locator(".matrix thead th").all_inner_texts()
    assert len(heads) == 7
    assert all(" to " in head for head in heads[1:])
    page.get_by_role("combobox", name="Setting").select_option("output_dir")
    assert page.locator(".matrix thead th").last.inner_text() == "42 others"


def test_a_thousand_runs_come_in_pages(scanned):
    page = scanned(sweep(42)).page
    assert len(listed(page)) == 50
    expect(page.locator("#range")).to_have_text("Runs 1 to 50 of 1010")
    page.get_by_role("button", name="Next").click()
    expect(page.locator("#range")).to_have_text("Runs 51 to 100 of 1010")
    page.get_by_role("button", name="Last", exact=True).click()
    expect(page.locator("#range")).to_have_text("Runs 1001 to 1010 of 1010")
    page.get_by_role("button", name="Next").press("Enter")
    expect(page.locator("#range")).to_have_text("Runs 1001 to 1010 of 1010")
    page.get_by_role("searchbox", name="Find").fill("41/lr-0.03/seed2")
    assert listed(page) == ["41/lr-0.03/seed2"]


def test_a_full_page_has_the_worst_runs(monkeypatch):
    monkeypatch.setattr("stabdiag.formats.scans.overview_page._MAX_ROWS", 5)
    text = render(overview_of(sweep()), "html", "overview")
    assert "The page has the worst 5 of 26 runs" in text
    data = json.loads(re.findall(r'id="data">(.*?)</script>', text, re.DOTALL)[0])
    assert data["lost_steps"] == [500, 490, 480, 470, 360]


def test_axe_finds_nothing_serious(scanned):
    page = scanned(sweep(), bypass_csp=True).page
    page.get_by_role("button", name="lr-0.03/seed0").click()
    page.locator(".matrix td button").first.click()
    assert find_serious_violations(page) == []


def test_the_keyboard_reaches_everything_and_nothing_but_the_tables_scrolls(page):
    assert tab_order(page)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_hostile_logs_do_nothing(scanned):
    shown = scanned([*named(HOSTILE).rows])
    page = shown.page
    page.locator(".runs .open").first.click()
    page.get_by_role("combobox", name="Setting").select_option(index=3)
    page.locator(".matrix td button").first.click()
    assert page.locator("img, iframe, object, embed, link").count() == 0
    assert "<img src=" in page.locator(".runs tbody").inner_text()
    assert "<img src=" in page.locator("#chosen").inner_text()
    assert len(shown.requests) == 1
    assert shown.complaints == []


def test_without_scripts_the_worst_runs_are_listed(scanned):
    page = scanned(sweep(), java_script_enabled=False).page
    assert page.locator("noscript tbody tr").count() == 10
    assert "peak_lr ≥ 0.003" in page.locator(".common").inner_text()
    assert not page.locator("#matrix").is_visible()
