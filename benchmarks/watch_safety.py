"""Count the healthy jobs that a watch ends, and the failing jobs that it does not end.

python benchmarks/watch_safety.py               112 healthy jobs and 112 failing ones, 20 minutes
python benchmarks/watch_safety.py --seeds 1     28 healthy jobs and 56 failing ones

Each job writes its log in torn blocks, and the watch looks after each block. Healthy jobs restart,
rotate their logs, evaluate, swap links and print placeholders. Failing ones go wrong in the middle
of the same events. A job that fails must be ended before its log does.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.api.diagnosis import make_report
from stabdiag.assemble.inputs import Options, run_found
from stabdiag.model.findings import Severity
from stabdiag.model.limits import Limits
from stabdiag.sources import LoadedLog, ReadRequest
from stabdiag.watch import open_source
from stabdiag.watch.loop import StopConditions, watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stabdiag.model.report import Report

# A jump at a whole epoch of 100 steps may be the next stage of a curriculum.
STEPS = 430
BLOCKS = 12
NAN = float("nan")


@dataclass(kw_only=True)
class Job:
    """A simulated job: its random numbers, how it writes a record, and its log."""

    random: np.random.Generator
    line: Callable[[dict[str, float]], str]
    log: Path
    before: list[str] = field(default_factory=list)

    def losses(self, steps: int = STEPS) -> list[float]:
        """Return a falling loss with noise."""
        noise = self.random.normal(0, 0.03, steps)
        losses: list[float] = (2 + 3 * np.exp(-np.arange(steps) / (steps / 5)) + noise).tolist()
        return losses

    def lines(self, losses: Sequence[float], begin: int = 0) -> list[str]:
        """Return the lines of consecutive records."""
        return [
            self.line({"step": begin + at, "loss": loss, "lr": 0.001})
            for at, loss in enumerate(losses)
        ]


def as_json(record: dict[str, float]) -> str:
    """Return a JSON line."""
    return json.dumps(record) + "\n"


def as_text(record: dict[str, float]) -> str:
    """Return a line of names and values."""
    return f"step {record['step']} | loss: {record['loss']:.4f} | lr: {record['lr']}\n"


def as_trainer(record: dict[str, float]) -> str:
    """Return a line as the HF Trainer prints it."""
    epoch = round(record["step"] / 100, 2)
    return f"{{'loss': {record['loss']:.4f}, 'learning_rate': {record['lr']}, 'epoch': {epoch}}}\n"


def as_megatron(record: dict[str, float]) -> str:
    """Return a line of Megatron-LM."""
    loss = record["loss"]
    shown = "" if np.isnan(loss) else f"lm loss: {loss:.6E} | "
    norm = "nan" if np.isnan(loss) else "0.741"
    return (
        f" iteration {record['step']:8d}/     900 | learning rate: 1.000E-03 | {shown}"
        f"loss scale: 1.0 | grad norm: {norm} | number of skipped iterations:   0 |"
        " number of nan iterations:   0 |\n"
    )


FORMATS = {"json": as_json, "text": as_text, "trainer": as_trainer, "megatron": as_megatron}


def in_blocks(job: Job, lines: Sequence[str]) -> Iterator[None]:
    """Append lines to the log of a job, in blocks that end in mid-line."""
    data = "".join(lines).encode()
    count = min(BLOCKS, len(data) - 1)
    cuts = np.sort(job.random.choice(np.arange(1, len(data)), count, replace=False)).tolist()
    for begin, end in pairwise([0, *cuts, len(data)]):
        with job.log.open("ab") as file:
            file.write(data[begin:end])
        yield


def plain(job: Job, tail: Sequence[float]) -> Iterator[None]:
    """Write one attempt."""
    losses = job.losses()
    yield from in_blocks(job, job.lines([*losses, *tail]))


def resumed(job: Job, tail: Sequence[float]) -> Iterator[None]:
    """Resume twice from a checkpoint, with steps that are written again."""
    losses = job.losses()
    yield from in_blocks(job, job.lines(losses[:180]))
    yield from in_blocks(job, job.lines(losses[150:300], 150))
    yield from in_blocks(job, job.lines([*losses[280:], *tail], 280))


def after_failed_attempt(job: Job, tail: Sequence[float]) -> Iterator[None]:
    """Start again in a log whose last attempt went NaN before the watch began."""
    failed = [*job.losses()[:200], *[NAN] * 5]
    job.log.write_text("".join(job.lines(failed)), encoding="utf-8")
    yield
    yield from in_blocks(job, job.lines([*job.losses(), *tail]))


def rotated(job: Job, tail: Sequence[float]) -> Iterator[None]:
    """Move the log away and go on in a new file."""
    losses = job.losses()
    yield from in_blocks(job, job.lines(losses[:200]))
    job.log.rename(job.log.with_name("old.log"))
    yield from in_blocks(job, job.lines([*losses[200:], *tail], 200))


def linked(job: Job, tail: Sequence[float]) -> Iterator[None]:
    """Follow a link that is changed from a failed run to the next one."""
    first, second = job.log.with_name("a.log"), job.log.with_name("b.log")
    first.write_text("".join(job.lines([*job.losses()[:200], *[NAN] * 3])), encoding="utf-8")
    job.log.symlink_to(first)
    yield
    second.touch()
    job.log.unlink()
    job.log.symlink_to(second)
    yield from in_blocks(job, job.lines([*job.losses(), *tail]))


def with_messages(job: Job, tail: Sequence[float]) -> Iterator[None]:
    """Print sentences about NaN, settings, and messages between records."""
    lines = job.lines([*job.losses(), *tail])
    lines[50:50] = ["# if the loss is nan, lower the learning rate\n", "detect_nan: True\n"]
    lines[150:150] = ["Validation metric F1 is nan, skipping\n", "Saving model_inf.pt\n"]
    yield from in_blocks(job, lines)


def with_one_bad_value(job: Job, tail: Sequence[float]) -> Iterator[None]:
    """Print one NaN and one high loss that recover."""
    losses = job.losses()
    losses[120], losses[260] = NAN, 9.0
    yield from in_blocks(job, job.lines([*losses, *tail]))


SCENARIOS = {
    "one attempt": plain,
    "two resumes": resumed,
    "start after a failed attempt": after_failed_attempt,
    "rotation": rotated,
    "link to the next run": linked,
    "sentences about NaN": with_messages,
    "one NaN and one spike": with_one_bad_value,
}
TAILS: dict[str, Callable[[Job], list[float]]] = {
    "healthy": lambda job: (2 + job.random.normal(0, 0.03, 100)).tolist(),
    "goes NaN": lambda job: [NAN] * 100,
    "stays high": lambda job: (9 + job.random.normal(0, 0.03, 300)).tolist(),
}


def diagnose(log: LoadedLog) -> Report:
    """Diagnose a log without options."""
    history, manifest = run_found(log, None, Options())
    return make_report(history, manifest, Limits())


def is_ended(job: Job, blocks: Iterator[None]) -> bool:
    """Return True if a watch ends a job before its log ends."""
    with closing(open_source([str(job.log)], ReadRequest())) as source:
        polls = watch(source, diagnose, StopConditions(fail_on=Severity.ERROR), interval=0)
        last: object = None
        for _ in blocks:
            deadline = time.monotonic() + 2
            while time.monotonic() < deadline:
                seen = next(polls)
                if seen.certain is not None:
                    return True
                if seen.report is not last or seen.trouble is not None:
                    break
            last = seen.report
    return False


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4)
    arguments = parser.parse_args()
    ended: dict[str, Counter[str]] = {scenario: Counter() for scenario in SCENARIOS}
    jobs: dict[str, Counter[str]] = {scenario: Counter() for scenario in SCENARIOS}
    for seed in range(arguments.seeds):
        for scenario, write in SCENARIOS.items():
            for name, line in FORMATS.items():
                for tail, draw in TAILS.items():
                    # Failing jobs are half as many.
                    if tail != "healthy" and seed % 2:
                        continue
                    with tempfile.TemporaryDirectory() as folder:
                        random = np.random.default_rng([seed, len(scenario), len(name)])
                        job = Job(random=random, line=line, log=Path(folder, "run.log"))
                        jobs[scenario][tail] += 1
                        result = is_ended(job, write(job, draw(job)))
                        ended[scenario][tail] += result
                        if result != (tail != "healthy"):
                            print(f"wrong: {scenario}, {name}, {tail}, seed {seed}", flush=True)
    print("\nended / jobs                    " + "  ".join(f"{tail:>12}" for tail in TAILS))
    for scenario in SCENARIOS:
        cells = (f"{ended[scenario][tail]:>6} / {jobs[scenario][tail]:<3}" for tail in TAILS)
        print(f"{scenario:<32}" + "  ".join(f"{cell:>12}" for cell in cells))


if __name__ == "__main__":
    main()
