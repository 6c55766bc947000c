"""The command line: arguments → calls → exit code. The only part that writes to the terminal."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, NoReturn

import typer

from stabdiag import __version__
from stabdiag.cli.terminal import complain
from stabdiag.errors import StabdiagError

# The commands in the order in which help lists them, and where each is defined with its examples.
_COMMANDS = {
    "diagnose": ("diagnose", "EPILOG"),
    "watch": ("watch", "EPILOG"),
    "check": ("check", "EPILOG"),
    "scan": ("scan", "EPILOG"),
    "compare": ("compare", "EPILOG"),
    "postmortem": ("postmortem", "EPILOG"),
    "convert": ("convert", "EPILOG"),
    "preflight": ("preflight", "EPILOG"),
    "checklist": ("checklist", "EPILOG"),
    "formats": ("tables", "FORMATS"),
    "thresholds": ("tables", "THRESHOLDS"),
    "explain": ("tables", "EXPLAIN"),
}


def main() -> NoReturn:
    """Run the command line; every error that is the user's to mend is one line and exit code 2."""
    try:
        code = _app(sys.argv[1:2])(standalone_mode=False) or 0
    except StabdiagError as error:
        code = complain(str(error))
    except typer.Abort:
        code = 130
    except OSError as error:
        code = complain(f"{error.filename or 'standard output'}: {error.strerror or error}")
    except MemoryError:
        code = complain("the log needs more memory than there is; give a part of it")
    except Exception as error:  # noqa: BLE001 - usage errors of the argument parser, see below
        code = _usage(error)
    sys.exit(code)


def _app(asked: list[str]) -> typer.Typer:
    """Return the command line, with all commands unless one of them is asked for.

    To set up the others takes 5% of the time of a small log.
    """
    app = typer.Typer(
        name="stabdiag",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        help="Say what went wrong with a training run, and what to do about it first.",
    )
    app.callback()(_main)
    for name in [name for name in asked if name in _COMMANDS] or _COMMANDS:
        module, epilog = _COMMANDS[name]
        home = import_module(f"stabdiag.cli.{module}")
        app.command(epilog=getattr(home, epilog))(getattr(home, name))
    return app


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


def _usage(error: Exception) -> int:
    """Print a usage error of the argument parser in one line; let anything else be seen."""
    if not hasattr(error, "format_message"):
        raise error
    message = error.format_message()
    command = " ".join(["stabdiag", *(name for name in sys.argv[1:2] if name in _COMMANDS)])
    # Without a command, the help has been shown already.
    return complain(f"{message} (see {command} --help)") if message else 2


def _print_version() -> NoReturn:
    typer.echo(f"stabdiag {__version__}")
    raise typer.Exit
