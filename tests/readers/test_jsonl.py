"""JSON lines: accepted values, and records around broken lines."""

import io
import json

import numpy as np
import pytest

from stabdiag import diagnose, read
from stabdiag.errors import NoUsableRecord
from stabdiag.readers.blocks import blocks
from stabdiag.readers.registry import reader
from stabdiag.readers.source import Stream

NAME = "run.jsonl"
NAN, INF = np.nan, np.inf
# A log, one of its columns and its values: None for a missing key, "null" for a null.
VALUES = {
    "numbers": ('{"step": 1, "loss": 2.5}\n{"step": 2, "loss": 2}\n', "loss", [2.5, 2]),
    "a null and no key": ('{"x": 1}\n{"x": null}\n{"y": 3}\n', "x", [1, "null", None]),
    "numbers in strings": ('{"lr": " 1e-3 "}\n{"lr": "2e-3"}\n{"lr": 4}\n', "lr", [1e-3, 2e-3, 4]),
    "truth values": ('{"skipped": true}\n{"skipped": false}\n', "skipped", [1, 0]),
    "the first of a list": ('{"a": [0.1, 0.2]}\n{"a": ["2"]}\n{"a": []}\n', "a", [0.1, 2, None]),
    "a lone record": ('{"lr": [0.1, 0.1], "loss": 1}', "lr", [0.1]),
    "a key twice": ('{"loss": 1, "loss": 2}\n', "loss", [2]),
    "a name twice": ('{"a/b": 1, "a": {"b": 2}}\n', "a/b", [2]),
    "objects in objects": ('{"train": {"acc": {"top1": 2}}}\n', "train/acc/top1", [2]),
    "a large number": ('{"id": 123456789012345678901234567890}\n', "id", [1.2345678901234568e29]),
    "ten thousand digits": ('{"a": ' + "9" * 10_000 + "}\n", "a", [INF]),
    "two on a line": ('{"step": 1}{"step": 2}\n{"step": 3} {"step": 4}\n', "step", [1, 2, 3, 4]),
    "a mark, and Windows": (b'\xef\xbb\xbf{"step": 1}\r\n\r\n{"step": 2}\r\n', "step", [1, 2]),
    "no UTF-8": (b'{"step": 1, "note": "\xff"}\n{"step": 2, "\xfe": 1}\n', "step", [1, 2]),
    **{
        spelling: (f'{{"loss": 1}}\n{{"loss": {spelling}}}\n', "loss", [1, NAN])
        for spelling in ("NaN", '"NaN"', "nan", '"nan"', "-nan", '"-nan(ind)"')
    },
    **{
        spelling: (f'{{"loss": 1}}\n{{"loss": {spelling}}}\n', "loss", [1, -INF])
        for spelling in ("-Infinity", '"-inf"', "-inf", '"-Infinity"', "-1e999")
    },
    **{
        spelling: (
            f'{{"loss": {spelling}, "run": "{spelling}x"}}\n{{"loss": 9}}\n',
            "loss",
            [number, 9],
        )
        for spelling, number in (("007", 7), ("-01.5", -1.5), ("3.", 3), (".5", 0.5), ("+2", 2))
    },
}


@pytest.mark.parametrize(("text", "name", "values"), VALUES.values(), ids=VALUES)
def test_values_of_json_are_read(log, text, name, values):
    columns = log(text)
    column = columns.load(name)
    assert (columns.format, columns.bad_count, columns.notes) == ("jsonl", 0, ())
    assert column.present.tolist() == [value not in (None, "null") for value in values]
    assert column.null.tolist() == [value == "null" for value in values]
    numbers = [value for value in values if value not in (None, "null")]
    np.testing.assert_array_equal(column.values[column.present], numbers)


# A log with broken lines, the steps that are read, and the reason for each unreadable line.
BROKEN = {
    "all kinds": (
        '{"step": 1}\n{"step": 2, "lo\n\n[1]\n5\nhello\n{"step": 3}\n{"step": 4, "l',
        [1, 3],
        {
            2: "breaks off",
            4: "not an object but a list",
            5: "not an object but a number",
            6: "not JSON",
            8: "breaks off",
        },
    ),
    "the first": ('{"step": 1,\n{"step": 2}\n', [2], {1: "breaks off"}),
    "a record behind half a line": (
        '{"step": 1}\n{"step": 2, "lo{"step": 1}\n{"step": 2}\n',
        [1, 1, 2],
        {2: "not JSON"},
    ),
    "zeros that a crash leaves": (
        '{"step": 1}\n' + "\0" * 4096 + '\n{"step": 2}\n',
        [1, 2],
        {2: "contains NUL bytes"},
    ),
    "deep nesting": (
        '{"step": 1}\n' + '{"a":' * 100_000 + "1" + "}" * 100_000,
        [1],
        {2: "nested too deeply"},
    ),
    **{
        f"a number that breaks off: {tail}": (
            f'{{"step": 1, "loss": 2.5}}\n{{"step": 2, "loss": {tail}',
            [1],
            {2: "not JSON"},
        )
        for tail in ("1e", "1e-", "-", "+.", "1_0", "-in", "1.2.3")
    },
}


@pytest.mark.parametrize(("text", "steps", "bad"), BROKEN.values(), ids=BROKEN)
def test_broken_lines_are_reported_and_the_others_are_read(log, text, steps, bad):
    columns = log(text)
    assert columns.load("step").values.tolist() == steps
    reasons = {line.line: line.reason.partition(" (")[0] for line in columns.bad_lines}
    assert reasons == bad
    assert columns.bad_count == len(bad)


def test_keys_that_differ_in_every_record(log):
    columns = log("".join(f'{{"step": {n}, "loss_{n}": 1.0}}\n' for n in range(30_000)))
    assert columns.rows == 30_000
    assert columns.load("loss_7").present.sum() == 1


def test_a_line_without_end(log):
    columns = log(b'{"step": 1}\n{"a": "' + b"x" * (70 << 20) + b'"}\n{"step": 2}\n')
    assert columns.load("step").values.tolist() == [1, 2]
    assert [(bad.line, bad.reason) for bad in columns.bad_lines] == [(2, "breaks off")]


def test_words_become_codes(log):
    mode = log('{"mode": "train"}\n{"mode": "val"}\n{"mode": "train"}\n{"x": 1}\n').load("mode")
    assert mode.is_text
    assert mode.values[0] == mode.values[2] != mode.values[1]
    assert mode.present.tolist() == [True, True, True, False]


def test_a_stray_word_among_numbers_is_counted(log):
    loss = log('{"loss": 1}\n{"loss": "oops"}\n{"loss": 2}\n').load("loss")
    assert loss.present.tolist() == [True, False, True]
    assert loss.null.tolist() == [False, True, False]
    assert (loss.is_text, loss.strays) == (False, 1)


def test_only_the_first_bad_lines_are_kept(log):
    columns = log('{"step": 1}\n' + "oops\n" * 100)
    assert columns.bad_count == 100
    assert len(columns.bad_lines) == 20


def test_half_a_character_is_not_a_name(log):
    for name in log('{"\\ud800": 1, "b": 2}\n').names:
        name.encode()


CONFIG = '{"config": {"lr": 0.5, "fp16": true, "total_steps": 400, "lr_floor": 0.25}}\n'


def test_a_configuration_at_the_start_is_not_a_series(tmp_path, log):
    text = CONFIG + "".join(f'{{"step": {n}, "loss": 2.5}}\n' for n in range(40))
    columns = log(text)
    assert columns.names == ("step", "loss")
    settings = {"lr": 0.5, "fp16": True, "total_steps": 400, "lr_floor": 0.25}
    assert columns.config == {"config": settings}
    report = diagnose(tmp_path / "run.jsonl")
    assert "lr" not in report.history.series
    manifest = report.manifest
    assert (manifest.dtype, manifest.peak_lr, manifest.total_steps) == ("fp16", 0.5, 400)
    growing = reader("jsonl").growing()
    for block in blocks(Stream("run", io.BytesIO(text.encode())), size=200):
        growing.add(block)
    grown = growing.columns(Stream("run", io.BytesIO(b"")))
    assert (grown.names, grown.config) == (columns.names, columns.config)


def test_a_later_configuration_is_not_a_series(log):
    head = '{"step": 1, "loss": 2.5, "opt_args": {"lr": 1}}\n' * 30
    assert log(head + CONFIG).names == ("step", "loss")
    assert log('{"configs": {"lr": 1}, "loss": 2.5}\n' * 2).names == ("configs/lr", "loss")
    assert log(CONFIG).names == (
        "config/lr",
        "config/fp16",
        "config/total_steps",
        "config/lr_floor",
    )


def test_a_word_in_all_records_is_a_setting(tmp_path, log):
    def text(*words):
        return "".join(
            f'{{"step": {n}, "loss": 2.5, "precision": {word}}}\n' for n, word in enumerate(words)
        )

    assert log(text(*['"bfloat16"'] * 40)).config == {"precision": "bfloat16"}
    assert diagnose(tmp_path / "run.jsonl").manifest.dtype == "bf16"
    assert log(text('"fp16"', "null", '"fp16"')).config == {"precision": "fp16"}
    assert log(text('"fp16"', '"bf16"')).config == {}
    assert log(text("0.5", "0.75")).config == {}
    assert log(text('"bf16"', '"bf16"', '"bf16"', "16")).config == {}


def test_a_document_in_a_file_of_lines(log):
    for text in (
        '{\n"loss": [2.5, 2.25]}',
        '{"loss":\n[2.5, 2.25]}',
        '{"loss": [2.5,\n2.25]}',
        '{"loss": [2.5,\n-2.25], "x": 1}',
    ):
        columns = log(text)
        assert (columns.format, columns.rows) == ("json", 2)


@pytest.mark.parametrize("text", ["{}", "{}\n{}\n", '{"loss": {}}\n'])
def test_records_without_a_value(log, text):
    with pytest.raises(NoUsableRecord, match="nothing was logged yet, its records are empty"):
        log(text)


def test_a_log_without_records_is_an_error(log):
    with pytest.raises(NoUsableRecord, match=r"run\.jsonl: no record could be read .*expected one"):
        log('{"step": 1, "lo')


def test_large_logs_take_the_arrow_path(log):
    pad = "x" * 90
    row = f'{{"step": %d, "loss": 0.5, "lr": "1e-3", "mode": "train", "pad": "{pad}"}}\n'
    lines = [row % step for step in range(40_000)]
    columns = log("".join(lines))
    assert columns.load("step").values.tolist() == list(range(40_000))
    assert set(columns.load("lr").values) == {1e-3}
    assert columns.load("mode").is_text
    lines.insert(30_000, '{"a":' * 100_000 + "1" + "}" * 100_000 + "\n")
    columns = log("".join(lines))
    assert (columns.rows, columns.bad_count) == (40_000, 1)


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_an_object_that_breaks_off_at_the_end_is_not_left_out(tmp_path, end):
    path = tmp_path / "run.jsonl"
    losses = 2 + np.exp(-np.arange(40) / 9)
    records = "".join(f'{{"step": {n}, "loss": {loss:.4f}}}\n' for n, loss in enumerate(losses))
    path.write_text(f'{records}{{"step": 40, "loss": 2.0{end}')
    assert diagnose(path).diagnosis.slug == "healthy"
    path.write_text(f'{records}{{"step": 40, "loss": 2.0, "eval_loss": null, "grad_no\n')
    assert diagnose(path).diagnosis.slug == "healthy"
    path.write_text(f'{records}{{"step": 40, "loss": null, "grad_no\n')
    assert diagnose(path).diagnosis.slug == "partly-read"
    path.write_text(f'{records}{{"step": 40, "loss": NaN, "grad_no\n')
    assert diagnose(path).diagnosis.slug in ("nan-dtype-unknown", "partly-read")
    path.write_text(f'{records}{{"step": 40, "loss": 2.0\n' + '{"step": 41, "lo\n')
    assert diagnose(path).diagnosis.slug == "partly-read"


@pytest.mark.parametrize("records", [300, 30_000], ids=["tolerant", "fast"])
@pytest.mark.parametrize("key", ["name", "metric", "key", "tag", None])
def test_a_list_of_named_values_has_a_column_for_each(tmp_path, records, key):
    path = tmp_path / "run.jsonl"
    with path.open("w") as file:
        for step in range(records):
            pairs = [["loss", 2 + 1 / (step + 1)], ["lr", 0.1]]
            values = pairs if key is None else [{key: n, "value": value} for n, value in pairs]
            file.write(json.dumps({"step": step, "metrics": values}) + "\n")
    series = read(path).series
    assert (series["loss"].column, series["lr"].column) == ("metrics/loss", "metrics/lr")
    assert len(series["loss"]) == records
    assert np.isfinite(series["loss"].values).all()


def test_a_nan_that_breaks_off_is_one(log):
    columns = log('{"step": 1, "loss": 2.5}\n{"step": 2, "loss": nan(')
    assert np.isnan(columns.load("loss").values[1])
    assert columns.bad_count == 0


RECORDS = [f'{{"step": {n}, "loss": {3 - n / 1000}}}' for n in range(2000)]


def test_records_may_share_a_very_long_line(log):
    columns = log("".join(RECORDS))
    np.testing.assert_allclose(columns.load("loss").values, 3 - np.arange(2000) / 1000)


@pytest.mark.parametrize("value", ["NaN", "null", "nan", '"N/A"'])
def test_a_loss_that_fails_on_a_very_long_line_of_records(tmp_path, value):
    failed = [f'{{"step": {n}, "loss": {value}}}' for n in range(2000, 2100)]
    path = tmp_path / NAME
    path.write_text("".join([*RECORDS, *failed]))
    assert diagnose(path).diagnosis.severity == "error"


def test_a_record_that_breaks_off_on_a_very_long_line(log):
    columns = log("".join([*RECORDS, '{"step": 2000, "loss": 1']))
    assert columns.rows == 2000
    assert columns.bad_lines[0].text == '{"step": 2000, "loss": 1'
    assert not columns.left_out


@pytest.mark.parametrize("end", ["loss is nan", '{"step": 2000, "loss": nan'])
def test_what_follows_the_records_of_a_very_long_line_is_not_healthy(tmp_path, end):
    path = tmp_path / NAME
    path.write_text("".join([*RECORDS, end]))
    assert diagnose(path).diagnosis.severity != "ok"
