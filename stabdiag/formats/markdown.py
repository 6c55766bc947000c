"""The report as Markdown, for a comment on a pull request, an issue or the summary of a job.

The diagnosis and the actions are visible; the details are folded. It is plain GFM: GitHub and
GitLab show no scripts or inline images, so the chart consists of characters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from stabdiag._version import __version__
from stabdiag.formats.canvas import View, bad_columns, step_labels, strip
from stabdiag.formats.markdown_text import block, code, escape, table
from stabdiag.formats.measured import in_words, label, pairs, span
from stabdiag.formats.subject import choose, decisive, notes, numbers, source_facts, unchecked
from stabdiag.model.comparison import Comparison
from stabdiag.model.edges import NAMES
from stabdiag.model.findings import Answer, AnswerScope, Finding, Severity, Verdict
from stabdiag.model.history import Series
from stabdiag.model.report import Report
from stabdiag.model.text import clipped, plural

MARK = "<!-- stabdiag -->"
"""The first line; a workflow finds its comment by it."""

MAX_CHARS = 60_000
"""Maximum number of characters; GitHub accepts comments of 65,536."""

SIGNS = {
    Severity.ERROR: "❌",
    Severity.WARNING: "⚠️",
    Severity.NOTE: "\u2139\ufe0f",
    Severity.OK: "✅",
}

# The order of the counts.
_COUNT_ORDER = ("yes", "no", "found", "none", "unknown")

_MAX_NUMBERS = 6
_MARKDOWN_MESSAGES = 5
_MAX_NOTES = 30
_PLOT_COLUMNS = 60
_MAX_LABEL = 20


def render(report: Report, *, command: str | None = None) -> str:
    """Return the report as Markdown; ``command`` reproduces it, if known."""
    blocks = [
        MARK,
        *head(report.diagnosis, code(report.history.source.name)),
        *([escape(report.otherwise)] if report.otherwise else []),
        *actions(report),
        *also_found(report),
        *_messages(report),
        *_evidence(report),
        *_untested(report),
        *_trail(report),
        *_missing(report),
        *_reading(report),
        *foot(report.diagnosis, command, source_facts(report)),
    ]
    while sum(len(block) + 2 for block in blocks) > MAX_CHARS:
        longest = max(blocks, key=len)
        blocks[blocks.index(longest)] = "*Left out: too long for a comment.*"
    return "\n\n".join(blocks) + "\n"


def head(finding: Finding, subject: str) -> Iterator[str]:
    """Yield the headline, a line that ends with the subject, and the summary."""
    yield f"### {SIGNS[finding.severity]} {_named(finding)}"
    facts = (
        f"**{finding.severity.value}**",
        f"`{finding.slug}`",
        finding.confidence.words,
        subject,
    )
    yield " · ".join(facts)
    yield escape(finding.summary)


def _named(finding: Finding) -> str:
    when = " (before the NaN)" if finding.scope is AnswerScope.LEAD_UP else ""
    return f"{escape(finding.headline)}{when}"


def actions(report: Report | Comparison) -> Iterator[str]:
    """Yield the first action as a quote, and the next actions."""
    diagnosis = report.diagnosis
    if diagnosis.first_action and diagnosis.severity is Severity.OK:
        yield escape(diagnosis.first_action)
    elif diagnosis.first_action:
        yield f"> **First action:** {escape(diagnosis.first_action)}"
    if diagnosis.next_actions:
        listed = (
            f"{i}. {escape(action)}" for i, action in enumerate(diagnosis.next_actions, start=1)
        )
        yield "\n".join(["Then:", "", *listed])


def also_found(report: Report | Comparison) -> Iterator[str]:
    """Yield the other findings, each with its own first action."""
    if not report.also_found:
        return
    yield "**Also found**"
    yield "\n".join(map(_listed, report.also_found))


def _listed(finding: Finding) -> str:
    action = f" *Do:* {escape(finding.first_action)}" if finding.first_action else ""
    return (
        f"- {SIGNS[finding.severity]} **{_named(finding)}** `{finding.slug}` "
        f"({finding.confidence.words}): {escape(finding.summary)}{action}"
    )


def _messages(report: Report) -> Iterator[str]:
    messages = report.history.messages
    if not messages:
        return
    yield "**The log says**"
    yield "\n".join(
        f"- {code(event.message)}" + ("" if event.line is None else f" (line {event.line})")
        for event in messages[-_MARKDOWN_MESSAGES:]
    )


def _evidence(report: Report) -> Iterator[str]:
    """Yield the chart and the deciding numbers, if there is a finding to prove."""
    if not report.diagnosis.section:
        return
    plot = choose(report)
    values = list(numbers(report).items())[:_MAX_NUMBERS]
    if plot is not None or values:
        yield "**Evidence**"
    if plot is not None:
        series = (plot.series, *plot.companions)
        rows = [(clipped(s.role, _MAX_LABEL), s, span(s.finite().values)) for s in series]
        yield chart(rows, plot.first, plot.last, plot.event)
    if values:
        cells = [[escape(label(name)), escape(in_words(name, value))] for name, value in values]
        yield table(["Measured", "Value"], cells)


def chart(rows: Sequence[tuple[str, Series, str]], first: int, last: int, event: int | None) -> str:
    """Return a row of bars for each series, between its label and a note.

    A bar shows the highest point in its column; ``×`` marks NaN or infinite values. The row below
    marks the step of the finding.
    """
    view = View(first=first, last=last, columns=_PLOT_COLUMNS)
    drawn = [(label, f"{_bars(series, view)}  {note}") for label, series, note in rows]
    drawn.append(("step", step_labels(view, event)[0]))
    width = max(len(label) for label, _ in drawn)
    return block("\n".join(f"{label:<{width}}  {row}".rstrip() for label, row in drawn), "text")


def _bars(series: Series, view: View) -> str:
    bad = bad_columns(series, view)
    drawn = strip(series, view, ascii=False)
    return "".join("×" if b else char for char, b in zip(drawn, bad, strict=True))


def _untested(report: Report) -> Iterator[str]:
    """Yield the open questions of a run without a finding, which could otherwise look healthy."""
    unknown = [a for a in report.tree.answers if a.verdict is Verdict.UNKNOWN]
    if report.tree.outcome.section or not unknown:
        return
    yield "**Could not be tested**"
    yield "\n".join(f"- {NAMES[answer.question]}: {escape(answer.because)}" for answer in unknown)


def _trail(report: Report) -> Iterator[str]:
    """Yield the questions with their answers; the deciding answers are bold."""
    answers = report.tree.answers
    if not answers:
        return
    counts = Counter(answer.word for answer in answers)
    summary = ", ".join(f"{counts[word]} {word}" for word in _COUNT_ORDER if counts[word])
    deciding = decisive(report)
    rows = [_row(answer, strong=answer in deciding) for answer in answers]
    yield _folded(
        f"{plural(len(answers), 'question')}: {summary}",
        table(["Question", "", "Answer", "Because"], rows),
    )
    limits = {name: value for answer in answers for name, value in answer.limits.items()}
    if limits:
        yield _folded(plural(len(limits), "limit"), escape(pairs(limits)))


def _row(answer: Answer, *, strong: bool) -> list[str]:
    word, question = answer.word, escape(answer.asks)
    if answer.scope is AnswerScope.LEAD_UP:
        question = f"Before the NaN: {question}"
    number = f"<sub>{answer.question}</sub>"
    return [question, number, f"**{word}**" if strong else word, escape(answer.because)]


def _missing(report: Report) -> Iterator[str]:
    lines = [f"- {code(skipped.role)}: {escape(skipped.cost)}" for skipped in report.not_logged]
    if not_checked := unchecked(report):
        lines.append(f"- not checked: {escape(not_checked)}")
    if lines:
        yield _folded("Not logged", "\n".join(lines))


def _reading(report: Report) -> Iterator[str]:
    lines = [f"- {kind}: {escape(text)}" for kind, text in notes(report)]
    left = len(lines) - _MAX_NOTES
    cut = [f"- … and {left} more"] if left > 0 else []
    if lines:
        yield _folded("How the log was read", "\n".join([*lines[:_MAX_NOTES], *cut]))


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{content}\n\n</details>"


def foot(finding: Finding, command: str | None, facts: Sequence[str]) -> Iterator[str]:
    """Yield the commands for this report and the explanation, and the facts about the input."""
    commands = [command or "", f"stabdiag explain {finding.slug}"]
    yield block("\n".join(line for line in commands if line), "sh")
    yield signed(facts)


def signed(facts: Sequence[str]) -> str:
    """Return the last line: the version, and the facts about the input."""
    return f"<sub>{' · '.join(map(escape, (f'stabdiag {__version__}', *facts)))}</sub>"
