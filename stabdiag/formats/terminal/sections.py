"""The sections of the terminal report, from the headline to the last line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text

from stabdiag.formats.measured import in_words, label, pairs
from stabdiag.formats.subject import (
    choose,
    decisive,
    notes,
    numbers,
    source_facts,
    unchecked,
    unchecked_by_reason,
    unchecked_count,
)
from stabdiag.formats.terminal.page import Page
from stabdiag.formats.terminal.plot import draw
from stabdiag.model.comparison import Comparison
from stabdiag.model.edges import NAMES
from stabdiag.model.findings import (
    Answer,
    AnswerScope,
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

# Styles of the answers. They have no ticks or crosses: "no" is good news for most questions.
ANSWER_STYLES = {Verdict.YES: "bold", Verdict.NO: "", Verdict.UNKNOWN: "dim"}

_ANSWER_WIDTH = 7
_ANSWER_INDENT = 8 + _ANSWER_WIDTH
_NAME_WIDTH, _VALUE_WIDTH = 26, 24

# The last messages of a log show how it ended.
_MAX_LAST_MESSAGES = 3

# Number of other findings, and of notes on how the log was read, that are shown.
_MAX_ALSO, _MAX_NOTES = 3, 4


def head(report: Report | Comparison, page: Page) -> Iterator[Text]:
    """Yield the diagnosis and its step in one line, and the summary."""
    diagnosis = report.diagnosis
    badge = page.text(diagnosis.severity.value.upper(), BADGE[diagnosis.severity])
    yield from page.wrap(_named(diagnosis, page, "bold"), Text("").join([badge, Text("  ")]))
    yield Text("")
    confidence = page.text(f" ({diagnosis.confidence.words})", "dim")
    yield from page.wrap(page.line(page.text(diagnosis.summary), confidence))


def _named(finding: Finding, page: Page, style: str = "") -> Text:
    when = " (before the NaN)" if page.verbose and finding.scope is AnswerScope.LEAD_UP else ""
    return page.line(
        page.text(f"{finding.headline}{when}", style), page.text(f"  [{finding.slug}]", "dim")
    )


def otherwise(report: Report, page: Page) -> Iterator[Text]:
    """Yield the summary of the tree if the diagnosis is a symptom."""
    if report.otherwise:
        yield from page.wrap(report.otherwise)


def actions(report: Report | Comparison, page: Page) -> Iterator[Text]:
    """Yield the first action with a bar at its left, and the next actions."""
    diagnosis = report.diagnosis
    if diagnosis.first_action and diagnosis.severity is Severity.OK:
        yield from page.wrap(diagnosis.first_action)
    elif diagnosis.first_action:
        bar = page.text("┃ ", ACCENT[diagnosis.severity])
        yield Text("")
        yield page.line(bar, page.text("FIRST ACTION", "bold"))
        yield from page.wrap(page.text(diagnosis.first_action, "bold"), bar, "┃ ")
    if diagnosis.next_actions:
        yield page.text("Then", "bold")
        for i, action in enumerate(diagnosis.next_actions, start=1):
            yield from page.wrap(action, f"  {i}. ")


def messages(report: Report, page: Page) -> Iterator[Text]:
    """Yield the messages in the log: out of memory, a timeout, a traceback."""
    events = report.history.messages
    if not events:
        return
    shown = events if page.verbose else events[-_MAX_LAST_MESSAGES:]
    detail = f"the last {len(shown)} of {len(events)}" if len(shown) < len(events) else ""
    yield from page.heading("The log says", detail)
    for event in shown:
        where = "" if event.line is None else f" (line {event.line})"
        yield from page.wrap(f"{event.message}{where}", "  ", "    ")


def evidence(report: Report, page: Page) -> Iterator[Text]:
    """Yield the plot of a finding; with ``verbose`` always a plot, and the deciding numbers."""
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
    """Yield named values, in two columns if they fit."""
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
    """Yield the other findings; with ``verbose``, their summaries and first actions too."""
    if report.also_found:
        yield from page.heading("Also found")
    shown = report.also_found if page.verbose else report.also_found[:_MAX_ALSO]
    for finding in shown:
        badge = page.text(finding.severity.value.upper(), ACCENT[finding.severity])
        yield from page.wrap(page.line(badge, "  ", _named(finding, page)), "  ", "    ")
        if page.verbose:
            yield from page.wrap(finding.summary, "    ")
        if page.verbose and finding.first_action:
            yield from page.wrap(finding.first_action, page.text("    do: ", "bold"))
    if hidden := len(report.also_found) - len(shown):
        yield page.text(f"  and {hidden} more", "dim")


def trail(report: Report, page: Page) -> Iterator[Text]:
    """Yield the answers in one line with the reasons of open ones; with ``verbose``, in full."""
    run = [a for a in report.tree.answers if a.scope is AnswerScope.RUN]
    lead = [a for a in report.tree.answers if a.scope is AnswerScope.LEAD_UP]
    if page.verbose:
        yield from _answers("Checked", run, report, page)
        yield from _answers("Before the NaN", lead, report, page)
        return
    yield Text("")
    # If the log is too short, its summary already says why the main questions are open.
    explained = open_questions(run) if report.tree.outcome.slug == "insufficient-data" else {}
    answers = Text(", ").join(
        _brief_answer(answer, page, why=answer.question not in explained) for answer in run
    )
    yield from page.wrap(answers, page.text("Checked  ", "bold"))


def _brief_answer(answer: Answer, page: Page, *, why: bool) -> Text:
    word = page.text(answer.word, ANSWER_STYLES[answer.verdict])
    because = f" ({answer.because})" if why and answer.verdict is Verdict.UNKNOWN else ""
    return (
        page.text(f"{NAMES[answer.question]}: ")
        .append_text(word)
        .append_text(page.text(because, "dim"))
    )


def answer_word(answer: Answer) -> str:
    """Return an answer as one word, or a question mark."""
    return "?" if answer.verdict is Verdict.UNKNOWN else answer.word


def _answers(title: str, answers: list[Answer], report: Report, page: Page) -> Iterator[Text]:
    if answers:
        yield from page.heading(title)
    deciding = decisive(report)
    for answer in answers:
        mark = page.text("▸ " if answer in deciding else "  ", ACCENT[report.diagnosis.severity])
        word = page.text(f"{answer_word(answer):<{_ANSWER_WIDTH}}", ANSWER_STYLES[answer.verdict])
        prefix = page.text("").join([mark, page.text(f"{answer.question:<6}"), word])
        yield from page.wrap(answer.because, prefix)
        yield from _details(answer, page)


def _details(answer: Answer, page: Page) -> Iterator[Text]:
    details = {
        "asked": answer.asks,
        "measured": pairs(answer.measured),
        "limits": pairs(answer.limits),
        "steps": ", ".join(str(step) for step in answer.steps),
        "branch": answer.branch or "",
    }
    for name, content in details.items():
        if content:
            prefix = page.text(f"{'':{_ANSWER_INDENT}}{name:<10}", "dim")
            yield from page.wrap(page.text(content, "dim"), prefix)


def missing(report: Report, page: Page) -> Iterator[Text]:
    """Yield the series and checks that are missing; with ``verbose``, the effect of each."""
    if not page.verbose:
        if not_checked := unchecked(report):
            yield from page.wrap(page.text(f"{not_checked}.", "dim"))
        return
    if report.not_logged:
        yield from page.heading("Not logged", "log it, or name its column (--column ROLE=NAME)")
    for item in report.not_logged:
        yield from page.wrap(f"{item.role}: {item.cost}", "  ", "    ")
    if report.not_checked:
        yield from page.heading("Symptoms not checked", unchecked_count(report))
    for why, symptoms in unchecked_by_reason(report):
        yield from page.wrap(f"{why}: {', '.join(symptoms)}", "  ", "    ")


def foot(report: Report, page: Page) -> Iterator[Text]:
    """Yield the log, notes on how it was read, and commands for more."""
    report_notes = notes(report, verbose=page.verbose)
    hidden = 0 if page.verbose else len(report_notes) - _MAX_NOTES
    rows = [
        ("log", ", ".join(source_facts(report))),
        *(report_notes[:_MAX_NOTES] if hidden > 0 else report_notes),
    ]
    if hidden > 0:
        rows.append(("", f"and {plural(hidden, 'more note')}"))
    commands = ["--verbose"] * (not page.verbose) + [f"stabdiag explain {report.diagnosis.slug}"]
    yield Text("")
    rows.append(("more", "; ".join(commands)))
    width = max(len(name) for name, _ in rows)
    for name, note in rows:
        yield from page.wrap(page.text(note, "dim"), page.text(f"{name:<{width}}  ", "dim"))
