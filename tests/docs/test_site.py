"""The site: built as `make site` does, and opened from disk in a browser."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from stabdiag.model.edges import OUTCOME_BY_SLUG as OUTCOMES
from stabdiag.symptoms.registry import SYMPTOM_BY_SLUG as SYMPTOMS
from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(find_spec("furo") is None, reason="needs the group site")

SLUGS = ("nan-fp32", "spike-lr-jump", "too-good")
SHOWN = ("index", "logging", "ci", "accuracy", "limits", "gallery", "search")
# Of each kind of page the shortest: it takes as long as the page does.
CHECKED = {"index", "accuracy", "gallery", f"gallery/{SLUGS[0]}", "search"}


STRICT = ("-b", "dummy", "--fail-on-warning", "--nitpicky")


def sphinx(pages, out, *options, only=()):
    command = [sys.executable, "-m", "sphinx", "--quiet", "--conf-dir", ROOT / "docs" / "site"]
    command += [*options, pages, out, *(pages / f"{name}.md" for name in only)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Lay the pages out, and follow every link in them; they are kept as they were read."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "docs/build.py", "--site", str(folder / "pages")]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "COLUMNS": "80"})
    done = sphinx(folder / "pages", folder / "none", *STRICT, "-d", folder / "read")
    assert done.returncode == 0, done.stderr
    return folder / "pages"


@pytest.fixture(scope="module")
def site(pages):
    """Write the pages that are opened: the sidebar of each takes longer than all of its text."""
    out = pages.with_name("site")
    only = [*SHOWN[:-1], *(f"gallery/{slug}" for slug in SLUGS)]
    done = sphinx(pages, out, "-d", pages.with_name("read"), only=only)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def page(browser):
    """Open a tab of the system's Chromium."""
    return browser.new_page()


def test_a_dead_link_is_an_error(tmp_path):
    (tmp_path / "index.md").write_text("# Title\n\n[gone](gone.md) [gone](#lost)\n", "utf-8")
    done = sphinx(tmp_path, tmp_path / "out", *STRICT)
    assert done.returncode == 1
    assert "gone.md" in done.stderr
    assert "lost" in done.stderr


@pytest.mark.parametrize("name", [*SHOWN, f"gallery/{SLUGS[0]}"])
def test_a_page_loads_nothing_external_and_is_accessible(page, site, name):
    from axe_playwright_python.sync_playwright import Axe

    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto((site / f"{name}.html").as_uri())
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    if name in CHECKED:
        violations = Axe().run(page).response["violations"]
        assert [(item["id"], item["nodes"][0]["html"]) for item in violations] == []


def test_the_gallery_has_a_page_for_each_finding(pages):
    names = {path.stem for path in pages.joinpath("gallery").iterdir()}
    runs = {path.name.removeprefix("symptom-") for path in (ROOT / "fixtures/runs").iterdir()}
    about_logs = {"earlier-run-failed", "partly-read"}
    expected = {*OUTCOMES} - about_logs | {slug for slug in SYMPTOMS if slug in runs}
    assert expected - names == set()


@pytest.mark.parametrize("slug", SLUGS)
def test_a_search_finds_a_finding(page, site, slug):
    page.goto(f"{(site / 'search.html').as_uri()}?q={slug}")
    hits = page.locator(f"#search-results a[href*='gallery/{slug}.html']")
    hits.first.wait_for()
