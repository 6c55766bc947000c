"""``stabdiag baseline``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.terminal import Exit, complain, progress, tell
from stabdiag.errors import StabdiagError
from stabdiag.model.text import and_more, plural

# Names of runs that the last line shows.
_SHOWN = 5


@options.bundled
def baseline(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="Good runs of one task: logs, folders, patterns, URLs, or the store of a scan.",
        ),
    ],
    output: Annotated[Path, options.option("--output -o FILE", "The Parquet file to write.")],
    how: options.Runs,
    where: Annotated[
        list[str] | None,
        options.option(
            "--where CONDITION",
            "Keep only runs that meet a condition, such as `outcome=healthy`. Repeatable.",
        ),
    ] = None,
) -> Exit:
    """Keep good runs as a baseline of a few kilobytes, to compare later runs with."""
    from stabdiag.api.baselines import read_baseline

    if output == Path("-"):
        raise StabdiagError("a baseline is not text: write a file, such as -o base.parquet")
    options.check_outputs([output], paths, how.config)
    with progress(paths):
        found = read_baseline(paths, how.asked(), where or ())
    for reference in found.left_out:
        tell(f"left out: {reference.in_words}")
    if not found.profiles:
        return complain(f"{and_more(paths)}: no run to keep")
    found.save(output)
    size = output.stat().st_size / 1000
    names = and_more(found.names, _SHOWN)
    tell(f"wrote {output}, {size:.0f} kB: {plural(len(found), 'run')} ({names})")
    return Exit.OK
