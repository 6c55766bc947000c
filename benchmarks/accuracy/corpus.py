"""The packed corpus: all logs in one Parquet file, all labels and manifests in one JSON file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from logged import COLUMNS, Log

HERE = Path(__file__).parent
DATA = HERE / "data"
EXACT = {"batch_id": pa.int32()}


@dataclass(frozen=True)
class Run:
    """One labeled log."""

    run_id: str
    split: str
    task: str
    setting: dict[str, Any]
    faults: list[dict[str, Any]]
    expect: str
    section: str
    also_ok: list[str]
    also: list[str]
    onset: int | None
    recovered: bool | None
    size: float
    manifest: dict[str, Any]


def to_table(run_id: str, log: Log) -> pa.Table:
    """One run's rows; values that were not logged are null, NaN is NaN."""
    columns: dict[str, Any] = {
        "run_id": pa.array([run_id] * len(log.step)).dictionary_encode(),
        "step": pa.array(log.step.astype(np.int32)),
    }
    for name in COLUMNS:
        kind = EXACT.get(name, pa.float32())
        if name not in log.values:
            columns[name] = pa.nulls(len(log.step), kind)
            continue
        missing = ~log.present[name]
        values = np.where(missing, 0, log.values[name]).astype(kind.to_pandas_dtype())
        columns[name] = pa.array(values, type=kind, mask=missing)
    return pa.table(columns)


def save(runs: list[Run], tables: list[pa.Table], folder: Path) -> None:
    """Write both files."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.concat_tables(tables).unify_dictionaries()
    floats = [name for name in COLUMNS if name not in EXACT]
    pq.write_table(
        table,
        folder / "logs.parquet",
        compression="zstd",
        compression_level=15,
        use_dictionary=["run_id", "loss_scale"],  # type: ignore[arg-type]  # a list is fine
        column_encoding={name: "BYTE_STREAM_SPLIT" for name in floats if name != "loss_scale"}
        | {"step": "DELTA_BINARY_PACKED", "batch_id": "DELTA_BINARY_PACKED"},
        row_group_size=200_000,
    )
    lines = ",\n".join(json.dumps(asdict(run), ensure_ascii=False) for run in runs)
    (folder / "labels.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def check_split(folder: Path, split: str) -> None:
    """End the program with one line if no label names this split."""
    labels = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
    splits = sorted({entry["split"] for entry in labels})
    if split not in (*splits, "all"):
        sys.exit(f"no run of {folder} is in split {split!r}; there are {', '.join(splits)} and all")


def folder_of(split: str) -> Path:
    """The folder of a split of this corpus; dev and held share one."""
    own = DATA / split
    return own if own.is_dir() else DATA


def load(folder: Path = DATA) -> Iterator[tuple[Run, pa.Table]]:
    """Each run's label and log, without the columns that it did not log."""
    table = pq.read_table(folder / "logs.parquet")
    names = table["run_id"].to_numpy()
    starts = np.concatenate([[0], np.flatnonzero(names[1:] != names[:-1]) + 1, [len(names)]])
    at = {names[start]: (start, end) for start, end in pairwise(starts)}
    for entry in json.loads((folder / "labels.json").read_text(encoding="utf-8")):
        run = Run(**entry)
        start, end = at[run.run_id]
        part = table.slice(start, end - start).drop_columns(["run_id"])
        empty = [name for name in part.column_names if part[name].null_count == len(part)]
        yield run, part.drop_columns(empty)
