"""JSON lines: what counts as a value, and what is read around the broken lines."""

from __future__ import annotations

import io

import numpy as np
import pytest

from stabdiag import diagnose
from stabdiag.errors import NoUsableRecord
from stabdiag.readers.blocks import blocks
from stabdiag.readers.registry import reader
from stabdiag.readers.source import Stream

NAME = "run.jsonl"


def test_values(log):
    columns = log('{"step": 1, "loss": 2.5}\n{"step": 2, "loss": 2}\n')
    assert (columns.format, columns.rows, columns.names) == ("jsonl", 2, ("step", "loss"))
    assert columns.load("loss").values.tolist() == [2.5, 2.0]
    assert columns.bad_count == 0
    assert columns.notes == ()


@pytest.mark.parametrize("spelt", ["NaN", '"NaN"', "nan", '"nan"', "-nan", '"-nan(ind)"'])
def test_a_written_nan_is_present(log, spelt):
    loss = log(f'{{"loss": 1}}\n{{"loss": {spelt}}}\n').load("loss")
    assert loss.present.tolist() == [True, True]
    assert np.isnan(loss.values[1])


@pytest.mark.parametrize("spelt", ["-Infinity", '"-inf"', "-inf", '"-Infinity"', "-1e999"])
def test_a_written_infinity_is_present(log, spelt):
    loss = log(f'{{"loss": 1}}\n{{"loss": {spelt}}}\n').load("loss")
    assert loss.present.tolist() == [True, True]
    assert loss.values[1] == -np.inf


@pytest.mark.parametrize(
    ("spelt", "number"), [("007", 7), ("-01.5", -1.5), ("3.", 3), (".5", 0.5), ("+2", 2)]
)
def test_numbers_that_json_does_not_know(log, spelt, number):
    columns = log(f'{{"step": 1, "loss": {spelt}, "run": "{spelt}x"}}\n{{"step": 2, "loss": 9}}\n')
    assert columns.bad_count == 0
    assert columns.load("loss").values.tolist() == [number, 9]
    assert columns.load("run").words == (f"{spelt}x",)


def test_null_is_told_from_a_missing_key(log):
    loss = log('{"step": 1, "loss": 1}\n{"step": 2, "loss": null}\n{"step": 3}\n').load("loss")
    assert loss.present.tolist() == [True, False, False]
    assert loss.null.tolist() == [False, True, False]


def test_numbers_in_strings(log):
    columns = log('{"loss": "4.2", "lr": " 1e-3 "}\n{"loss": 4, "lr": "2e-3"}\n')
    assert columns.load("loss").values.tolist() == [4.2, 4.0]
    assert columns.load("lr").values.tolist() == [1e-3, 2e-3]


def test_truth_values_are_numbers(log):
    assert log('{"skipped": true}\n{"skipped": false}\n').load("skipped").values.tolist() == [1, 0]


def test_words_become_codes(log):
    mode = log('{"mode": "train"}\n{"mode": "val"}\n{"mode": "train"}\n{"x": 1}\n').load("mode")
    assert mode.is_text
    assert mode.values[0] == mode.values[2] != mode.values[1]
    assert mode.present.tolist() == [True, True, True, False]


def test_a_stray_word_among_numbers_is_counted(log):
    loss = log('{"loss": 1}\n{"loss": "oops"}\n{"loss": 2}\n').load("loss")
    assert loss.present.tolist() == [True, False, True]
    assert not loss.null.any()
    assert (loss.is_text, loss.strays) == (False, 1)


def test_nested_objects_are_flattened(log):
    columns = log('{"train": {"loss": 1, "acc": {"top1": 2}}, "step": 3}\n')
    assert columns.names == ("train/loss", "train/acc/top1", "step")


def test_a_list_of_numbers_gives_its_first(log):
    columns = log('{"step": 1, "lr": [0.1, 0.1], "one": ["2"], "words": ["a", "b"], "none": []}\n')
    assert columns.load("lr").values.tolist() == [0.1]
    assert columns.load("one").values.tolist() == [2.0]
    assert not columns.load("words").present.any()
    assert not columns.load("none").present.any()


def test_a_lone_record_is_no_document(log):
    assert log('{"lr": [0.1, 0.1], "loss": 1}').load("lr").values.tolist() == [0.1]


def test_the_last_of_equal_keys_holds(log):
    assert log('{"loss": 1, "loss": 2}\n').load("loss").values.tolist() == [2.0]
    assert log('{"a/b": 1, "a": {"b": 2}}\n').load("a/b").values.tolist() == [2.0]


def test_large_numbers(log):
    columns = log('{"big": 1e999, "id": 123456789012345678901234567890}\n')
    assert columns.load("big").values.tolist() == [np.inf]
    assert columns.load("id").values.tolist() == [1.2345678901234568e29]


def test_a_number_of_ten_thousand_digits(log):
    assert log('{"a": ' + "9" * 10_000 + "}\n").load("a").values.tolist() == [np.inf]


def test_broken_lines_are_counted_and_the_rest_is_read(log):
    columns = log('{"step": 1}\n{"step": 2, "lo\n\n[1]\n5\nhello\n{"step": 3}\n{"step": 4, "l')
    assert columns.load("step").values.tolist() == [1.0, 3.0]
    assert [bad.line for bad in columns.bad_lines] == [2, 4, 5, 6, 8]
    assert [bad.reason for bad in columns.bad_lines] == [
        "breaks off",
        "not an object but a list",
        "not an object but a number",
        "not JSON",
        "breaks off",
    ]


def test_a_broken_first_line(log):
    columns = log('{"step": 1,\n{"step": 2}\n')
    assert columns.load("step").values.tolist() == [2]
    assert columns.bad_lines[0].line == 1


def test_only_the_first_bad_lines_are_kept(log):
    columns = log('{"step": 1}\n' + "oops\n" * 100)
    assert columns.bad_count == 100
    assert len(columns.bad_lines) == 20


def test_two_objects_on_one_line(log):
    columns = log('{"step": 1}{"step": 2}\n{"step": 3} {"step": 4}\n')
    assert columns.load("step").values.tolist() == [1, 2, 3, 4]
    assert columns.bad_count == 0


def test_a_record_after_half_a_line_is_rescued(log):
    columns = log('{"step": 1}\n{"step": 2, "lo{"step": 1}\n{"step": 2}\n')
    assert columns.load("step").values.tolist() == [1, 1, 2]
    assert columns.bad_count == 1


def test_marks_and_line_ends_of_windows(log):
    columns = log(b'\xef\xbb\xbf{"step": 1}\r\n\r\n{"step": 2}\r\n')
    assert columns.load("step").values.tolist() == [1, 2]
    assert columns.bad_count == 0


def test_bytes_that_are_not_utf8(log):
    columns = log(b'{"step": 1, "note": "\xff"}\n{"step": 2, "\xfe": 1}\n')
    assert columns.load("step").values.tolist() == [1, 2]


def test_zeros_that_a_crash_leaves(log):
    columns = log(b'{"step": 1}\n' + b"\0" * 4096 + b'\n{"step": 2}\n')
    assert columns.load("step").values.tolist() == [1, 2]
    assert [bad.reason for bad in columns.bad_lines] == ["holds NUL bytes"]


def test_half_a_character_is_no_name(log):
    for name in log('{"\\ud800": 1, "b": 2}\n').names:
        name.encode()


def test_deep_nesting(log):
    deep = '{"a":' * 100_000 + "1" + "}" * 100_000
    columns = log(f'{{"step": 1}}\n{deep}\n')
    assert columns.rows == 1
    assert columns.bad_lines[0].reason == "nested too deeply"


CONFIG = '{"config": {"lr": 0.5, "fp16": true, "total_steps": 400, "lr_floor": 0.25}}\n'


def test_a_configuration_at_the_head_is_no_series(tmp_path, log):
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


def test_a_configuration_further_down_is_no_series_either(log):
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
    def text(*words: str) -> str:
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


def test_no_record(log):
    with pytest.raises(NoUsableRecord, match=r"run\.jsonl: no record could be read .*expected one"):
        log('{"step": 1, "lo')


class TestFast:
    """Logs that are large enough for Arrow."""

    @pytest.fixture
    def large(self, log):
        def write(*odd: str):
            row = (
                '{"step": %d, "loss": 0.5, "lr": "1e-3", "mode": "train", "pad": "'
                + "x" * 90
                + '"}'
            )
            lines = [row % step for step in range(40_000)]
            lines[30_000:30_000] = odd
            return log("\n".join(lines) + "\n")

        return write

    def test_it_is_read(self, large):
        columns = large()
        assert columns.rows == 40_000
        assert columns.load("step").values.tolist() == list(range(40_000))
        assert set(columns.load("lr").values) == {1e-3}
        assert columns.load("mode").is_text

    def test_keys_that_differ_in_every_record(self, log):
        columns = log("".join(f'{{"step": {n}, "loss_{n}": 1.0}}\n' for n in range(30_000)))
        assert columns.rows == 30_000
        assert columns.load("loss_7").present.sum() == 1

    def test_deep_nesting(self, large):
        columns = large('{"a":' * 100_000 + "1" + "}" * 100_000)
        assert columns.bad_count == 1

    def test_a_line_without_end(self, log):
        columns = log(b'{"step": 1}\n{"a": "' + b"x" * (70 << 20) + b'"}\n{"step": 2}\n')
        assert columns.load("step").values.tolist() == [1, 2]
        assert [(bad.line, bad.reason) for bad in columns.bad_lines] == [(2, "longer than 64 MB")]


@pytest.mark.parametrize("tail", ["1e", "1e-", "-", "+.", "nan(", "1_0", "-in", "1.2.3"])
def test_a_log_that_breaks_off_in_a_number(log, tail):
    columns = log(f'{{"step": 1, "loss": 2.5}}\n{{"step": 2, "loss": {tail}')
    assert columns.rows == 1
    assert [bad.line for bad in columns.bad_lines] == [2]
