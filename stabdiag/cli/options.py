"""The options and arguments that several commands share.

A command lists those it has in its signature, and builds a ``RunOptions`` and an ``OutputOptions``
from the values.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path, PureWindowsPath
from typing import Annotated, Any, Final

import typer

from stabdiag.cli import complete
from stabdiag.cli.choices import (
    CheckFormat,
    ComparisonFormat,
    DataFormat,
    FailOn,
    JsonDetail,
    OverviewFormat,
    PostmortemFormat,
    ReportFormat,
    TextFormat,
)
from stabdiag.errors import StabdiagError
from stabdiag.formats import names

MORE_OPTIONS: Final = "More options"
"""The heading in the help for options that few people need."""


def expand_patterns(paths: Sequence[str]) -> list[str]:
    """Return paths with the patterns replaced by the files they match.

    Most shells do it first, unless the pattern is quoted. URLs are not expanded.

    Raises:
        StabdiagError: if nothing matches a pattern, or a path is not one for another reason than
            a missing file.
    """
    from glob import glob, has_magic

    expanded: list[str] = []
    for path in paths:
        if "://" in path or path == "-" or os.path.lexists(path):
            expanded.append(path)
        elif has_magic(path):
            matches = sorted(glob(path, recursive=True))  # noqa: PTH207 - keeps the path as given
            if not matches:
                raise StabdiagError(f"{path}: no file or folder matches this pattern")
            expanded += matches
        else:
            _check_path(path)
            expanded.append(path)
    return expanded


def _check_path(path: str) -> None:
    """Raise an error for common mistakes in the path of a missing file."""
    if not path:
        raise StabdiagError("a path is empty; is a shell variable not set?")
    parts = path.split()
    if len(parts) > 1 and all(map(os.path.lexists, parts)):
        raise StabdiagError(
            f"{path}: {len(parts)} paths in one argument; leave out the quotes around them"
        )
    if os.name != "nt" and PureWindowsPath(path).drive:
        raise StabdiagError(
            f"{path}: no such file or folder; this is a path of Windows, not of this system"
        )


def expand_pattern(path: Path | None) -> Path | None:
    """Return a path, or the only file that matches it if it is a pattern.

    Raises:
        StabdiagError: if no file or several files match.
    """
    if path is None:
        return None
    matches = expand_patterns([str(path)])
    if len(matches) > 1:
        raise StabdiagError(f"{path}: {len(matches)} files match this pattern; name one of them")
    return Path(matches[0])


def format_option(formats: Iterable[str]) -> Any:
    """Return the option for the output format; the first one is the default."""
    first, *others = formats
    return typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        help=f"{', '.join([first, *others[:-1]])} or {others[-1]}. Default: by the suffix of "
        f"`--output`, else {first}.",
        autocompletion=complete.among([first, *others]),
    )


def _stdout_as_none(path: Path | None) -> Path | None:
    return None if path == Path("-") else path


LogsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG...",
        help="A log, a folder, an archive or a URL; or several files of one run. `-` reads "
        "standard input.",
        callback=expand_patterns,
    ),
]

# Output: the format and the file.
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to this file. Default: standard output (`-`).",
        callback=_stdout_as_none,
    ),
]
OutputFileOption = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The Parquet file to write.")
]
ReportFormatOption = Annotated[ReportFormat | None, format_option(ReportFormat)]
OverviewFormatOption = Annotated[OverviewFormat | None, format_option(OverviewFormat)]
CheckFormatOption = Annotated[CheckFormat | None, format_option(CheckFormat)]
ComparisonFormatOption = Annotated[ComparisonFormat | None, format_option(ComparisonFormat)]
PostmortemFormatOption = Annotated[PostmortemFormat | None, format_option(PostmortemFormat)]
TextFormatOption = Annotated[TextFormat | None, format_option(TextFormat)]
DataFormatOption = Annotated[DataFormat | None, format_option(DataFormat)]
JsonOption = Annotated[bool, typer.Option("--json", help="Same as `--format json`.")]
JsonDetailOption = Annotated[
    JsonDetail | None,
    typer.Option(
        "--json",
        metavar="[full]",
        help="Write JSON under 20 kB; `--json full` leaves nothing out.",
    ),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only the verdict, in one line.")
]
TotalsOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only the totals, in one line.")
]
VerboseOption = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Show every question of the tree with its numbers.",
    ),
]
ColorOption = Annotated[
    bool | None,
    typer.Option(
        "--color/--no-color",
        help="Default: color if the terminal supports it.",
        show_default=False,
        rich_help_panel=MORE_OPTIONS,
    ),
]
WriteOption = Annotated[
    list[str] | None,
    typer.Option(
        "--write",
        metavar="FORMAT=FILE",
        help="Also write this file, such as `html=report.html`. Repeatable.",
        autocompletion=complete.among([f"{name}=" for name in names()]),
        rich_help_panel=MORE_OPTIONS,
    ),
]

# When to fail.
FailOnOption = Annotated[
    FailOn | None,
    typer.Option(
        "--fail-on",
        metavar="SEVERITY",
        help="Exit 1 at or above this severity: error, warning, never, or unknown (error, and exit "
        "2 if too little was logged). Default: error.",
    ),
]

# Facts about the run.
ManifestOption = Annotated[
    Path | None,
    typer.Option(
        "--manifest",
        metavar="FILE",
        help="The run's configuration. Default: `manifest.json`, `config.yaml` or a similar file "
        "next to the log.",
        callback=expand_pattern,
    ),
]
DtypeOption = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="DTYPE",
        help="fp16, bf16, fp8 or fp32; overrides the manifest.",
        autocompletion=complete.among(("fp16", "bf16", "fp8", "fp32")),
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Override a manifest field, such as `grad_clip=1`. Repeatable.",
        autocompletion=complete.fields,
    ),
]

# Reading and judging the log.
ColumnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        "--columns",
        metavar="ROLE=NAME",
        help="Map a role to a column, such as `loss=train/ce`. Repeatable.",
        autocompletion=complete.columns,
    ),
]
LogFormatOption = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        metavar="NAME",
        help="A name of `stabdiag formats`. Default: detected.",
        autocompletion=complete.log_formats,
        rich_help_panel=MORE_OPTIONS,
    ),
]
AttemptOption = Annotated[
    int | None,
    typer.Option(
        "--attempt",
        metavar="N",
        help="Which of several runs in one log to read. Default: the last.",
        rich_help_panel=MORE_OPTIONS,
    ),
]
LimitOption = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=VALUE",
        help="Change a threshold, such as `spike.sigma=4`. Repeatable.",
        autocompletion=complete.limits,
        rich_help_panel=MORE_OPTIONS,
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The settings file. Default: the nearest `stabdiag.toml` or `pyproject.toml`.",
        rich_help_panel=MORE_OPTIONS,
    ),
]
LiteralOption = Annotated[
    bool,
    typer.Option(
        "--literal",
        help="Apply the published tree verbatim, without calibration.",
        rich_help_panel=MORE_OPTIONS,
    ),
]

# Earlier good runs.
BaselineOption = Annotated[
    list[str] | None,
    typer.Option(
        "--baseline",
        metavar="PATH",
        help="Compare with earlier good runs: logs, folders, URLs, the store of a scan, or a file "
        "of `stabdiag baseline`. Repeatable.",
    ),
]
BaselineWhereOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Use only baseline runs such as `outcome=healthy`. Repeatable.",
        rich_help_panel=MORE_OPTIONS,
    ),
]
