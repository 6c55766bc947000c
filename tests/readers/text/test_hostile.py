"""Random bytes, lines made to be slow, and lines made to be misread."""

import io
import re
import time
import tracemalloc
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stabdiag.errors import LogError
from stabdiag.model.patterns import LazyPattern
from stabdiag.readers.blocks import blocks
from stabdiag.readers.registry import TEXT_READERS, reader
from stabdiag.readers.source import Stream
from stabdiag.readers.text.evidence import examined_log
from stabdiag.readers.text.lines import counters, prefix, tokens
from stabdiag.readers.text.lines.clean import Text
from stabdiag.readers.text.lines.grammar import TEXT_BLOCK, Grammar, Line
from stabdiag.readers.text.messages import search as messages
from stabdiag.readers.text.messages.search import SORTS
from stabdiag.readers.text.names import normalization

SAMPLES = Path(__file__).parents[1] / "samples"
EVERY = pytest.mark.parametrize(
    "text_reader", TEXT_READERS, ids=lambda text_reader: text_reader.name
)

# For each format, which the fuzzer damages in a hundred thousand ways; more in a thorough run.
EXAMPLES = max(15, settings().max_examples // 4)

# Mutations: texts that grammars depend on, and bytes that break numbers.
BITS = [
    *(b"nan", b"-inf", b"1e999", b"9" * 50, b"1_0", b".", b"\0", b"\xff\xfe", b"\r", b"\n"),
    *(b"\x1b[", b"|", b": ", b"=", b"{", b"}", b"'", b'"', b"[default1]:", b" 3: "),
    *(b"iteration 1/ 2 |", b"step", b"loss", b"Traceback (most recent call last):\n"),
    *(b"CUDA error: ", b"\n\n"),
]


def outcome(text_reader, data):
    """Read data; a LogError is an answer, anything else is a fault."""
    text_reader.sniff(data, is_complete=True)
    try:
        columns = text_reader.read(Stream("run.log", io.BytesIO(data)))
    except LogError:
        return
    for name in columns.names:
        assert len(columns.load(name).values) == columns.rows


@EVERY
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=EXAMPLES)
@given(data=st.data())
def test_damaged_samples_are_read_or_refused(text_reader, data):
    files = sorted((SAMPLES / text_reader.name).iterdir())
    text = data.draw(st.sampled_from(files)).read_bytes()
    for _ in range(data.draw(st.integers(1, 6))):
        begin = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(begin, min(begin + 300, len(text))))
        bit = data.draw(st.sampled_from(BITS) | st.just(text[begin:end] * 2))
        text = text[:begin] + bit + text[end:]
    outcome(text_reader, text)


@EVERY
def test_a_log_may_be_cut_anywhere(text_reader):
    """All records before the cut are read; only the truncated record is lost."""
    path = min((SAMPLES / text_reader.name).glob("*.log"), key=lambda path: path.stat().st_size)
    text = path.read_bytes()
    before = 0
    for cut in range(len(text) - 360, len(text), 5):
        try:
            rows = text_reader.read(Stream("run.log", io.BytesIO(text[:cut]))).rows
        except LogError:
            rows = 0
        assert rows >= before - 1
        before = max(rows, before)
    assert before


def patterns():
    by_name = {}
    for text_reader in TEXT_READERS:
        grammar = text_reader.grammar() or Grammar(step="", kinds=())
        lines = [kind for kind in grammar.kinds if isinstance(kind, Line)]
        for number, line in enumerate(lines):
            own = {"pattern": line.pattern, "pairs": line.pairs, "signature": line.signature}
            every = {f"{text_reader.name} {number} {k}": p for k, p in own.items() if p is not None}
            by_name |= {name: re.compile(pattern) for name, pattern in every.items()}
        if grammar.config is not None:
            by_name[f"{text_reader.name} config"] = re.compile(grammar.config)
    by_name |= {f"message {sort.title}": sort.line for sort in SORTS}
    by_name |= {
        f"by signs {n}": pattern for n, (pattern, *_) in enumerate(counters._BY_PUNCTUATION)
    }
    rows = enumerate(normalization.NORMALIZATIONS)
    by_name |= {f"normalization {n}": re.compile(row.pattern) for n, row in rows}
    for module in (counters, messages, prefix, tokens):
        own = {k: v for k, v in vars(module).items() if isinstance(v, re.Pattern | LazyPattern)}
        by_name |= {f"{module.__name__.rpartition('.')[2]} {k}": v for k, v in own.items()}
    return by_name


def choices(parsed):
    """Return the maximal number of ways to match a pattern against a text that does not match."""
    ways = 1
    for op, arg in parsed:
        name = str(op)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            low, high, inner = arg
            assert str(high) != "MAXREPEAT", "a repetition without an upper bound"
            inside = choices(inner)
            if high > 1 and inside > 1:
                # A repetition of repetitions: the ways multiply.
                assert high <= 6, "a long repetition of what can itself be read in several ways"
                inside **= high
            ways *= max(high - low + 1, 1) * inside
        elif name == "SUBPATTERN":
            ways *= choices(arg[-1])
        elif name == "BRANCH":
            ways *= sum(choices(branch) for branch in arg[1])
        elif name in ("ASSERT", "ASSERT_NOT"):
            ways *= choices(arg[1])
    return ways


@pytest.mark.parametrize("name", patterns())
def test_patterns_stop_in_endless_lines(name):
    """The work at each place of a text has a bound, so that the whole is linear in its length."""
    parsed = import_module("re._parser").parse(patterns()[name].pattern)
    choices(parsed)


ADVERSARIAL = [
    *(b"iteration 1/ 2 |", b"iteration          1/           2 | a: 1", b"{'loss': {'loss': "),
    *(b"{'loss': 1, ", b"train_inner | {", b"epoch 1: 1 / 1 ", b"Epoch 0: ["),
    *(b" - step: 1  loss:  ", b"step:1/1 train_loss:", b"s:1 trl:", b"eta: 1  iter: 1  "),
    *(b"Iteration 1, ", b"\n 1: 1, 1 avg", b":::MLLOG {", b"step loss ", b"loss: 1 step"),
    *(b"a a a loss ", b"Generator Loss ", b"Losses: x 1, "),
    *(b"Traceback (most recent call last):\n ", b"rror Killed SIG inimum ", b"\x1b[", b"\x1b]"),
    *(b"    train", b"\t Train a", b"[step=", b"Attempted loss scale: 1", b" ", b"9", b"a"),
    b"\r",
]


@EVERY
def test_lines_that_are_made_to_be_slow(text_reader):
    """The time of a grammar grows at most in proportion to the length of the text."""
    for bit in ADVERSARIAL:
        spent = []
        for length in (2_500, 20_000):
            begun = time.process_time()
            outcome(text_reader, b"iteration 1/ 9 | lm loss: 1.0 |\n" + bit * (length // len(bit)))
            spent.append(time.process_time() - begun)
        # 8 times as long takes 8 times the time, and 64 times where it grows with the square.
        assert spent[1] < 32 * spent[0] + 0.3, bit


def test_losses_of_a_dict_without_an_end_are_read_once():
    """Each is a number and a loss, which gave two ways to match each line."""
    text = Text(b'  "loss": 2.31,\n' * 200)
    assert text.data.count(b"\n") == 201


def test_digits_in_place_of_scores_are_passed_over():
    """Read in every possible way, these digits would take years."""
    text = (
        b"\n      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size"
        b"\n       1/55      9.95G      2.235       5.07      2.977         12        640: 100%%|\n"
        b"                 Class     Images  Instances      Box(P          R      mAP50): 100\n"
        b"                   all       1049       1186  %b  0.9 words\n" % (b"0" * 200)
    )
    assert reader("yolo").read(Stream("run.log", io.BytesIO(text))).rows == 1


def test_a_line_without_an_end_is_skipped(monkeypatch):
    short = partial(blocks, longest=1000)
    monkeypatch.setattr(
        "stabdiag.readers.text.log.blocks",
        lambda stream, size, joined: short(stream, size=min(size, 500), joined=joined),
    )
    text = (
        b"iteration 1/ 9 | lm loss: 3.5 |\n"
        + b"x" * 5000
        + b"\niteration 2/ 9 | lm loss: 3.25 |\nKilled\n"
    )
    columns = reader("megatron").read(Stream("run.log", io.BytesIO(text)))
    assert columns.load("lm loss").values.tolist() == [3.5, 3.25]
    assert [event.line for event in columns.events] == [4]


class _Endless:
    """A log of warnings that is made while it is read, with a record here and there."""

    def __init__(self, size):
        self._left = size

    def read(self, size, /):
        if self._left <= 0:
            return b""
        self._left -= size
        line = b"node-3: UserWarning: 1Torch was not compiled with flash attention.\n"
        text = b"iteration %d/ 9 | lm loss: 3.5 |\nKilled\n" % self._left
        text += line * ((size - len(text)) // len(line))
        return text.ljust(size - 1) + b"\n"


def test_memory_does_not_grow_with_what_is_not_kept():
    peaks = []
    for size in (1 << 21, 1 << 24):
        tracemalloc.start()
        columns = reader("megatron").read(Stream("run.log", _Endless(size)))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert columns.rows == size // TEXT_BLOCK
    assert peaks[1] < peaks[0] + (1 << 20)


def test_counters_are_searched_once_for_all_loss_candidates(monkeypatch):
    text = b"".join(b"epoch 1\n%b: 0.5\n" % word for word in (b"cost", b"nll", b"mse") * 100)
    lengths = []

    def searched(data):
        lengths.append(len(data))
        return counters.find_headings(data)

    monkeypatch.setattr(examined_log, "find_headings", searched)
    assert not reader("text").sniff(text, is_complete=True)
    assert sum(length > 100 for length in lengths) == 1
