"""``stabdiag postmortem``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.terminal import check_outputs, progress, write
from stabdiag.errors import StabdiagError, refuse_unknown
from stabdiag.files import keep_inputs

if TYPE_CHECKING:
    from pathlib import Path

EPILOG = """
**Examples**

`stabdiag postmortem run.jsonl`

`stabdiag postmortem run.jsonl -o incident.md`

`stabdiag postmortem slurm-101.out --manifest config.json -o incident.html`

**Exit codes**: 0 the document was written, whatever was found; 2 unreadable input or usage;
70 an internal error.
"""


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
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help="markdown or html. By default as the file of `--output` is called, else markdown.",
        ),
    ] = None,
    output: options.Output = None,
    literal: options.Literal = False,
) -> None:
    """Write the document that follows a spike or a NaN: timeline, cost, evidence, causes, actions.

    What no log tells is left to a person, in marked blanks.
    """
    from stabdiag.formats import names

    chosen = _format_of(format, output)
    refuse_unknown(chosen, names("postmortem"))
    check_outputs([output], [*logs, manifest], config)
    from stabdiag.api import diagnose as run
    from stabdiag.api import postmortem as document

    with progress(logs):
        report = run(
            logs,
            manifest=manifest,
            settings=options.settings_of(settings, dtype),
            limits=options.limits_of(limit, config),
            columns=options.columns_of(columns),
            attempt=attempt,
            literal=literal,
            format=log_format,
        )
        keep_inputs([output], report.history.source.files)
        text = document(report, chosen)
    write(text, output)


def _format_of(format: str | None, output: Path | None) -> str:
    """Return the format: the one that is named, else that of the file, else Markdown."""
    if output is None and format is not None:
        options.refuse_screen(format)
    if format is not None or output is None:
        return format or "markdown"
    from stabdiag.formats import by_suffix, names

    chosen = by_suffix(output.suffix)
    if chosen not in names("postmortem"):
        raise StabdiagError(
            f"{output}: a post-mortem is written as .md or .html; name the file so, or give "
            "--format markdown or html"
        )
    return chosen
