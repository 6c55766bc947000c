"""The sections of the terminal report, from the headline to the last line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text

from stabdiag.formats.measured import in_words, label, pairs
from stabdiag.formats.subject import choose, decisive, notes, numbers, source_facts, unchecked
from stabdiag.formats.terminal.page import Page
from stabdiag.formats.terminal.plot import draw
from stabdiag.model.comparison import Comparison
from stabdiag.model.edges import NAMES
from stabdiag.model.findings import (
    Answer,
    AskedOf,
    Finding,
    Scalar,
    Severity,
    Verdict,
    open_questions,
)
from stabdiag.model.report import Report
from stabdiag.model.text import plural

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
_NAME_WIDTH, _VALUE_WIDTH = 26, 24

# Of the messages in a log the last ones tell how it ended.
_MESSAGES = 3

# Of other findings and of notes on how the log was read the first ones are told.
_ALSO, _NOTES = 3, 4


def head(report: Report | Comparison, page: Page) -> Iterator[Text]:
    """Yield what is wrong and where in one line, and the summary below it."""
    found = report.diagnosis
    badge = page.text(found.severity.value.upper(), BADGE[found.severity])
    yield from page.wrap(_named(found, page, "bold"), Text("").join([badge, Text("  ")]))
    yield Text("")
    confidence = page.text(f" ({found.confidence.words})", "dim")
    yield from page.wrap(page.line(page.text(found.summary), confidence))


def _named(found: Finding, page: Page, style: str = "") -> Text:
    when = " (before the NaN)" if page.verbose and found.asked_of is AskedOf.LEAD_UP else ""
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
        yield page.text("Then", "bold")
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
    """Yield the plot, with ``verbose`` also the deciding numbers; of a healthy run the latter."""
    plot = choose(report) if report.diagnosis.section or page.verbose else None
    if plot is not None:
        yield Text("")
        yield from draw(plot, page)
    if page.verbose:
        yield Text("")
        yield from _grid(numbers(report), page)
        limits = {name: value for a in decisive(report) for name, value in a.limits.items()}
        if limits:
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
    """Yield the other findings; with ``verbose`` each with its summary and first action."""
    if report.also_found:
        yield from page.heading("Also found")
    shown = report.also_found if page.verbose else report.also_found[:_ALSO]
    for found in shown:
        badge = page.text(found.severity.value.upper(), ACCENT[found.severity])
        yield from page.wrap(page.line(badge, "  ", _named(found, page)), "  ", "    ")
        if page.verbose:
            yield from page.wrap(found.summary, "    ")
        if page.verbose and found.first_action:
            yield from page.wrap(found.first_action, page.text("    do: ", "bold"))
    if more := len(report.also_found) - len(shown):
        yield page.text(f"  and {more} more", "dim")


def trail(report: Report, page: Page) -> Iterator[Text]:
    """Yield the answers in a line, with why one is open; with ``verbose`` in full."""
    run = [a for a in report.tree.answers if a.asked_of is AskedOf.RUN]
    lead = [a for a in report.tree.answers if a.asked_of is AskedOf.LEAD_UP]
    if page.verbose:
        yield from _answers("Asked", run, report, page)
        yield from _answers("Before the NaN", lead, report, page)
        return
    yield Text("")
    # The summary of too short a log tells why its main questions are open.
    known = open_questions(run) if report.tree.outcome.slug == "insufficient-data" else {}
    told = Text(", ").join(_in_short(one, page, why=one.question not in known) for one in run)
    yield from page.wrap(told, page.text("Asked  ", "bold"))


def _in_short(answer: Answer, page: Page, *, why: bool) -> Text:
    word = page.text(answer.word, ANSWERS[answer.verdict])
    because = f" ({answer.because})" if why and answer.verdict is Verdict.UNKNOWN else ""
    return (
        page.text(f"{NAMES[answer.question]}: ")
        .append_text(word)
        .append_text(page.text(because, "dim"))
    )


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
        yield from page.wrap(answer.because, prefix)
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


def missing(report: Report, page: Page) -> Iterator[Text]:
    """Yield what was not logged and what was not checked, with ``verbose`` at what cost each."""
    if not page.verbose:
        if told := unchecked(report):
            yield from page.wrap(page.text(f"{told}.", "dim"))
        return
    if report.not_logged:
        yield from page.heading("Not logged", "log it, or name its column (--column ROLE=NAME)")
    for one in report.not_logged:
        yield from page.wrap(f"{one.role}: {one.cost}", "  ", "    ")
    if report.not_checked:
        yield from page.heading("Not checked", plural(len(report.not_checked), "symptom"))
    for skipped in report.not_checked:
        yield from page.wrap(f"{skipped.symptom}: {skipped.because}", "  ", "    ")


def foot(report: Report, page: Page) -> Iterator[Text]:
    """Yield which log this was, what a reader could dispute about how it was read, and the rest."""
    told = notes(report, verbose=page.verbose)
    left = 0 if page.verbose else len(told) - _NOTES
    rows = [("log", ", ".join(source_facts(report))), *(told[:_NOTES] if left > 0 else told)]
    if left > 0:
        rows.append(("", f"and {plural(left, 'more note')}"))
    more = ["--verbose"] * (not page.verbose) + [f"stabdiag explain {report.diagnosis.slug}"]
    yield Text("")
    rows.append(("more", "; ".join(more)))
    width = max(len(name) for name, _ in rows)
    for name, note in rows:
        yield from page.wrap(page.text(note, "dim"), page.text(f"{name:<{width}}  ", "dim"))
