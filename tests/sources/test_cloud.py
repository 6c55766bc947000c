"""``gs://``, from an emulator of Google's storage that listens on this machine."""

import json
import os
import socket
from urllib.request import Request, urlopen

import pytest

from tests.conftest import program

pytest.importorskip("gcsfs", reason="needs the group cloud")
server = pytest.importorskip("gcp_storage_emulator.server", reason="needs the group cloud")


@pytest.fixture(scope="module")
def diagnose():
    """Return a function that runs the command on URLs of a bucket with two logs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = server.create_server("127.0.0.1", port, in_memory=True, default_bucket="runs")
    running.start()
    host = f"http://127.0.0.1:{port}"
    lines = (json.dumps({"step": n, "loss": 3 - n / 1000}) for n in range(3000))
    text = "\n".join([*lines, ""]).encode()
    for name in ("exp/a/log.jsonl", "exp/b/notes.txt"):
        url = f"{host}/upload/storage/v1/b/runs/o?uploadType=media&name={name.replace('/', '%2F')}"
        data = text if name.endswith("jsonl") else b"nothing to read"
        urlopen(Request(url, data=data, method="POST"), timeout=30).close()
    # Without the second variable, gcsfs calls a service that the emulator lacks.
    environment = {"STORAGE_EMULATOR_HOST": host, "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}

    def run(*arguments):
        return program("diagnose", *arguments, env={**os.environ, **environment})

    yield run
    running.stop()


@pytest.mark.parametrize("url", ["gs://runs/exp/a/log.jsonl", "gs://runs/exp"])
def test_a_file_and_a_folder(diagnose, url):
    done = diagnose(url, "--format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["source"]["name"] == "gs://runs/exp/a/log.jsonl"
    assert report["source"]["records"] == 3000


def test_a_file_that_is_not_there(diagnose):
    done = diagnose("gs://runs/exp/none.jsonl")
    message = "stabdiag: gs://runs/exp/none.jsonl: no such file; check the URL\n"
    assert (done.returncode, done.stderr) == (2, message)
