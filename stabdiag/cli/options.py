"""The options that several commands take."""

from __future__ import annotations

import sys
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stabdiag.errors import StabdiagError, refuse_unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from stabdiag.model.checks import Tick
    from stabdiag.model.findings import Finding
    from stabdiag.model.limits import Limits

BY_NAME = "By default as the file of `--output` is called, else terminal."

_WANTS = {
    "--column": "ROLE=NAME such as loss=train/ce",
    "--write": "FORMAT=FILE such as sarif=report.sarif",
}


class Exit(IntEnum):
    """How a command ends that returns; 70 is an internal error, and nothing returns it."""

    OK = 0
    FOUND = 1
    REFUSED = 2
    INTERRUPTED = 130
    TERMINATED = 143


class FailOn(StrEnum):
    """The severity from which on the exit code is 1."""

    ERROR = "error"
    WARNING = "warning"
    NEVER = "never"


Severe = Annotated[
    FailOn,
    typer.Option(
        "--fail-on",
        metavar="SEVERITY",
        help="From which severity on the exit code is 1: error, warning or never.",
    ),
]
Logs = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG...",
        help="A log as its framework wrote it, a folder, an archive or a URL; several files of "
        "one run; `-` is standard input.",
    ),
]
ManifestFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="What the run was configured to do. By default what lies beside the log: "
        "`<log>.manifest.json`, `manifest.json`, `training_args.json`, `config.yaml`, …",
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
        help="Override a manifest field: `checkpoint_every=500`, `grad_clip=1`. Repeatable.",
    ),
]
ColumnNames = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="ROLE=NAME",
        help="Name the column of a role: `loss=train/ce`. Repeatable.",
    ),
]
Attempt = Annotated[
    int | None,
    typer.Option(metavar="N", help="Which of several appended runs; the last by default."),
]
LogFormat = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="How the log is to be read, where it is not recognised; `stabdiag formats` lists "
        "the names.",
    ),
]
LimitFlags = Annotated[
    list[str] | None,
    typer.Option(
        "--limit", metavar="NAME=VALUE", help="Change a threshold: `spike.sigma=4`. Repeatable."
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Thresholds from this TOML file instead of `pyproject.toml` and `stabdiag.toml`.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        callback=lambda path: None if path == Path("-") else path,
        help="Write to a file; `-` is standard output, the default.",
    ),
]
Besides = Annotated[
    list[str] | None,
    typer.Option(
        "--write",
        metavar="FORMAT=FILE",
        help="Write another format to a file besides: `sarif=report.sarif`. Repeatable.",
    ),
]
ReportFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        help="terminal, lines, json, html, svg, markdown, github, gitlab, junit or sarif. "
        + BY_NAME,
    ),
]
SheetFormat = Annotated[
    str | None,
    typer.Option("--format", "-f", metavar="FORMAT", help="terminal, markdown or json. " + BY_NAME),
]
Literal = Annotated[bool, typer.Option("--literal", help="Apply the decision tree to the letter.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show every question with its numbers.")
]
Color = Annotated[
    bool | None,
    typer.Option(
        "--color/--no-color",
        help="Colour, or none; by default as the terminal can.",
        show_default=False,
    ),
]


def exit_code(found: Iterable[Finding | Tick], fail_on: FailOn) -> Exit:
    """Return whether something of what was found is as severe as that."""
    from stabdiag.model.findings import fails

    return Exit(any(fails(one.severity, fail_on) for one in found))


def format_of(
    format: str | None, output: Path | None, names: Collection[str], default: str = "terminal"
) -> str:
    """Return the format that is named, else the one by which the output is called.

    Raises:
        StabdiagError: for a format that is none of these names, or a file called as none is.
    """
    if format is not None:
        refuse_unknown(format, names)
        if output is None:
            refuse_screen(format)
        return format
    from stabdiag.formats import by_suffix

    told = None if output is None else by_suffix(output.suffix)
    if told is None:
        return default
    if told not in names:
        raise StabdiagError(
            f"{output}: {told} is none of the formats of this command; name one by --format "
            f"({', '.join(names)}), or the file otherwise"
        )
    return told


def refuse_screen(format: str) -> None:
    """Raise an error for what nobody can read on a terminal."""
    if format in ("html", "svg") and sys.stdout.isatty():
        raise StabdiagError(f"{format} is for a file, not for a terminal: -o report.{format}")


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


def besides_of(
    besides: list[str] | None, names: Collection[str] | None = None
) -> list[tuple[Path, str]]:
    """Return the files to write besides, each with the name of its format."""
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
        wants = _WANTS.get(flag, "FIELD=VALUE")
        raise StabdiagError(f"{flag} wants {wants}, not {text!r}")
    return name.strip(), value
