"""Write the logs that are measured: one run, the same numbers in each format.

The run is drawn, with a seed: a loss that falls by a power law, with autocorrelated noise of heavy
tails, and the usual columns next to it. Numbers have all their digits, as ``json.dumps`` writes
them; a shorter log would be faster to read for every tool.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

if TYPE_CHECKING:
    from collections.abc import Iterable

SEED = 20240229
SMALL_ROWS = 1_000
CHUNK = 50_000
# A wide log has a column for each layer, and as many that serve no role; as JSON a quarter of it.
WIDE_ROWS = 20_000
WIDE_COLUMNS = 1_995
MEGATRON = (
    " [2026-01-05 10:00:00] iteration %8d/ 1000000 | consumed samples: %12d |"
    " elapsed time per iteration (ms): %.1f | learning rate: %.6E | global batch size:  1024 |"
    " lm loss: %.6E | loss scale: 1.0 | grad norm: %.3f | number of skipped iterations:   0 |"
    " number of nan iterations:   0 |\n"
)
WARNING = "node-%d: UserWarning: 1Torch was not compiled with flash attention (at %d).\n"
# Texts with different words on each line or in each log, and texts that are not logs.
OWN_RECORD = "step %d | loss %.4f | lr 3.00e-04 | 120000.0 tok/s\n"
WORDS_PER_LINE, RECORDS_APART, NEW_NAMES = 16, 10, 6_000
# What the HF Trainer prints below each redraw of its bar, and a bar that shows the loss itself.
TRAINER = "{'loss': %.4f, 'grad_norm': %r, 'learning_rate': 0.0003, 'epoch': %.2f}\n"
DRAWN = "\r%3d%%|%-10s| %d/50000 [00:01<00:09,  8.20it/s%s]"
BAR = "10%|██        | 1/10 [00:01<00:02,  1.20it/s]\r"
MEGABYTE = 1_000_000
MANIFEST = {"dtype": "bf16", "optimizer": "adamw", "grad_clip": 1.0, "checkpoint_every": 1000}


def table(rows: int) -> pa.Table:
    """Return a healthy run with this number of rows."""
    random = np.random.default_rng(SEED)
    step = np.arange(rows)
    progress = step / rows
    warmup = np.minimum(1.0, (step + 1) / max(1, rows // 100))
    lr = 3e-4 * warmup * (0.55 + 0.45 * np.cos(np.pi * progress))
    shocks = random.standard_t(6, rows)
    noise = np.convolve(shocks, 0.6 ** np.arange(12))[:rows]
    curve = 2.1 + 8.7 * (1 + step) ** -0.31
    loss = curve * (1 + 0.012 * noise)
    columns = {
        "step": step,
        "epoch": step * (3.0 / rows),
        "loss": loss,
        "grad_norm": (0.35 + 0.5 * curve / 10) * np.exp(0.22 * random.standard_normal(rows)),
        "learning_rate": lr,
        "batch_id": random.permutation(rows),
        "tokens_per_second": 182_000 + 2_600 * random.standard_normal(rows),
        "step_time": 0.36 * np.exp(0.03 * random.standard_normal(rows)),
        "weight_norm/embedding": 41 + 9 * np.sqrt(progress) + 0.01 * shocks,
        "weight_norm/blocks": 233 + 71 * np.sqrt(progress) + 0.05 * shocks,
        "weight_norm/head": 17 + 4 * np.sqrt(progress) + 0.01 * shocks,
    }
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def wide_table(rows: int) -> pa.Table:
    """Return a run with this number of rows, with layer norms and other columns."""
    random = np.random.default_rng(SEED)
    data = table(rows).select(["step", "loss", "grad_norm", "learning_rate"])
    for number in range(WIDE_COLUMNS):
        name = f"grad_norm/layers.{number}" if number % 2 else f"debug/activation_{number}"
        data = data.append_column(name, pa.array(random.lognormal(0, 0.2, rows).round(6)))
    return data


def json_lines(data: pa.Table) -> Iterable[str]:
    """Yield the rows as ``json.dumps`` writes them, a chunk at a time."""
    keys = [json.dumps(name) for name in data.column_names]
    line = "{" + ", ".join(f"{key}: %r" for key in keys) + "}\n"
    for batch in data.to_batches(max_chunksize=CHUNK):
        columns = (column.to_pylist() for column in batch.columns)
        yield "".join(line % row for row in zip(*columns, strict=True))


def megatron_lines(data: pa.Table) -> Iterable[str]:
    """Yield the rows as Megatron-LM prints them, a chunk at a time."""
    names = ("step", "step", "step_time", "learning_rate", "loss", "grad_norm")
    for batch in data.select(list(dict.fromkeys(names))).to_batches(max_chunksize=CHUNK):
        columns = (batch.column(name).to_pylist() for name in names)
        yield "".join(MEGATRON % row for row in zip(*columns, strict=True))


def words(random: np.random.Generator, count: int) -> list[str]:
    """Return words of five random letters each."""
    letters = random.choice(list("abcdefghijklmnopqrstuvwxyz"), (count, 5))
    return ["".join(word) for word in letters.tolist()]


def write_odd_lines(folder: Path, losses: list[float]) -> None:
    """Write lines of other words, a new name on each line, a line of bars and a list."""
    random = np.random.default_rng(SEED)
    with (folder / "words.log").open("w", encoding="utf-8") as log:
        for row, loss in enumerate(losses):
            log.write(" ".join(words(random, WORDS_PER_LINE)) + "\n")
            if row % RECORDS_APART == 0:
                log.write(OWN_RECORD % (row, loss))
    named = zip(losses, words(random, NEW_NAMES), strict=False)
    with (folder / "names.log").open("w", encoding="utf-8") as log:
        log.writelines(f"step {n} loss {loss} {name} 0.5\n" for n, (loss, name) in enumerate(named))
    (folder / "bars.log").write_text(BAR * (MEGABYTE // len(BAR)), encoding="utf-8", newline="")
    (folder / "list.log").write_text("- **note**: a text\n" * (4 * len(losses)), encoding="utf-8")


def write_drawn_bars(folder: Path, losses: list[float]) -> None:
    """Write the records of a trainer between redraws of its bar, and a bar with the losses."""
    with (
        (folder / "trainer.log").open("w", encoding="utf-8", newline="") as trainer,
        (folder / "drawn.log").open("w", encoding="utf-8", newline="") as drawn,
    ):
        for row, loss in enumerate(losses):
            percent = 100 * row // len(losses)
            bar = "█" * (percent // 10) + "▏▎▍▌▋"[percent % 5]
            trainer.write(DRAWN % (percent, bar, row, "") + "\n")
            trainer.write(TRAINER % (loss, loss / 7, row / len(losses)))
            drawn.write(DRAWN % (percent, bar, row, f", loss={loss:.4f}"))


def write(folder: Path, rows: int) -> None:
    """Write all logs into a folder."""
    data = table(rows)
    with (folder / "run.jsonl").open("w", encoding="utf-8") as log_file:
        log_file.writelines(json_lines(data))
    with (
        (folder / "run.jsonl").open(encoding="utf-8") as lines,
        (folder / "torn.jsonl").open("w", encoding="utf-8") as torn,
    ):
        write_torn(lines, torn, rows)
    csv.write_csv(data, folder / "run.csv", csv.WriteOptions(quoting_style="needed"))
    parquet.write_table(data, folder / "run.parquet")
    wide = wide_table(min(rows, WIDE_ROWS))
    csv.write_csv(wide, folder / "wide.csv", csv.WriteOptions(quoting_style="needed"))
    parquet.write_table(wide, folder / "wide.parquet")
    with (folder / "wide.jsonl").open("w", encoding="utf-8") as log:
        log.writelines(json_lines(wide.slice(0, WIDE_ROWS // 4)))
    with (folder / "small.jsonl").open("w", encoding="utf-8") as small:
        small.writelines(json_lines(table(SMALL_ROWS)))
    csv.write_csv(table(SMALL_ROWS), folder / "small.csv")
    with (folder / "megatron.log").open("w", encoding="utf-8") as log:
        log.writelines(megatron_lines(data))
    with (folder / "warnings.log").open("w", encoding="utf-8") as log:
        log.writelines(megatron_lines(data.slice(0, SMALL_ROWS)))
        log.writelines(WARNING % (row % 64, row) for row in range(4 * rows))
    losses = data.column("loss").slice(0, CHUNK).to_numpy().tolist()
    write_odd_lines(folder, losses)
    write_drawn_bars(folder, losses)
    (folder / "manifest.json").write_text(json.dumps(MANIFEST), encoding="utf-8")


def write_torn(lines: Iterable[str], torn: TextIO, rows: int) -> None:
    """Write the log again as loggers do it on a bad day: a string among numbers, half a line."""
    for row, line in enumerate(lines):
        if row == rows // 2:
            before, _, after = line.partition('"grad_norm": ')
            torn.write(f'{before}"grad_norm": "NaN",{after.partition(",")[2]}')
        elif row == rows - 1:
            torn.write(line[: len(line) // 2])
        else:
            torn.write(line)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    write(arguments.folder, arguments.rows)


if __name__ == "__main__":
    main()
