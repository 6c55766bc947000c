"""The step of each record."""

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import ColumnError
from stabdiag.model.events import EventKind
from tests.assemble.conftest import messages


def notes(history):
    return [event.message for event in history.events if event.kind is EventKind.STEPS]


def log(values, name="step"):
    return [{name: value, "loss": 3.0 - i / 100} for i, value in enumerate(values)]


def epochs(*runs, name="epoch"):
    """Runs that were appended: their epochs, and the loss that each begins with."""
    return [{name: n, "loss": first - n / 10} for ns, first in runs for n in ns]


NUMBER = "no step was logged: the record number is used as the step"
SERVES = "no step was logged: {} is used as the step"
COUNTED_ON = "the step counter restarts while the values continue: its count is continued, from 8"
NOT_INTEGER = "the step column {!r} is not in whole numbers"
NO_NUMBERS = "the step column 'step' contains no numbers"


@pytest.mark.parametrize(
    ("records", "steps", "expected_notes"),
    [
        (log([10, 20, 40, 80]), [10, 20, 40, 80], []),
        (log([-2.0, -1.0, 0.0, 1.0]), [-2, -1, 0, 1], []),  # integers stored as floats
        # Records without a usable step.
        *(
            (
                log([0, 1, bad, 3]),
                [0, 1, 3],
                ["1 record has no usable step in 'step' and is left out"],
            )
            for bad in (None, float("nan"), float("inf"), 1e300)
        ),
        (
            log([0, None, None, 3]),
            [0, 3],
            ["2 records have no usable step in 'step' and are left out"],
        ),
        # No step column of numbers.
        (log([0.5, 1.0, 1.5, 2.0]), [0, 1, 2, 3], [NOT_INTEGER.format("step"), NUMBER]),
        (log([None] * 4), [0, 1, 2, 3], [NO_NUMBERS, NUMBER]),
        (log([float("nan")] * 4), [0, 1, 2, 3], [NO_NUMBERS, NUMBER]),
        (log(["a", "b", "c", "d"]), [0, 1, 2, 3], [NO_NUMBERS, NUMBER]),
        ([{"loss": 3.0}, {"loss": 2.0}], [0, 1], [NUMBER]),
        # A single step and many epochs, as in a damaged log.
        (
            [{"epoch": n, "loss": 3.0, **({"step": 7} if n == 4 else {})} for n in range(20)],
            [7],
            ["19 records have no usable step in 'step' and are left out"],
        ),
        # The steps that each episode took.
        (
            [{"episode": n, "steps": 9 - n * n % 7, "loss": 3.0} for n in range(20)],
            list(range(20)),
            [
                "the step column 'steps' does not increase with 'episode': it is the length of "
                "each",
                SERVES.format("'episode'"),
            ],
        ),
        # Episodes next to a fraction of an epoch, or to an epoch with several records.
        (
            [{"episode": 16 * n, "epoch": n / 40, "loss": 3.0} for n in range(9)],
            list(range(0, 144, 16)),
            [NOT_INTEGER.format("epoch"), SERVES.format("'episode'")],
        ),
        (
            [{"epoch": n // 3, "episode": n, "loss": 3.0} for n in range(9)],
            list(range(9)),
            [SERVES.format("'episode'")],
        ),
        (
            [{"epoch": n / 40, "episode": n // 3, "loss": 3.0} for n in range(9)],
            list(range(9)),
            [NOT_INTEGER.format("epoch"), NUMBER],
        ),
        # The epoch, where there is one record each.
        (log([1, 2, 4], "epoch"), [1, 2, 4], [SERVES.format("'epoch'")]),
        (log([1, 1, 2, 2], "epoch"), [0, 1, 2, 3], [NUMBER]),
        (log([0.1, 0.2, 0.3], "epoch"), [0, 1, 2], [NOT_INTEGER.format("epoch"), NUMBER]),
        (log([1, 2, 3], "época"), [1, 2, 3], [SERVES.format("'época' (the epoch)")]),
        (log([5, 10, 15], "round"), [5, 10, 15], [SERVES.format("'round'")]),
        # Epochs of runs that were appended, that a resume goes over again, and of one long run.
        (
            epochs((range(10), 3.0), (range(10), 2.6), (range(6), 2.5)),
            *([*range(6)], [SERVES.format("'epoch'")]),
        ),
        (
            epochs((range(10), 3.0), (range(6, 14), 3.0)),
            *([*range(14)], [SERVES.format("'epoch'"), "4 losses are superseded by later ones"]),
        ),
        (
            epochs((range(1, 8), 3.0), (range(1, 8), 2.4)),
            *([*range(1, 15)], [SERVES.format("'epoch'"), COUNTED_ON]),
        ),
    ],
)
def test_the_step_of_each_record(build, records, steps, expected_notes):
    history = build(records)
    assert history.series["loss"].steps.tolist() == steps
    assert notes(history) == expected_notes


@pytest.mark.parametrize(
    ("losses", "steps"),
    [
        ([3.0, 3.0, 2.5, 2.5, 2.25, 2.25], [4, 5, 6]),
        ([3.0, 3.0, np.nan, np.nan, np.nan, np.nan], [4, 5, 6]),
        ([3.0, 3.0, 2.5, 2.25, 2.0, 1.75], [0, 1, 2, 3, 4, 5]),
        ([3.0] * 6, [0, 1, 2, 3, 4, 5]),  # a loss that stays the same at each step
    ],
)
@pytest.mark.parametrize("name", ["loss", "val_loss"])
def test_a_record_that_each_rank_printed_counts_once(build, losses, steps, name):
    records = [{"epoch": 4 + n // 2, name: loss} for n, loss in enumerate(losses)]
    assert build(records).series["loss"].steps.tolist() == steps


@pytest.mark.parametrize(("second_loss", "superseded"), [(2.5, 0), (2.25, 1)])
def test_a_repeated_loss_is_not_superseded(build, second_loss, superseded):
    """A bar may be drawn twice at its end."""
    losses = [(1, 3.0), (2, 2.5), (2, second_loss), (3, 2.0)]
    events = build([{"step": step, "loss": loss} for step, loss in losses]).events
    assert sum("superseded" in event.message for event in events) == superseded


def test_steps_that_were_logged_are_not_counted_by_the_manifest():
    log = {"step": range(40), "loss": [2.0] * 40}
    history = stabdiag.diagnose(log, manifest={"logging_steps": 10}).history
    assert history.series["loss"].steps.tolist() == list(range(40))


@pytest.mark.parametrize(("times", "serves"), [(20, True), (22, False)])
def test_frequent_resets_are_treated_as_within_epoch_counter(build, times, serves):
    runs = [(range(6 + i % 2), 3.0 - i / 10) for i in range(times)]
    message = "'epoch' is used" if serves else "the record number is used"
    assert message in notes(build(epochs(*runs)))[0]


def of_bars(losses, *, as_means):
    """A bar of 40 steps an epoch, drawn at each, with the loss of the step or the mean so far."""
    shown = np.array(losses).reshape(-1, 40)
    shown = shown.cumsum(axis=1) / np.arange(1, 41) if as_means else shown
    places = [(n, at) for n in range(len(shown)) for at in range(40)]
    return [{"epoch": n, "step": at + 1, "loss": float(shown[n, at])} for n, at in places]


@pytest.mark.parametrize("scale", [0.1, 1.0])
def test_the_last_running_mean_of_an_epoch_is_used(build, scale):
    losses = 3 - np.arange(400) / 400 + np.random.default_rng(2).normal(scale=scale, size=400)
    assert len(build(of_bars(losses, as_means=False)).series["loss"]) == 400
    history = build(of_bars(losses, as_means=True))
    assert history.series["loss"].steps.tolist() == list(range(40, 401, 40))
    assert history.series["loss"].values == pytest.approx(losses.reshape(-1, 40).mean(axis=1))
    assert any(
        "a running mean of its epoch" in message for message in messages(history, EventKind.COLUMN)
    )


def test_running_means_of_an_incomplete_epoch_count_only_if_not_finite(build):
    losses = 3 + np.random.default_rng(2).normal(size=400)
    bars = of_bars(losses, as_means=True)
    assert build(bars[:-20]).series["loss"].steps[-1] == 360
    lost = build([*bars[:-20], *({**bar, "loss": np.nan} for bar in bars[-20:-10])]).series["loss"]
    assert lost.steps.tolist() == [*range(40, 361, 40), *range(381, 391)]


def test_losses_that_follow_the_order_of_the_data_are_no_running_means(build):
    order, rng = [0.6, 1.9, 0.9, 0.45, 0.6], np.random.default_rng(4)
    records = [
        {"epoch": n, "step": 10 * at, "loss": 0.013 * share * rng.normal(1, 0.06)}
        for n in range(80)
        for at, share in enumerate(order)
    ]
    assert len(build(records).series["loss"]) == len(records)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        *[("Episode", "episode"), ("round", "round"), ("epoch", "epoch")],
        *[("episode_id", "episode"), ("No. of rounds", "round"), ("Epoch Count", "epoch")],
    ],
)
def test_the_step_column_and_its_unit_are_reported(build, name, unit):
    assert build(log(range(9), name)).unit == unit


@pytest.mark.parametrize(
    "name", ["Training Step", "total_steps", "time step", "iteration number", "nb_iter", "gen", "x"]
)
def test_unusual_names_of_counters(build, name):
    assert build(log([5, 10, 15, 20, 25], name)).series["loss"].steps.tolist() == [
        5,
        10,
        15,
        20,
        25,
    ]


def test_a_count_of_rows_comes_after_a_count_with_a_name(build):
    records = [{"index": n, **record} for n, record in enumerate(log([5, 10, 20, 50], "Epoch No"))]
    assert build(records).series["loss"].steps.tolist() == [5, 10, 20, 50]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("num_steps", [31, 12, 57, 40, 9]),  # lengths
        ("total_steps", [500] * 5),  # a setting
        ("step_time", [5, 6, 7, 8, 9]),
        ("best_epoch", [1, 2, 3, 4, 6]),
        ("x", [1, 2, 4, 7, 9]),
    ],
)
def test_other_columns_do_not_count(build, name, values):
    assert build(log(values, name)).series["loss"].steps.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("tau", [1.5, 5.0])
@pytest.mark.parametrize("drop", [0.5, 2.0])
@pytest.mark.parametrize("restarts", [1, 2])
def test_bad_restarts_keep_their_losses(build, tau, drop, restarts):
    rng = np.random.default_rng(3)
    records = []
    for attempt in range(restarts + 1):
        count = 30 - 7 * attempt
        loss = 1.0 + (drop if attempt else 3.0) * np.exp(
            -np.arange(count) / (tau if attempt else 10)
        )
        loss += 0.003 * rng.standard_normal(count)
        records += [
            {"step": 10 * (i + 1), "epoch": (i + 1) / 20, "loss": value}
            for i, value in enumerate(loss.tolist())
        ]
    history = build(records)
    # A restart with a loss near its start is a run of its own.
    assert len(history.series["loss"]) == (count if history.source.attempts > 1 else len(records))
    assert not any("running mean" in event.message for event in history.events)


@pytest.mark.parametrize(
    ("last", "steps"),
    [
        # One record in each epoch, at the same iteration.
        ({"epoch": 4, "iter": 40, "loss": 0.5}, [1, 2, 3, 4]),
        # The last epoch again.
        ({"epoch": 3, "iter": 40, "loss": 0.5}, [40]),
    ],
)
def test_the_only_record_of_each_epoch_counts_as_that_epoch(build, last, steps):
    records = [{"epoch": 1, "iter": 40, "loss": 4.0}, {"epoch": 1, "iter": 90, "val_acc": 0.25}]
    records += [{"epoch": n, "iter": 40, "loss": 4.0 - n} for n in (2, 3)]
    assert build([*records, last]).series["loss"].steps.tolist() == steps


@pytest.mark.parametrize(
    "evaluation",
    [
        {"valid_loss": 2.5},
        {"epoch": 1, "eval/loss": 2.5},
        {"mode": "val", "mIoU": 0.5},
        {"test_accuracy": 0.5, "seconds": 1.5},
    ],
    ids=["loss", "epoch", "score", "accuracy"],
)
def test_an_evaluation_without_a_step_counts_at_the_record_above(build, evaluation):
    training = [{"step": n, "epoch": 1, "loss": 3.0 - n / 100} for n in (10, 20, 30)]
    history = build([*training[:2], evaluation, training[2], evaluation])
    (note,) = notes(history)
    assert note == "2 evaluations have no step in 'step'; the step above is used"
    name = next(key for key in evaluation if key not in ("epoch", "mode", "seconds"))
    series = next(series for series in history.series.values() if series.column == name)
    assert series.steps.tolist() == [20, 30]
    assert history.series["loss"].steps.tolist() == [10, 20, 30]


@pytest.mark.parametrize("other", [{"note": 1.5}, {"seconds": 2.5}, {"loss": 2.5}])
def test_other_records_without_a_step_are_left_out(build, other):
    training = [{"step": n, "loss": 3.0 - n / 100} for n in (10, 20, 30)]
    assert notes(build([*training[:2], other, training[2]])) == [
        "1 record has no usable step in 'step' and is left out"
    ]


def test_an_evaluation_above_all_steps_is_left_out(build):
    records = [{"valid_loss": 2.5}, {"step": 10, "loss": 3.0}, {"step": 20, "loss": 2.0}]
    assert notes(build(records)) == ["1 record has no usable step in 'step' and is left out"]


def test_an_unusual_counter_next_to_an_epoch_and_a_loss_in_words(tmp_path):
    path = tmp_path / "run.log"
    rows = "".join(f"{n:6d}      nan :(    0.{2000 + 13 * n}\n" for n in range(1, 25))
    path.write_text(f" epoch        loss  accuracy\n{rows}")
    with pytest.raises(ColumnError):
        stabdiag.diagnose(path)


@pytest.mark.parametrize(
    ("batches", "steps"),
    [([0, 100, 200, 300], [0, 100, 200, 300]), ([0, 1, 0, 1], [0, 1, 2, 3])],
)
def test_batches_are_steps_if_their_number_rises_throughout(build, batches, steps):
    history = build(log(batches, "batch"))
    assert history.logged("loss").steps.tolist() == steps
    ignored = [event.message for event in history.events if "ignored" in event.message]
    assert bool(ignored) == (batches[2] == 0)
