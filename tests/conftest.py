"""Fixtures that several tests share."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import chdir
from difflib import unified_diff
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings

from stabdiag import diagnose
from stabdiag.cli import main

# The same few examples each time; `pytest --hypothesis-profile thorough` draws many new ones. No
# example has a deadline, since no test asserts a time.
settings.register_profile("stabdiag", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile("stabdiag")

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "fixtures" / "runs"
NAMES = sorted(folder.name for folder in RUNS.iterdir())


def log_of(run):
    """Return the path of the log of a real run."""
    # log.rank1.jsonl belongs to log.jsonl.
    (log,) = RUNS.joinpath(run).glob("log.[!r]*")
    return log


@cache
def about(run):
    """Return the facts about a real run."""
    return json.loads((RUNS / run / "about.json").read_text(encoding="utf-8"))


# A run for each diagnosis, for what takes long and depends on little else.
ONE_EACH = tuple({about(run)["expect"]: run for run in reversed(NAMES)}.values())


@cache
def diagnosed(run):
    """Return the report on a real run, whose log is named from the top of the repository."""
    with chdir(ROOT):
        return diagnose(str(log_of(run).relative_to(ROOT)))


def python(*arguments, **options):
    """Run Python as a process of its own."""
    line = [sys.executable, *map(str, arguments)]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.run(line, **{"check": False, **piped, **options})  # noqa: PLW1510


def program(*arguments, **options):
    """Run a command line as a process of its own."""
    return python("-m", "stabdiag", *arguments, **options)


def compare_golden(text, path):
    """Fail with the difference if a text does not equal the file; update the file if requested."""
    if os.environ.get("STABDIAG_UPDATE_GOLDEN", "0") not in ("", "0"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    kept = path.read_text(encoding="utf-8")
    if text != kept:
        lines = unified_diff(kept.splitlines(), text.splitlines(), path.name, "now", lineterm="")
        pytest.fail("\n".join(lines), pytrace=False)


# These files take longest. They come first, so that no worker is left with one of them at the end.
LONGEST = (
    *("docs/test_site.py", "html/test_browser.py", "html/test_scan_page.py", "test_docs.py"),
    *("scan/test_dask.py", "scan/test_workers.py", "scan/test_store.py", "test_process.py"),
    *("watch/test_processes.py", "watch/test_certain.py", "readers/test_mlflow.py"),
    *("readers/test_formats.py", "readers/test_linear.py", "readers/text/test_hostile.py"),
    *("test_accuracy.py", "test_examples.py", "ci/test_action.py", "test_packaging.py"),
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Put the files that take longest first."""
    ahead = {path: any(map(path.match, LONGEST)) for path in {item.path for item in items}}
    items.sort(key=lambda item: not ahead[item.path])


@pytest.fixture(scope="module")
def browser():
    """Start the system's Chromium for one module, so that its event loop ends with the module."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("Chromium is not installed (Debian: package chromium)")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Result(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def runs():
    """The folder of the real training runs."""
    return RUNS


@pytest.fixture
def stabdiag(monkeypatch, capsys, tmp_path):
    """Run a command line in an empty folder, within this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["stabdiag", *map(str, arguments)])
        code = main()
        out, err = capsys.readouterr()
        return Result(code=code, out=out, err=err)

    return run
