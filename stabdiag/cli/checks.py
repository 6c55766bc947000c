"""``stabdiag preflight`` and ``stabdiag checklist``: lists that are ticked off."""

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
    """Which line of a list makes the exit code 1."""

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
    how: options.Told,
    out: options.Sheet,
    fail_on: options.Severe = None,
    sanity: Annotated[
        Path | None,
        options.option(
            "--sanity FILE", "What stabdiag.torch.sanity wrote: ticks the checks that it made."
        ),
    ] = None,
) -> Exit:
    """Check a configuration before the launch, and say what to try first."""
    from stabdiag.checks.preflight import preflight as run
    from stabdiag.checks.sanity import read_sanity
    from stabdiag.model.checks import State

    chosen = out.chosen(how, [manifest, sanity])
    told = _read(manifest).override(how.given).assuming(how.project.manifest)
    sheet = run(
        told, how.limits, how.project.ignored, () if sanity is None else read_sanity(sanity)
    )
    failed = [t for t in sheet.items if t.state is State.FAILED and t.ignored is None]
    line = f"{len(failed)} to see to of {len([*sheet.items])}"
    out.write(render_report(sheet, chosen, "sheet", verdict=line, **out.screen), line)
    return exit_code(failed, how.fails_on(fail_on))


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


@options.bundled
def checklist(
    logs: options.Logs,
    how: options.Reading,
    out: options.Sheet,
    fail_on: Annotated[
        FailOnLine,
        options.option("--fail-on WHEN", "Exit 1 if a line is not done: not-done or never."),
    ] = FailOnLine.NEVER,
) -> Exit:
    """Tick off the debugging checklists from what a log and its manifest show."""
    chosen = out.chosen(how, [*logs, how.manifest])
    from stabdiag.api import diagnose
    from stabdiag.checks.checklist import checklist as run
    from stabdiag.model.checks import State

    with progress(logs):
        report = diagnose(logs, **how.arguments).ignoring(how.project.ignored)
    protect_inputs([out.output], report.history.source.files)
    sheet = run(report)
    failed = [item for item in sheet.items if item.state is State.FAILED]
    line = f"{len(failed)} not done of {len([*sheet.items])}"
    out.write(render_report(sheet, chosen, "sheet", verdict=line, **out.screen), line)
    return Exit(bool(failed) and fail_on is FailOnLine.NOT_DONE)
