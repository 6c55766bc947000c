"""Whole reports, compared with the files in ``golden``.

Three reports that were made by hand, and a real run for each leaf of the tree in every format.
Set ``STABDIAG_UPDATE_GOLDEN=1`` to write those files anew, and read the difference.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stabdiag.formats import names, render
from stabdiag.model.leaves import BY_SLUG

if TYPE_CHECKING:
    from stabdiag.model.report import Report

GOLDEN = Path(__file__).parent / "golden"
CASES = {
    "{}.txt": ("terminal", {}),
    "{}.verbose.txt": ("terminal", {"verbose": True}),
    "{}.ascii.txt": ("terminal", {"encoding": "ascii"}),
    "{}.color.txt": ("terminal", {"color": True}),
    "{}.json": ("json", {}),
    "{}.svg": ("svg", {}),
}
SUFFIXES = {
    "terminal": "txt",
    "lines": "lines.txt",
    "json": "json",
    "markdown": "md",
    "github": "github.txt",
    "gitlab": "gitlab.json",
    "junit": "junit.xml",
    "sarif": "sarif",
}

# Of numbers in full length the last digits are the processor's.
NUMBER = re.compile(r"-?\d+\.\d{6,}(e[+-]?\d+)?|-?\d+(\.\d+)?e[+-]?\d+")


@pytest.fixture(autouse=True)
def _one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("json", "html", "junit", "sarif", "markdown.sections"):
        monkeypatch.setattr(f"stabdiag.formats.{module}.__version__", "VERSION")


def compare(text: str, path: Path) -> None:
    if os.environ.get("STABDIAG_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def rounded(text: str) -> str:
    return NUMBER.sub(lambda number: f"{float(number.group()):.6g}", text)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["persistent", "healthy", "nan"])
def test_golden(request: pytest.FixtureRequest, name: str, case: str):
    format_name, options = CASES[case]
    text = render(request.getfixturevalue(name), format_name, **options)
    compare(text, GOLDEN / case.format(name))


@pytest.mark.parametrize("format_name", names())
def test_every_leaf_in_every_format(leaf: Report, format_name: str):
    slug, text = leaf.tree.outcome.slug, render(leaf, format_name)
    if format_name in SUFFIXES:
        compare(rounded(text), GOLDEN / "leaves" / f"{slug}.{SUFFIXES[format_name]}")
    else:  # a picture or a page of a format that is told by the files above: its digest will do
        digest = hashlib.sha256(text.encode()).hexdigest()
        compare(f"{digest}\n", GOLDEN / "leaves" / f"{slug}.{format_name}.sha256")


def test_every_leaf_has_its_file_in_every_format():
    kept = {path.name.partition(".")[0] for path in (GOLDEN / "leaves").iterdir()}
    assert kept == set(BY_SLUG)
    assert len(list((GOLDEN / "leaves").iterdir())) == len(BY_SLUG) * len(names())
