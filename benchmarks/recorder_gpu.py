"""Measure the cost of the recorder on a GPU, and whether it waits for it; a few minutes.

python benchmarks/recorder_gpu.py               a CNN and a transformer of 100 million weights
python benchmarks/recorder_gpu.py --small       small models, on a CPU without a GPU

For each model, compiled and not: a step with and without the recorder, in blocks in turn, and 100
steps that treat a synchronization as an error.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import torch
from recorder_cost import Transformer, convolutional, loss_of
from torch import nn

from stabdiag.torch import Recorder, cost

# A run of hours is measured, not the first second that the budget leaves out.
cost._FREE_SECONDS = 0.0

PAIRS, BLOCK, CHECKED = 8, 20, 100


def model_of(task: str, *, small: bool) -> nn.Module:
    """Return the model of a task."""
    if task == "cnn":
        return convolutional()
    return Transformer(64, 2) if small else Transformer(768, 12, tokens=16_384)


def batch_of(task: str, device: str, *, small: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a batch that is on the device already."""
    size = 4 if small else 16
    if task == "transformer":
        x = torch.randint(0, 1024, (size, 513 if not small else 65), device=device)
        return x[:, :-1], x[:, 1:]
    side = 32 if small else 128
    images = torch.randn(size, 3, side, side, device=device)
    return images, torch.randint(0, 10, (size,), device=device)


def block(run: Run, steps: int, *, strict: bool = False) -> float:
    """Train a block of steps; return the seconds."""
    device, recorder = run.device, run.recorder
    batches = [batch_of(run.task, device, small=run.small) for _ in range(4)]
    _wait(device)
    start = time.perf_counter()
    if strict and device == "cuda":
        torch.cuda.set_sync_debug_mode("error")
    try:
        for step in range(steps):
            x, y = batches[step % len(batches)]
            on_gpu = torch.autocast("cuda", torch.bfloat16) if device == "cuda" else nullcontext()
            with on_gpu:
                loss = loss_of(run.model, x, y)
            run.optimizer.zero_grad()
            loss.backward()
            run.optimizer.step()
            if recorder is not None:
                recorder.see_batch((x, y))
                recorder.step(loss)
    finally:
        if device == "cuda":
            torch.cuda.set_sync_debug_mode("default")
    _wait(device)
    return time.perf_counter() - start


class Run:
    """A model with its optimizer, and a recorder or none."""

    def __init__(self, task: str, model: nn.Module, device: str, *, compiled: bool, small: bool,
                 path: Path | None) -> None:  # fmt: skip
        self.task, self.device, self.small = task, device, small
        self.optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=device == "cuda")
        self.model = torch.compile(model) if compiled else model
        self.recorder = None if path is None else Recorder(self.model, self.optimizer, path)


def measure(task: str, device: str, *, compiled: bool, small: bool) -> str:
    """Return a row of the table."""
    torch.manual_seed(0)
    model = model_of(task, small=small).to(device)
    with tempfile.TemporaryDirectory() as folder:
        plain, recorded = (
            Run(task, copy.deepcopy(model), device, compiled=compiled, small=small, path=path)
            for path in (None, Path(folder, "run.jsonl"))
        )
        for run in (plain, recorded):
            block(run, 2 * BLOCK)
        pairs = [(block(plain, BLOCK), block(recorded, BLOCK)) for _ in range(PAIRS)]
        block(recorded, CHECKED, strict=True)
        recorder = recorded.recorder
        assert recorder is not None
        recorder.close()
        lines = Path(folder, "run.jsonl").read_text(encoding="utf-8").splitlines()
    waits = "yes" if any("recorder_error" in line for line in lines) else "no"
    step = statistics.median(without for without, _ in pairs) / BLOCK
    overhead = statistics.median(with_it / without for without, with_it in pairs) - 1
    mode = "compiled" if compiled else "eager"
    return (
        f"| {task}, {mode} | {1e3 * step:.2f} ms | {overhead:.1%} | {recorder.cadence} | {waits} |"
    )


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    """Measure each model, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="small models, on a CPU if need be")
    parser.add_argument("--eager", action="store_true", help="nothing is compiled")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not options.small:
        parser.error("no GPU found; --small runs on a CPU")
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"{name}, PyTorch {torch.__version__}")
    print("| model | step | overhead | cadence | waits |")
    print("| --- | ---: | ---: | ---: | --- |")
    for task in ("cnn", "transformer"):
        for compiled in (False,) if options.eager else (False, True):
            print(measure(task, device, compiled=compiled, small=options.small), flush=True)


if __name__ == "__main__":
    main()
