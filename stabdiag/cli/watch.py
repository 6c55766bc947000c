"""``stabdiag watch``."""

from __future__ import annotations

import gc
import math
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from stabdiag.cli import options
from stabdiag.cli.choices import FailOn, ReportFormat
from stabdiag.cli.commands import report_exit_code, verdict
from stabdiag.cli.output_options import OutputOptions
from stabdiag.cli.rendering import render_report
from stabdiag.cli.run_options import RunOptions
from stabdiag.cli.terminal import (
    Exit,
    catch_stop_signals,
    live_display,
    notify,
    signal_exit_code,
    write_text,
)
from stabdiag.errors import StabdiagError
from stabdiag.files import protect_inputs
from stabdiag.model.text import and_more

if TYPE_CHECKING:
    from stabdiag.watch import WatchedJob, WatchState

# Seconds after SIGTERM until a job that still runs is reported.
_TERM_WAIT: Final = 10.0

# The largest process id.
_MAX_PID: Final = (1 << 31) - 1


def watch(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG...",
            help="A growing log, a folder, or several files of one run; `-` is standard input.",
            callback=options.expand_patterns,
        ),
    ],
    pid: Annotated[
        int | None,
        typer.Option(
            "--pid", metavar="PID", help="Stop when this process ends.", min=1, max=_MAX_PID
        ),
    ] = None,
    kill: Annotated[
        bool,
        typer.Option(
            "--kill", help="Send SIGTERM to the `--pid` process as soon as an error is certain."
        ),
    ] = False,
    until_idle: Annotated[
        float | None,
        typer.Option(
            "--until-idle",
            metavar="SECONDS",
            help="Stop when the log has not grown for this long.",
            min=0,
        ),
    ] = None,
    fail_on: Annotated[
        FailOn | None,
        typer.Option(
            "--fail-on",
            metavar="SEVERITY",
            help="error, warning, never or unknown: exit 1 as soon as this severity is certain. "
            "Default: error.",
        ),
    ] = None,
    output: options.OutputOption = None,
    format: options.ReportFormatOption = None,
    json: options.JsonDetailOption = None,
    quiet: options.QuietOption = False,
    verbose: options.VerboseOption = False,
    manifest: options.ManifestOption = None,
    dtype: options.DtypeOption = None,
    settings: options.SetOption = None,
    columns: options.ColumnOption = None,
    baseline: options.BaselineOption = None,
    where: options.BaselineWhereOption = None,
    grace: Annotated[
        float | None,
        typer.Option(
            "--grace",
            metavar="SECONDS",
            help="With `--kill`: send SIGKILL if the process still runs then. Default: never.",
            min=0,
            rich_help_panel=options.MORE_OPTIONS,
        ),
    ] = None,
    interval: Annotated[
        float,
        typer.Option(
            "--interval",
            metavar="SECONDS",
            help="How often to check the log. Default: 0.25.",
            min=0.05,
            rich_help_panel=options.MORE_OPTIONS,
        ),
    ] = 0.25,
    attempt: options.AttemptOption = None,
    log_format: options.LogFormatOption = None,
    limit: options.LimitOption = None,
    literal: options.LiteralOption = False,
    config: options.ConfigOption = None,
    color: options.ColorOption = None,
) -> Exit:
    """Follow a growing log and exit with code 1 as soon as an error is certain.

    It waits for a log that does not exist yet. Ctrl-C ends the watch, not the job: it prints the
    report so far and exits with code 130.
    """
    run_options = RunOptions(
        limit=limit,
        config=config,
        columns=columns,
        log_format=log_format,
        dtype=dtype,
        settings=settings,
        manifest=manifest,
        attempt=attempt,
        baseline=baseline,
        where=where,
    )
    out = OutputOptions(
        formats=ReportFormat, format=format, output=output, json=json, quiet=quiet, color=color
    )
    from stabdiag.formats import writer
    from stabdiag.model.fail_on import threshold
    from stabdiag.model.manifest import read_manifest
    from stabdiag.watch import EndReason, StopConditions, open_source
    from stabdiag.watch import watch as watch_source

    format_name = out.choose_format(run_options, [*logs, manifest])
    exit_severity = run_options.exit_severity(fail_on)
    _check_finite({"--interval": interval, "--until-idle": until_idle, "--grace": grace})
    gc.enable()  # __main__ disables it for short commands
    writer(format_name)  # import it now: there may be no time at the end
    job = _job(pid, exit_severity, kill=kill)
    if grace is not None and not kill:
        raise StabdiagError("--grace is the time between SIGTERM and SIGKILL and needs --kill")
    references = run_options.read_references()
    scan_options = run_options.scan_options(attempt=attempt, literal=literal, references=references)
    known_manifest = None if manifest is None else read_manifest(manifest)

    source = open_source(logs, scan_options.log_columns)
    with closing(source), catch_stop_signals() as caught, display(logs, color, quiet=quiet) as show:
        until = StopConditions(
            fail_on=threshold(exit_severity),
            quiet=until_idle,
            process=job,
            stopped=lambda: bool(caught),
        )
        diagnose = partial(scan_options.report, manifest=known_manifest)
        for seen in watch_source(source, diagnose, until, interval=interval):
            show(seen)
        certain = seen.certain
        job_to_end = job if kill and certain is not None else None
        if job_to_end is not None and not _end_job(job_to_end, grace, until.stopped):
            # Take no further action, but report what the job still logs.
            until_end = replace(until, fail_on=None, quiet=None)
            for seen in watch_source(source, diagnose, until_end, interval=interval):
                show(seen)
    report = seen.report
    if report is None:
        if seen.end is not EndReason.STOPPED and seen.trouble is not None:
            raise seen.trouble
        notify(f"stopped before anything was read ({seen.trouble})")
        return signal_exit_code(caught)  # not exit code 2: the input may be fine
    one_line = verdict(report.diagnosis)
    text = render_report(
        report,
        format_name,
        verdict=one_line,
        verbose=verbose or out.has_full_json,
        **out.screen,
    )
    _write_report(text, out, one_line, report.history.source.files)
    if certain is not None:
        if certain.slug not in {finding.slug for finding in report.findings}:
            notify(f"found after a NaN that recovered: {verdict(certain)}")
        return Exit.FINDING
    if seen.end is EndReason.STOPPED:
        return signal_exit_code(caught)
    return report_exit_code(report, exit_severity)


def _check_finite(times: Mapping[str, float | None]) -> None:
    """Raise an error if a time is not finite; the keys are its options."""
    for flag, seconds in times.items():
        if seconds is not None and not math.isfinite(seconds):
            raise StabdiagError(f"{flag} must be a finite number of seconds, not {seconds}")


def _end_job(job: WatchedJob, grace: float | None, stopped: Callable[[], bool]) -> bool:
    """End the job, report each action, and return True if the job ended."""
    notify(job.terminate())
    wait = _TERM_WAIT if grace is None else grace
    if job.ends_within(wait, stopped) or stopped():
        return True
    if grace is not None:
        notify(job.terminate(signal.SIGKILL))
        return job.ends_within(_TERM_WAIT, stopped)
    notify(
        f"process {job.number} still runs {wait:g} s after SIGTERM; watching it until it ends "
        "(--grace SECONDS sends SIGKILL)"
    )
    return False


def _write_report(text: str, out: OutputOptions, verdict: str, read: Sequence[str]) -> None:
    """Write the report; if that fails, for example on a full disk, to standard output."""
    try:
        protect_inputs([out.output], read)
        out.write_report(lambda: text, verdict)
    except StabdiagError as error:
        notify(f"{error}; the report goes to standard output")
        write_text(text, None)


def _job(pid: int | None, fail_on: FailOn, *, kill: bool) -> WatchedJob | None:
    """Return the process that writes the log; with ``kill``, check that we may end it."""
    if kill and (pid is None or fail_on is FailOn.NEVER):
        raise StabdiagError("--kill needs --pid and a --fail-on other than never")
    if pid is None:
        return None
    if os.name == "nt":  # signal 0, which only tests a process elsewhere, ends it there
        raise StabdiagError("--pid does not work on Windows; use --until-idle")
    from stabdiag.watch import WatchedJob

    job = WatchedJob(pid)
    if kill:
        job.check_may_kill()
    return job


@contextmanager
def display(
    logs: Sequence[str], color: bool | None, *, quiet: bool = False
) -> Iterator[Callable[[WatchState], None]]:
    """Yield a function that shows the state: in a panel on a terminal, else in lines.

    Both go to standard error, and only when something changed; with ``quiet``, nothing does.
    """
    if quiet:
        yield lambda seen: None
        return
    from stabdiag.formats.terminal.page import Printable
    from stabdiag.formats.terminal.panel import lines

    last: object = None
    with live_display(color) as live:

        def show(seen: WatchState) -> None:
            nonlocal last
            previous, status = last, _status(seen)
            if live is not None:
                last = seen.report, status
                page = partial(lines, seen.report, name=and_more(logs), status=status)
                if last != previous:
                    live.update(Printable(lines=page), refresh=True)
                return
            text, last = _verdict(seen)
            if last != previous:
                notify(text)
            if seen.end is not None and seen.report is not None:
                notify(status)

        yield show


def _waiting_reason(seen: WatchState) -> str:
    """Return the reason for a missing verdict, or an empty text."""
    if seen.trouble is not None:
        return f"waiting: {seen.trouble}"
    return "waiting for the first records" if seen.report is None else ""


def _verdict(seen: WatchState) -> tuple[str, str]:
    """Return the current verdict as a line, and a key that changes when the verdict does."""
    reason = _waiting_reason(seen)
    if reason or seen.report is None:
        return reason, reason
    finding, others = seen.report.diagnosis, seen.report.also_found
    suffix = f" (and {len(others)} more)" if others else ""
    certain = ", certain" if seen.certain is not None else ""
    text = (
        f"step {seen.report.history.last_step}: {finding.severity.value}{certain}: "
        f"{finding.title} [{finding.slug}]{suffix}"
    )
    slugs = sorted({finding.slug for finding in seen.report.findings})
    return text, ",".join(slugs) + certain


def _status(seen: WatchState) -> str:
    """Return a description of the watch. While the log is quiet, it changes less and less often."""
    if seen.end is not None:
        return f"the watch ended: {seen.end}"
    activity = "watching"
    if seen.quiet_for >= 10:
        activity = f"quiet for {10 * int(seen.quiet_for / 10)} s"
    if seen.quiet_for >= 120:
        activity = f"quiet for {int(seen.quiet_for / 60)} min"
    return _waiting_reason(seen) or f"{activity}; Ctrl-C ends it with a report"
