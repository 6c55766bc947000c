"""Checklists, and the list of readable log formats: for a terminal, as Markdown, as JSON."""

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


def sheet_lines(report: ChecklistReport, page: Page) -> Iterator[Text]:
    """Yield checklists for a terminal."""
    yield from page.wrap(
        page.line(page.text(report.name.upper(), "bold"), page.text(f"  {report.subject}", "dim"))
    )
    yield from page.wrap(report.summary)
    for checklist in report.lists:
        counts = [(checklist.count(state), checklist.words[state]) for state in State]
        summary = ", ".join(f"{count} {word}" for count, word in counts if count)
        yield from page.heading(checklist.title, summary)
        for item in checklist.items:
            yield from _item(item, checklist, page)


def _item(item: ChecklistItem, checklist: Checklist, page: Page) -> Iterator[Text]:
    is_failed = item.state is State.FAILED
    is_serious = is_failed and item.severity.rank < Severity.NOTE.rank
    is_error = is_failed and item.severity is Severity.ERROR
    style = "bold red" if is_error else _STYLES[item.state]
    mark = (_ASCII_MARKS if page.ascii else _MARKS)[item.state]
    head = page.line(page.text(f"  {mark} ", style))
    head.pad_right(len(_INDENT) - head.cell_len)
    title = page.text(item.title, "bold" if is_failed else "")
    level = page.text(f"  {item.severity.value}" if is_serious else "", style)
    start = page.text("  start here" if item.slug == checklist.begin else "", "bold cyan")
    yield from page.wrap(page.line(title, level, start), head, _INDENT)
    yield from page.wrap(page.text(item.because, "dim"), _INDENT)
    for action in item.do:
        yield from page.wrap(action, f"{_INDENT}▸ ", f"{_INDENT}  ")


def sheet_markdown(report: ChecklistReport) -> str:
    """Return checklists as Markdown task lists."""
    title = f"{report.name.capitalize()}: {in_markdown(report.subject)}"
    lines = [f"# {title}", "", in_markdown(report.summary)]
    for checklist in report.lists:
        lines += ["", f"## {checklist.title}", ""]
        for item in checklist.items:
            box = "x" if item.state is State.PASSED else " "
            start = " **Start here.**" if item.slug == checklist.begin else ""
            text = f"({checklist.words[item.state]}).{start} {in_markdown(item.because)}"
            lines.append(f"- [{box}] **{item.title}** {text}")
            lines += [f"  - {in_markdown(action)}" for action in item.do]
    return "\n".join(lines) + "\n"


def sheet_json(report: ChecklistReport) -> str:
    """Return checklists as strict JSON."""
    content: Json = {
        "schema": 1,
        "stabdiag": __version__,
        **keys("kind=name subject summary", report),
        "lists": [
            {
                **keys("title begin", checklist),
                "items": [_entry(item, checklist) for item in checklist.items],
            }
            for checklist in report.lists
        ],
    }
    return dumps(content)


def _entry(item: ChecklistItem, checklist: Checklist) -> Json:
    return {
        **keys("slug title state", item),
        "word": checklist.words[item.state],
        "severity": item.severity.value if item.state is State.FAILED else None,
        **keys("because", item),
        **({"ignored": ignored(item.ignored)} if item.ignored else {}),
        **keys("do", item),
    }


class LogFormat(TypedDict):
    """A log format: its name, how it is detected, and whether it can be read here.

    ``state`` is ``built in``, ``installed`` or ``missing``. If it is missing, ``install`` is the
    command that installs the ``extra``.
    """

    name: str
    title: str
    state: str
    extra: str | None
    install: str | None
    detected_by: str
    not_read: str
    example: str


def logs_lines(formats: Sequence[LogFormat], page: Page) -> Iterator[Text]:
    """Yield the readable log formats for a terminal."""
    from stabdiag.formats.terminal.page import columns

    widths = (_NAME, _STATE, page.width - _NAME - _STATE - 4)
    yield from columns(("NAME", "STATE", "DETECTED BY"), widths, page, "bold")
    for log_format in formats:
        yield from columns(
            (
                log_format["name"],
                log_format["state"],
                f"{log_format['title']}: {log_format['detected_by']}",
            ),
            widths,
            page,
        )
    missing = [log_format for log_format in formats if log_format["install"]]
    if missing:
        yield page.text("")
    for log_format in missing:
        yield from page.wrap(f"{log_format['name']} is missing: {log_format['install']}")


def logs_markdown(formats: Sequence[LogFormat]) -> str:
    """Return the readable log formats as a Markdown table."""
    rows = []
    for log_format in formats:
        state = (
            f"missing: `{log_format['install']}`" if log_format["install"] else log_format["state"]
        )
        rows.append(
            (f"`{log_format['name']}`", log_format["title"], state, log_format["detected_by"])
        )
    return own_table(("Name", "What it is", "State", "Detected by"), rows) + "\n"


def logs_json(formats: Sequence[LogFormat]) -> str:
    """Return the readable log formats as strict JSON."""
    return dumps({"schema": 1, "formats": [mapping(log_format) for log_format in formats]})
