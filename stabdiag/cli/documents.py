"""``stabdiag postmortem`` and ``stabdiag convert``: files made from a log."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

from stabdiag.cli import options
from stabdiag.cli.commands import verdict
from stabdiag.cli.rendering import terminal_fallback
from stabdiag.cli.terminal import progress, terminal, write
from stabdiag.errors import StabdiagError
from stabdiag.files import protect_inputs
from stabdiag.formats import names
from stabdiag.model.text import plural

if TYPE_CHECKING:
    pass

# Suffixes under which nobody looks for Parquet.
_NOT_PARQUET = (".csv", ".tsv", ".json", ".jsonl", ".txt", ".log", ".html", ".md")


@options.bundled
def postmortem(
    logs: options.Logs,
    how: options.Reading,
    out: Annotated[options.Output, names("postmortem")],
    literal: options.Literal = False,
) -> None:
    """Write a post-mortem of a spike or a NaN: timeline, cost, evidence, causes and actions.

    Marked blanks are left for a person to fill in.
    """
    chosen = out.chosen(how, [*logs, how.manifest])
    from stabdiag.api import diagnose as run
    from stabdiag.api import postmortem as document

    with progress(logs):
        report = run(logs, **how.arguments, literal=literal).ignoring(how.project.ignored)
        protect_inputs([out.output], report.history.source.files)
        one_line = verdict(report.diagnosis)
        with terminal_fallback(report, chosen, verdict=one_line):
            text = document(report, chosen)
    out.write(text, one_line)


@options.bundled
def convert(
    logs: options.Logs,
    output: Annotated[Path, options.option("--output -o FILE", "The Parquet file to write.")],
    how: options.Reading,
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
    options.check_outputs([output], [*logs, how.manifest], how.config)
    from stabdiag.api import convert as run

    with progress(logs):
        history = run(logs, output, **how.arguments)
    groups = Counter(role.partition("/")[0] for role in history.series if "/" in role)
    told = {}
    for role, series in history.series.items():
        name, of_a_group, _ = role.partition("/")
        count = f": {plural(groups[name], 'group')}" if of_a_group else f" ({len(series)})"
        told[name + of_a_group] = name + count
    # A name is never broken, so that it can be copied.
    lines = wrap(
        f"{output}: {', '.join(told.values())}",
        terminal(None, None)["width"],
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    write("\n".join(lines), None)
