"""The thresholds in force as Markdown, JSON and TOML."""

from __future__ import annotations

import math
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING

from stabdiag.formats.json import dumps
from stabdiag.formats.limits.rows import ROWS, bounds, filled, source
from stabdiag.formats.markdown_text import own_table

if TYPE_CHECKING:
    from stabdiag.formats.json import Json
    from stabdiag.model.limits import LimitInfo, Limits


def markdown(limits: Limits) -> str:
    """Return two Markdown tables: the quick reference, and every limit."""
    reference = own_table(
        ("Symptom", "Threshold", "First action", "Node", "Source"),
        [(r.symptom, filled(r, limits), r.first_action, r.node, source(r, limits)) for r in ROWS],
    )
    declared = own_table(
        ("Limit", "Value", "Default", "Unit", "Range", "Source", "Why"),
        [
            (
                f"`{i.name}`",
                f"**{i.value:g}**" if i.overridden else f"{i.value:g}",
                f"{i.default:g}",
                i.about.unit,
                bounds(i),
                i.about.source,
                i.about.why,
            )
            for i in limits.items()
        ],
    )
    return f"## Quick reference\n\n{reference}\n\n## Limits\n\n{declared}\n"


def as_json(limits: Limits) -> str:
    """Return rows and limits as strict JSON."""
    rows: list[Json] = [
        {
            "symptom": row.symptom,
            "threshold": filled(row, limits),
            "first_action": row.first_action,
            "node": row.node,
            "limits": list(row.limits),
            "source": source(row, limits),
        }
        for row in ROWS
    ]
    declared: dict[str, Json] = {
        info.name: {
            "value": info.value,
            "default": info.default,
            "unit": info.about.unit,
            "at_least": info.about.at_least,
            "at_most": None if math.isinf(info.about.at_most) else info.about.at_most,
            "source": info.about.source,
            "why": info.about.why,
        }
        for info in limits.items()
    }
    return dumps({"schema": 1, "rows": rows, "limits": declared})


def toml(limits: Limits) -> str:
    """Return every limit as TOML that can be edited and read back."""
    lines = [
        "# Limits of stabdiag. In a pyproject.toml the tables are called",
        "# [tool.stabdiag.limits.spike] and so on. Delete what you do not change.",
    ]
    for section, infos in groupby(limits.items(), key=lambda info: info.name.partition(".")[0]):
        lines += ["", f"[{section}]"]
        for info in infos:
            lines += [f"# {line}" for line in _about(info)]
            lines += [f"{info.name.partition('.')[2]} = {info.value!r}", ""]
        lines.pop()
    return "\n".join(lines) + "\n"


def _about(info: LimitInfo) -> list[str]:
    default = f", default {info.default:g}" if info.overridden else ""
    facts = f"{info.about.unit}, {bounds(info)}{default}; source: {info.about.source}"
    return [*wrap(info.about.why, 76), *wrap(facts, 76)]
