"""What is written, and in which formats: one explicit table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Literal, TypeAlias

from stabdiag.errors import StabdiagError, did_you_mean, refuse_unknown

Kind: TypeAlias = Literal[
    "report", "postmortem", "comparison", "overview", "sheet", "limits", "logs"
]
"""What can be written; a sheet is a list to tick, logs are the formats that can be read."""


@dataclass(frozen=True, kw_only=True)
class Writer:
    """A function that writes one thing in one format, and the options that it takes.

    It is named, not imported: a format costs nothing until it is used. That of the terminal yields
    the lines of a page, and the options are those with which the page is printed.
    """

    module: str
    function: str = "render"
    options: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Format:
    """One format: its name, the suffixes of its files, and what can be written in it."""

    name: str
    writers: Mapping[Kind, Writer]
    suffixes: tuple[str, ...] = ()


_SCREEN = ("width", "color", "encoding", "verbose")

FORMATS: tuple[Format, ...] = (
    Format(
        name="terminal",
        suffixes=(".txt",),
        writers={
            "report": Writer(module="terminal", function="lines", options=_SCREEN),
            "comparison": Writer(module="compared.text", function="lines", options=_SCREEN),
            "overview": Writer(module="scans.overview_text", function="lines", options=_SCREEN),
            "sheet": Writer(module="lists", function="sheet_lines", options=_SCREEN),
            "limits": Writer(module="limits", function="lines", options=_SCREEN),
            "logs": Writer(module="lists", function="logs_lines", options=_SCREEN),
        },
    ),
    Format(
        name="json",
        suffixes=(".json",),
        writers={
            "report": Writer(module="json", options=("indent",)),
            "comparison": Writer(module="json", function="comparison"),
            "overview": Writer(module="scans.overview_data", function="json_of"),
            "sheet": Writer(module="lists", function="sheet_json"),
            "limits": Writer(module="limits", function="as_json"),
            "logs": Writer(module="lists", function="logs_json"),
        },
    ),
    Format(
        name="csv", writers={"overview": Writer(module="scans.overview_data", function="csv_of")}
    ),
    Format(
        name="toml",
        suffixes=(".toml",),
        writers={"limits": Writer(module="limits", function="toml")},
    ),
    Format(
        name="svg",
        suffixes=(".svg",),
        writers={"report": Writer(module="terminal", function="svg", options=("verbose",))},
    ),
    Format(
        name="lines",
        writers={"report": Writer(module="issues", function="lines", options=("limits", "color"))},
    ),
    Format(
        name="markdown",
        suffixes=(".md", ".markdown"),
        writers={
            "report": Writer(module="markdown", options=("command",)),
            "postmortem": Writer(
                module="postmortem.document", function="markdown", options=("detected",)
            ),
            "comparison": Writer(
                module="compared.text", function="markdown_of", options=("command",)
            ),
            "overview": Writer(
                module="scans.overview_text", function="markdown_of", options=("command",)
            ),
            "sheet": Writer(module="lists", function="sheet_markdown"),
            "limits": Writer(module="limits", function="markdown"),
            "logs": Writer(module="lists", function="logs_markdown"),
        },
    ),
    Format(
        name="github",
        writers={
            "report": Writer(module="issues", function="github"),
            "overview": Writer(module="scans.overview_text", function="github_of"),
        },
    ),
    Format(name="gitlab", writers={"report": Writer(module="issues", function="gitlab")}),
    Format(
        name="junit",
        suffixes=(".xml",),
        writers={
            "report": Writer(module="junit", options=("fail_on",)),
            "overview": Writer(
                module="scans.overview_data", function="junit_of", options=("fail_on",)
            ),
        },
    ),
    Format(name="sarif", suffixes=(".sarif",), writers={"report": Writer(module="sarif")}),
    Format(
        name="html",
        suffixes=(".html", ".htm"),
        writers={
            "report": Writer(module="html", options=("command",)),
            "comparison": Writer(module="html", function="compared", options=("command",)),
            "postmortem": Writer(
                module="postmortem.document", function="html", options=("detected",)
            ),
            "overview": Writer(
                module="scans.overview_page", function="html_of", options=("command",)
            ),
        },
    ),
)


def names(kind: Kind = "report") -> tuple[str, ...]:
    """Return the names of the formats in which something can be written."""
    return tuple(entry.name for entry in FORMATS if kind in entry.writers)


def suffixes(name: str) -> tuple[str, ...]:
    """Return the suffixes of the files in a format."""
    return next((one.suffixes for one in FORMATS if one.name == name), ())


def by_suffix(suffix: str) -> str | None:
    """Return the name of the format that files of a suffix have, if there is one."""
    return next((one.name for one in FORMATS if suffix.lower() in one.suffixes), None)


def writer(
    format: str, kind: Kind = "report"
) -> tuple[Callable[..., str | Iterable[str]], tuple[str, ...]]:
    """Load the function that writes something in a format; return it with its options.

    Raises:
        StabdiagError: if it cannot be written in this format.
    """
    refuse_unknown(format, names(kind))
    chosen = next(entry.writers[kind] for entry in FORMATS if entry.name == format)
    module = import_module(f"stabdiag.formats.{chosen.module}")
    write: Callable[..., Any] = getattr(module, chosen.function)
    if format == "terminal":
        from stabdiag.formats.terminal.page import printed

        return partial(printed, write), chosen.options
    return write, chosen.options


def pieces(
    subject: object, format: str, kind: Kind = "report", /, **options: object
) -> Iterable[str]:
    """Return a report, or something of another kind, as text in one format, piece by piece.

    The rows of a scan may be more than memory holds. Each writer gets the options that it takes, so
    a caller may pass ``width`` without asking whether the format is a page or a data structure.

    Raises:
        StabdiagError: for an unknown format, or an option that no format takes.
    """
    write, taken = writer(format, kind)
    known = {name for one in FORMATS for each in one.writers.values() for name in each.options}
    for option in options:
        if option not in known:
            raise StabdiagError(f"no format takes {option!r}{did_you_mean(option, known)}")
    written = write(subject, **{name: options[name] for name in taken if name in options})
    return [written] if isinstance(written, str) else written


def render(subject: object, format: str, kind: Kind = "report", /, **options: object) -> str:
    """Return a report, or something of another kind, as text in one format.

    Raises:
        StabdiagError: as ``pieces`` does.
    """
    return "".join(pieces(subject, format, kind, **options))
