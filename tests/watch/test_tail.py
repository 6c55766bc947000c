"""Following a file: what is appended, and what happens to files that are logged to."""

import os

import pytest

from stabdiag.watch.tail import Continuation, Tail

OLD = b"step,loss\n0,5.0\n1,4.9\n"
LATER = b"step,loss\n900,2.0\n901,1.9\n"


@pytest.fixture
def log(tmp_path):
    return tmp_path / "run.csv"


@pytest.fixture
def tail(log):
    tail = Tail(log)
    yield tail
    tail.close()


def poll(tail):
    """Return the bytes of one poll, each part after its `Begin` unless it simply continues."""
    chunks = []
    for event in tail.events():
        chunks += [event.begin] * (event.begin is not Continuation.ON) + [event.data] * bool(
            event.data
        )
    return chunks


def append(log, data):
    with log.open("ab") as file:
        file.write(data)


def test_a_missing_file_is_awaited_and_then_only_new_bytes_are_read(tail, log):
    assert poll(tail) == []
    log.write_bytes(OLD)
    assert poll(tail) == [OLD]
    assert poll(tail) == []
    append(log, b"2,4")
    append(log, b".8\n")
    assert poll(tail) == [b"2,4.8\n"]


def test_a_rotated_log_goes_on_in_another_file(tail, log):
    log.write_bytes(OLD)
    poll(tail)
    log.rename(log.with_suffix(".1"))
    append(log.with_suffix(".1"), b"2,4.8\n")
    assert poll(tail) == [b"2,4.8\n"]
    log.write_bytes(LATER)
    append(log.with_suffix(".1"), b"3,4.7\n")
    assert poll(tail) == [b"3,4.7\n", Continuation.NEXT, LATER]


def test_a_header_alone_does_not_identify_a_log(tail, log):
    log.write_bytes(OLD)
    poll(tail)
    log.rename(log.with_suffix(".1"))
    log.write_bytes(b"step,loss\n")
    assert poll(tail) == []
    append(log, b"900,2.0\n")
    assert poll(tail) == [Continuation.NEXT, b"step,loss\n900,2.0\n"]


def test_a_copied_and_truncated_log_continues(tail, log):
    log.write_bytes(OLD)
    poll(tail)
    os.truncate(log, 0)
    assert poll(tail) == []
    append(log, LATER)
    assert poll(tail) == [Continuation.NEXT, LATER]


def test_a_log_truncated_to_a_checkpoint_is_reread(tail, log):
    log.write_bytes(OLD)
    poll(tail)
    os.truncate(log, len(OLD) - len(b"1,4.9\n"))
    append(log, b"1,4.7\n")
    assert poll(tail) == [Continuation.RESTARTED, b"step,loss\n0,5.0\n1,4.7\n"]


def test_a_truncated_log_is_reread_when_it_grows(tail, log):
    log.write_bytes(OLD)
    poll(tail)
    os.truncate(log, len(b"step,loss\n"))
    assert poll(tail) == []
    append(log, b"0,5.0\n1,4.7\n")
    assert poll(tail) == [Continuation.RESTARTED, b"step,loss\n0,5.0\n1,4.7\n"]


@pytest.mark.parametrize("by_name", [True, False])
def test_a_log_rewritten_each_time_is_one_log(tail, log, by_name):
    log.write_bytes(OLD)
    poll(tail)
    rewritten = OLD.replace(b"1,4.9", b"1,4.95") + b"2,4.8\n"
    if by_name:
        other = log.with_suffix(".new")
        other.write_bytes(rewritten)
        other.replace(log)
    else:
        log.write_bytes(rewritten)
    assert poll(tail) == [Continuation.RESTARTED, rewritten]


def test_a_log_that_is_written_over_by_a_longer_one_is_noticed(tail, log):
    log.write_bytes(OLD)
    poll(tail)
    log.write_bytes(2 * LATER)
    assert poll(tail) == [Continuation.NEXT, 2 * LATER]


def test_existing_content_is_read_in_several_chunks(tail, log, monkeypatch):
    monkeypatch.setattr("stabdiag.watch.tail._TAIL_READ_SIZE", 10)
    log.write_bytes(OLD)
    assert b"".join(part for part in poll(tail) if isinstance(part, bytes)) == OLD


def test_a_closed_file_is_reread_if_it_is_the_same(tail, log):
    log.write_bytes(OLD)
    poll(tail)
    tail.close()
    append(log, b"2,4.8\n")
    assert poll(tail) == [Continuation.RESTARTED, OLD + b"2,4.8\n"]
    tail.close()
    log.write_bytes(LATER)
    assert poll(tail) == [Continuation.NEXT, LATER]
