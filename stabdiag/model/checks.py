"""Checklists: the items, the state of each, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum

from stabdiag.model.findings import Ignored, Severity
from stabdiag.model.frozen import frozen


class State(StrEnum):
    """The state of a checklist item."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@frozen(eq=True)
class ChecklistItem:
    """One item of a checklist.

    ``slug`` and ``title`` come from the table of items. ``because`` is one sentence with the
    numbers. ``do`` lists what to do, in order, if the item did not pass. ``severity`` is the
    severity of a failed item, at most a note if it is ``ignored``.
    """

    state: State
    because: str
    slug: str = ""
    title: str = ""
    do: tuple[str, ...] = ()
    severity: Severity = Severity.NOTE
    ignored: Ignored | None = None

    def ignoring(self, rules: Mapping[str, Ignored]) -> ChecklistItem:
        """Return the item as ignored if it failed and a rule names it."""
        rule = rules.get(self.slug)
        if rule is None or self.state is not State.FAILED:
            return self
        return replace(
            self,
            because=f"{rule.note} {self.because}",
            severity=Severity.NOTE,
            ignored=replace(rule, severity=self.severity),
        )


def passed(because: str) -> ChecklistItem:
    """Return an item that passed."""
    return ChecklistItem(state=State.PASSED, because=because)


def unknown(because: str, *do: str) -> ChecklistItem:
    """Return an item whose state is unknown."""
    return ChecklistItem(state=State.UNKNOWN, because=because, do=do)


def failed(because: str, *do: str, severity: Severity = Severity.NOTE) -> ChecklistItem:
    """Return an item that failed."""
    return ChecklistItem(state=State.FAILED, because=because, do=do, severity=severity)


@frozen(eq=True)
class Checklist:
    """One checklist.

    ``words`` names the states. ``begin`` is the slug of the item to start with, if the order
    matters.
    """

    title: str
    words: Mapping[State, str]
    items: tuple[ChecklistItem, ...]
    begin: str | None = None

    def count(self, state: State) -> int:
        """Return the number of items in this state."""
        return sum(item.state is state for item in self.items)


@frozen(eq=True)
class ChecklistReport:
    """Several checklists about one subject, and a summary."""

    name: str
    subject: str
    summary: str
    lists: tuple[Checklist, ...]

    @property
    def items(self) -> Iterable[ChecklistItem]:
        """All items, in order."""
        return (item for checklist in self.lists for item in checklist.items)
