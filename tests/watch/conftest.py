"""What the tests of the watch share."""

import json
import subprocess
import sys
from contextlib import ExitStack
from subprocess import PIPE

import numpy as np
import pytest

from stabdiag.api.diagnosis import make_report
from stabdiag.assemble.inputs import Options, run_found
from stabdiag.model.limits import Limits


@pytest.fixture
def lines():
    """Return a function that draws the JSON lines of a run, whose loss may go wrong at a step."""

    def draw(steps, *, jump_at=None, nan_at=None):
        random = np.random.default_rng(20260105)
        loss = 2 + 3 * np.exp(-np.arange(steps) / 300) + 0.05 * random.standard_normal(steps)
        if jump_at is not None:
            loss[jump_at:] += 3
        if nan_at is not None:
            loss[nan_at:] = np.nan
        norms = 1 + 0.1 * random.standard_normal(steps)
        return [
            json.dumps({"step": step, "loss": round(loss[step], 4), "grad_norm": norms[step]})
            + "\n"
            for step in range(steps)
        ]

    return draw


def diagnose_found(source):
    """Diagnose what a source holds, with no options."""
    history, manifest = run_found(source, None, Options())
    return make_report(history, manifest, Limits())


@pytest.fixture
def start():
    """Return a function that runs Python in a process, which does not outlive the test."""
    with ExitStack() as running:

        def begin(*command, **streams):
            piped = {"stdin": subprocess.DEVNULL, "stdout": PIPE, "stderr": PIPE, **streams}
            line = [sys.executable, *map(str, command)]
            process = running.enter_context(subprocess.Popen(line, text=True, **piped))
            running.callback(process.kill)
            return process

        yield begin


@pytest.fixture
def sleeper(start):
    """A process that sleeps."""
    process = start("-c", "import time; print(flush=True); time.sleep(600)")
    process.stdout.readline()
    return process
