"""The browser that opens pages."""

import shutil

import pytest
from playwright.sync_api import sync_playwright

from stabdiag.formats import render

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
            made = browser.new_context(viewport=size, **options)
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
