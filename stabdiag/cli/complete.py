"""What a shell is offered after a few letters of an option's value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# A shell waits: of longer logs no columns are offered.
_SHORT: Final = 50_000_000


def among(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Return what completes one of some words."""
    return lambda incomplete: [one for one in known if one.startswith(incomplete)]


def limits(incomplete: str) -> list[tuple[str, str]]:
    """Complete a limit, with what is in force by default."""
    from stabdiag.model.limits import Limits

    every = Limits().items()
    return [
        (f"{i.name}=", f"{i.value:g} {i.about.unit}")
        for i in every
        if i.name.startswith(incomplete)
    ]


def fields(incomplete: str) -> list[tuple[str, str]]:
    """Complete a field of the manifest."""
    from stabdiag.model.manifest.keys import KEYS

    return [(f"{key.name}=", key.wants) for key in KEYS if key.name.startswith(incomplete)]


def log_formats(incomplete: str) -> list[tuple[str, str]]:
    """Complete the name of a format of logs."""
    from stabdiag.readers.registry import READERS

    return [(one.name, one.title) for one in READERS if one.name.startswith(incomplete)]


def explained(incomplete: str) -> list[tuple[str, str]]:
    """Complete what can be explained."""
    from stabdiag.explain import titles
    from stabdiag.model.limits import Limits

    return [one for one in titles(Limits()).items() if one[0].startswith(incomplete)]


def columns(context: typer.Context, incomplete: str) -> list[str]:
    """Complete a role and, after ``=``, a column of the log that is named before."""
    role, equals, _ = incomplete.partition("=")
    from stabdiag.model.roles import ROLES

    known = (f"{role}={name}" for name in _columns(context)) if equals else (f"{r}=" for r in ROLES)
    return [one for one in known if one.startswith(incomplete)]


def _columns(context: typer.Context) -> Iterator[str]:
    from pathlib import Path

    from stabdiag.errors import StabdiagError
    from stabdiag.places import read_place

    for log in context.params.get("logs") or ():
        try:
            if Path(log).is_file() and Path(log).stat().st_size < _SHORT:
                yield from read_place([log], format=None, wanted=lambda _: True).columns.names
        except (OSError, StabdiagError):  # the command will say what is wrong
            return
