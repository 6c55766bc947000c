"""The options that several commands share, and what they stand for."""

from __future__ import annotations

import shlex
import sys
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stabdiag.errors import StabdiagError, refuse_unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from stabdiag.model.checks import Tick
    from stabdiag.model.findings import Finding
    from stabdiag.model.limits import Limits


_WANTS = {
    "--column": "ROLE=NAME such as loss=train/ce",
    "--set": "FIELD=VALUE such as grad_clip=1",
    "--write": "FORMAT=FILE such as sarif=report.sarif",
}


class Exit(IntEnum):
    """The exit codes that a command returns; 70, an internal error, is returned by none."""

    OK = 0
    FOUND = 1
    REFUSED = 2
    INTERRUPTED = 130
    TERMINATED = 143


class FailOn(StrEnum):
    """The lowest severity with exit code 1."""

    ERROR = "error"
    WARNING = "warning"
    NEVER = "never"


def format_option(names: str, default: str = "terminal") -> Any:
    """Return the option that names the format of an output."""
    by_name = f"{names}. Default: by the suffix of `--output`, else {default}."
    return typer.Option("--format", "-f", metavar="FORMAT", help=by_name)


Severe = Annotated[
    FailOn,
    typer.Option(
        "--fail-on",
        metavar="SEVERITY",
        help="Exit 1 at or above this severity: error, warning or never.",
    ),
]
Logs = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG...",
        help="A log in any known format, a folder, an archive or a URL; or several files of one "
        "run. `-` reads standard input.",
    ),
]
ManifestFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The run's configuration. Default: the files beside the log, such as "
        "`<log>.manifest.json`, `manifest.json`, `training_args.json`, `config.yaml`.",
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(metavar="DTYPE", help="fp16, bf16 or fp32; overrides the manifest."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Override a manifest field, such as `grad_clip=1`. Repeatable.",
    ),
]
ColumnNames = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="ROLE=NAME",
        help="Name the column of a role, such as `loss=train/ce`. Repeatable.",
    ),
]
Attempt = Annotated[
    int | None,
    typer.Option(metavar="N", help="Which of several appended runs to read. Default: the last."),
]
LogFormat = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The format of the log, if it is not recognized; `stabdiag formats` lists them.",
    ),
]
LimitFlags = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=VALUE",
        help="Change a threshold, such as `spike.sigma=4`. Repeatable.",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Read thresholds from this TOML file instead of `pyproject.toml` and `stabdiag.toml`.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        callback=lambda path: None if path == Path("-") else path,
        help="Write to this file. Default: standard output (`-`).",
    ),
]
Besides = Annotated[
    list[str] | None,
    typer.Option(
        "--write",
        metavar="FORMAT=FILE",
        help="Also write this format to a file, such as `sarif=report.sarif`. Repeatable.",
    ),
]
ReportFormat = Annotated[
    str | None,
    format_option(
        "terminal, lines, json, html, svg, markdown, github, gitlab, junit or sarif",
    ),
]
SheetFormat = Annotated[str | None, format_option("terminal, markdown or json")]
Literal = Annotated[bool, typer.Option("--literal", help="Use the tree's original fixed rules.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show every question with its numbers.")
]
Color = Annotated[
    bool | None,
    typer.Option(
        "--color/--no-color",
        help="Use color or not. Default: if the terminal supports it.",
        show_default=False,
    ),
]


def exit_code(found: Iterable[Finding | Tick], fail_on: FailOn) -> Exit:
    """Return whether something that was found is at least as severe as that."""
    from stabdiag.model.findings import fails

    return Exit(any(fails(one.severity, fail_on) for one in found))


def format_of(
    format: str | None, output: Path | None, names: Collection[str], default: str = "terminal"
) -> str:
    """Return the format that is named, else the one that the output's suffix stands for.

    Raises:
        StabdiagError: for a format that is none of these names, or one that no terminal can show.
    """
    if format is not None:
        refuse_unknown(format, names)
        if output is None and format in ("html", "svg") and sys.stdout.isatty():
            raise StabdiagError(
                f"a terminal cannot show {format}; write a file: -o report.{format}"
            )
        return format
    from stabdiag.formats import by_suffix

    told = None if output is None else by_suffix(output.suffix)
    if told is None:
        return default
    if told not in names:
        raise StabdiagError(
            f"{output}: this command does not write {told}; choose a format with --format "
            f"({', '.join(names)}), or another file name"
        )
    return told


def limits_of(flags: list[str] | None, config: Path | None) -> Limits:
    """Return the limits in force under these options."""
    from stabdiag.cli.config import configured_limits

    return configured_limits(Path.cwd(), config=config, flags=flags or ())


def settings_of(settings: list[str] | None, dtype: str | None) -> dict[str, object]:
    """Return the manifest fields that these options give."""
    given: dict[str, object] = dict(_pair(one, "--set") for one in settings or ())
    return given if dtype is None else {**given, "dtype": dtype}


def columns_of(columns: list[str] | None) -> dict[str, str]:
    """Return the columns by role that these options name."""
    return dict(_pair(one, "--column") for one in columns or ())


def reading(
    manifest: Path | None,
    dtype: str | None,
    settings: list[str] | None,
    columns: list[str] | None,
    attempt: int | None,
    log_format: str | None,
    limit: list[str] | None,
    config: Path | None,
) -> dict[str, Any]:
    """Return the arguments of the Python API that these options stand for."""
    return {
        "manifest": manifest,
        "settings": settings_of(settings, dtype),
        "columns": columns_of(columns),
        "attempt": attempt,
        "format": log_format,
        "limits": limits_of(limit, config),
    }


def besides_of(
    besides: list[str] | None, names: Collection[str] | None = None
) -> list[tuple[Path, str]]:
    """Return the other files to write, each with the name of its format."""
    from stabdiag import formats

    pairs = [_pair(one, "--write") for one in besides or ()]
    for name, path in pairs:
        refuse_unknown(name, formats.names() if names is None else names)
        if path == "-":
            raise StabdiagError(
                f"--write {name}=- names no file; --format {name} writes to standard output"
            )
    return [(Path(path), name) for name, path in pairs]


def _pair(text: str, flag: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or (flag == "--write" and not value):
        raise StabdiagError(f"{flag} takes {_WANTS[flag]}, not {text!r}")
    return name.strip(), value


def command(name: str, places: Sequence[str], flags: Mapping[str, object]) -> str:
    """Return the command line that makes the same report again, quoted for a shell.

    A flag that was not given (None, False) is left out; one with a list is repeated. Secrets in a
    URL are left out as well, since a report is passed on.
    """
    words = ["stabdiag", name, *map(public, places)]
    for flag, given in flags.items():
        if given is True:
            words.append(flag)
        elif isinstance(given, list | tuple):
            words += [word for one in given for word in (flag, str(one))]
        elif given not in (None, False):
            words += [flag, str(given)]
    return shlex.join(words)


def public(place: str) -> str:
    """Return a place as it may be shown: a URL without its secrets."""
    if "://" not in place:
        return place
    from stabdiag.places.remote import shown

    return shown(place)
