"""What a command returns, and the line that makes the same again."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import typer

from stabdiag.cli.terminal import Exit
from stabdiag.model.text import shown

if TYPE_CHECKING:
    from stabdiag.model.checks import ChecklistItem
    from stabdiag.model.findings import Finding
    from stabdiag.model.report import Report

# The parameters that decide what a report says, and not how or where it is written.
_DECIDES = (
    *("kind", "manifest", "manifests", "dtype", "settings", "columns", "attempt", "log_format"),
    *("limit", "config", "literal", "store", "baseline", "where"),
)


class FailOn(StrEnum):
    """The lowest severity with exit code 1; ``unknown`` is ``error``, with 2 for what is open."""

    ERROR = "error"
    WARNING = "warning"
    NEVER = "never"
    UNKNOWN = "unknown"


def exit_code(found: Iterable[Finding | ChecklistItem], fail_on: FailOn) -> Exit:
    """Return whether something that was found is at least as severe as that."""
    from stabdiag.model.findings import fails

    return Exit(any(fails(one.severity, fail_on) for one in found))


def report_exit_code(report: Report, fail_on: FailOn) -> Exit:
    """Return 1 for a finding as severe as that, else 2 if the log could not be judged."""
    from stabdiag.model.findings import fails_run, is_check_error

    if any(fails_run(finding, fail_on) for finding in report.findings):
        return Exit.FOUND
    slugs = {finding.slug for finding in report.findings if finding.ignored is None}
    if report.diagnosis.ignored is None:
        slugs.add(report.tree.outcome.slug)
    return Exit.REFUSED if any(is_check_error(slug, fail_on) for slug in slugs) else Exit.OK


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
    words = ["stabdiag", name, *map(shown, places)]
    for flag, given in flags.items():
        if given is True:
            words.append(flag)
        elif isinstance(given, list | tuple):
            words += [word for one in given for word in (flag, str(one))]
        elif given not in (None, False):
            words += [flag, str(given)]
    return shlex.join(words)
