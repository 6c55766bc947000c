"""The report as Markdown, for a comment on a pull request, an issue or the summary of a job.

What is wrong and what to do stands in the open; how it was found is folded away. It is plain GFM:
GitHub and GitLab show neither scripts nor inline pictures, so the chart is made of characters.
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
from stabdiag.model.findings import Answer, AskedOf, Finding, Severity, Verdict
from stabdiag.model.history import Series
from stabdiag.model.report import Report
from stabdiag.model.text import clipped, plural

MARK = "<!-- stabdiag -->"
"""The first line, by which a workflow finds its comment again."""

MOST = 60_000
"""Characters on a page; GitHub takes comments of 65,536."""

SIGNS = {
    Severity.ERROR: "❌",
    Severity.WARNING: "⚠️",
    Severity.NOTE: "\u2139\ufe0f",
    Severity.OK: "✅",
}

# In the order in which they are counted.
_WORDS = ("yes", "no", "found", "none", "unknown")

_FEW_NUMBERS = 6
_MESSAGES = 5
_MOST_NOTES = 30
_COLUMNS = 60
_LABEL = 20


def render(report: Report, *, command: str | None = None) -> str:
    """Return the report as Markdown; ``command`` is what makes the report again, if it is known."""
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
    while sum(len(block) + 2 for block in blocks) > MOST:
        longest = max(blocks, key=len)
        blocks[blocks.index(longest)] = "*Left out here: too long for a comment.*"
    return "\n\n".join(blocks) + "\n"


def head(found: Finding, about: str) -> Iterator[str]:
    """Yield the headline, a line that ends with what was looked at, and the summary."""
    yield f"### {SIGNS[found.severity]} {_named(found)}"
    yield f"**{found.severity.value}** · `{found.slug}` · {found.confidence.words} · {about}"
    yield escape(found.summary)


def _named(found: Finding) -> str:
    when = " (before the NaN)" if found.asked_of is AskedOf.LEAD_UP else ""
    return f"{escape(found.headline)}{when}"


def actions(report: Report | Comparison) -> Iterator[str]:
    """Yield the first action, set off, and the next ones."""
    found = report.diagnosis
    if found.first_action and found.severity is Severity.OK:
        yield escape(found.first_action)
    elif found.first_action:
        yield f"> **First action:** {escape(found.first_action)}"
    if found.next_actions:
        listed = (f"{i}. {escape(action)}" for i, action in enumerate(found.next_actions, start=1))
        yield "\n".join(["Then:", "", *listed])


def also_found(report: Report | Comparison) -> Iterator[str]:
    """Yield the other findings, each with its own first action."""
    if not report.also_found:
        return
    yield "**Also found**"
    yield "\n".join(
        f"- {SIGNS[found.severity]} **{_named(found)}** `{found.slug}` ({found.confidence.words}): "
        f"{escape(found.summary)}"
        + (f" *Do:* {escape(found.first_action)}" if found.first_action else "")
        for found in report.also_found
    )


def _messages(report: Report) -> Iterator[str]:
    said = report.history.messages
    if not said:
        return
    yield "**The log says**"
    yield "\n".join(
        f"- {code(event.message)}" + ("" if event.line is None else f" (line {event.line})")
        for event in said[-_MESSAGES:]
    )


def _evidence(report: Report) -> Iterator[str]:
    """Yield the chart and the deciding numbers; nothing where there is nothing to prove."""
    if not report.diagnosis.section:
        return
    plot = choose(report)
    values = list(numbers(report).items())[:_FEW_NUMBERS]
    if plot is not None or values:
        yield "**Evidence**"
    if plot is not None:
        series = (plot.series, *plot.companions)
        rows = [(clipped(s.role, _LABEL), s, span(s.finite().values)) for s in series]
        yield chart(rows, plot.first, plot.last, plot.event)
    if values:
        cells = [[escape(label(name)), escape(in_words(name, value))] for name, value in values]
        yield table(["Measured", "Value"], cells)


def chart(rows: Sequence[tuple[str, Series, str]], first: int, last: int, event: int | None) -> str:
    """Return a row of bars for each series, between its label and a note.

    A bar is as high as the highest point in its column, and a ``×`` where there is a NaN or an
    infinite value. The row below marks the step of the finding.
    """
    view = View(first=first, last=last, columns=_COLUMNS)
    drawn = [(label, f"{_bars(series, view)}  {note}") for label, series, note in rows]
    drawn.append(("step", step_labels(view, event)[0]))
    width = max(len(label) for label, _ in drawn)
    return block("\n".join(f"{label:<{width}}  {row}".rstrip() for label, row in drawn), "text")


def _bars(series: Series, view: View) -> str:
    bad = bad_columns(series, view)
    drawn = strip(series, view, ascii=False)
    return "".join("×" if b else char for char, b in zip(drawn, bad, strict=True))


def _untested(report: Report) -> Iterator[str]:
    """Yield what could not be tested, where a reader could take silence for health."""
    unknown = [a for a in report.tree.answers if a.verdict is Verdict.UNKNOWN]
    if report.tree.outcome.section or not unknown:
        return
    yield "**Could not be tested**"
    yield "\n".join(f"- {NAMES[answer.question]}: {escape(answer.because)}" for answer in unknown)


def _trail(report: Report) -> Iterator[str]:
    """Yield the questions with their answers; those that decided are in bold."""
    answers = report.tree.answers
    if not answers:
        return
    counts = Counter(answer.word for answer in answers)
    told = ", ".join(f"{counts[word]} {word}" for word in _WORDS if counts[word])
    deciding = decisive(report)
    rows = [_row(answer, strong=answer in deciding) for answer in answers]
    yield _folded(
        f"{plural(len(answers), 'question')}: {told}",
        table(["Question", "", "Answer", "Because"], rows),
    )
    limits = {name: value for answer in answers for name, value in answer.limits.items()}
    if limits:
        yield _folded(plural(len(limits), "limit"), escape(pairs(limits)))


def _row(answer: Answer, *, strong: bool) -> list[str]:
    word, asked = answer.word, escape(answer.asks)
    if answer.asked_of is AskedOf.LEAD_UP:
        asked = f"Before the NaN: {asked}"
    number = f"<sub>{answer.question}</sub>"
    return [asked, number, f"**{word}**" if strong else word, escape(answer.because)]


def _missing(report: Report) -> Iterator[str]:
    lines = [f"- {code(one.role)}: {escape(one.cost)}" for one in report.not_logged]
    if not_checked := unchecked(report):
        lines.append(f"- not checked: {escape(not_checked)}")
    if lines:
        yield _folded("Not logged", "\n".join(lines))


def _reading(report: Report) -> Iterator[str]:
    lines = [f"- {kind}: {escape(told)}" for kind, told in notes(report)]
    left = len(lines) - _MOST_NOTES
    more = [f"- … and {left} more"] if left > 0 else []
    if lines:
        yield _folded("How the log was read", "\n".join([*lines[:_MOST_NOTES], *more]))


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{content}\n\n</details>"


def foot(found: Finding, command: str | None, told: Sequence[str]) -> Iterator[str]:
    """Yield the commands that print this and more, and what was read."""
    commands = [command or "", f"stabdiag explain {found.slug}"]
    yield block("\n".join(line for line in commands if line), "sh")
    yield signed(told)


def signed(told: Sequence[str]) -> str:
    """Return the last line: the version, and what was read."""
    return f"<sub>{' · '.join(map(escape, (f'stabdiag {__version__}', *told)))}</sub>"
