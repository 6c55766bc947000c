"""Checks of a manifest before a launch, and of a report after a failure.

The checks of each list are in a text file, one a line: slug, title and question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from stabdiag.model.checks import Check, titled
from stabdiag.model.findings import ActionKind
from stabdiag.model.text import kept_table

Subject = TypeVar("Subject")


def judged(
    table: str,
    section: str,
    judges: Mapping[str, Callable[[Subject], Check]],
    subject: Subject,
    kinds: Mapping[str, ActionKind] | None = None,
) -> tuple[Check, ...]:
    """Return the checks of a list, each judged for the subject."""
    return tuple(
        titled(judges[slug](subject), section, slug, title, (kinds or {}).get(slug))
        for slug, title, _ in kept_table(table)
    )
