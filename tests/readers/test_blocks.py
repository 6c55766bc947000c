"""Blocks of lines, and what is removed from them."""

import pytest

from stabdiag.readers.blocks import blocks
from stabdiag.readers.source import open_stream
from stabdiag.readers.text.lines.clean import Text


@pytest.mark.parametrize("reset", [b"[0m", b"[39m", b"[m"])
def test_colors_without_escapes_are_removed_next_to_other_brackets(reset):
    text = Text(b"[2026-01-05] step 1 [31mloss: 2.5%b\n" % reset)
    assert text.data == b"\n[2026-01-05] step 1 loss: 2.5\n"


def test_brackets_without_a_reset_are_kept():
    line = b"[0, 39] [31mloss: 2.5\n"
    assert Text(line).data == b"\n" + line


@pytest.mark.parametrize(
    "value", [b"tensor(2.5)", b"np.float32(2.5)", b"array([2.5])", b"Tensor(2.5, device='cuda:0')"]
)
def test_wrapped_values_are_unwrapped_next_to_other_parentheses(value):
    text = Text(b"time (ms): 3 (5) loss: %b\n" % value)
    assert text.data == b"\ntime (ms): 3 (5) loss: 2.5\n"


def test_parentheses_without_a_wrapper_are_kept():
    line = b"float (ms): 3 f(5) timer(2) array (7) loss: 2.5\n"
    assert Text(line).data == b"\n" + line


@pytest.mark.parametrize("end", ["", "\n", "\nhalf a line"])
@pytest.mark.parametrize("size", [8, 100, 1000, 5000])
def test_the_blocks_of_a_file_are_its_lines(tmp_path, size, end):
    log = tmp_path / "run.log"
    log.write_text("\n".join("x" * (at % 90) for at in range(100)) + end)
    with open_stream(log) as stream:
        stream.peek(50)
        parts = list(blocks(stream, size=size))
    assert b"".join(parts) == log.read_bytes()
    assert all(part.endswith(b"\n") for part in parts[:-1])


def test_a_file_is_cut_at_a_line_end_before_it_is_read(tmp_path):
    log = tmp_path / "run.log"
    log.write_bytes(b"0123456789\n" * 10)
    with open_stream(log) as stream:
        assert stream.read_lines(100) == b"0123456789\n" * 9
        assert stream.read_lines(100) == b"0123456789\n"
        assert stream.read_lines(100) == b""
