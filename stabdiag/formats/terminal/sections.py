"""The sections of the terminal report, from the headline to the last line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from stabdiag.formats.measured import in_words, label, pairs
from stabdiag.formats.reading import notes, source_facts, unchecked
from stabdiag.formats.subject import choose, decisive, numbers
from stabdiag.formats.terminal.plot import draw
from stabdiag.model.findings import Answer, AskedOf, Finding, Severity, Verdict
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stabdiag.formats.terminal.page import Page
    from stabdiag.model.comparison import Comparison
    from stabdiag.model.findings import Scalar
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

# Words, not ticks and crosses: a "no" is good news for most questions.
ANSWERS = {Verdict.YES: "bold", Verdict.NO: "", Verdict.UNKNOWN: "dim"}

_WORD = 7
_INDENT = 8 + _WORD
_ROLE_WIDTH = 30
_NAME_WIDTH, _VALUE_WIDTH = 26, 24
_FEW_NUMBERS = 8

# Of the messages in a log the last ones tell how it ended.
_MESSAGES = 5


def head(report: Report | Comparison, page: Page) -> Iterator[Text]:
    """Yield what is wrong and where in one line, and the summary below it."""
    found = report.diagnosis
    badge = page.text(found.severity.value.upper(), BADGE[found.severity])
    yield from page.wrap(_named(found, page, "bold"), Text("").join([badge, Text("  ")]))
    yield Text("")
    yield from page.wrap(found.summary)


def _named(found: Finding, page: Page, style: str = "") -> Text:
    """Return a finding's title, step and slug."""
    when = " (before the NaN)" if found.asked_of is AskedOf.LEAD_UP else ""
    return page.line(
        page.text(f"{found.headline}{when}", style), page.text(f"  [{found.slug}]", "dim")
    )


def otherwise(report: Report, page: Page) -> Iterator[Text]:
    """Yield the tree's own summary where only a symptom was found."""
    if report.otherwise:
        yield from page.wrap(report.otherwise)


def actions(report: Report | Comparison, page: Page) -> Iterator[Text]:
    """Yield the first action, set off by a bar at its left, and the next ones."""
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


def evidence(report: Report, page: Page) -> Iterator[Text]:
    """Yield the plot and the deciding numbers; nothing where there is nothing to prove."""
    if not report.diagnosis.section and not page.verbose:
        return
    values, plot = numbers(report), choose(report)
    if plot is None and not values:
        return
    yield from page.heading("Evidence")
    if plot is not None:
        yield from draw(plot, page)
    if plot is not None and values:
        yield Text("")
    yield from _grid(values if page.verbose else dict(list(values.items())[:_FEW_NUMBERS]), page)
    limits = {name: value for a in decisive(report) for name, value in a.limits.items()}
    if limits and page.verbose:
        yield from page.wrap(pairs(limits), page.text("  limits  ", "dim"))


def _grid(values: Mapping[str, Scalar], page: Page) -> Iterator[Text]:
    """Yield values by name, in two columns where they fit."""
    cells = [(page.text(label(n)), page.text(in_words(n, v))) for n, v in values.items()]
    name_width = min(max((n.cell_len for n, _ in cells), default=0), _NAME_WIDTH)
    value_width = min(max((v.cell_len for _, v in cells), default=0), _VALUE_WIDTH)
    columns = 2 if page.width >= 2 * (name_width + value_width + 6) else 1
    for i in range(0, len(cells), columns):
        row = ["  "]
        for name, value in cells[i : i + columns]:
            row += [page.cell(name.plain, name_width), "  "]
            row += [page.cell(value.plain, value_width), "    "]
        yield page.line(page.clip("".join(row).rstrip(), page.width))


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


def trail(report: Report, page: Page) -> Iterator[Text]:
    """Yield each question with its answer; with ``verbose`` also its numbers, and the lead-up.

    If nothing was found, tested and untested questions are listed apart.
    """
    run = [a for a in report.tree.answers if a.asked_of is AskedOf.RUN]
    lead = [a for a in report.tree.answers if a.asked_of is AskedOf.LEAD_UP]
    if report.tree.outcome.section:
        yield from _answers("Trail", run, report, page)
    else:
        unknown = [a for a in run if a.verdict is Verdict.UNKNOWN]
        yield from _answers("Tested", [a for a in run if a not in unknown], report, page)
        yield from _answers("Could not be tested", unknown, report, page)
    if page.verbose:
        yield from _answers("Before the NaN", lead, report, page)
    elif lead:
        found = ", ".join(a.question for a in lead if a.verdict is Verdict.YES)
        told = f"Before the NaN: {plural(len(lead), 'question')}, {found or 'none'} answered yes"
        yield from page.wrap(page.text(f"{told} (--verbose).", "dim"), " " * _INDENT)


def answer_word(answer: Answer) -> str:
    """Return an answer in one word, or a question mark."""
    return "?" if answer.verdict is Verdict.UNKNOWN else answer.word


def _answers(title: str, answers: list[Answer], report: Report, page: Page) -> Iterator[Text]:
    if answers:
        yield from page.heading(title)
    weighing = decisive(report)
    for answer in answers:
        mark = page.text("▸ " if answer in weighing else "  ", ACCENT[report.diagnosis.severity])
        told = page.text(f"{answer_word(answer):<{_WORD}}", ANSWERS[answer.verdict])
        prefix = page.text("").join([mark, page.text(f"{answer.question:<6}"), told])
        quiet = "dim" if answer.verdict is Verdict.UNKNOWN else ""
        yield from page.wrap(page.text(answer.because, quiet), prefix)
        if page.verbose:
            yield from _details(answer, page)


def _details(answer: Answer, page: Page) -> Iterator[Text]:
    told = {
        "asked": answer.asks,
        "measured": pairs(answer.measured),
        "limits": pairs(answer.limits),
        "steps": ", ".join(str(step) for step in answer.steps),
        "branch": answer.branch or "",
    }
    for name, content in told.items():
        if content:
            prefix = page.text(f"{'':{_INDENT}}{name:<10}", "dim")
            yield from page.wrap(page.text(content, "dim"), prefix)


def not_logged(report: Report, page: Page) -> Iterator[Text]:
    """Yield what the log lacks and what that costs; for a healthy run the names alone."""
    if not report.not_logged:
        return
    yield from page.heading("Not logged", "log it, or name its column (--column ROLE=NAME)")
    if report.ok and not page.verbose:
        yield from page.wrap(", ".join(missing.role for missing in report.not_logged), "  ")
        return
    width = max(page.text(missing.role).cell_len for missing in report.not_logged)
    for missing in report.not_logged:
        role = page.cell(missing.role, min(width, _ROLE_WIDTH))
        yield from page.wrap(missing.cost, f"  {role}  ")


def not_checked(report: Report, page: Page) -> Iterator[Text]:
    """Yield in one line how many symptoms could not be checked, and what they need."""
    if not report.not_checked:
        return
    if not page.verbose:
        title = page.text("Not checked", "bold")
        yield Text("")
        told = _whole(unchecked(report), page, title.cell_len + 2)
        yield page.line(title, page.text(f"  {told}", "dim"))
        return
    yield from page.heading("Not checked", plural(len(report.not_checked), "symptom"))
    for one in report.not_checked:
        yield from page.wrap(f"{one.symptom}: {one.because}", "  ", "    ")


def _whole(told: str, page: Page, before: int) -> str:
    """Return as many whole names as the line holds, but the first in any case."""
    dots, room, shown = page.text("…").cell_len, page.width - before, told
    while page.text(shown).cell_len + dots * (shown != told) > room and ", " in shown:
        shown = shown.rpartition(", ")[0]
    return page.clip(shown if shown == told else f"{shown}…", room)


def reading(report: Report, page: Page) -> Iterator[Text]:
    """Yield a note for everything about the input that a reader could dispute."""
    told = notes(report, verbose=page.verbose)
    width = max(len(name) for name, _ in told)
    yield from page.heading("How the log was read")
    for name, note in told:
        yield from page.wrap(note, f"  {name:<{width}}  ")


def foot(report: Report, page: Page) -> Iterator[Text]:
    """Yield the last lines: which log this was, and how to learn more."""
    more = ["--verbose"] * (not page.verbose) + [f"stabdiag explain {report.diagnosis.slug}"]
    yield Text("")
    yield from page.wrap(page.text(", ".join(source_facts(report)), "dim"))
    yield from page.wrap(page.text(f"more: {'; '.join(more)}", "dim"))
