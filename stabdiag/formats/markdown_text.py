"""Escaping of log text in Markdown, for all pages.

It is meant for CommonMark with the extensions of GitHub and GitLab. They turn plain text into
links, mentions and images after parsing, where a backslash has no effect: a zero-width space
separates those signs from the text that follows. Neither changes code spans.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from stabdiag.formats.measured import visible

ZERO_WIDTH_SPACE = "\u200b"
"""A zero-width space, which separates a sign from the text that follows."""

# Text that either site replaces: @user, #1, !1, $1, %1, &1, ~label, ^alert, [issue:1],
# http://, :emoji:, www.example.org and GH-1.
_REFERENCE_SIGNS = re.compile(
    r"[@#!$%&~](?=[\w\"'])|\^(?=alert)|\[(?=\w+:)|:(?=//|[\w+-]+:)|www(?=\.)|\bGH(?=-\d)",
    re.IGNORECASE,
)
_ESCAPES = str.maketrans(
    {
        **{char: f"\\{char}" for char in "\\`*[]|~"},
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        "$": "&#36;",  # starts a formula, even after a backslash
        ZERO_WIDTH_SPACE: "&#8203;",
    }
)
# Between letters an underscore is not emphasis; names stay readable without a backslash.
_UNDERLINE = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
# Signs that start a heading, list, rule or GitLab /command at the beginning of a line.
_LINE_START = re.compile(r"^\d+(?=[.)](?:\s|$))|^(?=[#=/]|[-+](?:[-+\s]|$))")
_CODE_CELL = re.compile(r"[^`|]*[^`| ]")


def escape(text: str) -> str:
    """Escape log text for a paragraph, a list or a table cell."""
    separated = _REFERENCE_SIGNS.sub(
        lambda sign: sign.group() + ZERO_WIDTH_SPACE, visible(text).strip()
    )
    quoted = _UNDERLINE.sub(r"\\_", separated.translate(_ESCAPES))
    return _LINE_START.sub(r"\g<0>\\", quoted)


def code(text: str) -> str:
    """Return log text as a code span for a paragraph, a list or a table cell."""
    shown = visible(text).strip()
    if not shown:
        return ""
    return f"`{shown}`" if _CODE_CELL.fullmatch(shown) else f"<code>{escape(shown)}</code>"


def block(text: str, language: str = "") -> str:
    """Return lines as a code block, with a fence that none of them closes."""
    lines = [visible(line) for line in text.split("\n")]
    longest = max((len(run) for line in lines for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}{language}", *lines, fence])


def own_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of trusted texts; bars in them are escaped."""
    return table(head, [[cell.replace("|", "\\|") for cell in cells] for cells in rows])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are already Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
