"""The peak memory of the overview of a scan, on a store of made rows.

    python benchmarks/scan_memory.py [--rows 200000] [--settings 17] [--format terminal]

Run it once a format: a process's peak never falls again.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from pyarrow import parquet

from stabdiag.cli.terminal import write_text
from stabdiag.formats import pieces
from stabdiag.model.scan import Row
from stabdiag.scan.overview import make_overview
from stabdiag.scan.rows import (
    METADATA,
    ROWS_VERSION,
    StoredRows,
    give_back_memory,
    row_table,
    write_rows,
)
from stabdiag.scan.worker import import_arrow_without_pandas

PART = 5_000  # rows in a part of the store
OUTCOMES = (
    ("healthy", "ok", None),
    ("spike-persistent", "error", "reload-checkpoint"),
    ("divergence-lr-rising", "error", "lower-lr"),
    ("spike-recovered", "warning", "skip-batches"),
)
SHARES = (0.7, 0.1, 0.05, 0.15)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--settings", type=int, default=17, help="settings of each run")
    parser.add_argument("--format", default="terminal", help="format of the overview, or parquet")
    options = parser.parse_args()
    # As the command does before it reads.
    import_arrow_without_pandas()
    give_back_memory()
    with tempfile.TemporaryDirectory() as folder:
        # Another process makes the rows, so that their objects do not count.
        maker = get_context("spawn").Process(
            target=make_store, args=(folder, options.rows, options.settings)
        )
        maker.start()
        maker.join()
        parts = sorted(Path(folder).glob("*.parquet"))
        which = [np.arange(parquet.read_metadata(part).num_rows) for part in parts]
        overview = make_overview(StoredRows(parts=parts, which=which), places=("/runs",))
        if options.format == "parquet":
            write_rows(overview.rows, Path(folder, "out.parquet"))
        else:
            text = pieces(overview, options.format, "overview", command="stabdiag scan /runs")
            write_text(text, Path(folder, "out.txt"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{options.rows} rows, {options.settings} settings, {options.format}: {peak:.0f} MB")


def make_store(folder: str, rows: int, settings: int) -> None:
    """Write the parts of a store."""
    rng = np.random.default_rng(3)
    for begin in range(0, rows, PART):
        made = row_table(made_rows(rng, begin, min(begin + PART, rows), settings))
        made = made.replace_schema_metadata({METADATA: json.dumps({"version": ROWS_VERSION})})
        parquet.write_table(made, Path(folder, f"{begin:09d}.parquet"), compression="zstd")


def made_rows(rng: np.random.Generator, begin: int, end: int, settings: int) -> Iterator[Row]:
    """Yield rows such as real logs of some hundred losses give."""
    for number in range(begin, end):
        outcome, severity, kind = OUTCOMES[rng.choice(len(OUTCOMES), p=SHARES)]
        path = f"/runs/study_{number % 7}/trial_{number:07d}/metrics.csv"
        failed = severity in {"error", "warning"}
        step = int(rng.integers(10, 36_000)) if failed else None
        yield Row(
            path=path,
            run=path[6:],
            outcome=outcome,
            severity=severity,
            format="csv",
            section="§2" if failed else None,
            step=step,
            headline=f"The loss rose by {rng.uniform():.3g}" if failed else "No instability found",
            action_kind=kind,
            action=f"Reload the checkpoint before step {step}." if failed else "",
            errors=int(severity == "error"),
            warnings=int(severity == "warning"),
            losses=500,
            first_step=0,
            last_step=36_000,
            loss_first=float(rng.normal(4)),
            loss_best=float(rng.normal(1)),
            loss_last=float(rng.normal(1.2)),
            curve=tuple(rng.normal(1, 0.1, 32).round(6).tolist()),
            peak_lr=float(10 ** rng.uniform(-4, -2)),
            settings=dict(made_settings(rng, settings)),
            size=20_000,
            modified=1.7e9 + number,
            version="1",
            limits="made",
            seconds=0.01,
            key=path,
        )


def made_settings(rng: np.random.Generator, count: int) -> Iterator[tuple[str, str]]:
    """Yield settings; a third of them differs in each run."""
    for number in range(count):
        own = number % 3 == 0
        yield f"model.x{number}", f"{rng.uniform():.9f}" if own else str(rng.integers(3))


if __name__ == "__main__":
    main()
