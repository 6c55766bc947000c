"""``stabdiag check``."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.choices import CheckFormat, FailOn
from stabdiag.cli.commands import report_exit_code, reproduction_command, verdict
from stabdiag.cli.output_options import OutputOptions
from stabdiag.cli.rendering import render_pieces, render_report
from stabdiag.cli.run_options import RunOptions
from stabdiag.cli.terminal import Exit, notify, notify_other_runs, report_error, write_text
from stabdiag.errors import StabdiagError
from stabdiag.model.findings import PARTLY_READ
from stabdiag.model.scan import UNREAD, Row, summarize

if TYPE_CHECKING:
    from stabdiag.model.report import Report
    from stabdiag.scan.work import ScanOptions
    from stabdiag.sources.group import SkippedEntries


def check(
    context: typer.Context,
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG...",
            help="Logs, each a run of its own, and folders with any number of runs.",
            callback=options.expand_patterns,
        ),
    ],
    output: options.OutputOption = None,
    format: options.CheckFormatOption = None,
    json: options.JsonOption = False,
    quiet: options.TotalsOption = False,
    fail_on: options.FailOnOption = None,
    dtype: options.DtypeOption = None,
    settings: options.SetOption = None,
    columns: options.ColumnOption = None,
    baseline: options.BaselineOption = None,
    where: options.BaselineWhereOption = None,
    log_format: options.LogFormatOption = None,
    limit: options.LimitOption = None,
    config: options.ConfigOption = None,
    color: options.ColorOption = None,
) -> Exit:
    """Diagnose each run and print one line per finding, like a linter, with totals at the end."""
    run_options = RunOptions(
        limit=limit,
        config=config,
        columns=columns,
        log_format=log_format,
        dtype=dtype,
        settings=settings,
        baseline=baseline,
        where=where,
    )
    out = OutputOptions(
        formats=CheckFormat, format=format, output=output, json=json, quiet=quiet, color=color
    )
    from stabdiag.formats.issues import limits_line
    from stabdiag.scan.overview import make_overview
    from stabdiag.sources.group import SkippedEntries

    format_name = out.choose_format(run_options, logs)
    exit_severity, has_color = run_options.exit_severity(fail_on), out.screen["color"]
    references = run_options.read_references()
    scan_options = run_options.scan_options(references=references)
    is_streamed = format_name == "lines" and not out.quiet and out.output is None
    if is_streamed:
        write_text(limits_line(run_options.limits), None)
    codes, texts, rows = Counter[Exit](), [limits_line(run_options.limits)], list[Row]()
    unread, skipped = 0, SkippedEntries()

    def show(report: Report) -> None:
        codes[report_exit_code(report, exit_severity)] += 1
        one_line = verdict(report.diagnosis)
        lines = render_report(report, "lines", verdict=one_line, limits=False, color=has_color)
        texts.append(lines)

    for log in logs:
        try:
            for row in _rows(log, logs, scan_options, skipped, show):
                rows.append(row)
                if row.severity is None:
                    report_error(f"{row.path}: {row.reason}")
                    unread += 1
                elif is_streamed:
                    write_text(texts.pop(), None)
        except StabdiagError as error:
            report_error(str(error))
            unread += 1
    for line in skipped.unread_messages():
        notify(line)
    counts = Counter(_total_key(row) for row in rows)
    summary = summarize(counts)

    def report() -> Iterable[str]:
        if format_name == "lines":
            return [summary] if is_streamed else [*texts, summary]
        overview = make_overview(rows, places=logs)
        screen = {"command": reproduction_command(context), "fail_on": exit_severity, **out.screen}
        return render_pieces(overview, format_name, "overview", verdict=summary, **screen)

    out.write_report(report, summary)
    if unread or not codes[Exit.FINDING]:
        has_open_checks = codes[Exit.REFUSED] or (
            skipped.unread_messages() and exit_severity is not FailOn.NEVER
        )
        return Exit.REFUSED if unread or has_open_checks else Exit.OK
    return Exit.FINDING


def _total_key(row: Row) -> str:
    """Return the key under which the totals count a run."""
    return PARTLY_READ if row.outcome == PARTLY_READ else row.severity or UNREAD


def _rows(
    log: str,
    logs: Sequence[str],
    scan_options: ScanOptions,
    skipped: SkippedEntries,
    show: Callable[[Report], None],
) -> Iterator[Row]:
    """Yield the row of one of several logs, or of every run in a folder or archive.

    ``show`` gets each report.
    """
    from stabdiag.scan.report_row import make_row
    from stabdiag.scan.work import rows_of_jobs
    from stabdiag.sources.best import ARCHIVES
    from stabdiag.sources.find import find

    if not Path(log).is_dir() and not (Path(log).is_file() and log.lower().endswith(ARCHIVES)):
        from stabdiag.sources.names import identity
        from stabdiag.sources.neighbors import describe_neighbors
        from stabdiag.sources.read import read_source

        judged = frozenset(map(identity, logs))
        request = replace(scan_options.log_columns, judged=judged)
        report = scan_options.report(read_source([log], request), refuse=True)
        notify_other_runs(log, report.history.source)
        if Path(log).is_file() and (neighbors := describe_neighbors(Path(log), judged)):
            notify(f"{log}: {neighbors}")
        show(report)
        yield make_row(report, log, log)
        return
    absolute, rows = os.path.abspath(log), 0  # noqa: PTH100 - as a scan does it
    # Lines name each log as the user gave it, for example relative to the repository root.
    jobs = (
        replace(job, root=f"{log.rstrip('/')}{job.root[len(absolute) :]}") if job.root else job
        for job in find([log], skipped)
    )
    for row in rows_of_jobs(jobs, scan_options, skipped, show):
        rows += 1
        yield row
    if not rows:
        raise skipped.no_log_error(log)
