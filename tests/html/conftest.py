"""The browser that opens pages."""

import pytest

from stabdiag.formats import render


class Opened:
    """A page in the browser with its requests and its error messages."""

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
    """Return a function that returns a page for some options, the same one each time."""
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
    """Return a function that writes a page or a report to disk and opens it."""

    def open_page(page, **options):
        if not isinstance(page, str):
            page = render(page, "html", command="stabdiag diagnose run.jsonl")
        path = tmp_path / "page.html"
        path.write_text(page, "utf-8")
        shown = window(**options)
        shown.page.goto(path.as_uri())
        return shown

    return open_page


def expect(locator):
    """Return Playwright's assertions for a part of a page."""
    from playwright.sync_api import expect

    return expect(locator)


def find_serious_violations(page):
    """Return serious accessibility violations of a page, in light and dark mode."""
    from axe_playwright_python.sync_playwright import Axe

    violations = Axe().run(page).response["violations"]
    page.emulate_media(color_scheme="dark")
    violations += Axe().run(page, options={"runOnly": ["color-contrast"]}).response["violations"]
    severe = (
        violation for violation in violations if violation["impact"] in ("serious", "critical")
    )
    return [(violation["id"], violation["nodes"][0]["html"]) for violation in severe]


def tab_order(page):
    """Return the elements in tab order; every control gets the focus exactly once."""
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
        ".filter((node) => node.checkVisibility()).length"
    )
    assert len(names) == controls
    return names
