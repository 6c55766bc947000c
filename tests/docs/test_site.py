"""The site: built as `make site` does, and opened from disk in a browser."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from stabdiag.model.edges import BY_SLUG as OUTCOMES
from stabdiag.symptoms import BY_SLUG as SYMPTOMS

pytestmark = pytest.mark.skipif(find_spec("furo") is None, reason="needs the group site")

ROOT = Path(__file__).resolve().parents[2]
SHOWN = ("index", "logging", "ci", "accuracy", "limits", "gallery", "gallery/nan-fp32", "search")


def sphinx(pages, out):
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--nitpicky", "--quiet"]
    command += ["--conf-dir", str(ROOT / "docs" / "site"), str(pages), str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "docs/build_site.py", str(folder / "pages")]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "COLUMNS": "80"})
    done = sphinx(folder / "pages", folder / "site")
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def page(browser):
    """Open a tab of the system's Chromium."""
    return browser.new_page(viewport={"width": 1280, "height": 900})


def test_a_dead_link_is_an_error(tmp_path):
    for name, link in (("page", "[gone](gone.md)"), ("anchor", "[gone](#gone)")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.md").write_text(f"# Title\n\n{link}\n", encoding="utf-8")
        done = sphinx(tmp_path / name, tmp_path / "out")
        assert done.returncode == 1
        assert "gone" in done.stderr


@pytest.mark.parametrize("name", SHOWN)
def test_a_page_asks_nobody_else_and_is_accessible(page, site, name):
    from axe_playwright_python.sync_playwright import Axe

    requests = []
    page.on("request", lambda request: requests.append(request.url))
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto((site / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    violations = Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in violations] == []


def test_the_index_of_the_search_holds_each_finding(site):
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert [slug for slug in (*OUTCOMES, *SYMPTOMS) if f'"gallery/{slug}"' not in index] == []


@pytest.mark.parametrize("slug", ["nan-fp32", "spike-lr-jump", "too-good"])
def test_a_search_finds_a_finding(page, site, slug):
    page.goto(f"{(site / 'search.html').as_uri()}?q={slug}")
    found = page.locator(f"#search-results a[href*='gallery/{slug}.html']")
    found.first.wait_for()
