"""``stabdiag compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.terminal import check_outputs, progress, terminal, write
from stabdiag.files import keep_inputs
from stabdiag.model.comparison import Kind

EPILOG = """
**Examples**

`stabdiag compare seed1.jsonl seed2.jsonl seed3.jsonl  # do the seeds end alike?`

`stabdiag compare monday/metrics.csv tuesday/metrics.csv --as reruns  # where do they diverge?`

`stabdiag compare slurm-101.out slurm-102.out --as resume  # does it continue properly?`

`stabdiag compare job  # a folder with rank0/log.jsonl, rank1/log.jsonl, …`

`stabdiag compare a.jsonl b.jsonl --column loss=train/ce --fail-on warning --format markdown`

**Exit codes**: 0 nothing at or above `--fail-on`; 1 a finding at or above it; 2 unreadable input or
usage error; 70 internal error, no verdict.
"""


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Logs, folders, archives or URLs, each a run of its own; or one folder with "
            "the logs of several ranks.",
        ),
    ],
    kind: Annotated[
        Kind | None,
        typer.Option(
            "--as",
            metavar="RELATION",
            help="How the runs are related: seeds, reruns, ranks or resume. Default: inferred "
            "from names, manifests and steps.",
        ),
    ] = None,
    manifests: Annotated[
        list[Path] | None,
        typer.Option(
            "--manifest",
            metavar="FILE",
            help="The configuration of a run; once for each run, in the same order. Default: the "
            "files beside each log.",
        ),
    ] = None,
    columns: options.ColumnNames = None,
    log_format: options.LogFormat = None,
    limit: options.LimitFlags = None,
    config: options.ConfigFile = None,
    format: options.SheetFormat = None,
    output: options.Output = None,
    fail_on: options.Severe = options.FailOn.ERROR,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show every setting that differs.")
    ] = False,
    color: options.Color = None,
) -> options.Exit:
    """Compare runs that should agree: seeds, reruns, a resume, or the ranks of a job.

    Shows the first step where they differ, by how much, which series differs first, and why.
    """
    from stabdiag.formats import names, render

    check_outputs([output], [*runs, *(manifests or ())], config)
    chosen = options.format_of(format, output, names("comparison"))
    from stabdiag.api import compare as run

    with progress(runs):
        comparison = run(
            runs,
            kind=kind,
            manifests=manifests,
            limits=options.limits_of(limit, config),
            columns=options.columns_of(columns),
            format=log_format,
        )
    keep_inputs([output], [file for one in comparison.runs for file in one.history.source.files])
    flags = {
        "--as": kind,
        "--manifest": manifests,
        "--column": columns,
        "--log-format": log_format,
        "--limit": limit,
        "--config": config,
    }
    text = render(
        comparison,
        chosen,
        "comparison",
        verbose=verbose,
        command=options.command("compare", runs, flags),
        **terminal(output, color),
    )
    write(text, output)
    return options.exit_code(comparison.findings, fail_on)
