"""``stabdiag compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.choices import ComparisonFormat
from stabdiag.cli.commands import exit_code, reproduction_command, verdict
from stabdiag.cli.output_options import OutputOptions
from stabdiag.cli.rendering import render_report
from stabdiag.cli.run_options import RunOptions
from stabdiag.cli.terminal import Exit, progress
from stabdiag.files import protect_inputs
from stabdiag.model.comparison import ComparisonKind


def compare(
    context: typer.Context,
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Logs, folders, archives or URLs, each a separate run; or one folder with "
            "several runs, or the logs of several ranks.",
            callback=options.expand_patterns,
        ),
    ],
    kind: Annotated[
        ComparisonKind | None,
        typer.Option(
            "--as",
            metavar="RELATION",
            help="How the runs are related: seeds, reruns, ranks, resume, or baseline (is the "
            "first run worse than the others?). Default: inferred from names, manifests and steps.",
        ),
    ] = None,
    output: options.OutputOption = None,
    format: options.ComparisonFormatOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show every setting that differs.")
    ] = False,
    fail_on: options.FailOnOption = None,
    manifests: Annotated[
        list[Path] | None,
        typer.Option(
            "--manifest",
            metavar="FILE",
            help="The configuration of a run; give one for each run, in the same order. Default: "
            "the files next to each log.",
        ),
    ] = None,
    columns: options.ColumnOption = None,
    log_format: options.LogFormatOption = None,
    limit: options.LimitOption = None,
    config: options.ConfigOption = None,
    color: options.ColorOption = None,
) -> Exit:
    """Compare runs that should agree: seeds, reruns, a resumed run, or the ranks of a job.

    Show the first step where they differ, by how much, which series differs first, and why.
    """
    run_options = RunOptions(limit=limit, config=config, columns=columns, log_format=log_format)
    out = OutputOptions(
        formats=ComparisonFormat, format=format, output=output, json=json, quiet=quiet, color=color
    )
    format_name = out.choose_format(run_options, [*runs, *(manifests or ())])
    from stabdiag.api import compare as compare_runs

    with progress(runs):
        comparison = compare_runs(
            runs,
            kind=kind,
            manifests=manifests,
            limits=run_options.limits,
            columns=run_options.columns_by_role,
            format=run_options.log_format,
        ).ignoring(run_options.project.ignored)
    sources = [run.history.source for run in comparison.runs]
    protect_inputs([out.output], [file for source in sources for file in source.files])
    one_line = verdict(comparison.diagnosis)
    render_options = {"verbose": verbose, "command": reproduction_command(context), **out.screen}
    out.write_report(
        lambda: render_report(
            comparison, format_name, "comparison", verdict=one_line, **render_options
        ),
        one_line,
    )
    return exit_code(comparison.findings, run_options.exit_severity(fail_on))
