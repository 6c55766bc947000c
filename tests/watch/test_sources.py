"""Sources that a watch can follow, and how they are recognized."""

import json
import os
import time
from contextlib import closing, contextmanager

import pytest

from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.readers.columns import every_column
from stabdiag.sources import ReadRequest
from stabdiag.watch import open_source
from stabdiag.watch.sources import WatchedFile


@contextmanager
def opened(*logs, format=None):
    source = open_source(
        [str(log) for log in logs], ReadRequest(format=format, is_required=every_column)
    )
    with closing(source):
        yield source


def rows(source):
    return source.read(is_complete=True).columns.rows


def test_a_file_is_looked_at_again_when_it_has_grown(tmp_path):
    log = tmp_path / "run.jsonl"
    with opened(log) as source:
        assert not source.look()
        with pytest.raises(NoUsableRecord, match=r"run\.jsonl: no such file"):
            source.read(is_complete=True)
        log.write_text('{"step": 1, "loss": 2.5}\n', encoding="utf-8")
        assert source.look()
        assert not source.look()
        assert rows(source) == 1
        assert not source.ended


def test_sidecars_are_found_when_they_appear(tmp_path):
    log = tmp_path / "run.jsonl"
    log.write_text('{"step": 1, "loss": 2.5}\n', encoding="utf-8")
    with opened(log) as source:
        source.look()
        assert source.read(is_complete=False).manifest.dtype is None
        (tmp_path / "manifest.json").write_text('{"dtype": "bf16"}', encoding="utf-8")
        os.utime(tmp_path, ns=(1, 1))  # as if some time had passed
        assert source.read(is_complete=False).manifest.dtype == "bf16"
        log.unlink()
        (tmp_path / "manifest.json").unlink()
        tmp_path.rmdir()
        assert source.read(is_complete=False).manifest.dtype == "bf16"


def test_a_folder_that_comes_later_is_a_place(tmp_path):
    folder = tmp_path / "logs"
    with opened(folder) as source:
        assert isinstance(source, WatchedFile)
        source.look()
        folder.mkdir()
        lines = "".join(f'{{"step": {n}, "loss": 2.5}}\n' for n in range(9))
        (folder / "metrics.jsonl").write_text(lines, encoding="utf-8")
        assert source.look()
        assert rows(source) == 9


@pytest.mark.parametrize("name", ["trainer_state.json", "log.json"])
def test_a_document_is_read_again_as_a_whole(tmp_path, name):
    log = tmp_path / name
    key = "log_history" if name == "trainer_state.json" else "rows"
    with opened(log) as source:
        for count in (3, 5):
            records = [{"step": n, "loss": 2.5} for n in range(count)]
            log.write_text(json.dumps({"at": count, key: records}, indent=1), encoding="utf-8")
            os.utime(log, ns=(count, count))
            while not source.look():  # not each time, so that looking takes no time
                time.sleep(0.001)
            assert rows(source) == count


def test_lines_are_appended_after_a_first_line_in_two_parts(tmp_path, lines):
    log = tmp_path / "run.jsonl"
    text = "".join(lines(30))
    with opened(log) as source, log.open("w", encoding="utf-8") as file:
        for part in (text[:9], text[9:]):
            file.write(part)
            file.flush()
            assert source.look()
        assert rows(source) == 30
        assert source._other is None


def test_a_document_on_one_line_in_two_parts_is_read_again(tmp_path):
    log = tmp_path / "log.json"
    with opened(log) as source:
        for count in (3, 5):
            text = json.dumps({"rows": [{"step": n, "loss": 2.5} for n in range(count)]})
            log.write_text(text[:-9], encoding="utf-8")
            source.look()
            log.write_text(text, encoding="utf-8")
            os.utime(log, ns=(count, count))
            while not source.look():
                time.sleep(0.001)
            assert rows(source) == count


def test_a_format_that_is_named_is_taken(tmp_path):
    log = tmp_path / "run.txt"
    log.write_text('{"step": 1, "loss": 2.5}\n', encoding="utf-8")
    with opened(log, format="jsonl") as source:
        source.look()
        assert source.read(is_complete=False).columns.format == "jsonl"


def test_a_log_that_is_lost_for_a_moment_is_read_again(tmp_path, lines):
    log = tmp_path / "run.jsonl"
    log.write_text("".join(lines(30)), encoding="utf-8")
    with opened(log) as source:
        source.look()
        assert isinstance(source, WatchedFile)
        os.close(source._tail._file.fileno())
        assert not source.look()
        assert source.look()
        assert rows(source) == 30


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with a name")
def test_watch_does_not_wait_for_a_pipe_with_the_name_of_a_log(tmp_path, lines):
    log = tmp_path / "run.jsonl"
    log.write_text("".join(lines(30)), encoding="utf-8")
    with opened(log) as source, opened(log, tmp_path / "other.jsonl") as both:
        source.look()
        log.unlink()
        os.mkfifo(log)
        assert not source.look()
        assert rows(source) == 30
        with pytest.raises(LogError, match="a pipe cannot be watched together with other logs"):
            both.read(is_complete=False)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with a name")
def test_a_pipe_that_comes_later_is_read(tmp_path, lines):
    log = tmp_path / "run.jsonl"
    with opened(log) as source:
        assert not source.look()
        os.mkfifo(log)
        assert not source.look()
        with log.open("w", encoding="utf-8") as file:
            file.writelines(lines(30))
        while not source.ended:
            source.look()
        assert rows(source) == 30


def test_rotated_logs_are_read_completely(tmp_path, lines):
    log = tmp_path / "run.jsonl"
    run = lines(60)
    log.write_text("".join(run[:20]), encoding="utf-8")
    with opened(log) as source:
        source.look()
        for begin in (20, 40):
            log.replace(tmp_path / f"run.jsonl.{begin}")
            log.write_text("".join(run[begin : begin + 20]), encoding="utf-8")
            source.look()
        columns = source.read(is_complete=False).columns
        assert columns.load("step").values.tolist() == list(range(60))
        assert [event.message for event in columns.events] == 2 * [
            "the log was rotated; the run continues in the new file"
        ]
