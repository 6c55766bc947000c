"""Lists to tick: of a manifest before a launch, and of a report after a failure.

The lines of each list are kept as a text: slug, title, and what is asked.
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
    """Return the lines of a list, each as its judge finds it of a subject."""
    return tuple(
        replace(judges[slug](subject), slug=slug, title=title)
        for slug, title, _ in kept_table(name)
    )
