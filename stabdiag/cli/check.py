"""``stabdiag check``."""

from __future__ import annotations

from typing import Annotated

import typer

from stabdiag.cli.diagnose import FailOn
from stabdiag.cli.options import ConfigFile, LimitFlags, limits_of
from stabdiag.cli.terminal import complain, write

EPILOG = """
**Examples**

`stabdiag check runs/*.jsonl`

`stabdiag check --fail-on warning runs/smoke runs/nightly`

**Exit codes**: 0 nothing at or above `--fail-on` in any run; 1 something; 2 a log that cannot be
read, or usage.
"""


def check(
    logs: Annotated[
        list[str],
        typer.Argument(metavar="LOG...", help="Logs or folders, each of them a run of its own."),
    ],
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="The severity from which on the exit code is 1.")
    ] = FailOn.ERROR,
    limit: LimitFlags = None,
    config: ConfigFile = None,
) -> None:
    """Diagnose each log as a run of its own, and print what is found as linters do."""
    from stabdiag.api import diagnose
    from stabdiag.errors import StabdiagError
    from stabdiag.findings import fails
    from stabdiag.formats import render

    limits = limits_of(limit, config)
    code = 0
    for log in logs:
        try:
            report = diagnose(log, limits=limits)
        except StabdiagError as error:
            code = complain(str(error))
            continue
        text = render(report, "lines")
        if text:
            write(text, None)
        failed = any(fails(finding, fail_on.value) for finding in report.findings)
        code = max(code, int(failed))
    raise typer.Exit(code)
