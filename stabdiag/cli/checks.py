"""``stabdiag preflight`` and ``stabdiag checklist``: lists that are ticked off."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.terminal import check_outputs, progress, terminal, write
from stabdiag.errors import ManifestError, StabdiagError
from stabdiag.files import keep_inputs

if TYPE_CHECKING:
    from stabdiag.model.manifest import Manifest

PREFLIGHT = """
**Examples**

`stabdiag preflight config.json`

`stabdiag preflight training_args.json --set total_steps=100000`

`stabdiag preflight config.yaml --fail-on warning -o preflight.json`

**Exit codes**: 0 nothing at or above `--fail-on`; 1 a finding at or above it; 2 unreadable input or
usage error; 70 internal error, no verdict.
"""

CHECKLIST = """
**Examples**

`stabdiag checklist run.jsonl`

`stabdiag checklist metrics.csv --dtype fp16 --set grad_clip=1.0`

`stabdiag checklist run.jsonl --format markdown -o checklist.md`

**Exit codes**: 0 the lists were written; 1 with `--fail-on not-done`, a line is not done; 2
unreadable input or usage error; 70 internal error, no verdict.
"""


class FailOnLine(StrEnum):
    """Which line of a list makes the exit code 1."""

    NOT_DONE = "not-done"
    NEVER = "never"


def preflight(
    manifest: Annotated[
        Path,
        typer.Argument(
            metavar="MANIFEST",
            help="The run's configuration as JSON, TOML or YAML, with your framework's names.",
        ),
    ],
    dtype: options.Dtype = None,
    settings: options.Settings = None,
    limit: options.LimitFlags = None,
    config: options.ConfigFile = None,
    format: options.SheetFormat = None,
    output: options.Output = None,
    fail_on: options.Severe = options.FailOn.ERROR,
    color: options.Color = None,
) -> options.Exit:
    """Check a configuration before the launch, and say what to try first."""
    from stabdiag.checks.preflight import preflight as run
    from stabdiag.formats import names, render
    from stabdiag.model.checks import State

    check_outputs([output], [manifest], config)
    chosen = options.format_of(format, output, names("sheet"))
    told = _read(manifest).override(options.settings_of(settings, dtype))
    sheet = run(told, options.limits_of(limit, config))
    write(render(sheet, chosen, "sheet", **terminal(output, color)), output)
    crossed = (tick for tick in sheet.ticks if tick.state is State.CROSSED)
    return options.exit_code(crossed, fail_on)


def _read(path: Path) -> Manifest:
    """Read the manifest; a log given in its place is called one."""
    from stabdiag.model.manifest import read_manifest

    try:
        return read_manifest(path)
    except ManifestError as error:
        if not path.is_file():
            raise
        from stabdiag.api import read

        try:
            read(path)
        except StabdiagError:  # no log either
            raise error from None
    raise StabdiagError(
        f"{path}: this is a log, and preflight reads a manifest; use stabdiag diagnose for a log"
    )


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
            "--fail-on", metavar="WHEN", help="Exit 1 if a line is not done: not-done or never."
        ),
    ] = FailOnLine.NEVER,
    color: options.Color = None,
) -> options.Exit:
    """Tick off the debugging checklists from what a log and its manifest show."""
    from stabdiag.formats import names, render

    check_outputs([output], [*logs, manifest], config)
    chosen = options.format_of(format, output, names("sheet"))
    from stabdiag.api import diagnose
    from stabdiag.checks.checklist import checklist as run
    from stabdiag.model.checks import State

    how = options.reading(manifest, dtype, settings, columns, attempt, log_format, limit, config)
    with progress(logs):
        report = diagnose(logs, **how)
    keep_inputs([output], report.history.source.files)
    sheet = run(report)
    write(render(sheet, chosen, "sheet", **terminal(output, color)), output)
    fails = fail_on is FailOnLine.NOT_DONE
    return options.Exit(fails and any(tick.state is State.CROSSED for tick in sheet.ticks))
