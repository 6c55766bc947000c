"""Losses and norms that went NaN without a written NaN, and their near misses."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stabdiag
from stabdiag.errors import LogError
from stabdiag.model.events import EventKind

NAN = float("nan")
TABLES, ALL = ("csv", "jsonl"), ("csv", "jsonl", "memory")
in_all_formats = pytest.mark.parametrize("format", ALL)
dense_and_sparse = pytest.mark.parametrize("dense", [True, False], ids=["dense", "sparse"])


def nan_steps(history, role="loss"):
    series = history.series[role]
    return series.steps[~np.isfinite(series.values)].tolist()


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("value", ["NaN", "null"])
def test_a_placeholder_at_each_start_of_a_counter_is_no_nan(tmp_path, start, value):
    counts = [*range(start, start + 20)] * 4
    losses = [value if n == start else f"{2 - i / 90:.3f}" for i, n in enumerate(counts)]
    rows = [f'{{"step": {n}, "loss": {x}}}\n' for n, x in zip(counts, losses, strict=True)]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(rows))
    assert stabdiag.diagnose(path).diagnosis.slug == "healthy"
    rows[30] = f'{{"step": {counts[30]}, "loss": NaN}}\n'
    path.write_text("".join(rows))
    assert stabdiag.diagnose(path).diagnosis.severity == "error"


def test_losses_of_another_column_may_follow_values_that_are_missing(tmp_path):
    """A loss with words from the middle on, next to a rare evaluation loss."""
    rows = ("lost" if n > 40 else f"{2 - n / 90:.3f}" for n in range(80))
    text = "".join(f"{n},{x},{'1.5' if n % 10 == 9 else ''}\n" for n, x in enumerate(rows))
    path = tmp_path / "log.csv"
    path.write_text(f"step,train_loss,val_loss\n{text}")
    assert stabdiag.diagnose(path).diagnosis.severity == "error"


def hidden_nan_messages(history):
    return [e.message for e in history.events if e.kind is EventKind.HIDDEN_NAN]


def without(record, *names):
    return {key: value for key, value in record.items() if key not in names}


def changed(log, at, **values):
    """Return the records with changed values at some steps; ``...`` removes a value."""
    out = ({**r, **values} if r["step"] in at else r for r in log)
    return [{name: value for name, value in r.items() if value is not ...} for r in out]


def only(log, *names):
    return [{name: r[name] for name in names} for r in log]


def ends_on_zeros(rows, since, eval_loss):
    """Return ten losses, the last of them 0, with an evaluation in the middle and at the end."""
    log = changed(only(rows(10), "step", "loss"), range(since, 10), loss=0.0)
    return [
        *log[:7],
        {"step": 6, "eval_loss": eval_loss},
        *log[7:],
        {"step": 9, "eval_loss": eval_loss},
    ]


@pytest.mark.parametrize(
    ("format", "make", "lost"),
    [
        # The loss is missing next to the values logged with it.
        ("csv", lambda r: changed(r(25), range(20, 25), loss=..., grad_norm=...), range(20, 25)),
        ("jsonl", lambda r: changed(r(26), range(20, 26), loss=...), range(20, 26)),
        ("jsonl", lambda r: changed(r(30), range(10, 14), loss=...), range(10, 14)),
        ("jsonl", lambda r: changed(only(r(30), "step", "loss", "lr"), (10, 11), loss=...), ()),
        ("jsonl", lambda r: changed(r(30), [12], loss=..., grad_norm=NAN), [12]),
        # A blank cell or a missing key next to a gradient norm.
        *(
            (format, lambda r, at=at: changed(r(60), at, loss=...), at)
            for format in ("csv", "jsonl")
            for at in ([12], [12, 13], [12, 20], [58, 59])
        ),
        # A blank cell in the last record may be a cut; in every second record it is normal.
        *(
            (
                format,
                lambda r, at=at: changed(r(at[0] + 1 if len(at) == 1 else 60), at, loss=...),
                (),
            )
            for format in ("csv", "jsonl")
            for at in ([29], range(1, 60, 2))
        ),
        # Zero with a norm that is not finite, unless zeros are usual.
        ("jsonl", lambda r: changed(r(30), range(20, 30), loss=0.0, grad_norm=NAN), range(20, 30)),
        ("jsonl", lambda r: changed(r(30, loss=0.0), [3], grad_norm=NAN), ()),
        ("jsonl", lambda r: changed(r(30), [20], loss=0.0), ()),
        ("jsonl", lambda r: changed(only(r(30), "step", "loss"), [20], loss=0.0), ()),
        # Zeros that another logger wrote as well, without the norm.
        (
            "jsonl",
            lambda r: [
                record
                for x in r(9, loss=0.0, grad_norm=NAN)
                for record in (*2 * only([x], "step", "loss"), x)
            ],
            range(9),
        ),
        # Zeros to the end, and an evaluation since or just before.
        *(
            (
                "jsonl",
                lambda r, n=n, eval_loss=eval_loss: ends_on_zeros(r, n, eval_loss),
                range(n, 10) if bad else (),
            )
            for n, eval_loss, bad in (
                (7, NAN, True),
                (8, NAN, True),
                (0, NAN, True),
                (9, NAN, False),
                (7, 2.5, False),
            )
        ),
        ("jsonl", lambda r: [{**x, "grad_norm": 1.0} for x in ends_on_zeros(r, 7, NAN)], ()),
        # Records that hold only a step.
        *(
            (
                format,
                lambda r, n=n: [
                    *only(r(20), "step", "loss"),
                    *({"step": 20 + i} for i in range(n)),
                ],
                range(20, 20 + n) if n == 5 else (),
            )
            for format in ("csv", "jsonl")
            for n in (2, 5)
        ),
        # Records with values of another kind, and no loss.
        (
            "jsonl",
            lambda r: [
                *only(r(20), "step", "loss"),
                *({"step": n, "disk": 1} for n in range(20, 25)),
            ],
            (),
        ),
        # Nulls before the first loss, and a logger that writes nulls throughout.
        ("jsonl", lambda r: changed(r(30), range(5), loss=None), ()),
        (
            "jsonl",
            lambda r: [{"step": s, "loss": x} for s in range(40) for x in (3.0, 3.0, None, None)],
            (),
        ),
        # A loss that is usually blank is not missing.
        (
            "csv",
            lambda r: [
                {"step": n, "metric": "loss", "value": None if n % 2 else 3.0} for n in range(30)
            ],
            (),
        ),
    ],
)
def test_hidden_nan_losses_are_found(build, rows, format, make, lost):
    history = build(make(rows), format)
    assert nan_steps(history) == list(lost)
    assert len(hidden_nan_messages(history)) == bool(list(lost))


def test_a_written_nan_is_not_counted_as_hidden(build, rows):
    history = build(changed(rows(30), [12], loss=NAN))
    assert nan_steps(history) == [12]
    assert hidden_nan_messages(history) == []


@pytest.mark.parametrize("format", ["jsonl", "memory"])
@pytest.mark.parametrize("company", [True, False], ids=["with an lr", "alone"])
def test_a_written_null_counts_as_nan(build, rows, company, format):
    log = changed(rows(30), [12], loss=None)
    history = build(log if company else only(log, "step", "loss"), format)
    assert nan_steps(history) == [12]
    assert hidden_nan_messages(history) == [
        "1 loss counts as NaN from step 12 on, although not written as NaN: "
        "the loss was written as null"
    ]


def test_a_null_in_a_dense_log_counts_next_to_other_values(build, rows):
    log = []
    for record in rows(40):
        log.append({**record, "eval_loss": None})
        if record["step"] % 10 == 9:
            log.append({**dict.fromkeys(record), "step": record["step"], "eval_loss": 2.0})
    log[15]["loss"] = None
    assert nan_steps(build(log)) == [log[15]["step"]]


# Logs whose records have no loss, or only an occasional one, as frameworks write them: which losses
# count as NaN.

LOGS = []


def lost(*steps, formats=ALL):
    """Read the yielded records in some formats; the loss is lost at these steps."""

    def add(make):
        LOGS.extend((make, format, list(steps)) for format in formats)
        return make

    return add


@lost(*range(21, 40, 2), formats=TABLES)
def blank_losses_between_records_of_a_monitor():
    for step in range(40):
        yield {"step": step, "lr-AdamW": 1e-3, "train_loss": None, "train_acc": None}
        if step % 2:
            loss = 3.0 if step < 20 else None
            yield {"step": step, "lr-AdamW": None, "train_loss": loss, "train_acc": 0.5}


@lost(formats=("csv",))
def bursts_of_something_else_among_the_losses():
    for step in range(60):
        yield {"step": step, "loss": 3.0, "acc": 0.5}
        yield from [{"step": step, "gpu_util": 90.0}] * (4 if step % 10 == 0 else 0)


@lost()
def validation_rows_of_lightning():
    for step in range(60):
        yield {"epoch": 0, "step": step, "train_loss": 3.0, "val_loss": None}
        if step % 10 == 9:
            yield {"epoch": 0, "step": step, "train_loss": None, "val_loss": 2.5}


@lost(formats=("jsonl",))
def the_summary_row_of_the_hf_trainer():
    for i in range(1, 51):
        extra = {"grad_norm": 1.0, "learning_rate": 1e-4, "epoch": i / 50, "step": 10 * i}
        yield {"loss": 3.0 - i / 50, **extra}
    yield {"eval_loss": 2.1, "eval_runtime": 3.0, "epoch": 1.0, "step": 500}
    yield {"train_loss": 2.2, "train_runtime": 60.0, "epoch": 1.0, "step": 500}


@lost(formats=TABLES)
def evaluation_rows_that_carry_the_learning_rate():
    for step in range(60):
        yield {"step": step, "loss": 3.0, "lr": 1e-3, "grad_norm": 1.0}
        if step % 20 == 19:
            yield from ({"step": step, "lr": 1e-3, "eval/loss": 2.0 + i} for i in range(4))


@lost(formats=("jsonl",))
def the_dense_nulls_of_a_wandb_history():
    for step in range(50):
        row = {"_step": step, "train/loss": None, "train/lr": None, "eval/loss": None, "gpu": None}
        yield {**row, "gpu": 0.9}
        yield {**row, "train/loss": 3.0, "train/lr": 1e-3}
        if step % 10 == 9:
            yield {**row, "eval/loss": 2.0}


@lost()
def evaluations_of_which_some_fall_on_a_record_of_the_loss():
    for step in range(0, 1000, 10):
        eval_loss = 2.0 if step % 50 == 0 else None
        yield {"step": step, "train_loss": 3.0, "lr": 1e-3, "val_loss": eval_loss}
        if step % 70 == 0:  # at the end of an epoch
            yield {"step": step + 5, "train_loss": None, "lr": None, "val_loss": 2.0}


@lost()
def a_loss_every_fiftieth_time_the_learning_rate_is():
    for step in range(1000):
        yield {"step": step, "lr": 1e-3} | ({"loss": 3.0} if step % 50 == 0 else {})


@lost(formats=("jsonl",))
def losses_in_bursts_of_which_the_last_is_not_written_when_the_run_is_killed():
    for step in range(1050):
        yield {"step": step, "lr": 1e-3}
        if step % 100 == 99:
            yield from ({"step": s, "loss": 3.0} for s in range(step - 99, step + 1))


@lost(formats=("csv",))
def a_record_of_training_for_the_loss_and_one_for_the_rest():
    for step in range(60):
        yield {"step": step, "phase": "train", "loss": 3.0, "acc": None}
        yield {"step": step, "phase": "train", "loss": None, "acc": 0.5}
        if step % 10 == 9:
            yield {"step": step, "phase": "val", "loss": 2.0, "acc": 0.5}


@pytest.mark.parametrize(
    ("make", "format", "steps"), LOGS, ids=[f"{make.__name__}-{form}" for make, form, _ in LOGS]
)
def test_a_log_as_its_framework_writes_it(build, make, format, steps):
    history = build(list(make()), format)
    assert nan_steps(history) == steps
    assert len(hidden_nan_messages(history)) == bool(steps)


@pytest.mark.parametrize(
    "last", [{"gpu_util": 90.0}, {"bleu": 0.3}, {"elapsed": 70.0}, {"sample": "a cat"}]
)
@pytest.mark.parametrize("format", TABLES)
def test_rows_after_the_training_are_not_hidden_nans(build, format, last):
    log = [{"step": n, "loss": 3.0 - n / 40, "acc": 0.5, **dict.fromkeys(last)} for n in range(40)]
    log += [{"step": step, "loss": None, "acc": None, **last} for step in range(40, 46)]
    history = build(log, format)
    assert nan_steps(history) == []
    assert len(history.series["loss"]) == 40


# The gradient norm.


@pytest.mark.parametrize("format", ["jsonl", "memory"])
def test_a_null_gradient_norm(build, rows, format):
    history = build(changed(rows(30), [7], grad_norm=None), format)
    assert nan_steps(history, "grad_norm") == [7]
    assert hidden_nan_messages(history) == [
        "1 value of grad_norm counts as not finite: missing, null or -1 in a record with a loss"
    ]


@pytest.mark.parametrize(
    ("formats", "make", "lost"),
    [
        # Nulls before the first norm prove nothing.
        (("jsonl", "memory"), lambda r: changed(r(30), (0, 1, 2, 7), grad_norm=None), [7]),
        # A norm was dropped from an otherwise complete record.
        (ALL, lambda r: changed(r(30), [7], grad_norm=...), [7]),
        (("jsonl",), lambda r: changed(r(30), [7], grad_norm=..., lr=...), []),
        (
            ("jsonl",),
            lambda r: changed(only(r(30), "step", "loss", "grad_norm"), [7], grad_norm=...),
            [],
        ),
        # A norm at every tenth step, and a norm that stops being logged.
        *(
            (ALL, lambda r, gone=gone: [x if x["step"] % 10 == 0 else gone(x) for x in r(100)], [])
            for gone in (lambda x: {**x, "grad_norm": None}, lambda x: without(x, "grad_norm"))
        ),
        (("csv",), lambda r: changed(r(500), range(400, 500), grad_norm=...), []),
        # The -1 of ZeRO-3.
        (("jsonl",), lambda r: changed(r(30), [7], grad_norm=-1.0), [7]),
        # Nulls that fill every gap.
        (
            ("jsonl",),
            lambda r: [
                record
                for x in r(30)
                for record in (
                    {**x, "lr": None, "grad_norm": None},
                    {"step": x["step"], "loss": None, "lr": 1e-3, "grad_norm": 1.0},
                )
            ],
            [],
        ),
    ],
)
def test_hidden_non_finite_norms_are_found(build, rows, formats, make, lost):
    for format in formats:
        history = build(make(rows), format)
        assert nan_steps(history, "grad_norm") == lost
        assert len(hidden_nan_messages(history)) == len(lost)


@in_all_formats
@pytest.mark.parametrize("apart", [False, True], ids=["only there", "elsewhere as well"])
def test_zero_from_where_the_norm_is_blank(build, rows, format, apart):
    log = changed(rows(60), range(20, 60), grad_norm=..., loss=0.0)
    log[10]["loss"] = 0.0 if apart else 3.0
    assert nan_steps(build(log, format)) == ([] if apart else list(range(20, 60)))


def test_norms_lost_by_group_are_reported_in_one_line(build, rows):
    norms = ("grad_norm", "grad_norm/a", "grad_norm/b")
    log = changed(rows(30, **dict.fromkeys(norms, 1.0)), (7, 8), **dict.fromkeys(norms))
    history = build(log)
    assert nan_steps(history, "grad_norm/b") == [7, 8]
    (message,) = hidden_nan_messages(history)
    assert message.startswith("2 values of grad_norm and 2 similar series count as not finite")


def test_a_norm_that_is_always_null_was_never_measured(build, rows):
    history = build(rows(20, grad_norm=None))
    assert hidden_nan_messages(history) == []
    assert "grad_norm" not in history.series or not len(history.series["grad_norm"])


# The norm is alternately present and absent for these numbers of records.
COMES_AND_GOES = (4, 25, 1, 3, 1, 40, 2, 7, 1, 30, 30)


@in_all_formats
@pytest.mark.parametrize(
    ("lengths", "extra", "lost"),
    [
        (COMES_AND_GOES, {"loss_scale": 65536.0}, 105),
        (COMES_AND_GOES, {}, 0),
        (COMES_AND_GOES[:5], {"loss_scale": 65536.0}, 0),
        ((1, 25) * 5, {"loss_scale": 65536.0}, 0),
    ],
    ids=["a scaler", "no scaler", "a change of the logger", "a rhythm"],
)
def test_an_intermittent_norm_with_a_loss_scale(build, rows, lengths, extra, lost, format):
    here = [number % 2 == 0 for number, length in enumerate(lengths) for _ in range(length)]
    log = rows(len(here), **extra)
    log = [r if norm else without(r, "grad_norm") for r, norm in zip(log, here, strict=True)]
    assert len(nan_steps(build(log, format), "grad_norm")) == lost


# A loss that is followed by another.


def test_a_loss_that_is_null_in_every_record(build):
    records = [{"step": s, "loss": None, "grad_norm": 1.0 + s % 3} for s in range(30)]
    history = build(records)
    assert np.isnan(history.series["loss"].values).sum() == 30
    with pytest.raises(LogError, match="no record has both a step and a loss"):
        build(records[:2])


@pytest.mark.parametrize("format", TABLES)
def test_a_loss_that_is_replaced_by_another(build, rows, format):
    second = ({**without(r, "loss"), "stage2_loss": 3.0} for r in rows(20, start=20))
    history = build([*rows(20), *second], format)
    assert len(history.series["loss"]) == 20
    assert nan_steps(history) == []
    (message,) = (event.message for event in history.events if event.step == 20)
    assert "from step 20 on 'stage2_loss' is logged in place of the loss" in message


@pytest.mark.parametrize("format", TABLES)
def test_an_unknown_column_that_continues_the_loss_replaces_it(build, rows, format):
    second = ({**without(r, "loss"), "energy": r["loss"]} for r in rows(40)[20:])
    history = build([*rows(40)[:20], *second], format)
    assert nan_steps(history) == []
    (message,) = (event.message for event in history.events if event.step == 20)
    assert "from step 20 on 'energy' is logged in place of the loss" in message


@pytest.mark.parametrize("name", ["cost", "objective", "criterion", "train/losses", "loss_value"])
def test_another_general_name_continues_the_loss(build, rows, name):
    second = ({**without(r, "loss"), name: r["loss"]} for r in rows(40)[20:])
    assert len(build([*rows(40)[:20], *second]).series["loss"]) == 40


@pytest.mark.parametrize(
    ("name", "value", "start"),
    [
        ("energy", 300.0, 20),
        ("stage2_loss", float("nan"), 20),  # not a number either
        ("stage2_loss", 3.0, 19),  # next to the previous loss
        ("stage2_acc", 3.0, 20),
        ("val_loss", 3.0, 26),  # an evaluation, after records without
    ],
)
def test_a_loss_that_is_not_replaced(build, rows, name, value, start):
    log = changed(rows(28), range(20, 28), loss=...)
    log = [{**r, name: value} if r["step"] >= start else r for r in log]
    assert nan_steps(build(log))[:5] == list(range(20, 25))


def test_a_chosen_loss_that_is_never_a_number_has_no_successor(build, rows):
    log = [{**r, "loss": None, "other_loss": 2.0 - r["step"] / 64} for r in rows(20)]
    history = build(log, chosen={"loss": "loss"})
    assert nan_steps(history) == list(range(20))
    assert not [e for e in history.events if "in place of the loss" in e.message]


# One record per epoch, with training and evaluation.


def epochs(n, good, gone, **extra):
    """Return epochs with an evaluation each; from ``good`` the values of ``gone`` replace them."""
    log = [
        {
            "epoch": e,
            "train_loss": 3.0 / (1 + e),
            "val_loss": 3.2 / (1 + e),
            "val_acc": 0.5,
            **extra,
        }
        for e in range(n)
    ]
    return [{**r, **gone} if r["epoch"] >= good else r for r in log]


@in_all_formats
@pytest.mark.parametrize("extra", [{}, {"lr": 1e-3}], ids=["alone", "with an lr"])
def test_a_loss_that_is_missing_from_evaluated_epochs(build, format, extra):
    log = epochs(50, 40, {"train_loss": None, "val_loss": None, "val_acc": 0.1}, **extra)
    history = build(log, format)
    assert nan_steps(history) == list(range(40, 50))
    assert len(hidden_nan_messages(history)) >= 1


# Each metric has its own record.


def apart(n, until, gone=None, **other):
    """Steps with a record for the loss, up to ``until``, and one for the rest."""
    log = []
    for step in range(0, 10 * n, 10):
        if step < until:
            log.append({"step": step, "loss": 4.0 - step / 1e4})
        elif gone is not None:
            log.append({"step": step, **gone})
        log.append({"step": step, **(other or {"lr": 1e-3, "grad_norm": 1.0})})
    return log


@in_all_formats
@pytest.mark.parametrize("gone", [None, {"loss": None}], ids=["no record", "a blank"])
def test_a_loss_that_stops_where_each_metric_has_its_own_record(build, gone, format):
    history = build(apart(200, 1500, gone), format)
    assert nan_steps(history) == list(range(1500, 2000, 10))
    assert len(hidden_nan_messages(history)) == 1


LATER = range(2000, 2200, 10)


@pytest.mark.parametrize(
    "after",
    [
        [{"step": 2000, "lr": 1e-3}, {"step": 2010, "lr": 1e-3}],  # killed before the loss came
        [{"step": 1990, "lr": 1e-3}] * 9,  # the step does not increase
        [{"step": s, "val_loss": 2.0} for s in LATER],
        [{"step": s, "memory": 2.0} for s in LATER],  # not a measure of training
        [r for s in LATER for r in ({"step": s, "b_loss": 2}, {"step": s, "lr": 1})],
    ],
    ids=["killed", "last step", "evaluation", "monitor", "successor"],
)
def test_separate_records_after_the_last_loss_are_not_lost_losses(build, after):
    assert nan_steps(build(apart(200, 2000) + after)) == []


@pytest.mark.parametrize("every", [2, 20, 50])
def test_a_monitor_that_is_logged_more_often_than_the_loss(build, every):
    log = []
    for step in range(1000):
        log.append({"step": step, "lr": 1e-3})
        if step % every == every - 1 and step < 960:
            log.append({"step": step, "loss": 3.0})
    assert nan_steps(build(log)) == []


def test_a_resume_repeats_the_steps_without_losses(build):
    assert nan_steps(build(apart(100, 500) + apart(100, 1000)[100:])) == []


# Records that are labeled as the loss.


def long(log, *, gaps=False):
    """Return one record per measurement; with ``gaps`` also for missing measurements."""
    names = ["loss", "acc", "val_loss"]
    return [
        {"step": record["step"], "metric": name, "value": record.get(name)}
        for record in log
        for name in names
        if gaps or name in record
    ]


@in_all_formats
def test_a_measurement_named_loss_that_is_blank(build, format):
    wide = [{"step": s, "loss": 3.0 - s / 60, "acc": 0.5} for s in range(60)]
    history = build(long(changed(wide, range(20, 60), loss=None, val_loss=None)), format)
    assert nan_steps(history) == list(range(20, 60))
    assert len(hidden_nan_messages(history)) == 1


@in_all_formats
@pytest.mark.parametrize("every", [1, 10])
def test_blanks_in_the_gaps_of_a_long_table(build, every, format):
    wide = []
    for step in range(60):
        wide.append({"step": step, "acc": 0.5} | ({"loss": 3.0} if step % every == 0 else {}))
        if every == 1 and step % 10 == 9:
            wide.append({"step": step, "val_loss": 2.0})
    assert nan_steps(build(long(wide, gaps=True), format)) == []


@pytest.mark.parametrize(("later", "is_hidden"), [(4.0, True), (None, False)])
def test_blank_activations_next_to_a_hidden_nan_were_not_finite(tmp_path, later, is_hidden):
    """If no layer was logged in the record, nothing shows that the others were."""
    n, bad = 60, 57
    columns = {
        "step": list(range(n)),
        "loss": [2.0 - 0.01 * i if i < bad else None for i in range(n)],
        "grad_norm": [1.0] * n,
        "act_norm/layers.0": [3.0 if i < bad else later for i in range(n)],
        "act_norm/layers.1": [3.0 if i < bad else None for i in range(n)],
    }
    path = tmp_path / "run.parquet"
    pq.write_table(pa.table(columns), path)
    last = stabdiag.read(path).series["activation_norm/layers.1"]
    assert np.isnan(last.values[-3:]).all() == is_hidden
    assert len(last) == (n if is_hidden else bad)
