"""The overview for GitHub Actions: an annotation for it, and one for each of the worst runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stabdiag.formats.github import LEVELS, annotation
from stabdiag.formats.scans import words
from stabdiag.model.findings import Severity
from stabdiag.model.text import sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.scan import Overview


_URL = re.compile(r"[a-z][a-z0-9+.-]*://")


def render(overview: Overview) -> str:
    """Return the annotations, first that of the whole scan."""
    return "".join(f"{line}\n" for line in _annotations(overview))


def _annotations(overview: Overview) -> Iterator[str]:
    lines = [sentence(words.summary(overview))]
    lines += [f"{words.statement(one)} ({words.NO_CAUSE})" for one in overview.common]
    lines += [f"Not read: {words.unread(one)}" for one in overview.unread]
    yield annotation("notice", *lines, title="stabdiag scan")
    for row in overview.worst:
        action = [f"First action: {row.action}"] if row.action else []
        yield annotation(
            LEVELS[Severity(row.severity or "note")],
            *(words.name(row, overview), *action),
            file=None if _URL.match(row.path) else row.path,
            title=f"{row.headline or row.outcome} [{row.outcome}]",
        )
