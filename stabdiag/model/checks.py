"""Checks before a launch and after a failure: findings with a state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum

from stabdiag.model.findings import Action, ActionKind, Finding, IgnoreRule, Severity
from stabdiag.model.frozen import frozen


class State(StrEnum):
    """The state of a check; ``manual`` means that only a person can do it."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    MANUAL = "manual"


@frozen
class Check(Finding):
    """A finding with a state.

    ``section`` is the heading of its list. Checks that did not fail are notes, or ok if they
    passed. ``actions`` are what to do if the check did not pass, in order.
    """

    state: State

    def with_ignore_rules(self, rules: Mapping[str, IgnoreRule]) -> Check:
        """Return the check as ignored if it failed and a rule names it."""
        rule = rules.get(self.slug)
        if rule is None or self.state is not State.FAILED:
            return self
        return self.ignoring(rule)


def passed(because: str) -> Check:
    """Return a check that passed."""
    return _check(State.PASSED, because, (), Severity.OK)


def failed(because: str, *do: str | Action, severity: Severity = Severity.NOTE) -> Check:
    """Return a check that failed."""
    return _check(State.FAILED, because, do, severity)


def unknown(because: str, *do: str | Action) -> Check:
    """Return a check that cannot be decided, because something was not logged or recorded."""
    return _check(State.UNKNOWN, because, do, Severity.NOTE)


def manual(because: str, *do: str | Action) -> Check:
    """Return a check that only a person can do."""
    return _check(State.MANUAL, because, do, Severity.NOTE)


def _check(state: State, because: str, do: Iterable[str | Action], severity: Severity) -> Check:
    actions = tuple(
        action if isinstance(action, Action) else Action(ActionKind.CHECK_SETTINGS, action)
        for action in do
    )
    return Check(
        slug="",
        section="",
        question="",
        title="",
        state=state,
        summary=because,
        severity=severity,
        actions=actions,
    )


@frozen
class CheckReport:
    """The checks of one subject by section, and a summary.

    ``begin`` is the slug of the check to start with, if the order matters.
    """

    name: str
    subject: str
    summary: str
    checks: tuple[Check, ...]
    begin: str | None = None

    @property
    def sections(self) -> dict[str, tuple[Check, ...]]:
        """The checks by section."""
        titles = dict.fromkeys(check.section for check in self.checks)
        return {
            title: tuple(check for check in self.checks if check.section == title)
            for title in titles
        }

    @property
    def failures(self) -> tuple[Check, ...]:
        """The failed checks that no rule ignores."""
        return tuple(
            check for check in self.checks if check.state is State.FAILED and check.ignored is None
        )


def count_states(checks: Iterable[Check]) -> dict[State, int]:
    """Return the number of checks in each state that occurs."""
    states = [check.state for check in checks]
    return {state: states.count(state) for state in State if state in states}


def titled(check: Check, section: str, slug: str, title: str, kind: ActionKind | None) -> Check:
    """Return a check with its place in a list; ``kind`` is the kind of its plain actions."""
    actions = check.actions
    if kind is not None:
        actions = tuple(
            replace(action, kind=kind) if action.kind is ActionKind.CHECK_SETTINGS else action
            for action in actions
        )
    return replace(check, section=section, slug=slug, title=title, actions=actions)
