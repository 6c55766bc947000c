"""The command line: arguments → calls → exit code. The only part that writes to the terminal."""

from __future__ import annotations

import os
import re
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
from stabdiag.cli.terminal import Exit, report_error
from stabdiag.errors import StabdiagError, did_you_mean

# The commands in the order of --help, and the module that defines each.
_COMMANDS = {
    **{name: name for name in ("diagnose", "watch", "check", "scan", "compare", "baseline")},
    **dict.fromkeys(("postmortem", "convert"), "documents"),
    "apply": "apply",
    **dict.fromkeys(("preflight", "checklist"), "checks"),
    **dict.fromkeys(("formats", "thresholds", "explain", "config", "help"), "tables"),
}

# The functions that cannot have the name of their command.
_FUNCTIONS = {"help": "show_help"}

# The commands whose --json takes a level of detail.
_JSON_DETAIL = ("diagnose", "watch")

# The message about arguments that a command does not have.
_UNEXPECTED = r"unexpected argument: \2"

# The program name in usage lines, and the variable a shell sets to request completions.
_PROGRAM = "stabdiag"
_COMPLETION_VARIABLE = "_STABDIAG_COMPLETE"


def main() -> Exit:
    """Run the command line. An error that the user can fix is one line and exit code 2."""
    try:
        _check_folder()
        words = _with_command(sys.argv[1:])
        completion = (
            complete.completing(_with_command)
            if _COMPLETION_VARIABLE in os.environ
            else nullcontext()
        )
        _check_command(words)
        with completion:
            shown = words or ["--help"]
            code = app(words[:1])(shown, prog_name=_PROGRAM, standalone_mode=False)
    except StabdiagError as error:
        return report_error(str(error))
    except OSError as error:
        prefix = "" if error.filename is None else f"{error.filename}: "
        return report_error(f"{prefix}{error.strerror or error}")
    except MemoryError:
        return report_error("not enough memory for this log; use a part of it")
    except Exception as error:  # noqa: BLE001 - usage errors of the argument parser, see below
        return _usage(error, words)
    except SystemExit as early_exit:  # typer exits this way after shell completion
        if early_exit.code != Exit.OK:
            raise
        return Exit.OK
    # A plain number is typer's own exit code, for example after Ctrl-C.
    if code == Exit.FINDING and not isinstance(code, Exit):
        raise SystemExit(code)
    return Exit(code or Exit.OK) if words else Exit.REFUSED


def _check_folder() -> None:
    """Raise an error if the working folder was deleted: no path resolves there."""
    try:
        Path.cwd()
    except OSError as error:
        raise StabdiagError(
            f"the working folder: {error.strerror}; change to one that exists"
        ) from None


def _with_command(words: list[str]) -> list[str]:
    """Return the arguments, with ``diagnose`` in front if they name a log and no command."""
    first = words[0] if words else ""
    # Options may precede the log. Options of the program itself need no log.
    candidates = words if first.startswith("-") and first != "-" else words[:1]
    if not _COMMANDS.keys() & {*candidates} and any(map(_is_log_name, candidates)):
        _check_order(words)
        words = ["diagnose", *words]
    return _with_json_detail(words) if words[:1] and words[0] in _JSON_DETAIL else words


def _check_order(words: list[str]) -> None:
    """Raise an error if a command follows the log: ``runs scan``."""
    log, *others = words
    if others and others[0] in _COMMANDS and not os.path.lexists(others[0]):
        import shlex

        raise StabdiagError(
            f"{others[0]}: write the command before the log: "
            f"{_PROGRAM} {others[0]} {shlex.quote(log)}"
        )


def _is_log_name(word: str) -> bool:
    """Return True if a word can only name a log: no command has a dot or a slash."""
    if word.startswith("-"):
        return word == "-"
    return os.path.exists(word) or any(sign in word for sign in r"/\.*")  # noqa: PTH110 - any length


def _with_json_detail(words: list[str]) -> list[str]:
    """Return the arguments, with the level of detail attached to ``--json``.

    An option with an optional value would take the name of the log for its value.
    """
    detailed: list[str] = []
    for word in words:
        if word == "full" and detailed[-1] == "--json=brief":
            detailed[-1] = "--json=full"
        else:
            detailed.append("--json=brief" if word == "--json" else word)
    return detailed


def _check_command(words: list[str]) -> None:
    """Raise an error if the first word is not a command.

    Raises:
        StabdiagError: it says what the word could have been.
    """
    if not words or words[0].startswith("-") or words[0] in _COMMANDS:
        return
    first = words[0]
    if not first:
        raise StabdiagError("the first argument is empty; is a shell variable not set?")
    hint = did_you_mean(first, _COMMANDS) or f"; see {_PROGRAM} --help"
    raise StabdiagError(f"{first}: no such command, file or folder{hint}")


def app(commands: Sequence[str] = ()) -> typer.Typer:
    """Return the command line with the given commands, or with all of them.

    Setting up every command takes 5% of the time of a small log.
    """
    from stabdiag.cli.help import Command, Program

    epilogs = _epilogs()
    app = typer.Typer(
        name=_PROGRAM,
        cls=Program,
        epilog=epilogs[_PROGRAM],
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        help="Find out what went wrong in a training run, and what to do first.",
    )
    app.callback()(_main)
    for name in [name for name in commands if name in _COMMANDS] or _COMMANDS:
        module = import_module(f"stabdiag.cli.{_COMMANDS[name]}")
        function = getattr(module, _FUNCTIONS.get(name, name))
        app.command(name, cls=Command, epilog=epilogs[name])(function)
    return app


def show_help(command: str | None) -> None:
    """Print the help of a command, or of the program.

    Raises:
        StabdiagError: if the command does not exist.
    """
    if command is not None and command not in _COMMANDS:
        hint = did_you_mean(command, _COMMANDS) or f"; `{_PROGRAM} help` lists the commands"
        raise StabdiagError(f"{command}: no such command{hint}")
    words = [] if command is None else [command]
    app(words)([*words, "--help"], prog_name=_PROGRAM, standalone_mode=False)


def _epilogs() -> dict[str, str]:
    """Return the text below the options in the help of each command: examples and notes."""
    # Importing importlib.resources takes as long as reading a small log.
    text = get_data("stabdiag", "explain/reference/commands.md") or b""
    epilogs = {}
    for section in text.decode().split("\n## ")[1:]:
        name, examples, *notes = section.strip().split("\n\n", 2)
        example_lines = "\n\n".join(f"`{line}`" for line in examples.splitlines())
        epilogs[name] = "\n\n".join(["**Examples**", example_lines, *notes])
    return epilogs


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"stabdiag {__version__}")
        raise typer.Exit


def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            "-V",
            help="Print the version and exit.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an internal error.")
    ] = False,  # __main__ removes it before this is imported
) -> None:
    pass


def _with_suggestion(message: str) -> str:
    """Return a message of the argument parser without its jargon, and with the nearest choice."""
    message = message.replace("Value error, ", "")  # of pydantic
    message = re.sub(r"^Got unexpected extra arguments?(\(s\))? \((.*)\)$", _UNEXPECTED, message)
    choices = re.search(r"'([^']*)' is not one of (.*?)\.?$", message)
    if choices is None:
        return message
    return message.rstrip(".") + did_you_mean(choices[1], re.findall(r"'([^']+)'", choices[2]))


def _usage(error: Exception, words: Sequence[str]) -> Exit:
    """Print a usage error of the argument parser in one line; raise anything else."""
    if not hasattr(error, "format_message"):
        raise error
    message = _with_suggestion(error.format_message())
    command = " ".join([_PROGRAM, *(name for name in words[:1] if name in _COMMANDS)])
    return report_error(f"{message} (see {command} --help)")
