"""``stabdiag diagnose``."""

from __future__ import annotations

from pathlib import Path

import typer

from stabdiag.cli import options
from stabdiag.cli.choices import ReportFormat
from stabdiag.cli.commands import report_exit_code, reproduction_command, verdict
from stabdiag.cli.output_options import OutputOptions, parse_write_options
from stabdiag.cli.rendering import render_report, terminal_fallback
from stabdiag.cli.run_options import RunOptions
from stabdiag.cli.terminal import (
    Exit,
    add_to_summary,
    notify,
    notify_other_runs,
    notify_unusable_baseline,
    progress,
    write_text,
)
from stabdiag.errors import LogError, ManifestError, NothingLogged
from stabdiag.files import protect_inputs


def diagnose(
    context: typer.Context,
    logs: options.LogsArgument,
    output: options.OutputOption = None,
    format: options.ReportFormatOption = None,
    json: options.JsonDetailOption = None,
    quiet: options.QuietOption = False,
    verbose: options.VerboseOption = False,
    fail_on: options.FailOnOption = None,
    manifest: options.ManifestOption = None,
    dtype: options.DtypeOption = None,
    settings: options.SetOption = None,
    columns: options.ColumnOption = None,
    baseline: options.BaselineOption = None,
    where: options.BaselineWhereOption = None,
    write: options.WriteOption = None,
    attempt: options.AttemptOption = None,
    log_format: options.LogFormatOption = None,
    limit: options.LimitOption = None,
    literal: options.LiteralOption = False,
    config: options.ConfigOption = None,
    color: options.ColorOption = None,
) -> Exit:
    """Diagnose a training run: print one diagnosis and the first action to take."""
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
    outputs = parse_write_options(write)
    files = [path for path, _ in outputs]
    format_name = out.choose_format(
        run_options, [*logs, manifest, *run_options.baseline_paths], files
    )
    exit_severity = run_options.exit_severity(fail_on)
    from stabdiag.api import diagnose as diagnose_logs

    try:
        with progress(logs):
            report = diagnose_logs(
                logs,
                **run_options.log_arguments,
                **run_options.baseline_arguments,
                literal=literal,
            )
        report = report.ignoring(run_options.project.ignored)
    except NothingLogged:
        raise
    except LogError as error:
        raise _manifest_error(logs) or error from None
    notify_unusable_baseline(report)
    source = report.history.source
    protect_inputs([out.output, *files], source.files)
    notify_other_runs(logs[0], source)
    if len(logs) > 1 and source.attempts > 1 and attempt is None:
        notify(
            f"the files contain {source.attempts} separate runs; this is the last one."
            " --attempt N selects another; stabdiag check diagnoses each file"
        )

    def make_command(name: str, path: Path | None) -> str:
        # An HTML page shows the command that writes it; other formats show the terminal command.
        page = {"--format": name, "--output": path} if name == "html" else {}
        return reproduction_command(context, **page)

    one_line = verdict(report.diagnosis)

    def render_as(name: str, path: Path | None, **screen: object) -> str:
        options = {
            "verbose": verbose or out.has_full_json,
            "fail_on": exit_severity,
            "command": make_command(name, path),
        }
        return render_report(report, name, verdict=one_line, **options, **screen)

    for path, content in [(path, render_as(name, path)) for path, name in outputs]:
        write_text(content, path)
    out.write_report(lambda: render_as(format_name, out.output, **out.screen), one_line, *files)
    if format_name == "github":
        with terminal_fallback(report, format_name, verdict=one_line):
            add_to_summary(report, make_command(format_name, out.output))
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
