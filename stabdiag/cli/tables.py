"""The commands that show what stabdiag knows: formats, thresholds, explanations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stabdiag.cli import complete, options
from stabdiag.formats import names, render

if TYPE_CHECKING:
    from stabdiag.formats.lists import LogFormat

FORMATS = """
stabdiag formats
stabdiag formats --format json
"""

THRESHOLDS = """
stabdiag thresholds
stabdiag thresholds -o limits.toml  # edit it, then: --config limits.toml
stabdiag thresholds --limit spike.sigma=4
"""

EXPLAIN = """
stabdiag explain  # list everything
stabdiag explain spike-lr-jump
stabdiag explain loss spike  # what fits these words
stabdiag explain Q2.1
stabdiag explain spike.sigma
"""


@options.bundled
def formats(out: options.Sheet) -> None:
    """List the log formats that can be read, and how each is recognized."""
    chosen = out.chosen(options.Held(), [])
    out.write(render(log_formats(), chosen, "logs", **out.screen))


def log_formats() -> tuple[LogFormat, ...]:
    """Return the formats of logs, in the order in which a log is tried against them."""
    from stabdiag.formats.lists import LogFormat
    from stabdiag.readers.registry import READERS

    return tuple(
        LogFormat(
            name=one.name,
            title=one.title,
            state="missing" if one.missing else "installed" if one.extra else "built in",
            extra=one.extra,
            install=f"pip install 'stabdiag[{one.extra}]'" if one.missing else None,
            recognised=one.recognised,
            loses=one.loses,
            example=one.example,
        )
        for one in READERS
    )


class Thresholds(options.Data):
    """The options about the table of thresholds."""

    known = names("limits")


@options.bundled
def thresholds(how: options.Held, out: Thresholds) -> None:
    """Print the quick-reference table and every threshold in force."""
    chosen = out.chosen(how, [])
    out.write(render(how.limits, chosen, "limits", **out.screen))


@options.bundled
def explain(
    how: options.Held,
    out: options.Output,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            autocompletion=complete.explained,
            help="An outcome, a symptom, a finding of compare, a question or a threshold; or words "
            "to search for. Default: list them all.",
        ),
    ] = None,
) -> None:
    """Explain a finding, a question or a threshold, or search for what fits some words."""
    from stabdiag.explain import contents
    from stabdiag.explain import explain as page

    chosen = out.chosen(how, [])
    text = page(" ".join(words), how.limits) if words else contents(how.limits)
    if chosen == "terminal":
        from stabdiag.formats.terminal.page import markdown_page

        text = markdown_page(text, **out.screen)
    out.write(text)
