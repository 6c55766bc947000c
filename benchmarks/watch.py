"""Measure `stabdiag watch`: its delay, and what it costs.

The delay runs from the deciding line to the end of the process; the cost is measured for a growing
log and for a quiet log.

python benchmarks/watch.py                      some six minutes
python benchmarks/watch.py --rows 10000 --quiet 10

A process appends lines at a rate, as a run would; the watch is a process of its own, and /proc, on
Linux, reports its CPU time. The deciding line is found beforehand: it is the first line with a
certain error under the rule of stabdiag.watch.certain.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from logs import MANIFEST, json_lines, megatron_lines, table
from watch_replay import truncate

from stabdiag.api import diagnose
from stabdiag.assemble import build_history
from stabdiag.model.findings import Severity
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import parse_manifest
from stabdiag.readers import read_stream
from stabdiag.readers.source import open_stream
from stabdiag.watch.certain import certain

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

RATE = 1000
FAULTS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "nan": lambda loss, since: np.where(since == 0, np.nan, loss),
    "jump": lambda loss, since: np.where(since >= 0, 1.6 * loss, loss),
    "climb": lambda loss, since: np.where(since >= 0, loss * (1 + since / 1000), loss),
}
FORMATS = {"jsonl": json_lines, "megatron": megatron_lines}
AFTER = 3000


@dataclass(frozen=True, kw_only=True)
class Measured:
    """From the deciding line to the end of the watch, and before it.

    ``delay`` is in seconds, ``spent`` in CPU seconds, which other work on the machine does not
    lengthen; ``share`` is the CPU fraction that the watch took while the log grew, and
    ``behind`` how many lines the deciding one is behind the fault.
    """

    delay: float
    spent: float
    share: float
    behind: int


def broken(rows: int, fault: str) -> pa.Table:
    """Return a run that is healthy for ``rows`` steps and then goes wrong."""
    data = table(rows + AFTER)
    since = np.arange(rows + AFTER, dtype=np.float64) - rows
    at = data.column_names.index("loss")
    loss = FAULTS[fault](np.asarray(data["loss"], dtype=np.float64), since)
    return data.set_column(at, "loss", pa.array(loss))


def deciding(log: Path, rows: int) -> int:
    """Return the number of the first line after which a finding is certain."""
    with open_stream(log) as stream:
        columns = read_stream(stream)
    low, high = rows, rows + AFTER
    while low < high:
        middle = (low + high) // 2
        history = build_history(truncate(columns, middle), Limits())
        report = diagnose(history, manifest=parse_manifest(MANIFEST))
        if certain(report, Severity.ERROR) is None:
            low = middle + 1
        else:
            high = middle
    return low


def write(log: Path, lines: list[str], decides: int, watch: int) -> tuple[float, float]:
    """Append lines at a rate; return the time and the processor time used at the deciding line."""
    begun, at_decision = time.monotonic(), (0.0, 0.0)
    with log.open("a", encoding="utf-8") as file:
        for number, line in enumerate(lines):
            time.sleep(max(0.0, begun + number / RATE - time.monotonic()))
            file.write(line)
            file.flush()
            if number == decides:
                at_decision = time.monotonic(), used_by(watch)
    return at_decision


def used_by(process: int) -> float:
    """Return the seconds of processor time that a process has used, as Linux reports them."""
    try:
        fields = (
            Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        )
    except OSError:
        return math.nan
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(folder: Path, format: str, rows: int, fault: str) -> Measured:
    """Watch one run that goes wrong after ``rows`` lines."""
    text = "".join(FORMATS[format](broken(rows, fault)))
    lines = text.splitlines(keepends=True)
    log = folder / f"{fault}.{format}"
    log.write_text(text, encoding="utf-8")
    decides = deciding(log, rows)
    begin = rows - 3 * RATE
    log.write_text("".join(lines[:begin]), encoding="utf-8")
    others = _of_children()
    with _watching(log) as watch:
        started, before = time.monotonic(), used_by(watch.pid)
        writer = os.fork()
        if writer == 0:
            at_decision = write(log, lines[begin:], decides - 1 - begin, watch.pid)
            (folder / "then.json").write_text(json.dumps(at_decision), encoding="utf-8")
            os._exit(0)
        watch.communicate()
        ended = time.monotonic()
        total = _of_children() - others  # of the watch alone: the writer is still to be waited for
        os.waitpid(writer, 0)
    written, used = json.loads((folder / "then.json").read_text(encoding="utf-8"))
    share = (used - before) / (written - started)
    return Measured(delay=ended - written, spent=total - used, share=share, behind=decides - rows)


def _of_children() -> float:
    """Return the seconds of processor time of all child processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _watching(log: Path) -> subprocess.Popen[str]:
    """Start a watch, and wait until it has given its first verdict."""
    command = [sys.executable, "-m", "stabdiag", "watch", str(log)]
    pipe = subprocess.PIPE
    watch = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    if watch.stderr is not None:
        watch.stderr.readline()
    return watch


def quiet(log: Path, seconds: int) -> float:
    """Return the processor time that a number of quiet seconds takes."""
    with _watching(log) as watch:
        time.sleep(2)
        before = used_by(watch.pid)
        time.sleep(seconds)
        used = used_by(watch.pid) - before
        watch.terminate()
        watch.communicate()
    return used


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quiet", type=int, default=60)
    parser.add_argument("--only", nargs="+", choices=FORMATS, default=list(FORMATS))
    arguments = parser.parse_args()
    print(f"{arguments.rows} lines are there, {RATE} more come each second\n")
    print("format     fault   lines to decide   delay (s), of a processor     share while growing")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for format in arguments.only:
            for fault in FAULTS:
                runs = [
                    measure(folder, format, arguments.rows, fault) for _ in range(arguments.runs)
                ]
                delays = " ".join(f"{run.delay:.2f}, {run.spent:.2f};" for run in runs)
                share = np.median([run.share for run in runs])
                row = f"{format:<10} {fault:<7} {runs[0].behind:>15}   {delays:<32} {share:.0%}"
                print(row, flush=True)
        log = folder / "quiet.jsonl"
        log.write_text("".join(json_lines(table(arguments.rows))), encoding="utf-8")
        spent = quiet(log, arguments.quiet)
        print(f"\nquiet for {arguments.quiet} s: {spent:.3f} s of processor time")


if __name__ == "__main__":
    main()
