"""``stabdiag postmortem`` and ``stabdiag convert``: files made from a log."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from textwrap import wrap
from typing import Annotated

from stabdiag.cli import options
from stabdiag.cli.commands import verdict
from stabdiag.cli.rendering import terminal_fallback
from stabdiag.cli.terminal import progress, terminal, write
from stabdiag.errors import StabdiagError
from stabdiag.files import protect_inputs
from stabdiag.formats import names
from stabdiag.model.text import plural

# Suffixes of other formats, refused for a Parquet file.
_NOT_PARQUET = (".csv", ".tsv", ".json", ".jsonl", ".txt", ".log", ".html", ".md")


@options.bundled
def postmortem(
    logs: options.LogArguments,
    log_options: options.LogOptions,
    out: Annotated[options.OutputOptions, names("postmortem")],
    literal: options.LiteralOption = False,
) -> None:
    """Write a post-mortem of a spike or a NaN: timeline, cost, evidence, causes and actions.

    It marks the blanks that you have to fill in.
    """
    format_name = out.choose_format(log_options, [*logs, log_options.manifest])
    from stabdiag.api import diagnose as diagnose_logs
    from stabdiag.api import postmortem as write_postmortem

    with progress(logs):
        report = diagnose_logs(logs, **log_options.arguments, literal=literal).ignoring(
            log_options.project.ignored
        )
        protect_inputs([out.output], report.history.source.files)
        one_line = verdict(report.diagnosis)
        with terminal_fallback(report, format_name, verdict=one_line):
            text = write_postmortem(report, format_name)
    out.write(text, one_line)


@options.bundled
def convert(
    logs: options.LogArguments,
    output: Annotated[Path, options.option("--output -o FILE", "The Parquet file to write.")],
    log_options: options.LogOptions,
) -> None:
    """Convert a log to a Parquet file with standard column names and the run's metadata.

    Every command accepts the file, and reads it faster than the log with the same result.
    """
    if output == Path("-"):
        raise StabdiagError("-o - is not a file; convert writes one, such as -o run.parquet")
    if output.suffix.lower() in _NOT_PARQUET:
        raise StabdiagError(
            f"{output}: convert writes Parquet; name the file {output.with_suffix('.parquet')}"
        )
    options.check_outputs([output], [*logs, log_options.manifest], log_options.config)
    from stabdiag.api import convert as convert_logs

    with progress(logs):
        history = convert_logs(logs, output, **log_options.arguments)
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
    write("\n".join(lines), None)
