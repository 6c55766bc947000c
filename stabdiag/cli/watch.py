"""``stabdiag watch``."""

from __future__ import annotations

import gc
import math
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from stabdiag.cli import options
from stabdiag.cli.commands import FailOn, report_exit_code, verdict
from stabdiag.cli.rendering import render_report
from stabdiag.cli.terminal import (
    Exit,
    catch_stop_signals,
    live_display,
    notify,
    signal_exit_code,
    write,
)
from stabdiag.errors import StabdiagError
from stabdiag.files import protect_inputs
from stabdiag.model.text import and_more

if TYPE_CHECKING:
    from stabdiag.watch import Job, Seen

# Seconds after SIGTERM until a job that still runs is reported.
_TERM_WAIT: Final = 10.0

# The largest process id.
_MAX_PID: Final = (1 << 31) - 1


@options.bundled
def watch(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG...",
            help="A growing log, a folder, or several files of one run; `-` is standard input.",
        ),
    ],
    log_options: options.LogOptions,
    against: options.BaselineOptions,
    out: options.ReportOutputOptions,
    fail_on: Annotated[
        FailOn | None,
        options.option(
            "--fail-on SEVERITY",
            "Exit 1 at or above this severity, as soon as the finding is certain: error, warning "
            "or never.",
        ),
    ] = None,
    interval: Annotated[
        float, options.option("--interval SECONDS", "How often to check the log.", min=0.05)
    ] = 0.25,
    until_idle: Annotated[
        float | None,
        options.option(
            "--until-idle SECONDS", "Stop when the log has not grown for this long.", min=0
        ),
    ] = None,
    pid: Annotated[
        int | None,
        options.option("--pid PID", "Stop when this process ends.", min=1, max=_MAX_PID),
    ] = None,
    kill: Annotated[
        bool,
        options.option(
            "--kill", "Send SIGTERM to the `--pid` process as soon as an error is certain."
        ),
    ] = False,
    grace: Annotated[
        float | None,
        options.option(
            "--grace SECONDS",
            "With `--kill`: send SIGKILL if the process still runs this long after SIGTERM. "
            "Default: never.",
            min=0,
        ),
    ] = None,
    literal: options.LiteralOption = False,
) -> Exit:
    """Follow a growing log and exit with code 1 as soon as an error is certain.

    It waits for a log that does not exist yet. Ctrl-C ends the watch, not the job: it prints the
    report so far and exits with code 130.
    """
    from stabdiag.formats import writer
    from stabdiag.model.findings import threshold
    from stabdiag.model.manifest import read_manifest
    from stabdiag.watch import End, Until, open_source
    from stabdiag.watch import watch as watch_source

    format_name = out.choose_format(log_options, [*logs, log_options.manifest])
    exit_severity = log_options.exit_severity(fail_on)
    times = {"--interval": interval, "--until-idle": until_idle, "--grace": grace}
    for flag, seconds in times.items():
        if seconds is not None and not math.isfinite(seconds):
            raise StabdiagError(f"{flag} must be a finite number of seconds, not {seconds}")
    gc.enable()  # __main__ disables it for short commands
    writer(format_name)  # import it now: there may be no time at the end
    job = _job(pid, exit_severity, kill=kill)
    if grace is not None and not kill:
        raise StabdiagError("--grace is the time between SIGTERM and SIGKILL and needs --kill")
    references = against.references(log_options)
    scan_options = log_options.scan_options(
        attempt=log_options.attempt, literal=literal, references=references
    )
    manifest = None if log_options.manifest is None else read_manifest(log_options.manifest)

    source = open_source(logs, scan_options.of_a_log)
    with closing(source), catch_stop_signals() as caught, display(logs, out.color) as show:
        until = Until(
            fail_on=threshold(exit_severity),
            quiet=until_idle,
            process=job,
            stopped=lambda: bool(caught),
        )
        diagnose = partial(scan_options.report, manifest=manifest)
        for seen in watch_source(source, diagnose, until, interval=interval):
            show(seen)
        certain = seen.certain
        if (
            kill
            and job is not None
            and certain is not None
            and not _end_job(job, grace, until.stopped)
        ):
            # Take no further action, but report what the job still logs.
            until_end = replace(until, fail_on=None, quiet=None)
            for seen in watch_source(source, diagnose, until_end, interval=interval):
                show(seen)
    report = seen.report
    if report is None:
        if seen.end is not End.STOPPED and seen.trouble is not None:
            raise seen.trouble
        notify(f"stopped before anything was read ({seen.trouble})")
        return signal_exit_code(caught)  # not exit code 2: the input may be fine
    one_line = verdict(report.diagnosis)
    text = render_report(report, format_name, verdict=one_line, verbose=out.verbose, **out.screen)
    _write_report(text, out, one_line, report.history.source.files)
    if certain is not None:
        return Exit.FOUND
    if seen.end is End.STOPPED:
        return signal_exit_code(caught)
    return report_exit_code(report, exit_severity)


def _end_job(job: Job, grace: float | None, stopped: Callable[[], bool]) -> bool:
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


def _write_report(
    text: str, out: options.ReportOutputOptions, verdict: str, read: Sequence[str]
) -> None:
    """Write the report; if that fails, for example on a full disk, to standard output."""
    try:
        protect_inputs([out.output], read)
        out.write_report(lambda: text, verdict)
    except StabdiagError as error:
        notify(f"{error}; the report goes to standard output")
        write(text, None)


def _job(pid: int | None, fail_on: FailOn, *, kill: bool) -> Job | None:
    """Return the process that writes the log; with ``kill``, check that we may end it."""
    if kill and (pid is None or fail_on is FailOn.NEVER):
        raise StabdiagError("--kill needs --pid and a --fail-on other than never")
    if pid is None:
        return None
    if os.name == "nt":  # signal 0, which only tests a process elsewhere, ends it there
        raise StabdiagError("--pid does not work on Windows; use --until-idle")
    from stabdiag.watch import Job

    job = Job(pid)
    if kill:
        job.check_may_kill()
    return job


@contextmanager
def display(logs: Sequence[str], color: bool | None) -> Iterator[Callable[[Seen], None]]:
    """Yield a function that shows the state: in a panel on a terminal, else in lines.

    Both go to standard error, and only when something changed.
    """
    from stabdiag.formats.terminal.page import Printable
    from stabdiag.formats.terminal.panel import lines

    last: object = None
    with live_display(color) as live:

        def show(seen: Seen) -> None:
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


def _waiting_reason(seen: Seen) -> str:
    """Return the reason why there is no verdict yet; empty if there is one."""
    if seen.trouble is not None:
        return f"waiting: {seen.trouble}"
    return "waiting for the first records" if seen.report is None else ""


def _verdict(seen: Seen) -> tuple[str, str]:
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


def _status(seen: Seen) -> str:
    """Return a description of the watch. While the log is quiet, it changes less and less often."""
    if seen.end is not None:
        return f"the watch is over: {seen.end}"
    activity = "watching"
    if seen.quiet_for >= 10:
        activity = f"quiet for {10 * int(seen.quiet_for / 10)} s"
    if seen.quiet_for >= 120:
        activity = f"quiet for {int(seen.quiet_for / 60)} min"
    return _waiting_reason(seen) or f"{activity}; Ctrl-C ends it with a report"
