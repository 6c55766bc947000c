"""The comparison for a person at a terminal, in the manner of the report on one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from stabdiag.formats.compared import tables
from stabdiag.formats.compared.drawn import draw
from stabdiag.formats.compared.view import overlay
from stabdiag.formats.terminal.page import console_for, fitted, page_for, unbroken, written
from stabdiag.formats.terminal.sections import actions, also_found, head
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions, RenderResult

    from stabdiag.formats.terminal.page import Page
    from stabdiag.model.comparison import Comparison


@dataclass(frozen=True, kw_only=True)
class ComparisonPage:
    """A comparison that rich can print, in the width and the characters of the console at hand."""

    comparison: Comparison
    width: int
    verbose: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the page, line by line."""
        page = page_for(options, self.width, verbose=self.verbose)
        yield from unbroken(_lines(self.comparison, page))


def render(
    comparison: Comparison,
    *,
    width: int = 80,
    color: bool = False,
    verbose: bool = False,
    encoding: str = "utf-8",
) -> str:
    """Return the comparison as text, with terminal colours or without."""
    console = console_for(width, color=color, encoding=encoding)
    console.print(ComparisonPage(comparison=comparison, width=width, verbose=verbose))
    return written(console)


def _lines(comparison: Comparison, page: Page) -> Iterator[Text]:
    yield from head(comparison, page)
    yield from actions(comparison, page)
    yield from _where(comparison, page)
    yield from _levels(comparison, page)
    yield from also_found(comparison, page)
    yield from _settings(comparison, page)
    yield from _runs(comparison, page)
    yield from _foot(comparison, page)


def _where(comparison: Comparison, page: Page) -> Iterator[Text]:
    """Yield the picture of the losses, and for each role where it parts."""
    picture, rows = overlay(comparison), tables.partings(comparison)
    if not rows:
        return
    rest = f"held against {comparison.reference}, at the steps that both logged"
    yield from page.heading("Where they part", rest)
    if picture is not None:
        drawn = list(draw(picture, page))
        yield from drawn
        if drawn:
            yield Text("")
    yield from fitted(tables.PARTINGS, rows, page)


def _levels(comparison: Comparison, page: Page) -> Iterator[Text]:
    if comparison.levels:
        yield from page.heading("Where they end")
        yield from fitted(tables.LEVELS, tables.levels(comparison), page)


def _settings(comparison: Comparison, page: Page) -> Iterator[Text]:
    """Yield the settings that differ; those that explain nothing in one line."""
    rows = tables.settings(comparison)
    if not rows:
        return
    yield from page.heading("Settings that differ")
    for bearing, told in rows:
        if page.verbose or bearing not in tables.IDLE:
            yield from page.wrap(told, page.text(f"  {bearing:<14}  ", "dim"))
    if page.verbose:
        return
    for bearing, name in tables.IDLE.items():
        idle = [told.partition(":")[0] for one, told in rows if one == bearing]
        if idle:
            yield from page.wrap(page.text(f"{name}: {', '.join(idle)}", "dim"), "  ", "    ")


def _runs(comparison: Comparison, page: Page) -> Iterator[Text]:
    yield from page.heading(f"Compared as {comparison.kind.value}", comparison.why)
    yield from fitted(tables.RUNS, tables.runs(comparison), page)


def _foot(comparison: Comparison, page: Page) -> Iterator[Text]:
    told = [plural(comparison.common, "common loss", "common losses"), *comparison.notes]
    changed = [f"{info.name} = {info.value:g}" for info in comparison.limits.changed]
    unreadable = [run for run in comparison.runs if run.history.source.unreadable]
    told += [
        f"{run.label} has {plural(run.history.source.unreadable, 'line')} not read"
        for run in unreadable
    ]
    more = ["--verbose"] * (not page.verbose) + [f"stabdiag explain {comparison.diagnosis.slug}"]
    yield Text("")
    yield from page.wrap(page.text("; ".join([*told, *changed]), "dim"))
    yield from page.wrap(page.text(f"more: {'; '.join(more)}", "dim"))
