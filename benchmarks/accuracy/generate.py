"""Train the corpus: python benchmarks/accuracy/generate.py [--first N] [--last N] [--out FOLDER].

Each family is a run without a fault and its forks; the runs of a family are kept in the working
folder, so that an interrupted generation resumes where it stopped. Needs PyTorch.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "fixtures"))

import corpus  # noqa: E402
import torch  # noqa: E402
from design import Family, draw_family, draw_recurring  # noqa: E402
from labels import label  # noqa: E402
from training.family import Made, make_family  # noqa: E402


def trained_family(index: int, seed: int, work: Path, *, recurring: bool) -> list[Made]:
    """The logs of a family, trained now or kept from before."""
    kept = work / f"{seed}-{index:04}.pickle"
    if kept.exists():
        result: list[Made] = pickle.loads(kept.read_bytes())
        result = [
            replace(made_run, label=label(made_run.seen, made_run.faults)) for made_run in result
        ]
        return result if result[0].label.expect == "healthy" else result[:1]
    family: Family = (draw_recurring if recurring else draw_family)(index, seed)
    start = time.perf_counter()
    made = make_family(family)
    kept.write_bytes(pickle.dumps(made))
    names = ", ".join(made_run.label.expect or f"({made_run.label.why})" for made_run in made)
    seconds = time.perf_counter() - start
    print(f"{index:4} {family.split:4} {family.kind:10} {seconds:5.1f} s  {names}", flush=True)
    return made


def report(runs: list[corpus.Run], dropped: Counter[str]) -> None:
    """Print how many runs of each label there are."""
    counts = Counter((run.expect, run.split) for run in runs)
    splits = sorted({run.split for run in runs})
    for slug in sorted({run.expect for run in runs}):
        of_each = "  ".join(f"{split} {counts[slug, split]:4}" for split in splits)
        print(f"{slug:36} {of_each}")
    print(f"{len(runs)} runs; dropped {sum(dropped.values())}")


def main() -> None:
    """Train, label and pack."""
    parser = argparse.ArgumentParser(description="Train the labeled corpus.")
    parser.add_argument("--first", type=int, default=0, help="number of the first family")
    parser.add_argument("--last", type=int, default=475, help="number after the last family")
    parser.add_argument("--seed", type=int, default=2026, help="seed of the design")
    parser.add_argument("--work", type=Path, default=HERE / ".work", help="where families are kept")
    parser.add_argument("--out", type=Path, default=corpus.DATA, help="where the corpus goes")
    parser.add_argument("--split", help="the split of all runs, instead of dev and held")
    parser.add_argument("--recurring", action="store_true", help="runs with recurring spikes")
    parser.add_argument("--no-pack", action="store_true", help="train only")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(mode=True)
    options.work.mkdir(parents=True, exist_ok=True)
    runs: list[corpus.Run] = []
    tables: list[Any] = []
    dropped: Counter[str] = Counter()
    for index in range(options.first, options.last):
        for made in trained_family(index, options.seed, options.work, recurring=options.recurring):
            if made.label.expect:
                run = made.run()
                runs.append(replace(run, split=options.split or run.split))
                tables.append(corpus.to_table(made.run_id, made.log))
            else:
                dropped[made.label.why] += 1
    if not options.no_pack:
        corpus.save(runs, tables, options.out)
    report(runs, dropped)


if __name__ == "__main__":
    main()
