"""Exit codes of commands, and the command line that reproduces a report."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from stabdiag.cli.choices import FailOn
from stabdiag.cli.terminal import Exit
from stabdiag.model.text import shown

if TYPE_CHECKING:
    from stabdiag.model.findings import Finding
    from stabdiag.model.report import Report

# Parameters that change the content of a report, not its format or destination.
_CONTENT_PARAMETERS = (
    *("kind", "manifest", "manifests", "dtype", "settings", "columns", "attempt", "log_format"),
    *("limit", "config", "literal", "store", "baseline", "where"),
)


def exit_code(findings: Iterable[Finding], fail_on: FailOn) -> Exit:
    """Return 1 if any finding is at least as severe as ``fail_on``."""
    from stabdiag.model.fail_on import fails

    return Exit(any(fails(finding.severity, fail_on) for finding in findings))


def report_exit_code(report: Report, fail_on: FailOn) -> Exit:
    """Return 1 for a finding at least that severe, else 2 if the log could not be judged."""
    from stabdiag.model.fail_on import fails_run, is_check_error

    if any(fails_run(finding, fail_on) for finding in report.findings):
        return Exit.FINDING
    slugs = {finding.slug for finding in report.findings if finding.ignored is None}
    if report.diagnosis.ignored is None:
        slugs.add(report.tree.outcome.slug)
    return Exit.REFUSED if any(is_check_error(slug, fail_on) for slug in slugs) else Exit.OK


def verdict(finding: Finding) -> str:
    """Return a finding in one line."""
    return f"{finding.severity.value}: {finding.headline} [{finding.slug}]"


def reproduction_command(context: typer.Context, **extra: object) -> str:
    """Return the command line that reproduces a report.

    ``extra`` are options for one output file, such as ``--output``.
    """
    params = {param.name: param for param in context.command.params}
    logs = next(name for name, param in params.items() if param.param_type_name == "argument")
    flags = {
        params[name].opts[0]: context.params[name] for name in _CONTENT_PARAMETERS if name in params
    }
    return command(context.info_name or "", context.params[logs or ""], {**flags, **extra})


def command(name: str, logs: Sequence[str], flags: Mapping[str, object]) -> str:
    """Return a command line, quoted for a shell.

    A flag that is not set (None, False) is omitted; a flag with a list is repeated. Secrets in a
    URL are omitted too, since reports are shared.
    """
    words = ["stabdiag", name, *map(shown, logs)]
    for flag, value in flags.items():
        if value is True:
            words.append(flag)
        elif isinstance(value, list | tuple):
            words += [word for item in value for word in (flag, str(item))]
        elif value not in (None, False):
            words += [flag, str(value)]
    return shlex.join(words)
