"""What a shell is offered after a few letters of an option's value."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from typing import Final

import typer

# A shell waits: of longer logs no columns are offered.
_SHORT: Final = 50_000_000


@contextmanager
def completing(with_command: Callable[[list[str]], list[str]]) -> Iterator[None]:
    """Let typer see a line to complete as the program would: with the command that is meant.

    Undo, too, that bash takes ``loss=train`` for three words, which no other shell does; it is
    given back what follows the sign.
    """
    name, *rest = os.environ.get("_TYPER_COMPLETE_ARGS", "").split(" ")
    os.environ["_TYPER_COMPLETE_ARGS"] = " ".join([name, *with_command(rest)])
    if "COMP_WORDS" not in os.environ:
        yield
        return
    words, at = os.environ["COMP_WORDS"].split("\n"), int(os.environ["COMP_CWORD"])
    while "=" in words[1 : at + 1]:
        sign = words.index("=", 1)
        words[sign - 1 : sign + 2] = ["".join(words[sign - 1 : sign + 2])]
        at -= min(at, sign + 1) - (sign - 1)
    meant = [words[0], *with_command(words[1:])]
    at += len(meant) - len(words)
    words = meant
    os.environ.update(COMP_WORDS="\n".join(words), COMP_CWORD=str(at))
    before = words[at].rpartition("=")[:2] if at < len(words) else ()
    told = StringIO()
    try:
        with redirect_stdout(told):
            yield
    finally:
        for line in told.getvalue().splitlines():
            typer.echo(line.removeprefix("".join(before)))


def _offer(incomplete: str, known: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return what begins as the word does, each with a help."""
    return [(one, told) for one, told in known if one.startswith(incomplete)]


def among(known: Sequence[str]) -> Callable[[str], list[tuple[str, str]]]:
    """Return what completes one of some words."""
    return lambda incomplete: _offer(incomplete, ((one, "") for one in known))


def limits(incomplete: str) -> list[tuple[str, str]]:
    """Complete a limit with its default."""
    from stabdiag.model.limits import Limits

    every = Limits().items()
    return _offer(incomplete, ((f"{one.name}={one.value:g}", one.about.unit) for one in every))


def fields(incomplete: str) -> list[tuple[str, str]]:
    """Complete a field of the manifest."""
    from stabdiag.model.manifest.keys import KEYS

    return _offer(incomplete, ((f"{key.name}=", key.wants) for key in KEYS))


def log_formats(incomplete: str) -> list[tuple[str, str]]:
    """Complete the name of a format of logs."""
    from stabdiag.readers.registry import READERS

    return _offer(incomplete, ((one.name, one.title) for one in READERS))


def explained(incomplete: str) -> list[tuple[str, str]]:
    """Complete what can be explained."""
    from stabdiag.explain import titles
    from stabdiag.model.limits import Limits

    return _offer(incomplete, titles(Limits()).items())


def columns(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Complete a role and, after ``=``, a column of the log that is named before."""
    from stabdiag.model.roles.table import ROLES

    role, equals, _ = incomplete.partition("=")
    if equals:
        return _offer(incomplete, ((f"{role}={name}", "") for name in _columns(context)))
    return _offer(incomplete, ((f"{one.name}=", one.meaning) for one in ROLES))


def _columns(context: typer.Context) -> Iterator[str]:
    """Yield the columns of the logs that the command line names."""
    from pathlib import Path

    from stabdiag.errors import StabdiagError
    from stabdiag.sources import read_source

    # The option that lacks its value leaves what stands before it unparsed.
    for log in map(Path, [*(context.params.get("logs") or ()), *context.args]):
        try:
            if log.is_file() and log.stat().st_size < _SHORT:
                yield from read_source([log]).columns.names
        except (OSError, StabdiagError):  # the command will say what is wrong
            return
