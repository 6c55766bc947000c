"""Train runs again by other settings, each of them once: the ends are kept in a ledger."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from settings import Settings, Switch

Plan = tuple[Settings, Switch | None]


class Ledger:
    """The evaluation losses that runs ended with, by a digest of what they were trained by."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ends: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}

    def end(self, plan: Plan) -> float | None:
        """Return the loss that a run ended with (NaN if it broke), None if it was not trained."""
        return self.ends.get(digest(plan))

    def know(self, plan: Plan, end: float) -> None:
        """Take down the end of a run that is known anyhow."""
        self.ends.setdefault(digest(plan), end)

    def train(self, plans: Iterable[Plan], jobs: int) -> None:
        """Train what has not been trained, and write the ledger down from time to time."""
        missing = list({digest(plan): plan for plan in plans if self.end(plan) is None}.values())
        print(f"{len(missing)} runs to train", flush=True)
        with ProcessPoolExecutor(jobs, initializer=single_thread) as pool:
            for count, (plan, end) in enumerate(
                zip(missing, pool.map(planned_end, missing), strict=True), start=1
            ):
                self.ends[digest(plan)] = end
                if count % 10 == 0 or count == len(missing):
                    lines = ",\n".join(
                        f"{json.dumps(key)}: {json.dumps(end)}"
                        for key, end in sorted(self.ends.items())
                    )
                    self.path.write_text(f"{{\n{lines}\n}}\n")
                    print(f"{count} of {len(missing)} trained", flush=True)


def digest(plan: Plan) -> str:
    """Return the key of a plan; equal settings have equal keys."""
    return hashlib.sha256(repr(plan).encode()).hexdigest()[:16]


def single_thread() -> None:
    """Let each process train on one core."""
    import torch

    torch.set_num_threads(1)


def planned_end(plan: Plan) -> float:
    """Train a run, and return the evaluation loss that it ends with to six digits."""
    from trainer import train

    return float(f"{train(*plan).eval_loss:.6g}")
