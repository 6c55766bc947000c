"""What is folded away: every question with its answer, and how the log was read."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stabdiag.formats.deciding import decisive
from stabdiag.formats.markdown_text import code, escape, table
from stabdiag.formats.measured import changed_limits, number
from stabdiag.model.findings import Answer, AskedOf
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.report import Report

# In the order in which they are counted.
_WORDS = ("yes", "no", "found", "none", "unknown")
_MOST_NOTES = 30


def trail(report: Report) -> Iterator[str]:
    """Yield the questions with their answers; those that decided are in bold."""
    if not report.tree.answers:
        return
    counts = Counter(answer.word for answer in report.tree.answers)
    told = ", ".join(f"{counts[word]} {word}" for word in _WORDS if counts[word])
    asked = plural(len(report.tree.answers), "question was", "questions were")
    deciding = decisive(report)
    yield _folded(
        f"{asked} asked: {told}",
        table(
            ["", "Question", "Answer", "Because"],
            [_row(answer, strong=answer in deciding) for answer in report.tree.answers],
        ),
    )
    limits = {
        name: value for answer in report.tree.answers for name, value in answer.limits.items()
    }
    if limits:
        yield _folded(
            f"{plural(len(limits), 'limit')} that it was held against",
            ", ".join(f"`{name}` {number(value)}" for name, value in limits.items()),
        )


def reading(report: Report) -> Iterator[str]:
    """Yield what is not in the log, and how it was read."""
    missing = [
        f"- {code(one.role)} was not logged: {escape(one.cost)}" for one in report.not_logged
    ]
    if report.not_checked:
        lacking = [*map(code, report.lacking)]
        if any(one.reason for one in report.not_checked):
            lacking.append("points")
        told = ", ".join(lacking)
        symptoms = plural(len(report.not_checked), "symptom was", "symptoms were")
        missing.append(f"- {symptoms} not checked, for lack of {told}")
    if missing:
        yield _folded("Not logged, and what that costs", "\n".join(missing))
    notes = [f"- {note}" for note in _notes(report)]
    left = len(notes) - _MOST_NOTES
    more = [f"- … and {left} more"] if left > 0 else []
    yield _folded("How the log was read", "\n".join([*notes[:_MOST_NOTES], *more]))


def _notes(report: Report) -> Iterator[str]:
    manifest = report.manifest
    yield f"manifest: {code(manifest.path) if manifest.path else 'none found'}"
    for name in manifest.overridden:
        yield f"`{name}` = {code(number(getattr(manifest, name, None)))} was set by a flag"
    for name in manifest.logged:
        yield f"`{name}` = {code(number(getattr(manifest, name, None)))} is told by the log"
    for name, why in manifest.inferred.items():
        value = code(number(getattr(manifest, name, None)))
        yield f"{code(name)} = {value} is inferred: {escape(why)}"
    if manifest.unknown:
        yield f"not understood: {', '.join(code(str(key)) for key in manifest.unknown)}"
    for told in changed_limits(report.limits):
        yield f"limit {escape(told)}"
    for role, series in report.history.series.items():
        if series.column != role:
            yield f"{code(role)} is read from {code(series.column)}"
    for event in report.history.notes:
        yield f"{event.kind.value}: {escape(event.message)}"


def _row(answer: Answer, *, strong: bool) -> list[str]:
    word, why = answer.word, escape(answer.because)
    asked = escape(answer.asks)
    if answer.asked_of is AskedOf.LEAD_UP:
        asked = f"Before the NaN: {asked}"
    return [answer.question, asked, f"**{word}**" if strong else word, why]


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{content}\n\n</details>"
