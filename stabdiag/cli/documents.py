"""``stabdiag postmortem`` and ``stabdiag convert``: files made from a log."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.choices import PostmortemFormat
from stabdiag.cli.commands import verdict
from stabdiag.cli.output_options import OutputOptions, check_outputs
from stabdiag.cli.rendering import terminal_fallback
from stabdiag.cli.run_options import RunOptions
from stabdiag.cli.terminal import progress, terminal, write_text
from stabdiag.errors import StabdiagError
from stabdiag.files import protect_inputs
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from stabdiag.model.history import History

# Suffixes of other formats, refused for a Parquet file.
_NOT_PARQUET = (".csv", ".tsv", ".json", ".jsonl", ".txt", ".log", ".html", ".md")


def postmortem(
    logs: options.LogsArgument,
    output: options.OutputOption = None,
    format: options.PostmortemFormatOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
    manifest: options.ManifestOption = None,
    dtype: options.DtypeOption = None,
    settings: options.SetOption = None,
    columns: options.ColumnOption = None,
    attempt: options.AttemptOption = None,
    log_format: options.LogFormatOption = None,
    limit: options.LimitOption = None,
    literal: options.LiteralOption = False,
    config: options.ConfigOption = None,
) -> None:
    """Write a post-mortem of a spike or a NaN: timeline, cost, evidence, causes and actions.

    It marks the blanks that you have to fill in.
    """
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
        formats=PostmortemFormat, format=format, output=output, json=json, quiet=quiet
    )
    format_name = out.choose_format(run_options, [*logs, manifest])
    from stabdiag.api import diagnose as diagnose_logs
    from stabdiag.api import postmortem as write_postmortem

    with progress(logs):
        report = diagnose_logs(logs, **run_options.log_arguments, literal=literal).ignoring(
            run_options.project.ignored
        )
        protect_inputs([output], report.history.source.files)
        one_line = verdict(report.diagnosis)
        with terminal_fallback(report, format_name, verdict=one_line):
            text = write_postmortem(report, format_name)
    out.write_report(lambda: text, one_line)


def convert(
    logs: options.LogsArgument,
    output: options.OutputFileOption,
    json: Annotated[bool, typer.Option("--json", help="Print the columns as JSON.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing unless there is an error.")
    ] = False,
    manifest: options.ManifestOption = None,
    dtype: options.DtypeOption = None,
    settings: options.SetOption = None,
    columns: options.ColumnOption = None,
    attempt: options.AttemptOption = None,
    log_format: options.LogFormatOption = None,
    limit: options.LimitOption = None,
    config: options.ConfigOption = None,
) -> None:
    """Convert a log to a Parquet file with standard column names and the run's metadata.

    Every command accepts the file, and reads it faster than the log with the same result.
    """
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
    if output == Path("-"):
        raise StabdiagError("-o - is not a file; convert writes one, such as -o run.parquet")
    if output.suffix.lower() in _NOT_PARQUET:
        raise StabdiagError(
            f"{output}: convert writes Parquet; name the file {output.with_suffix('.parquet')}"
        )
    check_outputs([output], [*logs, manifest], config)
    from stabdiag.api import convert as convert_logs

    with progress(logs):
        history = convert_logs(logs, output, **run_options.log_arguments)
    if json:
        from stabdiag.formats.json import dumps, escape, plain

        points = {escape(role): len(series) for role, series in history.series.items()}
        write_text(dumps({"file": plain(str(output)), "columns": {**points}}), None)
    elif not quiet:
        write_text(_columns_in_words(output, history), None)


def _columns_in_words(output: Path, history: History) -> str:
    """Return the columns of the converted file with their number of points or groups."""
    groups = Counter(role.partition("/")[0] for role in history.series if "/" in role)
    columns = {}
    for role, series in history.series.items():
        name, slash, _ = role.partition("/")
        count = f": {plural(groups[name], 'group')}" if slash else f" ({len(series)})"
        columns[name + slash] = name + count
    # Names are not wrapped, so that they can be copied.
    lines = wrap(
        f"{output}: {', '.join(columns.values())}",
        terminal(None, None)["width"],
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines)
