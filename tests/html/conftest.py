"""Pages of real runs and of hostile ones, and the browser that opens them."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from playwright.sync_api import sync_playwright

import stabdiag
from stabdiag.formats import render
from stabdiag.model.history import Event, EventKind, History, Series, Source

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.fixture(scope="module")
def browser():
    """Start the system's Chromium, for one module: its event loop is not to outlive that."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here; Debian's package is called chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Opened:
    """A page in the browser, and what it asked for and complained of."""

    def __init__(self, page):
        self.page = page
        self.requests = []
        self.complaints = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(dialog.message))


@pytest.fixture(scope="module")
def context(browser):
    """Return a function that gives a window with some options, the same one each time."""
    windows = {}

    def window(**options):
        size = {"width": 1280, "height": 900}
        if repr(options) not in windows:
            made = browser.new_context(viewport=size, **options)  # type: ignore[arg-type]
            windows[repr(options)] = made
        return windows[repr(options)]

    return window


@pytest.fixture
def opened(context, tmp_path):
    """Return a function that writes a report's page to disk and opens it from there."""
    pages = []

    def open_page(report, **options):
        path = tmp_path / "report.html"
        path.write_text(render(report, "html", command="stabdiag diagnose run.jsonl"), "utf-8")
        shown = Opened(context(**options).new_page())
        pages.append(shown.page)
        shown.page.goto(path.as_uri())
        return shown

    yield open_page
    for page in pages:
        page.close()


@pytest.fixture
def hostile():
    """Return a function that diagnoses a run in which everything is called by one name."""

    def named(name):
        steps = np.arange(400, dtype=np.int64)
        rng = np.random.default_rng(5)
        loss = 2 + 3 * np.exp(-steps / 80) + rng.normal(0, 0.05, 400)
        loss[300:] += 4
        columns = {
            "loss": (name, loss),
            "grad_norm": (f"grad {name}", 1 + rng.gamma(3, 0.1, 400)),
            f"weight_norm/{name}": (f"weight_norm/{name}", np.linspace(10, 11, 400)),
        }
        series = {
            role: Series(role=role, column=column, steps=steps, values=values)
            for role, (column, values) in columns.items()
        }
        events = tuple(
            Event(kind=kind, message=f"it says {name}", step=120)
            for kind in (EventKind.MESSAGE, EventKind.REWIND, EventKind.COLUMN)
        )
        history = History(
            series=series, source=Source(name=name, format=name, records=400), events=events
        )
        manifest = {"optimizer": name, "schedule": name, name: name, "save_every": 50}
        return stabdiag.diagnose(history, manifest=manifest)

    return named
