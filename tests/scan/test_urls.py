"""Scans of URLs: folders of a web server, fsspec file systems, a bucket."""

import http.server
import json
import os
import shutil
import socket
import tarfile
import threading
from functools import partial
from urllib.request import Request, urlopen

import pytest

from stabdiag.errors import LogError
from stabdiag.scan.scan import scan
from tests.scan.conftest import THREADS, scanned, write_log


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_): ...


@pytest.fixture
def web(tmp_path):
    """Return the address of a server of the files in ``tmp_path``."""
    handler = partial(_Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def outcomes(overview):
    return {row.run: row.outcome for row in overview.rows}


def test_a_folder_of_a_web_server(web, sweep, tmp_path):
    write_log(sweep / "deep" / "metrics.jsonl", 1)
    shutil.copy(sweep / "run1.manifest.json", sweep / "deep" / "manifest.json")
    here = scan(sweep, executor=THREADS, jobs=2)
    remote = scan(f"{web}/sweep/", jobs=2, store=tmp_path / "rows")
    assert outcomes(remote) == outcomes(here)
    rows = {row.run: row for row in remote.rows}
    assert rows["run1.jsonl"].path == f"{web}/sweep/run1.jsonl"
    assert rows["run1.jsonl"].dtype == rows["deep"].dtype == "bf16"
    rescan = scan(f"{web}/sweep/", executor=THREADS, jobs=2, store=tmp_path / "rows")
    assert rescan.runs == 11


def test_logs_and_archives_behind_urls(web, sweep, tmp_path, capfd):
    with tarfile.open(tmp_path / "old.tar.gz", "w:gz") as archive:
        archive.add(sweep, "sweep")
    urls = [f"{web}/old.tar.gz", f"{web}/sweep/run1.jsonl?signature=secret", f"{web}/none.jsonl"]
    overview = scan(urls, executor=THREADS, jobs=2)
    assert overview.runs == 12
    rows = {row.run: row for row in overview.rows}
    assert rows[f"{web}/old.tar.gz/sweep/run3.jsonl"].outcome == "nan-bf16"
    assert rows[f"{web}/sweep/run1.jsonl?..."].outcome == "nan-dtype-unknown"
    assert rows[f"{web}/none.jsonl"].reason == "no such file; check the URL"
    assert not any("secret" in str(row) for row in overview.rows)
    assert capfd.readouterr().err == ""


def test_a_file_system_reports_changed_files(sweep, tmp_path):
    store, url = tmp_path / "rows", sweep.as_uri()
    first = scan(url, executor=THREADS, jobs=2, store=store)
    assert outcomes(first) == outcomes(scan(sweep, executor=THREADS, jobs=2))
    write_log(sweep / "run1.jsonl", 3, steps=40)
    rescan = scan(url, executor=THREADS, jobs=2, store=store)
    assert (rescan.runs, rescan.reused) == (10, 9)
    assert sorted(outcomes(scan(f"{url}/run[12]*.jsonl", executor=THREADS, jobs=2)).values()) == [
        "healthy",
        "nan-bf16",
    ]


def test_a_folder_that_is_not_there(web):
    with pytest.raises(LogError, match="no such file"):
        scan(f"{web}/none/", jobs=1)


@pytest.fixture
def bucket():
    """Return an environment where ``gs://runs`` is a bucket with five runs."""
    pytest.importorskip("gcsfs", reason="needs the group cloud")
    server = pytest.importorskip("gcp_storage_emulator.server", reason="needs the group cloud")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = server.create_server("127.0.0.1", port, in_memory=True, default_bucket="runs")
    running.start()
    host = f"http://127.0.0.1:{port}"
    for number in range(5):
        lines = (json.dumps({"step": n, "loss": 3 - n / 100}) + "\n" for n in range(50))
        name = f"sweep%2Fseed{number}%2Fmetrics.jsonl"
        url = f"{host}/upload/storage/v1/b/runs/o?uploadType=media&name={name}"
        urlopen(Request(url, data="".join(lines).encode(), method="POST"), timeout=30).close()
    # Without the second variable, gcsfs calls a service that the emulator lacks.
    report = {"STORAGE_EMULATOR_HOST": host, "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}
    yield {**os.environ, **report}
    running.stop()


def test_a_bucket_is_scanned(bucket, tmp_path):
    for reused in (0, 5):
        report, _ = scanned("gs://runs/sweep", "-o", tmp_path / "rows", "--jobs", 2, env=bucket)
        rows = report["rows"]
        assert report["reused"] == reused
        assert sorted(row["run"] for row in rows) == [f"seed{number}" for number in range(5)]
        assert rows[0]["path"].startswith("gs://runs/sweep/seed")
