"""``stabdiag diagnose``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stabdiag.cli.options import Color, ConfigFile, LimitFlags, Output, limits_of, pair
from stabdiag.cli.terminal import progress, terminal, write

if TYPE_CHECKING:
    from stabdiag.findings import Finding


class FailOn(StrEnum):
    """The severity from which on the exit code is 1."""

    ERROR = "error"
    WARNING = "warning"
    NEVER = "never"


EPILOG = """
**Examples**

`stabdiag diagnose run.jsonl`

`stabdiag diagnose lightning_logs`: a folder, the best log in it

`stabdiag diagnose slurm-101.out slurm-102.out`: several attempts at one run

`stabdiag diagnose run.tar.gz`, `stabdiag diagnose s3://bucket/run/metrics.jsonl`

`stabdiag diagnose metrics.csv --dtype fp16 --column loss=train/ce`

`stabdiag diagnose run.parquet --manifest config.json --format json -o report.json`

`zcat run.jsonl.gz | stabdiag diagnose - --fail-on warning`

**Exit codes**: 0 nothing at or above `--fail-on`; 1 something; 2 unreadable input or usage.
"""


def diagnose(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG...",
            help="A log as its framework wrote it, a folder, an archive or a URL; several files of "
            "one run; `-` is standard input.",
        ),
    ],
    manifest: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What the run was configured to do. By default what lies beside the log: "
            "`<log>.manifest.json`, `manifest.json`, `training_args.json`, `config.yaml`, …",
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(metavar="DTYPE", help="fp16, bf16 or fp32; overrides the manifest."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="Override a manifest field: `checkpoint_every=500`, `grad_clip=1`. Repeatable.",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="ROLE=NAME",
            help="Name the column of a role: `loss=train/ce`. Repeatable.",
        ),
    ] = None,
    attempt: Annotated[
        int | None,
        typer.Option(metavar="N", help="Which of several appended runs; the last by default."),
    ] = None,
    log_format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How the log is to be read, where it is not recognised; `stabdiag formats` lists "
            "the names.",
        ),
    ] = None,
    limit: LimitFlags = None,
    config: ConfigFile = None,
    format: Annotated[
        str, typer.Option("--format", "-f", help="terminal, json or svg.")
    ] = "terminal",
    output: Output = None,
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="The severity from which on the exit code is 1.")
    ] = FailOn.ERROR,
    literal: Annotated[
        bool, typer.Option("--literal", help="Apply the decision tree to the letter.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show every question with its numbers.")
    ] = False,
    color: Color = None,
) -> None:
    """Read a log, walk the decision tree, print one diagnosis and the first action to take."""
    from stabdiag.api import diagnose as run

    limits = limits_of(limit, config)
    given = dict(pair(setting, "--set") for setting in settings or ())
    if dtype is not None:
        given["dtype"] = dtype
    named = dict(pair(column, "--column") for column in columns or ())
    with progress(logs):
        report = run(
            logs,
            manifest=manifest,
            settings=given,
            limits=limits,
            columns=named,
            attempt=attempt,
            literal=literal,
            format=log_format,
        )
    from stabdiag.formats import render

    shown = terminal(output, color)
    text = render(
        report,
        format,
        verbose=verbose,
        width=shown.width,
        color=shown.color,
        encoding=shown.encoding,
    )
    write(text, output)
    raise typer.Exit(_code(report.diagnosis, fail_on))


def _code(diagnosis: Finding, fail_on: FailOn) -> int:
    from stabdiag.findings import Severity

    if fail_on is FailOn.NEVER:
        return 0
    return int(diagnosis.severity.rank <= Severity(fail_on.value).rank)
