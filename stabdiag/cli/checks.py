"""``stabdiag preflight`` and ``stabdiag checklist``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.commands import exit_code
from stabdiag.cli.rendering import render_report
from stabdiag.cli.terminal import Exit, progress
from stabdiag.errors import ManifestError, StabdiagError
from stabdiag.files import protect_inputs

if TYPE_CHECKING:
    from stabdiag.model.manifest import Manifest


class FailOnLine(StrEnum):
    """Which lines of a checklist cause exit code 1."""

    NOT_DONE = "not-done"
    NEVER = "never"


@options.bundled
def preflight(
    manifest: Annotated[
        Path,
        typer.Argument(
            metavar="MANIFEST",
            help="The run's configuration as JSON, TOML or YAML, with your framework's names.",
        ),
    ],
    manifest_options: options.ManifestOptions,
    out: options.ChecklistOutputOptions,
    fail_on: options.FailOnOption = None,
    sanity: Annotated[
        Path | None,
        options.option(
            "--sanity FILE", "Results of stabdiag.torch.sanity; marks the checks it ran as done."
        ),
    ] = None,
) -> Exit:
    """Check a configuration before launch and list what to fix first."""
    from stabdiag.checks.preflight import preflight as run_checks
    from stabdiag.checks.sanity import read_sanity
    from stabdiag.model.checks import State

    format_name = out.choose_format(manifest_options, [manifest, sanity])
    settings = (
        _read(manifest)
        .override(manifest_options.manifest_fields)
        .assuming(manifest_options.project.manifest)
    )
    checks = run_checks(
        settings,
        manifest_options.limits,
        manifest_options.project.ignored,
        () if sanity is None else read_sanity(sanity),
    )
    failed = [item for item in checks.items if item.state is State.FAILED and item.ignored is None]
    line = f"{len(failed)} to fix of {len([*checks.items])}"
    out.write(render_report(checks, format_name, "sheet", verdict=line, **out.screen), line)
    return exit_code(failed, manifest_options.exit_severity(fail_on))


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


@options.bundled
def checklist(
    logs: options.LogArguments,
    log_options: options.LogOptions,
    out: options.ChecklistOutputOptions,
    fail_on: Annotated[
        FailOnLine,
        options.option("--fail-on WHEN", "Exit 1 if a line is not done: not-done or never."),
    ] = FailOnLine.NEVER,
) -> Exit:
    """Fill in a debugging checklist from a log and its configuration."""
    format_name = out.choose_format(log_options, [*logs, log_options.manifest])
    from stabdiag.api import diagnose
    from stabdiag.checks.checklist import checklist as fill_in
    from stabdiag.model.checks import State

    with progress(logs):
        report = diagnose(logs, **log_options.arguments).ignoring(log_options.project.ignored)
    protect_inputs([out.output], report.history.source.files)
    checks = fill_in(report)
    failed = [item for item in checks.items if item.state is State.FAILED]
    line = f"{len(failed)} not done of {len([*checks.items])}"
    out.write(render_report(checks, format_name, "sheet", verdict=line, **out.screen), line)
    return Exit(bool(failed) and fail_on is FailOnLine.NOT_DONE)
