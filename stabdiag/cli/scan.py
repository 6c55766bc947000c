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
from stabdiag.cli.commands import reproduction_command
from stabdiag.cli.rendering import render_pieces
from stabdiag.cli.terminal import (
    Exit,
    catch_stop_signals,
    live_display,
    notify,
    signal_exit_code,
    write,
)
from stabdiag.errors import StabdiagError
from stabdiag.formats import names
from stabdiag.model.scan import UNREAD, Row, totals
from stabdiag.model.text import plural

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.live import Live

# The only format that is not text.
_PARQUET: Final = "parquet"

# Failed runs listed above the bar, and the width of the bar.
_MAX_FAILURES: Final = 5
_BAR_WIDTH: Final = 30

# Seconds between two updates: lines without a terminal, frames on one.
_LINE_INTERVAL: Final = 30.0
_FRAME_INTERVAL: Final = 0.1


@options.bundled
def scan(
    context: typer.Context,
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...", help="Folders, logs, archives, URLs, buckets, and patterns of these."
        ),
    ],
    run_options: options.RunOptions,
    store: Annotated[
        Path | None,
        options.option(
            "--output -o FOLDER",
            "Store one row per run there as Parquet; the next scan reads only what changed.",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        options.option("--jobs -j N", "Logs to read in parallel. Default: one per core.", min=1),
    ] = None,
    executor: Annotated[
        str | None,
        options.option(
            "--executor EXECUTOR",
            "Where to read logs: `dask`, or `module:callable` for another "
            "`concurrent.futures.Executor`. Default: processes on this machine.",
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        options.option(
            "--scheduler ADDRESS", "Address of the Dask scheduler, such as `tcp://node1:8786`."
        ),
    ] = None,
    timeout: Annotated[
        float,
        options.option("--timeout SECONDS", "Give up on a log after this many seconds.", min=0.1),
    ] = 300.0,
    where: Annotated[
        str | None,
        options.option(
            "--where CONDITION",
            "Report only these runs: `severity=error`, `peak_lr>=0.003`, `run=*seed7*`.",
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
    top: Annotated[int, options.option("--top N", "Number of worst runs to list.", min=0)] = 10,
    format: Annotated[str | None, options.format_option(names("overview"))] = None,
    json: options.AsJson = False,
    extra_outputs: options.WriteOption = None,
    fail_on: options.FailOnOption = None,
    literal: options.LiteralOption = False,
    color: options.Color = None,
) -> Exit:
    """Diagnose every run in folders, archives or buckets, and report what the failures share."""
    from stabdiag.model.findings import PARTLY_READ, Severity, fails, is_check_error
    from stabdiag.scan.executors import open_pool
    from stabdiag.scan.rows import give_back_memory, write_rows
    from stabdiag.scan.scan import scan_into
    from stabdiag.scan.worker import import_arrow_without_pandas

    outputs = options.parse_write_options(extra_outputs, [*names("overview"), _PARQUET])
    if format == _PARQUET:
        raise StabdiagError("parquet is not text: use --write parquet=FILE, or -o FOLDER")
    out = options.JsonOutputOptions(
        format=format, json=json, color=color, formats=names("overview")
    )
    format_name = out.choose_format(run_options, paths, [path for path, _ in outputs])
    exit_severity = run_options.exit_severity(fail_on)
    gc.enable()  # __main__ disables it for short commands
    references = options.BaselineOptions(baseline=baseline).references(run_options)
    scan_options = run_options.scan_options(literal=literal, timeout=timeout, references=references)
    import_arrow_without_pandas()
    give_back_memory()
    with TemporaryDirectory(prefix="stabdiag-scan-") as temporary:
        try:
            with catch_stop_signals() as caught, scan_display(color) as display:
                overview, skipped = scan_into(
                    paths,
                    store or Path(temporary),
                    scan_options,
                    open_pool(executor, jobs, scheduler),
                    where=where,
                    top=top,
                    peers=peers,
                    show=display.add,
                    stopped=lambda: bool(caught),
                )
        except KeyboardInterrupt:
            hint = "run the same command to continue" if store else "without -o, nothing was kept"
            notify(f"stopped; {hint}")
            return signal_exit_code(caught)
        for line in skipped.messages():
            notify(line)
        render_options = {
            "command": reproduction_command(context),
            "fail_on": exit_severity,
            **out.screen,
        }
        severity_counts = {count.severity or UNREAD: 0 for count in overview.counts}
        for count in overview.counts:
            severity_counts[count.severity or UNREAD] += count.runs
        summary = f"{plural(overview.runs, 'run')}: {totals(severity_counts)}"
        for path, name in (*outputs, (None, format_name)):  # files first
            if path is not None and name == _PARQUET:
                write_rows(overview.rows, path)
            else:
                write(
                    render_pieces(overview, name, "overview", verdict=summary, **render_options),
                    path,
                )
    severities = {count.severity for count in overview.counts if count.outcome != PARTLY_READ}
    if any(name is not None and fails(Severity(name), exit_severity) for name in severities):
        return Exit.FOUND
    has_open_checks = any(is_check_error(c.outcome, exit_severity) for c in overview.counts)
    return Exit.REFUSED if None in severities or has_open_checks else Exit.OK


@contextmanager
def scan_display(color: bool | None) -> Iterator[ScanDisplay]:
    """Yield a display of the progress, for a terminal or for plain standard error."""
    with live_display(color) as live:
        display = ScanDisplay(live, interval=_LINE_INTERVAL if live is None else _FRAME_INTERVAL)
        if live is not None:
            display.show()
        yield display


class ScanDisplay:
    """A progress bar below the latest failures; without a terminal, a line every half a minute.

    ``total`` is the number of logs, None while it is unknown.
    """

    total: int | None = None

    def __init__(self, live: Live | None = None, *, interval: float = _LINE_INTERVAL) -> None:
        self.done = 0
        self._live = live
        self._interval = interval
        self._start = self._last_update = time.monotonic()
        self._counts: Counter[str] = Counter()
        self._failures: deque[str] = deque(maxlen=_MAX_FAILURES)

    def add(self, rows: pa.Table, total: int | None) -> None:
        """Add rows, and the number of logs if it is known."""
        self.total = total
        columns = rows.select(["path", "run", "outcome", "severity", "headline"])
        for values in columns.to_pylist():
            self(Row(**values))

    def __call__(self, row: Row) -> None:
        """Add a row."""
        from stabdiag.formats.scans import name

        self.done += 1
        self._counts[row.severity or UNREAD] += 1
        if row.severity == "error":
            self._failures.append(f"{name(row)}: {row.headline} [{row.outcome}]")
        if time.monotonic() - self._last_update >= self._interval:
            self.show()

    def show(self) -> None:
        """Show the progress."""
        self._last_update = time.monotonic()
        if self._live is None:
            notify(self._progress_text())
            return
        from rich.columns import Columns
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        from stabdiag.formats.measured import visible

        lines = [
            Text(visible(line), "red", no_wrap=True, overflow="ellipsis") for line in self._failures
        ]
        bar = ProgressBar(self.total, self.done, width=_BAR_WIDTH, pulse=self.total is None)
        self._live.update(Group(*lines, Columns([bar, Text(self._progress_text())])), refresh=True)

    def _progress_text(self) -> str:
        text = totals(self._counts)
        if self.total is None:
            return f"{plural(self.done, 'log')}: {text}"
        if self.done:  # assuming that the remaining logs take as long as those before
            ratio = max(self.total / self.done - 1, 0)
            seconds = ratio * (time.monotonic() - self._start)
            left = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
            text = f"{text}, {left} left"
        return f"{self.done} of {plural(self.total, 'log')}: {text}"
