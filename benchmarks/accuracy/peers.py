"""Run the tools that people can install, and the literal tree, on the runs of the corpus.

python benchmarks/accuracy/peers.py [--data FOLDER] [--without TOOL ...]

Creates an environment in ``.peers/``, runs each tool on every run there, and writes the results to
``peers.json`` next to the labels. Takes about ten minutes on two cores, most of them for one tool.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import corpus
import pyarrow as pa
from corpus import Run
from scoring import score_one
from side_by_side import LITERAL, save, tree_verdict

HERE = Path(__file__).parent
PINNED = HERE / "peers.txt"
ENVIRONMENT = HERE.parent.parent / ".peers"
BIN = ENVIRONMENT / "venv" / "bin"
PROCESSES = os.cpu_count() or 1
# Start the slowest tool first; the others run in parallel.
TOOLS = ("training-doctor", "trainspotter", "runwise", "trainpulse", "runmedic", "losslint")
COLUMNS = ("step", "loss", "grad_norm", "lr")  # what one of them reads; none reads more


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Ask the other tools about the corpus.")
    parser.add_argument("--data", type=Path, default=corpus.folder_of("tenth"), help="folder")
    parser.add_argument("--without", nargs="*", default=(), help="tools that are not asked")
    options = parser.parse_args()
    data, tools_asked = options.data, [tool for tool in TOOLS if tool not in options.without]
    make_environment()
    runs = list(corpus.load(data))
    logs = ENVIRONMENT / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    for run, table in runs:
        part = table.select([name for name in COLUMNS if name in table.column_names])
        rows = [
            {
                name: value if name == "step" else float(f"{value:.6g}")
                for name, value in row.items()
                if value is not None
            }
            for row in part.to_pylist()
        ]
        write_log(logs / f"{run.run_id}.csv", part.column_names, rows)
    # The longest logs first, dealt out in turn.
    paths = sorted(logs.glob("*.csv"), key=lambda log: (-log.stat().st_size, log.name))
    jobs = [(tool, part) for tool in tools_asked for part in range(PROCESSES)]
    with ThreadPoolExecutor(PROCESSES) as pool:
        answers = list(pool.map(lambda job: query_tool(job[0], paths[job[1] :: PROCESSES]), jobs))
    answers_by_tool: dict[str, dict[str, Any]] = {tool: {} for tool in sorted(tools_asked)}
    for (tool, _), answer in zip(jobs, answers, strict=True):
        answers_by_tool[tool] |= answer
    versions = dict(line.split("==") for line in lines_of(PINNED))
    tools = {
        tool: {"version": versions[tool], "runs": {run.run_id: its[run.run_id] for run, _ in runs}}
        for tool, its in answers_by_tool.items()
    }
    save(data, {LITERAL: {"version": "", "runs": literal(runs)}, **tools})
    print(f"wrote {data / 'peers.json'}")


def make_environment() -> None:
    """Install the tools, unless they are there already."""
    stamp = ENVIRONMENT / ".made"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == PINNED.read_text(encoding="utf-8"):
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", ENVIRONMENT / "venv"], check=True)
    quiet = ("--disable-pip-version-check", "--no-input", "--quiet")
    install = (BIN / "python", "-m", "pip", *quiet, "install", "--no-deps", "-r", PINNED)
    subprocess.run(install, check=True)
    shutil.copyfile(PINNED, stamp)


def write_log(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, float]]) -> None:
    """Write one log as CSV and as JSON lines: missing is left out, NaN is NaN."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
    lines = [json.dumps({**row, "step": int(row["step"])}) for row in rows]
    path.with_suffix(".jsonl").write_text("\n".join(lines), encoding="utf-8")


def query_tool(tool: str, logs: Sequence[Path]) -> dict[str, Any]:
    """Run one tool on some logs, in one process, and return its answers."""
    with NamedTemporaryFile(suffix=".json") as out:
        subprocess.run(
            (BIN / "python", HERE / "peer_worker.py", tool, out.name),
            input="\n".join(map(str, logs)),
            text=True,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        answer = json.load(out)
    answers: dict[str, Any] = answer["runs"]
    failed = sum(isinstance(answer, str) for answer in answers.values())
    print(
        f"{tool:16} {answer['seconds']:6.0f} s  {failed} of {len(answers)} logs failed", flush=True
    )
    return answers


def literal(runs: Iterable[tuple[Run, pa.Table]]) -> dict[str, Any]:
    """The verdicts of the decision tree in literal mode."""
    return {run.run_id: tree_verdict(score_one(run, table, literal=True)) for run, table in runs}


def lines_of(path: Path) -> list[str]:
    """The lines of a file that are not comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


if __name__ == "__main__":
    main()
