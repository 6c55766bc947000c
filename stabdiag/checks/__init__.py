"""Checklists: for a manifest before a launch, and for a report after a failure.

The items of each list are in a text file, one a line: slug, title and question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from stabdiag.model.checks import ChecklistItem
from stabdiag.model.text import kept_table

Subject = TypeVar("Subject")


def judged(
    name: str, judges: Mapping[str, Callable[[Subject], ChecklistItem]], subject: Subject
) -> tuple[ChecklistItem, ...]:
    """Return the items of a list, each judged for the subject."""
    return tuple(
        replace(judges[slug](subject), slug=slug, title=title)
        for slug, title, _ in kept_table(name)
    )
