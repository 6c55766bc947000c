"""What an outcome or a symptom means, from the texts of ``explain``, for formats that tell it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.model.texts import filled, text

if TYPE_CHECKING:
    from stabdiag.model.findings import Finding
    from stabdiag.model.limits import Limits

_SIGNS = re.compile(r"^#+ |\*\*|`", re.MULTILINE)
_MEANS = re.compile(r"^## What it means\n\n(.+?)\n\n", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """An outcome or a symptom: its meaning in a paragraph, and all of its text as Markdown."""

    meaning: str
    markdown: str

    @property
    def plain(self) -> str:
        """The text without Markdown's signs."""
        return _SIGNS.sub("", self.markdown)


def rule_of(finding: Finding, limits: Limits) -> Rule:
    """Return the rule by which something was found, with the limits in force."""
    kind = "symptoms" if finding.section == "symptom" else "outcomes"
    markdown = filled(text(kind, finding.slug), limits)
    means = _MEANS.search(markdown)
    meaning = _SIGNS.sub("", means.group(1)).replace("\n", " ") if means else finding.title
    return Rule(meaning=meaning, markdown=markdown)
