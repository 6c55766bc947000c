"""The comparison as Markdown, for a comment on a pull request, an issue or the summary of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stabdiag._version import __version__
from stabdiag.formats.canvas import View, strip
from stabdiag.formats.compared import view
from stabdiag.formats.markdown import SIGNS, actions, also_found
from stabdiag.formats.markdown_text import block, code, escape, table
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stabdiag.model.comparison import Comparison

MARK: Final = "<!-- stabdiag compare -->"
"""The first line, by which a workflow finds its comment again."""

_COLUMNS: Final = 60


def render(comparison: Comparison, *, command: str | None = None) -> str:
    """Return the comparison as Markdown; ``command`` is what makes it again, if it is known."""
    found = comparison.diagnosis
    blocks = [
        MARK,
        f"### {SIGNS[found.severity]} {escape(found.headline)}",
        f"**{found.severity.value}** · `{found.slug}` · {len(comparison.runs)} runs",
        escape(found.summary),
        *actions(comparison),
        *also_found(comparison),
        *_where(comparison),
        *_tables(comparison),
        *_foot(comparison, command),
    ]
    return "\n\n".join(blocks) + "\n"


def _where(comparison: Comparison) -> Iterator[str]:
    """Yield a row of bars for each run, and one for how far they lie apart."""
    drawn = view.overlay(comparison)
    if drawn is None:
        return
    window = View(first=drawn.first, last=drawn.last, columns=_COLUMNS)
    rows = [f"{mark:<8}  {strip(one, window, ascii=False)}" for mark, one in drawn.curves]
    if drawn.gap is not None:
        rows.append(f"apart by  {strip(drawn.gap, window, ascii=False)}")
    first, last = str(drawn.first), str(drawn.last)
    axis = f"{first}{' ' * (_COLUMNS - len(first) - len(last))}{last}"
    yield f"**Where they part** ({escape(drawn.role)})"
    yield block("\n".join([*(row.rstrip() for row in rows), f"{'step':<8}  {axis}"]), "text")


def _tables(comparison: Comparison) -> Iterator[str]:
    rows = view.partings(comparison)
    if rows:
        yield table(view.PARTINGS, _cells(rows))
    if comparison.levels:
        yield "**Where they end**"
        yield table(view.LEVELS, _cells(view.levels(comparison)))
    if comparison.differences:
        yield "**Settings that differ**"
        yield "\n".join(
            f"- {escape(view.setting(one))} ({one.bearing.value})" for one in comparison.differences
        )
    yield f"**Compared as {comparison.kind.value}**: {escape(comparison.why)}"
    listed = [(label, code(name), *cells) for label, name, *cells in view.runs(comparison)]
    yield table(view.RUNS, listed)


def _cells(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[escape(cell) for cell in row] for row in rows]


def _foot(comparison: Comparison, command: str | None) -> Iterator[str]:
    commands = [command or "", f"stabdiag explain {comparison.diagnosis.slug}"]
    yield block("\n".join(line for line in commands if line), "sh")
    common = plural(comparison.common, "common loss", "common losses")
    parts = [f"stabdiag {__version__}", common, *comparison.notes]
    yield f"<sub>{' · '.join(map(escape, parts))}</sub>"
