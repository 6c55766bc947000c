"""``stabdiag diagnose``."""

from __future__ import annotations

from pathlib import Path

import typer

from stabdiag.cli import options
from stabdiag.cli.commands import report_exit_code, reproduction_command, verdict
from stabdiag.cli.rendering import render_report, terminal_fallback
from stabdiag.cli.terminal import (
    Exit,
    add_to_summary,
    notify,
    notify_other_runs,
    notify_unusable_baseline,
    progress,
    write,
)
from stabdiag.errors import LogError, ManifestError, NothingLogged
from stabdiag.files import protect_inputs


@options.bundled
def diagnose(
    context: typer.Context,
    logs: options.LogArguments,
    log_options: options.LogOptions,
    against: options.BaselineOptions,
    out: options.ReportOutputOptions,
    extra_outputs: options.WriteOption = None,
    fail_on: options.FailOnOption = None,
    literal: options.LiteralOption = False,
) -> Exit:
    """Diagnose a training run: print one diagnosis and the first action to take."""
    outputs = options.parse_write_options(extra_outputs)
    files = [path for path, _ in outputs]
    baseline_arguments = against.arguments(log_options.project)
    format_name = out.choose_format(
        log_options, [*logs, log_options.manifest, *against.sources(log_options.project)], files
    )
    exit_severity = log_options.exit_severity(fail_on)
    from stabdiag.api import diagnose as diagnose_logs

    try:
        with progress(logs):
            report = diagnose_logs(
                logs, **log_options.arguments, **baseline_arguments, literal=literal
            )
        report = report.ignoring(log_options.project.ignored)
    except NothingLogged:
        raise
    except LogError as error:
        raise _manifest_error(logs) or error from None
    notify_unusable_baseline(report)
    source = report.history.source
    protect_inputs([out.output, *files], source.files)
    notify_other_runs(logs[0], source)
    if len(logs) > 1 and source.attempts > 1 and log_options.attempt is None:
        notify(
            f"the files contain {source.attempts} separate runs; this is the last one."
            " --attempt N selects another; stabdiag check diagnoses each file"
        )

    def command_for(name: str, path: Path | None) -> str:
        # An HTML page shows the command that writes it; other formats show the terminal command.
        page = {"--format": name, "--output": path} if name == "html" else {}
        return reproduction_command(context, **page)

    one_line = verdict(report.diagnosis)

    def render_as(name: str, path: Path | None, **screen: object) -> str:
        options = {
            "verbose": out.verbose,
            "fail_on": exit_severity,
            "command": command_for(name, path),
        }
        return render_report(report, name, verdict=one_line, **options, **screen)

    for path, content in [(path, render_as(name, path)) for path, name in outputs]:
        write(content, path)
    out.write_report(lambda: render_as(format_name, out.output, **out.screen), one_line, *files)
    if format_name == "github":
        with terminal_fallback(report, format_name, verdict=one_line):
            add_to_summary(report, command_for(format_name, out.output))
    return report_exit_code(report, exit_severity)


def _manifest_error(logs: list[str]) -> LogError | None:
    """Return the error to raise if the only log given is a manifest."""
    from stabdiag.model.manifest import read_manifest

    name = logs[0]
    if len(logs) > 1 or not name.lower().endswith((".json", ".toml", ".yaml", ".yml")):
        return None
    try:
        fields = read_manifest(name).known
    except ManifestError:
        return None
    if not fields:
        return None
    return LogError(
        f"{name}: this is a configuration, and diagnose reads a log; pass it with --manifest"
        f" {name}, or check it with stabdiag preflight"
    )
