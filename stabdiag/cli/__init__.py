"""The command line: arguments → calls → exit code. The only part that writes to the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from pkgutil import get_data
from typing import Annotated

import typer

from stabdiag._version import __version__
from stabdiag.cli import complete
from stabdiag.cli.options import option
from stabdiag.cli.terminal import Exit, complain
from stabdiag.errors import StabdiagError

# The commands in the order of the help, and the module that holds each.
_COMMANDS = {
    **{name: name for name in ("diagnose", "watch", "check", "scan", "compare", "baseline")},
    **dict.fromkeys(("postmortem", "convert"), "documents"),
    **dict.fromkeys(("preflight", "checklist"), "checks"),
    **dict.fromkeys(("formats", "thresholds", "explain", "config"), "tables"),
}

# The name in the usage, and in the variable by which a shell asks for completions.
_NAME = "stabdiag"
_COMPLETE = "_STABDIAG_COMPLETE"


def main() -> Exit:
    """Run the command line; every error that the user can fix is one line and exit code 2."""
    try:
        _check_folder()
        words = _with_command(sys.argv[1:])
        helped = complete.completing(_with_command) if _COMPLETE in os.environ else nullcontext()
        with helped:
            ended = app(words[:1])(words, prog_name=_NAME, standalone_mode=False)
    except StabdiagError as error:
        return complain(str(error))
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        return complain(f"{place}{error.strerror or error}")
    except MemoryError:
        return complain("the log needs more memory than there is; use a part of it")
    except Exception as error:  # noqa: BLE001 - usage errors of the argument parser, see below
        return _usage(error, words)
    except SystemExit as ended_early:  # after a shell was helped to complete a command
        if ended_early.code != Exit.OK:
            raise
        return Exit.OK
    # A plain number is typer's own exit code, as for Ctrl-C.
    if ended == Exit.FOUND and not isinstance(ended, Exit):
        raise SystemExit(ended)
    return Exit(ended or Exit.OK)


def _check_folder() -> None:
    """Refuse to work in a folder that was deleted, where no path means anything."""
    try:
        Path.cwd()
    except OSError as error:
        raise StabdiagError(
            f"the working folder: {error.strerror}; change to one that exists"
        ) from None


def _with_command(words: list[str]) -> list[str]:
    """Return the arguments with the command that is meant where a log is named and no command."""
    first = words[0] if words else ""
    # Options may stand before the log; those of the program itself come without one.
    named = words if first.startswith("-") and first != "-" else words[:1]
    if not _COMMANDS.keys() & {*named} and any(map(_is_place, named)):
        return ["diagnose", *words]
    return words


def _is_place(word: str) -> bool:
    """Return whether a word can only be the name of a log: no command has a dot or a slash."""
    if word.startswith("-"):
        return word == "-"
    return os.path.exists(word) or "/" in word or "." in word  # noqa: PTH110 - of any length


def app(asked: Sequence[str] = ()) -> typer.Typer:
    """Return the command line, with all commands unless one of them is asked for.

    Setting up the others takes 5% of the time of a small log.
    """
    epilogs = _epilogs()
    app = typer.Typer(
        name=_NAME,
        no_args_is_help=True,
        epilog=epilogs[_NAME],
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        help="Find out what went wrong in a training run, and what to do first.",
    )
    app.callback()(_main)
    for name in [name for name in asked if name in _COMMANDS] or _COMMANDS:
        home = import_module(f"stabdiag.cli.{_COMMANDS[name]}")
        app.command(epilog=epilogs[name])(getattr(home, name))
    return app


def _epilogs() -> dict[str, str]:
    """Return what stands below the options of each command: examples, and what else is kept."""
    # importlib.resources takes as long to import as a small log to be read.
    kept = get_data("stabdiag", "explain/reference/commands.md") or b""
    epilogs = {}
    for section in kept.decode().split("\n## ")[1:]:
        name, examples, *rest = section.strip().split("\n\n", 2)
        shown = "\n\n".join(f"`{line}`" for line in examples.splitlines())
        epilogs[name] = "\n\n".join(["**Examples**", shown, *rest])
    return epilogs


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"stabdiag {__version__}")
        raise typer.Exit


def _main(
    version: Annotated[
        bool,
        option(
            "--version -V", "Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
    debug: Annotated[
        bool, option("--debug", "Show the traceback of an internal error.")
    ] = False,  # taken out before all this is imported
) -> None:
    pass


def _usage(error: Exception, words: Sequence[str]) -> Exit:
    """Print a usage error of the argument parser in one line; raise anything else."""
    if not hasattr(error, "format_message"):
        raise error
    message = error.format_message()
    command = " ".join([_NAME, *(name for name in words[:1] if name in _COMMANDS)])
    # Without a command, the help has been shown already.
    return complain(f"{message} (see {command} --help)") if message else Exit.REFUSED
