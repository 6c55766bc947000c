"""``stabdiag diagnose``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stabdiag.cli import options
from stabdiag.cli.again import command
from stabdiag.cli.terminal import (
    add_to_summary,
    check_outputs,
    progress,
    tell,
    tell_of_runs_beside,
    terminal,
    write,
)
from stabdiag.errors import LogError, ManifestError
from stabdiag.files import keep_inputs

if TYPE_CHECKING:
    from pathlib import Path

EPILOG = """
**Examples**

`stabdiag diagnose run.jsonl`

`stabdiag diagnose lightning_logs  # a folder, the best log in it`

`stabdiag diagnose slurm-101.out slurm-102.out  # several attempts at one run`

`stabdiag diagnose run.tar.gz`

`stabdiag diagnose s3://bucket/run/metrics.jsonl`

`stabdiag diagnose metrics.csv --dtype fp16 --column loss=train/ce`

`stabdiag diagnose run.parquet --manifest config.json -o report.json`

`stabdiag diagnose run.jsonl --write sarif=report.sarif --write junit=report.xml`

`stabdiag diagnose run.jsonl -o report.html  # a page with charts, for a browser`

`zcat run.jsonl.gz | stabdiag diagnose - --fail-on warning`

**Exit codes**: 0 nothing at or above `--fail-on`; 1 something; 2 unreadable input or usage;
70 an internal error, which is no verdict.
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
    """Read a log, walk the decision tree, print one diagnosis and the first action to take."""
    from stabdiag.formats import names, render

    beside = options.besides_of(also)
    outputs = [output, *(path for path, _ in beside)]
    check_outputs(outputs, [*logs, manifest], config)
    chosen = options.format_of(format, output, names())
    from stabdiag.api import diagnose as run

    limits = options.limits_of(limit, config)
    try:
        with progress(logs):
            report = run(
                logs,
                manifest=manifest,
                settings=options.settings_of(settings, dtype),
                limits=limits,
                columns=options.columns_of(columns),
                attempt=attempt,
                literal=literal,
                format=log_format,
            )
    except LogError as error:
        raise _of_a_manifest(logs) or error from None
    source = report.history.source
    keep_inputs(outputs, source.files)
    tell_of_runs_beside(logs[0], source)
    if len(logs) > 1 and source.attempts > 1 and attempt is None:
        tell(
            f"the files hold {source.attempts} separate runs, and the last one is diagnosed;"
            " --attempt N takes another, and stabdiag check judges each file"
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
        # A page tells how to make it, what is read in a comment how to see the same.
        page = {"--format": name, "--output": path} if name == "html" else {}
        return command("diagnose", logs, {**flags, **page})

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
    """Return what to say where a manifest was given in a log's place, and nothing else was."""
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
        f"{name}: a configuration, and diagnose takes a log; it goes with one by --manifest {name},"
        f" and stabdiag preflight checks it"
    )
