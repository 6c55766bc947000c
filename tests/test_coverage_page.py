"""The page on coverage names existing checks, and lists all of them."""

import sys
from pathlib import Path

import pytest

DOCS = str(Path(__file__).resolve().parents[1] / "docs")


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    import build

    yield build
    sys.modules.pop("build", None)


def rows(page):
    return [row for guide in page.guides() for section in guide["list"] for row in section["rows"]]


def test_every_row_is_covered_or_says_why_not(page):
    known_names = page.covering()
    for row in rows(page):
        assert set(row["by"]) <= set(known_names), row
        assert row["by"] or row.get("but"), row
        assert set(row) <= {"row", "by", "but"}


def test_every_check_covers_something(page):
    named = {name for row in rows(page) for name in row["by"]}
    assert sorted(set(page.covering()) - named) == []
