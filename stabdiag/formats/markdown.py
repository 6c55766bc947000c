"""The report as Markdown, for a comment on a pull request, an issue or the summary of a job.

What is wrong and what to do stands in the open; how it was found is folded away. It is plain GFM:
GitHub and GitLab show neither scripts nor inline pictures, so the chart is made of characters.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stabdiag._version import __version__
from stabdiag.formats.canvas import View, bad_columns, strip
from stabdiag.formats.markdown_text import block, code, escape, table
from stabdiag.formats.measured import in_words, label, pairs, span
from stabdiag.formats.reading import notes, source_facts, unchecked
from stabdiag.formats.subject import choose, decisive, numbers
from stabdiag.model.edges import NAMES
from stabdiag.model.findings import Answer, AskedOf, Severity, Verdict
from stabdiag.model.text import clipped, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.formats.subject import Plot
    from stabdiag.model.comparison import Comparison
    from stabdiag.model.findings import Finding
    from stabdiag.model.history import Series
    from stabdiag.model.report import Report

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
        *_head(report),
        *actions(report),
        *also_found(report),
        *_messages(report),
        *_evidence(report),
        *_untested(report),
        *_trail(report),
        *_missing(report),
        *_reading(report),
        *_foot(report, command),
    ]
    while sum(len(block) + 2 for block in blocks) > MOST:
        longest = max(blocks, key=len)
        blocks[blocks.index(longest)] = "*Left out here: too long for a comment.*"
    return "\n\n".join(blocks) + "\n"


def _head(report: Report) -> Iterator[str]:
    """Yield the headline and the summary."""
    found = report.diagnosis
    yield f"### {SIGNS[found.severity]} {_named(found)}"
    yield f"**{found.severity.value}** · `{found.slug}` · {code(report.history.source.name)}"
    yield escape(found.summary)
    if report.otherwise:
        yield escape(report.otherwise)


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
        f"- {SIGNS[found.severity]} **{_named(found)}** `{found.slug}`: {escape(found.summary)}"
        + (f" *Do:* {escape(found.first_action)}" if found.first_action else "")
        for found in report.also_found
    )


def _messages(report: Report) -> Iterator[str]:
    """Yield the last of what the log says in words."""
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
        yield _bars_of(plot)
    if values:
        rows = [[escape(label(name)), escape(in_words(name, value))] for name, value in values]
        yield table(["Measured", "Value"], rows)


def _bars_of(plot: Plot) -> str:
    """Return a row of bars for each series, each as high as the highest point in its column.

    What is NaN or infinite is a ``×``; the row below marks the step of the finding.
    """
    view = View(first=plot.first, last=plot.last, columns=_COLUMNS)
    series = (plot.series, *plot.companions)
    labels = [clipped(one.role, _LABEL) for one in series]
    width = max(map(len, labels))
    rows = [
        f"{label:<{width}}  {_bars(one, view)}  {span(one.finite().values)}"
        for label, one in zip(labels, series, strict=True)
    ]
    return block("\n".join([*rows, f"{'step':<{width}}  {_axis(plot, view)}".rstrip()]), "text")


def _bars(series: Series, view: View) -> str:
    bad = bad_columns(series, view)
    drawn = strip(series, view, ascii=False)
    return "".join("×" if b else char for char, b in zip(drawn, bad, strict=True))


def _axis(plot: Plot, view: View) -> str:
    """Return the first and the last step, and the finding's between them where there is room."""
    first, last = str(plot.first), str(plot.last)
    row = list(f"{first}{' ' * (_COLUMNS - len(first) - len(last))}{last}")
    if plot.event is not None:
        label = f"▲ {plot.event}"
        begin = min(view.column(plot.event), _COLUMNS - len(label))
        room = slice(max(begin - 1, 0), begin + len(label) + 1)
        if "".join(row[room]).strip():  # the finding's step is the one that must be shown
            row = [" "] * _COLUMNS
        row[begin : begin + len(label)] = label
    return "".join(row)


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
    """Yield what is not in the log, and what that costs."""
    lines = [f"- {code(one.role)}: {escape(one.cost)}" for one in report.not_logged]
    if report.not_checked:
        lines.append(f"- not checked: {escape(unchecked(report))}")
    if lines:
        yield _folded("Not logged", "\n".join(lines))


def _reading(report: Report) -> Iterator[str]:
    """Yield how the log was read."""
    lines = [f"- {kind}: {escape(told)}" for kind, told in notes(report)]
    left = len(lines) - _MOST_NOTES
    more = [f"- … and {left} more"] if left > 0 else []
    yield _folded("How the log was read", "\n".join([*lines[:_MOST_NOTES], *more]))


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{content}\n\n</details>"


def _foot(report: Report, command: str | None) -> Iterator[str]:
    """Yield the commands that print this and more, and which log this was."""
    commands = [command or "", f"stabdiag explain {report.diagnosis.slug}"]
    yield block("\n".join(line for line in commands if line), "sh")
    told = [f"stabdiag {__version__}", *map(escape, source_facts(report))]
    yield f"<sub>{' · '.join(told)}</sub>"
