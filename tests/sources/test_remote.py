"""URLs, by way of fsspec: real file systems in memory, on disk and behind a web server."""

import gzip
import http.server
import io
import threading
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
from fsspec.registry import known_implementations
from pyarrow import parquet

import stabdiag
from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.model.text import shown
from stabdiag.sources import read_source


@pytest.fixture
def memory():
    """Return a function that puts a file into fsspec's memory."""
    files = fsspec.filesystem("memory")

    def put(name, content):
        files.pipe(f"/{name}", content.encode() if isinstance(content, str) else content)
        return f"memory://{name}"

    yield put
    files.store.clear()
    files.pseudo_dirs[:] = [""]


class Pages(http.server.SimpleHTTPRequestHandler):
    """A folder as web pages; some paths answer as servers in trouble do."""

    def do_GET(self):
        if self.path.startswith("/slow"):
            time.sleep(0.5)
            return
        if self.path.startswith(("/part/", "/endless/")):
            is_part = self.path.startswith("/part/")
            path = Path(self.directory) / self.path.rpartition("/")[2]
            if not path.exists():
                self.send_error(404)
                return
            content = path.read_bytes()
            self.send_response(206 if is_part else 200)
            if is_part:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            return
        trouble = {"/secret": 403, "/gone": 410, "/broken": 500}.get(self.path.partition("?")[0])
        if trouble:
            self.send_error(trouble)
        else:
            super().do_GET()

    def do_HEAD(self):
        self.send_error(405)

    def log_message(self, *_what):
        pass


@pytest.fixture
def web(tmp_path):
    """Serve the test's folder, and stop at its end."""
    (tmp_path / "web").mkdir()
    handler = partial(Pages, directory=str(tmp_path / "web"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_file_and_its_sidecar_manifest(memory, lines):
    url = memory("run/log.jsonl", lines(0, 50))
    memory("run/manifest.json", '{"dtype": "fp16"}')
    report = stabdiag.diagnose(url)
    assert report.history.source.name == "memory://run/log.jsonl"
    assert (report.manifest.dtype, report.manifest.path) == ("fp16", "memory://run/manifest.json")
    memory("run/log.manifest.json", '{"dtype": "bf16"}')
    assert read_source([url]).manifest.dtype == "bf16"
    memory("run/log.manifest.json", "no manifest")
    assert read_source([url]).manifest.dtype is None


def test_packed_logs_and_parquet(memory, lines):
    assert read_source([memory("a.jsonl.gz", gzip.compress(lines(0, 50).encode()))]).columns.rows
    sink = io.BytesIO()
    parquet.write_table(pa.table({"step": [1, 2], "loss": [1.0, 2.0]}), sink)
    columns = read_source([memory("a.parquet", sink.getvalue())]).columns
    assert columns.load("loss").values.tolist() == [1.0, 2.0]


def test_a_remote_folder_is_read(memory, cells, lines):
    memory("run/version_0/metrics.csv", cells(0, 90))
    memory("run/version_1/metrics.csv", cells(0, 50))
    memory("run/version_1/hparams.yaml", "precision: 16-mixed\n")
    memory("run/.git/x.csv", cells(0, 99))
    memory("run/model.pt", bytes(99))
    result = read_source(["memory://run"])
    assert result.columns.source == "memory://run/version_1/metrics.csv"
    assert (result.columns.rows, result.manifest.dtype) == (50, "fp16")
    assert result.manifest.path == "memory://run/version_1/hparams.yaml"
    assert read_source(["memory://run/"]).columns.rows == 50


def test_a_folder_that_is_too_large(memory, cells, monkeypatch):
    monkeypatch.setattr("stabdiag.sources.remote._MAX_LISTINGS", 3)
    for number in range(9):
        memory(f"run/{number}/metrics.csv", cells(0, 50))
    events = read_source(["memory://run"]).columns.events
    assert "the folder is too large to be listed in full" in [e.message for e in events]


@pytest.mark.parametrize(
    ("method", "event"),
    [
        ("open", "memory://run/below/metrics.csv: permission denied; check your credentials"),
        ("ls", "a subfolder could not be listed"),
    ],
)
def test_a_part_that_cannot_be_read(memory, cells, monkeypatch, method, event):
    memory("run/metrics.csv", cells(0, 50))
    memory("run/below/metrics.csv", cells(0, 90))
    kind = type(fsspec.filesystem("memory"))
    call = getattr(kind, method)

    def refuse(self, path, *args, **kwargs):
        if "below" in path:
            raise PermissionError(path)
        return call(self, path, *args, **kwargs)

    monkeypatch.setattr(kind, method, refuse)
    columns = read_source(["memory://run"]).columns
    assert columns.rows == 50
    assert [item.message for item in columns.events] == [event]


def test_a_file_url_is_read(put, lines):
    path = put("run.jsonl", lines(0, 50))
    put("manifest.json", '{"dtype": "fp16"}')
    result = read_source([f"file://{path}"])
    assert (result.columns.rows, result.manifest.dtype) == (50, "fp16")


def test_files_of_a_web_server_are_read(web, put, lines, cells):
    put("web/run/log.jsonl", lines(0, 2_000))
    put("web/run/manifest.json", '{"dtype": "fp16"}')
    put("web/run/below/metrics.csv", cells(0, 90))
    for url in (f"{web}/run/log.jsonl", f"{web}/run/log.jsonl?token=secret"):
        result = read_source([url])
        assert result.columns.rows == 2_000
        assert "secret" not in result.columns.source
    assert read_source([f"{web}/run/log.jsonl"]).manifest.dtype == "fp16"
    columns = read_source([f"{web}/run/"]).columns
    assert (columns.source, columns.rows) == (f"{web}/run/log.jsonl", 2_000)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/none.jsonl", "no such file; check the URL"),
        ("/gone", "no such file; check the URL"),
        ("/secret", "permission denied; check your credentials"),
        ("/broken", "the server returned status 500; check the URL"),
        ("/none/", "no such file; check the URL"),
    ],
)
def test_a_web_server_that_refuses(web, path, message):
    url = web.replace("http://", "http://me:password@")
    with pytest.raises(LogError) as caught:
        read_source([f"{url}{path}?signature=secret"] if not path.endswith("/") else [web + path])
    assert str(caught.value).startswith(f"{web}{path}".rstrip("/"))
    assert str(caught.value).endswith(message)
    assert "signature" not in str(caught.value)
    assert "password" not in str(caught.value)


def test_a_web_server_that_keeps_silent(web, monkeypatch):
    monkeypatch.setattr("stabdiag.sources.remote._READ_TIMEOUT", 0.1)
    with pytest.raises(
        LogError, match="the server did not respond in time; try again, or download the file"
    ):
        read_source([f"{web}/slow.jsonl"])


def test_a_web_server_that_is_not_there():
    with pytest.raises(LogError, match=r"^http://127\.0\.0\.1:9/run: cannot be read \("):
        read_source(["http://127.0.0.1:9/run"])


def test_a_missing_url_is_an_error(memory):
    with pytest.raises(LogError, match=r"memory://none\.jsonl: no such file; check the URL"):
        read_source(["memory://none.jsonl"])
    memory("run/model.pt", b"1")
    with pytest.raises(NoUsableRecord, match="memory://run: no file in it is a log"):
        read_source(["memory://run"])


def test_reading_that_fails_on_the_way(memory, monkeypatch):
    class Failing(io.RawIOBase):
        def readable(self):
            return True

        def read(self, _size=-1):
            raise ConnectionError("reset by s3://me:password@bucket/run")

    url = memory("run.jsonl", "{}")
    monkeypatch.setattr(type(fsspec.filesystem("memory")), "open", lambda *_: Failing())
    with pytest.raises(LogError) as caught:
        read_source([url])
    assert (
        str(caught.value)
        == "memory://run.jsonl: cannot be read (reset by …); check the URL and your credentials"
    )


def test_unknown_protocols_and_missing_packages_are_errors(monkeypatch):
    with pytest.raises(LogError, match=r"unknown protocol 's33'; did you mean s3\?"):
        read_source(["s33://bucket/run"])
    monkeypatch.setitem(known_implementations, "s3", {"class": "no_such_package.S3", "err": ""})
    with pytest.raises(LogError) as caught:
        read_source(["s3://bucket/run"])
    assert str(caught.value) == (
        "s3://bucket/run: to read s3:// URLs, install no_such_package:"
        " pip install 'stabdiag[remote]' no_such_package"
    )


def test_a_file_system_that_cannot_be_set_up(monkeypatch):
    def refuse(*_args, **_how):
        raise ValueError("no credentials for https://me:password@host/run\nand more")

    monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    with pytest.raises(LogError) as caught:
        read_source(["s3://bucket/run"])
    assert str(caught.value) == (
        "s3://bucket/run: cannot be read (no credentials for …); check the URL and your credentials"
    )


@pytest.mark.parametrize("key", ["mtime", "LastModified", "none"])
def test_when_a_remote_file_was_written(memory, cells, monkeypatch, key):
    """Each file system has its own name for it, and may have none."""
    memory("run/a/metrics.csv", cells(0, 50))
    memory("run/b/metrics.csv", cells(0, 50))
    kind = type(fsspec.filesystem("memory"))
    list_folder = kind.ls

    def dated(self, path, **kwargs):
        newest = {"mtime": 2e9, "LastModified": datetime(2030, 1, 1, tzinfo=UTC)}.get(key)
        names = list_folder(self, path, **kwargs)
        return [
            {**entry, "created": None, key: newest if "/a" in entry["name"] else None}
            for entry in names
        ]

    monkeypatch.setattr(kind, "ls", dated)
    newest = "b" if key == "none" else "a"
    assert read_source(["memory://run"]).columns.source == f"memory://run/{newest}/metrics.csv"


def test_fsspec_that_is_not_installed(monkeypatch):
    monkeypatch.setattr("stabdiag.sources.remote.find_spec", lambda _name: None)
    with pytest.raises(LogError) as caught:
        read_source(["https://example.org/run.jsonl"])
    assert str(caught.value) == (
        "https://example.org/run.jsonl: to read URLs, install fsspec:"
        " pip install 'stabdiag[remote]'"
    )


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://bucket/a/b.jsonl", "s3://bucket/a/b.jsonl"),
        ("https://me:password@host:8080/a?X-Amz-Signature=1#2", "https://host:8080/a?..."),
        ("hf://datasets/me/run/log.jsonl", "hf://datasets/me/run/log.jsonl"),
        ("memory://a", "memory://a"),
        ("http://[::1/x", "http://..."),
    ],
)
def test_secrets_are_not_shown(url, expected):
    assert shown(url) == expected


@pytest.mark.parametrize(
    ("path", "cut", "is_part"),
    [("", 0, False), ("part/", 0, True), ("endless/", 0, False), ("endless/", 9, True)],
)
def test_an_answer_that_is_a_part_of_the_file(web, put, lines, path, cut, is_part):
    content = lines(0, 50)
    put("web/run.jsonl", content[: len(content) - cut])
    left_out = read_source([f"{web}/{path}run.jsonl"]).columns.left_out
    assert [event.code for event in left_out] == ["bytes-left-out"] * is_part
