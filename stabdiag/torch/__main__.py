"""``python -m stabdiag.torch probe run.nan.pt --factory train:make``, and ``sanity``."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from stabdiag.torch.isolated import unwrap
from stabdiag.torch.probe import ProbeResult, probe
from stabdiag.torch.sanity import sanity


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if the step is finite, 1 if not, 2 for a mistake in the command."""
    parser = argparse.ArgumentParser(prog="python -m stabdiag.torch")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("probe", help="find what made a recorded step non-finite")
    command.add_argument("file", type=Path, help="the file that the recorder wrote: run.nan.pt")
    command.add_argument(
        "--factory",
        required=True,
        metavar="MODULE:FUNCTION",
        help="a function that returns the model, the loss function and, if you like, the optimizer",
    )
    command.add_argument(
        "--weights",
        type=Path,
        help="a checkpoint: the model's state dict, unless the file has the weights",
    )
    command = commands.add_parser("sanity", help="check a model before the run")
    command.add_argument(
        "--factory",
        required=True,
        metavar="MODULE:FUNCTION",
        help="a function that returns the model, the loss function, a batch and the optimizer",
    )
    command.add_argument("--output", type=Path, default=Path("sanity.json"), metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        made = _factory(options.factory)()
        if options.command == "sanity":
            return 0 if sanity(*made, path=options.output).ok else 1
        recorded = torch.load(options.file, weights_only=False)
    except (OSError, ImportError, AttributeError, ValueError) as error:
        sys.stderr.write(f"stabdiag.torch: {error}\n")
        return 2
    model, loss_fn, *optimizer = made
    if options.weights is not None:
        state = torch.load(options.weights, map_location="cpu", weights_only=True)
        model.load_state_dict(state.get("model", state))
    elif recorded.get("weights") is not None:
        unwrap(model).load_state_dict(recorded["weights"])
    return 0 if _probe_recorded(recorded, model, loss_fn, *optimizer).ok else 1


def _probe_recorded(recorded: Any, model: Any, loss_fn: Any, optimizer: Any = None) -> ProbeResult:
    """Probe the recorded batches, the last one last; stop at the first that fails."""
    result = ProbeResult(phase="none")
    for entry in recorded["batches"]:
        sys.stdout.write(f"step {entry['step']}: ")
        sys.stdout.flush()
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(entry["rng"])
            result = probe(model, entry["batch"], loss_fn, optimizer)
        if not result.ok:
            break
    return result


def _factory(name: str) -> Any:
    module, _, function = name.partition(":")
    if not function:
        raise ValueError(f"--factory must be MODULE:FUNCTION, not {name!r}")
    sys.path.insert(0, "")
    return getattr(importlib.import_module(module), function)


if __name__ == "__main__":
    sys.exit(main())
