"""Lists to tick: what each line asks, whether it is so, and what to do where it is not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from stabdiag.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable


class State(StrEnum):
    """How a line of a list stands."""

    TICKED = "ticked"
    CROSSED = "crossed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Tick:
    """One line of a list.

    ``because`` is one sentence with the numbers in it; ``do`` is what to do or to run where the
    line is not ticked, in order; ``severity`` how bad it is where it is crossed.
    """

    slug: str
    title: str
    state: State
    because: str
    do: tuple[str, ...] = ()
    severity: Severity = Severity.NOTE


@dataclass(frozen=True, kw_only=True)
class Words:
    """How the three states are called."""

    ticked: str
    crossed: str
    unknown: str

    def of(self, state: State) -> str:
        """Return the word for a state."""
        return {
            State.TICKED: self.ticked,
            State.CROSSED: self.crossed,
            State.UNKNOWN: self.unknown,
        }[state]


@dataclass(frozen=True, kw_only=True)
class TickList:
    """One list. ``begin`` is the slug of the line to begin with, where the order counts."""

    title: str
    words: Words
    ticks: tuple[Tick, ...]
    begin: str | None = None

    def count(self, state: State) -> int:
        """Return how many lines stand so."""
        return sum(tick.state is state for tick in self.ticks)


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """Several lists about one subject, and one sentence over them."""

    name: str
    subject: str
    summary: str
    lists: tuple[TickList, ...]

    @property
    def ticks(self) -> Iterable[Tick]:
        """All lines, in order."""
        return (tick for one in self.lists for tick in one.ticks)


def ticked(slug: str, title: str, because: str) -> Tick:
    """Return a line that is ticked."""
    return Tick(slug=slug, title=title, state=State.TICKED, because=because)


def unknown(slug: str, title: str, because: str, *do: str) -> Tick:
    """Return a line of which nothing is known."""
    return Tick(slug=slug, title=title, state=State.UNKNOWN, because=because, do=do)


def crossed(
    slug: str, title: str, because: str, *do: str, severity: Severity = Severity.NOTE
) -> Tick:
    """Return a line that is crossed."""
    return Tick(
        slug=slug, title=title, state=State.CROSSED, because=because, do=do, severity=severity
    )
