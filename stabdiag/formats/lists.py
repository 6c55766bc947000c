"""Checks, and the list of readable log formats: for a terminal, as Markdown, as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypedDict

from stabdiag._version import __version__
from stabdiag.formats.json import Json, dumps, keys, mapping
from stabdiag.formats.json import check as check_as_json
from stabdiag.formats.markdown_text import escape as in_markdown
from stabdiag.formats.markdown_text import own_table
from stabdiag.model.checks import Check, CheckReport, State, count_states
from stabdiag.model.findings import Severity

if TYPE_CHECKING:
    from rich.text import Text

    from stabdiag.formats.terminal.page import Page


_STATE_MARKS = {State.PASSED: "✓", State.FAILED: "✗", State.UNKNOWN: "?", State.MANUAL: "□"}
_ASCII_MARKS = {State.PASSED: "+", State.FAILED: "x", State.UNKNOWN: "?", State.MANUAL: "-"}
_STATE_STYLES = {
    State.PASSED: "green",
    State.FAILED: "yellow",
    State.UNKNOWN: "dim",
    State.MANUAL: "cyan",
}
_LIST_INDENT = "    "

# The first columns of the list of log formats.
_NAME, _STATE = 18, 9


def check_lines(report: CheckReport, page: Page) -> Iterator[Text]:
    """Yield checks for a terminal."""
    yield from page.wrap(
        page.line(page.text(report.name.upper(), "bold"), page.text(f"  {report.subject}", "dim"))
    )
    yield from page.wrap(report.summary)
    for title, checks in report.sections.items():
        counts = count_states(checks)
        summary = ", ".join(f"{count} {state.value}" for state, count in counts.items())
        yield from page.heading(title, summary)
        for check in checks:
            yield from _check(check, page, is_first=check.slug == report.begin)


def _check(check: Check, page: Page, *, is_first: bool) -> Iterator[Text]:
    is_failed = check.state is State.FAILED
    is_serious = is_failed and check.severity.rank < Severity.NOTE.rank
    is_error = is_failed and check.severity is Severity.ERROR
    style = "bold red" if is_error else _STATE_STYLES[check.state]
    mark = (_ASCII_MARKS if page.ascii else _STATE_MARKS)[check.state]
    head = page.line(page.text(f"  {mark} ", style))
    head.pad_right(len(_LIST_INDENT) - head.cell_len)
    title = page.text(check.title, "bold" if is_failed else "")
    level = page.text(f"  {check.severity.value}" if is_serious else "", style)
    start = page.text("  start here" if is_first else "", "bold cyan")
    yield from page.wrap(page.line(title, level, start), head, _LIST_INDENT)
    yield from page.wrap(page.text(check.summary, "dim"), _LIST_INDENT)
    for action in check.actions:
        yield from page.wrap(action.text, f"{_LIST_INDENT}▸ ", f"{_LIST_INDENT}  ")


def check_markdown(report: CheckReport) -> str:
    """Return checks as Markdown task lists."""
    title = f"{report.name.capitalize()}: {in_markdown(report.subject)}"
    lines = [f"# {title}", "", in_markdown(report.summary)]
    for section, checks in report.sections.items():
        lines += ["", f"## {section}", ""]
        for check in checks:
            box = "x" if check.state is State.PASSED else " "
            start = " **Start here.**" if check.slug == report.begin else ""
            text = f"({check.state.value}).{start} {in_markdown(check.summary)}"
            lines.append(f"- [{box}] **{check.title}** {text}")
            lines += [f"  - {in_markdown(action.text)}" for action in check.actions]
    return "\n".join(lines) + "\n"


def check_json(report: CheckReport) -> str:
    """Return checks as strict JSON: the findings of a report, each with a state."""
    content: Json = {
        "schema": 2,
        "stabdiag": __version__,
        **keys("kind=name subject summary begin", report),
        "findings": [check_as_json(check) for check in report.checks],
    }
    return dumps(content)


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
