"""``stabdiag scan``."""

from __future__ import annotations

import gc
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from stabdiag.cli import options
from stabdiag.cli.commands import again
from stabdiag.cli.rendering import render_pieces
from stabdiag.cli.terminal import Exit, after, live, stopping, tell, write
from stabdiag.errors import StabdiagError
from stabdiag.formats import names
from stabdiag.model.scan import UNREAD, Row, totals
from stabdiag.model.text import plural

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.live import Live

# The one format that is not text.
_ROWS: Final = "parquet"

# Runs above the bar, and its width; seconds between two lines without a terminal, or two frames.
_SHOWN: Final = 5
_BAR: Final = 30
_EVERY: Final = 30.0
_REFRESH: Final = 0.1


@options.bundled
def scan(
    context: typer.Context,
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...", help="Folders, logs, archives, URLs, buckets, and patterns of these."
        ),
    ],
    how: options.Runs,
    store: Annotated[
        Path | None,
        options.option(
            "--output -o FOLDER",
            "Keep the rows there as Parquet; the next scan reads only what changed.",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        options.option("--jobs -j N", "Logs to read at a time; one per core by default.", min=1),
    ] = None,
    executor: Annotated[
        str | None,
        options.option(
            "--executor EXECUTOR",
            "Where to read logs: `dask`, or `module:callable` for any other "
            "`concurrent.futures.Executor`; processes of this machine by default.",
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        options.option(
            "--scheduler ADDRESS", "Address of the Dask scheduler, such as `tcp://node1:8786`."
        ),
    ] = None,
    timeout: Annotated[
        float, options.option("--timeout SECONDS", "Give up on a log after this time.", min=0.1)
    ] = 300.0,
    where: Annotated[
        str | None,
        options.option(
            "--where CONDITION",
            "Only these runs: `severity=error`, `peak_lr>=0.003`, `run=*seed7*`.",
        ),
    ] = None,
    baseline: options.BaselinePaths = None,
    peers: Annotated[
        bool,
        options.option(
            "--peers",
            "Compare each run with the healthy runs that have the same settings except the seed.",
        ),
    ] = False,
    top: Annotated[int, options.option("--top N", "Number of worst runs to name.", min=0)] = 10,
    format: Annotated[str | None, options.format_option(names("overview"))] = None,
    json: options.AsJson = False,
    also: options.Besides = None,
    fail_on: options.Severe = None,
    literal: options.Literal = False,
    color: options.Color = None,
) -> Exit:
    """Diagnose every run in folders, archives and buckets, and what the failed ones share."""
    from stabdiag.model.findings import PARTLY_READ, Severity, fails, is_check_error
    from stabdiag.scan.executors import open_pool
    from stabdiag.scan.rows import give_back_memory, write_rows
    from stabdiag.scan.scan import scan_into
    from stabdiag.scan.worker import import_arrow_without_pandas

    beside = options.besides_of(also, [*names("overview"), _ROWS])
    if format == _ROWS:
        raise StabdiagError("parquet is not text: use --write parquet=FILE, or -o FOLDER")
    out = options.Data(format=format, json=json, color=color, known=names("overview"))
    chosen = out.chosen(how, paths, [path for path, _ in beside])
    fails_on = how.fails_on(fail_on)
    gc.enable()  # a command that is soon over does without
    references = options.BaselineOptions(baseline=baseline).references(how)
    ask = how.asked(literal=literal, timeout=timeout, references=references)
    import_arrow_without_pandas()
    give_back_memory()
    with TemporaryDirectory(prefix="stabdiag-scan-") as nowhere:
        try:
            with stopping() as caught, scan_display(color) as display:
                overview, passed = scan_into(
                    paths,
                    store or Path(nowhere),
                    ask,
                    open_pool(executor, jobs, scheduler),
                    where=where,
                    top=top,
                    peers=peers,
                    show=display.add,
                    stopped=lambda: bool(caught),
                )
        except KeyboardInterrupt:
            kept = "the same command continues" if store else "nothing is kept without -o"
            tell(f"stopped; {kept}")
            return after(caught)
        for line in passed.told():
            tell(line)
        told = {"command": again(context), "fail_on": fails_on, **out.screen}
        severity_counts = {count.severity or UNREAD: 0 for count in overview.counts}
        for count in overview.counts:
            severity_counts[count.severity or UNREAD] += count.runs
        ended = f"{plural(overview.runs, 'run')}: {totals(severity_counts)}"
        for path, name in (*beside, (None, chosen)):  # files first
            if path is not None and name == _ROWS:
                write_rows(overview.rows, path)
            else:
                write(render_pieces(overview, name, "overview", verdict=ended, **told), path)
    severities = {one.severity for one in overview.counts if one.outcome != PARTLY_READ}
    if any(one is not None and fails(Severity(one), fails_on) for one in severities):
        return Exit.FOUND
    is_open = any(is_check_error(one.outcome, fails_on) for one in overview.counts)
    return Exit.REFUSED if None in severities or is_open else Exit.OK


@contextmanager
def scan_display(color: bool | None) -> Iterator[ScanDisplay]:
    """Give what is told of every row, on a terminal or where there is none."""
    with live(color) as drawn:
        display = ScanDisplay(drawn, every=_EVERY if drawn is None else _REFRESH)
        if drawn is not None:
            display.show()
        yield display


class ScanDisplay:
    """A bar below the last failures, or a line every half a minute where there is no terminal.

    ``total`` is how many logs there are, as far as it is known.
    """

    total: int | None = None

    def __init__(self, drawn: Live | None = None, *, every: float = _EVERY) -> None:
        self.done = 0
        self._live = drawn
        self._every = every
        self._began = self._shown = time.monotonic()
        self._counts: Counter[str] = Counter()
        self._last: deque[str] = deque(maxlen=_SHOWN)

    def add(self, rows: pa.Table, total: int | None) -> None:
        """Take note of more rows, and of how many runs there are in all, if that is known."""
        self.total = total
        columns = rows.select(["path", "run", "outcome", "severity", "headline"])
        for told in columns.to_pylist():
            self(Row(**told))

    def __call__(self, row: Row) -> None:
        """Take note of one more row."""
        from stabdiag.formats.scans import name

        self.done += 1
        self._counts[row.severity or UNREAD] += 1
        if row.severity == "error":
            self._last.append(f"{name(row)}: {row.headline} [{row.outcome}]")
        if time.monotonic() - self._shown >= self._every:
            self.show()

    def show(self) -> None:
        """Tell how far the scan is."""
        self._shown = time.monotonic()
        if self._live is None:
            tell(self._told())
            return
        from rich.columns import Columns
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        from stabdiag.formats.measured import visible

        lines = [Text(visible(one), "red", no_wrap=True, overflow="ellipsis") for one in self._last]
        bar = ProgressBar(self.total, self.done, width=_BAR, pulse=self.total is None)
        self._live.update(Group(*lines, Columns([bar, Text(self._told())])), refresh=True)

    def _told(self) -> str:
        told = totals(self._counts)
        if self.total is None:
            return f"{plural(self.done, 'log')}: {told}"
        if self.done:  # if the logs that come are like those that were
            share = max(self.total / self.done - 1, 0)
            seconds = share * (time.monotonic() - self._began)
            left = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
            told = f"{told}, {left} left"
        return f"{self.done} of {plural(self.total, 'log')}: {told}"
