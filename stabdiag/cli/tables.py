"""The commands that show what stabdiag knows: formats, thresholds, explanations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.terminal import check_outputs, terminal, write

if TYPE_CHECKING:
    from stabdiag.formats.lists import LogFormat

FORMATS = """
**Examples**

`stabdiag formats`

`stabdiag formats --format json`
"""

THRESHOLDS = """
**Examples**

`stabdiag thresholds`

`stabdiag thresholds -o limits.toml  # edit it, then: --config limits.toml`

`stabdiag thresholds --limit spike.sigma=4`
"""

EXPLAIN = """
**Examples**

`stabdiag explain  # list everything`

`stabdiag explain spike-lr-jump`

`stabdiag explain Q2.1`

`stabdiag explain spike.sigma`
"""


def formats(
    format: options.SheetFormat = None,
    output: options.Output = None,
    color: options.Color = None,
) -> None:
    """List the log formats that can be read, and how each is recognized."""
    from stabdiag.formats import names, render

    check_outputs([output], [], None)
    chosen = options.format_of(format, output, names("logs"))
    write(render(log_formats(), chosen, "logs", **terminal(output, color)), output)


def log_formats() -> tuple[LogFormat, ...]:
    """Return the formats of logs, in the order in which a log is tried against them."""
    from stabdiag.formats.lists import LogFormat
    from stabdiag.readers.registry import READERS

    return tuple(
        LogFormat(
            name=one.name,
            title=one.title,
            recognised=one.recognised,
            state="missing" if one.missing else "installed" if one.extra else "built in",
            extra=one.extra,
            loses=one.loses,
            example=one.example,
        )
        for one in READERS
    )


def thresholds(
    limit: options.LimitFlags = None,
    config: options.ConfigFile = None,
    format: Annotated[str | None, options.format_option("terminal, markdown, json or toml")] = None,
    output: options.Output = None,
    color: options.Color = None,
) -> None:
    """Print the quick-reference table and every threshold in force."""
    from stabdiag.formats import names, render

    check_outputs([output], [], config)
    chosen = options.format_of(format, output, names("limits"))
    limits = options.limits_of(limit, config)
    write(render(limits, chosen, "limits", **terminal(output, color)), output)


def explain(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="An outcome, a symptom, a finding of compare, a question or a threshold. "
            "Default: list them all.",
        ),
    ] = None,
    limit: options.LimitFlags = None,
    config: options.ConfigFile = None,
    format: Annotated[str | None, options.format_option("terminal or markdown")] = None,
    output: options.Output = None,
    color: options.Color = None,
) -> None:
    """Explain a finding, a question or a threshold, and what to do about it."""
    from stabdiag.explain import contents
    from stabdiag.explain import explain as page

    check_outputs([output], [], config)
    chosen = options.format_of(format, output, ("terminal", "markdown"))
    limits = options.limits_of(limit, config)
    text = contents(limits) if name is None else page(name, limits)
    if chosen == "terminal":
        from stabdiag.formats.terminal.prose import markdown_page

        text = markdown_page(text, **terminal(output, color))
    write(text, output)
