"""Logs whose form changes in mid-run are read to their end."""

import gzip
import json
import math

import numpy as np
import pytest

import stabdiag

RECORDS = 240
CHANGE = 120
LOSS = 2 + 4 * np.exp(-np.arange(RECORDS) / 40) + np.random.default_rng(5).normal(0, 0.02, RECORDS)


def jsonl(n, loss):
    return json.dumps({"step": n * 10, "loss": loss, "lr": 3e-4})


def csv(n, loss):
    return f"{n * 10},{loss},0.0003"


def printed(n, loss):
    return f"iter {n * 10}: loss {loss:.4f}, lr 3.00e-04"


def headed_table(n, loss):
    return ("Schritt\tVerlust\tRate\n" if not n else "") + f"{n * 10}\t{loss:.4f}\t0.0003"


def epochs(n, loss):
    return f"Epoch {n + 1}/{RECORDS} - train loss: {loss:.4f} - val loss: {loss + 0.1:.4f}"


def headed(header, row):
    """Return a form with a header above its first row."""
    return lambda n, loss: (header + "\n" if n == CHANGE else "") + row(n, loss)


CHANGES = {
    "prints after JSON": (jsonl, lambda n, x: f"step={n * 10:06d} | loss={x:.5f} | lr=3.0e-04"),
    "text in JSON": (jsonl, lambda n, x: json.dumps({"msg": f"step {n * 10} loss {x:.4f}"})),
    "MXNet after prints": (
        printed,
        lambda n, x: f"INFO:root:Epoch[{n // 10}] Batch [{n % 10 * 20}]\tcross-entropy={x:.4f}",
    ),
    "a sentence after prints": (
        printed,
        lambda n, x: f"After {n * 10} rounds, the training loss is {x:.4f} and all is well.",
    ),
    "XGBoost after prints": (
        printed,
        lambda n, x: f"[{n * 10}]\ttrain-logloss:{x:.4f}\tval-logloss:{x + 0.1:.4f}",
    ),
    "a table after prints": (
        printed,
        headed("Schritt;Verlust;Rate", lambda n, x: f"{n * 10};{x:.4f};0,0003".replace(".", ",")),
    ),
    "prints after a tab": (
        headed_table,
        lambda n, x: f"{n * 10}> L={x:.4f} g=0.71",
    ),
    "another header and delimiter": (
        headed_table,
        headed("it,train_loss,lr", lambda n, x: f"{n * 10},{x:.4f},0.0003"),
    ),
    "marks after prints": (
        printed,
        lambda n, x: f"- iter **{n * 10}**: loss `{x:.4f}`, lr 3e-04",
    ),
    "Docker around JSON": (
        jsonl,
        lambda n, x: json.dumps({"log": jsonl(n, x) + "\n", "stream": "stdout"}),
    ),
    "a long table of JSON": (
        jsonl,
        lambda n, x: "\n".join(
            json.dumps({"step": n * 10, "name": name, "value": value})
            for name, value in (("lr", 3e-4), ("loss", x))
        ),
    ),
    "epochs for steps": (jsonl, lambda n, x: json.dumps({"epoch": n / 50, "loss": x, "lr": 3e-4})),
    "a bar after CSV": (
        csv,
        lambda n, x: (
            f"{100 * n // RECORDS}%|###   | {n * 10}/{RECORDS * 10} "
            f"[{n:02d}:01<10:00, 1.20it/s, loss={x:.3f}, lr=3.00e-04]"
        ),
    ),
    "pairs after prints": (printed, lambda n, x: f"Epoch({n * 10}) ('loss', {x:.4f})"),
    "arrows after prints": (printed, lambda n, x: f"iter {n * 10}: loss -> {x:.4f}"),
    "lists of pairs after JSON": (jsonl, lambda n, x: f'[["step", {n * 10}], ["loss", {x}]]'),
    "JSON after CSV": (csv, jsonl),
    "a long table of CSV": (
        csv,
        headed("step,metric,value", lambda n, x: f"{n * 10},loss,{x}\n{n * 10},lr,0.0003"),
    ),
    "another header of CSV": (
        csv,
        headed("epoch,train_loss", lambda n, x: f"{n / 50:.3f},{x}"),
    ),
    "decimal commas": (csv, lambda n, x: f"{n * 10};{x:.4f};0,0003".replace(".", ",")),
    "Markdown after CSV": (
        csv,
        headed("| step | loss |\n|---|---|", lambda n, x: f"| {n * 10} | {x:.4f} |"),
    ),
    "a bar after prints": (
        printed,
        lambda n, x: (
            f"{100 * n // RECORDS}%|###   | {n * 10}/{RECORDS * 10} "
            f"[{n:02d}:01<10:00, 1.20it/s, loss={x:.3f}, lr=3.00e-04]"
        ),
    ),
    "a framed table after prints": (
        printed,
        headed("┃ step ┃ loss ┃ lr ┃", lambda n, x: f"│ {n * 10} │ {x:.4f} │ 3.0e-4 │"),
    ),
    "wrapped prints": (printed, lambda n, x: f"iter {n * 10}:\n    loss {x:.4f},\n    lr 3e-04"),
    "batches of epochs": (
        printed,
        lambda n, x: f"[epoch {n // 60} batch {n % 60:3d}/60] loss: {x:.4f} lr: 3.00e-04",
    ),
    "a sentence after CSV": (
        csv,
        lambda n, x: f"INFO (train) Batch {n * 10}: mean loss per frame is {x:.4f}",
    ),
    "Chinese after CSV": (csv, lambda n, x: f"第 {n * 10} 步, 损失: {x:.4f}"),
    "brackets after CSV": (csv, lambda n, x: f"step[{n * 10}] loss[{x:.4f}] lr[3e-04]"),
    "a bar with another name": (
        printed,
        lambda n, x: (
            f"{100 * n // RECORDS}%|###   | {n * 10}/{RECORDS * 10} "
            f"[{n:02d}:01<10:00, 1.20it/s, v_num=7, train_loss_step={x:.3f}]"
        ),
    ),
    "a table below large numbers": (
        lambda n, x: f"update {n * 10}: loss {x:.4f}, words/s 11020, memory 40210",
        headed(
            "| step | loss | lr |\n|---|---|---|", lambda n, x: f"| {n * 10} | {x:.4f} | 3e-4 |"
        ),
    ),
    "aligned rows below large numbers": (
        lambda n, x: f"update {n * 10}: loss {x:.4f}, words/s 11020, memory 40210",
        headed("  step    loss      lr", lambda n, x: f"{n * 10:6d}  {x:.4f}  3.0e-04"),
    ),
    "aligned rows after JSON": (
        jsonl,
        headed("  step    loss      lr", lambda n, x: f"{n * 10:6d}  {x:.4f}  3.0e-04"),
    ),
    "a header below prints": (
        printed,
        headed(
            "time,epoch,step,loss",
            lambda n, x: f"2026-01-02 03:{n // 60:02d}:{n % 60:02d},{n // 50},{n * 10},{x:.4f}",
        ),
    ),
    "stamps after JSON": (
        jsonl,
        lambda n, x: (
            f"[2026-01-02 03:{n // 60:02d}:{n % 60:02d}] INFO train: step={n * 10} loss={x:.4f}"
        ),
    ),
    "arrows after CSV": (csv, lambda n, x: f"Step {n * 10} -> Loss {x:.4f}"),
    "another column": (csv, lambda n, x: f"{n * 10},{n // 50},{x},0.0003"),
    "times before the columns": (
        csv,
        lambda n, x: f"2026-01-02 03:{n // 60:02d}:{n % 60:02d},{n * 10},{x},0.0003",
    ),
    "rows after prints": (printed, lambda n, x: f"{n * 10},{x:.4f},0.0003"),
    "bars after prints": (printed, lambda n, x: f"| {n * 10} | {x:.4f} | 0.0003 |"),
    "lists after JSON": (jsonl, lambda n, x: json.dumps([n * 10, x, 3e-4])),
    "rows after epochs": (epochs, lambda n, x: f"{n + 1},{x:.4f},{x + 0.1:.4f}"),
    "Keras after epochs": (
        epochs,
        lambda n, x: (
            f"Epoch {n + 1}/{RECORDS}\n100/100 ━━━━━━━━━━━━━━━━━━━━ 3s 21ms/step - "
            f"loss: {x:.4f} - val_loss: {x + 0.1:.4f}"
        ),
    ),
    "a table with times": (
        epochs,
        headed(
            "epoch  train_loss  valid_loss  time",
            lambda n, x: f"{n + 1:<6d} {x:.6f}    {x + 0.1:.6f}    00:{n % 60:02d}",
        ),
    ),
}


CHANGES |= {
    "values before their names": (printed, lambda n, x: f"{x:.4f} loss at step {n * 10}"),
    "broken lines": (
        lambda n, x: f"{stamp(n)} | step {n * 10} | lr 3.0e-04 | tokens 31,021 | loss {x:.4f} | ok",
        lambda n, x: (
            f"{stamp(n)} | step {n * 10} | lr 3.0e-04 | tokens\n31,021 | loss {x:.4f} | ok"
        ),
    ),
}


def stamp(n):
    return f"2026-01-02 03:{n // 60:02d}:{n % 60:02d} | INFO | trainer of the model"


def written(change, loss):
    before, after = CHANGES[change]
    head = "step,loss,lr\n" if before is csv else ""
    form = [before] * CHANGE + [after] * (RECORDS - CHANGE)
    lines = (line(n, x) for n, (line, x) in enumerate(zip(form, loss.tolist(), strict=True)))
    return head + "".join(f"{line}\n" for line in lines)


@pytest.fixture
def log(tmp_path):
    """Return a function that writes a log with a change of its form."""

    def write(change, loss=LOSS):
        suffix = {jsonl: "jsonl", csv: "csv"}.get(CHANGES[change][0], "log")
        path = tmp_path / f"run.{suffix}"
        path.write_text(written(change, loss))
        return path

    return write


@pytest.mark.parametrize("change", CHANGES)
def test_a_healthy_log_is_read_to_its_end(log, change):
    report = stabdiag.diagnose(log(change))
    assert report.diagnosis.slug == "healthy"
    loss = report.history.logged("loss")
    assert len(loss) == RECORDS
    assert loss.values == pytest.approx(LOSS, abs=0.002)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_fails_after_the_change_is_found(log, change, value):
    loss = LOSS.copy()
    loss[180:] = value
    report = stabdiag.diagnose(log(change, loss))
    assert report.diagnosis.slug.startswith("nan-")
    unit = 1 if CHANGES[change][0] is epochs else 10
    assert abs(report.diagnosis.step - (180 * unit)) <= unit


@pytest.mark.parametrize("change", CHANGES)
def test_a_loss_that_climbs_after_the_change_is_found(log, change):
    loss = LOSS.copy()
    loss[140:] *= 1.03 ** np.arange(RECORDS - 140)
    assert stabdiag.diagnose(log(change, loss)).diagnosis.severity.value == "error"


@pytest.mark.parametrize("first", [0, 1])
def test_a_total_continues_counts_within_epochs(tmp_path, first):
    rows = [
        f"Epoch [{n // 50 + 1}][{n % 50 + 1}/50]\tlr: 3.0e-04, loss: {x:.4f}"
        if n < CHANGE
        else f"{n + first},{x:.4f},1.1,0.0003"
        for n, x in enumerate(LOSS.tolist())
    ]
    rows.insert(CHANGE, "step,loss,grad_norm,lr")
    (tmp_path / "run.log").write_text("".join(f"{row}\n" for row in rows))
    report = stabdiag.diagnose(tmp_path / "run.log")
    assert report.diagnosis.slug == "healthy"
    assert report.history.logged("loss").steps[-1] == RECORDS - 1 + first


def test_the_report_says_where_the_form_changes(log):
    report = stabdiag.diagnose(log("JSON after CSV"))
    events = [event for event in report.history.events if "another form" in event.message]
    assert [event.line for event in events] == [CHANGE + 2]
    assert "120 records have another form (jsonl)" in events[0].message
    assert not report.history.left_out


def test_records_without_a_step_continue_the_numbers(log):
    report = stabdiag.diagnose(log("epochs for steps"))
    assert report.history.logged("loss").steps.tolist() == [*range(0, RECORDS * 10, 10)]
    assert any("they are numbered on" in event.message for event in report.history.events)


def test_a_compressed_log_is_followed_as_well(tmp_path):
    path = tmp_path / "run.csv.gz"
    path.write_bytes(gzip.compress(written("JSON after CSV", LOSS).encode()))
    assert len(stabdiag.diagnose(path).history.logged("loss")) == RECORDS


def test_a_log_may_change_its_form_twice(tmp_path):
    forms = [jsonl] * 80 + [lambda n, x: f"step={n * 10} | loss={x:.5f}"] * 80
    forms += [lambda n, x: f"| {n * 10} | {x:.4f} |"] * 80
    lines = [form(n, x) for n, (form, x) in enumerate(zip(forms, LOSS.tolist(), strict=True))]
    lines.insert(160, "| step | loss |\n|---|---|")
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(lines))
    assert len(stabdiag.diagnose(path).history.logged("loss")) == RECORDS


@pytest.mark.parametrize(
    "remainder",
    [
        # Another scale without a counter: the results of an evaluation.
        *("".join(f"sample {n} loss: {80 + n:.3f}\n" for n in range(40)),),
        # The counter continues, and two columns could be the loss; or none.
        *("".join(f"{1200 + n * 10},7,2.21,2.22\n" for n in range(40)),),
        *("".join(f"{1200 + n * 10},7,{20 + n / 100},0.1\n" for n in range(40)),),
        # The counter begins again: a table of another kind.
        *("".join(f"{n},7,2.21,0.1\n" for n in range(40)),),
    ],
)
def test_a_remainder_that_does_not_continue_the_log_is_left_undecided(tmp_path, remainder):
    path = tmp_path / "run.csv"
    rows = "".join(f"{csv(n, x)}\n" for n, x in enumerate(LOSS[:CHANGE].tolist()))
    path.write_text(f"step,loss,lr\n{rows}{remainder}")
    report = stabdiag.diagnose(path)
    assert report.diagnosis.slug == "partly-read"
    assert len(report.history.logged("loss")) == CHANGE


def test_a_summary_below_a_log_is_not_a_change_of_form(tmp_path):
    path = tmp_path / "run.jsonl"
    rows = [jsonl(n, x) for n, x in enumerate(LOSS.tolist())]
    rows += [json.dumps({"train_loss": 2.4, "runtime": 31.0}), "Best loss: 2.01", "Done."]
    path.write_text("\n".join(rows))
    report = stabdiag.diagnose(path)
    assert report.diagnosis.slug == "healthy"
    assert len(report.history.logged("loss")) == RECORDS


@pytest.mark.parametrize("word", ["overflow", "broken", "oops"])
def test_a_word_for_the_loss_is_not_another_form(tmp_path, word):
    path = tmp_path / "run.log"
    path.write_text(
        "".join(
            f"Step {n * 10} | Loss {loss if n < CHANGE else word} | LR 1.00e-04 | 12.3 it/s\n"
            for n, loss in enumerate(LOSS.round(4).tolist())
        )
    )
    report = stabdiag.diagnose(path)
    assert report.diagnosis.slug == "partly-read"
    assert len(report.history.logged("loss")) == CHANGE


def test_a_table_of_all_epochs_is_a_summary(tmp_path):
    lines = [printed(n, loss) for n, loss in enumerate(LOSS)]
    rows = [f"| {epoch} | {LOSS[24 * epoch]:.3f} |" for epoch in range(1, 10)]
    path = tmp_path / "run.log"
    path.write_text("\n".join([*lines, "| epoch | mean loss |", "|---|---|", *rows]))
    assert stabdiag.diagnose(path).diagnosis.slug == "healthy"


def test_a_message_below_each_row_is_not_another_form(tmp_path):
    lines = [f"{csv(n, loss)}\nsaved 3 files in {n % 7}.5 s" for n, loss in enumerate(LOSS)]
    path = tmp_path / "run.csv"
    path.write_text("\n".join(["step,loss,lr", *lines]))
    assert stabdiag.diagnose(path).diagnosis.slug == "healthy"


def test_times_since_the_start_and_dates_are_not_one_clock(tmp_path):
    lines = [
        json.dumps({"step": n, "loss": loss, "_runtime": 7.0 * n})
        if n < CHANGE
        else f"[2026-01-02 03:{n // 60:02d}:{n % 60:02d}] INFO train: step={n} loss={loss:.4f}"
        for n, loss in enumerate(LOSS.tolist())
    ]
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(lines))
    report = stabdiag.diagnose(path)
    assert report.diagnosis.slug == "healthy"
    assert len(report.history.series["loss"]) == RECORDS


@pytest.mark.parametrize("name", ["flat", "nested"])
def test_words_in_place_of_a_loss_are_no_further_records(tmp_path, name):
    def record(n, loss):
        values = {"loss": loss, "acc": 0.5 + n / 1000}
        return (
            {"progress": {"step": n}, "train": values}
            if name == "nested"
            else {"step": n, **values}
        )

    losses = [*LOSS[:CHANGE], *["boom"] * (RECORDS - CHANGE)]
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(json.dumps(record(n, loss)) for n, loss in enumerate(losses)))
    assert stabdiag.diagnose(path).diagnosis.slug == "nan-dtype-unknown"


@pytest.mark.parametrize("word", ["lost", "not finite"])
@pytest.mark.parametrize("change", ["values before their names", "rows after prints"])
def test_a_word_for_a_loss_after_the_change_is_not_ignored(log, change, word, tmp_path):
    text = log(change).read_text()
    last = f"{LOSS[-1]:.4f}"
    (tmp_path / "run.log").write_text(text.replace(last, word))
    assert stabdiag.diagnose(tmp_path / "run.log").diagnosis.slug != "healthy"


def test_utf16_below_utf8_is_read(tmp_path):
    lines = [f"step {n * 10} loss {x:.4f}" for n, x in enumerate(LOSS.tolist())]
    head, tail = "\n".join([*lines[:CHANGE], ""]), "\r\n".join([*lines[CHANGE:], ""])
    (tmp_path / "run.log").write_bytes(head.encode() + tail.encode("utf-16"))
    report = stabdiag.diagnose(tmp_path / "run.log")
    assert report.diagnosis.slug == "healthy"
    assert len(report.history.logged("loss")) == RECORDS
