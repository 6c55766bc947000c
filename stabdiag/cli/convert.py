"""``stabdiag convert``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.terminal import check_outputs, progress, terminal, write
from stabdiag.errors import StabdiagError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.history import History

EPILOG = """
**Examples**

`stabdiag convert run.jsonl -o run.parquet`

`stabdiag convert metrics.csv --dtype fp16 --column loss=train/ce -o run.parquet`

**Exit codes**: 0 the file was written; 2 unreadable input or usage; 70 an internal error.
"""

# Names under which nobody looks for Parquet.
_OTHERS = frozenset({".csv", ".tsv", ".json", ".jsonl", ".txt", ".log", ".html", ".md"})


def convert(
    logs: options.Logs,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The Parquet file to write.")
    ],
    manifest: options.ManifestFile = None,
    dtype: options.Dtype = None,
    settings: options.Settings = None,
    columns: options.ColumnNames = None,
    attempt: options.Attempt = None,
    log_format: options.LogFormat = None,
    limit: options.LimitFlags = None,
    config: options.ConfigFile = None,
) -> None:
    """Write a log as Parquet: its series by role, and what is known of the run.

    Every command reads it fastest, and says of it what it says of the log.
    """
    if output == Path("-"):
        raise StabdiagError("-o - names no file, and Parquet goes to one: -o run.parquet")
    if output.suffix.lower() in _OTHERS:
        raise StabdiagError(
            f"{output}: convert writes Parquet; name the file {output.with_suffix('.parquet')}"
        )
    check_outputs([output], [*logs, manifest], config)
    from stabdiag.api import convert as run

    with progress(logs):
        history = run(
            logs,
            output,
            manifest=manifest,
            settings=options.settings_of(settings, dtype),
            limits=options.limits_of(limit, config),
            columns=options.columns_of(columns),
            attempt=attempt,
            format=log_format,
        )
    written = f"{output}: {', '.join(_told(history))}"
    width = terminal(None, None)["width"]
    # A name is never broken, so that it can be copied.
    lines = wrap(
        written, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    write("\n".join(lines), None)


def _told(history: History) -> Iterator[str]:
    """Yield each role with the number of its points; of a role by group, how many there are."""
    groups = Counter(role.partition("/")[0] for role in history.series if "/" in role)
    for role, series in history.series.items():
        name, of_a_group, _ = role.partition("/")
        if not of_a_group:
            yield f"{role} ({len(series)})"
        elif name in groups:
            count = groups.pop(name)
            yield f"{name}: {count} {'group' if count == 1 else 'groups'}"
