"""Lists to tick as Markdown and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag._version import __version__
from stabdiag.formats.json_text import dumps, escape
from stabdiag.formats.markdown_text import escape as in_markdown
from stabdiag.model.checks import State

if TYPE_CHECKING:
    from stabdiag.formats.json_text import Json
    from stabdiag.model.checks import Sheet, Tick, TickList

SCHEMA = 1


def markdown(sheet: Sheet) -> str:
    """Return the lists as Markdown task lists."""
    lines = [
        f"# {sheet.name.capitalize()}: {in_markdown(sheet.subject)}",
        "",
        in_markdown(sheet.summary),
    ]
    for one in sheet.lists:
        lines += ["", f"## {one.title}", ""]
        for tick in one.ticks:
            lines += _item(tick, one)
    return "\n".join(lines) + "\n"


def _item(tick: Tick, one: TickList) -> list[str]:
    box = "x" if tick.state is State.TICKED else " "
    here = " **Begin here.**" if tick.slug == one.begin else ""
    word = one.words[tick.state]
    lines = [f"- [{box}] **{tick.title}** ({word}).{here} {in_markdown(tick.because)}"]
    return lines + [f"  - {in_markdown(action)}" for action in tick.do]


def as_json(sheet: Sheet) -> str:
    """Return the lists as strict JSON."""
    content: Json = {
        "schema": SCHEMA,
        "stabdiag": __version__,
        "sheet": sheet.name,
        "subject": escape(sheet.subject),
        "summary": escape(sheet.summary),
        "lists": [
            {
                "title": one.title,
                "begin": one.begin,
                "items": [_entry(tick, one) for tick in one.ticks],
            }
            for one in sheet.lists
        ],
    }
    return dumps(content)


def _entry(tick: Tick, one: TickList) -> Json:
    return {
        "slug": tick.slug,
        "title": tick.title,
        "state": tick.state.value,
        "word": one.words[tick.state],
        "severity": tick.severity.value if tick.state is State.CROSSED else None,
        "because": escape(tick.because),
        "do": [escape(action) for action in tick.do],
    }
