"""The forms of lines, and the searches in them."""

import pytest

from stabdiag.readers.text.lines.line_forms import (
    may_contain,
    outline,
    possible_words,
    words_in,
)


def test_an_outline_has_each_form_of_a_line_once():
    text = b"step 1 loss 2.50\r\nstep 20 loss 2.25\nstep 31 loss 1.75\n"
    assert sorted(outline(text).split(b"\n")) == [b"", b"step 1 loss 1.11", b"step 11 loss 1.11"]


@pytest.mark.parametrize("text", [b"", b"ab", b"a NaN loss", b"loss loss", b"NaNNaN los"])
def test_words_of_three_bytes_or_more_are_found(text):
    words = (b"NaN", b"loss", b"a NaN", b"NaN l")
    assert words_in(text, words) == [word for word in words if word in text]
    assert words_in(text, ()) == []
    assert {*words_in(text, words)} <= {*possible_words(text, words)}


def test_words_with_digits_are_found_only_with_these_digits():
    text = b"error code: 0x80\nexit (2)\n"
    assert words_in(text, (b"code: 0x", b"code: 1x", b" (1)")) == [b"code: 0x"]
    assert may_contain(text, b"code: 1x")
    assert not may_contain(text, b"code: x")


def test_a_text_whose_lines_differ_may_contain_any_of_them():
    lines = [f"{name} loss {name * 7}" for name in map("{:x}".format, range(10**6, 10**6 + 3000))]
    text = "\n".join([*lines, "2024-05-06 10:11:12 NaN", "a1b"]).encode()
    for part in (b"loss f4", b" 2031-01-01 ", b"1999-05-06 10", b" NaN", b"a2b", b" l"):
        assert may_contain(text, b"other text", part) == (part != b" 2031-01-01 ")
