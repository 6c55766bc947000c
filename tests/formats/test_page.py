"""The page: escaping and wrapping."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from stabdiag.formats.terminal.page import Page, escape


def test_escape_keeps_what_is_harmless():
    assert escape("σ [bold] 損失") == "σ [bold] 損失"
    assert escape("3σ → 5 × §2", ascii=True) == "3sigma -> 5 x sec. 2"
    assert escape("損", ascii=True) == r"\u640d"


@pytest.mark.parametrize("content", ["", " ", "one", "a  b", "x" * 99, "word " * 40, "損失" * 30])
def test_wrap_loses_nothing(content: str):
    lines = Page(width=40).wrap(content, "  - ")
    assert all(line.cell_len <= 40 for line in lines)
    told = "".join(line.plain[4:] for line in lines)
    assert told.replace(" ", "") == content.replace(" ", "")


def test_cells_have_the_width_they_are_given():
    page = Page()
    assert page.cell("abc", 5) == "abc  "
    assert page.cell("abcdefgh", 5) == "abcd…"
    assert cell_len(page.cell("損失損失", 5)) == 5
    assert Page(ascii=True).clip("abcdefgh", 5) == "ab..."
