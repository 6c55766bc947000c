"""How a command gets its options, what it returns, and the line that makes the same again."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import typer

from stabdiag.cli.terminal import Exit, public

if TYPE_CHECKING:
    from stabdiag.model.checks import Tick
    from stabdiag.model.findings import Finding

_BY_NAME: Final = inspect.Parameter.KEYWORD_ONLY

# The parameters that decide what a report says, and not how or where it is written.
_DECIDES = (
    *("kind", "manifest", "manifests", "dtype", "settings", "columns", "attempt", "log_format"),
    *("limit", "config", "literal", "store", "where"),
)


class FailOn(StrEnum):
    """The lowest severity with exit code 1."""

    ERROR = "error"
    WARNING = "warning"
    NEVER = "never"


def bundled(command: Callable[..., Exit | None]) -> Callable[..., Exit | None]:
    """Give a command the options of each bundle among its parameters, one by one for typer."""
    own = inspect.signature(command, eval_str=True).parameters
    bundles = {
        name: _options(one.annotation) for name, one in own.items() if is_dataclass(one.annotation)
    }

    @wraps(command)
    def called(**given: Any) -> Exit | None:
        for name, options in bundles.items():
            taken = {option.name: given.pop(option.name) for option in options}
            given[name] = own[name].annotation(**taken)
        return command(**given)

    flat = [each for name, one in own.items() for each in bundles.get(name, [one])]
    flat = [one.replace(kind=_BY_NAME) for one in flat]
    called.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in flat}
    return called


def _options(bundle: Any) -> list[inspect.Parameter]:
    """Return the options of a bundle: its own, then those of what it is made from."""
    defaults = {one.name: one.default for one in fields(bundle)}
    kinds: dict[str, Any] = {}
    for part in bundle.__mro__:
        for name, kind in inspect.get_annotations(part, eval_str=True).items():
            kinds.setdefault(name, kind)
    return [
        inspect.Parameter(name, _BY_NAME, default=defaults[name], annotation=kind)
        for name, kind in kinds.items()
        if name in defaults
    ]


def exit_code(found: Iterable[Finding | Tick], fail_on: FailOn) -> Exit:
    """Return whether something that was found is at least as severe as that."""
    from stabdiag.model.findings import fails

    return Exit(any(fails(one.severity, fail_on) for one in found))


def verdict(found: Finding) -> str:
    """Return a finding in one line."""
    return f"{found.severity.value}: {found.headline} [{found.slug}]"


def again(context: typer.Context, **more: object) -> str:
    """Return the command line that makes the same report again.

    ``more`` are options such as ``--output`` that belong to one file of several.
    """
    known = {one.name: one for one in context.command.params}
    places = next(name for name, one in known.items() if one.param_type_name == "argument")
    given = {known[name].opts[0]: context.params[name] for name in _DECIDES if name in known}
    return command(context.info_name or "", context.params[places or ""], {**given, **more})


def command(name: str, places: Sequence[str], flags: Mapping[str, object]) -> str:
    """Return a command line, quoted for a shell.

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
