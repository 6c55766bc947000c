"""Lists to tick: what each line asks, how it stands, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum

from stabdiag.model.findings import Ignored, Severity
from stabdiag.model.frozen import frozen


class State(StrEnum):
    """How a line of a list stands."""

    PASSED = "ticked"
    FAILED = "crossed"
    UNKNOWN = "unknown"


@frozen(eq=True)
class ChecklistItem:
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

    def ignoring(self, rules: Mapping[str, Ignored]) -> ChecklistItem:
        """Return the line as one that is ignored, if it is crossed and a rule names it."""
        rule = rules.get(self.slug)
        if rule is None or self.state is not State.FAILED:
            return self
        return replace(
            self,
            because=f"{rule.told} {self.because}",
            severity=Severity.NOTE,
            ignored=replace(rule, severity=self.severity),
        )


def passed(because: str) -> ChecklistItem:
    """Return a line that is ticked."""
    return ChecklistItem(state=State.PASSED, because=because)


def unknown(because: str, *do: str) -> ChecklistItem:
    """Return a line whose state is unknown."""
    return ChecklistItem(state=State.UNKNOWN, because=because, do=do)


def failed(because: str, *do: str, severity: Severity = Severity.NOTE) -> ChecklistItem:
    """Return a line that is crossed."""
    return ChecklistItem(state=State.FAILED, because=because, do=do, severity=severity)


@frozen(eq=True)
class Checklist:
    """One list.

    ``words`` names its states; ``begin`` is the slug of the line to start with, where the order
    counts.
    """

    title: str
    words: Mapping[State, str]
    items: tuple[ChecklistItem, ...]
    begin: str | None = None

    def count(self, state: State) -> int:
        """Return how many lines have this state."""
        return sum(item.state is state for item in self.items)


@frozen(eq=True)
class ChecklistReport:
    """Several lists about one subject, and a summary."""

    name: str
    subject: str
    summary: str
    lists: tuple[Checklist, ...]

    @property
    def items(self) -> Iterable[ChecklistItem]:
        """All lines, in order."""
        return (item for one in self.lists for item in one.items)
