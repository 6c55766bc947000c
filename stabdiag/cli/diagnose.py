"""``stabdiag diagnose`` and ``stabdiag check``: one run in full, or many in a line each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.terminal import (
    add_to_summary,
    check_outputs,
    complain,
    progress,
    tell,
    tell_of_runs_beside,
    terminal,
    write,
)
from stabdiag.errors import LogError, ManifestError, StabdiagError
from stabdiag.files import keep_inputs

if TYPE_CHECKING:
    from pathlib import Path

DIAGNOSE = """
**Examples**

`stabdiag diagnose run.jsonl`

`stabdiag diagnose lightning_logs  # a folder: the best log in it`

`stabdiag diagnose slurm-101.out slurm-102.out  # several attempts at one run`

`stabdiag diagnose run.tar.gz`

`stabdiag diagnose s3://bucket/run/metrics.jsonl`

`stabdiag diagnose metrics.csv --dtype fp16 --column loss=train/ce`

`stabdiag diagnose run.parquet --manifest config.json -o report.json`

`stabdiag diagnose run.jsonl --write sarif=report.sarif --write junit=report.xml`

`stabdiag diagnose run.jsonl -o report.html  # a page with charts, for a browser`

`zcat run.jsonl.gz | stabdiag diagnose - --fail-on warning`

**Exit codes**: 0 nothing at or above `--fail-on`; 1 a finding at or above it; 2 unreadable input or
usage error; 70 internal error, no verdict.
"""

CHECK = """
**Examples**

`stabdiag check runs/*.jsonl`

`stabdiag check --fail-on warning runs/smoke runs/nightly`

`stabdiag check runs/*.csv --column loss=train/ce`

**Exit codes**: 0 nothing at or above `--fail-on` in any run; 1 a finding at or above it; 2 an
unreadable log or usage error; 70 internal error, no verdict.
"""


def diagnose(
    logs: options.Logs,
    manifest: options.ManifestFile = None,
    dtype: options.Dtype = None,
    settings: options.Settings = None,
    columns: options.ColumnNames = None,
    attempt: options.Attempt = None,
    log_format: options.LogFormat = None,
    limit: options.LimitFlags = None,
    config: options.ConfigFile = None,
    format: options.ReportFormat = None,
    output: options.Output = None,
    also: options.Besides = None,
    fail_on: options.Severe = options.FailOn.ERROR,
    literal: options.Literal = False,
    verbose: options.Verbose = False,
    color: options.Color = None,
) -> options.Exit:
    """Diagnose a training run: print one diagnosis and the first action to take."""
    from stabdiag.formats import names, render

    beside = options.besides_of(also)
    outputs = [output, *(path for path, _ in beside)]
    check_outputs(outputs, [*logs, manifest], config)
    chosen = options.format_of(format, output, names())
    from stabdiag.api import diagnose as run

    how = options.reading(manifest, dtype, settings, columns, attempt, log_format, limit, config)
    try:
        with progress(logs):
            report = run(logs, **how, literal=literal)
    except LogError as error:
        raise _of_a_manifest(logs) or error from None
    source = report.history.source
    keep_inputs(outputs, source.files)
    tell_of_runs_beside(logs[0], source)
    if len(logs) > 1 and source.attempts > 1 and attempt is None:
        tell(
            f"the files hold {source.attempts} separate runs; this is the last one."
            " --attempt N selects another; stabdiag check diagnoses each file"
        )
    flags = {
        "--manifest": manifest,
        "--dtype": dtype,
        "--set": settings,
        "--column": columns,
        "--attempt": attempt,
        "--log-format": log_format,
        "--limit": limit,
        "--config": config,
        "--literal": literal,
    }

    def again(name: str, path: Path | None) -> str:
        # A page shows how to make it; a comment shows how to see the same in a terminal.
        page = {"--format": name, "--output": path} if name == "html" else {}
        return options.command("diagnose", logs, {**flags, **page})

    def told(name: str, path: Path | None, **how: object) -> str:
        shown = {"verbose": verbose, "fail_on": fail_on, "command": again(name, path)}
        return render(report, name, **shown, **how)

    text = told(chosen, output, **terminal(output, color))
    besides = [(path, told(name, path)) for path, name in beside]
    for path, content in besides:
        write(content, path)
    write(text, output)
    if chosen == "github":
        add_to_summary(report, again(chosen, output))
    return options.exit_code(report.findings, fail_on)


def _of_a_manifest(logs: list[str]) -> LogError | None:
    """Return what to say if the only log that was given is a manifest."""
    from stabdiag.model.manifest import Manifest, read_manifest

    name = logs[0]
    if len(logs) > 1 or not name.lower().endswith((".json", ".toml", ".yaml", ".yml")):
        return None
    try:
        manifest = read_manifest(name)
    except ManifestError:
        return None
    if replace(manifest, path=None, also={}, unknown={}) == Manifest():
        return None
    return LogError(
        f"{name}: this is a configuration, and diagnose reads a log; pass it with --manifest"
        f" {name}, or check it with stabdiag preflight"
    )


def check(
    logs: Annotated[
        list[str],
        typer.Argument(metavar="LOG...", help="Logs or folders, each a run of its own."),
    ],
    fail_on: options.Severe = options.FailOn.ERROR,
    dtype: options.Dtype = None,
    settings: options.Settings = None,
    columns: options.ColumnNames = None,
    limit: options.LimitFlags = None,
    config: options.ConfigFile = None,
) -> options.Exit:
    """Diagnose each log as a separate run, and print findings in one line each, as linters do."""
    from stabdiag.api import diagnose as run
    from stabdiag.assemble.inputs import check_options
    from stabdiag.formats import render
    from stabdiag.formats.issues import limits_line

    limits = options.limits_of(limit, config)
    told, named = options.settings_of(settings, dtype), options.columns_of(columns)
    check_options(told, named, None)
    if changed := limits_line(limits):
        write(changed, None)
    code = options.Exit.OK
    for log in logs:
        try:
            report = run(log, limits=limits, settings=told, columns=named)
        except StabdiagError as error:
            code = complain(str(error))
            continue
        tell_of_runs_beside(log, report.history.source)
        text = render(report, "lines", limits=False)
        if text:
            write(text, None)
        code = max(code, options.exit_code(report.findings, fail_on))
    return code
