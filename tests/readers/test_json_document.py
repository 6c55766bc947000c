"""JSON documents: lists of records, objects of columns, states of the HF Trainer."""

import io
import json
import math
import re
import tracemalloc
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stabdiag
from stabdiag import diagnose
from stabdiag import read as read_run
from stabdiag.errors import ColumnError, LogError, NothingLogged, NoUsableRecord
from stabdiag.model.events import EventKind
from stabdiag.readers.json.tables import read_tables
from stabdiag.readers.json.tolerant import Documents
from stabdiag.readers.source import Stream
from tests.readers.conftest import read_columns

RECORDS = [{"step": n, "loss": 9.0 - n, "text": 'a "b], {c} \\'} for n in range(1, 6)]
LOSSES = [2.5 - n / 64 for n in range(30)]
INDENTS = pytest.mark.parametrize("indent", [None, 2])


NAME = "run.json"


def values(columns, name):
    column = columns.load(name)
    return [v if p else None for v, p in zip(column.values.tolist(), column.present, strict=True)]


def spread(document):
    """Return a document that would be a record if it were on one line."""
    return json.dumps(document, indent=2)


NAN, INF = float("nan"), float("inf")
FIVE = [1, 2, 3, 4, 5]
FALLING = {"step": FIVE, "loss": [8, 7, 6, 5, 4]}
GOLDEN = {"start_step": 0, "end_step": 20, "step_interval": 5}
EVEN = [*range(0, 60, 2)]
NUMBERED = {"train": {"loss": 9.0}, "lr": 0.5}
TIME = {"timestamps": ["2026-01-02T03:04:05"] * 2}
# A document or its text, and the contents of its columns: None for a missing value.
DOCUMENTS = {
    "a state": ({"best": 1, "log_history": RECORDS}, FALLING),
    "records": (RECORDS, FALLING),
    "records in an object": ({"run": {"log": RECORDS}, "epochs": [1, 2]}, FALLING),
    "lists": ({"step": FIVE, "loss": [8.0, 7.0, 6.0, 5.0, 4.0]}, FALLING),
    "numbers as keys": ({"loss": {str(n): 9.0 - n for n in FIVE}}, FALLING),
    "lists and a word": ({"name": "x", "step": EVEN, "loss": LOSSES}, {"loss": LOSSES}),
    "NaN": ('[\n{"step": 1, "loss": NaN},\n{"step": 2, "loss": nan}]', {"loss": [NAN, NAN]}),
    "NaN and a list": ('[{"lrs": [1, 2], "loss": nan}, {"loss": 2.5}]', {"loss": [NAN, 2.5]}),
    "infinity": (
        '{"loss": [1.5, nan, -inf], "x": ["a, b", "c]", "d"]}',
        {"loss": [1.5, NAN, -INF]},
    ),
    "infinity as a word": ([{"loss": "inf"}, {"loss": 1.0}], {"loss": [INF, 1]}),
    "Megatron's golden values": (
        spread(
            {"lm loss": {**GOLDEN, "values": [9, 8.5, 8]}, "z": {**GOLDEN, "values": [3, 2, 1]}}
        ),
        {"step": [0, 5, 10], "lm loss": [9, 8.5, 8]},
    ),
    "newer golden values": (
        spread(
            {
                "lm loss": {**GOLDEN, "values": {"1": 9.0, "5": 8.5, "10": 8.0}},
                "time": {**GOLDEN, "values": {"1": "nan", "5": "nan", "10": 0.2}},
            }
        ),
        {"step": [1, 5, 10], "time": [None, None, 0.2]},
    ),
    "golden values on one line": (
        {
            "lm loss": {**GOLDEN, "values": {"1": 9.0, "5": 8.5, "10": 8.0}},
            "time": {**GOLDEN, "values": {"1": "nan", "5": "nan", "10": 0.2}},
        },
        {"step": [1, 5, 10], "lm loss": [9, 8.5, 8]},
    ),
    "a runtime": (
        {"log_history": [{"step": 1, "train_loss": 2.5}, {"step": 2, "train_runtime": 12.5}]},
        {"train_loss": [2.5, None]},
    ),
    "records under their numbers": (
        {"history": {f"{n}": NUMBERED for n in (10, 2, 3)}},
        {"step": [2, 3, 10], "history/train/loss": [9] * 3},
    ),
    "records under steps": (
        {"history": {f"step_{n}": NUMBERED for n in (10, 2, 3)}},
        {"step": [2, 3, 10], "history/train/loss": [9] * 3},
    ),
    "records under iterations": (
        {"history": {f"Iteration {n}": NUMBERED for n in (10, 2, 3)}},
        {"step": [2, 3, 10], "history/train/loss": [9] * 3},
    ),
    "records under epochs": (
        {"history": {f"epoch-{n:03}": NUMBERED for n in (2, 3, 10)}},
        {"epoch": [2, 3, 10], "history/train/loss": [9] * 3},
    ),
    **{
        f"no steps: {key}": (
            {key.format(n): {"loss": 9.0 - n} for n in FIVE},
            {f"{key.format(1)}/loss": [8]},
        )
        for key in ("fold_{}", "client{}", "{}_lr", "run {}")
    },
    "lists and the results of a run": (
        {"train_loss": [3.0, 2.5, None], "val_acc": [0.5, 0.6, 0.7], "epochs": 3, "hours": 1.5},
        {"train_loss": [3, 2.5, None], "val_acc": [0.5, 0.6, 0.7]},
    ),
    "lists and the last loss": (
        {"train": {"loss": [3.0, 2.5]}, "final_loss": 2.5},
        {"train/loss": [3, 2.5]},
    ),
    "lists in text": (
        {"val_loss": "[3.0, nan, 2.5]", "train_loss": "[3.5 3.25 3.0]", "note": "[no, list]"},
        {"val_loss": [3, NAN, 2.5], "train_loss": [3.5, 3.25, 3]},
    ),
    "lists of rewards": ({"seed": 7, "rewards": [3.0, 2.5]}, {"rewards": [3, 2.5]}),
    "a curve": ({"loss": {"x": EVEN, "y": LOSSES}}, {"step": EVEN, "loss": LOSSES}),
    "a named curve": (
        {"data": [{"name": "loss", "x": EVEN, "y": LOSSES}]},
        {"step": EVEN, "data/loss": LOSSES},
    ),
    "a curve over no steps": (
        {"loss": {"x": [n / 4 for n in range(30)], "y": LOSSES}},
        {"loss": LOSSES},
    ),
    "rows below names": (
        [["step", "loss"], *zip(EVEN, LOSSES, strict=True)],
        {"step": EVEN, "loss": LOSSES},
    ),
    "rows and names": (
        {"columns": ["step", "loss"], "data": [*zip(EVEN, LOSSES, strict=True)]},
        {"step": EVEN, "loss": LOSSES},
    ),
    "runs with labels": (
        {"runs": [{"label": "a", "loss": LOSSES}, {"label": "b", "loss": LOSSES[::-1]}]},
        {"runs/a #0/loss": LOSSES},
    ),
    "runs without": (
        {"runs": [{"comment": "a", "loss": LOSSES}, {"comment": "b", "loss": LOSSES[::-1]}]},
        {"runs/0/loss": LOSSES},
    ),
    "lists under epochs": (
        {f"epoch_{n}": {"loss": LOSSES[3 * n : 3 * n + 3]} for n in (2, 0, 1, 3)},
        {"loss": LOSSES[:12]},
    ),
    "lists under folds": ({str(n): {"loss": LOSSES} for n in range(4)}, {"0/loss": LOSSES}),
    "lists and their steps": (
        {
            "training.loss": {"steps": [0, 10], **TIME, "values": [4.0, 3.0]},
            "lr": {"steps": [0, 20], **TIME, "values": [0.1, 0.05]},
        },
        {"step": [0, 10, 20], "training.loss": [4, 3, None], "lr": [0.1, None, 0.05]},
    ),
    "such lists that break off": (
        '{"loss": {"steps": [1, 2, 3], "values": [4.0, 3.0, nu',
        {"loss": [4, 3]},
    ),
    "pairs": (
        [[10, 2.5], [20, "NaN"], [40, 2.25]],
        {"step": [10, 20, 40], "loss": [2.5, NAN, 2.25]},
    ),
    "pairs with names": (
        {"loss": [[1, 2.5], [2, 2.25], [3, 2.0]], "acc": [[1, 0.5], [3, 0.75], [5, 1]]},
        {"step": [1, 2, 3, 5], "loss": [2.5, 2.25, 2, None], "acc": [0.5, None, 0.75, 1]},
    ),
    "losses before a longer table": (
        {"episodes": [{"reward": n} for n in range(9)], "losses": [2.5, 2.25, 2.0]},
        {"losses": [2.5, 2.25, 2]},
    ),
    "a longer table before accuracies": (
        {"episodes": [{"reward": n} for n in range(9)], "accuracies": [0.5, 0.75, 1.0]},
        {"reward": [*range(9)]},
    ),
    "a longer table with an evaluation": (
        {"log": [{"epoch": n, "val_loss": 2.5} for n in FIVE], "loss_weights": [1, 2]},
        {"epoch": FIVE, "val_loss": [2.5] * 5},
    ),
}


@INDENTS
@pytest.mark.parametrize(("document", "contents"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_documents_of_frameworks_are_read(log, document, contents, indent):
    columns = log(document if isinstance(document, str) else json.dumps(document, indent=indent))
    assert (columns.format == "trainer-state") == ("log_history" in document)
    for name, expected in contents.items():  # compared as text: NaN equals NaN
        floats = [value if value is None else float(value) for value in expected]
        assert repr(values(columns, name)) == repr(floats)


SHORT, LOST = [3 - n / 9 for n in range(12)], [3.0, 2.5, 2.0] * 2 + [NAN] * 6
ABOVE = [x + 0.25 for x in SHORT]


@pytest.mark.parametrize(
    "document",
    [
        [{"train_loss": SHORT, "time": 9.5}, {"train_loss": LOST, "time": 8.5}],
        {"runs": [{"seed": n, "history": {"loss": run}} for n, run in enumerate((SHORT, LOST))]},
        {"fold_0": {"loss": SHORT}, "fold_1": {"loss": LOST}},
    ],
)
def test_no_run_of_a_document_is_ignored(put, document):
    report = stabdiag.diagnose(put(json.dumps(document)))
    assert report.diagnosis.slug.startswith("nan")
    assert len(report.history.series["loss"]) == 12


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(
    ("document", "slug"),
    [
        ({"fold_0": (LOST, 1), "fold_1": (SHORT, 1)}, "earlier-run-failed"),
        ({"small": (SHORT, 1), "large": (LOST, 1)}, "nan-dtype-unknown"),
        ([(LOST, 2), (SHORT, 2)], "earlier-run-failed"),
        # The splits of one run, and lists without a counter, are not separate runs.
        ({"train": (SHORT, 1), "test": (ABOVE, 1)}, "healthy"),
        ({"train": (SHORT, 1), "test": (LOST, 1)}, "eval-nonfinite"),
        ({"log": (SHORT, 1), "best": (SHORT[:3], 1)}, "healthy"),
    ],
)
def test_records_of_several_runs(put, document, slug, indent):
    def records(losses, depth):
        run = [{"epoch": n, "loss": loss} for n, loss in enumerate(losses)]
        return run if depth == 1 else {"seed": losses[0], "log": run}

    runs = (
        [records(*run) for run in document]
        if isinstance(document, list)
        else {name: records(*run) for name, run in document.items()}
    )
    assert stabdiag.diagnose(put(json.dumps(runs, indent=indent))).diagnosis.slug == slug


def test_losses_of_parts_in_each_step_are_not_runs(log):
    steps = [{"step": n, "parts": [{"loss": 2.5, "task": 1}] * 3, "loss": 2.5} for n in range(9)]
    assert log(json.dumps(steps), NAME).rows == 9


@pytest.mark.parametrize(
    ("name", "document", "names"),
    [
        ("loss.json", [[n, 3 - n / 9, 3.5 - n / 9] for n in FIVE], ("step", "loss", "loss_2")),
        ("losses.json", [[3 - n / 9, 3.5 - n / 9] for n in FIVE], ("loss", "loss_2")),
        (
            NAME,
            {"val_loss": [[n, 9 * n, 3 - n / 7] for n in FIVE]},
            ("step", "column_2", "val_loss"),
        ),
        ("rewards.json", [3, 9, 4], ("rewards",)),
    ],
)
def test_rows_of_numbers_are_named_after_a_measure(log, name, document, names):
    assert log(json.dumps(document), name).names == names


@pytest.mark.parametrize(
    "document",
    [
        [[0.5, 0.25, 0.5], [0.75, 0.5, 0.5], [1.0, 0.25, 0.75]],
        {"confusion": [[9, 1, 0], [2, 7, 3], [1, 1, 8]]},
        {"losses": [["a", 0.5, 1.0], ["b", 0.75, 2.0], ["c", 1.0, 0.5]]},
        {"losses": [[1, 0.5], [2, 0.75, 0.5], [3, 1.0]], "x": []},
    ],
)
def test_other_rows_of_numbers_are_not_read(log, document):
    with pytest.raises(LogError):
        log(json.dumps(document), NAME)


@pytest.mark.parametrize(
    "record",
    [
        {"step": 3, "loss": [3.0, 2.5, 2.25]},
        {"loss": 2.5, "layer_losses": [3.0, 2.5, 2.25]},
        {"epoch": 1, "train": {"loss": [3.0, 2.5]}},
        {"lr": [0.1, 0.2], "total_loss": 2.5},
    ],
)
def test_a_line_with_a_counter_or_its_own_loss_is_a_record(log, record):
    assert (log(json.dumps(record), NAME).format, log(json.dumps(record), NAME).rows) == (
        "jsonl",
        1,
    )


def test_objects_over_several_lines_one_after_the_other(log):
    text = "\n".join(json.dumps(record, indent=2) for record in RECORDS)
    assert values(log(text), "loss") == [8, 7, 6, 5, 4]


@pytest.mark.parametrize(
    "text",
    [
        '[\n{"step": 1, "loss": 1},\n{"step": 2, "lo\x00ss": ,,},\n{"step": 3, "loss": 3}\n]',
        "[[1767225600.1, 1, 2.5],\n[1767225601.2, 3, 2.5],\n[1767225602.3, 3",
    ],
    ids=["a record", "a chart that TensorBoard downloads"],
)
def test_broken_records_are_left_out(log, text):
    columns = log(text)
    assert values(columns, "step") == [1, 3]
    assert [bad.line for bad in columns.bad_lines] == [3]


def test_a_null_differs_from_a_missing_key(log):
    columns = log([{"step": 1, "loss": None}, {"step": 2}, {"step": 3, "loss": 1.0}])
    assert columns.load("loss").null.tolist() == [True, False, False]
    assert columns.distinguishes_null


def test_single_values_of_a_document_are_settings(log):
    columns = log({"layers": {f"{n}": {"width": 8.0 * n} for n in range(4)}, "loss": LOSSES})
    assert columns.config == {f"layers.{n}.width": 8.0 * n for n in range(4)}
    columns = log([{"step": n, "dtype": "fp16", "cfg": {"lr": 0.5}} for n in range(9)])
    assert (columns.names, columns.config) == (("step", "dtype"), {"dtype": "fp16"})


OF_A_RUN = {"loss": LOSSES, "val_loss": LOSSES}
OF_ANOTHER = {"loss": LOSSES[::-1], "val_loss": LOSSES}


@pytest.mark.parametrize(
    ("document", "column"),
    [
        ([{"name": "a", "loss": LOSSES}, {"name": "b", "loss": LOSSES[::-1]}], "a #0/loss"),
        ({"sgd": OF_A_RUN, "adam": OF_ANOTHER}, "sgd #0/loss"),
        ({"results": {"sgd": OF_A_RUN, "adam": OF_ANOTHER}}, "results/sgd #0/loss"),
        ({"train": {"loss": LOSSES}, "val": {"loss": LOSSES[::-1]}}, "train/loss"),
        (
            {"generator": {"loss": LOSSES[::-1]}, "discriminator": {"loss": LOSSES}},
            "discriminator/loss",
        ),
    ],
)
def test_losses_of_several_runs_are_not_summed(put, document, column):
    history = read_run(put(document, "runs.json"))
    assert history.series["loss"].column == column
    assert history.series["loss"].values.tolist() == LOSSES
    is_noted = any("adam #1/loss" in event.message for event in history.events)
    assert is_noted == ("sgd" in column)


@pytest.mark.parametrize("start", [1e180, 0.5, -1e308, np.inf, np.nan])
def test_numbers_that_are_not_steps(log, start):
    columns = log({"lm loss": {"start_step": start, "step_interval": start, "values": LOSSES}})
    assert columns.names == ("lm loss/values",)


def test_the_trainer_state_contains_the_configuration(put):
    state = {
        "global_step": 40,
        "log_history": [{"step": n, "loss": 3.0 - 0.01 * n} for n in range(1, 41)],
        "max_steps": 4000,
        "save_steps": 250,
        "stateful_callbacks": {"X": {"args": {"max_steps": 3}}},
        "train_batch_size": 8,
    }
    path = put(json.dumps(state), "trainer_state.json")
    manifest = diagnose(path).manifest
    assert (manifest.total_steps, manifest.checkpoint_every, manifest.batch_size) == (4000, 250, 8)
    assert set(manifest.logged) == {"total_steps", "checkpoint_every", "batch_size"}
    given = diagnose(path, manifest={"max_steps": 100, "save_steps": 10}).manifest
    assert (given.total_steps, given.checkpoint_every, given.batch_size) == (100, 10, 8)


def test_the_mean_in_the_summary_is_not_a_loss(put):
    history = [{"step": n, "loss": 3.0 - 0.01 * n} for n in range(1, 41)]
    summary = {"step": 40, "train_loss": 50.0, "train_runtime": 12.5, "total_flos": 1e12}
    path = put(json.dumps({"log_history": [*history, summary]}), "trainer_state.json")
    loss = diagnose(path).history.series["loss"]
    assert (loss.column, len(loss), loss.values.max()) == ("loss", 40, 2.99)
    path.write_text(json.dumps({"log_history": [{"step": 1, "x": 1}, summary]}), encoding="utf-8")
    with pytest.raises(LogError, match="no column looks like a training loss"):
        diagnose(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"loss": [1, 2], 3: [4]}', "not JSON, expecting a name in double quotes at '3: [4]}'"),
        ('{"loss": [1, 2] "lr": [3, 4]}', "not JSON, expecting a comma or } at '\"lr\": [3, 4]}'"),
        (
            '{"loss": [1, 2], "lr": abc, "on": [3, 4]}',
            "not JSON, expecting a value at 'abc, \"on\": [3, 4]}'",
        ),
        ('{"loss": [1, 2], "lr"= 2}', "not JSON, expecting a : at '= 2}'"),
        ('{"loss": [1, 2], "lr"', "breaks off"),
        ('{"loss": [1, 2], "lr": [3, 4', "breaks off"),
    ],
)
def test_records_before_a_fault_are_read(log, text, reason):
    columns = log(text, format="json")
    assert values(columns, "loss") == [1, 2]
    assert [bad.reason for bad in columns.bad_lines] == [reason]


@INDENTS
@pytest.mark.parametrize("key", ["log_history", None])
def test_every_record_before_a_cut_is_read(indent, key):
    document = {"best": None, key: RECORDS, "max_steps": 5} if key else RECORDS
    text = json.dumps(document, indent=indent).encode()
    ends = [match.end() for match in re.finditer(rb"(?<!\{c)\}", text)]
    for length in range(len(text)):
        tables = read_tables(Stream("run", io.BytesIO(text[:length])))
        records = tables.records.get((key,) if key else (), [])
        complete = min(sum(end <= length for end in ends), len(RECORDS))
        assert records[:complete] == RECORDS[:complete]
        cut = records[complete:]
        assert not cut or (len(cut) == 1 and cut[0].items() <= RECORDS[complete].items())
        assert len(tables.bad) <= 1


def pasted(records, *, bound=",\n"):
    """Return records as they are copied from the middle of a list."""
    return bound.join(json.dumps(record, indent=2) for record in records)


@pytest.mark.parametrize("bound", [",\n", "\n", ",\n  ...\n", ",\n\nhere it goes wrong:\n\n"])
def test_records_without_the_brackets_of_their_list(log, bound):
    columns = log(pasted(RECORDS, bound=bound))
    assert values(columns, "step") == FIVE
    assert values(columns, "loss") == FALLING["loss"]


@pytest.mark.parametrize("place", [1, 10, 30])
@pytest.mark.parametrize("message", ["Saving checkpoint to out", "} done {", "[W 12:30] a, {"])
def test_a_message_inside_a_record_hides_no_later_record(tmp_path, place, message):
    records = [
        json.dumps({"step": step, "loss": 3 - step / 40 if step < 45 else math.nan}, indent=2)
        for step in range(50)
    ]
    records[place] = records[place].replace("\n", f"\n{message}\n", 1)
    path = tmp_path / "run.log"
    path.write_text("\n".join(records), encoding="utf-8")
    report = stabdiag.diagnose(path)
    assert (report.diagnosis.slug, report.diagnosis.step) == ("nan-dtype-unknown", 45)


COURSE = {
    "step": [*range(40)],
    "loss": [3 - step / 40 if step < 35 else math.nan for step in range(40)],
    "lr": [0.001] * 40,
}
COURSE_RECORDS = [
    dict(zip(COURSE, values, strict=True)) for values in zip(*COURSE.values(), strict=True)
]


@pytest.mark.parametrize("suffix", ["json", "jsonl", "log"])
@pytest.mark.parametrize("above", ["", "Loading weights\n", "[INFO] 10:11:12 ready\nGo.\n"])
@pytest.mark.parametrize("below", ["", "Done.\n", "\nSaved to out.\nreal 3m2s\n"])
@pytest.mark.parametrize(
    "text",
    [
        json.dumps(COURSE),
        json.dumps({"history": COURSE}),
        str(COURSE),
        str({"train": COURSE}),
        json.dumps(COURSE_RECORDS),
        str(COURSE_RECORDS),
        json.dumps({"log_history": COURSE_RECORDS}),
    ],
    ids=["lists", "history", "dict", "nested", "records", "dicts", "state"],
)
def test_a_document_on_one_line_of_a_text(tmp_path, text, above, below, suffix):
    path = tmp_path / f"run.{suffix}"
    path.write_text(f"{above}{text}\n{below}", encoding="utf-8")
    report = stabdiag.diagnose(path)
    assert (report.diagnosis.slug, report.diagnosis.step) == ("nan-dtype-unknown", 35)


def test_lists_in_the_records_of_json_lines_are_no_document(log):
    records = [
        {"step": step, "loss": 3 - step / 8, "groups": [{"lr": 1, "loss": 9}, {"lr": 2, "loss": 8}]}
        for step in range(8)
    ]
    text = "\n".join(map(json.dumps, records))
    columns = log(f"Start.\n{text}\nDone.")
    assert values(columns, "loss") == [record["loss"] for record in records]


@pytest.mark.parametrize("opening", ["", "[\n"])
@pytest.mark.parametrize("loss", [math.nan, -3.5e32])
def test_a_record_that_breaks_off_below_its_loss(tmp_path, opening, loss):
    records = [{"loss": 9.5 - n, "acc": 0.5, "iteration": 100 * n} for n in range(1, 7)]
    records.append({"loss": loss, "acc": 0.5, "iteration": 700})
    text = opening + pasted(records)
    path = tmp_path / "log"
    path.write_text(text[: text.rindex('"iter')])
    diagnosis = diagnose(path).diagnosis
    assert (diagnosis.severity, diagnosis.step) == ("error", 700)


@pytest.mark.parametrize(("bound", "is_cut"), [(", ", True), (",\n", False)])
def test_a_list_on_one_line_is_written_in_one_piece(log, bound, is_cut):
    records = [json.dumps({"step": n, "loss": 2.5}) for n in range(9)]
    columns = log("[" + bound.join(records) + bound)
    assert columns.rows == 9
    assert bool(columns.left_out) == is_cut


def test_a_single_record_that_breaks_off(log):
    inside = '{"reward": 20.5, "info": {"learner": {"total_loss": 3.75, "hist": [], "kl": 0.01'
    columns = log(inside, "paste.txt")
    assert values(columns, "info/learner/total_loss") == [3.75]
    assert [left.message for left in columns.left_out] == ["the JSON document breaks off"]
    with pytest.raises(NoUsableRecord, match="breaks off"):
        log('{"name": "net", "lr": 0.5, "batch', "paste.txt")


@pytest.mark.parametrize("orient", ["index", "columns", "records", "split", "table"])
@pytest.mark.parametrize("indent", [0, 2])
def test_documents_that_pandas_writes(tmp_path, orient, indent):
    path = tmp_path / "history.json"
    frame = pd.DataFrame({"epoch": range(1, 31), "loss": 2 + 1 / np.arange(1, 31), "acc": 0.5})
    frame.loc[25:, "loss"] = np.nan
    frame.to_json(path, orient=orient, indent=indent)
    columns = read_columns(path)
    assert values(columns, "epoch") == [*range(1, 31)]
    assert [value is None for value in values(columns, "loss")] == [False] * 25 + [True] * 5
    diagnosis = diagnose(path).diagnosis
    assert (diagnosis.slug, diagnosis.step) == ("nan-dtype-unknown", 26)


def test_omissions_are_reported(log):
    columns = log({"loss": [3.0, 2.0, 1.0], "weights": [2.5], "layers": [{"name": "a"}]})
    assert columns.names == ("loss",)
    assert columns.notes == ("'weights' is left out: it has 1 values, others have 3",)
    columns = log({"train": RECORDS, "best": RECORDS[:2]})
    assert columns.notes == ("other lists of records are left out: 'best'",)


@pytest.mark.parametrize("names", [("train", "val"), ("validation", "training")])
@pytest.mark.parametrize("parent", [None, "history"])
@pytest.mark.parametrize("counter", [None, "epoch", "step"])
def test_records_of_an_evaluation_are_joined(log, names, parent, counter):
    def records(losses, every):
        rows = [{"loss": loss, counter: (n + 1) * every} for n, loss in enumerate(losses)]
        return [{name: row[name] for name in row if name} for row in rows]

    every = 1 if counter is None else 2
    heldout = [2.75, 2.5, 2.25, 2.625, 2.875, 3.125][: 6 // every]
    by_split = {"t": records([2.5, 2.0, 1.5, 1.0, 0.5, 0.25], 1), "v": records(heldout, every)}
    document = {name: by_split[name[0]] for name in names}
    columns = log(document if parent is None else {parent: document})
    assert values(columns, "loss") == [2.5, 2.0, 1.5, 1.0, 0.5, 0.25]
    evaluated = [name for name in columns.names if name.startswith("v")]
    assert [n for n in values(columns, evaluated[0]) if n is not None] == heldout


@pytest.mark.parametrize("counted", [False, True])
def test_records_of_an_evaluation_at_other_steps_are_left_out(log, counted):
    def records(losses, begin):
        counts = [{"step": begin + 10 * n} if counted else {} for n in range(len(losses))]
        return [{**count, "loss": loss} for count, loss in zip(counts, losses, strict=True)]

    document = {"val": records([2.75] * 7, 5), "train": records([2.5, 2.0, 1.5, 1.0], 0)}
    columns = log(document)
    assert values(columns, "loss") == [2.5, 2.0, 1.5, 1.0]
    assert columns.notes == ("other lists of records are left out: 'val'",)


@pytest.mark.parametrize(
    "document",
    [
        {"x": RECORDS, "a" * 5000: RECORDS[:2]},
        {"x": RECORDS, "a\nb": RECORDS[:2]},
        {"loss": LOSSES, "a" * 5000: [1.0, 2.0]},
    ],
)
def test_omissions_are_printed_on_one_line(log, document):
    (note,) = log(document).notes
    assert "\n" not in note
    assert len(note) < 200


@pytest.mark.parametrize("text", ["5", '"log_history": [', '5 {"log_history": [{"loss": 1}]}'])
def test_a_document_that_is_not_a_trainer_state(log, text):
    with suppress(LogError):
        assert log(text, format="trainer-state").config == {}


PLAIN = st.one_of(
    *(st.none(), st.booleans(), st.floats(), st.integers(-9, 9)),
    st.text(max_size=4) | st.sampled_from(["], [", '"}', "}, {", "nan", "\\"]),
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=8,
)


@given(VALUES, st.sampled_from([None, 1]))
def test_invalid_members_are_read_one_by_one_with_the_same_result(value, indent):
    text = json.dumps(value, indent=indent)
    for end in ("}", "", ",", "] 5"):
        (document,) = Documents(f'{{"a": {{"b": [{text}, {text}], "c": {text}{end}').values
        assert repr(document["a"]["b"]) == repr([json.loads(text, parse_int=float)] * 2)


@given(st.lists(st.dictionaries(st.text(max_size=2), VALUES, min_size=1), min_size=1))
def test_an_invalid_record_is_left_out(records):
    inner = json.loads(json.dumps(records), parse_int=float)
    texts = [json.dumps(record) for record in records]
    documents = Documents(f'{{"log": [{{"x": ,,}},\n {",".join(texts)}, {{"y" 5}}]')
    assert repr(documents.values) == repr([{"log": inner}])
    assert [bad.line for bad in documents.bad()] == [1, 2]


def test_a_large_document_grows_little_in_memory(tmp_path):
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
    assert peak < 8 * size


def test_a_bare_list_of_numbers_contains_the_losses(log):
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


def test_a_line_that_begins_with_a_bracket_is_not_a_list(log):
    text = "".join(f"[1, {n}] loss: {2.5 - n / 1e5}\n" for n in range(100, 3000, 100))
    assert log(text, "run.log").format == "text"


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
    message = f"{train!r} is taken as the loss, {val!r} as the evaluation loss: the document has no"
    assert any(event.message.startswith(message) for event in report.history.events)
    chosen = diagnose(path, columns={"loss": val}).history
    assert chosen.series["loss"].values.tolist() == lists[val]


def test_the_list_called_val_is_preferred_to_test(log):
    for names in (["test", "train", "val"], ["val", "test", "train"], ["train", "val", "test"]):
        columns = log({name: [2.5, 2.25, 2.0] for name in names})
        assert columns.names == (*names, "loss/train", "loss/val")
        (event,) = columns.events
        assert "'train' is taken as the loss, 'val' as the evaluation loss" in event.message


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
    assert not any("loss" in name for name in columns.names)
    assert not columns.unnamed


def test_lists_of_numbers_next_to_records(log):
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


def test_an_evaluation_before_the_first_step(log):
    columns = log({"loss": [2.5, 2.25, 2.0], "val_loss": [3.0, 2.75, 2.5, 2.25], "lr": [1, 2, 3]})
    assert columns.names == ("loss", "val_loss", "lr")
    assert values(columns, "val_loss") == [2.75, 2.5, 2.25]
    columns = log({"train": [2.5, 2.25, 2.0], "val": [3.0, 2.75, 2.5, 2.25]})
    assert values(columns, "loss/val") == [2.75, 2.5, 2.25]
    assert (
        "others have 3: the first, before the training, is left out" in columns.events[-1].message
    )
    assert log({"val_loss": [2.5] * 9, "loss_weights": [1, 2]}).names == ("val_loss",)


EMPTY = r"nothing was logged yet, "
PAIRS = r"its lists of lists are not"
NOTHING = r"run\.json: no record could be read"
REFUSED = [
    *((text, NOTHING) for text in ("[]", "[[1, 2], [3, 4]]", "[[[1, 2, 3]]]", '{"a": [', "[{")),
    *((text * 100_000, None) for text in ('{"a": ', "[")),
    ('[{"a": ' + "[" * 100_000, None),
    *(
        (text, "a list of values without a name; add one")
        for text in ("[3, 1, 2, 7]", '["a.png", "b.png"]', '[2.5, "up", 2.25]')
    ),
    ("[[2.5, 9], [2.25, 8], [2.0, 7]]", PAIRS),
    ("[[1, 2.5], [1, 2.0], [2, 1.5]]", PAIRS),
    (json.dumps([[n, 9.0 - n, 0.5] for n in range(1, 31)]), PAIRS),
    ('{"history": []}', f"{EMPTY}'history' is empty$"),
    ('{"train": {"loss": [], "acc": []}}', f"{EMPTY}'train/loss', 'train/acc' are empty$"),
    ('{"log_history": []}', "nothing was logged: 'log_history' is empty; log every few steps$"),
    ("[\n]", f"{EMPTY}its list is empty$"),
    (
        '{"epoch":\n{\n0: 2.5,\n1: 2.25 }\n}\n',
        "line 3: not JSON, expecting a name in double quotes at '0: 2.5,'",
    ),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=lambda case: str(case)[:30])
def test_invalid_documents_are_refused(log, text, message):
    with pytest.raises(NoUsableRecord if message else LogError, match=message):
        log(text, format="json" if "a list of" in (message or "") else None)


@pytest.mark.parametrize("format", ["json", "trainer-state"])
def test_a_single_number_is_not_a_table(log, format):
    with pytest.raises(NoUsableRecord, match=r"run\.csv: no record could be read"):
        log("44,,\n", "run.csv", format=format)


def test_a_list_in_the_settings_is_not_a_series(log):
    columns = log({"loss": [2.5, 2.25, 2.0], "config": {"layer_sizes": [784, 10]}})
    assert (columns.names, columns.notes) == (("loss",), ())


def test_a_trainer_state_without_records(tmp_path):
    state = {"global_step": 135, "log_history": [], "logging_steps": 500, "save_steps": 500}
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps(state))
    with pytest.raises(NothingLogged, match="empty, global_step is 135, logging_steps is 500; log"):
        read_columns(path)


@pytest.mark.parametrize("blank", ["", "\n", "\n\n\n\r"])
def test_settings_above_the_lines_of_a_log_are_not_its_document(tmp_path, blank):
    path = tmp_path / "out.txt"
    settings = '{\n "learning_rate": 0.2,\n "num_threads": 4\n}\n' + blank
    path.write_text(settings + "".join(f"step {n}: loss {2.5 - n / 100}\n" for n in range(30)))
    loss = read_run(path).series["loss"]
    assert loss.steps.tolist() == [*range(30)]


@pytest.mark.parametrize("name", ["reward_history", "episode_rewards_list", "return_curve"])
def test_a_list_may_say_that_it_is_a_history(put, name):
    document = {"games": 9, "best": 30.5, name: [12.5 + n for n in range(9)]}
    series = stabdiag.diagnose(put(json.dumps(document, indent=1), "stats.json")).history.series
    assert series["reward"].column == name


def test_scores_whose_square_overflows_are_refused_in_one_line(tmp_path):
    path = tmp_path / "history.json"
    scores = [1e181, *(0.2 + n / 100 for n in range(30))]
    path.write_text(json.dumps({"accuracy": scores, "val_accuracy": scores}))
    with pytest.raises(ColumnError, match="no column looks like a training loss"):
        diagnose(path)
