"""The short sections of the terminal report: what was found, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from stabdiag.model.findings import AskedOf, Finding, Severity
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.formats.terminal.page import Page
    from stabdiag.model.comparison import Comparison
    from stabdiag.model.report import Report

BADGE = {
    Severity.ERROR: "bold white on red",
    Severity.WARNING: "bold black on yellow",
    Severity.NOTE: "bold white on blue",
    Severity.OK: "bold black on green",
}
ACCENT = {
    Severity.ERROR: "red",
    Severity.WARNING: "yellow",
    Severity.NOTE: "blue",
    Severity.OK: "green",
}
_ROLE_WIDTH = 30

# Of the messages in a log the last ones tell how it ended.
_MESSAGES = 5


def head(report: Report | Comparison, page: Page) -> Iterator[Text]:
    """Yield what is wrong and where in one line, and the summary below it."""
    found = report.diagnosis
    badge = page.text(found.severity.value.upper(), BADGE[found.severity])
    yield from page.wrap(_named(found, page, "bold"), Text("").join([badge, Text("  ")]))
    yield Text("")
    yield from page.wrap(found.summary)


def otherwise(report: Report, page: Page) -> Iterator[Text]:
    """Yield what the tree says of a run in which a symptom was found, and by the tree nothing."""
    if report.otherwise:
        yield from page.wrap(report.otherwise)


def actions(report: Report | Comparison, page: Page) -> Iterator[Text]:
    """Yield the first action, set off by a bar at its left, and what to do after it."""
    found = report.diagnosis
    if found.first_action and found.severity is Severity.OK:
        yield from page.wrap(found.first_action)
    elif found.first_action:
        bar = page.text("┃ ", ACCENT[found.severity])
        yield Text("")
        yield page.line(bar, page.text("FIRST ACTION", "bold"))
        yield from page.wrap(page.text(found.first_action, "bold"), bar, "┃ ")
    if found.next_actions:
        yield from page.heading("Then")
        for i, action in enumerate(found.next_actions, start=1):
            yield from page.wrap(action, f"  {i}. ")


def messages(report: Report, page: Page) -> Iterator[Text]:
    """Yield what the log says in words: out of memory, a time-out, a traceback."""
    said = report.history.messages
    if not said:
        return
    shown = said if page.verbose else said[-_MESSAGES:]
    more = f"the last {len(shown)} of {len(said)}" if len(shown) < len(said) else ""
    yield from page.heading("The log says", more)
    for event in shown:
        where = "" if event.line is None else f" (line {event.line})"
        yield from page.wrap(f"{event.message}{where}", "  ", "    ")


def also_found(report: Report | Comparison, page: Page) -> Iterator[Text]:
    """Yield the other findings, each with its own first action."""
    if report.also_found:
        yield from page.heading("Also found")
    for found in report.also_found:
        badge = page.text(found.severity.value.upper(), ACCENT[found.severity])
        yield from page.wrap(page.line(badge, "  ", _named(found, page)), "  ", "    ")
        yield from page.wrap(found.summary, "    ")
        if found.first_action:
            yield from page.wrap(found.first_action, page.text("    do: ", "bold"))


def not_logged(report: Report, page: Page) -> Iterator[Text]:
    """Yield what the log lacks, and what that costs; for a run that is well the names will do."""
    if not report.not_logged:
        return
    yield from page.heading(
        "Not logged", "what that costs; log it, or name its column (--column ROLE=NAME)"
    )
    if report.ok and not page.verbose:
        yield from page.wrap(", ".join(missing.role for missing in report.not_logged), "  ")
        return
    width = max(page.text(missing.role).cell_len for missing in report.not_logged)
    for missing in report.not_logged:
        role = page.cell(missing.role, min(width, _ROLE_WIDTH))
        yield from page.wrap(missing.cost, f"  {role}  ")


def unchecked(report: Report, page: Page) -> Iterator[Text]:
    """Yield in one line how many symptoms could not be checked, and for lack of what."""
    if not report.not_checked:
        return
    told = plural(len(report.not_checked), "symptom")
    if not page.verbose:
        lacking = [*report.lacking, *["points"][: any(one.reason for one in report.not_checked)]]
        told += f", for lack of {', '.join(lacking)}"
        title = page.text("Not checked", "bold")
        yield Text("")
        yield page.line(title, page.text(f"  {_whole(told, page, title.cell_len + 2)}", "dim"))
        return
    yield from page.heading("Not checked", told)
    for one in report.not_checked:
        yield from page.wrap(f"{one.symptom}: {one.because}", "  ", "    ")


def _whole(told: str, page: Page, before: int) -> str:
    """Return as many of the names that are told as the line holds, but for the first in full."""
    dots, room, shown = page.text("…").cell_len, page.width - before, told
    while page.text(shown).cell_len + dots * (shown != told) > room and ", " in shown:
        shown = shown.rpartition(", ")[0]
    return page.clip(shown if shown == told else f"{shown}…", room)


def foot(report: Report, page: Page) -> Iterator[Text]:
    """Yield the last lines: which log this was, and how to learn more."""
    source, first = report.history.source, report.history.first_step
    told = [f"{source.name} ({source.format}): {plural(source.records, 'record')}"]
    if source.unreadable:
        told.append(f"{source.unreadable} unreadable")
    if first is not None:
        told.append(f"{report.history.unit}s {first} to {report.history.last_step}")
    if source.attempts > 1:
        told.append(f"attempt {source.attempt} of {source.attempts}")
    if report.literal:
        told.append("the tree to the letter (--literal)")
    more = ["--verbose"] * (not page.verbose) + [f"stabdiag explain {report.diagnosis.slug}"]
    yield Text("")
    yield from page.wrap(page.text(", ".join(told), "dim"))
    yield from page.wrap(page.text(f"more: {'; '.join(more)}", "dim"))


def _named(found: Finding, page: Page, style: str = "") -> Text:
    """Return a finding's title, step and slug."""
    when = " (before the NaN)" if found.asked_of is AskedOf.LEAD_UP else ""
    return page.line(
        page.text(f"{found.headline}{when}", style), page.text(f"  [{found.slug}]", "dim")
    )
