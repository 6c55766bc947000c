"""``stabdiag baseline``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stabdiag.cli import options
from stabdiag.cli.output_options import check_outputs
from stabdiag.cli.run_options import RunOptions
from stabdiag.cli.terminal import Exit, notify, progress, report_error, write_text
from stabdiag.errors import StabdiagError
from stabdiag.model.baseline import describe_unused
from stabdiag.model.text import and_more, plural

# Number of run names in the last line.
_MAX_NAMED_RUNS = 5


def baseline(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="Good runs of one task: logs, folders, patterns, URLs, or the store of a scan.",
        ),
    ],
    output: options.OutputFileOption,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            help="Keep only runs that meet a condition, such as `outcome=healthy`. Repeatable.",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the names of the runs as JSON.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing unless there is an error.")
    ] = False,
    dtype: options.DtypeOption = None,
    settings: options.SetOption = None,
    columns: options.ColumnOption = None,
    log_format: options.LogFormatOption = None,
    limit: options.LimitOption = None,
    config: options.ConfigOption = None,
) -> Exit:
    """Save good runs as a small baseline file that later runs can be compared with."""
    from stabdiag.api.baselines import read_baseline

    run_options = RunOptions(
        limit=limit,
        config=config,
        columns=columns,
        log_format=log_format,
        dtype=dtype,
        settings=settings,
    )
    if output == Path("-"):
        raise StabdiagError("a baseline is not text: write a file, such as -o base.parquet")
    check_outputs([output], paths, config)
    with progress(paths):
        references = read_baseline(paths, run_options.scan_options(), where or ())
    if references.left_out and not (quiet or json):
        notify(f"left out: {describe_unused(references.left_out)}")
    if not references.profiles:
        return report_error(f"{and_more(paths)}: no run to keep")
    references.save(output)
    if json:
        from stabdiag.formats.json import Json, dumps, keys, plain

        content: Json = {
            "file": plain(str(output)),
            "runs": plain(tuple(references.names)),
            "left_out": [keys("name reason step", item) for item in references.left_out],
        }
        write_text(dumps(content), None)
    elif not quiet:
        size = output.stat().st_size / 1000
        names = and_more(references.names, _MAX_NAMED_RUNS)
        notify(f"wrote {output}, {size:.0f} kB: {plural(len(references), 'run')} ({names})")
    return Exit.OK
