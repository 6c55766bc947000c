"""The values of the options that say what a run is, and how to read and judge it."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stabdiag.cli.choices import FailOn
from stabdiag.cli.config import Project, read_project
from stabdiag.cli.terminal import notify
from stabdiag.errors import StabdiagError
from stabdiag.model.frozen import frozen
from stabdiag.model.limits import Limits

if TYPE_CHECKING:
    from stabdiag.api.references import References
    from stabdiag.scan.work import ScanOptions

_OPTION_EXAMPLES: Final = {
    "--limit": "NAME=VALUE such as spike.sigma=4",
    "--column": "ROLE=NAME such as loss=train/ce",
    "--set": "FIELD=VALUE such as grad_clip=1",
    "--write": "FORMAT=FILE such as html=report.html",
}


@frozen
class RunOptions:
    """The options of a command, together with the project's settings file.

    A command sets the fields whose options it has.
    """

    limit: list[str] | None = None
    config: Path | None = None
    columns: list[str] | None = None
    log_format: str | None = None
    dtype: str | None = None
    settings: list[str] | None = None
    manifest: Path | None = None
    attempt: int | None = None
    baseline: list[str] | None = None
    where: list[str] | None = None

    @cached_property
    def project(self) -> Project:
        """The project's settings. Expired ignore rules are reported on standard error."""
        project = read_project(Path.cwd(), self.config)
        for rule in project.expired:
            notify(
                f"{project.table('ignore')}: the rule for {rule.slug} expired on {rule.until}; "
                "fix the finding or extend the date"
            )
        return project

    @cached_property
    def limits(self) -> Limits:
        """The thresholds in force."""
        return self.project.limits.override(parse_pairs(self.limit, "--limit"), by="--limit")

    @property
    def columns_by_role(self) -> dict[str, str]:
        """The column names by role."""
        return {**self.project.columns, **parse_pairs(self.columns, "--column")}

    @property
    def manifest_fields(self) -> dict[str, object]:
        """The manifest fields that the options set."""
        dtype = {} if self.dtype is None else {"dtype": self.dtype}
        return {**parse_pairs(self.settings, "--set"), **dtype}

    @property
    def run_arguments(self) -> dict[str, Any]:
        """The arguments of the Python API that apply to any number of runs."""
        return {
            "settings": self.manifest_fields,
            "limits": self.limits,
            "columns": self.columns_by_role,
            "format": self.log_format,
            "assume": self.project.manifest,
        }

    @property
    def log_arguments(self) -> dict[str, Any]:
        """The arguments of the Python API for one run."""
        return {**self.run_arguments, "manifest": self.manifest, "attempt": self.attempt}

    @property
    def baseline_paths(self) -> list[str]:
        """The baseline, from the options or the settings file."""
        if self.where and not (self.baseline or self.project.baseline):
            raise StabdiagError("--where selects baseline runs; name them with --baseline")
        return self.baseline or list(self.project.baseline)

    @property
    def baseline_arguments(self) -> dict[str, Any]:
        """The arguments of the Python API for the baseline."""
        paths = self.baseline_paths
        return {"baseline": paths, "where": self.where or ()} if paths else {}

    def scan_options(self, **changes: Any) -> ScanOptions:
        """Return the options for reading and diagnosing many logs."""
        from stabdiag.scan.work import ScanOptions

        return ScanOptions(**self.run_arguments, ignored=self.project.ignored, **changes).checked()

    def read_references(self) -> References | None:
        """Return the references, read once for all runs; None without a baseline."""
        paths = self.baseline_paths
        if not paths:
            return None
        from stabdiag.api.baselines import read_baseline
        from stabdiag.model.baseline import describe_unused

        references = read_baseline(paths, self.scan_options(), self.where or ())
        if not references.profiles:
            notify(f"no baseline to compare with: {describe_unused(references.left_out)}")
        return references

    def exit_severity(self, flag: FailOn | None) -> FailOn:
        """Return the lowest severity with exit code 1, from the flag or the settings."""
        severity = flag or FailOn(self.project.fail_on or FailOn.ERROR)
        if flag is None and severity is FailOn.NEVER:
            notify(f"{self.project.table()}: fail-on is never, so no finding fails this command")
        return severity


def parse_pairs(texts: list[str] | None, flag: str) -> dict[str, str]:
    """Return the values of a repeatable ``NAME=VALUE`` option by name."""
    return dict(parse_pair(text, flag) for text in texts or ())


def parse_pair(text: str, flag: str) -> tuple[str, str]:
    """Return the name and the value of a ``NAME=VALUE`` option.

    Raises:
        StabdiagError: if the text is not of this form.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or (flag == "--write" and not value):
        raise StabdiagError(f"{flag} takes {_OPTION_EXAMPLES[flag]}, not {text!r}")
    return name.strip(), value
