import pickle
import re

import pytest

from stabdiag.model.patterns import fixed_starts, lazy_pattern


def test_a_pattern_is_compiled_on_first_use(monkeypatch):
    compiled = []
    compile_pattern = re.compile
    monkeypatch.setattr(re, "compile", lambda *of: compiled.append(of) or compile_pattern(*of))
    pattern = lazy_pattern(rb"loss (\d)", re.IGNORECASE)
    assert compiled == []
    assert pattern.search(b"Loss 2")[1] == b"2"
    assert pattern.sub(rb"\1", b"LOSS 3") == b"3"
    assert compiled == [(rb"loss (\d)", re.IGNORECASE)]


def test_the_text_of_a_pattern_needs_no_compilation(monkeypatch):
    pattern = lazy_pattern("a|b")
    monkeypatch.setattr(re, "compile", None)
    assert pattern.pattern == "a|b"


def test_a_pattern_has_no_other_attributes():
    assert not hasattr(lazy_pattern("a"), "scanner")


def test_a_pattern_can_be_pickled():
    pattern = pickle.loads(pickle.dumps(lazy_pattern("(?P<step>a)", re.IGNORECASE)))
    assert pattern.fullmatch("A")["step"] == "A"
    assert pattern.groupindex == {"step": 1}


@pytest.mark.parametrize(
    ("pattern", "starts"),
    [
        (rb"loss is (nan|inf), stopping", (b"loss is ",)),
        (rb"train\.py:\d+|lr = \d", (b"train.py:", b"lr = ")),
        (rb"steps?: \d", (b"step",)),
        (rb"(?:rror|xception): ", ()),
        (rb"step|\d+ steps", ()),
        (rb"\nppl: ", ()),
        (rb"lr", ()),
        (rb"rate[|(]x", (b"rate",)),
    ],
)
def test_the_fixed_starts_of_a_pattern(pattern, starts):
    assert fixed_starts(pattern) == starts
