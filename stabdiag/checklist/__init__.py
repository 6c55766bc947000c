"""The checklists of debugging, ticked off from what a log and its manifest show."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stabdiag.checklist import steps
from stabdiag.checklist.facts import Facts
from stabdiag.checklist.interventions import INTERVENTIONS, first_open
from stabdiag.checklist.signals import signals
from stabdiag.ticks import Sheet, State, Tick, TickList
from stabdiag.words import plural

if TYPE_CHECKING:
    from stabdiag.report import Report

_DONE = {State.TICKED: "done", State.CROSSED: "not done", State.UNKNOWN: "cannot tell"}
_TRIED = {State.TICKED: "tried", State.CROSSED: "not tried", State.UNKNOWN: "cannot tell"}
_LOGGED = {State.TICKED: "logged", State.CROSSED: "not logged", State.UNKNOWN: "cannot tell"}


def checklist(report: Report) -> Sheet:
    """Tick the lists off from one run's report."""
    facts = Facts(report=report)
    ten = tuple(step(facts) for step in steps.STEPS)
    tries = tuple(one(facts) for one in INTERVENTIONS)
    lists = (
        TickList(title="Ten steps, in this order", words=_DONE, ticks=ten),
        TickList(
            title="What to try, fast to invasive",
            words=_TRIED,
            ticks=tries,
            begin=first_open(tries),
        ),
        TickList(title="Health signals", words=_LOGGED, ticks=signals(facts)),
        TickList(
            title="To carry away", words=_DONE, ticks=_closing({tick.slug: tick for tick in ten})
        ),
    )
    done = lists[0].count(State.TICKED)
    found = report.diagnosis
    return Sheet(
        name="checklist",
        subject=report.history.source.name,
        summary=f"{found.title} ({found.slug}). Of {plural(len(ten), 'step')} the log shows {done} "
        "as done.",
        lists=lists,
    )


def _closing(step: dict[str, Tick]) -> tuple[Tick, ...]:
    """Answer the closing questions from the steps that they come back to."""
    tried = _worst(step["learning-rate"], step["safety-nets"])
    asked = (
        ("carry-minimal", "Is there a minimal reproduction?", step["minimal"]),
        ("carry-data", "Are there unit tests of the data?", step["data"]),
        ("carry-telemetry", "Is telemetry of gradients and activations in place?",
         step["instrument"]),
        ("carry-precision", "Was mixed precision held against fp32?", step["precision"]),
        ("carry-tried", "Were learning rate, warm-up and clipping tried?", tried),
    )  # fmt: skip
    return tuple(replace(tick, slug=slug, title=title, do=()) for slug, title, tick in asked)


def _worst(*ticks: Tick) -> Tick:
    """Return the line that is furthest from done."""
    order = (State.CROSSED, State.UNKNOWN, State.TICKED)
    return min(ticks, key=lambda tick: order.index(tick.state))
