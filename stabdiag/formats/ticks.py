"""Lists to tick as Markdown and JSON."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from stabdiag.formats.json import escape, version
from stabdiag.ticks import State

if TYPE_CHECKING:
    from stabdiag.ticks import Sheet, Tick, TickList

SCHEMA = 1

# Whatever begins markup, a link or a tag somewhere; the name of a log may hold all of it.
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>()#+!|~&@$-]")


def markdown(sheet: Sheet) -> str:
    """Return the lists as Markdown task lists."""
    lines = [f"# {sheet.name.capitalize()}: {_inert(sheet.subject)}", "", _inert(sheet.summary)]
    for one in sheet.lists:
        lines += ["", f"## {one.title}", ""]
        for tick in one.ticks:
            lines += _item(tick, one)
    return "\n".join(lines) + "\n"


def _item(tick: Tick, one: TickList) -> list[str]:
    box = "x" if tick.state is State.TICKED else " "
    here = " **Begin here.**" if tick.slug == one.begin else ""
    word = one.words.of(tick.state)
    lines = [f"- [{box}] **{tick.title}** ({word}).{here} {_inert(tick.because)}"]
    return lines + [f"  - {_inert(action)}" for action in tick.do]


def _inert(text: str) -> str:
    """Return text that Markdown shows as it stands, on one line."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return _SPECIAL.sub(r"\\\g<0>", shown)


def as_json(sheet: Sheet) -> str:
    """Return the lists as strict JSON."""
    content = {
        "schema": SCHEMA,
        "stabdiag": version(),
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
    return json.dumps(content, indent=2, allow_nan=False)


def _entry(tick: Tick, one: TickList) -> dict[str, object]:
    return {
        "slug": tick.slug,
        "title": tick.title,
        "state": tick.state.value,
        "word": one.words.of(tick.state),
        "severity": tick.severity.value if tick.state is State.CROSSED else None,
        "because": escape(tick.because),
        "do": [escape(action) for action in tick.do],
    }
