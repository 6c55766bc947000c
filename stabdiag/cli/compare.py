"""``stabdiag compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.commands import exit_code, reproduction_command, verdict
from stabdiag.cli.rendering import render_report
from stabdiag.cli.terminal import Exit, progress
from stabdiag.files import protect_inputs
from stabdiag.formats import names
from stabdiag.model.comparison import Kind


@options.bundled
def compare(
    context: typer.Context,
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Logs, folders, archives or URLs, each a separate run; or one folder with the "
            "logs of several ranks.",
        ),
    ],
    read_options: options.ReadOptions,
    out: Annotated[options.VerdictOutputOptions, names("comparison")],
    kind: Annotated[
        Kind | None,
        options.option(
            "--as RELATION",
            "How the runs are related: seeds, reruns, ranks, resume, or baseline (is the first run "
            "worse than the others?). Default: inferred from names, manifests and steps.",
        ),
    ] = None,
    manifests: Annotated[
        list[Path] | None,
        options.option(
            "--manifest FILE",
            "The configuration of a run; give one for each run, in the same order. Default: the "
            "files next to each log.",
        ),
    ] = None,
    fail_on: options.FailOnOption = None,
    verbose: Annotated[
        bool, options.option("--verbose -v", "Show every setting that differs.")
    ] = False,
) -> Exit:
    """Compare runs that should agree: seeds, reruns, a resumed run, or the ranks of a job.

    Show the first step where they differ, by how much, which series differs first, and why.
    """
    format_name = out.choose_format(read_options, [*runs, *(manifests or ())])
    from stabdiag.api import compare as compare_runs

    with progress(runs):
        comparison = compare_runs(
            runs,
            kind=kind,
            manifests=manifests,
            limits=read_options.limits,
            columns=read_options.columns_by_role,
            format=read_options.log_format,
        ).ignoring(read_options.project.ignored)
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
    return exit_code(comparison.findings, read_options.exit_severity(fail_on))
