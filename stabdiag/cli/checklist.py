"""``stabdiag checklist``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.terminal import check_outputs, progress, terminal, write
from stabdiag.files import keep_inputs

EPILOG = """
**Examples**

`stabdiag checklist run.jsonl`

`stabdiag checklist metrics.csv --dtype fp16 --set grad_clip=1.0`

`stabdiag checklist run.jsonl --format markdown -o checklist.md`

**Exit codes**: 0 the lists were written; 1 with `--fail-on not-done` a line is not done; 2
unreadable input or usage; 70 an internal error, which is no verdict.
"""


class FailOnLine(StrEnum):
    """Which line of a list makes the exit code 1."""

    NOT_DONE = "not-done"
    NEVER = "never"


def checklist(
    logs: options.Logs,
    manifest: options.ManifestFile = None,
    dtype: options.Dtype = None,
    settings: options.Settings = None,
    columns: options.ColumnNames = None,
    attempt: options.Attempt = None,
    log_format: options.LogFormat = None,
    limit: options.LimitFlags = None,
    config: options.ConfigFile = None,
    format: options.SheetFormat = None,
    output: options.Output = None,
    fail_on: Annotated[
        FailOnLine,
        typer.Option(
            "--fail-on", metavar="WHEN", help="When the exit code is 1: not-done or never."
        ),
    ] = FailOnLine.NEVER,
    color: options.Color = None,
) -> options.Exit:
    """Tick the debugging checklists off from what a log and its manifest show."""
    from stabdiag.formats import names, render

    check_outputs([output], [*logs, manifest], config)
    chosen = options.format_of(format, output, names("sheet"))
    from stabdiag.api import diagnose
    from stabdiag.checks.checklist import checklist as run
    from stabdiag.model.checks import State

    limits = options.limits_of(limit, config)
    with progress(logs):
        report = diagnose(
            logs,
            manifest=manifest,
            settings=options.settings_of(settings, dtype),
            limits=limits,
            columns=options.columns_of(columns),
            attempt=attempt,
            format=log_format,
        )
    keep_inputs([output], report.history.source.files)
    sheet = run(report)
    write(render(sheet, chosen, "sheet", **terminal(output, color)), output)
    fails = fail_on is FailOnLine.NOT_DONE
    return options.Exit(fails and any(tick.state is State.CROSSED for tick in sheet.ticks))
