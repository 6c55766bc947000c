"""The report as Markdown, for a comment on a pull request, an issue or the summary of a job.

What is wrong and what to do stands in the open; how it was found is folded away. It is plain GFM:
GitHub and GitLab show neither scripts nor inline pictures, so the chart is made of characters.

Log text is made inert for CommonMark as GitHub and GitLab extend it. They turn plain text into
links, mentions and pictures after the Markdown is read, where a backslash does not help: a
zero-width space separates such a sign from what follows. Both leave code spans alone.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from stabdiag._version import __version__
from stabdiag.formats.canvas import View, bad_columns, strip
from stabdiag.formats.measured import in_words, label, pairs, span, visible
from stabdiag.formats.reading import notes, source_facts, unchecked
from stabdiag.formats.subject import choose, decisive, numbers
from stabdiag.model.findings import Answer, AskedOf, Severity, Verdict
from stabdiag.model.text import clipped, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

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

GAP = "\u200b"
"""What separates a sign from what follows: a zero-width space."""

# What either site turns into something else: @user, #1, !1, $1, %1, &1, ~label, ^alert, [issue:1],
# http://, :emoji:, www.example.org and GH-1.
_SIGNS = re.compile(
    r"[@#!$%&~](?=[\w\"'])|\^(?=alert)|\[(?=\w+:)|:(?=//|[\w+-]+:)|www(?=\.)|\bGH(?=-\d)",
    re.IGNORECASE,
)
_TABLE = str.maketrans(
    {
        **{char: f"\\{char}" for char in "\\`*[]|~"},
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        "$": "&#36;",  # a formula begins with one, with a backslash before it as well
        GAP: "&#8203;",
    }
)
# Between letters an underline is no emphasis, and names stay easy to read without a backslash.
_UNDERLINE = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
# Where headings, lists, rules and GitLab's /commands begin, if the text is the first of its line.
_START = re.compile(r"^\d+(?=[.)](?:\s|$))|^(?=[#=/]|[-+](?:[-+\s]|$))")
_PLAIN = re.compile(r"[^`|]*[^`| ]")


def render(report: Report, *, command: str | None = None) -> str:
    """Return the report as Markdown; ``command`` is what makes the report again, if it is known."""
    return page(report, chart=bars, command=command)


def page(report: Report, *, chart: Callable[[Plot], str], command: str | None) -> str:
    """Return the report as Markdown, with the evidence drawn by ``chart``."""
    blocks = [
        MARK,
        *_head(report),
        *actions(report),
        *also_found(report),
        *_messages(report),
        *_evidence(report, chart),
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


def _evidence(report: Report, chart: Callable[[Plot], str]) -> Iterator[str]:
    """Yield the chart and the deciding numbers; nothing where there is nothing to prove."""
    if not report.diagnosis.section:
        return
    plot = choose(report)
    values = list(numbers(report).items())[:_FEW_NUMBERS]
    if plot is not None or values:
        yield "**Evidence**"
    if plot is not None:
        yield chart(plot)
    if values:
        rows = [[escape(label(name)), escape(in_words(name, value))] for name, value in values]
        yield table(["Measured", "Value"], rows)


def bars(plot: Plot) -> str:
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
    yield "\n".join(f"- {answer.question}: {escape(answer.because)}" for answer in unknown)


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
        table(["", "Question", "Answer", "Because"], rows),
    )
    limits = {name: value for answer in answers for name, value in answer.limits.items()}
    if limits:
        yield _folded(plural(len(limits), "limit"), escape(pairs(limits)))


def _row(answer: Answer, *, strong: bool) -> list[str]:
    word, asked = answer.word, escape(answer.asks)
    if answer.asked_of is AskedOf.LEAD_UP:
        asked = f"Before the NaN: {asked}"
    return [answer.question, asked, f"**{word}**" if strong else word, escape(answer.because)]


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


def escape(text: str) -> str:
    """Return log text as Markdown that shows it, in a paragraph, a list or a cell of a table."""
    parted = _SIGNS.sub(lambda sign: sign.group() + GAP, visible(text).strip())
    quoted = _UNDERLINE.sub(r"\\_", parted.translate(_TABLE))
    return _START.sub(r"\g<0>\\", quoted)


def code(text: str) -> str:
    """Return log text as a code span, in a paragraph, a list or a cell of a table."""
    shown = visible(text).strip()
    if not shown:
        return ""
    return f"`{shown}`" if _PLAIN.fullmatch(shown) else f"<code>{escape(shown)}</code>"


def block(text: str, language: str = "") -> str:
    """Return one or several lines as a block of code, whose fence none of them ends."""
    lines = [visible(line) for line in text.split("\n")]
    longest = max((len(run) for line in lines for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}{language}", *lines, fence])


def own_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts of this program, in which a bar ends no cell."""
    return table(head, [[cell.replace("|", "\\|") for cell in cells] for cells in rows])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
