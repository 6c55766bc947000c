"""Give every reader damaged logs, and see that each is read or refused.

python benchmarks/fuzz.py --target megatron --minutes 10    one format
python benchmarks/fuzz.py --target all --minutes 10         all of them, one after the other
python benchmarks/fuzz.py --list                            what there is

A target is the name of a format; ``recognize``, every recognizer on every input;
``recognize-NAME``, the recognizer of one format, sometimes on a head of 4 MB; ``packed``,
compressed files; ``wrapped``, lines within JSON; ``archive``, archives of logs. The samples of the
tests are cut, flipped, spliced, repeated, and filled with texts that readers react to.

A finding is any exception other than the one for unreadable logs, any warning, more time or memory
than the limits allow, columns that do not fit together, a message that is not one line, and a
record before the damage that was not read. The inputs that led to findings are kept;
the exit code is 1 if there were any.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fuzz_targets import Lost, Target, is_one_line, targets

from stabdiag.errors import LogError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

# The limits for one input: seconds of a core, and bytes of addresses of the whole process.
SECONDS: Final = 3.0
MEMORY: Final = 6 << 30


@dataclass(kw_only=True)
class Outcome:
    """The results of one target: an entry of the record."""

    target: str
    seed: int
    minutes: float = 0.0
    core_seconds: float = 0.0
    inputs: int = 0
    read: int = 0
    refused: int = 0
    slowest_seconds: float = 0.0
    peak_megabytes: int = 0  # of the process so far
    findings: dict[str, int] = field(default_factory=dict)


class TooLong(BaseException):
    """An input took more than its time; no ``except Exception`` may catch it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise ``TooLong`` after some seconds of CPU time, also within regular expressions."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooLong(f"more than {seconds:g} seconds of a core")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def fuzz(name: str, *, minutes: float, seed: int, keep: Path) -> Outcome:
    """Try damaged inputs on a target for some minutes."""
    outcome = Outcome(target=name, seed=seed)
    chance = random.Random(f"{name} {seed}")
    target = targets()[name]()
    for sample in target.samples:  # imports do not count as cost of an input
        with suppress(Exception):
            target.attempt(sample, chance)
    start, worked = time.monotonic(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        while time.monotonic() - start < 60 * minutes:
            data = target.damage(target.samples, chance)
            outcome.inputs += 1
            before = time.process_time()
            _attempt(target, data, chance, outcome, keep)
            taken = time.process_time() - before
            outcome.slowest_seconds = round(max(outcome.slowest_seconds, taken), 3)
    outcome.minutes = round((time.monotonic() - start) / 60, 2)
    outcome.core_seconds = round(time.process_time() - worked, 1)
    outcome.peak_megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return outcome


def _attempt(
    target: Target, data: bytes, chance: random.Random, outcome: Outcome, keep: Path
) -> None:
    try:
        with time_limit(SECONDS):
            target.attempt(data, chance)
        outcome.read += 1
    except LogError as refusal:
        outcome.refused += 1
        if not is_one_line(str(refusal)):
            _keep(refusal, data, outcome, keep)
    except (Exception, TooLong) as error:  # noqa: BLE001 - to find them is what this is for
        _keep(error, data, outcome, keep)


def _keep(error: BaseException, data: bytes, outcome: Outcome, keep: Path) -> None:
    """Count a finding by the place it comes from, and keep the first input that led to it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "stabdiag" in frame.filename] or list(frames)
    place = f"{type(error).__name__} in {Path(own[-1].filename).name}:{own[-1].lineno}"
    outcome.findings[place] = outcome.findings.get(place, 0) + 1
    if outcome.findings[place] == 1:
        keep.mkdir(parents=True, exist_ok=True)
        path = keep / f"{outcome.target}-{outcome.seed}-{len(outcome.findings)}"
        path.write_bytes(error.data if isinstance(error, Lost) else data)
        print(f"{outcome.target}: {place}: {str(error)[:300]!r}; input kept in {path}", flush=True)


def record(outcome: Outcome, path: Path) -> None:
    """Add an outcome to the JSON list in a file."""
    outcomes = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    path.write_text(json.dumps([*outcomes, asdict(outcome)], indent=1) + "\n", encoding="utf-8")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", action="append", help="a name, or all; may be given again")
    parser.add_argument("--minutes", type=float, default=1.0, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, help="append the outcomes to this JSON file")
    parser.add_argument("--keep", type=Path, default=Path(".fuzz"))
    parser.add_argument("--list", action="store_true", help="print the targets")
    arguments = parser.parse_args()
    names = list(targets())
    if arguments.list:
        print("\n".join(names))
        return 0
    chosen = arguments.target or ["all"]
    if unknown := set(chosen) - {*names, "all"}:
        parser.error(f"unknown target {min(unknown)!r}; --list names them")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    has_findings = False
    for name in names if "all" in chosen else chosen:
        outcome = fuzz(name, minutes=arguments.minutes, seed=arguments.seed, keep=arguments.keep)
        has_findings = has_findings or bool(outcome.findings)
        print(json.dumps(asdict(outcome)), flush=True)
        if arguments.record:
            record(outcome, arguments.record)
    return int(has_findings)


if __name__ == "__main__":
    sys.exit(main())
