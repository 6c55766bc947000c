"""``stabdiag preflight`` and ``stabdiag checklist``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.choices import FailOnCheck, TextFormat
from stabdiag.cli.commands import exit_code
from stabdiag.cli.output_options import OutputOptions
from stabdiag.cli.rendering import render_report
from stabdiag.cli.run_options import RunOptions
from stabdiag.cli.terminal import Exit, progress
from stabdiag.errors import ManifestError, StabdiagError
from stabdiag.files import protect_inputs

if TYPE_CHECKING:
    from stabdiag.model.manifest import Manifest

_QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only the number of failed checks.")
]


def preflight(
    manifest: Annotated[
        Path,
        typer.Argument(
            metavar="MANIFEST",
            help="The run's configuration as JSON, TOML or YAML, with your framework's names.",
            callback=options.expand_pattern,
        ),
    ],
    output: options.OutputOption = None,
    format: options.TextFormatOption = None,
    json: options.JsonOption = False,
    quiet: _QuietOption = False,
    fail_on: options.FailOnOption = None,
    sanity: Annotated[
        Path | None,
        typer.Option(
            "--sanity",
            metavar="FILE",
            help="Results of stabdiag.torch.sanity; marks the checks it ran as done.",
        ),
    ] = None,
    dtype: options.DtypeOption = None,
    settings: options.SetOption = None,
    limit: options.LimitOption = None,
    config: options.ConfigOption = None,
    color: options.ColorOption = None,
) -> Exit:
    """Check a configuration before launch and list what to fix first."""
    from stabdiag.checks.preflight import preflight as run_checks
    from stabdiag.checks.sanity import read_sanity

    run_options = RunOptions(limit=limit, config=config, dtype=dtype, settings=settings)
    out = OutputOptions(
        formats=TextFormat, format=format, output=output, json=json, quiet=quiet, color=color
    )
    format_name = out.choose_format(run_options, [manifest, sanity])
    known_manifest = (
        _read(manifest).override(run_options.manifest_fields).assuming(run_options.project.manifest)
    )
    checks = run_checks(
        known_manifest,
        run_options.limits,
        run_options.project.ignored,
        () if sanity is None else read_sanity(sanity),
    )
    line = f"{len(checks.failures)} to fix of {len(checks.checks)}"
    out.write_report(
        lambda: render_report(checks, format_name, "checks", verdict=line, **out.screen), line
    )
    return exit_code(checks.failures, run_options.exit_severity(fail_on))


def _read(path: Path) -> Manifest:
    """Read the manifest. If the file is a log, the error says so."""
    from stabdiag.model.manifest import read_manifest

    try:
        return read_manifest(path)
    except ManifestError as error:
        if not path.is_file():
            raise
        from stabdiag.api import read

        try:
            read(path)
        except StabdiagError:  # not a log either
            raise error from None
    raise StabdiagError(
        f"{path}: this is a log, and preflight reads a manifest; use stabdiag diagnose for a log"
    )


def checklist(
    logs: options.LogsArgument,
    output: options.OutputOption = None,
    format: options.TextFormatOption = None,
    json: options.JsonOption = False,
    quiet: _QuietOption = False,
    fail_on: Annotated[
        FailOnCheck,
        typer.Option(
            "--fail-on",
            metavar="WHEN",
            help="failed or never: exit 1 if a check failed. Default: never.",
        ),
    ] = FailOnCheck.NEVER,
    manifest: options.ManifestOption = None,
    dtype: options.DtypeOption = None,
    settings: options.SetOption = None,
    columns: options.ColumnOption = None,
    attempt: options.AttemptOption = None,
    log_format: options.LogFormatOption = None,
    limit: options.LimitOption = None,
    config: options.ConfigOption = None,
    color: options.ColorOption = None,
) -> Exit:
    """Fill in a debugging checklist from a log and its configuration."""
    run_options = RunOptions(
        limit=limit,
        config=config,
        columns=columns,
        log_format=log_format,
        dtype=dtype,
        settings=settings,
        manifest=manifest,
        attempt=attempt,
    )
    out = OutputOptions(
        formats=TextFormat, format=format, output=output, json=json, quiet=quiet, color=color
    )
    format_name = out.choose_format(run_options, [*logs, manifest])
    from stabdiag.api import diagnose
    from stabdiag.checks.checklist import checklist as fill_in

    with progress(logs):
        report = diagnose(logs, **run_options.log_arguments).ignoring(run_options.project.ignored)
    protect_inputs([output], report.history.source.files)
    checks = fill_in(report)
    line = f"{len(checks.failures)} failed of {len(checks.checks)}"
    out.write_report(
        lambda: render_report(checks, format_name, "checks", verdict=line, **out.screen), line
    )
    return Exit(bool(checks.failures) and fail_on is FailOnCheck.FAILED)
