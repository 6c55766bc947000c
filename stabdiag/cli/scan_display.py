"""What a scan shows while it runs: a bar with the last failures above it, else a line at times.

It goes to standard error; standard output is the overview's alone.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stabdiag.cli.terminal import tell
from stabdiag.formats.scans import name
from stabdiag.model.scan import UNREAD
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Group
    from rich.live import Live
    from rich.progress import Progress

    from stabdiag.model.scan import Row

_SHOWN = 5
_EVERY = 30.0
_REFRESH = 0.1


@contextmanager
def scan_display(color: bool | None) -> Iterator[ScanDisplay]:
    """Give what is told of every row, on a terminal or where there is none."""
    if not sys.stderr.isatty():
        yield ScanDisplay()
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(
        stderr=True, highlight=False, markup=False, emoji=False, no_color=color is False or None
    )
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield _Bar(live)


class ScanDisplay:
    """A line every half a minute; ``total`` is how many logs there are, as far as it is known."""

    total: int | None = None

    def __init__(self, every: float = _EVERY) -> None:
        self.done = 0
        self._every = every
        self._began = self._shown = time.monotonic()
        self._counts: Counter[str] = Counter()

    def __call__(self, row: Row) -> None:
        """Take note of one more row."""
        self.done += 1
        self._counts[row.severity or UNREAD] += 1
        if time.monotonic() - self._shown >= self._every:
            self.show()

    def show(self) -> None:
        """Tell how far the scan is."""
        self._shown = time.monotonic()
        left = self._left()
        tell(f"{self._told()}{'' if left is None else f'; some {left} left'}")

    def _told(self) -> str:
        counts = self._counts
        far = plural(self.done, "log")
        if self.total is not None:
            far = f"{self.done} of {plural(self.total, 'log')}"
        told = [far, f"{counts['error']} failed"]
        if counts["warning"]:
            told.append(plural(counts["warning"], "warning"))
        if counts[UNREAD]:
            told.append(f"{counts[UNREAD]} not read")
        return ", ".join(told)

    def _left(self) -> str | None:
        """Return the time that is left, if the logs that come are like those that were."""
        if self.total is None or not self.done:
            return None
        passed = time.monotonic() - self._began
        seconds = passed / self.done * max(self.total - self.done, 0)
        return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


class _Bar(ScanDisplay):
    def __init__(self, live: Live) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        super().__init__(_REFRESH)
        self._live = live
        self._last: deque[str] = deque(maxlen=_SHOWN)
        self._progress: Progress = Progress(
            BarColumn(), TextColumn("{task.description}", markup=False), auto_refresh=False
        )
        self._task = self._progress.add_task("")
        self.show()

    def __call__(self, row: Row) -> None:
        if row.severity == "error":
            self._last.append(f"{name(row)}: {row.headline} [{row.outcome}]")
        super().__call__(row)

    def show(self) -> None:
        self._shown = time.monotonic()
        self._live.update(self._drawn(), refresh=True)

    def _drawn(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        from stabdiag.formats.measured import visible

        left = self._left()
        told = f"{self._told()}{'' if left is None else f', {left} left'}"
        self._progress.update(self._task, total=self.total, completed=self.done, description=told)
        lines = [Text(visible(one), "red", no_wrap=True, overflow="ellipsis") for one in self._last]
        return Group(*lines, self._progress)
