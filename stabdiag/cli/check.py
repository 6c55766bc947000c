"""``stabdiag check``."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.commands import FailOn, again, report_exit_code, verdict
from stabdiag.cli.rendering import render_pieces, render_report
from stabdiag.cli.terminal import Exit, complain, tell, tell_of_runs_beside, write
from stabdiag.errors import StabdiagError
from stabdiag.formats import names
from stabdiag.model.findings import PARTLY_READ
from stabdiag.model.scan import UNREAD, Row, totals
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from stabdiag.model.report import Report
    from stabdiag.scan.work import ScanOptions
    from stabdiag.sources.group import SkippedEntries


@options.bundled
def check(
    context: typer.Context,
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG...",
            help="Logs, each a run of its own, and folders with any number of runs.",
        ),
    ],
    how: options.Runs,
    against: options.BaselineOptions,
    out: Annotated[options.Brief, ("lines", *names("overview"))],
    fail_on: options.Severe = None,
) -> Exit:
    """Diagnose each run, and print its findings in lines, as linters do, with totals at the end."""
    from stabdiag.formats.issues import limits_line
    from stabdiag.scan.overview import overview_of
    from stabdiag.sources.group import SkippedEntries

    chosen = out.chosen(how, logs)
    fails_on, color = how.fails_on(fail_on), out.screen["color"]
    references = against.references(how)
    ask = how.asked(references=references)
    shown = chosen == "lines" and not out.quiet and out.output is None
    if shown:
        write(limits_line(how.limits), None)
    codes, told, rows = Counter[Exit](), [limits_line(how.limits)], list[Row]()
    unread, passed = 0, SkippedEntries()

    def show(report: Report) -> None:
        codes[report_exit_code(report, fails_on)] += 1
        one_line = verdict(report.diagnosis)
        lines = render_report(report, "lines", verdict=one_line, limits=False, color=color)
        told.append(lines)

    for log in logs:
        try:
            for row in _rows(log, how, ask, passed, show):
                rows.append(row)
                if row.severity is None:
                    complain(f"{row.path}: {row.reason}")
                    unread += 1
                elif shown:
                    write(told.pop(), None)
        except StabdiagError as error:
            complain(str(error))
            unread += 1
    for line in passed.unseen():
        tell(line)
    counts = Counter(_standing(row) for row in rows)
    ended = f"{plural(len(rows), 'run')}: {totals(counts)}"

    def report() -> Iterable[str]:
        if chosen == "lines":
            return [ended] if shown else [*told, ended]
        overview = overview_of(rows, places=logs)
        screen = {"command": again(context), "fail_on": fails_on, **out.screen}
        return render_pieces(overview, chosen, "overview", verdict=ended, **screen)

    out.tell(report, ended)
    if unread or not codes[Exit.FOUND]:
        is_open = codes[Exit.REFUSED] or (passed.unseen() and fails_on is not FailOn.NEVER)
        return Exit.REFUSED if unread or is_open else Exit.OK
    return Exit.FOUND


def _standing(row: Row) -> str:
    """Return what a run counts as in the totals."""
    return PARTLY_READ if row.outcome == PARTLY_READ else row.severity or UNREAD


def _rows(
    log: str,
    how: options.Runs,
    ask: ScanOptions,
    passed: SkippedEntries,
    show: Callable[[Report], None],
) -> Iterator[Row]:
    """Yield the row of a log, or of every run in a folder or archive; ``show`` gets each report."""
    from stabdiag.scan.work import row_of, rows_of_jobs
    from stabdiag.sources.best import ARCHIVES
    from stabdiag.sources.find import find

    if not Path(log).is_dir() and not (Path(log).is_file() and log.lower().endswith(ARCHIVES)):
        from stabdiag.api import diagnose

        report = diagnose(log, **how.common, baseline=ask.references)
        report = report.ignoring(how.project.ignored)
        tell_of_runs_beside(log, report.history.source)
        show(report)
        yield row_of(report, log, log)
        return
    whole, rows = os.path.abspath(log), 0  # noqa: PTH100 - as a scan does it
    # Lines name a log as it was given: relative to the top of a repository.
    given = (
        replace(job, root=f"{log.rstrip('/')}{job.root[len(whole) :]}") if job.root else job
        for job in find([log], passed)
    )
    for row in rows_of_jobs(given, ask, passed, show):
        rows += 1
        yield row
    if not rows:
        raise passed.no_log_error(log)
