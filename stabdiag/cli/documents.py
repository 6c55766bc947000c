"""``stabdiag postmortem`` and ``stabdiag convert``: files made from a log."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.terminal import check_outputs, progress, terminal, write
from stabdiag.errors import StabdiagError
from stabdiag.files import keep_inputs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.history import History

POSTMORTEM = """
**Examples**

`stabdiag postmortem run.jsonl`

`stabdiag postmortem run.jsonl -o incident.md`

`stabdiag postmortem slurm-101.out --manifest config.json -o incident.html`

**Exit codes**: 0 the document was written, whatever was found; 2 unreadable input or usage error;
70 internal error.
"""

CONVERT = """
**Examples**

`stabdiag convert run.jsonl -o run.parquet`

`stabdiag convert metrics.csv --dtype fp16 --column loss=train/ce -o run.parquet`

**Exit codes**: 0 the file was written; 2 unreadable input or usage error; 70 internal error.
"""

_DOCUMENTS = (".md", ".markdown", ".html", ".htm")

# Suffixes under which nobody looks for Parquet.
_NOT_PARQUET = (".csv", ".tsv", ".json", ".jsonl", ".txt", ".log", ".html", ".md")


def postmortem(
    logs: options.Logs,
    manifest: options.ManifestFile = None,
    dtype: options.Dtype = None,
    settings: options.Settings = None,
    columns: options.ColumnNames = None,
    attempt: options.Attempt = None,
    log_format: options.LogFormat = None,
    limit: options.LimitFlags = None,
    config: options.ConfigFile = None,
    format: Annotated[
        str | None, options.format_option("markdown or html", default="markdown")
    ] = None,
    output: options.Output = None,
    literal: options.Literal = False,
) -> None:
    """Write a post-mortem of a spike or a NaN: timeline, cost, evidence, causes and actions.

    Marked blanks are left for a person to fill in.
    """
    from stabdiag.formats import names

    if format is None and output is not None and output.suffix.lower() not in _DOCUMENTS:
        raise StabdiagError(
            f"{output}: a post-mortem is a .md or .html file; name it so, or choose with --format"
            " markdown or html"
        )
    chosen = options.format_of(format, output, names("postmortem"), "markdown")
    check_outputs([output], [*logs, manifest], config)
    from stabdiag.api import diagnose as run
    from stabdiag.api import postmortem as document

    how = options.reading(manifest, dtype, settings, columns, attempt, log_format, limit, config)
    with progress(logs):
        report = run(logs, **how, literal=literal)
        keep_inputs([output], report.history.source.files)
        text = document(report, chosen)
    write(text, output)


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
    """Convert a log to Parquet: its series by role, and what is known about the run.

    Every command reads the file faster than the log, with the same result.
    """
    if output == Path("-"):
        raise StabdiagError("-o - names no file; convert writes one, such as -o run.parquet")
    if output.suffix.lower() in _NOT_PARQUET:
        raise StabdiagError(
            f"{output}: convert writes Parquet; name the file {output.with_suffix('.parquet')}"
        )
    check_outputs([output], [*logs, manifest], config)
    from stabdiag.api import convert as run

    how = options.reading(manifest, dtype, settings, columns, attempt, log_format, limit, config)
    with progress(logs):
        history = run(logs, output, **how)
    # A name is never broken, so that it can be copied.
    lines = wrap(
        f"{output}: {', '.join(_roles(history))}",
        terminal(None, None)["width"],
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    write("\n".join(lines), None)


def _roles(history: History) -> Iterator[str]:
    """Yield each role with the number of its points; for a role with groups, how many groups."""
    groups = Counter(role.partition("/")[0] for role in history.series if "/" in role)
    for role, series in history.series.items():
        name, of_a_group, _ = role.partition("/")
        if not of_a_group:
            yield f"{role} ({len(series)})"
        elif name in groups:
            count = groups.pop(name)
            yield f"{name}: {count} {'group' if count == 1 else 'groups'}"
