"""Lists to tick, in all their formats."""

from __future__ import annotations

import json

import pytest
from rich.cells import cell_len
from stabdiag.tick_formats import FORMATS, render_sheet

from stabdiag.errors import StabdiagError
from stabdiag.model.checks import Line, Sheet, State, TickList
from stabdiag.model.findings import Severity

EVIL = "##[error]run\x1b[31m\n| <img src=x> [a](b) `c` *d* \ud800 ✗"
SHEET = Sheet(
    name="preflight",
    subject=EVIL,
    summary="One of three wants a look.",
    lists=(
        TickList(
            title="Configuration",
            words={State.TICKED: "fine", State.CROSSED: "look", State.UNKNOWN: "not told"},
            ticks=(
                Line(slug="one", title="First").ticked("All is well."),
                Line(slug="two", title="Second").crossed(
                    f"The name is {EVIL}.", "Change it.", "Or leave it."
                ),
                Line(slug="three", title="Third").crossed("It is wrong.", severity=Severity.ERROR),
                Line(slug="four", title="Fourth").unknown(
                    "Nothing is told of it.", "Write it down."
                ),
            ),
            begin="two",
        ),
    ),
)


def test_json_is_strict_and_has_everything():
    text = render_sheet(SHEET, "json")
    assert "##[" not in text  # which a server that runs the command would obey
    found = json.loads(text)
    assert (found["schema"], found["sheet"]) == (1, "preflight")
    assert found["subject"].startswith("##[error]run")
    items = found["lists"][0]["items"]
    assert [item["state"] for item in items] == ["ticked", "crossed", "crossed", "unknown"]
    assert [item["word"] for item in items] == ["fine", "look", "look", "not told"]
    assert [item["severity"] for item in items] == [None, "note", "error", None]
    assert found["lists"][0]["begin"] == "two"
    assert items[1]["do"] == ["Change it.", "Or leave it."]


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_page_fits_and_is_inert(width: int, encoding: str):
    page = render_sheet(SHEET, "terminal", width=width, encoding=encoding)
    assert max(map(cell_len, page.splitlines())) <= min(width, 100)
    assert "\x1b" not in page
    assert page.isascii() == (encoding == "ascii")
    assert ("x Second" if encoding == "ascii" else "✗ Second") in page
    assert "1 fine, 2 look, 1 not told" in " ".join(page.split())
    assert "Third  error" in page
    assert page.count("begin here") == 1


def test_colour_is_there_when_asked_for():
    assert "\x1b[" in render_sheet(SHEET, "terminal", color=True)


def test_markdown_takes_no_markup_from_a_name():
    text = render_sheet(SHEET, "markdown")
    assert text.count("- [x]") == 1
    assert text.count("- [ ]") == 3
    assert "<img" not in text.replace("\\<img", "")
    assert "[a](b)" not in text
    assert "\x1b" not in text
    assert len(text.splitlines()) == 3 + 3 + 4 + 3


def test_an_unknown_format_is_told():
    with pytest.raises(StabdiagError, match="markdwon"):
        render_sheet(SHEET, "markdwon")
    assert FORMATS == ("terminal", "markdown", "json")
