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
from stabdiag.cli.terminal import Exit, after, live, stopping, tell, write
from stabdiag.errors import StabdiagError
from stabdiag.files import protect_inputs
from stabdiag.model.text import and_more

if TYPE_CHECKING:
    from stabdiag.watch import Job, Seen

# So many seconds after SIGTERM a job that still runs is said to.
_PATIENCE: Final = 10.0

# The largest number that a process can have.
_LARGEST: Final = (1 << 31) - 1


@options.bundled
def watch(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG...",
            help="A growing log, a folder, or several files of one run; `-` is standard input.",
        ),
    ],
    how: options.Reading,
    against: options.BaselineOptions,
    out: options.Page,
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
            "--until-idle SECONDS", "End after the log has been quiet for this long.", min=0
        ),
    ] = None,
    pid: Annotated[
        int | None,
        options.option("--pid PID", "End when this process ends.", min=1, max=_LARGEST),
    ] = None,
    kill: Annotated[
        bool,
        options.option("--kill", "Send SIGTERM to the --pid process when an error is certain."),
    ] = False,
    grace: Annotated[
        float | None,
        options.option(
            "--grace SECONDS",
            "With `--kill`: send SIGKILL to a process that still runs this long after SIGTERM. "
            "Default: never.",
            min=0,
        ),
    ] = None,
    literal: options.Literal = False,
) -> Exit:
    """Follow a growing log, and exit with code 1 as soon as an error is certain.

    The watch waits for a log that does not exist yet. Ctrl-C ends the watch, not the job, with the
    report so far and exit code 130.
    """
    from stabdiag.formats import writer
    from stabdiag.model.findings import threshold
    from stabdiag.model.manifest import read_manifest
    from stabdiag.watch import End, Until, open_source
    from stabdiag.watch import watch as run

    chosen = out.chosen(how, [*logs, how.manifest])
    fails_on = how.fails_on(fail_on)
    times = {"--interval": interval, "--until-idle": until_idle, "--grace": grace}
    for flag, seconds in times.items():
        if seconds is not None and not math.isfinite(seconds):
            raise StabdiagError(f"{flag} wants a number of seconds, not {seconds}")
    gc.enable()  # a command that is soon over does without
    writer(chosen)  # now, as at the end there is no time for it
    job = _job(pid, fails_on, kill=kill)
    if grace is not None and not kill:
        raise StabdiagError("--grace is the time between SIGTERM and SIGKILL: it wants --kill")
    references = against.references(how)
    ask = how.asked(attempt=how.attempt, literal=literal, references=references)
    known = None if how.manifest is None else read_manifest(how.manifest)

    source = open_source(logs, ask.of_a_log)
    with closing(source), stopping() as caught, display(logs, out.color) as show:
        until = Until(
            fail_on=threshold(fails_on),
            quiet=until_idle,
            process=job,
            stopped=lambda: bool(caught),
        )
        diagnose = partial(ask.report, manifest=known)
        for seen in run(source, diagnose, until, interval=interval):
            show(seen)
        sure = seen.certain
        if kill and job is not None and sure is not None and not _ended(job, grace, until.stopped):
            # Nothing more is acted on, but what the job still logs is reported.
            rest = replace(until, fail_on=None, quiet=None)
            for seen in run(source, diagnose, rest, interval=interval):
                show(seen)
    report = seen.report
    if report is None:
        if seen.end is not End.STOPPED and seen.trouble is not None:
            raise seen.trouble
        tell(f"stopped before anything was read ({seen.trouble})")
        return after(caught)  # stopping it is no bad input
    told = verdict(report.diagnosis)
    text = render_report(report, chosen, verdict=told, verbose=out.verbose, **out.screen)
    _hand_over(text, out, told, report.history.source.files)
    if sure is not None:
        return Exit.FOUND
    if seen.end is End.STOPPED:
        return after(caught)
    return report_exit_code(report, fails_on)


def _ended(job: Job, grace: float | None, stopped: Callable[[], bool]) -> bool:
    """End the job, and return whether it did end; say what was done."""
    tell(job.terminate())
    wait = _PATIENCE if grace is None else grace
    if job.ends_within(wait, stopped) or stopped():
        return True
    if grace is not None:
        tell(job.terminate(signal.SIGKILL))
        return job.ends_within(_PATIENCE, stopped)
    tell(
        f"process {job.number} still runs {wait:g} s after SIGTERM; watching it until it ends "
        "(--grace SECONDS sends SIGKILL)"
    )
    return False


def _hand_over(text: str, out: options.Page, verdict: str, read: Sequence[str]) -> None:
    """Write the report; where the disk has filled meanwhile, the verdict is still one."""
    try:
        protect_inputs([out.output], read)
        out.tell(lambda: text, verdict)
    except StabdiagError as error:
        tell(f"{error}; the report goes to standard output")
        write(text, None)


def _job(pid: int | None, fail_on: FailOn, *, kill: bool) -> Job | None:
    """Return the process that writes the log, if it is told, and one that may be ended."""
    if kill and (pid is None or fail_on is FailOn.NEVER):
        raise StabdiagError("--kill wants --pid and a --fail-on other than never")
    if pid is None:
        return None
    if os.name == "nt":  # there is no asking there: the signal 0 ends a process
        raise StabdiagError("--pid does not work on Windows; use --until-idle")
    from stabdiag.watch import Job

    job = Job(pid)
    if kill:
        job.check_may_kill()
    return job


@contextmanager
def display(logs: Sequence[str], color: bool | None) -> Iterator[Callable[[Seen], None]]:
    """Give a function that shows what is seen: in a panel on a terminal, else in lines.

    Both go to standard error, and only where something has changed.
    """
    from stabdiag.formats.terminal.page import Printable
    from stabdiag.formats.terminal.panel import lines

    last: object = None
    with live(color) as drawn:

        def show(seen: Seen) -> None:
            nonlocal last
            before, status = last, _status(seen)
            if drawn is not None:
                last = seen.report, status
                page = partial(lines, seen.report, name=and_more(logs), status=status)
                if last != before:
                    drawn.update(Printable(lines=page), refresh=True)
                return
            told, last = _verdict(seen)
            if last != before:
                tell(told)
            if seen.end is not None and seen.report is not None:
                tell(status)

        yield show


def _waits(seen: Seen) -> str:
    """Return what keeps a verdict from being reached."""
    if seen.trouble is not None:
        return f"waiting: {seen.trouble}"
    return "waiting for the first records" if seen.report is None else ""


def _verdict(seen: Seen) -> tuple[str, str]:
    """Return what is known, and by what it is told from what was known before."""
    waits = _waits(seen)
    if waits or seen.report is None:
        return waits, waits
    found, rest = seen.report.diagnosis, seen.report.also_found
    more = f" (and {len(rest)} more)" if rest else ""
    sure = ", certain" if seen.certain is not None else ""
    told = (
        f"step {seen.report.history.last_step}: {found.severity.value}{sure}: "
        f"{found.title} [{found.slug}]{more}"
    )
    return told, ",".join(sorted({one.slug for one in seen.report.findings})) + sure


def _status(seen: Seen) -> str:
    """Return in words what the watch is doing; of a quiet log it changes less and less often."""
    if seen.end is not None:
        return f"the watch is over: {seen.end}"
    does = "watching"
    if seen.quiet_for >= 10:
        does = f"quiet for {10 * int(seen.quiet_for / 10)} s"
    if seen.quiet_for >= 120:
        does = f"quiet for {int(seen.quiet_for / 60)} min"
    return _waits(seen) or f"{does}; Ctrl-C ends it with a report"
