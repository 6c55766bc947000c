"""Records of the same keys and numbers alone: which blocks are read as such, and which are not."""

import json

import numpy as np
import pytest

from stabdiag.readers.json.arrow import read_uniform
from stabdiag.readers.words import ABSENT, NULL, NUMBER

LINES = '{"step": 1, "loss": 2.5}\n{"step": 2, "loss": 2.25}\n'


@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":")])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_numbers_are_read_to_the_last_digit(separators, end):
    rng = np.random.default_rng(3)
    columns = {"step": range(50), "損失": rng.normal(size=50), "w/0.a": 1e-300 * rng.random(50)}
    records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    text = end.join(
        json.dumps(record, separators=separators, ensure_ascii=False) for record in records
    )
    for block in (text, text + end):
        table = read_uniform(block.encode())
        assert (table.rows, list(table.names)) == (50, list(columns))
        for name, values in columns.items():
            piece = table.piece(name)
            assert piece.values.tolist() == list(values)


def test_null_and_nan_differ():
    table = read_uniform(b'{"loss":NaN,"lr":null}\n{"loss":-Infinity,"lr":1}\n')
    loss, lr = table.piece("loss"), table.piece("lr")
    assert np.array_equal(loss.values, [np.nan, -np.inf], equal_nan=True)
    assert loss.states.tolist() == [NUMBER, NUMBER]
    assert lr.states.tolist() == [NULL, NUMBER]


def test_a_few_other_lines_are_read_where_they_stand():
    lines = [f'{{"step": {step}, "loss": {step}.5}}' for step in range(30)]
    lines[7] = '{"step": 7, "val_loss": 1, "note": "a, b"}'
    lines[29] = '{"loss": null}'
    chunk = read_uniform("\n".join(lines).encode())
    assert (chunk.rows, list(chunk.names)) == (30, ["step", "loss", "val_loss", "note"])
    step, loss, val = (chunk.piece(name) for name in ("step", "loss", "val_loss"))
    assert step.values[:29].tolist() == list(range(29))
    assert step.states.tolist() == [NUMBER] * 29 + [ABSENT]
    assert loss.states[[6, 7, 8, 29]].tolist() == [NUMBER, ABSENT, NUMBER, NULL]
    assert np.flatnonzero(val.states == NUMBER).tolist() == [7]
    assert read_uniform("\n".join([*lines, *lines[7:8] * 3]).encode()) is None


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[1, 2]",
        '{"loss": 2.5, "step": 1}',
        '{"step": 1}',
        '{"step": 1, "lose": 2.5}',
        '{"step": 1, "loss": 2.5, "lr": 1}',
        '{"step": 1, "step": 2}',
        '{"step": 1, "loss": 2.5',
        '{"step": 1, "loss": 2.5}}',
        '{"step": 1, "loss": 2.5,',
        '{"step": 1, "loss": "2.5"}',
        '{"step": 1, "loss": true}',
        '{"step": 1, "loss": [2.5]}',
        '{"step": 1, "loss": }',
        '{"step": 1, "loss":}',
        '{"step": 1, "loss": 2.5} # warm',
        '{"step": 1:"loss": 2.5}',
    ],
)
def test_other_lines_are_not_read_as_records(line):
    assert read_uniform(LINES.encode()) is not None
    assert read_uniform(f"{LINES}{line}\n{LINES}".encode()) is None


@pytest.mark.parametrize(
    "line", ['{"step": 3,\r"loss": 2.5}', '{"step": 3, "loss": 2.5}\r7', "\r7"]
)
@pytest.mark.parametrize("blank", ["", "\n", "\n\n"])
@pytest.mark.parametrize("after", [0, 40])
def test_a_line_that_arrow_ends_elsewhere_is_left_to_others(line, blank, after):
    lines = LINES * 20 + blank + f"{line}\n" + LINES * after
    assert read_uniform(lines.encode()) is None


FIRST = ['"loss": 1}', '{{"loss": 1}', '{"a": 1, {"b": 1}', "{}", "", "x"]
MARKED = [json.dumps({key: 1}) for key in ("a:b", "a,b", "a}b", 'a"b', "a\\b", "")]


@pytest.mark.parametrize("line", FIRST + MARKED)
def test_a_first_line_of_another_kind_is_left_to_others(line):
    assert read_uniform(f"{line}\n".encode()) is None
    assert read_uniform((f"{line}\n" * 20).encode()) is None
