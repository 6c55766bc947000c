"""JSON documents: lists of records, objects of columns, states of the HF Trainer."""

from __future__ import annotations

import io
import json
import re
import time
import tracemalloc
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stabdiag import diagnose
from stabdiag import read as read_run
from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.model.history import EventKind
from stabdiag.readers import read_columns
from stabdiag.readers.json import stream as json_stream
from stabdiag.readers.json.document import read
from stabdiag.readers.json.tables import read_tables
from stabdiag.readers.source import Stream

RECORDS = [{"step": n, "loss": 9.0 - n, "text": 'a "b], {c} \\'} for n in range(1, 6)]
LOSSES = [2.5 - n / 64 for n in range(30)]
INDENTS = pytest.mark.parametrize("indent", [None, 2])


NAME = "run.json"


def values(columns, name: str) -> list[float | None]:
    column = columns.load(name)
    return [v if p else None for v, p in zip(column.values.tolist(), column.present, strict=True)]


@INDENTS
@pytest.mark.parametrize(
    ("document", "format"),
    [
        ({"best": 1, "log_history": RECORDS}, "trainer-state"),
        (RECORDS, "json"),
        ({"run": {"log": RECORDS}, "epochs": [1, 2]}, "json"),
        ({"step": [1, 2, 3, 4, 5], "loss": [8.0, 7.0, 6.0, 5.0, 4.0]}, "json"),
        ({"loss": {str(n): 9.0 - n for n in range(1, 6)}}, "json"),
        ({"name": "x", "step": [*range(1, 31)], "loss": [9.0 - n for n in range(1, 31)]}, "json"),
    ],
)
def test_shapes(log, document, format, indent):
    columns = log(json.dumps(document, indent=indent))
    assert columns.format == format
    assert values(columns, "step")[:5] == [1, 2, 3, 4, 5]
    assert values(columns, "loss")[:5] == [8, 7, 6, 5, 4]
    assert columns.bad_count == 0


def test_objects_over_several_lines_one_after_the_other(log):
    text = "\n".join(json.dumps(record, indent=2) for record in RECORDS)
    assert values(log(text), "loss") == [8, 7, 6, 5, 4]


def test_numbers_that_are_not_finite(log):
    text = '[\n{"step": 1, "loss": NaN},\n{"step": 2, "loss": nan},\n{"step": 3, "loss": "inf"}]'
    columns = log(text)
    np.testing.assert_array_equal(columns.load("loss").values, [np.nan, np.nan, np.inf])
    assert columns.load("loss").present.all()
    text = '[{"step": 1, "lrs": [1, 2], "loss": nan}, {"step": 2, "lrs": [1, 2], "loss": 2.5}]'
    np.testing.assert_array_equal(log(text).load("loss").values, [np.nan, 2.5])
    columns = log('{"loss": [1.5, nan, -inf], "word": ["a, b", "c]", "d"]}')
    np.testing.assert_array_equal(columns.load("loss").values, [1.5, np.nan, -np.inf])
    assert columns.load("word").is_text


def test_a_null_is_told_from_a_missing_key(log):
    columns = log([{"step": 1, "loss": None}, {"step": 2}, {"step": 3, "loss": 1.0}])
    assert columns.load("loss").null.tolist() == [True, False, False]
    assert columns.tells_null


def test_megatron_golden_values_in_both_forms(log):
    older = {
        "lm loss": {"start_step": 0, "end_step": 20, "step_interval": 5, "values": [9.0, 8.5, 8.0]},
        "num-zeros": {"start_step": 0, "end_step": 20, "step_interval": 5, "values": [3, 2, 1]},
    }
    newer = {
        "lm loss": {
            "start_step": 1,
            "end_step": 10,
            "step_interval": 5,
            "values": {"1": 9.0, "5": 8.5, "10": 8.0},
        },
        "iteration-time": {
            "start_step": 1,
            "end_step": 10,
            "step_interval": 5,
            "values": {"1": "nan", "5": "nan", "10": 0.2},
        },
    }
    columns = log(json.dumps(older, indent=2))
    assert values(columns, "step") == [0, 5, 10]
    assert values(columns, "lm loss") == [9.0, 8.5, 8.0]
    columns = log(json.dumps(newer, indent=2))
    assert values(columns, "step") == [1, 5, 10]
    assert values(columns, "iteration-time") == [None, None, 0.2]


@pytest.mark.parametrize("start", [1e180, 0.5, -1e308])
@np.errstate(all="ignore")  # as all that calls it has
def test_steps_that_are_none(log, start):
    columns = log({"lm loss": {"start_step": start, "step_interval": start, "values": LOSSES}})
    assert columns.names == ("lm loss/values",)


def test_the_state_tells_of_the_configuration(put):
    state = {
        "global_step": 40,
        "log_history": [{"step": n, "loss": 3.0 - 0.01 * n} for n in range(1, 41)],
        "max_steps": 4000,
        "save_steps": 500,
        "stateful_callbacks": {"X": {"args": {"max_steps": 3}}},
        "train_batch_size": 8,
    }
    path = put(json.dumps(state), "trainer_state.json")
    manifest = diagnose(path).manifest
    assert (manifest.total_steps, manifest.checkpoint_every, manifest.batch_size) == (4000, 500, 8)
    assert set(manifest.logged) == {"total_steps", "checkpoint_every", "batch_size"}
    given = diagnose(path, manifest={"max_steps": 100, "save_steps": 10}).manifest
    assert (given.total_steps, given.checkpoint_every, given.batch_size) == (100, 10, 8)


def test_the_mean_of_the_summary_is_no_loss(put):
    history = [{"step": n, "loss": 3.0 - 0.01 * n} for n in range(1, 41)]
    summary = {"step": 40, "train_loss": 50.0, "train_runtime": 12.5, "total_flos": 1e12}
    path = put(json.dumps({"log_history": [*history, summary]}), "trainer_state.json")
    loss = diagnose(path).history.series["loss"]
    assert (loss.column, len(loss), loss.values.max()) == ("loss", 40, 2.99)
    path.write_text(json.dumps({"log_history": [{"step": 1, "x": 1}, summary]}), encoding="utf-8")
    with pytest.raises(LogError, match="no column looks like a training loss"):
        diagnose(path)


def test_a_training_loss_of_another_name_beside_a_runtime_stays(log):
    history = [{"step": n, "train_loss": 3.0 - n} for n in (1, 2)]
    columns = log({"log_history": [*history, {"step": 2, "train_runtime": 12.5}]})
    assert values(columns, "train_loss") == [2.0, 1.0, None]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"loss": [1, 2], 3: [4]}', "not JSON, expecting a name in double quotes at '3: [4]}'"),
        ('{"loss": [1, 2] "lr": [3, 4]}', "not JSON, expecting a comma or } at '\"lr\": [3, 4]}'"),
        (
            '{"loss": [1, 2], "lr": abc, "on": [3, 4]}',
            "not JSON, expecting value at 'abc, \"on\": [3, 4]}'",
        ),
        ('{"loss": [1, 2], "lr"= 2}', "not JSON, expecting a : at '= 2}'"),
        ('{"loss": [1, 2], "lr"', "breaks off"),
        ('{"loss": [1, 2], "lr": [3, 4', "breaks off"),
    ],
)
def test_what_comes_before_a_fault_is_read(log, text, reason):
    columns = log(text, format="json")
    assert values(columns, "loss") == [1, 2]
    assert [bad.reason for bad in columns.bad_lines] == [reason]


@INDENTS
@pytest.mark.parametrize("key", ["log_history", None])
def test_cut_anywhere_every_whole_record_is_read(indent, key):
    document = {"best": None, key: RECORDS, "max_steps": 5} if key else RECORDS
    text = json.dumps(document, indent=indent).encode()
    ends = [match.end() for match in re.finditer(rb"(?<!\{c)\}", text)]
    for length in range(len(text)):
        tables = read_tables(Stream("run", io.BytesIO(text[:length])))
        found = sum(chunk.rows for chunk in tables.records.get((key,) if key else (), []))
        assert found == min(sum(end <= length for end in ends), len(RECORDS))
        assert len(tables.bad) <= 1


def test_a_broken_record_is_left_out(log):
    text = '[\n{"step": 1, "loss": 1},\n{"step": 2, "lo\x00ss": ,,},\n{"step": 3, "loss": 3}\n]'
    columns = log(text)
    assert values(columns, "step") == [1, 3]
    assert (columns.bad_count, columns.bad_lines[0].line) == (1, 3)


@pytest.mark.parametrize("orient", ["index", "columns", "records", "split", "table"])
@pytest.mark.parametrize("indent", [0, 2])
def test_what_pandas_writes(tmp_path, orient, indent):
    path = tmp_path / "history.json"
    frame = pd.DataFrame({"epoch": range(1, 31), "loss": 2 + 1 / np.arange(1, 31), "acc": 0.5})
    frame.loc[25:, "loss"] = np.nan
    frame.to_json(path, orient=orient, indent=indent)
    columns = read_columns(path)
    assert values(columns, "epoch") == [*range(1, 31)]
    assert [value is None for value in values(columns, "loss")] == [False] * 25 + [True] * 5
    diagnosis = diagnose(path).diagnosis
    assert (diagnosis.slug, diagnosis.step) == ("nan-dtype-unknown", 26)


@INDENTS
@pytest.mark.parametrize(
    ("key", "counter"),
    [("{}", "step"), ("step_{}", "step"), ("Iteration {}", "step"), ("epoch-{:03}", "epoch")],
)
def test_records_under_their_numbers(log, key, counter, indent):
    records = {key.format(n): {"train": {"loss": 9.0 - n}, "lr": 0.5} for n in (2, 3, 5, 8, 10)}
    columns = log(json.dumps({"seed": 1, "history": records}, indent=indent, sort_keys=True))
    assert values(columns, counter) == [2, 3, 5, 8, 10]
    assert values(columns, "history/train/loss") == [7.0, 6.0, 4.0, 1.0, -1.0]
    assert columns.config == {"seed": 1}


def test_settings_under_their_numbers_stay_settings(log):
    layers = {f"{n}": {"width": 8.0 * n} for n in range(4)}
    columns = log({"layers": layers, "loss": LOSSES})
    assert columns.config == {f"layers.{n}.width": 8.0 * n for n in range(4)}
    assert values(columns, "loss") == LOSSES


@pytest.mark.parametrize("key", ["fold_{}", "client{}", "{}_lr", "run {}"])
def test_what_else_has_a_number_is_no_step(log, key):
    columns = log({key.format(n): {"loss": 9.0 - n} for n in range(1, 6)})
    assert columns.rows == 1


@INDENTS
@pytest.mark.parametrize(
    "document",
    [
        {"train_loss": {"x": [*range(0, 60, 2)], "y": LOSSES}},
        {"data": [{"name": "train_loss", "x": [*range(0, 60, 2)], "y": LOSSES}]},
        [["step", "loss"], *zip(range(0, 60, 2), LOSSES, strict=True)],
        {"columns": ["step", "loss"], "data": [*zip(range(0, 60, 2), LOSSES, strict=True)]},
    ],
)
def test_curves_of_charts(put, document, indent):
    history = read_run(put(json.dumps(document, indent=indent), "run.json"))
    assert history.series["loss"].steps.tolist() == [*range(0, 60, 2)]
    assert history.series["loss"].values.tolist() == LOSSES
    assert history.source.records == len(LOSSES)


def test_a_curve_over_other_than_whole_numbers_keeps_its_values(log):
    columns = log({"loss": {"x": [n / 4 for n in range(30)], "y": LOSSES}})
    assert values(columns, "loss") == LOSSES


@INDENTS
@pytest.mark.parametrize(("key", "called"), [("label", "a #0"), ("comment", "0")])
def test_runs_that_each_hold_their_lists(log, key, called, indent):
    runs = [{key: "a", "train_loss": LOSSES}, {key: "b", "train_loss": LOSSES[::-1]}]
    columns = log(json.dumps({"runs": runs}, indent=indent))
    assert columns.rows == 30
    assert values(columns, f"runs/{called}/train_loss") == LOSSES


def test_the_losses_of_several_runs_make_no_sum(put):
    history = read_run(
        put(
            json.dumps([{"name": "a", "loss": LOSSES}, {"name": "b", "loss": LOSSES[::-1]}]),
            "runs.json",
        )
    )
    assert history.series["loss"].column == "a #0/loss"
    assert history.series["loss"].values.tolist() == LOSSES


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_losses_of_runs_by_name_make_no_sum(put, wrapped):
    runs = {
        "sgd": {"loss": LOSSES, "val_loss": LOSSES},
        "adam": {"loss": LOSSES[::-1], "val_loss": LOSSES},
    }
    history = read_run(put(json.dumps({"results": runs} if wrapped else runs), "runs.json"))
    assert history.series["loss"].column.endswith("sgd #0/loss")
    assert history.series["loss"].values.tolist() == LOSSES
    assert any("adam #1/loss" in event.message for event in history.events)


@pytest.mark.parametrize("names", [("train", "val"), ("generator", "discriminator")])
def test_splits_and_opponents_by_name_are_one_run(put, names):
    assert read_run(put(json.dumps({name: {"loss": LOSSES} for name in names}), "run.json")).series[
        "loss"
    ].column in ("train/loss", "discriminator/loss")


@INDENTS
def test_lists_under_their_epochs_follow_each_other(log, indent):
    document = {f"epoch_{n}": {"loss": LOSSES[3 * n : 3 * n + 3]} for n in (2, 0, 1, 3)}
    assert values(log(json.dumps(document, indent=indent)), "loss") == LOSSES[:12]
    folds = {str(n): {"loss": LOSSES} for n in range(4)}
    assert log(json.dumps(folds, indent=indent)).rows == 30


def test_a_chart_that_tensorboard_downloads(log):
    columns = log("[[1767225600.1, 1, 2.5], [1767225601.2, 2, NaN], [1767225602.3, 3")
    assert values(columns, "step") == [1, 2]
    np.testing.assert_array_equal(columns.load("value").values, [2.5, np.nan])
    assert columns.bad_count == 1


def test_what_is_left_out_is_said(log):
    columns = log({"loss": [3.0, 2.0, 1.0], "val_loss": [2.5], "layers": [{"name": "a"}]})
    assert columns.names == ("loss",)
    assert columns.notes == ("'val_loss' is left out: it has 1 values where others have 3",)
    columns = log({"train": RECORDS, "val": RECORDS[:2]})
    assert columns.notes == ("other lists of records are left out: val",)


@pytest.mark.parametrize("text", ["[]", "[[1, 2], [3, 4]]", "[[[1, 2, 3]]]", '{"a": [', "[{"])
def test_documents_without_a_table(log, text):
    with pytest.raises(NoUsableRecord, match=r"run\.json: no record could be read"):
        log(text)


@pytest.mark.parametrize("format", ["json", "trainer-state"])
def test_a_lone_number_is_no_table(log, format):
    with pytest.raises(NoUsableRecord, match=r"run\.csv: no record could be read"):
        log("44,,\n", "run.csv", format=format)


@pytest.mark.parametrize("text", ["5", '"log_history": [', '5 {"log_history": [{"loss": 1}]}'])
def test_a_state_that_is_none(log, text):
    with suppress(LogError):
        assert log(text, format="trainer-state").config == {}


@pytest.mark.parametrize("text", ['{"a": ' * 100_000, "[" * 100_000, '[{"a": ' + "[" * 100_000])
def test_deep_nesting_is_no_traceback(log, text):
    with pytest.raises(LogError):
        log(text)


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["step", "loss", "x/y"]),
            st.one_of(st.floats(), st.none(), st.text(max_size=4), st.integers(-9, 9)),
            min_size=1,
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([None, 1]),
    st.integers(1, 40),
)
def test_it_reads_what_json_reads_in_pieces_of_any_size(records, indent, size):
    text = json.dumps(records, indent=indent).encode()
    before = json_stream._READ
    json_stream._READ = size
    try:
        columns = read(Stream("run", io.BytesIO(text)))
    finally:
        json_stream._READ = before
    assert columns.rows == len(records)
    for name in columns.names:
        column = columns.load(name)
        if not column.is_text:
            for n, record in enumerate(records):
                if type(record.get(name)) in (int, float):
                    np.testing.assert_equal(column.values[n], float(record[name]))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
@pytest.mark.parametrize(
    "document",
    [
        {"step": [1, 2, 10], "loss": [2.5, -1e-05, 1000000.0]},
        {"loss": {"1": 2.5, "2": -1e-05, "10": 1000000.0}},
        [{"step": 1, "loss": 2.5}, {"step": 2, "loss": -1e-05}, {"step": 10, "loss": 1e6}],
        [{"step": s, "t": {"loss": x}} for s, x in [(1, 2.5), (2, -1e-05), (10, 1e6)]],
    ],
)
def test_no_number_is_cut_where_a_piece_ends(monkeypatch, document, size):
    monkeypatch.setattr(json_stream, "_READ", size)
    monkeypatch.setattr(json_stream, "_BUNCH", size)
    columns = read(Stream("run", io.BytesIO(json.dumps(document).encode())))
    assert values(columns, "step") == [1, 2, 10]
    name = next(name for name in columns.names if "loss" in name)
    assert values(columns, name) == [2.5, -1e-05, 1e6]


def test_a_large_document_does_not_grow_in_memory(tmp_path):
    record = '{"epoch": 0.1, "grad_norm": 0.84, "learning_rate": 3e-05, "loss": 2.31, "step": %d}'
    path = tmp_path / "trainer_state.json"
    with path.open("w", encoding="utf-8") as file:
        file.write('{"log_history": [')
        file.write(",\n".join(record % n for n in range(30_000)))
        file.write("]}")
    size = path.stat().st_size
    tracemalloc.start()
    try:
        assert read_columns(path).rows == 30_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * size


# Each as a start and what is repeated after it.
ODD = {
    "quotes in a string without end": ('[{"a": "', '\\"'),
    "backslashes": ('[{"a": "', "\\"),
    "records of another kind": ("[", '{"a": nan nan},'),
    "records within records": ("[", '{"a": {"b": [1]}},'),
    "lists within lists": ("[", "[1, 2],"),
    "words with brackets": ('{"a": [', '"],",'),
    "braces and blanks": ("[{", "}      "),
    "blanks": ("[{\n", " \n"),
    "numbers with brackets": ("[{", '"nan(": nan('),
    "blanks after a key": ('{"log_history"', " "),
    "an index": ('{"a": {', '"1": 2,'),
}


@pytest.mark.parametrize(("start", "more"), ODD.values(), ids=ODD.keys())
def test_the_time_grows_with_the_length_alone(tmp_path, start, more):
    def taken(length: int) -> float:
        path = tmp_path / "run.json"
        path.write_text(start + more * (length // len(more)), encoding="utf-8")
        begun = time.process_time()
        for format in (None, "json", "jsonl"):
            with suppress(LogError):
                read_columns(path, format=format)
        return time.process_time() - begun

    taken(1000)  # imports
    # A busy machine may take three times as long for either.
    short, long = taken(10_000), taken(160_000)
    assert long < 64 * short + 0.3  # 16 times as long, and 256 times where it grew with the square


def test_lists_of_values_beside_lists_of_their_steps(log):
    def metric(steps, values):
        return {
            "steps": steps,
            "timestamps": ["2026-01-02T03:04:05"] * len(steps),
            "values": values,
        }

    kept = {
        "training.loss": metric([0, 10, 20, 30], [4.0, 3.0, 2.5, 2.0]),
        "lr": metric([0, 20], [0.1, 0.05]),
    }
    columns = log(json.dumps(kept, indent=2))
    assert set(columns.names) == {"training.loss", "lr", "step"}
    assert values(columns, "step") == [0, 10, 20, 30]
    assert values(columns, "training.loss") == [4.0, 3.0, 2.5, 2.0]
    assert values(columns, "lr") == [0.1, None, 0.05, None]
    cut = log('{"loss": {"steps": [1, 2, 3], "values": [4.0, 3.0, nu')
    assert values(cut, "loss") == [4.0, 3.0]


def test_a_list_of_numbers_alone_holds_the_losses(log):
    for text in ("[2.5, 2.25, NaN, null, 2]", '[\n  2.5,\n  2.25,\n  "NaN",\n  null,\n  2\n]\n'):
        columns = log(text)
        assert (columns.format, columns.names, columns.unnamed) == ("json", ("loss",), True)
        loss = columns.load("loss")
        np.testing.assert_array_equal(loss.values, [2.5, 2.25, np.nan, np.nan, 2])
        assert loss.present.tolist() == [True, True, True, False, True]
        (event,) = columns.events
        assert event.kind is EventKind.COLUMN
        assert event.message == "a list of numbers without a name is taken as the loss"
    assert log("[2.5, 2.25, 2.0]", "valid_losses.json").names == ("valid_losses",)
    assert log("[0.5, 0.75, 0.875]", "accuracy.json").names == ("accuracy",)
    assert log("[2.5, 2.25, 2.0]", "run.jsonl").names == ("loss",)
    for cut in ("2", "2.", "2.5e", "2.5e-"):
        assert values(log(f"[2.5, 2.25, {cut}"), "loss") == [2.5, 2.25]


@pytest.mark.parametrize("text", ["[3, 1, 2, 7]", '["a.png", "b.png"]', '[2.5, "up", 2.25]'])
def test_a_list_that_may_hold_anything_is_not_guessed(log, text):
    with pytest.raises(NoUsableRecord, match="a list of values that may be anything; say what"):
        log(text, format="json")


def test_a_line_that_begins_with_a_bracket_is_no_list(log):
    text = "".join(f"[1, {n}] loss: {2.5 - n / 1e5}\n" for n in range(100, 3000, 100))
    assert log(text, "run.log").format == "text"


def test_pairs_that_begin_with_a_step(log):
    columns = log([[10, 2.5], [20, "NaN"], [40, 2.25]])
    assert values(columns, "step") == [10, 20, 40]
    np.testing.assert_array_equal(columns.load("loss").values, [2.5, np.nan, 2.25])
    assert "the first of each is taken as the step, the second as the loss" in str(columns.events)
    columns = log(
        {"train_loss": [[1, 2.5], [2, 2.25], [3, 2.0]], "acc": [[1, 0.5], [3, 0.75], [5, 1]]}
    )
    assert values(columns, "step") == [1, 2, 3, 5]
    assert values(columns, "train_loss") == [2.5, 2.25, 2.0, None]
    assert values(columns, "acc") == [0.5, None, 0.75, 1]
    assert not columns.unnamed


@pytest.mark.parametrize(
    "pairs",
    [
        [[2.5, 9], [2.25, 8], [2.0, 7]],
        [[1, 2.5], [1, 2.0], [2, 1.5]],
        [[n, 9.0 - n, 0.5] for n in range(1, 31)],
    ],
)
def test_other_pairs_are_not_guessed(log, pairs):
    with pytest.raises(NoUsableRecord, match="its lists of lists are no pairs that begin with a"):
        log(pairs)


@INDENTS
@pytest.mark.parametrize("train", ["train", "training"])
@pytest.mark.parametrize("val", ["val", "valid", "validation", "test"])
def test_lists_called_train_and_val_are_losses(tmp_path, train, val, indent):
    path = tmp_path / "history.json"
    lists = {train: [2.5 - n / 50 for n in range(40)], val: [2.75 - n / 50 for n in range(40)]}
    path.write_text(json.dumps({**lists, "best_epoch": 40, "device": "cpu"}, indent=indent))
    report = diagnose(path)
    assert report.history.series["loss"].values.tolist() == lists[train]
    assert report.history.series["eval_loss"].values.tolist() == lists[val]
    told = f"{train!r} is taken as the loss, {val!r} as that of an evaluation: the document has no"
    assert any(event.message.startswith(told) for event in report.history.events)
    chosen = diagnose(path, columns={"loss": val}).history
    assert chosen.series["loss"].values.tolist() == lists[val]


def test_of_lists_called_val_and_test_the_validation_counts(log):
    for names in (["test", "train", "val"], ["val", "test", "train"], ["train", "val", "test"]):
        columns = log({name: [2.5, 2.25, 2.0] for name in names})
        assert columns.names == (*names, "loss/train", "loss/val")
        (event,) = columns.events
        assert "'train' is taken as the loss, 'val' as that of an evaluation" in event.message


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"train": ["a.png", "b.png"], "val": ["c.png", "d.png"]}, "run.json"),
        ({"train": [1, 4, 2], "val": [3, 5, 0]}, "run.json"),
        ({"train": [0.5, 0.75, 0.8], "val": [0.5, 0.7, 0.7]}, "accuracy.json"),
        ({"train": [2.5, 2.0, 1.5], "score": [0.5, 0.7, 0.7]}, "run.json"),
        ({"acc": {"train": [0.5, 0.75, 0.8], "val": [0.5, 0.7, 0.7]}}, "run.json"),
    ],
)
def test_other_lists_called_train_are_not(log, document, name):
    columns = log(json.dumps(document, indent=2), name)
    assert not any("loss" in one for one in columns.names)
    assert not columns.unnamed


def test_lists_of_numbers_beside_records(log):
    records = [{"throughput": float(n)} for n in range(12_000)]
    lists = {
        "episode_rewards": [n / 2 for n in range(12_000)],
        "training_losses": [n / 4 for n in range(12_000)],
        "betas": [0.9, 0.999],
    }
    for document in ({"metrics": records, **lists}, {**lists, "metrics": records}):
        columns = log(document)
        assert set(columns.names) == {"throughput", "episode_rewards", "training_losses"}
        assert values(columns, "throughput") == [float(n) for n in range(12_000)]
        assert values(columns, "training_losses") == lists["training_losses"]


def test_a_table_with_a_loss_goes_before_a_longer_one_without(log):
    episodes = [{"reward": n} for n in range(9)]
    columns = log({"episodes": episodes, "losses": [2.5, 2.25, 2.0]})
    assert values(columns, "losses") == [2.5, 2.25, 2.0]
    columns = log({"episodes": episodes, "accuracies": [0.5, 0.75, 1.0]})
    assert columns.names == ("reward",)


@INDENTS
@pytest.mark.parametrize(
    ("document", "names"),
    [
        ({"history": []}, "'history'"),
        ({"train": {"loss": [], "acc": []}}, "'train/loss', 'train/acc'"),
        ({"log_history": []}, "'log_history'"),
        ([], "its list"),
    ],
)
def test_lists_without_a_value(log, document, names, indent):
    with pytest.raises(NoUsableRecord) as caught:
        log(json.dumps(document, indent=indent))
    assert str(caught.value).endswith(f"nothing was logged yet, no value is in {names}")


def test_where_a_document_is_no_json(log):
    with pytest.raises(NoUsableRecord) as caught:
        log('{"epoch":\n{\n0: 2.5,\n1: 2.25 }\n}\n')
    assert "line 3: not JSON, expecting a name in double quotes at '0: 2.5,'" in str(caught.value)


def test_a_configuration_in_the_records_is_no_series(log):
    records = [{"step": n, "loss": 2.5, "dtype": "fp16", "cfg": {"lr": 0.5}} for n in range(9)]
    columns = log(records)
    assert columns.names == ("step", "loss", "dtype")
    assert columns.config == {"dtype": "fp16"}


def test_an_evaluation_before_the_first_step(log):
    columns = log({"loss": [2.5, 2.25, 2.0], "val_loss": [3.0, 2.75, 2.5, 2.25], "lr": [1, 2, 3]})
    assert columns.names == ("loss", "lr")
    assert columns.notes == ("'val_loss' is left out: it has 4 values where others have 3",)
    columns = log({"train": [2.5, 2.25, 2.0], "val": [3.0, 2.75, 2.5, 2.25]})
    assert columns.names == ("train", "loss/train")
    assert columns.notes == ("'val' is left out: it has 4 values where others have 3",)
    (event,) = columns.events
    assert event.message.startswith("'train' is taken as the loss: the document has no other")
    assert log({"val_loss": [2.5] * 9, "loss_weights": [1, 2]}).names == ("val_loss",)


def test_a_longer_table_with_an_evaluation_is_not_passed_over(log):
    records = [{"epoch": n, "val_loss": 2.5} for n in range(9)]
    assert log({"log": records, "loss_weights": [1, 2]}).names == ("epoch", "val_loss")
