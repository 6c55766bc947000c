"""The browser that opens pages."""

import pytest

from stabdiag.formats import render


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
def window(browser):
    """Return a function that gives a page with some options, the same one each time."""
    windows = {}

    def give(**options):
        if repr(options) not in windows:
            windows[repr(options)] = Opened(browser.new_context(**options).new_page())
        shown = windows[repr(options)]
        shown.page.set_viewport_size({"width": 1280, "height": 900})
        shown.page.emulate_media(media="null", color_scheme="null")
        shown.requests.clear()
        shown.complaints.clear()
        return shown

    return give


@pytest.fixture
def opened(window, tmp_path):
    """Return a function that writes a page, or that of a report, to disk and opens it there."""

    def open_page(page, **options):
        if not isinstance(page, str):
            page = render(page, "html", command="stabdiag diagnose run.jsonl")
        path = tmp_path / "page.html"
        path.write_text(page, "utf-8")
        shown = window(**options)
        shown.page.goto(path.as_uri())
        return shown

    return open_page


def expect(found):
    """Wait for what is expected of a part of a page."""
    from playwright.sync_api import expect

    return expect(found)


def serious(page):
    """Return what axe finds that keeps somebody from using a page, by day or by night."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    page.emulate_media(color_scheme="dark")
    found += Axe().run(page, options={"runOnly": ["color-contrast"]}).response["violations"]
    kept = (one for one in found if one["impact"] in ("serious", "critical"))
    return [(one["id"], one["nodes"][0]["html"]) for one in kept]


def reached(page):
    """Return what has the focus, tab by tab; every control has it once, and none keeps it."""
    names = []
    for _ in range(300):
        page.keyboard.press("Tab")
        name = page.evaluate(
            "(() => { const at = document.activeElement;"
            " return at === document.body ? '' : at.id || at.getAttribute('href')"
            " || at.getAttribute('aria-label') || at.textContent.trim().slice(0, 40)"
            " || at.tagName; })()"
        )
        if not name and names:
            break
        names.append(name)
    controls = page.evaluate(
        "[...document.querySelectorAll('a, button, input, select, summary, [tabindex]')]"
        ".filter((one) => one.checkVisibility()).length"
    )
    assert len(names) == controls
    return names
