"""The bytes next to a sign, and the searches that depend on them."""

import pytest

from stabdiag.readers.blocks import bytes_after, bytes_before
from stabdiag.readers.text.clean import Text


@pytest.mark.parametrize(
    ("block", "before", "after"),
    [
        (b"", b"", b""),
        (b"[", b"", b""),
        (b"a[0m b[39m", b"ab", b"03"),
        (b"[[x", b"[", b"[x"),
        (b"no sign", b"", b""),
    ],
)
def test_the_neighbors_of_a_sign_are_returned_in_order(block, before, after):
    assert bytes_before(block, b"[") == before
    assert bytes_after(block, b"[") == after


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
