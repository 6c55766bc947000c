"""Archives: members are read as streams, regardless of name and ending."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib

import pyarrow as pa
import pytest
from pyarrow import parquet

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.sources import read_source

PACKINGS = {
    "tar": bytes,
    "tar.gz": gzip.compress,
    "tar.bz2": bz2.compress,
    "tar.xz": lzma.compress,
    "tar.zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


def tarred(files, *odd):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for member in odd:
            archive.addfile(member)
        for number, (name, content) in enumerate(files.items()):
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(data), 1_760_000_000 + 1000 * number
            archive.addfile(member, io.BytesIO(data))
    return made.getvalue()


def zipped(files, method=zipfile.ZIP_DEFLATED):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for number, (name, content) in enumerate(files.items()):
            member = zipfile.ZipInfo(name, (2026, 1, 1, number, 0, 0))
            member.compress_type = method
            archive.writestr(member, content)
    return made.getvalue()


def odd(name, kind, link=""):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member


def event_messages(path):
    return [event.message for event in read_source([path]).columns.events]


def rows_or_error(path):
    try:
        return read_source([path]).columns.rows, ""
    except LogError as error:
        return 0, str(error)


@pytest.fixture
def run(lines, cells):
    """The files of a folder of runs, the newest last."""
    return {
        "out/config.yaml": "fp16: true\n",
        "out/version_0/metrics.csv": cells(0, 90),
        "out/version_1/hparams.yaml": "learning_rate: 0.5\n",
        "out/version_1/model.ckpt": bytes(100_000),
        "out/version_1/metrics.csv": cells(0, 50),
    }


@pytest.mark.parametrize("kind", [*PACKINGS, "zip"])
def test_the_best_log_of_an_archive_and_its_sidecars(put, run, kind):
    data = zipped(run) if kind == "zip" else PACKINGS[kind](tarred(run))
    path = put("run.packed", data)  # known by its content
    result = read_source([path])
    assert result.columns.source == f"{path}/out/version_1/metrics.csv"
    assert result.columns.load("step").values.tolist() == list(range(50))
    assert (result.manifest.peak_lr, result.manifest.dtype) == (0.5, "fp16")
    names = ("version_1/hparams.yaml", "config.yaml")
    assert result.manifest.path == ", ".join(f"{path}/out/{name}" for name in names)
    assert event_messages(path) == [
        "chose out/version_1/metrics.csv of 2 logs; not read: out/version_0/metrics.csv"
    ]


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_archives_are_read_from_standard_input(put, run, kind, monkeypatch):
    data = zipped(run) if kind == "zip" else PACKINGS[kind](tarred(run))
    with put("run.packed", data).open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        result = read_source(["-"])
    assert result.columns.source == "standard input/out/version_1/metrics.csv"
    assert (result.columns.rows, result.manifest.dtype) == (50, "fp16")


def test_standard_input_has_no_sidecars(put, lines, monkeypatch, tmp_path):
    """The manifest in the folder where the program runs is another run's."""
    put("manifest.json", '{"dtype": "fp16"}')
    log = put("run.jsonl", lines(0, 50))
    monkeypatch.chdir(tmp_path)
    with log.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert read_source(["-"]).manifest.dtype is None
    assert read_source([log]).manifest.dtype == "fp16"


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_parquet_and_a_packed_log_in_an_archive(put, lines, kind):
    sink = io.BytesIO()
    parquet.write_table(pa.table({"step": range(40), "loss": [1.0] * 40}), sink)
    files = {"run.parquet": sink.getvalue(), "logs/run.jsonl.gz": gzip.compress(b"{}")}
    path = put("run", tarred(files) if kind == "tar" else zipped(files))
    columns = read_source([path]).columns
    assert (columns.format, columns.load("loss").values.tolist()) == ("parquet", [1.0] * 40)


def test_a_tar_that_breaks_off_is_read_up_to_there(put, lines):
    archive = tarred({"a.jsonl": lines(0, 500), "b.bin": bytes(5000)})
    packed = gzip.compress(archive)
    for data in (archive[:9000], packed[: len(packed) // 2]):
        path = put("run.tar.gz", data)
        columns = read_source([path]).columns
        assert 50 < columns.rows < 500
        assert any("is truncated" in event.message for event in columns.events)
        assert len(set(event_messages(path))) == len(event_messages(path))


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "tar.xz", "zip"])
def test_every_cut_of_an_archive_is_read_or_refused(put, lines, kind):
    files = {"run.jsonl": lines(0, 100), "x/config.json": "{}"}
    data = zipped(files) if kind == "zip" else PACKINGS[kind](tarred(files))
    for length in range(0, len(data), len(data) // 20):
        path = put("run.jsonl", data[:length])
        rows, error = rows_or_error(path)
        assert 0 < rows <= 100 or error.startswith(str(path))
        assert "\n" not in error


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_every_byte_of_an_archive_may_be_damaged(put, lines, kind):
    files = {"run.jsonl": lines(0, 20)}
    data = tarred(files)[:2048] if kind == "tar" else zipped(files)
    for at in range(0, len(data), 19):
        path = put("run", data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        rows, error = rows_or_error(path)
        assert 0 < rows <= 21 or error.startswith(str(path))
        assert "\n" not in error


def test_members_that_lead_out_are_left_out(put, lines, tmp_path):
    put("secret/run.jsonl", lines(0, 99))
    files = {
        "../secret.jsonl": lines(0, 70),
        "/tmp/run.jsonl": lines(0, 70),
        "a/../../run.jsonl": lines(0, 70),
        "C:\\run.jsonl": lines(0, 70),
        "..\\run.jsonl": lines(0, 70),
        "2026-01-01T10:00:00/run.jsonl": lines(0, 50),
    }
    links = (
        odd("link.jsonl", tarfile.SYMTYPE, f"{tmp_path}/secret/run.jsonl"),
        odd("hard.jsonl", tarfile.LNKTYPE, "2026-01-01T10:00:00/run.jsonl"),
        odd("null.jsonl", tarfile.CHRTYPE),
        odd("pipe.jsonl", tarfile.FIFOTYPE),
    )
    before = sorted(tmp_path.rglob("*"))
    for data, count in ((tarred(files, *links), 9), (zipped(files), 5)):
        path = put("run", data)
        assert read_source([path]).columns.rows == 50
        assert event_messages(path) == [
            f"{count} members of the archive left out: links, devices, or paths outside the archive"
        ]
        path.unlink()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_link_in_a_zip_is_left_out(put, lines):
    made = io.BytesIO(zipped({"run.jsonl": lines(0, 50)}))
    with zipfile.ZipFile(made, "a") as archive:
        member = zipfile.ZipInfo("metrics.jsonl")
        member.external_attr = 0o120777 << 16
        archive.writestr(member, "/etc/passwd")
    assert event_messages(put("run.zip", made.getvalue())) == [
        "1 member of the archive left out: links, devices, or paths outside the archive"
    ]


@pytest.mark.parametrize(
    ("kind", "size", "why"),
    [
        (tarfile.REGTYPE, 1 << 50, "unexpected end of data"),
        (tarfile.XHDTYPE, 1 << 50, "a header of 1125899906842624 bytes"),
        (tarfile.GNUTYPE_LONGNAME, 1 << 50, "a header of 1125899906842624 bytes"),
        (tarfile.XHDTYPE, 1 << 17, "a header with a number too large to be valid"),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_member_with_a_wrong_size_truncates_a_tar(put, lines, pack, kind, size, why):
    text = lines(0, 50)
    header = odd("x", kind)
    header.size = size
    end = 512 + len(text) + -len(text) % 512
    data = tarred({"run.jsonl": text})[:end] + header.tobuf(tarfile.GNU_FORMAT) + b"9" * (1 << 17)
    path = put("run.tar", pack(data))
    assert read_source([path]).columns.rows == 50
    assert event_messages(path) == [f"the archive is truncated or damaged ({why})"]


def test_a_damaged_header_is_not_taken_for_the_end_of_a_tar(put, lines):
    data = bytearray(tarred({"run.jsonl": lines(0, 50), "b.jsonl": lines(0, 90)}))
    data[data.index(b"b.jsonl")] ^= 1
    path = put("run.tar", bytes(data))
    assert read_source([path]).columns.rows == 50
    assert event_messages(path) == [
        "the archive is truncated or damaged (no header where one is expected)"
    ]


def test_a_member_of_a_zip_without_a_name_is_left_out(put, lines):
    data = zipped({"run.jsonl": lines(0, 50), "x": b""})
    at = data.rindex(b"PK\x01\x02")
    nameless = data[: at + 28] + b"\0\0" + data[at + 30 : at + 46] + data[at + 47 :]
    end = nameless.rindex(b"PK\x05\x06")
    size = int.from_bytes(nameless[end + 12 : end + 16], "little") - 1
    nameless = nameless[: end + 12] + size.to_bytes(4, "little") + nameless[end + 16 :]
    assert event_messages(put("run.zip", nameless)) == [
        "1 member of the archive left out: links, devices, or paths outside the archive"
    ]


def test_a_sparse_member_is_left_out(put, lines):
    member = odd("huge.jsonl", tarfile.REGTYPE)
    member.pax_headers = {
        "GNU.sparse.size": str(1 << 50),
        "GNU.sparse.numblocks": "1",
        "GNU.sparse.map": "0,0",
    }
    path = put("run.tar", tarred({"run.jsonl": lines(0, 50)}, member))
    assert read_source([path]).columns.rows == 50


@pytest.mark.parametrize(("kind", "ratio"), [("gz", 100), ("xz", 600), ("zip", 100)])
def test_archives_that_unpack_to_more_than_a_log_does(put, monkeypatch, kind, ratio):
    monkeypatch.setattr("stabdiag.readers.unwrapping.compressed._FROM", 1 << 24)
    text = b'{"step": 1, "loss": 1.0}\n' + (b" " * 9999 + b"\n") * 6000
    if kind == "zip":
        data = zipped({"run.jsonl": text})
    else:
        pack = zlib.compressobj(wbits=31) if kind == "gz" else lzma.LZMACompressor(preset=0)
        data = pack.compress(tarred({"run.jsonl": text})) + pack.flush()
    with pytest.raises(LogError, match=f"unpacks to more than {ratio} times its size"):
        read_source([put("bomb", data)])


def test_an_archive_in_an_archive_is_not_looked_into(put, run):
    inner = gzip.compress(tarred(run))
    for data in (tarred({"run.tar.gz": inner}), zipped({"run.tar.gz": inner})):
        with pytest.raises(NoUsableRecord, match=r"archives: run\.tar\.gz"):
            read_source([put("run", data)])


def locked(data):
    """Return a ZIP archive whose members say that they are encrypted."""
    made = bytearray(data)
    for magic, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = made.find(magic)
        while place >= 0:
            made[place + at] |= 1
            place = made.find(magic, place + 1)
    return bytes(made)


def test_an_encrypted_zip_is_an_error(put, lines):
    path = put("my run.zip", locked(zipped({"run.jsonl": lines(0, 50)})))
    with pytest.raises(LogError) as caught:
        read_source([path])
    assert str(caught.value) == f"{path}: encrypted; unpack it first: unzip '{path}'"


def test_a_zip_of_which_one_member_cannot_be_read(put, lines, cells):
    made = io.BytesIO(zipped({"run.jsonl": lines(0, 50)}))
    with zipfile.ZipFile(made, "a", zipfile.ZIP_LZMA) as archive:
        archive.writestr("other.csv", cells(0, 99))
    path = put("run.zip", made.getvalue())
    assert event_messages(path) == [
        "1 file left out (unsupported compression); unpack it to read them"
    ]


def test_a_damaged_member_of_a_zip_is_read_up_to_the_damage(put, lines):
    data = bytearray(zipped({"run.jsonl": lines(0, 3000)}, zipfile.ZIP_STORED))
    data[data.find(b'"', 2000)] ^= 1
    columns = read_source([put("run.zip", bytes(data))]).columns
    assert (columns.rows, columns.bad_count) == (2999, 1)
    data = bytearray(zipped({"run.jsonl": lines(0, 50_000)}))
    half = len(data) // 2
    data[half : half + 2000] = b"\xff" * 2000
    columns = read_source([put("run.zip", bytes(data))]).columns
    assert 10_000 < columns.rows < 50_000
    assert any("the packed stream is damaged" in note for note in columns.notes)


def test_a_zip_that_is_cut_off(put, lines):
    path = put("run.zip", zipped({"run.jsonl": lines(0, 50)})[:-30])
    with pytest.raises(LogError, match="the ZIP archive is truncated or damaged"):
        read_source([path])


@pytest.mark.parametrize("data", [zipped({}), tarred({"a/model.bin": b"1"})], ids=["zip", "tar"])
def test_an_archive_without_a_log(put, data):
    with pytest.raises(NoUsableRecord, match="run: no file in it is a log"):
        read_source([put("run", data)])


def test_deep_and_hidden_members_are_ignored(put, lines):
    files = {"run/": "", ".git/a.jsonl": lines(0, 99), "1/2/3/4/5/6/7/a.jsonl": lines(0, 99)}
    files["run/a.jsonl"] = lines(0, 50)
    packed = tarred({name: text for name, text in files.items() if text})
    for data in (packed, zipped(files)):
        path = put("run", data)
        assert read_source([path]).columns.source == f"{path}/run/a.jsonl"
        assert event_messages(path) == []


def test_a_configuration_that_is_too_large(put, lines):
    text = '{"dtype": "fp16"}' + " " * (1 << 20)
    path = put("run", tarred({"run.jsonl": lines(0, 50), "manifest.json": text}))
    assert read_source([path]).manifest.dtype is None


def test_only_the_first_members_of_an_archive_are_inspected(put, lines, monkeypatch):
    monkeypatch.setattr("stabdiag.sources.archives.MAX_FILES", 5)
    monkeypatch.setattr("stabdiag.sources.archives.MAX_FILES", 5)
    files = {f"{n}.jsonl": lines(0, 50) for n in range(9)}
    for data in (tarred(files), zipped(files)):
        assert "looked at the first 5 files only" in event_messages(put("run", data))


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (["[Content_Types].xml", "xl/workbook.xml"], "an Excel workbook; save the sheet"),
        (["model/data.pkl", "model/data/0"], "a checkpoint of a model; pass the log"),
        (["x.npy", "y.npy"], "NumPy arrays in an archive; convert them with: python -c"),
    ],
)
def test_archives_of_another_kind(tmp_path, members, expected):
    path = tmp_path / "run.zip"
    path.write_bytes(zipped(dict.fromkeys(members, "x")))
    with pytest.raises(NoUsableRecord, match=rf"run\.zip: {expected}"):
        read_source([path])
    folder = tmp_path / "folder"
    for member in members:
        (folder / member).parent.mkdir(parents=True, exist_ok=True)
        (folder / member).write_text("x")
    with pytest.raises(NoUsableRecord, match="no file in it is a log"):
        read_source([folder])
