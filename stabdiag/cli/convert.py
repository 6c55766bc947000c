"""``stabdiag convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stabdiag.cli.options import (
    Attempt,
    ColumnNames,
    ConfigFile,
    Dtype,
    LimitFlags,
    LogFormat,
    Logs,
    ManifestFile,
    Settings,
    columns_of,
    limits_of,
    settings_of,
)
from stabdiag.cli.terminal import progress, write

EPILOG = """
**Examples**

`stabdiag convert run.jsonl -o run.parquet`

`stabdiag convert metrics.csv --dtype fp16 --column loss=train/ce -o run.parquet`
"""


def convert(
    logs: Logs,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The Parquet file to write.")
    ],
    manifest: ManifestFile = None,
    dtype: Dtype = None,
    settings: Settings = None,
    columns: ColumnNames = None,
    attempt: Attempt = None,
    log_format: LogFormat = None,
    limit: LimitFlags = None,
    config: ConfigFile = None,
) -> None:
    """Write a log as Parquet: its series by role, and what is known of the run.

    Every command reads it fastest, and says of it what it says of the log.
    """
    from stabdiag.api import convert as run

    with progress(logs):
        history = run(
            logs,
            output,
            manifest=manifest,
            settings=settings_of(settings, dtype),
            limits=limits_of(limit, config),
            columns=columns_of(columns),
            attempt=attempt,
            format=log_format,
        )
    written = ", ".join(f"{role} ({len(one)})" for role, one in history.series.items())
    write(f"{output}: {written}", None)
