"""The commands that show what stabdiag knows: formats, thresholds, explanations."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from stabdiag.cli.options import Color, ConfigFile, LimitFlags, Output, limits_of
from stabdiag.cli.terminal import check_outputs, terminal, write

FORMATS = """
**Examples**

`stabdiag formats`

`stabdiag formats --format json`
"""

THRESHOLDS = """
**Examples**

`stabdiag thresholds`

`stabdiag thresholds --format toml > stabdiag.toml`

`stabdiag thresholds --limit spike.sigma=4`
"""

EXPLAIN = """
**Examples**

`stabdiag explain spike-lr-jump`

`stabdiag explain Q2.1`

`stabdiag explain spike.sigma`
"""


def formats(
    format: Annotated[
        str, typer.Option("--format", "-f", help="terminal, markdown or json.")
    ] = "terminal",
    output: Output = None,
    color: Color = None,
) -> None:
    """List the formats of logs that can be read, and how each is recognised."""
    from stabdiag.log_formats import formats_table

    shown = terminal(output, color)
    text = formats_table(format, width=shown.width, color=shown.color, encoding=shown.encoding)
    write(text, output)


def thresholds(
    limit: LimitFlags = None,
    config: ConfigFile = None,
    format: Annotated[
        str, typer.Option("--format", "-f", help="terminal, markdown, json or toml.")
    ] = "terminal",
    output: Output = None,
    color: Color = None,
) -> None:
    """Print the quick-reference table and every threshold in force."""
    from stabdiag.thresholds import thresholds as table

    check_outputs([output], [], config)
    shown = terminal(output, color)
    text = table(
        limits_of(limit, config),
        format,
        width=shown.width,
        color=shown.color,
        encoding=shown.encoding,
    )
    write(text, output)


def explain(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="An outcome, a question or a threshold.")
    ],
    limit: LimitFlags = None,
    config: ConfigFile = None,
    color: Color = None,
) -> None:
    """Say what an outcome, a question or a threshold means, and what to do."""
    from stabdiag.explain import explain as page
    from stabdiag.formats.terminal.markdown import markdown_page

    text = page(name, limits_of(limit, config))
    if sys.stdout.isatty() or color:
        shown = terminal(None, color)
        text = markdown_page(text, width=shown.width, color=shown.color, encoding=shown.encoding)
    write(text, None)
