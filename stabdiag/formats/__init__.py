"""The output formats: one table of the functions that write them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from inspect import signature
from typing import Any, Final, Literal, TypeAlias

from stabdiag.errors import StabdiagError, did_you_mean, refuse_unknown

Kind: TypeAlias = Literal[
    "report", "postmortem", "comparison", "overview", "checks", "limits", "rules", "logs"
]
"""The kinds of output; logs are the formats that can be read."""


FORMATS: Final[Mapping[str, Mapping[Kind, str]]] = {
    "terminal": {
        "report": "terminal:lines",
        "comparison": "compared.text:lines",
        "overview": "scans.overview_text:lines",
        "checks": "lists:check_lines",
        "limits": "limits:lines",
        "rules": "limits:literal_lines",
        "logs": "lists:logs_lines",
    },
    "json": {
        "report": "json_report:render",
        "postmortem": "postmortem.document:as_json",
        "comparison": "json:comparison",
        "overview": "scans.overview_data:to_json",
        "checks": "lists:check_json",
        "limits": "limits:as_json",
        "rules": "limits:literal_json",
        "logs": "lists:logs_json",
    },
    "svg": {"report": "terminal:svg"},
    "lines": {"report": "issues:lines"},
    "markdown": {
        "report": "markdown:render",
        "postmortem": "postmortem.document:markdown",
        "overview": "scans.overview_text:to_markdown",
        "checks": "lists:check_markdown",
        "limits": "limits:markdown",
        "rules": "limits:literal_markdown",
        "logs": "lists:logs_markdown",
    },
    "github": {"report": "issues:github"},
    "gitlab": {"report": "issues:gitlab"},
    "junit": {"report": "junit:render"},
    "sarif": {"report": "sarif:render"},
    "html": {
        "report": "html:render",
        "comparison": "html:compared",
        "postmortem": "postmortem.document:html",
        "overview": "scans.overview_page:to_html",
    },
}
"""The functions that write each format, by its name; their keyword arguments are its options.

They are named, not imported, so an unused format costs nothing. Functions for the terminal yield
the lines of a page.
"""

SUFFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "terminal": (".txt",),
    "json": (".json",),
    "svg": (".svg",),
    "markdown": (".md", ".markdown"),
    "junit": (".xml",),
    "sarif": (".sarif",),
    "html": (".html", ".htm"),
}
"""The file suffixes of each format."""

OPTIONS: Final = (
    *("width", "color", "encoding", "verbose"),  # of a page at a terminal
    *("indent", "limits", "command", "detected", "fail_on"),
)
"""All options that any format accepts."""


def names(kind: Kind = "report") -> tuple[str, ...]:
    """Return the names of the formats for a kind of output."""
    return tuple(name for name, writers in FORMATS.items() if kind in writers)


def suffixes(name: str) -> tuple[str, ...]:
    """Return the file suffixes of a format."""
    return SUFFIXES.get(name, ())


def by_suffix(suffix: str) -> str | None:
    """Return the name of the format with a file suffix, if there is one."""
    return next((name for name, suffixes in SUFFIXES.items() if suffix.lower() in suffixes), None)


def load_writer(format: str, kind: Kind) -> Callable[..., Any]:
    """Import the function that writes a kind of output in a format."""
    module, _, function = FORMATS[format][kind].partition(":")
    write: Callable[..., Any] = getattr(import_module(f"stabdiag.formats.{module}"), function)
    return write


def writer(
    format: str, kind: Kind = "report"
) -> tuple[Callable[..., str | Iterable[str]], tuple[str, ...]]:
    """Return the function that writes a kind of output in a format, and its options.

    Raises:
        StabdiagError: if the format does not support this kind of output.
    """
    refuse_unknown(format, names(kind))
    write = load_writer(format, kind)
    if format == "terminal":
        from stabdiag.formats.terminal.page import printed

        write = partial(printed, write)
    parameters = signature(write).parameters.values()
    return write, tuple(
        parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY
    )


def pieces(
    subject: object, format: str, kind: Kind = "report", /, **options: object
) -> Iterable[str]:
    """Return a report, or another kind of output, as text in one format, piece by piece.

    The rows of a scan may exceed memory. Each writer gets only the options that it accepts: a
    caller may pass ``width`` even if the format has none.

    Raises:
        StabdiagError: if the format is unknown, or no format accepts an option.
    """
    write, accepted = writer(format, kind)
    for option in options:
        if option not in OPTIONS:
            raise StabdiagError(f"no format accepts {option!r}{did_you_mean(option, OPTIONS)}")
    written = write(subject, **{name: options[name] for name in accepted if name in options})
    return [written] if isinstance(written, str) else written


def render(subject: object, format: str, kind: Kind = "report", /, **options: object) -> str:
    """Return a report, or another kind of output, as text in one format.

    Raises:
        StabdiagError: if the format is unknown, or no format accepts an option.
    """
    return "".join(pieces(subject, format, kind, **options))
