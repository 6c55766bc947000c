"""The command line that makes the same report again."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def command(name: str, places: Sequence[str], flags: Mapping[str, object]) -> str:
    """Return a command line, as a shell takes it.

    A flag that was not given, None or False or empty, is left out; one that is a list is repeated.
    What may be secret in a URL is left out as well, as a report is passed on.
    """
    words = ["stabdiag", name, *map(_public, places)]
    for flag, given in flags.items():
        if given is True:
            words.append(flag)
        elif isinstance(given, list | tuple):
            words += [word for one in given for word in (flag, str(one))]
        elif given not in (None, False):
            words += [flag, str(given)]
    return shlex.join(words)


def _public(place: str) -> str:
    if "://" not in place:
        return place
    from stabdiag.places.remote import shown

    return shown(place)
