"""``stabdiag check``."""

from __future__ import annotations

from typing import Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.terminal import complain, tell_of_runs_beside, write

EPILOG = """
**Examples**

`stabdiag check runs/*.jsonl`

`stabdiag check --fail-on warning runs/smoke runs/nightly`

`stabdiag check runs/*.csv --column loss=train/ce`

**Exit codes**: 0 nothing at or above `--fail-on` in any run; 1 something; 2 a log that cannot be
read, or usage; 70 an internal error, which is no verdict.
"""


def check(
    logs: Annotated[
        list[str],
        typer.Argument(metavar="LOG...", help="Logs or folders, each of them a run of its own."),
    ],
    fail_on: options.Severe = options.FailOn.ERROR,
    dtype: options.Dtype = None,
    settings: options.Settings = None,
    columns: options.ColumnNames = None,
    limit: options.LimitFlags = None,
    config: options.ConfigFile = None,
) -> options.Exit:
    """Diagnose each log as a run of its own, and print what is found as linters do."""
    from stabdiag.api import diagnose
    from stabdiag.assemble.inputs import check_options
    from stabdiag.errors import StabdiagError
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
            report = diagnose(log, limits=limits, settings=told, columns=named)
        except StabdiagError as error:
            code = complain(str(error))
            continue
        tell_of_runs_beside(log, report.history.source)
        text = render(report, "lines", limits=False)
        if text:
            write(text, None)
        code = max(code, options.exit_code(report.findings, fail_on))
    return code
