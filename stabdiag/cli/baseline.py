"""``stabdiag baseline``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.terminal import Exit, notify, progress, report_error
from stabdiag.errors import StabdiagError
from stabdiag.model.baseline import describe_unused
from stabdiag.model.text import and_more, plural

# Number of run names in the last line.
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
    run_options: options.RunOptions,
    where: Annotated[
        list[str] | None,
        options.option(
            "--where CONDITION",
            "Keep only runs that meet a condition, such as `outcome=healthy`. Repeatable.",
        ),
    ] = None,
) -> Exit:
    """Save good runs as a small baseline file that later runs can be compared with."""
    from stabdiag.api.baselines import read_baseline

    if output == Path("-"):
        raise StabdiagError("a baseline is not text: write a file, such as -o base.parquet")
    options.check_outputs([output], paths, run_options.config)
    with progress(paths):
        references = read_baseline(paths, run_options.scan_options(), where or ())
    if references.left_out:
        notify(f"left out: {describe_unused(references.left_out)}")
    if not references.profiles:
        return report_error(f"{and_more(paths)}: no run to keep")
    references.save(output)
    size = output.stat().st_size / 1000
    names = and_more(references.names, _SHOWN)
    notify(f"wrote {output}, {size:.0f} kB: {plural(len(references), 'run')} ({names})")
    return Exit.OK
