"""The trail: what was asked, and what the log answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.formats.deciding import decisive
from stabdiag.formats.measured import pairs
from stabdiag.formats.terminal.sections import ACCENT
from stabdiag.model.findings import Answer, AskedOf, Verdict
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from stabdiag.formats.terminal.page import Page
    from stabdiag.model.report import Report

# Words, not ticks and crosses: a "no" is good news for most questions.
STYLES = {Verdict.YES: "bold", Verdict.NO: "", Verdict.UNKNOWN: "dim"}
_WORD = 7
_INDENT = 8 + _WORD


def word(answer: Answer) -> str:
    """Return an answer in one word, or a question mark."""
    return "?" if answer.verdict is Verdict.UNKNOWN else answer.word


def trail(report: Report, page: Page) -> Iterator[Text]:
    """Yield one sentence an answer; with ``verbose`` also its numbers, and the lead-up."""
    run = [a for a in report.tree.answers if a.asked_of is AskedOf.RUN]
    lead = [a for a in report.tree.answers if a.asked_of is AskedOf.LEAD_UP]
    for title, answers in _grouped(run, report):
        yield from _answers(title, answers, report, page)
    if page.verbose:
        yield from _answers("What led up to it", lead, report, page)
    elif lead:
        found = ", ".join(a.question for a in lead if a.verdict is Verdict.YES)
        told = f"Of the {plural(len(lead), 'question')} asked of the steps before the NaN, "
        told += f"{found} found something" if found else "none found anything"
        yield from page.wrap(page.text(f"{told} (--verbose).", "dim"), " " * _INDENT)


def _grouped(run: list[Answer], report: Report) -> list[tuple[str, list[Answer]]]:
    """Tell what was tested from what could not be, where nothing was found."""
    if report.tree.outcome.section:
        return [("Trail", run)]
    unknown = [a for a in run if a.verdict is Verdict.UNKNOWN]
    tested = [a for a in run if a.verdict is not Verdict.UNKNOWN]
    return [("Tested", tested), ("Could not be tested", unknown)]


def _answers(title: str, answers: list[Answer], report: Report, page: Page) -> Iterator[Text]:
    if answers:
        yield from page.heading(title)
    weighing = decisive(report)
    for answer in answers:
        mark = page.text("▸ " if answer in weighing else "  ", ACCENT[report.diagnosis.severity])
        told = page.text(f"{word(answer):<{_WORD}}", STYLES[answer.verdict])
        prefix = page.text("").join([mark, page.text(f"{answer.question:<6}"), told])
        yield from page.wrap(page.text(answer.because, _quiet(answer)), prefix)
        if page.verbose:
            yield from _details(answer, page)


def _quiet(answer: Answer) -> str:
    return "dim" if answer.verdict is Verdict.UNKNOWN else ""


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
