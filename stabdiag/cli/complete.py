"""Shell completion for the values of options."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from typing import Final

import typer

# The shell waits for completions, so column names are read from shorter logs only (bytes).
_MAX_LOG_SIZE: Final = 50_000_000


@contextmanager
def completing(with_command: Callable[[list[str]], list[str]]) -> Iterator[None]:
    """Add the implied ``diagnose`` to the line that typer completes.

    Bash alone splits ``loss=train`` into three words. They are joined for typer, and bash gets
    back only the part after the sign.
    """
    name, *arguments = os.environ.get("_TYPER_COMPLETE_ARGS", "").split(" ")
    os.environ["_TYPER_COMPLETE_ARGS"] = " ".join([name, *with_command(arguments)])
    if "COMP_WORDS" not in os.environ:
        yield
        return
    words, at = os.environ["COMP_WORDS"].split("\n"), int(os.environ["COMP_CWORD"])
    while "=" in words[1 : at + 1]:
        sign = words.index("=", 1)
        words[sign - 1 : sign + 2] = ["".join(words[sign - 1 : sign + 2])]
        at -= min(at, sign + 1) - (sign - 1)
    full_words = [words[0], *with_command(words[1:])]
    at += len(full_words) - len(words)
    words = full_words
    os.environ.update(COMP_WORDS="\n".join(words), COMP_CWORD=str(at))
    before = words[at].rpartition("=")[:2] if at < len(words) else ()
    output = StringIO()
    try:
        with redirect_stdout(output):
            yield
    finally:
        for line in output.getvalue().splitlines():
            typer.echo(line.removeprefix("".join(before)))


def _matches(incomplete: str, choices: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the choices that start with the word, each with its help."""
    return [(choice, help) for choice, help in choices if choice.startswith(incomplete)]


def among(choices: Sequence[str]) -> Callable[[str], list[tuple[str, str]]]:
    """Return a function that completes one of these words."""
    return lambda incomplete: _matches(incomplete, ((choice, "") for choice in choices))


def limits(incomplete: str) -> list[tuple[str, str]]:
    """Complete a limit with its default."""
    from stabdiag.model.limits import Limits

    items = Limits().items()
    return _matches(
        incomplete, ((f"{item.name}={item.value:g}", item.about.unit) for item in items)
    )


def fields(incomplete: str) -> list[tuple[str, str]]:
    """Complete a field of the manifest."""
    from stabdiag.model.manifest.keys import KEYS

    return _matches(incomplete, ((f"{key.name}=", key.wants) for key in KEYS))


def log_formats(incomplete: str) -> list[tuple[str, str]]:
    """Complete the name of a log format."""
    from stabdiag.readers.registry import READERS

    return _matches(incomplete, ((item.name, item.title) for item in READERS))


def explained(incomplete: str) -> list[tuple[str, str]]:
    """Complete the name of an entry that ``stabdiag explain`` has."""
    from stabdiag.explain import titles
    from stabdiag.model.limits import Limits

    return _matches(incomplete, titles(Limits()).items())


def columns(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Complete a role and, after ``=``, a column of the log named earlier in the line."""
    from stabdiag.model.roles.table import ROLES

    role, equals, _ = incomplete.partition("=")
    if equals:
        return _matches(incomplete, ((f"{role}={name}", "") for name in _columns(context)))
    return _matches(incomplete, ((f"{item.name}=", item.meaning) for item in ROLES))


def _columns(context: typer.Context) -> Iterator[str]:
    """Yield the columns of the logs that the command line names."""
    from pathlib import Path

    from stabdiag.errors import StabdiagError
    from stabdiag.sources import read_source

    # If the last option has no value yet, typer leaves the words before it unparsed.
    for log in map(Path, [*(context.params.get("logs") or ()), *context.args]):
        try:
            if log.is_file() and log.stat().st_size < _MAX_LOG_SIZE:
                yield from read_source([log]).columns.names
        except (OSError, StabdiagError):  # the command itself reports the error
            return
