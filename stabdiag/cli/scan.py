"""``stabdiag scan``."""

from __future__ import annotations

import gc
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from stabdiag.cli import options
from stabdiag.cli.choices import FailOn, OverviewFormat
from stabdiag.cli.commands import reproduction_command
from stabdiag.cli.output_options import OutputOptions, parse_write_options
from stabdiag.cli.rendering import render_pieces
from stabdiag.cli.run_options import RunOptions
from stabdiag.cli.terminal import (
    Exit,
    catch_stop_signals,
    live_display,
    notify,
    signal_exit_code,
    write_text,
)
from stabdiag.formats import by_suffix
from stabdiag.model.scan import UNREAD, Row, summarize, totals
from stabdiag.model.text import plural

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.live import Live

    from stabdiag.model.scan import Overview

# The only format that is not text.
_PARQUET: Final = "parquet"
_PARQUET_SUFFIX: Final = ".parquet"

# Failed runs listed above the bar, and the width of the bar.
_MAX_FAILURES: Final = 5
_BAR_WIDTH: Final = 30

# Seconds between two updates: lines without a terminal, frames on one.
_LINE_INTERVAL: Final = 30.0
_FRAME_INTERVAL: Final = 0.1


def scan(
    context: typer.Context,
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...", help="Folders, logs, archives, URLs, buckets, and patterns of these."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="A folder stores one row per run, and the next scan reads only what changed. A "
            "file (`.html`, `.md`, `.json`, `.parquet`) gets the overview or the rows.",
        ),
    ] = None,
    write: options.WriteOption = None,
    format: options.OverviewFormatOption = None,
    json: options.JsonOption = False,
    quiet: options.TotalsOption = False,
    fail_on: options.FailOnOption = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            help="Report only some runs: `severity=error`, `peak_lr>=0.003`.",
        ),
    ] = None,
    top: Annotated[
        int,
        typer.Option(
            "--top", metavar="N", help="Number of worst runs to list. Default: 10.", min=0
        ),
    ] = 10,
    baseline: options.BaselineOption = None,
    peers: Annotated[
        bool,
        typer.Option(
            "--peers",
            help="Compare each run with the healthy runs that differ only in the seed.",
        ),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            metavar="N",
            help="Logs to read in parallel. Default: one per core.",
            min=1,
            rich_help_panel=options.MORE_OPTIONS,
        ),
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option(
            "--executor",
            metavar="EXECUTOR",
            help="`dask`, or `module:callable` for another executor. Default: processes.",
            rich_help_panel=options.MORE_OPTIONS,
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            metavar="ADDRESS",
            help="Address of the Dask scheduler, such as `tcp://node1:8786`.",
            rich_help_panel=options.MORE_OPTIONS,
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            help="Give up on a log after this long. Default: 300.",
            min=0.1,
            rich_help_panel=options.MORE_OPTIONS,
        ),
    ] = 300.0,
    dtype: options.DtypeOption = None,
    settings: options.SetOption = None,
    columns: options.ColumnOption = None,
    log_format: options.LogFormatOption = None,
    limit: options.LimitOption = None,
    literal: options.LiteralOption = False,
    config: options.ConfigOption = None,
    color: options.ColorOption = None,
) -> Exit:
    """Diagnose every run in folders, archives or buckets, and report what the failures share."""
    from stabdiag.scan.executors import open_pool
    from stabdiag.scan.rows import give_back_memory, write_rows
    from stabdiag.scan.scan import scan_and_store
    from stabdiag.scan.worker import import_arrow_without_pandas

    run_options = RunOptions(
        limit=limit,
        config=config,
        columns=columns,
        log_format=log_format,
        dtype=dtype,
        settings=settings,
        baseline=baseline,
    )
    outputs = parse_write_options(write, [*OverviewFormat, _PARQUET])
    store, report = (None, output) if _is_file_name(output) else (output, None)
    if report is not None and report.suffix.lower() == _PARQUET_SUFFIX:
        outputs.append((report, _PARQUET))
        report = None
    out = OutputOptions(
        formats=OverviewFormat, format=format, output=report, json=json, quiet=quiet, color=color
    )
    format_name = out.choose_format(run_options, paths, [path for path, _ in outputs])
    exit_severity = run_options.exit_severity(fail_on)
    gc.enable()  # __main__ disables it for short commands
    references = run_options.read_references()
    scan_options = run_options.scan_options(
        literal=literal,
        timeout=timeout,
        references=references,
        keeps_profiles=store is not None or peers,  # a temporary store is not read again
    )
    import_arrow_without_pandas()
    give_back_memory()
    with TemporaryDirectory(prefix="stabdiag-scan-") as temporary:
        try:
            with catch_stop_signals() as caught, scan_display(color) as display:
                overview, skipped = scan_and_store(
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
            hint = (
                "run the same command to continue"
                if store
                else "nothing was kept without -o FOLDER"
            )
            notify(f"stopped; {hint}")
            return signal_exit_code(caught)
        for line in skipped.messages():
            notify(line)
        render_options = {
            "command": reproduction_command(context),
            "fail_on": exit_severity,
            **out.screen,
        }
        severity_counts = Counter[str]()
        for count in overview.counts:
            severity_counts[count.severity or UNREAD] += count.runs
        summary = summarize(severity_counts)

        def render(name: str) -> Iterable[str]:
            return render_pieces(overview, name, "overview", verdict=summary, **render_options)

        for path, name in outputs:
            if name == _PARQUET:
                write_rows(overview.rows, path)
            else:
                write_text(render(name), path)
        out.write_report(lambda: render(format_name), summary, *(path for path, _ in outputs))
    return _exit_code(overview, exit_severity)


def _exit_code(overview: Overview, fail_on: FailOn) -> Exit:
    """Return 1 if a run failed, 2 if a log could not be read or judged, else 0."""
    from stabdiag.model.fail_on import fails, is_check_error
    from stabdiag.model.findings import PARTLY_READ, Severity

    severities = {count.severity for count in overview.counts if count.outcome != PARTLY_READ}
    if any(name is not None and fails(Severity(name), fail_on) for name in severities):
        return Exit.FINDING
    has_open_checks = any(is_check_error(count.outcome, fail_on) for count in overview.counts)
    return Exit.REFUSED if None in severities or has_open_checks else Exit.OK


def _is_file_name(path: Path | None) -> bool:
    """Whether a path names a report or a table, not a folder of rows."""
    if path is None or path.is_dir():
        return False
    suffix = path.suffix.lower()
    return suffix == _PARQUET_SUFFIX or by_suffix(suffix) is not None


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
