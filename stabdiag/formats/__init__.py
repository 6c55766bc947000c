"""Report → str, one module a format, listed in one explicit table."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from stabdiag.errors import StabdiagError, did_you_mean, refuse_unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stabdiag.model.report import Report


@dataclass(frozen=True, kw_only=True)
class Format:
    """One format: the module whose ``render`` writes it, and the options that it takes.

    The module is named, not imported: a format costs nothing until it is asked for.
    """

    name: str
    module: str
    options: tuple[str, ...] = ()


FORMATS: tuple[Format, ...] = (
    Format(
        name="terminal",
        module="stabdiag.formats.terminal",
        options=("width", "color", "verbose", "encoding"),
    ),
    Format(name="json", module="stabdiag.formats.json", options=("indent",)),
    Format(name="svg", module="stabdiag.formats.svg", options=("verbose",)),
    Format(name="lines", module="stabdiag.formats.lines", options=("limits",)),
    Format(name="markdown", module="stabdiag.formats.markdown", options=("command",)),
    Format(name="github", module="stabdiag.formats.github"),
    Format(name="gitlab", module="stabdiag.formats.gitlab"),
    Format(name="junit", module="stabdiag.formats.junit", options=("fail_on",)),
    Format(name="sarif", module="stabdiag.formats.sarif"),
    Format(name="html", module="stabdiag.formats.html", options=("command",)),
)


def names(among: tuple[Format, ...] = FORMATS) -> tuple[str, ...]:
    """Return the names of formats: those of a report, or of another table."""
    return tuple(entry.name for entry in among)


def named(format: str, among: tuple[Format, ...] = FORMATS) -> Format:
    """Return the format of a name; ``among`` is the table, that of a report by default.

    Raises:
        StabdiagError: if there is none.
    """
    refuse_unknown(format, names(among))
    return next(entry for entry in among if entry.name == format)


def render(report: Report, format: str, **options: object) -> str:
    """Return the report as text in one format.

    Each format is handed the options that it takes, so that a caller may pass ``width`` without
    asking first whether the format is a page or a data structure.

    Raises:
        StabdiagError: for an unknown format, or an option that no format takes.
    """
    chosen = named(format)
    known = {option for entry in FORMATS for option in entry.options}
    for option in options:
        if option not in known:
            raise StabdiagError(f"no format takes {option!r}{did_you_mean(option, known)}")
    return written(report, chosen, options)


def written(subject: object, chosen: Format, options: Mapping[str, object]) -> str:
    """Return a report, or a comparison, in a format, which is handed the options that it takes."""
    write: Callable[..., str] = import_module(chosen.module).render
    return write(subject, **{name: options[name] for name in chosen.options if name in options})
