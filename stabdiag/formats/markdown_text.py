"""Log text in Markdown: the one place where it is made inert.

Meant for CommonMark as GitHub and GitLab extend it. They turn plain text into links, mentions and
pictures after the Markdown is read, where a backslash does not help: a zero-width space separates
such a sign from what follows. Both leave code spans alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from stabdiag.formats.measured import visible

GAP = "\u200b"
"""What separates a sign from what follows: a zero-width space."""

# What either site turns into something else: @user, #1, !1, $1, %1, &1, ~label, ^alert, [issue:1],
# http://, :emoji:, www.example.org and GH-1.
_SIGNS = re.compile(
    r"[@#!$%&~](?=[\w\"'])|\^(?=alert)|\[(?=\w+:)|:(?=//|[\w+-]+:)|www(?=\.)|\bGH(?=-\d)",
    re.IGNORECASE,
)
_TABLE = str.maketrans(
    {
        **{char: f"\\{char}" for char in "\\`*[]|~"},
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        "$": "&#36;",  # a formula begins with one, with a backslash before it as well
        GAP: "&#8203;",
    }
)
# Between letters an underline is no emphasis, and names stay easy to read without a backslash.
_UNDERLINE = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
# Where headings, lists, rules and GitLab's /commands begin, if the text is the first of its line.
_START = re.compile(r"^\d+(?=[.)](?:\s|$))|^(?=[#=/]|[-+](?:[-+\s]|$))")
_PLAIN = re.compile(r"[^`|]*[^`| ]")


def escape(text: str) -> str:
    """Return log text as Markdown that shows it, in a paragraph, a list or a cell of a table."""
    parted = _SIGNS.sub(lambda sign: sign.group() + GAP, visible(text).strip())
    quoted = _UNDERLINE.sub(r"\\_", parted.translate(_TABLE))
    return _START.sub(r"\g<0>\\", quoted)


def code(text: str) -> str:
    """Return log text as a code span, in a paragraph, a list or a cell of a table."""
    shown = visible(text).strip()
    if not shown:
        return ""
    return f"`{shown}`" if _PLAIN.fullmatch(shown) else f"<code>{escape(shown)}</code>"


def block(text: str, language: str = "") -> str:
    """Return one or several lines as a block of code, whose fence none of them ends."""
    lines = [visible(line) for line in text.split("\n")]
    longest = max((len(run) for line in lines for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}{language}", *lines, fence])


def own_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts of this program, in which a bar ends no cell."""
    return table(head, [[cell.replace("|", "\\|") for cell in cells] for cells in rows])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
