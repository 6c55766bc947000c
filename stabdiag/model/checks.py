"""Lists to tick: what each line asks, how it stands, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum

from stabdiag.model.findings import Ignored, Severity
from stabdiag.model.frozen import frozen


class State(StrEnum):
    """How a line of a list stands."""

    TICKED = "ticked"
    CROSSED = "crossed"
    UNKNOWN = "unknown"


@frozen(eq=True)
class Tick:
    """One line of a list.

    ``slug`` and ``title`` are those of its table, which gives them to what judges it. ``because``
    is one sentence with the numbers in it; ``do`` is what to do or to run where the
    line is not ticked, in order; ``severity`` how bad it is where it is crossed: a note at most
    where that is ``ignored``.
    """

    state: State
    because: str
    slug: str = ""
    title: str = ""
    do: tuple[str, ...] = ()
    severity: Severity = Severity.NOTE
    ignored: Ignored | None = None

    def ignoring(self, rules: Mapping[str, Ignored]) -> Tick:
        """Return the line as one that is ignored, if it is crossed and a rule names it."""
        rule = rules.get(self.slug)
        if rule is None or self.state is not State.CROSSED:
            return self
        return replace(
            self,
            because=f"{rule.told} {self.because}",
            severity=Severity.NOTE,
            ignored=replace(rule, severity=self.severity),
        )


def ticked(because: str) -> Tick:
    """Return a line that is ticked."""
    return Tick(state=State.TICKED, because=because)


def unknown(because: str, *do: str) -> Tick:
    """Return a line whose state is unknown."""
    return Tick(state=State.UNKNOWN, because=because, do=do)


def crossed(because: str, *do: str, severity: Severity = Severity.NOTE) -> Tick:
    """Return a line that is crossed."""
    return Tick(state=State.CROSSED, because=because, do=do, severity=severity)


@frozen(eq=True)
class TickList:
    """One list.

    ``words`` names its states; ``begin`` is the slug of the line to start with, where the order
    counts.
    """

    title: str
    words: Mapping[State, str]
    ticks: tuple[Tick, ...]
    begin: str | None = None

    def count(self, state: State) -> int:
        """Return how many lines have this state."""
        return sum(tick.state is state for tick in self.ticks)


@frozen(eq=True)
class Sheet:
    """Several lists about one subject, and a summary."""

    name: str
    subject: str
    summary: str
    lists: tuple[TickList, ...]

    @property
    def ticks(self) -> Iterable[Tick]:
        """All lines, in order."""
        return (tick for one in self.lists for tick in one.ticks)
