"""``stabdiag diagnose``."""

from __future__ import annotations

from pathlib import Path

import typer

from stabdiag.cli import options
from stabdiag.cli.commands import again, report_exit_code, verdict
from stabdiag.cli.rendering import render_report, terminal_fallback
from stabdiag.cli.terminal import (
    Exit,
    add_to_summary,
    progress,
    tell,
    tell_of_baseline,
    tell_of_runs_beside,
    write,
)
from stabdiag.errors import LogError, ManifestError, NothingLogged
from stabdiag.files import protect_inputs


@options.bundled
def diagnose(
    context: typer.Context,
    logs: options.Logs,
    how: options.Reading,
    against: options.BaselineOptions,
    out: options.Page,
    also: options.Besides = None,
    fail_on: options.Severe = None,
    literal: options.Literal = False,
) -> Exit:
    """Diagnose a training run: print one diagnosis and the first action to take."""
    beside = options.besides_of(also)
    files = [path for path, _ in beside]
    references = against.arguments(how.project)
    chosen = out.chosen(how, [*logs, how.manifest, *against.sources(how.project)], files)
    fails_on = how.fails_on(fail_on)
    from stabdiag.api import diagnose as run

    try:
        with progress(logs):
            report = run(logs, **how.arguments, **references, literal=literal)
        report = report.ignoring(how.project.ignored)
    except NothingLogged:
        raise
    except LogError as error:
        raise _of_a_manifest(logs) or error from None
    tell_of_baseline(report)
    source = report.history.source
    protect_inputs([out.output, *files], source.files)
    tell_of_runs_beside(logs[0], source)
    if len(logs) > 1 and source.attempts > 1 and how.attempt is None:
        tell(
            f"the files hold {source.attempts} separate runs; this is the last one."
            " --attempt N selects another; stabdiag check diagnoses each file"
        )

    def shown_by(name: str, path: Path | None) -> str:
        # A page shows how to make it; a comment shows how to see the same in a terminal.
        page = {"--format": name, "--output": path} if name == "html" else {}
        return again(context, **page)

    one_line = verdict(report.diagnosis)

    def render_as(name: str, path: Path | None, **screen: object) -> str:
        options = {"verbose": out.verbose, "fail_on": fails_on, "command": shown_by(name, path)}
        return render_report(report, name, verdict=one_line, **options, **screen)

    for path, content in [(path, render_as(name, path)) for path, name in beside]:
        write(content, path)
    out.tell(lambda: render_as(chosen, out.output, **out.screen), one_line, *files)
    if chosen == "github":
        with terminal_fallback(report, chosen, verdict=one_line):
            add_to_summary(report, shown_by(chosen, out.output))
    return report_exit_code(report, fails_on)


def _of_a_manifest(logs: list[str]) -> LogError | None:
    """Return what to say if the only log that was given is a manifest."""
    from stabdiag.model.manifest import read_manifest

    name = logs[0]
    if len(logs) > 1 or not name.lower().endswith((".json", ".toml", ".yaml", ".yml")):
        return None
    try:
        known = read_manifest(name).known
    except ManifestError:
        return None
    if not known:
        return None
    return LogError(
        f"{name}: this is a configuration, and diagnose reads a log; pass it with --manifest"
        f" {name}, or check it with stabdiag preflight"
    )
