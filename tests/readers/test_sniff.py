"""What is read, and what is refused with a sentence."""

import io
import pickle
import sqlite3
import zipfile
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stabdiag
from stabdiag.errors import LogError
from stabdiag.readers.csv import log as csv
from stabdiag.readers.json import lines as jsonl
from stabdiag.readers.sniff import not_text, sniff
from stabdiag.readers.source import Stream
from stabdiag.readers.text.evidence import refused
from stabdiag.readers.text.lines.clean import Text
from stabdiag.sources import read_source
from tests.readers.conftest import read_columns

MAGIC = [
    *(b"PAR1", b"\x1f\x8b", b"{", b"[", b'{"a": 1}\n', b"a,b\n1,2\n", b"1,2\n3,4\n", b"\xff\xfe"),
    b"",
]
JSONL = b'{"step": 1, "loss": 2.5, "t": {"a": null}}\n{"step": 2, "loss": NaN}\r\n{"step": 3}\n'
CSV = b'step,loss,mode\n1,2.5,"a, b"\n2,nan,\n\n# x\nstep,loss,mode\n3,,val\n'


def test_a_text_of_only_fences_is_refused():
    with pytest.raises(LogError, match="a text without a training loss"):
        sniff(Stream("run", io.BytesIO(b"```\n" * 20)))


def test_a_first_line_with_many_control_characters_is_not_text():
    noise = bytes(set(range(1, 256)) - {10}) * 8
    assert not_text(noise) is not None
    assert not_text(b"\x07\x0e\x0f epoch 1 loss 2.5\n" + noise) is None
    with pytest.raises(LogError, match="a binary file"):
        sniff(Stream("run", io.BytesIO(noise)))


@pytest.mark.parametrize(
    "line", ["- **note**: a text\n", "x = 1 ", "10%|#  | 1/10 [00:01<00:02]\r"]
)
def test_a_text_that_is_refused_is_cleaned_and_described_once(monkeypatch, tmp_path, line):
    cleaned, described = [], []
    clean, describe = Text.__init__, refused.describe_values
    monkeypatch.setattr(
        Text, "__init__", lambda text, *a, **k: (cleaned.append(1), clean(text, *a, **k))[1]
    )
    monkeypatch.setattr(
        refused, "describe_values", lambda *a: (described.append(1), describe(*a))[1]
    )
    path = tmp_path / "run.log"
    path.write_text(line * (200_000 // len(line)), encoding="utf-8", newline="")
    with pytest.raises(LogError):
        stabdiag.diagnose(path)
    assert len(described) == 1
    # Two sizes of the head, a whole list, and lines without their labels.
    assert len(cleaned) <= 7


@given(st.sampled_from(MAGIC), st.one_of(st.binary(max_size=200), st.text().map(str.encode)))
def test_any_bytes_are_read_or_refused(magic, noise):
    stream = Stream("run", io.BytesIO(magic + noise))
    with suppress(LogError):
        columns = sniff(stream).read(stream)
        for name in columns.names:
            columns.load(name)


@pytest.mark.parametrize("small", [-1, 1 << 20])
@pytest.mark.parametrize(("reader", "log"), [(jsonl, JSONL), (csv, CSV)])
def test_every_prefix_is_read_up_to_the_cut(reader, log, small):
    rows = []
    for length in range(len(log) + 1):
        try:
            columns = reader.read(Stream("run", io.BytesIO(log[:length])), small=small)
        except LogError:
            rows.append(0)
        else:
            rows.append(columns.rows)
            assert columns.bad_count <= 1
    # A cut header below the first reads as a record of words.
    assert all(after >= before - 1 for before, after in pairwise(rows))
    assert rows[-1] == 3


def refusal(tmp_path, content, name="run.log"):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(LogError) as caught:
        read_columns(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


def saved(write):
    sink = io.BytesIO()
    write(sink)
    return sink.getvalue()


def test_binary_files_are_detected(tmp_path):
    database = sqlite3.connect(tmp_path / "other.db")
    database.execute("create table metrics (key, step, value)")
    database.commit()
    database.close()
    archive = saved(lambda sink: zipfile.ZipFile(sink, "w").close())
    assert archive  # an empty archive starts with its end record, a filled one with a member's
    filled = io.BytesIO()
    with zipfile.ZipFile(filled, "w") as archive_file:
        archive_file.writestr("run.jsonl", "{}")
    for content, words in [
        ((tmp_path / "other.db").read_bytes(), "a SQLite database, but not from MLflow"),
        (filled.getvalue(), "a ZIP archive; unpack it"),
        (
            saved(lambda sink: np.save(sink, np.zeros(3))),
            "a NumPy array; convert it with: python -c",
        ),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a picture or a page; pass the log"),
        (b"%PDF-1.7\n%\xe2\xe3", "a picture or a page; pass the log"),
        (b"ARROW1\0\0", "an Arrow (Feather) file"),
        (b"\x80\x04\x95abc", "a Python pickle; if you trust it"),
        (bytes(range(256)) * 20, "a binary file"),
        (b"\xe2\n" + bytes(range(255, 0, -1)) * 20, "a binary file"),
    ]:
        assert words in refusal(tmp_path, content)


def test_an_event_file_by_its_name(tmp_path):
    for content in (b"\x01\x02\x03", bytes(100)):
        message = refusal(tmp_path, content, "events.out.tfevents.17")
        assert "named like a TensorBoard event file, but" in message


@pytest.mark.parametrize(
    ("text", "name", "losses"),
    [
        (b'2021 INFO {"epoch": 1, "loss": "4.2"}\n' + b"2021 INFO done\n" * 9, "loss", [4.2]),
    ],
    ids=["JSON in a text"],
)
def test_the_advice_about_records_in_a_text_works(tmp_path, shell, text, name, losses):
    shell(refusal(tmp_path, text).partition("with: ")[2], tmp_path)
    loss = read_columns(tmp_path / "run.jsonl").load(name)
    np.testing.assert_array_equal(loss.values, losses)
    assert loss.present.all()


def test_the_advice_about_arrays_and_pickles_works(tmp_path, shell):
    losses = np.array([2.5, np.nan, 2.25])
    steps = np.column_stack([[1, 2, 3], losses])
    history = {"loss": [np.float32(2.5), float("nan"), 2.25], "val_loss": np.array([3.0, 2.5, 2.0])}
    for name, content in [
        ("values.npy", saved(lambda sink: np.save(sink, losses))),
        ("steps.npy", saved(lambda sink: np.save(sink, steps))),
        ("my run.npz", saved(lambda sink: np.savez(sink, loss=losses, lr=losses))),
        ("history.pkl", pickle.dumps(history)),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(LogError) as caught:
            read_source([tmp_path / name])
        shell(str(caught.value).partition("with: ")[2], tmp_path)
        loss = read_columns(tmp_path / "run.json").load("loss")
        np.testing.assert_array_equal(loss.values, losses)


@pytest.mark.parametrize("name", ["metrics.jsonl", "loss.csv", "train.log", "run.parquet"])
def test_a_pointer_of_git_lfs(tmp_path, name):
    text = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 2529\n"
    assert "a pointer of git LFS, not the log itself; fetch" in refusal(tmp_path, text, name)
    path = tmp_path / name
    with pytest.raises(LogError, match="git lfs pull"):
        read_columns(path, format="csv")


def test_the_advice_about_rows_without_names_works(tmp_path):
    path = tmp_path / "log.txt"
    rows = np.column_stack([np.arange(30) ** 2, np.linspace(3, 2, 30), np.full(30, 1e-3)])
    np.savetxt(path, rows)
    with pytest.raises(LogError, match="add a first line of names, such as: step loss lr") as error:
        read_columns(path)
    path.write_text(f"{str(error.value).rpartition(': ')[2]}\n{path.read_text()}")
    assert read_columns(path).names == ("step", "loss", "lr")


@pytest.mark.parametrize(
    ("text", "words", "name"),
    [
        ("hello\n", "a text without a training loss", "run.log"),
        (
            "".join(f"Epoch[{n}] Speed: 43 samples/sec\tknob=0.8\n" for n in range(9)),
            "it repeats 'Speed', 'knob', but no loss",
            "run.log",
        ),
        # The file of a program is nothing that a text tells.
        ("LOG (train:Print():nnet.cc:121) objf: -35.1\n" * 9, "it repeats 'objf', but", "run.log"),
        (
            "the run has train loss:1.5\n" * 9,
            "train loss' is on 9 lines, but without a rising step",
            "run.log",
        ),
        (
            "{'train_runtime': 11.2, 'train_loss': 1.5, 'epoch': 1.0}\n100% 8/8\n" * 4,
            "'train_loss' is on 4 lines",
            "run.log",
        ),
        ("hello\n", "expected one JSON object a line", "run.jsonl"),
        ("hello\n", "expected a line of names", "run.csv"),
    ],
)
def test_texts_that_are_not_logs(tmp_path, text, words, name):
    assert words in refusal(tmp_path, text.encode(), name)


@pytest.mark.parametrize(
    "line",
    ["WARNING:root:NaN or Inf found in input tensor.", "The gradients are NaN: aborting now."],
)
def test_a_refusal_quotes_a_line_that_reports_a_failure(tmp_path, line):
    path = tmp_path / "run.txt"
    path.write_text(f"Start training\nbuilding the model\n{line}\n{line}\n")
    with pytest.raises(LogError, match=f"line 3 mentions a failure: '{line}'"):
        stabdiag.read(path)
    path.write_text(
        "Start training\n    if loss is nan:\n        raise ValueError('loss is nan')\n"
    )
    with pytest.raises(LogError) as refusal:
        stabdiag.read(path)
    assert "reports a failure" not in str(refusal.value)


def test_a_refusal_quotes_the_error_that_ended_a_run(tmp_path):
    path = tmp_path / "slurm.out"
    error = (
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.75 GiB"
        + " (GPU)" * 40
    )
    trace = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n'
    path.write_text(f"building the model\n{trace}    y = model(x)\n{error}\n")
    with pytest.raises(LogError, match=r"line 5 mentions a failure: 'torch\.cuda\.OutOf.* …'"):
        stabdiag.read(path)


def test_rows_of_scores_in_a_text_do_not_hide_its_losses(tmp_path):
    path = tmp_path / "run.log"
    lines = ["10:11:12: metrics:\tPrecision@20\tRecall@20\tNDCG@20"]
    for n in range(1, 8):
        lines += [f"10:{n}:12: [iter {n} : loss : {7 / n} = 0.5 + {7 / n - 0.5}, time: 459.65]"]
        lines += [f"10:{n}:30: epoch {n}:\t0.0013\t0.0028\t0.0023", "Find a better model."]
    path.write_text("\n".join(lines))
    assert stabdiag.read(path).series["loss"].values.tolist() == [7 / n for n in range(1, 8)]


TRANSPOSED = (
    "epoch,0,1,2,3,4,5\ntrain_loss,2.5,2.1,1.8,1.6,1.5,nan\nval_loss,2.6,2.2,1.9,1.7,1.6,nan\n"
)
LONG = "".join(
    f"{name},{','.join(values)},{end}\n"
    for name, values, end in (
        ("epoch", map(str, range(12_000)), "12000"),
        ("train_loss", (f"{2 + 1 / (1 + n):.4f}" for n in range(12_000)), "nan"),
    )
)
UNQUOTED = "".join(
    f"{{step: {step}, loss: {'NaN' if step > 4 else 3 - step / 4}, lr: 1e-4}},\n"
    for step in range(8)
)
PROSE = "The run is slow.\nIt uses 3 GB of memory.\nThe cause is unknown.\n"


@pytest.mark.parametrize("suffix", ["txt", "csv", "json", "jsonl", "tsv"])
@pytest.mark.parametrize("text", [TRANSPOSED, LONG, UNQUOTED], ids=["rows", "long rows", "keys"])
def test_the_suffix_of_a_name_hides_no_log_of_another_form(tmp_path, text, suffix):
    path = tmp_path / f"run.{suffix}"
    path.write_text(text, encoding="utf-8")
    assert stabdiag.diagnose(path).diagnosis.slug.startswith("nan")


@pytest.mark.parametrize(
    ("suffix", "words"), [("csv", "a line of names"), ("jsonl", "one JSON object a line")]
)
def test_a_text_without_records_is_refused_as_the_format_of_its_name(tmp_path, suffix, words):
    path = tmp_path / f"run.{suffix}"
    path.write_text(PROSE, encoding="utf-8")
    with pytest.raises(LogError, match=words):
        stabdiag.diagnose(path)


def test_a_traceback_that_breaks_off_is_not_quoted_if_an_exception_is_named(tmp_path):
    path = tmp_path / "run.log"
    path.write_text(
        '2024-01-02 10:00:00 [ERROR]    File "train.py", line 65, in step\n'
        "2024-01-02 10:00:00 [ERROR]  RuntimeError: CUDA error: device-side assert triggered\n"
        "Traceback (most recent call last):\n"
        '  File "main.py", line 402, in <module>\n    main(read_options())\n'
    )
    with pytest.raises(LogError, match=r"line 2 mentions a failure: .*device-side assert"):
        stabdiag.read(path)
