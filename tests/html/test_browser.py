"""The page in a browser: opened from disk, with no network."""

import pytest

import stabdiag
from stabdiag.formats import render
from tests.conftest import diagnosed
from tests.formats.conftest import renamed
from tests.html.conftest import expect, find_serious_violations, tab_order
from tests.html.test_page import ODD

# Runs of several sections, and unusual logs.
RUNS = (
    *("divergence-weight-norm-climbing", "healthy-resumed", "insufficient-data"),
    *("loss-scale-collapsed-often", "nan-activations-fp16"),
)


@pytest.mark.parametrize("run", RUNS)
def test_it_opens_without_requests_or_errors(opened, run):
    report = diagnosed(run)
    shown = opened(report)
    assert shown.page.locator("h1").inner_text().startswith(report.diagnosis.title)
    assert shown.page.locator("#plots canvas").count() == shown.page.evaluate("panels.length")
    assert drawn(shown.page)
    assert len(shown.requests) == 1
    assert shown.complaints == []


def until(page, condition, arg=None):
    """Wait for a condition; the policy of the page blocks Playwright's own method."""
    for _ in range(200):
        if page.evaluate(condition, arg):
            return
        page.wait_for_timeout(25)
    pytest.fail(f"never came true: {condition}")


def drawn(page):
    """Return True if every chart has a curve: pixels in the colors of its lines."""
    return bool(
        page.evaluate(
            """() => panels.every(({plot, lines}) => {
              const {ctx} = plot;
              const {data} = ctx.getImageData(0, 0, ctx.canvas.width, ctx.canvas.height);
              const colours = new Set(lines.map((_, i) => colour(`c${i}`)));
              const hex = (value) => value.toString(16).padStart(2, "0");
              let dots = 0;
              for (let i = 0; i < data.length; i += 4) {
                dots += colours.has(`#${hex(data[i])}${hex(data[i + 1])}${hex(data[i + 2])}`);
              }
              return dots > 20;
            })"""
        )
    )


def ranges(page):
    """Return the steps that each chart shows."""
    return page.evaluate("panels.map(({plot}) => [plot.scales.x.min, plot.scales.x.max])")


@pytest.fixture
def spike(opened):
    """The page of a spike at step 400 of 600."""
    return opened(diagnosed("spike-persistent-fp16")).page


def test_mouse_keys_and_buttons_move_all_charts(spike):
    assert ranges(spike) == [[0, 599]] * 5
    norm = spike.locator("#plots .plot .u-over").nth(1)
    norm.scroll_into_view_if_needed()
    box = norm.bounding_box()
    spike.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    spike.mouse.down()
    spike.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 20, steps=3)
    spike.mouse.up()
    first, *others = ranges(spike)
    assert first == pytest.approx([299.5, 449.25], abs=2)
    assert others == [first] * 4
    assert spike.locator("#range").inner_text().startswith("steps 300 to 44")
    spike.mouse.dblclick(box["x"] + 50, box["y"] + 20)
    assert ranges(spike) == [[0, 599]] * 5

    spike.locator("#plots").focus()
    spike.keyboard.press("ArrowRight")
    assert spike.locator("#spoken").inner_text().startswith("Step 400: ")
    spike.keyboard.press("Shift+ArrowRight")
    assert spike.locator("#spoken").inner_text().startswith("Step 410: ")
    spike.keyboard.press("+")
    assert ranges(spike)[0][1] - ranges(spike)[0][0] == pytest.approx(299.5)
    spike.keyboard.press("0")
    assert ranges(spike) == [[0, 599]] * 5
    spike.keyboard.press("End")
    assert spike.locator("#spoken").inner_text().startswith("Step 599: ")

    spike.get_by_role("button", name="Around the event").click()
    assert ranges(spike) == [[200, 599]] * 5
    spike.get_by_role("button", name="Zoom in").click()
    first, last = ranges(spike)[0]
    assert last - first == pytest.approx(199.5)
    spike.get_by_role("button", name="Later").click()
    assert ranges(spike)[4][0] == pytest.approx(first + 199.5 / 2)
    spike.get_by_role("button", name="Log scale").click()
    assert spike.evaluate("panels[0].plot.scales.y.distr") == 3
    assert ranges(spike)[0] == ranges(spike)[4]


def test_every_answer_is_printed_and_reached_by_keyboard(spike):
    spike.evaluate("dispatchEvent(new Event('beforeprint'))")
    spike.emulate_media(media="print")
    assert spike.locator("[id='Q2.2'] .inside").is_visible()
    assert not spike.locator(".tools").is_visible()
    assert spike.evaluate("panels[0].plot.width") < 700
    spike.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not spike.locator("[id='Q2.2']").get_attribute("open")
    spike.emulate_media(media="screen")

    assert {"plots", "#Q2.1", "smoothing"} <= {*tab_order(spike)}
    for link in spike.locator(".asked a").all():
        link.focus()
        spike.keyboard.press("Enter")
        answer = spike.locator(f"[id='{link.get_attribute('href')[1:]}']")
        until(spike, "(one) => one.open", arg=answer.element_handle())
        assert answer.locator(".inside").is_visible()
    decided = spike.locator("[id='Q2.2']").inner_text()
    assert "2.467" in decided
    assert "spike.recovery_steps" in decided


def test_the_first_action_and_the_command_are_copied(opened):
    report = diagnosed("spike-persistent-fp16")
    page = opened(report, permissions=["clipboard-read", "clipboard-write"]).page
    for name, text in (
        ("Copy the first action", report.diagnosis.first_action),
        ("Copy the command", "stabdiag diagnose run.jsonl"),
    ):
        page.get_by_role("button", name=name).click()
        expect(page.locator("#said")).to_have_text("Copied.")
        assert page.evaluate("navigator.clipboard.readText()") == text
        page.evaluate("document.getElementById('said').textContent = ''")


def test_axe_finds_nothing_serious(opened):
    page = opened(diagnosed("nan-activations-fp16"), bypass_csp=True).page
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert find_serious_violations(page) == []


HOSTILE = (
    "</script><script>alert(1)</script><img src=http://127.0.0.1:9/x onerror=alert(2)>"
    "<style>*{display:none}</style>\x1b[2J\u202e"
)


def test_a_hostile_log_does_nothing(opened):
    shown = opened(renamed(diagnosed("spike-persistent-fp16"), HOSTILE))
    assert shown.page.locator("#plots canvas").count() == 5
    assert shown.page.locator("img, iframe, object, embed, link").count() == 0
    assert "<img src=" in shown.page.locator("header").inner_text()
    shown.page.locator("#plots").focus()
    shown.page.keyboard.press("ArrowRight")
    assert "<img src=" in shown.page.locator("#spoken").inner_text()
    assert len(shown.requests) == 1
    assert shown.complaints == []


def test_without_scripts_the_loss_is_still_drawn(opened):
    page = opened(diagnosed("spike-lr-jump"), java_script_enabled=False).page
    assert page.locator("noscript svg.chart").is_visible()
    assert page.locator(".action").is_visible()


@pytest.mark.parametrize("logged", ODD.values(), ids=ODD)
def test_odd_logs_open(opened, logged):
    steps = list(range(len(next(iter(logged.values())))))
    shown = opened(stabdiag.diagnose({"step": steps, **logged}))
    assert shown.page.locator("#plots canvas").count() == len(logged)
    shown.page.get_by_role("button", name="Zoom in").click()
    shown.page.locator("#plots").focus()
    shown.page.keyboard.press("End")
    assert shown.page.locator("#spoken").inner_text().startswith(f"Step {steps[-1]}: ")
    assert shown.complaints == []


def curve_at(page, role, step):
    """Return the smoothed, or raw, value of the first curve of a chart at a step."""
    return page.evaluate(
        """([role, step]) => {
          const panel = panels.find((panel) => panel.role === role);
          const drawn = panel.drawn.find((curve) => "name" in curve && curve.colour === "c0");
          return drawn.values[panel.steps.indexOf(step)];
        }""",
        [role, step],
    )


def test_a_mark_does_not_hide_a_peak_of_one_step(opened):
    page = opened(diagnosed("spike-lr-jump")).page
    assert page.locator("#plots h3").first.inner_text() == "Learning rate (log)"
    # The pixels of the curve in the column of the peak, from the schedule up to the peak.
    rows = page.evaluate(
        """() => {
          const {plot} = panels[0];
          const {ctx} = plot;
          const x = Math.round(plot.valToPos(260, "x", true));
          const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour("c0").slice(at, at + 2), 16));
          let rows = 0;
          for (let y = Math.round(plot.bbox.top); y < plot.bbox.top + plot.bbox.height; y += 1) {
            const {data} = ctx.getImageData(x - 2, y, 5, 1);
            for (let i = 0; i < data.length; i += 4) {
              const away = [r, g, b].map((value, at) => Math.abs(data[i + at] - value));
              if (away[0] + away[1] + away[2] < 90) {
                rows += 1;
                break;
              }
            }
          }
          return rows / plot.bbox.height;
        }"""
    )
    assert rows > 0.4


def test_smoothing_is_that_of_tensorboard(spike):
    raw = [curve_at(spike, "loss", step) for step in range(3)]
    spike.locator("#smoothing").fill("0.9")
    last, expected = 0.0, []
    for count, value in enumerate(raw, 1):
        last = 0.9 * last + 0.1 * value
        expected.append(last / (1 - 0.9**count))
    assert [curve_at(spike, "loss", step) for step in range(3)] == pytest.approx(expected)
    assert curve_at(spike, "lr", 10) == spike.evaluate(
        "panels.find((panel) => panel.role === 'lr').raw[0][10]"
    )
    expect(spike.locator("#smoothing-value")).to_have_text("0.90")
    spike.locator("#smoothing").fill("0")
    assert [curve_at(spike, "loss", step) for step in range(3)] == raw


def test_the_values_are_next_to_the_pointer(spike):
    chart = spike.locator("#plots .plot .u-over").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    spike.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    tip = chart.locator(".tip")
    assert tip.is_visible()
    step = spike.evaluate("panels[0].steps[panels[0].plot.cursor.idx]")
    assert f"step {step}" in tip.inner_text()
    assert (
        spike.locator(".tip").evaluate_all("(all) => all.filter((one) => !one.hidden).length") == 1
    )
    tip_box = tip.bounding_box()
    assert tip_box["x"] > box["x"] + box["width"] / 2
    spike.mouse.move(box["x"] + box["width"] - 5, box["y"] + 40)
    assert tip.bounding_box()["x"] + tip.bounding_box()["width"] < box["x"] + box["width"]


def test_the_axis_can_be_time(opened):
    steps = list(range(0, 1000, 10))
    seconds = [1.7e9 + step + 3600 * (step >= 500) for step in steps]
    loss = [3 - step / 1000 for step in steps]
    page = opened(stabdiag.diagnose({"step": steps, "loss": loss, "timestamp": seconds})).page
    axis = page.get_by_role("combobox", name="Horizontal axis")
    axis.select_option("time")
    assert page.locator("#range").inner_text() == "0s to 1h 16m"
    # The pause of an hour is a gap on this axis.
    x = page.evaluate("[490, 500].map((step) => panels[0].x[panels[0].steps.indexOf(step)])")
    assert x == [490, 4100]
    page.locator("#plots").focus()
    page.keyboard.press("End")
    assert page.locator("#spoken").inner_text().startswith("Step 990: ")
    axis.select_option("step")
    assert ranges(page)[0] == [0, 990]


def test_the_band_reaches_down_on_a_logarithmic_axis(spike):
    spike.get_by_role("button", name="Log scale").click()
    lower = spike.evaluate("main.drawn[1].values.filter((value) => value === null).length")
    assert lower == 0


def test_the_answers_are_folded(spike):
    assert spike.locator(".asked").is_visible()
    assert not spike.locator("[id='Q2.1']").is_visible()
    spike.get_by_text("All answers with their numbers and limits").click()
    assert spike.locator("[id='Q2.1']").is_visible()


def test_runs_of_a_comparison_are_named_by_what_differs(opened, runs):
    comparison = stabdiag.compare([runs / "healthy-bf16", runs / "spike-lr-jump"])
    page = opened(render(comparison, "html", "comparison"), bypass_csp=True).page
    names = page.locator("#plots .plot").first.locator(".series bdi").all_inner_texts()
    assert [name.split()[:2] for name in names] == [["dtype", "bf16"], ["dtype", "fp32"]]
    assert find_serious_violations(page) == []
    page.set_viewport_size({"width": 400, "height": 844})
    assert find_serious_violations(page) == []
    page.set_viewport_size({"width": 1280, "height": 900})
    verdict = page.locator(".verdict").inner_text()
    assert verdict.index("first difference") < verdict.index("FIRST ACTION")


def test_a_run_has_the_same_color_in_all_charts(opened, runs):
    names = ("spike-lr-jump", "healthy-loss-only", "healthy-bf16")
    logs = [next((runs / name).glob("log.*")) for name in names]
    # Waiting for a condition evaluates it in the page.
    comparison = render(stabdiag.compare(logs), "html", "comparison")
    page = opened(comparison, bypass_csp=True).page
    colors = page.evaluate(
        """panels.map((panel) => Object.fromEntries(panel.drawn
          .filter((curve) => "name" in curve)
          .map((curve) => [curve.name, curve.colour])))"""
    )
    loss, norm = colors[0], colors[1]
    assert len(set(loss.values())) == 3
    assert 2 <= len(norm) < 3
    assert norm.items() <= loss.items()
    rows = page.locator(".verdict tbody tr")
    assert rows.count() == 2
    # The tables name the runs as the charts do.
    ends = page.locator("section").filter(has_text="Where they end").locator("tbody td:first-child")
    assert set(ends.all_inner_texts()) == set(loss)
    page.set_viewport_size({"width": 400, "height": 844})
    # The charts are drawn again in a later frame.
    page.wait_for_function("document.documentElement.scrollWidth <= 400")


@pytest.mark.parametrize("width", [400, 1280])
def test_a_post_mortem_fits_the_screen(opened, width):
    document = stabdiag.postmortem(diagnosed("spike-persistent-fp16"), "html")
    page = opened(document, bypass_csp=True).page
    page.set_viewport_size({"width": width, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    stacked = page.locator(".stacked").first
    assert stacked.evaluate("(table) => table.scrollWidth <= table.clientWidth")
    assert stacked.locator("thead").is_visible() == (width > 800)
    assert find_serious_violations(page) == []
