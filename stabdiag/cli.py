"""The command line: arguments → calls → exit code. The only module that writes to the terminal."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from stabdiag import __version__
from stabdiag.errors import ManifestError, StabdiagError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from stabdiag.findings import Finding
    from stabdiag.limits import Limits
    from stabdiag.manifest import Manifest

# Logs from so many bytes on take longer than people wait without a sign of life.
_LARGE = 100_000_000

app = typer.Typer(
    name="stabdiag",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Say what went wrong with a training run, and what to do about it first.",
)


class FailOn(StrEnum):
    """The severity from which on the exit code is 1."""

    ERROR = "error"
    WARNING = "warning"
    NEVER = "never"


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
    typer.Option("--output", "-o", metavar="FILE", help="Write to a file instead."),
]
Color = Annotated[
    bool | None,
    typer.Option(
        "--color/--no-color",
        help="Colour, or none; by default as the terminal can.",
        show_default=False,
    ),
]


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=lambda value: _print_version() if value else None,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    pass


@app.command(
    epilog="""
**Examples**

`stabdiag diagnose run.jsonl`

`stabdiag diagnose metrics.csv --dtype fp16 --column loss=train/ce`

`stabdiag diagnose run.parquet --manifest config.json --format json -o report.json`

`zcat run.jsonl.gz | stabdiag diagnose - --fail-on warning`

**Exit codes**: 0 nothing at or above `--fail-on`; 1 something; 2 unreadable input or usage.
"""
)
def diagnose(
    log: Annotated[
        str,
        typer.Argument(metavar="LOG", help="CSV, JSON lines or Parquet; `-` is standard input."),
    ],
    manifest: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What the run was configured to do. By default `<log>.manifest.json` or "
            "`manifest.json` beside the log.",
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(metavar="DTYPE", help="fp16, bf16 or fp32; overrides the manifest."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="Override a manifest field: `checkpoint_every=500`, `grad_clip=1`. Repeatable.",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="ROLE=NAME",
            help="Name the column of a role: `loss=train/ce`. Repeatable.",
        ),
    ] = None,
    attempt: Annotated[
        int | None,
        typer.Option(metavar="N", help="Which of several appended runs; the last by default."),
    ] = None,
    limit: LimitFlags = None,
    config: ConfigFile = None,
    format: Annotated[
        str, typer.Option("--format", "-f", help="terminal, json or svg.")
    ] = "terminal",
    output: Output = None,
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="The severity from which on the exit code is 1.")
    ] = FailOn.ERROR,
    literal: Annotated[
        bool, typer.Option("--literal", help="Apply the decision tree to the letter.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show every question with its numbers.")
    ] = False,
    color: Color = None,
) -> None:
    """Read a log, walk the decision tree, print one diagnosis and the first action to take."""
    from stabdiag.api import diagnose as run

    limits = _limits(limit, config)
    known = _manifest(log, manifest, dtype, settings)
    named = dict(_pair(column, "--column") for column in columns or ())
    with _progress(log):
        report = run(
            log, manifest=known, limits=limits, columns=named, attempt=attempt, literal=literal
        )
    from stabdiag.formats import render

    terminal = _terminal(output, color)
    text = render(
        report,
        format,
        verbose=verbose,
        width=terminal.width,
        color=terminal.color,
        encoding=terminal.encoding,
    )
    _write(text, output)
    raise typer.Exit(_code(report.diagnosis, fail_on))


@app.command(
    epilog="""
**Examples**

`stabdiag thresholds`

`stabdiag thresholds --format toml > stabdiag.toml`

`stabdiag thresholds --limit spike.sigma=4`
"""
)
def thresholds(
    limit: LimitFlags = None,
    config: ConfigFile = None,
    format: Annotated[
        str, typer.Option("--format", "-f", help="terminal, markdown, json or toml.")
    ] = "terminal",
    output: Output = None,
    color: Color = None,
) -> None:
    """Print the quick-reference table and every threshold in force."""
    from stabdiag.thresholds import thresholds as table

    terminal = _terminal(output, color)
    text = table(
        _limits(limit, config),
        format,
        width=terminal.width,
        color=terminal.color,
        encoding=terminal.encoding,
    )
    _write(text, output)


@app.command(
    epilog="""
**Examples**

`stabdiag explain spike-lr-jump`

`stabdiag explain Q2.1`

`stabdiag explain spike.sigma`
"""
)
def explain(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="An outcome, a question or a threshold.")
    ],
    limit: LimitFlags = None,
    config: ConfigFile = None,
    color: Color = None,
) -> None:
    """Say what an outcome, a question or a threshold means, and what to do."""
    from stabdiag.explain import explain as page
    from stabdiag.formats.terminal.markdown import markdown_page

    text = page(name, _limits(limit, config))
    if sys.stdout.isatty() or color:
        terminal = _terminal(None, color)
        text = markdown_page(
            text, width=terminal.width, color=terminal.color, encoding=terminal.encoding
        )
    _write(text, None)


def main() -> NoReturn:
    """Run the command line; every error that is the user's to mend is one line and exit code 2."""
    # A process that soon ends gains nothing by looking for cycles: 5% of the time of a small log.
    gc.disable()
    try:
        code = app(standalone_mode=False) or 0
    except StabdiagError as error:
        code = _complain(str(error))
    except typer.Abort:
        code = 130
    except Exception as error:  # noqa: BLE001 - usage errors of the argument parser, see below
        code = _usage(error)
    sys.exit(code)


def _usage(error: Exception) -> int:
    """Print a usage error of the argument parser in one line; let anything else be seen."""
    if not hasattr(error, "format_message"):
        raise error
    return _complain(f"{error.format_message()} (see stabdiag --help)")


def _complain(message: str) -> int:
    # A file or column name may hold anything, line breaks and escape codes too.
    inert = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
    print(f"stabdiag: {inert}", file=sys.stderr)  # noqa: T201 - the only module that may
    return 2


def _print_version() -> NoReturn:
    typer.echo(f"stabdiag {__version__}")
    raise typer.Exit


def _limits(flags: list[str] | None, config: Path | None) -> Limits:
    from stabdiag.config import configured_limits

    return configured_limits(Path.cwd(), config=config, flags=flags or ())


def _manifest(
    log: str, path: Path | None, dtype: str | None, settings: list[str] | None
) -> Manifest:
    from stabdiag.manifest import Manifest, find_manifest, read_manifest

    found = path or find_manifest(log)
    known = read_manifest(found) if found else Manifest()
    given = dict(_pair(setting, "--set") for setting in settings or ())
    if dtype is not None:
        given["dtype"] = dtype
    return known.override(given) if given else known


def _progress(log: str) -> AbstractContextManager[object]:
    """Show on a terminal that a large log is being read; nothing otherwise."""
    path = Path(log)
    size = path.stat().st_size if log != "-" and path.is_file() else 0
    if size < _LARGE or not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console
    from rich.text import Text

    words = Text(f"Reading {ascii(path.name)[1:-1]}, {size / 1e6:.0f} MB …")
    return Console(stderr=True).status(words)


def _pair(text: str, flag: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        wants = {"--column": "ROLE=NAME such as loss=train/ce"}.get(flag, "FIELD=VALUE")
        raise ManifestError(f"{flag} wants {wants}, not {text!r}")
    return name.strip(), value


@dataclass(frozen=True, kw_only=True)
class _Terminal:
    width: int
    color: bool
    encoding: str


def _terminal(output: Path | None, color: bool | None) -> _Terminal:
    """Return what the terminal, or the file that stands for it, can show."""
    tty = output is None and sys.stdout.isatty()
    wanted = tty and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = 80
    if tty:
        import shutil

        width = max(shutil.get_terminal_size().columns, 40)
    encoding = "utf-8" if output else (sys.stdout.encoding or "ascii")
    return _Terminal(width=width, color=wanted if color is None else color, encoding=encoding)


def _write(text: str, output: Path | None) -> None:
    """Write to the terminal, or to a file as a whole or not at all."""
    text = text if text.endswith("\n") else f"{text}\n"
    if output is None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            # Whoever read us has enough; keep the interpreter from complaining at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(output)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StabdiagError(f"{output}: cannot be written ({error.strerror})") from None


def _code(diagnosis: Finding, fail_on: FailOn) -> int:
    from stabdiag.findings import Severity

    if fail_on is FailOn.NEVER:
        return 0
    return int(diagnosis.severity.rank <= Severity(fail_on.value).rank)
