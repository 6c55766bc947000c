"""The fast and the tolerant reader return the same columns for any log."""

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stabdiag.errors import LogError
from stabdiag.readers.csv import log as csv
from stabdiag.readers.json import lines as jsonl
from stabdiag.readers.source import Stream

NAMES = [
    *("step", "loss", "lm loss", "a/b", "étape", "損失", 'q"uote', "back\\slash", "", "train"),
    *("precision", "config"),
]
SPELLINGS = [
    "NaN",
    "nan",
    "-nan",
    "Infinity",
    "-Infinity",
    "inf",
    "-inf",
    "+inf",
    "1e400",
    "-1E999",
]
WORDS = [
    *("", " ", "train", "val", "abc", "None", "null", "true", "False", "1_0", "0x1F"),
    *("2021-03-01", "[x]"),
]
PRINTED = ["[1.5]", "np.float64(-2)", "tensor(nan)", "tensor(1., grad_fn=<F>)", "[1, 2]"]
NUMBERS = ["0", "-0", "1", "-3", "1.5", "1e-3", " 4.2 ", "+7", ".5", "9007199254740993", "1" * 30]


def outcome(reader, data, path=None, **options):
    try:
        return reader.read(Stream("run", io.BytesIO(data), path=path), **options)
    except LogError as error:
        return str(error)


def assert_same(first, other):
    if isinstance(first, str) or isinstance(other, str):
        assert first == other
        return
    assert first.names == other.names
    assert first.rows == other.rows
    assert repr(first.config) == repr(other.config)  # NaN is not equal to itself
    assert (first.bad_lines, first.bad_count, first.notes) == (
        other.bad_lines,
        other.bad_count,
        other.notes,
    )
    for name in first.names:
        left, right = first.load(name), other.load(name)
        assert (left.is_text, left.strays) == (right.is_text, right.strays), name
        assert left.words == right.words, name
        for part in ("values", "present", "null"):
            np.testing.assert_array_equal(getattr(left, part), getattr(right, part), name)


def assert_ways_agree(reader, data, size):
    """Compare both readers on the same blocks."""
    assert_same(
        outcome(reader, data, small=-1, size=size), outcome(reader, data, small=1 << 40, size=size)
    )


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**25), 10**25),
    st.integers(0, 100),
    st.floats(),
    st.sampled_from(SPELLINGS + WORDS + NUMBERS + PRINTED),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner),
    max_leaves=4,
)
records = st.dictionaries(st.sampled_from(NAMES), values, max_size=5)

# Uniform records, which Arrow accepts, and arbitrary ones, which it mostly refuses.
KINDS = [
    st.floats(),
    st.integers(-100, 100),
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(NUMBERS),
    st.sampled_from(WORDS),
    st.sampled_from(SPELLINGS + NUMBERS + WORDS + PRINTED),
    st.sampled_from(PRINTED),
    st.sampled_from(["2021-03-01", "2021-03-01T10:00:00", "2024-02-29 00:00:00"]),
    st.booleans(),
    st.lists(st.floats(), max_size=2),
    st.none() | st.fixed_dictionaries({}, optional={"x": st.floats(), "y": st.none()}),
    st.fixed_dictionaries({"x": st.integers(0, 9)}, optional={"z": st.floats()}),
]


@st.composite
def uniform(draw):
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=4))
    kinds = {name: draw(st.sampled_from(KINDS)) for name in names}
    optional = draw(st.booleans())
    shape = st.fixed_dictionaries({}, optional=kinds) if optional else st.fixed_dictionaries(kinds)
    return draw(st.lists(shape, min_size=1, max_size=12))


def line_of(record, style):
    text = json.dumps(record, ensure_ascii=bool(style & 1))
    if style & 2:
        text = text.replace('": ', '":')
    if style & 4 and len(record) == 1:
        text = text[:-1] + ", " + text[1:]  # the same key twice
    if style & 8:
        text = text.replace("NaN", "nan").replace("Infinity", "inf")
    return text


BROKEN = ["", "   ", "\r", "{", "}", "[1, 2]", "5", '"text"', '{"loss": 1', '{"loss": 1} x', "null"]
GLUED = ['{"loss": 1}{"loss": 2}', '{"step": 5, "lo{"step": 3}', "\ufeff" + '{"loss": 1}', "\0\0"]


@given(
    st.one_of(uniform(), st.lists(records, max_size=8)),
    st.integers(0, 15),
    st.lists(st.tuples(st.integers(0, 12), st.sampled_from(BROKEN + GLUED)), max_size=2),
    st.integers(0, 12),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([1 << 22, 64, 200]),
)
def test_both_readers_of_json_lines_agree(rows, style, broken, cut, end, size):
    lines = [line_of(row, style) for row in rows]
    for place, line in broken:
        lines.insert(place, line)
    data = (end.join(lines) + end).encode()
    assert_ways_agree(jsonl, data[: len(data) - cut] if cut else data, size)


@given(uniform(), st.integers(0, 3), st.integers(0, 1))
def test_json_lines_that_arrow_accepts(rows, style, last_end):
    data = "\n".join(line_of(row, style) for row in rows).encode() + b"\n" * last_end
    assert_ways_agree(jsonl, data, 1 << 22)


@given(st.binary(max_size=60), st.integers(0, 40))
def test_json_lines_with_arbitrary_bytes(noise, place):
    data = b'{"step": 1, "loss": "x"}\n{"step": 2, "loss": "y", "lr": null}\n'
    assert_ways_agree(jsonl, data[:place] + noise + data[place:], 1 << 22)


TOKENS = [
    *("null", "NaN", "-Infinity", "nan", "inf", "007", "-01.5", "1.", ".5", "1.e5", "+1"),
    "1e400",
]
ODD_TOKENS = [
    *("true", '"x"', '"1"', "", "1 2", "1_0", "0x1F", "1.2.3", "[1]", '{"x": 1}', "1: 2", "1,"),
]


@given(
    st.lists(
        st.sampled_from(["step", "loss", "a/b", "étape", "null", "a,b", "a:b", "{a}"]), max_size=4
    ),
    st.lists(st.one_of(st.floats().map(repr), st.sampled_from(TOKENS)), min_size=4, max_size=40),
    st.none() | st.tuples(st.integers(0, 40), st.sampled_from(ODD_TOKENS)),
    st.none()
    | st.tuples(st.integers(0, 200), st.integers(0, 2), st.sampled_from([*b'{}",: \n\r1'])),
    st.sampled_from([": ", ":", " : "]),
    st.sampled_from([", ", ","]),
    st.sampled_from(["\n", "\r\n", " \n"]),
    st.sampled_from([1 << 22, 64]),
)
def test_json_lines_of_the_same_keys(names, tokens, odd, changed, colon, comma, end, size):
    names = names or ["loss"]
    if odd is not None:
        tokens.insert(*odd)
    width = len(names)
    rows = [tokens[at : at + width] for at in range(0, len(tokens) // width * width, width)]
    lines = [
        "{"
        + comma.join(f'"{name}"{colon}{token}' for name, token in zip(names, row, strict=True))
        + "}"
        for row in rows
    ]
    data = bytearray("".join(line + end for line in lines).encode())
    if changed is not None:
        place, length, byte = changed
        data[place : place + length] = bytes([byte])
    assert_ways_agree(jsonl, bytes(data), size)


OTHERS = [
    '{"step": 3, "val_loss": 1.5, "acc": NaN, "lr": null}',
    '{"val_loss": 1.5}',
    '{"loss": "x, y", "step": 2, "lr": 3, "a": 4}',
    '{"eval": {"loss": 1}}',
    '{"epoch": 1, "losses": [1, 2]}',
    '{"epoch": 1, "batches": [{"loss": 1}, {"loss": 2}]}',
    '{"étape": 1}',
    "{}",
    '{"step": 9, "loss": 2.5, "lr": 1e-3} {"step": 10}',
    '{"step": 9, "loss": 2.5, "lr": 1e-3,}',
    '{"lr": 1, "step": 9, "loss": 2, "lr": 2}',
    '{"step": 9, "loss": 2.5, "lr": 1e-3, "tag": null, "ok": true}',
]


@given(
    st.integers(1, 90),
    st.lists(st.tuples(st.integers(0, 90), st.sampled_from(OTHERS)), max_size=5),
    st.none() | st.tuples(st.integers(0, 90), st.sampled_from(BROKEN + GLUED)),
    st.none() | st.tuples(st.integers(0, 3000), st.sampled_from(["\r", "\n", "}", "{", ",", ":"])),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([1 << 22, 1000]),
)
def test_json_lines_with_a_few_other_ones(rows, others, broken, added, end, size):
    lines = [f'{{"step": {row}, "loss": {row / 7}, "lr": 1e-3}}' for row in range(rows)]
    for place, line in [*others, *([] if broken is None else [broken])]:
        lines.insert(place, line)
    text = "".join(line + end for line in lines)
    if added is not None:
        place, mark = added
        text = text[:place] + mark + text[place:]
    assert_ways_agree(jsonl, text.encode(), size)


cells = st.one_of(
    st.floats().map(repr),
    st.integers(-1000, 1000).map(str),
    st.sampled_from(SPELLINGS + WORDS + NUMBERS),
    st.sampled_from([f'"{text}"' for text in PRINTED]),
    st.sampled_from(['"1.5"', '""', '"a,b"', '"x ""y"""', 'a"b', '"a"b', '" 2 "', "é"]),
)
COLUMNS = ["step", "loss", " lr", "étape", "lm loss"]


@given(
    st.integers(1, 5),
    st.data(),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(0, 12),
    st.sampled_from([1 << 22, 64, 200]),
)
def test_both_readers_of_csv_agree(width, data, delimiter, end, cut, size):
    plain = data.draw(st.booleans())
    kinds = [
        data.draw(st.sampled_from([cells, st.floats().map(repr), st.sampled_from([*NUMBERS, ""])]))
        for _ in range(width)
    ]
    rows = data.draw(st.lists(st.tuples(*kinds), min_size=1, max_size=10))
    columns = ["", *COLUMNS][data.draw(st.integers(0, 1)) :][:width]
    if width > 1 and data.draw(st.booleans()):  # each line ends in a delimiter
        columns[-1], kinds[-1] = "", st.just("")
    lines = [delimiter.join(columns)]
    lines += [delimiter.join(str(number) for number in range(width))] * 3
    lines += [delimiter.join(row) for row in rows]
    if not plain:
        odd = ["", "  ", "# comment", "#1,2", "1,2,3,4,5,6,7", "1", "\0,\0", "step,loss", lines[0]]
        odd += [delimiter.join(["step", "new", "loss"][:width]), '1,"open', "x,y"]
        for place, line in data.draw(
            st.lists(st.tuples(st.integers(4, 12), st.sampled_from(odd)), max_size=3)
        ):
            lines.insert(place, line)
    text = (end.join(lines) + end).encode()
    assert_ways_agree(csv, text[: len(text) - cut] if cut else text, size)


@given(
    st.lists(st.sampled_from(["5", "2.5", "nan", "", "[1.5]", "x", "# 1", "1,2"]), max_size=8),
    st.booleans(),
    st.integers(0, 5),
    st.sampled_from([1 << 22, 16]),
)
def test_csv_without_a_header(odd, stepped, cut, size):
    lines = ["2.5", "2.25", "2", *odd]
    if stepped:
        lines = [f"{number},{line}" for number, line in enumerate(lines)]
    text = ("\n".join(lines) + "\n").encode()
    assert_ways_agree(csv, text[: len(text) - cut] if cut else text, size)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("logs") / "run.csv"


@given(
    st.lists(st.sampled_from(["1,2.5,3", "2,,3", "3,nan,4", "4,1,up", "5,1"]), min_size=5),
    st.sampled_from([0.0, 0.3, 0.9, 1.0, 5.0]),
    st.sampled_from([1 << 22, 16, 64]),
)
def test_csv_of_a_known_size(path, lines, share, size):
    # The file has the expected size, has grown, or has been truncated.
    data = "\n".join(["step,loss,gn", *["0,9,8"] * 20, *lines]).encode()
    path.write_bytes(b"x" * int(share * len(data)))
    assert_same(
        outcome(csv, data, path, small=-1, size=size), outcome(csv, data, small=1 << 40, size=size)
    )


@given(st.binary(max_size=40), st.integers(0, 40))
def test_csv_with_arbitrary_bytes(noise, place):
    data = b"step,loss,mode\n" + b"1,2,x\n" * 6
    assert_ways_agree(csv, data[: 15 + place] + noise + data[15 + place :], 1 << 22)


@pytest.mark.parametrize("depth", [20, 49, 50, 51, 80])
def test_deep_nesting_is_left_out_alike(depth):
    deep = '{"a":' * depth + "1" + "}" * depth
    data = "".join(f'{{"loss": {n}.5, "x": {deep}}}\n' for n in range(20)).encode()
    fast, slow = (
        jsonl.read(Stream("run.jsonl", io.BytesIO(data)), small=small) for small in (0, 1 << 20)
    )
    assert fast.names == slow.names
    assert len(fast.names) == 1 + (depth < 50)


PLAIN = [json.dumps({"step": n, "loss": 2.5}) for n in range(60)]
EXAMPLES = {
    "a list of times": [f'{{"loss": 2.5, "at": ["2026-01-02T03:04:{n:02}"]}}' for n in range(60)],
    "a null for a record": [*PLAIN[:30], "null", *PLAIN[30:]],
    "a blank line does not compensate for two records on one line": (
        ['{"lr": 1}', '{"lr": 2} {"step": 3}', '{"lr": null}', ""] * 3
    ),
}


@pytest.mark.parametrize("lines", EXAMPLES.values(), ids=EXAMPLES)
def test_both_readers_agree_on_the_examples(lines):
    assert_ways_agree(jsonl, "\n".join([*lines, ""]).encode(), 1 << 22)


def wide_line(record):
    return json.dumps({**{f"misc/{n}": n for n in range(80)}, **record}) + "\n"


@given(
    st.lists(
        st.fixed_dictionaries(
            {"step": st.integers(0, 99), "loss": st.none() | st.floats(0, 9)},
            optional={"lr": scalars, "eval/loss": st.floats(0, 9), "a{": st.just("]")},
        ),
        min_size=1,
        max_size=9,
    ),
    st.integers(1, 4),
)
def test_required_columns_of_wide_records(tmp_path_factory, rows, a_block):
    """The columns with a role are the same whether the others are skipped or not."""
    path = tmp_path_factory.mktemp("wide") / "run.jsonl"
    path.write_text("".join(map(wide_line, rows)), encoding="utf-8")
    size = len(wide_line(rows[0])) * a_block
    slow = jsonl.read(Stream("run", io.BytesIO(path.read_bytes())), small=1 << 40, size=size)
    stream = Stream("run", io.BytesIO(path.read_bytes()), path=path)
    stream.is_required = lambda name: not name.startswith("misc/")
    assert_same(jsonl.read(stream, small=-1, size=size), slow)
