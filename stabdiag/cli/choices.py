"""The choices of options, listed by ``--help``."""

from __future__ import annotations

from enum import StrEnum


class FailOn(StrEnum):
    """The lowest severity with exit code 1.

    ``unknown`` is ``error``, plus exit code 2 if too little was logged to tell.
    """

    ERROR = "error"
    WARNING = "warning"
    NEVER = "never"
    UNKNOWN = "unknown"


class FailOnCheck(StrEnum):
    """The checks that cause exit code 1."""

    FAILED = "failed"
    NEVER = "never"


class JsonDetail(StrEnum):
    """How much of a report its JSON contains."""

    BRIEF = "brief"
    FULL = "full"


class ReportFormat(StrEnum):
    """The formats of a report."""

    TERMINAL = "terminal"
    JSON = "json"
    SVG = "svg"
    LINES = "lines"
    MARKDOWN = "markdown"
    GITHUB = "github"
    GITLAB = "gitlab"
    JUNIT = "junit"
    SARIF = "sarif"
    HTML = "html"


class OverviewFormat(StrEnum):
    """The formats of the overview of a scan."""

    TERMINAL = "terminal"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"


class CheckFormat(StrEnum):
    """The formats of a check: lines, or the overview of a scan."""

    LINES = "lines"
    TERMINAL = "terminal"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"


class ComparisonFormat(StrEnum):
    """The formats of a comparison."""

    TERMINAL = "terminal"
    JSON = "json"
    HTML = "html"


class PostmortemFormat(StrEnum):
    """The formats of a post-mortem."""

    MARKDOWN = "markdown"
    HTML = "html"
    JSON = "json"


class TextFormat(StrEnum):
    """The formats of checklists, lists and explanations."""

    TERMINAL = "terminal"
    JSON = "json"
    MARKDOWN = "markdown"


class DataFormat(StrEnum):
    """The formats of commands that write a file or show settings."""

    TERMINAL = "terminal"
    JSON = "json"
