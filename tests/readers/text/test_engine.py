"""The engine that all grammars share."""

import io
import re
from pathlib import Path

import numpy as np
import pytest

from stabdiag.readers.registry import TEXT_READERS
from stabdiag.readers.source import Stream
from stabdiag.readers.text.lines.clean import Text, inert
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, VALUE, Grammar, Line, Step
from stabdiag.readers.text.lines.prefix import NO_RANK, line_ranks, select_lines
from stabdiag.readers.text.lines.shapes import line_pattern
from stabdiag.readers.text.log import read_log

SAMPLES = Path(__file__).parents[1] / "samples"

A = Line(pattern=rb"a(\d{1,9}):(%b)" % NUMBER_PATTERN, names=("step", "a"))
B = Line(pattern=rb"b:(%b)" % NUMBER_PATTERN, names=("b",))


def table(text, *kinds, size=1 << 17, joined=False):
    grammar = Grammar(step="step", kinds=kinds, joined=joined, block=size)
    columns = read_log(Stream("run.log", io.BytesIO(text.encode())), "some", grammar)
    return {
        name: [
            value if is_present else None
            for value, is_present in zip(
                columns.load(name).values.tolist(), columns.load(name).present.tolist(), strict=True
            )
        ]
        for name in columns.names
    }


class TestText:
    def test_terminal_sequences_are_removed(self):
        text = Text(b"\x1b[1;31mred\x1b[0m\r\n\x1b]0;title\x07bar\rbaz\n", first_line=1)
        assert text.data == b"\nred\nbar\nbaz\n"

    def test_lines_by_their_number(self):
        text = Text(b"one\ntwo\rtwo\r\nthree\n", first_line=11)
        places = [text.data.index(word) for word in (b"one", b"two", b"three")]
        assert text.line_numbers(places).tolist() == [11, 12, 13]
        assert text.line_numbers([text.data.rindex(b"two")]) == 12

    def test_terminal_codes_become_inert(self):
        assert inert(b"a\x1b[31mb\tc\x07\xff\0d", 10) == "ab c � d"
        assert inert(b"x" * 50, 10) == "x" * 9 + "…"


class TestSteps:
    def test_the_step_of_the_line_before(self):
        assert table("a1:5\nb:6\nb:7\na2:5\n", A, B)["step"] == [1, 1, 1, 2]

    def test_before_the_first_that_is_named(self):
        assert table("b:6\na10:5\na20:5\n", A, B)["step"] == [0, 10, 20]
        assert table("b:6\na30020:5\na30040:5\n", A, B)["step"] == [30000, 30020, 30040]

    def test_the_next_steps_up_to_the_one_that_is_named(self):
        after = Line(pattern=B.pattern, names=("b",), step=Step.NEXT)
        assert table("a1:5\nb:6\nb:7\na9:5\nb:8\n", A, after)["step"] == [1, 2, 3, 9, 10]
        assert table("a1:5\nb:6\nb:7\nb:8\na3:5\n", A, after)["step"] == [1, 2, 3, 3, 3]

    def test_messages_belong_to_the_coming_step(self):
        coming = Line(pattern=B.pattern, names=("b",), step=Step.COMING)
        assert table("b:6\na1:5\nb:7\na9:5\nb:8\n", A, coming)["step"] == [1, 1, 9, 9, 9]

    def test_lines_with_only_the_step_are_read(self):
        clock = Line(pattern=A.pattern, names=("step", "a"), is_record=False)
        assert table("a1:5\nb:6\na2:5\nb:7\n", clock, B) == {"step": [1, 2], "b": [6, 7]}


class TestRecords:
    def test_blocks_of_any_size_give_the_same(self):
        text = "".join(f"a{n}:{n / 8}\nnoise\nb:{n / 4}\n" for n in range(50))
        expected = table(text, A, B)
        assert expected["a"][::2] == [n / 8 for n in range(50)]
        for size in (1, 7, 64, 1000):
            assert table(text, A, B, size=size) == expected
            joined = table(text, A, B, size=size, joined=True)
            assert joined["b"] == [n / 4 for n in range(50)]
            assert len(joined["step"]) == 50

    def test_a_joined_record_keeps_what_a_later_line_lacks(self):
        both = Line(
            pattern=rb"c(\d{1,9})(?: x(%b))?(?: y(%b))?" % (VALUE, VALUE),
            names=("step", "x", "y"),
        )
        assert table("c1 x2\nc1 y3\nc2 y4\n", both, joined=True) == {
            "step": [1, 2],
            "x": [2, None],
            "y": [3, 4],
        }

    def test_words_and_thousands_among_the_numbers(self):
        line = Line(pattern=rb"v:([^\n]{1,20})", names=("v",))
        values = table("v:1\nv:1,234\nv:none\nv:1e3\nv:nan\nv:word\nv:-inf\n", line)["v"]
        np.testing.assert_array_equal(
            np.array(values, dtype=float), [1, 1234, np.nan, 1000, np.nan, np.nan, -np.inf]
        )
        assert values[2] is None
        assert values[5] is None

    def test_names_and_values_of_changing_lines(self):
        line = Line(
            pattern=rb"r:([^\n]{1,80})", pairs=rb"(\w{1,9})=(%b)" % NUMBER_PATTERN, named=str.upper
        )
        assert table("r:x=1 y=2\nr:\nr: \nr:y=3 x=4 x=5\n", line) == {
            "X": [1, 4],
            "Y": [2, 3],
        }


class TestRanks:
    @pytest.mark.parametrize(
        ("line", "rank"),
        [
            (b"[default7]:loss", 7),
            (b"[rank12]: loss", 12),
            (b"[Rank 3] loss", 3),
            (b"[trainer0|2]:loss", 0),
            (b" 5: loss", 5),
            (b"[1,4]<stdout>: loss", 4),
            (b"Thu Jan  1 10:00:01 2026[1,4]<stderr>:loss", 4),
            (b"[1,mpirank:4,algo-1]<stdout>:loss", 4),
            (b"2026-01-05T10:00:00.123456Z [rank4]: loss", 4),
            (b"[GPU2] Epoch 1 | loss", 2),
            (b"Rank 6, Epoch 1, loss", 6),
            (b"2026-01-05 10:00:00 rank=7 loss", 7),
            (b"Device: cuda:1 Epoch 1/4 loss", 1),
            (b"(RayTrainWorker pid=4811, ip=10.1.2.3) epoch: 1, loss", 4811),
            (b"[100/2000] rank=3 loss", 3),
            (b"12:00 INFO [Rank 5] step 100 loss", 5),
            (b"step 100 effective_rank: 12 loss", NO_RANK),
            (b"step 100 mean rank 2.5 loss", NO_RANK),
            (b"GPU: 10 GB loss", NO_RANK),
            (b"GPU 10.5 loss", NO_RANK),
            (b"2026-01-05 10:00:00 4: loss", NO_RANK),
            (b"2026-01-05 loss", NO_RANK),
            (b"loss", NO_RANK),
        ],
    )
    def test_rank_is_read(self, line, rank):
        data = b"\nbefore\n" + line + b"\n"
        ranks = line_ranks(data, [data.index(b"loss")])
        assert (NO_RANK if ranks is None else ranks[0]) == rank

    def test_other_ranks_fill_steps_that_the_main_rank_lacks(self):
        # Rank 1 logs most steps; only rank 0 logs step 4.
        steps = np.array([1.0, 1, 2, 2, 3, 4, 4, 5])
        ranks = np.array([0, 1, 0, 1, 1, 0, 0, 1])
        kept = select_lines(np.zeros(8, int), steps, ranks, np.zeros(8, bool))
        assert kept.tolist() == [False, True, False, True, True, True, False, True]

    def test_each_kind_of_line_has_its_rank(self):
        kinds = np.array([0, 1, 0, 1])
        kept = select_lines(
            kinds, np.array([1.0, 1, 2, 2]), np.array([0, 7, 0, 7]), np.zeros(4, bool)
        )
        assert kept.all()

    def test_lines_without_a_rank_all_count(self):
        ranks = np.full(3, NO_RANK)
        assert select_lines(np.zeros(3, int), np.arange(3.0), ranks, np.zeros(3, bool)).all()


class TestFastPaths:
    """The fast path equals the slow path."""

    @pytest.mark.parametrize("text_reader", TEXT_READERS, ids=lambda text_reader: text_reader.name)
    def test_the_usual_shape_of_lines(self, text_reader, monkeypatch):
        text = b"".join(
            path.read_bytes() for path in sorted((SAMPLES / text_reader.name).iterdir())
        )

        def read():
            columns = text_reader.read(Stream("run.log", io.BytesIO(text)))
            return {name: columns.load(name) for name in sorted(columns.names)}

        monkeypatch.setattr("stabdiag.readers.text.lines.shapes._MIN_LINES", 1)
        fast = read()
        monkeypatch.setattr("stabdiag.readers.text.lines.shapes._MIN_LINES", 10**9)
        slow = read()
        assert list(fast) == list(slow)
        for name in slow:
            np.testing.assert_array_equal(fast[name].present, slow[name].present)
            np.testing.assert_array_equal(fast[name].values, slow[name].values)

    @staticmethod
    def pattern(line):
        matches = [*re.finditer(rb"(\w+): {1,9}(%b)" % NUMBER_PATTERN, line)]
        return line_pattern(
            line, [match.span(2) for match in matches], [match.span(1) for match in matches]
        )

    def test_a_shape_takes_other_numbers_and_blanks(self):
        lines = [b"eta: 1  [10:00:%02d] a:  %d  b: %g (50%%)" % (n, n, n / 7) for n in range(40)]
        pattern = self.pattern(lines[20])
        assert all(pattern.fullmatch(line) for line in lines)
        assert pattern.fullmatch(b"eta: 2  [1:00] a:    -1.5e-09  b: nan (1%)")
        for other in (b"eta: 1  [10:00:00] a: 1  c: 2 (50%)", lines[0] + b"x", b"", b"eta: 1"):
            assert pattern.fullmatch(other) is None

    @pytest.mark.parametrize(
        ("bar", "others"),
        [
            ("45%|####5     |", ["0%|          |", "100%|##########|"]),
            ("45%|████▌     |", ["0%|          |", "100%|██████████|"]),
            ("3 ━━━━╸━━━━━", ["0 ╺━━━━━━━━━", "7 ━━━━━━━━╸━", "10 ━━━━━━━━━━"]),
            ("3 [====>.....]", ["9 [=========>]", "1 [>.........]", "10 [==========]"]),
        ],
    )
    def test_a_shape_takes_bars_of_other_lengths(self, bar, others):
        pattern = self.pattern(f"{bar} 3/9 loss: 2.31".encode())
        assert all(pattern.fullmatch(f"{other} 4/9 loss: nan".encode()) for other in others)
        for cell in ("", "|", "| 4 |", "| loss |", "[x]"):
            assert pattern.fullmatch(f"45%{cell} 3/9 loss: 2.31".encode()) is None

    def test_a_shape_takes_other_words_after_the_last_value(self):
        pattern = self.pattern(b"step: 3 loss: 2.31 the cat sat on a mat17")
        assert pattern.fullmatch(b"step: 4 loss: 2.5 and an owl from far away")
        for words in (b"", b"the cat", b"the cat sat nan", b"a b c 3", b"a b c: 3", b"or a b c"):
            assert pattern.fullmatch(b"step: 4 loss: 2.5 %b" % words) is None

    @pytest.mark.parametrize(
        "tail", [" %s", " | %s", ", sample: '%s'", "  (%s, ü) ", "\t-> %s!", " nats [%s]"]
    )
    @pytest.mark.parametrize(
        "last", ["then grad norm nan", "or so it seems here", "lr 0.5", "a lr=0.5 b", "NaN in lr"]
    )
    def test_lines_with_changing_words_are_read_like_single_lines(self, last, tail, monkeypatch):
        words = ("owl", "cat17", "loss", "val:", "epoch", "rate=", "inner,", "none", "(infinite)")
        lines = [
            f"step {n} loss {3 - n / 100}{tail % ' '.join(words[n % k] for k in range(2, 9))}\n"
            for n in range(200)
        ]
        lines[50::20] = [f"step {n} loss {3 - n / 100}{tail % last}\n" for n in range(50, 200, 20)]

        def read():
            stream = Stream("run.log", io.BytesIO("".join(lines).encode()))
            columns = next(reader for reader in TEXT_READERS if reader.name == "text").read(stream)
            return {name: columns.load(name).values for name in sorted(columns.names)}

        fast = read()
        monkeypatch.setattr("stabdiag.readers.text.lines.shapes._MIN_LINES", 10**9)
        np.testing.assert_equal(fast, read())
        # "2.31 or so" is not a value.
        assert len(fast["loss"]) == (192 if tail % last == f" {last}" and "or so" in last else 200)

    def test_digits_of_a_name_are_not_other_numbers(self):
        pattern = self.pattern(b"acc1: 0.5 acc5: 0.75")
        assert pattern.fullmatch(b"acc1: 0.25 acc5: 0.5")
        assert pattern.fullmatch(b"acc5: 0.25 acc1: 0.5") is None

    def test_names_that_differ_by_a_digit_only(self, values):
        lines = "".join(f"step {n} loss_{n % 2 + 1}: {n}.5 aux: 1.0\n" for n in range(100))
        columns = values("text", lines)
        assert columns["loss_1"] == [n + 0.5 if n % 2 == 0 else None for n in range(100)]

    def test_the_later_line_of_a_record_wins(self):
        # A line with a trailing blank has another shape and takes the slow path.
        line = Line(
            pattern=rb"n(\d{1,9}) ([^\n]{1,99})",
            names=("step",),
            pairs=rb"(\w+): (%b)" % NUMBER_PATTERN,
        )
        lines = [f"n{n} a: {n}.5 b: {n}\nn{n} a: {n}.25 b: 7\n" for n in range(40)]
        text = "".join(lines).replace("n9 a: 9.5 b: 9\n", "n9 a: 9.5 b: 9 \n")
        columns = table(text, line, joined=True)
        assert columns["a"] == [n + 0.25 for n in range(40)]
        assert columns["b"] == [7] * 40

    def test_short_lines_name_their_rank(self, read):
        lines = "".join(f"{n % 2}: step {n // 2} loss {n}.5\n" for n in range(200))
        columns = read("text", lines)
        assert columns.load("loss").values.tolist() == [2 * n + 0.5 for n in range(100)]
        assert "2 ranks" in columns.notes[0]

    def test_whole_numbers_of_any_length(self, values):
        columns = values("text", f"iter 7: loss {'9' * 30}, time 1ms\niter 8: loss 1, time 2ms\n")
        assert columns["step"] == [7, 8]
        assert columns["loss"] == [1e30, 1]


class TestRepeatedLines:
    WARNING = "UserWarning: worker {} of 8 restarts its loader\n"

    def read(self, last):
        """Read records, many blocks of one warning, and other lines."""
        records = "".join(f"a{step}:{1 + step / 8}\n" for step in range(20))
        repeated = "".join(self.WARNING.format(1 + n % 8) for n in range(2000))
        text = records + repeated + last
        grammar = Grammar(step="step", kinds=(A,), block=1 << 12)
        columns = read_log(Stream("run.log", io.BytesIO(text.encode())), "some", grammar)
        return columns, text

    def test_records_below_are_read(self):
        columns, _ = self.read("a20:0.5\na21:0.25\n")
        assert columns.load("a").values.tolist()[-3:] == [1 + 19 / 8, 0.5, 0.25]

    def test_a_message_below_is_found_on_its_line(self):
        columns, text = self.read("RuntimeError: CUDA error: an illegal memory access\n")
        (event,) = columns.events
        assert (event.line, event.step) == (text.count("\n"), 19)

    def test_a_message_that_repeats_is_counted(self):
        self.WARNING = "worker {}: CUDA error: an illegal memory access (error)\n"
        columns, _ = self.read("")
        assert columns.events[-1].message.endswith("(and 1995 more such lines)")


def test_lines_that_only_repeat_are_searched_once(monkeypatch):
    lines = "".join(f"UserWarning: worker {1 + n % 8} restarts\n" for n in range(50_000))
    cleaned = []
    monkeypatch.setattr(
        "stabdiag.readers.text.log.Text",
        lambda block, **given: cleaned.append(len(block)) or Text(block, **given),
    )
    assert table(f"a1:5\na2:6\n{lines}a3:7\n", A, size=1 << 14)["a"] == [5, 6, 7]
    assert sum(cleaned) < len(lines) / 4
