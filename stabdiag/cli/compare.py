"""``stabdiag compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.commands import again, exit_code, verdict
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
            help="Logs, folders, archives or URLs, each a run of its own; or one folder with "
            "the logs of several ranks.",
        ),
    ],
    how: options.Read,
    out: Annotated[options.Brief, names("comparison")],
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
            "The configuration of a run; once for each run, in the same order. Default: the files "
            "beside each log.",
        ),
    ] = None,
    fail_on: options.Severe = None,
    verbose: Annotated[
        bool, options.option("--verbose -v", "Show every setting that differs.")
    ] = False,
) -> Exit:
    """Compare runs that should agree: seeds, reruns, a resume, or the ranks of a job.

    Shows the first step where they differ, by how much, which series differs first, and why.
    """
    chosen = out.chosen(how, [*runs, *(manifests or ())])
    from stabdiag.api import compare as run

    with progress(runs):
        comparison = run(
            runs,
            kind=kind,
            manifests=manifests,
            limits=how.limits,
            columns=how.named,
            format=how.log_format,
        ).ignoring(how.project.ignored)
    sources = [one.history.source for one in comparison.runs]
    protect_inputs([out.output], [file for source in sources for file in source.files])
    one_line = verdict(comparison.diagnosis)
    shown = {"verbose": verbose, "command": again(context), **out.screen}
    out.tell(
        lambda: render_report(comparison, chosen, "comparison", verdict=one_line, **shown),
        one_line,
    )
    return exit_code(comparison.findings, how.fails_on(fail_on))
