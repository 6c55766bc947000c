"""``stabdiag scan``."""

from __future__ import annotations

import gc
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from stabdiag.cli import options
from stabdiag.cli.options import command
from stabdiag.cli.terminal import check_outputs, tell, terminal, write
from stabdiag.errors import StabdiagError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from stabdiag.cli.scan_display import ScanDisplay
    from stabdiag.scan.scan import Progress

# The one format that is no text.
_ROWS: Final = "parquet"

EPILOG = """
**Examples**

`stabdiag scan runs  # every run below a folder`

`stabdiag scan runs -o rows  # keep the rows; the next time only what has changed is read`

`stabdiag scan wandb mlruns 'old/*.tar.gz' s3://bucket/sweep`

`stabdiag scan runs --where severity=error --top 30`

`stabdiag scan runs -o rows --write html=runs.html --write parquet=runs.parquet`

`stabdiag scan /shared/runs -o rows --executor dask --scheduler tcp://node1:8786`

**Exit codes**: 0 nothing at or above `--fail-on` in any run; 1 something; 2 that apart, a log that
cannot be read, or usage; 130 and 143 stopped, and the same command goes on; 70 an
internal error, which is no verdict.
"""


def scan(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="Folders, logs, archives, URLs or buckets, and patterns of these; every run in "
            "them is diagnosed.",
        ),
    ],
    store: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Keep the rows there, as Parquet. What has not changed is not read again.",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            min=1,
            metavar="N",
            help="How many logs are read at a time; as many as there are cores by default.",
        ),
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="EXECUTOR",
            help="Where logs are read: `dask`, or `module:callable` for any other "
            "`concurrent.futures.Executor`; processes of this machine by default.",
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Dask's scheduler, such as `tcp://node1:8786`."),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="When a log is given up.")
    ] = 300.0,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Tell of these runs alone: `severity=error`, `peak_lr>=0.003`, `run=*seed7*`.",
        ),
    ] = None,
    top: Annotated[
        int, typer.Option(min=0, metavar="N", help="How many of the worst runs are named.")
    ] = 10,
    dtype: options.Dtype = None,
    settings: options.Settings = None,
    columns: options.ColumnNames = None,
    log_format: options.LogFormat = None,
    limit: options.LimitFlags = None,
    config: options.ConfigFile = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help="terminal, json, csv, markdown, html, junit or github; terminal by default.",
        ),
    ] = None,
    also: options.Besides = None,
    fail_on: options.Severe = options.FailOn.ERROR,
    literal: options.Literal = False,
    color: options.Color = None,
) -> options.Exit:
    """Diagnose every run below some paths, and say what those that failed have in common."""
    from stabdiag.cli.scan_display import scan_display
    from stabdiag.formats import names
    from stabdiag.formats.scans import FORMATS, render
    from stabdiag.model.findings import Severity, fails
    from stabdiag.scan.process import without_pandas
    from stabdiag.scan.rows import write_rows
    from stabdiag.scan.scan import asked, scan_into

    beside = options.besides_of(also, [*names(FORMATS), _ROWS])
    check_outputs([path for path, _ in beside], paths, config)
    if format == _ROWS:
        raise StabdiagError("parquet is no text: --write parquet=FILE, or -o FOLDER, writes it")
    chosen = options.format_of(format, None, names(FORMATS))
    gc.enable()  # a command that is soon over does without
    ask = asked(
        settings=options.settings_of(settings, dtype),
        limits=options.limits_of(limit, config),
        columns=options.columns_of(columns),
        format=log_format,
        literal=literal,
        timeout=timeout,
    )
    without_pandas()
    caught: list[int] = []
    try:
        with _stopping(caught), scan_display(color) as display:
            found = scan_into(
                paths,
                store,
                ask,
                executor=executor,
                scheduler=scheduler,
                jobs=jobs,
                where=where,
                top=top,
                show=_shown_by(display),
                stopped=lambda: bool(caught),
            )
    except KeyboardInterrupt:
        tell(f"stopped; {'the same command goes on' if store else 'nothing is kept without -o'}")
        return options.Exit(128 + (caught or [signal.SIGINT])[0])
    for line in found.passed.told():
        tell(line)
    flags = {
        "--output": store,
        "--where": where,
        "--dtype": dtype,
        "--set": settings,
        "--column": columns,
        "--log-format": log_format,
        "--limit": limit,
        "--config": config,
        "--literal": literal,
    }
    told = {"command": command("scan", paths, flags), "fail_on": fail_on}
    overview = found.overview
    for path, name in beside:
        if name == _ROWS:
            write_rows(overview.rows, path)
        else:
            write(render(overview, name, **told), path)
    write(render(overview, chosen, **told, **terminal(None, color)), None)
    severities = {one.severity for one in overview.counts}
    if any(one is not None and fails(Severity(one), fail_on) for one in severities):
        return options.Exit.FOUND
    return options.Exit.REFUSED if None in severities else options.Exit.OK


def _shown_by(display: ScanDisplay) -> Callable[[Progress], None]:
    from stabdiag.model.scan import Row

    def show(progress: Progress) -> None:
        display.total = progress.total
        columns = progress.rows.select(["path", "run", "outcome", "severity", "headline"])
        for told in columns.to_pylist():
            display(Row(**told))

    return show


@contextmanager
def _stopping(caught: list[int]) -> Iterator[None]:
    """Let Ctrl-C and the signal to terminate end a scan in good order; a second one, at once."""

    def catch(number: int, _frame: FrameType | None) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(number)

    before = {number: signal.signal(number, catch) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
