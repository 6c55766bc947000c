"""The scripts of the page on logging: each trains, and its log leaves nothing to ask for."""

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import stabdiag

SCRIPTS = Path(__file__).resolve().parents[2] / "docs" / "logging"
NEEDS = {
    "pytorch_loop": ("torch",),
    "hf_trainer": ("torch", "transformers", "accelerate"),
    "lightning_module": ("lightning",),
    "accelerate_loop": ("accelerate",),
    "deepspeed_loop": ("deepspeed",),
    "optax_loop": ("jax", "optax"),
    "keras_callback": ("keras", "torch"),
}
# Keras gives its callbacks the number of batches, but not their ids.
CANNOT = {"keras_callback": ["batch_id"]}


@pytest.fixture
def alone():
    """Return the environment that a launcher sets for a job of one process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ranks = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    at = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return {**os.environ, **ranks, **at, "KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1"}


def test_every_script_is_run():
    assert {path.stem for path in SCRIPTS.glob("*.py")} == set(NEEDS)


@pytest.mark.parametrize("script", NEEDS)
def test_a_script_logs_all_that_its_framework_can_give(script, tmp_path, alone):
    for package in NEEDS[script]:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed; make snippets installs it")
    command = [sys.executable, SCRIPTS / f"{script}.py", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=alone)
    assert done.returncode == 0, done.stderr
    log = next(path for path in tmp_path.iterdir() if path.name in {"log.jsonl", "metrics.csv"})
    report = stabdiag.diagnose(log)
    assert report.diagnosis.slug == "healthy"
    assert [series.role for series in report.not_logged] == CANNOT.get(script, [])
