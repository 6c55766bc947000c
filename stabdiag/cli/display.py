"""What a watch shows while it runs: a live panel on a terminal, else one line per verdict.

It goes to standard error; standard output is only for the report.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from stabdiag.cli.terminal import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.live import Live

    from stabdiag.model.report import Report
    from stabdiag.watch import Seen


@contextmanager
def display(logs: Sequence[str], color: bool | None) -> Iterator[Callable[[Seen], None]]:
    """Give a function that shows what is seen."""
    name = logs[0] if len(logs) == 1 else f"{logs[0]} and {len(logs) - 1} more"
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(
        stderr=True, highlight=False, markup=False, emoji=False, no_color=color is False or None
    )
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield _Panel(name, live)


class _Lines:
    """One line when the verdict changes, and one for whatever keeps it from being reached."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, seen: Seen) -> None:
        told, key = _verdict(seen)
        if key != self._last:
            tell(told)
            self._last = key
        if seen.end is not None and seen.report is not None:
            tell(f"the watch is over: {seen.end}")


def _verdict(seen: Seen) -> tuple[str, str]:
    """Return what is known, and by what it is told from what was known before."""
    if seen.trouble is not None:
        return f"waiting: {seen.trouble}", f"waiting: {seen.trouble}"
    if seen.report is None:
        return "waiting for the first records", "waiting"
    found, rest = seen.report.diagnosis, seen.report.also_found
    more = f" (and {len(rest)} more)" if rest else ""
    sure = ", certain" if seen.certain is not None else ""
    told = (
        f"step {seen.report.history.last_step}: {found.severity.value}{sure}: "
        f"{found.title} [{found.slug}]{more}"
    )
    return told, ",".join(sorted({one.slug for one in seen.report.findings})) + sure


class _Panel:
    """The panel, drawn again only where it has changed."""

    def __init__(self, name: str, live: Live) -> None:
        self._name = name
        self._live = live
        self._drawn: tuple[Report | None, str] | None = None

    def __call__(self, seen: Seen) -> None:
        from stabdiag.formats.terminal.page import Printable
        from stabdiag.formats.terminal.panel import lines

        status = _status(seen)
        if self._drawn == (seen.report, status):
            return
        self._drawn = (seen.report, status)
        page = partial(lines, seen.report, name=self._name, status=status)
        self._live.update(Printable(lines=page), refresh=True)


def _status(seen: Seen) -> str:
    """Return in words what the watch is doing; of a quiet log it changes less and less often."""
    if seen.end is not None:
        return f"the watch is over: {seen.end}"
    if seen.trouble is not None:
        return f"waiting: {seen.trouble}"
    if seen.report is None:
        return "waiting for the first records"
    if seen.quiet_for < 10:
        return "watching; Ctrl-C ends it with a report"
    if seen.quiet_for < 120:
        return f"quiet for {10 * int(seen.quiet_for / 10)} s; Ctrl-C ends it with a report"
    return f"quiet for {int(seen.quiet_for / 60)} min; Ctrl-C ends it with a report"
