"""``stabdiag preflight``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stabdiag.cli.options import (
    Color,
    ConfigFile,
    Dtype,
    FailOn,
    LimitFlags,
    Output,
    Settings,
    Severe,
    exit_code,
    limits_of,
    settings_of,
)
from stabdiag.cli.terminal import terminal, write
from stabdiag.files import keep_inputs

EPILOG = """
**Examples**

`stabdiag preflight config.json`

`stabdiag preflight training_args.json --set total_steps=100000`

`stabdiag preflight config.yaml --fail-on warning --format json -o preflight.json`

**Exit codes**: 0 nothing at or above `--fail-on`; 1 something; 2 unreadable input or usage.
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
    dtype: Dtype = None,
    settings: Settings = None,
    limit: LimitFlags = None,
    config: ConfigFile = None,
    format: Annotated[
        str, typer.Option("--format", "-f", help="terminal, markdown or json.")
    ] = "terminal",
    output: Output = None,
    fail_on: Severe = FailOn.ERROR,
    color: Color = None,
) -> None:
    """Say what a configuration lets expect before the launch, and what to try first."""
    from stabdiag.manifest import read_manifest
    from stabdiag.preflight import preflight as run
    from stabdiag.tick_formats import render_sheet
    from stabdiag.ticks import State

    keep_inputs([output], [manifest, config])
    told = read_manifest(manifest).override(settings_of(settings, dtype))
    sheet = run(told, limits_of(limit, config))
    shown = terminal(output, color)
    text = render_sheet(
        sheet, format, width=shown.width, color=shown.color, encoding=shown.encoding
    )
    write(text, output)
    crossed = (tick for tick in sheet.ticks if tick.state is State.CROSSED)
    raise typer.Exit(exit_code(crossed, fail_on))
