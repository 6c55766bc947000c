"""What happened and how it is known: the timeline, the cost, the plot, the numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stabdiag.formats.deciding import decisive
from stabdiag.formats.markdown_text import block, escape, table
from stabdiag.formats.measured import in_words, label
from stabdiag.formats.terminal.page import Page
from stabdiag.formats.terminal.plot import draw
from stabdiag.postmortem.cost import duration, large
from stabdiag.postmortem.tables import around, course, limits_told
from stabdiag.postmortem.timeline import timeline
from stabdiag.symptoms import BY_SLUG as SYMPTOMS
from stabdiag.words import sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stabdiag.findings import Scalar
    from stabdiag.formats.subject import Plot
    from stabdiag.history import Series
    from stabdiag.postmortem.cost import Amount, Cost
    from stabdiag.postmortem.study import Study

PLOT = "text"
"""The language of the block that the page shows as a picture: the only block there is."""

_WIDTH = 78
_MESSAGES = 10

# At the beginning of a line, a runner of jobs takes these for commands, in a block as well.
_COMMANDS = (("::", ": :"), ("##[", "## ["))


def moments(told: Study) -> Iterator[str]:
    """Yield the timeline."""
    yield "## Timeline"
    clock = told.clock
    unit = told.report.history.unit
    head = [
        unit.capitalize(),
        *([] if clock is None else [clock.heading]),
        "Event",
        "What happened",
    ]
    yield table(
        head,
        [
            [
                str(one.step),
                *([] if clock is None else [clock.at(one.step)]),
                f"**{one.name}**",
                escape(one.what),
            ]
            for one in timeline(told.report, told.incident, told.alarm, told.changes)
        ],
    )
    if clock is None:
        yield f"The log holds no time stamps, so that the timeline is in {unit}s alone."
    elif clock.calendar:
        yield "Times are the log's own time stamps in UTC; a log does not tell its machine's zone."


def compute_lost(told: Study) -> Iterator[str]:
    """Yield what the incident cost, figure by figure, each with how it is known."""
    yield "### Compute lost"
    lost = told.lost
    yield escape(sentence(lost.what))
    if lost.cost is None:
        return
    yield table(
        ["What", "How much", "How it is known"], _figures(lost.cost, at_least=lost.at_least)
    )


def _figures(cost: Cost, *, at_least: bool) -> Iterator[list[str]]:
    least = "at least " if at_least else ""
    how = f"from {cost.step_unit} {cost.first} to {cost.last}"
    if at_least:
        how += "; --set checkpoint_every=N counts from the last good checkpoint"
    yield [f"{cost.step_unit.capitalize()}s", f"{least}{cost.steps}", escape(how)]
    yield _figure("Time", cost.hours, duration, least)
    yield _figure(cost.unit.capitalize(), cost.work, large, least)


def _figure(name: str, amount: Amount, words: Callable[[float], str], least: str) -> list[str]:
    value = "not known" if amount.value is None else f"{least}{words(amount.value)}"
    return [name, value, escape(amount.how)]


def evidence(told: Study) -> Iterator[str]:
    """Yield the plot, the values around the event, the answers and numbers that decided."""
    yield "## Evidence"
    report, plot = told.report, told.plot
    if plot is not None:
        yield _drawn(plot)
    if told.incident.first_bad is not None and plot is not None:
        yield f"What was logged around {report.history.unit} {told.incident.first_bad}:"
        yield around(report.history, plot.series, told.incident.first_bad)
    elif plot is not None:
        yield "The course of the run, in tenths:"
        yield course(plot)
    yield from _answers(told)
    yield from _said(told)


def _drawn(plot: Plot) -> str:
    """Return the plot in characters that look the same in every font."""
    harmless = replace(
        plot,
        series=_renamed(plot.series),
        companions=tuple(_renamed(series) for series in plot.companions),
    )
    page = Page(width=_WIDTH, ascii=True)
    return block("\n".join(line.plain for line in draw(harmless, page)), PLOT)


def _renamed(series: Series) -> Series:
    role, column = series.role, series.column
    for command, words in _COMMANDS:
        role, column = role.replace(command, words), column.replace(command, words)
    return replace(series, role=role, column=column)


def _answers(told: Study) -> Iterator[str]:
    """Yield the answers that the diagnosis rests on, and the numbers behind them."""
    deciding = decisive(told.report)
    if deciding:
        yield "The questions that decided:"
        yield table(
            ["Question", "Answer", "Because"],
            [[f"{a.question} {escape(a.asks)}", a.word, escape(a.because)] for a in deciding],
        )
    measured = [(a.question, a.measured, a.limits) for a in deciding if a.measured]
    yield "The numbers, and the limits that they were held against:"
    yield table(
        ["Of", "Measured", "Held against"],
        [
            [of, escape(_pairs(values)), limits_told(limits)]
            for of, values, limits in measured or [_of_symptom(told)]
        ],
    )


def _of_symptom(told: Study) -> tuple[str, Mapping[str, Scalar], Mapping[str, Scalar]]:
    """Return what was measured of a symptom, which no question led to."""
    found = told.report.diagnosis
    names = SYMPTOMS[found.slug].limits if found.slug in SYMPTOMS else ()
    return found.slug, found.evidence, told.report.limits.named(names)


def _pairs(values: Mapping[str, Scalar]) -> str:
    return ", ".join(f"{label(name)} {in_words(name, v)}" for name, v in values.items())


def _said(told: Study) -> Iterator[str]:
    """Yield what the log says in words, the end of it."""
    said = told.report.history.messages
    if said:
        yield "The log says:"
        yield "\n".join(
            f"- {escape(event.message)}{'' if event.line is None else f' (line {event.line})'}"
            for event in said[-_MESSAGES:]
        )
