"""Lists to tick, and the list of readable log formats: for a terminal, as Markdown, as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypedDict

from stabdiag._version import __version__
from stabdiag.formats.json import Json, dumps, ignored, keys, mapping
from stabdiag.formats.markdown_text import escape as in_markdown
from stabdiag.formats.markdown_text import own_table
from stabdiag.model.checks import Checklist, ChecklistItem, ChecklistReport, State
from stabdiag.model.findings import Severity

if TYPE_CHECKING:
    from rich.text import Text

    from stabdiag.formats.terminal.page import Page


_MARKS = {State.PASSED: "✓", State.FAILED: "✗", State.UNKNOWN: "?"}
_ASCII_MARKS = {State.PASSED: "+", State.FAILED: "x", State.UNKNOWN: "?"}
_STYLES = {State.PASSED: "green", State.FAILED: "yellow", State.UNKNOWN: "dim"}
_INDENT = "    "

# The first columns of the list of log formats.
_NAME, _STATE = 18, 9


def sheet_lines(sheet: ChecklistReport, page: Page) -> Iterator[Text]:
    """Yield lists to tick, for a terminal."""
    yield from page.wrap(
        page.line(page.text(sheet.name.upper(), "bold"), page.text(f"  {sheet.subject}", "dim"))
    )
    yield from page.wrap(sheet.summary)
    for one in sheet.lists:
        counts = [(one.count(state), one.words[state]) for state in State]
        told = ", ".join(f"{count} {word}" for count, word in counts if count)
        yield from page.heading(one.title, told)
        for item in one.items:
            yield from _item(item, one, page)


def _item(item: ChecklistItem, one: Checklist, page: Page) -> Iterator[Text]:
    failed = item.state is State.FAILED
    grave = failed and item.severity.rank < Severity.NOTE.rank
    error = failed and item.severity is Severity.ERROR
    style = "bold red" if error else _STYLES[item.state]
    mark = (_ASCII_MARKS if page.ascii else _MARKS)[item.state]
    head = page.line(page.text(f"  {mark} ", style))
    head.pad_right(len(_INDENT) - head.cell_len)
    title = page.text(item.title, "bold" if failed else "")
    level = page.text(f"  {item.severity.value}" if grave else "", style)
    here = page.text("  start here" if item.slug == one.begin else "", "bold cyan")
    yield from page.wrap(page.line(title, level, here), head, _INDENT)
    yield from page.wrap(page.text(item.because, "dim"), _INDENT)
    for action in item.do:
        yield from page.wrap(action, f"{_INDENT}▸ ", f"{_INDENT}  ")


def sheet_markdown(sheet: ChecklistReport) -> str:
    """Return lists to tick as Markdown task lists."""
    title = f"{sheet.name.capitalize()}: {in_markdown(sheet.subject)}"
    lines = [f"# {title}", "", in_markdown(sheet.summary)]
    for one in sheet.lists:
        lines += ["", f"## {one.title}", ""]
        for item in one.items:
            box = "x" if item.state is State.PASSED else " "
            here = " **Start here.**" if item.slug == one.begin else ""
            told = f"({one.words[item.state]}).{here} {in_markdown(item.because)}"
            lines.append(f"- [{box}] **{item.title}** {told}")
            lines += [f"  - {in_markdown(action)}" for action in item.do]
    return "\n".join(lines) + "\n"


def sheet_json(sheet: ChecklistReport) -> str:
    """Return lists to tick as strict JSON."""
    content: Json = {
        "schema": 1,
        "stabdiag": __version__,
        **keys("sheet=name subject summary", sheet),
        "lists": [
            {**keys("title begin", one), "items": [_entry(item, one) for item in one.items]}
            for one in sheet.lists
        ],
    }
    return dumps(content)


def _entry(item: ChecklistItem, one: Checklist) -> Json:
    return {
        **keys("slug title state", item),
        "word": one.words[item.state],
        "severity": item.severity.value if item.state is State.FAILED else None,
        **keys("because", item),
        **({"ignored": ignored(item.ignored)} if item.ignored else {}),
        **keys("do", item),
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
