"""Where logs come from: files, folders, pipes, packed or not."""

import bz2
import gzip
import lzma
import os
import resource
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import stabdiag
from stabdiag.errors import LogError, NoUsableRecord, StabdiagError
from stabdiag.readers.source import open_stream
from stabdiag.readers.unwrapping import compressed
from tests.readers.conftest import read_columns

NAME = "run.jsonl"
TEXT = "".join(f'{{"step": {n}, "loss": {3 - n / 5000:.6f}}}\n' for n in range(5000)).encode()


def zstandard(data):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


PACKINGS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstandard}
packed = pytest.mark.parametrize("suffix", PACKINGS)


@packed
def test_compressed_files_are_read(log, suffix):
    columns = log(PACKINGS[suffix](TEXT), f"run.jsonl.{suffix}")
    assert columns.load("step").values.tolist() == list(range(5000))
    assert columns.notes == ()


@packed
def test_a_packed_file_is_known_by_its_content(log, suffix):
    assert log(PACKINGS[suffix](b"step,loss\n1,2\n2,3\n"), "run").format == "csv"


@packed
def test_a_packed_file_that_breaks_off(log, suffix):
    try:
        columns = log(PACKINGS[suffix](TEXT)[:-30], f"run.jsonl.{suffix}")
    except NoUsableRecord:
        # bzip2 and Zstandard unpack whole blocks only, and this log is one.
        assert suffix in {"bz2", "zst"}
    else:
        assert columns.rows > 1000 or suffix == "zst"
        assert any("breaks off" in note for note in columns.notes)


@packed
def test_every_cut_of_a_packed_file_is_read_or_refused(log, suffix):
    packed_log = PACKINGS[suffix](TEXT[:2000])
    for length in range(0, len(packed_log), 7):
        try:
            columns = log(packed_log[:length])
        except LogError:
            continue
        assert columns.notes


def test_a_packed_file_that_is_damaged(log):
    packed_log = bytearray(gzip.compress(TEXT) + gzip.compress(TEXT))
    packed_log[len(packed_log) // 2 + 40 :] = b"\xff" * 500
    columns = log(bytes(packed_log), "run.jsonl.gz")
    assert columns.rows >= 5000
    assert any("is damaged" in note for note in columns.notes)


def test_packed_members_one_after_the_other(log):
    members = gzip.compress(b'{"step": 1}\n') + gzip.compress(b'{"step": 2}\n') + b"\0" * 99
    assert log(members, "run.jsonl.gz").load("step").values.tolist() == [1, 2]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "gz"])
def test_standard_input_is_read(tmp_path, kind, monkeypatch):
    path = tmp_path / "log"
    if kind == "parquet":
        parquet.write_table(pa.table({"step": [1, 2]}), path)
    else:
        plain = b"step,loss\n1,2\n2,3\n" if kind == "csv" else b'{"step": 1}\n{"step": 2}\n'
        path.write_bytes(gzip.compress(plain) if kind == "gz" else plain)
    with path.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        columns = read_columns("-")
        assert (columns.source, columns.load("step").values.tolist()) == ("standard input", [1, 2])


def test_a_given_format_is_used(put):
    path = put('not json\n{"step": 1, "loss": 2.5}\n', "run.txt")
    assert read_columns(path, format="jsonl").rows == 1
    with pytest.raises(LogError, match="unknown format 'jsnl'; did you mean jsonl"):
        read_columns(path, format="jsnl")
    with pytest.raises(NoUsableRecord, match="expected a line of names"):
        read_columns(path, format="csv")
    with pytest.raises(LogError, match="Parquet file that is cut off or damaged"):
        read_columns(path, format="parquet")


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(LogError, match=r"gone\.jsonl: no such file"):
        read_columns(tmp_path / "gone.jsonl")


@pytest.mark.parametrize(("to", "why"), [("gone", "no such"), ("run.jsonl", "cannot be opened")])
def test_a_link_to_nowhere_or_to_itself(tmp_path, to, why):
    (tmp_path / "run.jsonl").symlink_to(tmp_path / to)
    with pytest.raises(LogError, match=why):
        read_columns(tmp_path / "run.jsonl")


def test_a_name_with_a_zero():
    with pytest.raises(LogError, match="cannot be opened"):
        read_columns("run\0.jsonl")


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    def refuse(*_args, **_how):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "run.jsonl").write_text("{}")
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(LogError, match=r"run\.jsonl: may not be read by you"):
        read_columns(tmp_path / "run.jsonl")


def test_a_folder_above_that_is_locked(tmp_path, monkeypatch):
    def refuse(path, *_args, **_how):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(LogError, match=r"run\.jsonl: may not be read by you"):
        open_stream(tmp_path / "run.jsonl")


def test_a_disk_that_fails(tmp_path, monkeypatch):
    class Failing:
        def read(self, _size):
            raise OSError(5, "Input/output error")

        def close(self):
            pass

    (tmp_path / "run.jsonl").write_text("{}")
    monkeypatch.setattr("stabdiag.readers.source._raw", lambda _: Failing())
    with pytest.raises(LogError, match=r"run\.jsonl: reading failed \(Input/output error\)"):
        read_columns(tmp_path / "run.jsonl")


def test_a_folder_is_not_a_stream(tmp_path):
    with pytest.raises(LogError, match="a folder; name a file in it"):
        read_columns(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\n\n \n"])
def test_an_empty_file_is_an_error(log, content):
    with pytest.raises(LogError, match="has the run logged anything yet"):
        log(content, "run.log")


def test_a_named_pipe_is_read(tmp_path):
    log = tmp_path / "run.parquet"
    parquet.write_table(pa.table({"step": [1, 2]}), log)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(log.read_bytes()))
    writer.start()
    assert read_columns(pipe).load("step").values.tolist() == [1, 2]
    writer.join()


def constant_log(lines):
    """Return a log where only the counters change."""
    return b"".join(
        b" [2026-01-02 03:04:05] iteration %8d/ 1000000 | consumed samples: %12d | elapsed time per"
        b" iteration (ms): 512.3 | learning rate: 1.000E-04 | lm loss: 6.907755E+00 | loss scale:"
        b" 1.0 | grad norm: 0.000 | number of skipped iterations:   0 |\n" % (n, n * 16)
        for n in range(lines)
    )


PACKERS = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "Zstandard": lambda data: pa.Codec("zstd", 12).compress(data, asbytes=True),
}


@pytest.mark.parametrize("packing", PACKERS)
def test_the_most_regular_log_is_not_a_bomb(log, packing, monkeypatch):
    monkeypatch.setattr("stabdiag.readers.unwrapping.compressed._FROM", 1)
    text = constant_log(6_000)
    packed = PACKERS[packing](text)
    assert len(text) / len(packed) < compressed.RATIOS[packing] / 1.5
    assert log(packed, "run.log").rows == 6_000


@pytest.mark.parametrize("packing", PACKERS)
def test_lines_that_are_all_the_same_are_a_bomb(log, packing, monkeypatch):
    monkeypatch.setattr("stabdiag.readers.unwrapping.compressed._FROM", 1 << 20)
    packed = PACKERS[packing](b'{"step": 1, "loss": 2.5}\n' * 60_000)
    ratio = compressed.RATIOS[packing]
    message = rf"run\.jsonl: unpacks to more than {ratio} times its size, as no log does"
    with pytest.raises(LogError, match=message):
        log(packed)


def test_unpacked_data_is_read_in_parts(log):
    line = b'{"step": 1, "loss": 2.5}' + b" " * 1000 + b"\n"
    for pack in (gzip.compress, bz2.compress, lzma.compress):
        columns = log(pack(line * 5000) + pack(line))
        assert columns.rows == 5001
        assert columns.notes == ()


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz"])
def test_a_compressed_file_that_ends_in_its_header(log, suffix):
    with pytest.raises(LogError, match=r"it cannot be unpacked: the .* stream breaks off"):
        log(PACKINGS[suffix](TEXT)[:14], f"run.jsonl.{suffix}")


@pytest.mark.parametrize("trouble", ["none", "full"])
def test_a_full_disk_is_an_error(tmp_path, monkeypatch, trouble):
    """A database is read from a disk, so one that is packed is kept there meanwhile."""
    sample = Path(__file__).parent / "samples" / "sqlite" / "mlflow.db"
    path = tmp_path / "mlflow.db.gz"
    path.write_bytes(gzip.compress(sample.read_bytes()))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path if trouble == "full" else path))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        if trouble == "full":
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, hard))
        with pytest.raises(StabdiagError, match=r"set TMPDIR"):
            read_columns(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_named_pipe_waits_for_its_writer_and_not_for_ever(tmp_path, monkeypatch):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setattr("stabdiag.readers.source._NamedPipe._PATIENCE", 0.2)
    with open_stream(pipe) as stream, pytest.raises(LogError, match="nothing wrote to the pipe"):
        stream.read_all()

    def write():
        with pipe.open("wb") as file:
            file.write(b"first ")
            file.flush()
            time.sleep(0.5)
            file.write(b"second")

    with open_stream(pipe) as stream:
        writer = threading.Thread(target=write)
        writer.start()
        assert stream.read_all() == b"first second"
        writer.join()


@pytest.mark.parametrize("text", ["", "no record\n", '{"a": 1}\n', "1,2\n3,4\n"])
def test_the_name_of_a_file_keeps_a_refusal_on_one_line(tmp_path, text):
    path = tmp_path / "a\nb.log"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(LogError) as refusal:
        stabdiag.diagnose(path)
    assert len(str(refusal.value).splitlines()) == 1
    assert "a\\nb.log" in str(refusal.value)
