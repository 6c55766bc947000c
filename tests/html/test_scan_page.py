"""The page of a scan in a browser: opened from disk, with no network."""

import json
import re
from dataclasses import replace

import pytest

from stabdiag.formats import render
from stabdiag.model.scan import Row
from stabdiag.scan.overview import make_overview
from tests.formats.test_scans import named
from tests.html.conftest import expect, find_serious_violations, tab_order
from tests.html.test_browser import HOSTILE
from tests.scan.made import sweep


@pytest.fixture
def scanned(opened):
    """Return a function that opens the page of some rows."""

    def open_page(rows, **options):
        overview, command = make_overview(rows, places=("runs",)), "stabdiag scan runs"
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
    assert len(listed(shown.page)) == min(len(rows), 10)
    assert len(shown.requests) == 1
    assert shown.complaints == []


def test_it_sorts_with_unknown_values_last(page):
    page.get_by_role("combobox", name="Runs per page").select_option("50")
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
    page.get_by_role("combobox", name="Sort by").select_option("peak_lr")
    assert listed(page)[0] == "lr-0.0001/seed2"
    page.get_by_role("button", name="Reverse").click()
    assert listed(page)[0] == "lr-0.03/seed0"


def test_it_filters_by_words_and_outcome(page):
    page.get_by_role("searchbox", name="Find").fill("SEED1 schedule=linear")
    assert {name.partition("/")[2] for name in listed(page)} == {"seed1"}
    assert 0 < len(listed(page)) < 6
    page.get_by_role("searchbox", name="Find").fill("")
    page.get_by_role("combobox", name="Finding").select_option("Loss became NaN")
    assert set(listed(page, 3)) == {"Loss became NaN\nnan-bf16"}
    expect(page.locator("#range")).to_have_text("Runs 1 to 3 of 3, of 26 in all")
    page.get_by_role("searchbox", name="Find").fill("no such run")
    expect(page.locator("#range")).to_have_text("No run matches, of 26 in all")


def test_the_legend_of_the_bar_filters_by_severity(page):
    warning = page.get_by_role("button", name="1 with a warning")
    warning.click()
    assert listed(page, 0) == ["warning"]
    warning.click()
    expect(page.locator("#range")).to_have_text("Runs 1 to 10 of 26")


def test_a_row_names_the_finding_and_the_first_action(page):
    row = page.locator(".runs tbody tr").first
    texts = row.locator(":scope > *").all_inner_texts()
    assert texts[3].split("\n") == ["Loss spiked and stayed up", "spike-persistent"]
    assert texts[4].startswith("Reload the checkpoint of step 500")
    assert row.get_by_role("img").get_attribute("aria-label") == "loss from 4 to 1.5, at best 1.25"


def test_a_kind_of_failure_shows_its_runs(page):
    kinds = page.locator(".kind")
    assert kinds.count() == 3
    kind = kinds.filter(has_text="Loss became NaN")
    kind.get_by_role("button").click()
    assert {name.rpartition("/")[2] for name in listed(page)} == {"seed3"}
    kind.get_by_role("button").click()
    assert len(listed(page)) == 10


def test_many_properties_in_common_are_folded(opened):
    overview = make_overview(sweep(), places=("runs",))
    overview = replace(overview, common=overview.common[:1] * 9)
    page = opened(render(overview, "html", "overview")).page
    items = page.locator(".common > li")
    assert (items.count(), page.locator(".common > li:visible").count()) == (9, 6)
    assert items.locator(".bars").count() == 6
    page.get_by_text("Other properties in common: 3").click()
    expect(items.locator(".bars")).to_have_count(9)
    assert page.locator(".common > li:visible").count() == 9


def test_a_chart_of_a_property_in_common_shows_its_runs(page):
    chart = page.locator(".common > li").first
    bars = chart.get_by_role("button")
    labels = [bar.get_attribute("aria-label") for bar in bars.all()]
    assert labels[0] == "peak_lr 1e-4: 1 of 4 runs, 25%"
    assert labels[-1] == "peak_lr 0.03: 4 of 4 runs, 100%"
    heights = [float(bar.locator("rect").get_attribute("height")) for bar in bars.all()]
    assert heights == [25, 0, 0, 75, 100, 100]
    bars.nth(3).click()
    assert {name.partition("/")[0] for name in listed(page)} == {"lr-0.003"}
    assert len(listed(page)) == 3


def test_a_bin_ends_where_the_runs_start_to_fail(scanned):
    rows = [replace(row, peak_lr=row.peak_lr * (1 + i / 100)) for i, row in enumerate(sweep()[:24])]
    bars = scanned(rows).page.locator(".common > li").first.get_by_role("button")
    labels = [bar.get_attribute("aria-label") for bar in bars.all()]
    hits = [int(re.search(r": (\d+) of", label)[1]) for label in labels]
    statement = scanned(rows).page.locator(".common > li > bdi").first.inner_text()
    assert statement.endswith("10 of 10 runs failed; below: 2 of 14")
    assert (sum(hits[:3]), sum(hits[3:])) == (2, 10)


def test_any_setting_can_be_a_column(page):
    heads = page.locator(".runs thead th")
    shown = heads.all_inner_texts()
    # A setting that failed runs share is next to the steps lost.
    assert shown.index("peak_lr") == shown.index("Steps lost") + 1
    assert "output_dir" not in shown
    page.get_by_text("Settings as columns").click()
    page.get_by_role("checkbox", name="output_dir").check()
    page.get_by_role("checkbox", name="peak_lr").uncheck()
    assert "output_dir" in heads.all_inner_texts()
    assert "peak_lr" not in heads.all_inner_texts()
    assert "/data/lr-0.03/seed0" in page.locator(".runs tbody tr").first.inner_text()
    # A column that is not shown still sorts.
    page.get_by_role("combobox", name="Sort by").select_option("peak_lr")
    assert listed(page)[0] == "lr-0.0001/seed2"
    assert page.locator("th[aria-sort]").count() == 0


def test_the_page_of_ten_thousand_runs_is_small(scanned):
    rows = sweep(417)
    assert len(rows) > 10_000
    text = render(make_overview(rows), "html", "overview")
    assert len(text.encode()) < 5_000_000
    page = scanned(rows).page
    expect(page.locator("#range")).to_have_text(f"Runs 1 to 10 of {len(rows)}")


def test_runs_are_cards_on_a_phone(page):
    page.set_viewport_size({"width": 400, "height": 844})
    row = page.locator(".runs tbody tr").first
    assert "Steps lost" in row.locator("[data-label]").first.get_attribute("data-label")
    assert row.locator(".todo").bounding_box()["width"] > 300
    assert not page.locator(".runs thead").is_visible()
    assert page.locator(".runs").evaluate("(node) => node.scrollWidth") <= 400
    # A long title leaves room for the curve.
    page.locator(".runs .finding").first.evaluate(
        "(node) => { node.textContent += ' again'.repeat(9); }"
    )
    inside = "(node) => node.scrollWidth <= node.clientWidth"
    assert page.locator("#runs .scroll").evaluate(inside)


def test_a_run_opens_to_its_summary_and_the_command(scanned):
    rows = sweep()
    rows[-1] = replace(rows[-1], path="it's $(odd)/log.csv", reason="empty")
    page = scanned(rows, permissions=["clipboard-read", "clipboard-write"]).page
    run = page.get_by_role("button", name="lr-0.03/seed0")
    run.press("Enter")
    about = page.locator(".about")
    assert "Loss spiked and stayed up, step 500" in about.inner_text()
    assert "min_lr\n0.003" in about.inner_text()
    assert run.get_attribute("aria-expanded") == "true"
    expect(run).to_be_focused()
    about.get_by_role("button", name="Copy").click()
    expect(page.locator("#said")).to_have_text("Copied.")
    command = page.evaluate("navigator.clipboard.readText()")
    assert command == "stabdiag diagnose runs/lr-0.03/seed0/log.jsonl"
    run.press("Enter")
    assert about.count() == 0
    page.get_by_role("searchbox", name="Find").fill("broken/1")
    page.get_by_role("button", name="broken/1").click()
    assert "empty" in about.inner_text()
    quoted = "stabdiag diagnose 'it'\"'\"'s $(odd)/log.csv'"
    assert about.locator("code").inner_text() == quoted


def test_a_cell_of_the_matrix_shows_its_runs(page):
    setting = page.get_by_role("combobox", name="Setting")
    assert setting.input_value() == "peak_lr"
    page.get_by_role("button", name="3 runs, 75%: Loss spiked and stayed up, peak_lr 0.01").click()
    assert {name.partition("/")[0] for name in listed(page)} == {"lr-0.01"}
    chosen = page.get_by_role("button", name="Show all runs again")
    assert "Loss spiked and stayed up, peak_lr 0.01" in chosen.inner_text()
    chosen.click()
    expect(page.locator("#range")).to_have_text("Runs 1 to 10 of 26")
    setting.select_option("optimizer")
    heads = page.locator(".matrix thead th").all_inner_texts()
    assert heads == ["Finding", "adamw", "lion", "not recorded"]


def test_the_matrix_has_the_most_frequent_findings(scanned):
    names = [f"kind-{i}" for i in range(12)]
    rows = [
        replace(row, outcome=name, title=name.title(), severity="error")
        for row, name in zip(sweep(), [*names, *names[:6], *names[:6]], strict=False)
    ]
    heads = scanned(rows).page.locator(".matrix tbody th").all_inner_texts()
    assert len(heads) == 9
    assert {f"Kind-{i}" for i in range(6)} < set(heads)
    assert heads[-1] == "4 other findings"


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
    expect(page.locator("#range")).to_have_text("Runs 1 to 10 of 1010")
    page.get_by_role("combobox", name="Runs per page").select_option("50")
    assert len(listed(page)) == 50
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
    text = render(make_overview(sweep()), "html", "overview")
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
