"""The quick reference and the limits in force, in every format."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING

from stabdiag.formats.json import Json, dumps, keys
from stabdiag.formats.markdown_text import own_table
from stabdiag.formats.measured import number
from stabdiag.model.limit import TREE
from stabdiag.model.limits import LimitInfo, Limits
from stabdiag.model.text import filled, find_limit_names, kept_table, word_list

if TYPE_CHECKING:
    from rich.text import Text

    from stabdiag.formats.terminal.page import Page


# Width of the terminal columns for a question and for the source of a threshold.
_QUESTION_WIDTH = 4
_LEGEND = "FROM: tree = the decision tree, ours = calibrated here. All limits follow."


@dataclass(frozen=True, eq=False)
class ThresholdRow:
    """One row of the quick reference: a symptom, its threshold and the first action.

    ``{spike.sigma}`` in a threshold is replaced by the value of that limit. ``node`` is the
    question that uses it. ``other_limits`` names other limits that it depends on.
    """

    node: str
    symptom: str
    threshold: str
    first_action: str
    other_limits: str

    @property
    def limits(self) -> tuple[str, ...]:
        """The names of the limits in the threshold."""
        return (*find_limit_names(self.threshold), *word_list(self.other_limits))


@cache
def rows() -> tuple[ThresholdRow, ...]:
    """Return the quick reference: the six rows of the tree, and the other findings."""
    return tuple(ThresholdRow(*cells) for cells in kept_table("thresholds"))


@cache
def literal_rows() -> tuple[ThresholdRow, ...]:
    """Return the six rows of the quick reference in the original tree."""
    return tuple(ThresholdRow(*cells) for cells in kept_table("thresholds-literal"))


def literal_lines(limits: Limits, page: Page) -> Iterator[Text]:
    """Yield the quick reference of the original tree for a terminal."""
    from stabdiag.formats.terminal.page import COLUMN_GAP, columns

    third = (page.width - _QUESTION_WIDTH - 3 * COLUMN_GAP) // 3
    widths = (_QUESTION_WIDTH, third, third, third)
    yield from columns(("NODE", "SYMPTOM", "THRESHOLD", "FIRST ACTION"), widths, page, "bold")
    for row in literal_rows():
        cells = (row.node, row.symptom, filled(row.threshold, limits), row.first_action)
        yield from columns(cells, widths, page)


def literal_markdown(limits: Limits) -> str:
    """Return the quick reference of the original tree as a Markdown table."""
    cells = [(r.symptom, filled(r.threshold, limits), r.first_action) for r in literal_rows()]
    return f"{own_table(('Symptom', 'Threshold', 'First action'), cells)}\n"


def literal_json(limits: Limits) -> str:
    """Return the quick reference of the original tree as strict JSON."""
    reference: list[Json] = [
        {
            **keys("symptom", row),
            "threshold": filled(row.threshold, limits),
            **keys("first_action node limits", row),
        }
        for row in literal_rows()
    ]
    return dumps({"schema": 1, "rows": reference})


def source(row: ThresholdRow, limits: Limits) -> str:
    """Return the source of a row's threshold."""
    about = [info.about.source for info in limits.items() if info.name in row.limits]
    return "; ".join(dict.fromkeys(about)) or f"decision tree {row.node}"


def bounds(info: LimitInfo) -> str:
    """Describe the range of a limit."""
    if math.isinf(info.about.at_most):
        return f"at least {info.about.at_least:g}"
    return f"{info.about.at_least:g} to {info.about.at_most:g}"


def lines(limits: Limits, page: Page) -> Iterator[Text]:
    """Yield the quick reference and all limits for a terminal."""
    yield from _reference(limits, page)
    yield from _declared(limits, page)


def _reference(limits: Limits, page: Page) -> Iterator[Text]:
    """Yield the quick reference as a table; FROM is the source of the threshold."""
    from stabdiag.formats.terminal.page import COLUMN_GAP, columns

    third = (page.width - 2 * _QUESTION_WIDTH - 4 * COLUMN_GAP) // 3
    widths = (_QUESTION_WIDTH, third, third, third, _QUESTION_WIDTH)
    head = ("NODE", "SYMPTOM", "THRESHOLD", "FIRST ACTION", "FROM")
    yield from columns(head, widths, page, "bold")
    for row in rows():
        origin = "tree" if TREE in source(row, limits) else "ours"
        cells = (row.node, row.symptom, filled(row.threshold, limits), row.first_action, origin)
        yield from columns(cells, widths, page)
    yield page.text("")
    yield from page.wrap(page.text(_LEGEND, "dim"))


def _declared(limits: Limits, page: Page) -> Iterator[Text]:
    for section, group in groupby(limits.items(), key=lambda info: info.name.partition(".")[0]):
        infos = list(group)
        yield from page.heading(f"[{section}]")
        for info in infos:
            yield from _limit(info, page)


def _limit(info: LimitInfo, page: Page) -> Iterator[Text]:
    value = page.text(number(info.value), "bold yellow" if info.overridden else "bold")
    default = f"  (default {number(info.default)})" if info.overridden else ""
    yield from page.wrap(
        page.line(f"{info.name} = ", value, f" {info.about.unit}{default}"), "  ", "    "
    )
    notes = f"{info.why} [{bounds(info)}; {info.about.source}]"
    yield from page.wrap(page.text(notes, "dim"), "      ")


def markdown(limits: Limits) -> str:
    """Return two Markdown tables: the quick reference and all limits."""
    reference = own_table(
        ("Symptom", "Threshold", "First action", "Node", "Source"),
        [
            (r.symptom, filled(r.threshold, limits), r.first_action, r.node, source(r, limits))
            for r in rows()
        ],
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
                i.why,
            )
            for i in limits.items()
        ],
    )
    return f"## Quick reference\n\n{reference}\n\n## Limits\n\n{declared}\n"


def as_json(limits: Limits) -> str:
    """Return the quick reference and all limits as strict JSON."""
    reference: list[Json] = [
        {
            **keys("symptom", row),
            "threshold": filled(row.threshold, limits),
            **keys("first_action node limits", row),
            "source": source(row, limits),
        }
        for row in rows()
    ]
    declared: dict[str, Json] = {
        info.name: {
            **keys("value default", info),
            **keys("unit at_least", info.about),
            "at_most": None if math.isinf(info.about.at_most) else info.about.at_most,
            **keys("source", info.about),
            **keys("why", info),
        }
        for info in limits.items()
    }
    return dumps({"schema": 1, "rows": reference, "limits": declared})
