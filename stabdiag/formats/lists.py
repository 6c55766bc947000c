"""Lists to tick, and the list of readable log formats: for a terminal, as Markdown, as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypedDict

from stabdiag._version import __version__
from stabdiag.formats.json import Json, dumps, ignored, keys, mapping
from stabdiag.formats.markdown_text import escape as in_markdown
from stabdiag.formats.markdown_text import own_table
from stabdiag.model.checks import Sheet, State, Tick, TickList
from stabdiag.model.findings import Severity

if TYPE_CHECKING:
    from rich.text import Text

    from stabdiag.formats.terminal.page import Page


_MARKS = {State.TICKED: "✓", State.CROSSED: "✗", State.UNKNOWN: "?"}
_ASCII_MARKS = {State.TICKED: "+", State.CROSSED: "x", State.UNKNOWN: "?"}
_STYLES = {State.TICKED: "green", State.CROSSED: "yellow", State.UNKNOWN: "dim"}
_INDENT = "    "

# The first columns of the list of log formats.
_NAME, _STATE = 18, 9


def sheet_lines(sheet: Sheet, page: Page) -> Iterator[Text]:
    """Yield lists to tick, for a terminal."""
    yield from page.wrap(
        page.line(page.text(sheet.name.upper(), "bold"), page.text(f"  {sheet.subject}", "dim"))
    )
    yield from page.wrap(sheet.summary)
    for one in sheet.lists:
        counts = [(one.count(state), one.words[state]) for state in State]
        told = ", ".join(f"{count} {word}" for count, word in counts if count)
        yield from page.heading(one.title, told)
        for tick in one.ticks:
            yield from _item(tick, one, page)


def _item(tick: Tick, one: TickList, page: Page) -> Iterator[Text]:
    crossed = tick.state is State.CROSSED
    grave = crossed and tick.severity.rank < Severity.NOTE.rank
    error = crossed and tick.severity is Severity.ERROR
    style = "bold red" if error else _STYLES[tick.state]
    mark = (_ASCII_MARKS if page.ascii else _MARKS)[tick.state]
    head = page.line(page.text(f"  {mark} ", style))
    head.pad_right(len(_INDENT) - head.cell_len)
    title = page.text(tick.title, "bold" if crossed else "")
    level = page.text(f"  {tick.severity.value}" if grave else "", style)
    here = page.text("  start here" if tick.slug == one.begin else "", "bold cyan")
    yield from page.wrap(page.line(title, level, here), head, _INDENT)
    yield from page.wrap(page.text(tick.because, "dim"), _INDENT)
    for action in tick.do:
        yield from page.wrap(action, f"{_INDENT}▸ ", f"{_INDENT}  ")


def sheet_markdown(sheet: Sheet) -> str:
    """Return lists to tick as Markdown task lists."""
    title = f"{sheet.name.capitalize()}: {in_markdown(sheet.subject)}"
    lines = [f"# {title}", "", in_markdown(sheet.summary)]
    for one in sheet.lists:
        lines += ["", f"## {one.title}", ""]
        for tick in one.ticks:
            box = "x" if tick.state is State.TICKED else " "
            here = " **Start here.**" if tick.slug == one.begin else ""
            told = f"({one.words[tick.state]}).{here} {in_markdown(tick.because)}"
            lines.append(f"- [{box}] **{tick.title}** {told}")
            lines += [f"  - {in_markdown(action)}" for action in tick.do]
    return "\n".join(lines) + "\n"


def sheet_json(sheet: Sheet) -> str:
    """Return lists to tick as strict JSON."""
    content: Json = {
        "schema": 1,
        "stabdiag": __version__,
        **keys("sheet=name subject summary", sheet),
        "lists": [
            {**keys("title begin", one), "items": [_entry(tick, one) for tick in one.ticks]}
            for one in sheet.lists
        ],
    }
    return dumps(content)


def _entry(tick: Tick, one: TickList) -> Json:
    return {
        **keys("slug title state", tick),
        "word": one.words[tick.state],
        "severity": tick.severity.value if tick.state is State.CROSSED else None,
        **keys("because", tick),
        **({"ignored": ignored(tick.ignored)} if tick.ignored else {}),
        **keys("do", tick),
    }


class LogFormat(TypedDict):
    """A format of logs: what it is, how it is recognised, and whether it can be read here.

    ``state`` is ``built in``, ``installed``, or ``missing`` where the ``extra`` is needed, and
    ``install`` is then the command that installs it.
    """

    name: str
    title: str
    state: str
    extra: str | None
    install: str | None
    recognised: str
    loses: str
    example: str


def logs_lines(formats: Sequence[LogFormat], page: Page) -> Iterator[Text]:
    """Yield the readable log formats, for a terminal."""
    from stabdiag.formats.terminal.page import columns

    widths = (_NAME, _STATE, page.width - _NAME - _STATE - 4)
    yield from columns(("NAME", "STATE", "RECOGNISED BY"), widths, page, "bold")
    for one in formats:
        yield from columns(
            (one["name"], one["state"], f"{one['title']}: {one['recognised']}"), widths, page
        )
    missing = [one for one in formats if one["install"]]
    if missing:
        yield page.text("")
    for one in missing:
        yield from page.wrap(f"{one['name']} is missing: {one['install']}")


def logs_markdown(formats: Sequence[LogFormat]) -> str:
    """Return the readable log formats as a Markdown table."""
    rows = []
    for one in formats:
        state = f"missing: `{one['install']}`" if one["install"] else one["state"]
        rows.append((f"`{one['name']}`", one["title"], state, one["recognised"]))
    return own_table(("Name", "What it is", "State", "Recognised by"), rows) + "\n"


def logs_json(formats: Sequence[LogFormat]) -> str:
    """Return the readable log formats as strict JSON."""
    return dumps({"schema": 1, "formats": [mapping(one) for one in formats]})
