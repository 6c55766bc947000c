"""``stabdiag preflight``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.terminal import check_outputs, terminal, write

if TYPE_CHECKING:
    from stabdiag.model.manifest import Manifest

EPILOG = """
**Examples**

`stabdiag preflight config.json`

`stabdiag preflight training_args.json --set total_steps=100000`

`stabdiag preflight config.yaml --fail-on warning -o preflight.json`

**Exit codes**: 0 nothing at or above `--fail-on`; 1 something; 2 unreadable input or usage;
70 an internal error, which is no verdict.
"""


def preflight(
    manifest: Annotated[
        Path,
        typer.Argument(
            metavar="MANIFEST",
            help="What the run is configured to do: JSON, TOML or YAML, in the words of your "
            "framework.",
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
    told = _told(manifest).override(options.settings_of(settings, dtype))
    sheet = run(told, options.limits_of(limit, config))
    write(render(sheet, chosen, "sheet", **terminal(output, color)), output)
    crossed = (tick for tick in sheet.ticks if tick.state is State.CROSSED)
    return options.exit_code(crossed, fail_on)


def _told(path: Path) -> Manifest:
    """Read the manifest; a log given in its place is called one."""
    from stabdiag.errors import ManifestError, StabdiagError
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
        f"{path}: a log, and preflight takes a manifest; for a log there is stabdiag diagnose"
    )
