"""Compare stabdiag with the libraries it is built on, as whole processes, in one run.

python benchmarks/speed.py                      everything, some eight minutes on two cores
python benchmarks/speed.py --rows 100000        a shorter log
python benchmarks/speed.py --only csv small     some of the cases

Commands take turns (A B C A B C …), so that other work on the machine affects all of them
alike; a ratio compares medians. On a busy machine the ratio of CPU time is steadier. This process
imports nothing but the standard library: on Linux, a child never has a lower peak memory than its
parent.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
ROWS = 1_000_000
MEGABYTE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A reference for a case: a name, Python code that is given FILE, and the target.

    The target is how many times its time stabdiag may take; below 1, stabdiag is to be faster.
    """

    name: str
    code: str
    target: float | None = None


@dataclass(frozen=True, kw_only=True)
class Case:
    """One log and its references.

    With ``code``, stabdiag runs this code instead of its command. It prints its own seconds, and so
    do its references.
    """

    name: str
    log: str
    against: tuple[Reference, ...]
    code: str | None = None


@dataclass(frozen=True, kw_only=True)
class Run:
    """One process: seconds by the clock, seconds of all cores, peak memory in bytes."""

    wall: float
    cpu: float
    peak: int


ARROW_JSON = "import pyarrow.json; pyarrow.json.read_json({file!r})"
# The event files of TensorBoard and the runs of W&B have one row for every 20 of the others.
FEWER = 20

EVENTS = """
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator({file!r}, {{"scalars": 0}}).Reload()
for tag in events.Tags()["scalars"]: events.Scalars(tag)
"""
# W&B removed its reader in Python, DataStore, from the package. This code does the
# same, and also builds the history.
WANDB = """
import json, struct, zlib
from wandb.proto.wandb_internal_pb2 import Record
sums = [zlib.crc32(bytes([kind])) for kind in range(5)]
rows, parts, at = [], b"", 7
with open({file!r}, "rb") as file:
    file.read(7)
    while True:
        left = 32768 - at % 32768
        if left < 7:
            file.read(left)
            at += left
        head = file.read(7)
        if len(head) < 7: break
        sum, length, kind = struct.unpack("<IHB", head)
        data = file.read(length)
        assert zlib.crc32(data, sums[kind]) & 0xffffffff == sum
        at += 7 + length
        parts += data
        if kind in (1, 4):
            record = Record()
            record.ParseFromString(parts)
            parts = b""
            if record.WhichOneof("record_type") == "history":
                row = {{}}
                for item in record.history.item:
                    row[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
                rows.append(row)
"""
LARGE_BLOCKS = (
    "import pyarrow.json as json; "
    "json.read_json({file!r}, read_options=json.ReadOptions(block_size=8 << 20))"
)
# The time of a call in a process that has imported everything: the median of several.
INSIDE = """
import csv, time
import stabdiag

def floats(path):
    with open(path, newline="") as file:
        return [{{name: float(text) for name, text in row.items()}} for row in csv.DictReader(file)]

seconds = []
for _ in range(21):
    start = time.perf_counter()
    CALL({file!r})
    seconds.append(time.perf_counter() - start)
print(sorted(seconds)[10])
"""
PANDAS_JSON = "import pandas; pandas.read_json({file!r}, lines=True)"
BY_LINE = (
    "import re\n"
    "field = re.compile(r'([^:|]+): +([^ |]+) *[|]')\n"
    "for line in open({file!r}):\n"
    "    if ' iteration ' in line: [float(value) for _, value in field.findall(line)[2:]]"
)
TEXTS_BY_LINE = (
    "texts = [b'iteration ', b'Traceback', b'Killed', b'SIG', b'rror', b'ut of memory',"
    " b'atchdog', b'inimum', b'Loss is ', b'NaN in ', b'Segmentation', b'validation loss']\n"
    "for line in open({file!r}, 'rb'): [text for text in texts if text in line]"
)
DICTS_BY_LINE = (
    "import ast\nfor line in open({file!r}):\n    if line.startswith('{{'): ast.literal_eval(line)"
)
BARS_BY_LINE = (
    "import re\n"
    "field = re.compile(r'[|] (\\d+)/.* loss=([^],]+)')\n"
    "for line in open({file!r}): found = field.search(line); found and float(found[2])"
)
PATTERN = Reference(name="a regular expression, line by line", code=BY_LINE)
TEXTS = Reference(name="a dozen texts, line by line", code=TEXTS_BY_LINE)
CASES = (
    Case(
        name="jsonl",
        log="run.jsonl",
        against=(
            Reference(name="pyarrow.json.read_json", code=ARROW_JSON, target=1.5),
            Reference(name="pandas.read_json", code=PANDAS_JSON, target=0.2),
        ),
    ),
    Case(
        name="csv",
        log="run.csv",
        against=(
            Reference(
                name="pyarrow.csv.read_csv",
                code="import pyarrow.csv; pyarrow.csv.read_csv({file!r})",
                target=1.5,
            ),
            Reference(name="pandas.read_csv", code="import pandas; pandas.read_csv({file!r})"),
        ),
    ),
    Case(
        name="parquet",
        log="run.parquet",
        against=(
            Reference(
                name="pyarrow.parquet.read_table",
                code="import pyarrow.parquet; pyarrow.parquet.read_table({file!r})",
                target=1.5,
            ),
        ),
    ),
    Case(
        name="wide-csv",
        log="wide.csv",
        against=(
            Reference(
                name="pyarrow.csv.read_csv",
                code="import pyarrow.csv; pyarrow.csv.read_csv({file!r})",
                target=1.1,
            ),
        ),
    ),
    Case(
        name="wide-parquet",
        log="wide.parquet",
        against=(
            Reference(
                name="pyarrow.parquet.read_table",
                code="import pyarrow.parquet; pyarrow.parquet.read_table({file!r})",
                target=1.0,
            ),
        ),
    ),
    Case(
        name="wide-jsonl",
        log="wide.jsonl",
        against=(
            Reference(name="pyarrow.json.read_json", code=ARROW_JSON, target=1.2),
            Reference(name="pyarrow.json.read_json, blocks of 8 MB", code=LARGE_BLOCKS, target=1.3),
        ),
    ),
    Case(
        name="torn",
        log="torn.jsonl",
        against=(
            Reference(
                name="json.loads, line by line",
                code="import json\n"
                "for line in open({file!r}):\n"
                "    try: json.loads(line)\n"
                "    except ValueError: pass",
                target=1.0,
            ),
        ),
    ),
    Case(
        name="tensorboard",
        log="run.tfevents",
        against=(Reference(name="EventAccumulator", code=EVENTS, target=1.0),),
    ),
    Case(
        name="wandb",
        log="run.wandb",
        against=(Reference(name="W&B's records, one by one", code=WANDB, target=1.0),),
    ),
    Case(name="text", log="megatron.log", against=(replace(PATTERN, target=1.5),)),
    Case(
        name="trainer",
        log="trainer.log",
        against=(Reference(name="ast.literal_eval, line by line", code=DICTS_BY_LINE),),
    ),
    Case(name="bars", log="drawn.log", against=(replace(PATTERN, code=BARS_BY_LINE),)),
    Case(name="warnings", log="warnings.log", against=(replace(TEXTS, target=1.0),)),
    Case(name="words", log="words.log", against=(TEXTS,)),
    Case(name="new-names", log="names.log", against=(PATTERN,)),
    Case(name="no-log", log="list.log", against=(TEXTS,)),
    Case(name="one-line", log="bars.log", against=(TEXTS,)),
    Case(
        name="small",
        log="small.jsonl",
        against=(
            Reference(
                name="import of numpy, pyarrow.json, typer, rich.console",
                code="import numpy, pyarrow.json, typer, rich.console",
                target=1.2,
            ),
            Reference(name="import of pandas", code="import pandas"),
        ),
    ),
    Case(
        name="small-call",
        log="small.csv",
        code=INSIDE.replace("CALL", "stabdiag.diagnose"),
        against=(
            Reference(
                name="csv.DictReader and float",
                code=INSIDE.replace("CALL", "floats"),
                target=3.0,
            ),
        ),
    ),
)


# A log that is refused ends the command with this code.
REFUSED = 2


def run(command: list[str], *, prints_seconds: bool = False) -> Run:
    """Run a command and wait for it. It may print its own seconds, or refuse a log."""
    # Byte code is kept, as it is wherever a program is installed.
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    start = time.perf_counter()
    output = subprocess.PIPE if prints_seconds else subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, cwd=ROOT, env=env)
    text = process.stdout.read() if process.stdout is not None else b""
    _, status, usage = os.wait4(process.pid, 0)
    wall = float(text) if prints_seconds else time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, REFUSED):
        raise SystemExit(f"exit code {process.returncode}: {' '.join(command)}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Run(wall=wall, cpu=usage.ru_utime + usage.ru_stime, peak=usage.ru_maxrss * unit)


def measure(case: Case, folder: Path, runs: int) -> list[list[Run]]:
    """Run the commands of a case in turns: stabdiag first, then its references."""
    file = str(folder / case.log)
    python = [sys.executable, "-c"]
    commands = [[sys.executable, "-m", "stabdiag", "diagnose", file, "--fail-on", "never"]]
    if case.code is not None:
        commands = [[*python, case.code.format(file=file)]]
    commands += [[*python, reference.code.format(file=file)] for reference in case.against]
    for command in commands:  # once uncounted: the file and the libraries come from memory then
        run(command)
    prints_seconds = case.code is not None
    turns = [
        [run(command, prints_seconds=prints_seconds) for command in commands] for _ in range(runs)
    ]
    return [list(taken) for taken in zip(*turns, strict=True)]


_OWN_NAMES = {False: "stabdiag diagnose", True: "stabdiag.diagnose"}


def report(case: Case, folder: Path, taken: list[list[Run]]) -> list[tuple[str, ...]]:
    """Return the table rows of one case: stabdiag's, then the references'."""
    own_wall, *reference_walls = [median(run.wall for run in runs) for runs in taken]
    size = (folder / case.log).stat().st_size / MEGABYTE
    file = f"{size:.1f} MB" if size < 1 else f"{size:.0f} MB"
    rows: list[tuple[str, ...]] = [
        (case.name, file, _OWN_NAMES[case.code is not None], *_cost(taken[0]), "", "", "", "")
    ]
    own_cpu = median(run.cpu for run in taken[0])
    for reference, wall, runs in zip(case.against, reference_walls, taken[1:], strict=True):
        ratio = own_wall / wall
        target, verdict = "", ""
        if reference.target is not None:
            target = f"≤ {reference.target:g}"
            verdict = "met" if ratio <= reference.target else "MISSED"
        of_cpu = own_cpu / median(run.cpu for run in runs)
        # The CPU time of code that prints its own seconds includes the imports.
        ratios = (f"{ratio:.2f}", f"{of_cpu:.2f}" if case.code is None else "")
        rows.append(("", "", reference.name, *_cost(runs), *ratios, target, verdict))
    return rows


def _cost(runs: list[Run]) -> tuple[str, str, str, str]:
    walls = [run.wall for run in runs]
    cpu, peak = median(run.cpu for run in runs), median(run.peak for run in runs)
    return (
        f"{median(walls):.2f} s",
        f"{min(walls):.2f} to {max(walls):.2f}",
        f"{cpu:.2f} s",
        f"{peak / MEGABYTE:.0f} MB",
    )


HEAD = (
    "case",
    "file",
    "process",
    "time",
    "from, to",
    "CPU",
    "peak",
    "ratio",
    "of CPU",
    "target",
    "",
)


def print_table(rows: list[tuple[str, ...]]) -> None:
    """Print rows as a Markdown table that can be read as it is."""
    widths = [max(len(cell) for cell in column) for column in zip(HEAD, *rows, strict=True)]
    ruler = tuple("-" * width for width in widths)
    for row in (HEAD, ruler, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(f"| {' | '.join(cells)} |")


def machine() -> str:
    """Describe the machine and the versions."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    names = ("stabdiag", "numpy", "pyarrow", "pandas", "typer", "rich")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in names)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{cores} cores, {platform.system()} {platform.machine()}, {python}, {versions}"


def logs(folder: Path, rows: int) -> Path:
    """Return the folder of the logs; write them if they are not there."""
    here = folder / f"{rows}-rows"
    if not (here / "manifest.json").exists():  # the last that is written
        print(f"writing logs of {rows:,} rows to {here}", file=sys.stderr)
        for script, count in (("stores.py", rows // FEWER), ("logs.py", rows)):
            command = [sys.executable, str(Path(__file__).with_name(script)), str(here)]
            subprocess.run([*command, "--rows", str(count)], check=True)
    return here


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS, help="lines of the long logs")
    parser.add_argument("--runs", type=int, default=5, help="how often each process is measured")
    names = [case.name for case in CASES]
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="these cases")
    parser.add_argument("--folder", type=Path, default=ROOT / ".bench", help="where logs are kept")
    arguments = parser.parse_args()
    folder = logs(arguments.folder.resolve(), arguments.rows)
    rows: list[tuple[str, ...]] = []
    for case in CASES:
        if case.name in arguments.only:
            print(f"measuring {case.name}", file=sys.stderr)
            rows += report(case, folder, measure(case, folder, arguments.runs))
    print(f"{machine()}; {arguments.rows:,} rows of 11 fields, median of {arguments.runs}\n")
    print_table(rows)


if __name__ == "__main__":
    main()
