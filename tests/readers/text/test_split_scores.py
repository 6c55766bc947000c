"""Scores that a log calls by the name of their split: Train: 0.34, Val: 0.32, Test: 0.33."""

import pytest

import stabdiag
from stabdiag.errors import LogError

RISING = (0.3125, 0.5, 0.6875)
FALLING = (0.6875, 0.5, 0.3125)


@pytest.fixture
def series(tmp_path):
    def read(text):
        (tmp_path / "run.log").write_text(text)
        return stabdiag.read(tmp_path / "run.log").series

    return read


def log(form, values):
    return "".join(
        form.format(epoch=epoch, loss=2.5 - epoch / 4, train=value, val=value - 0.125)
        for epoch, value in enumerate(values, start=1)
    )


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("Epoch: {epoch:03d}, Train: {train:.4f}, Val: {val:.4f}\n", "Val_score"),
        ("Epoch: {epoch}, Train: {train:.2%}, Valid: {val:.2%}, Test: {val:.2%}\n", "Valid_score"),
        ("Epoch {epoch} | Train {train:.4f} | Valid {val:.4f} | Test {val:.4f}\n", "Valid_score"),
        ("Epoch: {epoch}, val: {val:.4f}, test: {val:.4f}\n", "val_score"),
        ("Epoch: {epoch}, train: {train:.4f}, dev: {val:.4f}\n", "dev_score"),
        ("[{epoch:02d}] tr {train:.2%} te {val:.2%}\n", "test_score"),
        ("{epoch}: train={train:.4f} dev={val:.4f}\n", "dev_score"),
        ("Run: 00, Epoch: {epoch}, Train: {train:.4f}, Test: {val:.4f}\n", "Test_score"),
        (
            "Epoch: {epoch}, Train: {train:.4f}, Val: {val:.4f}, Best Val: {val:.4f}\n",
            "Val_score",
        ),
        ("Epoch: {epoch}, Train: {train:.4f}, Val: {val:.4f}\nmax_val: {val:.4f}\n", "Val_score"),
    ],
)
def test_scores_of_splits_without_a_loss(series, form, name):
    columns = series(log(form, RISING))
    scale = 100 if "%}" in form else 1
    assert columns[f"score/{name}"].steps.tolist() == [1, 2, 3]
    assert columns[f"score/{name}"].values.tolist() == [(v - 0.125) * scale for v in RISING]
    assert "loss" not in columns


@pytest.mark.parametrize("values", [RISING, (0.25, 0.25, 0.25)])
def test_scores_of_splits_next_to_a_loss(series, values):
    form = "Epoch: {epoch}, Loss: {loss}, Train: {train:.4f}, Val: {val:.4f}\n"
    columns = series(log(form, values))
    assert columns["loss"].values.tolist() == [2.25, 2.0, 1.75]
    assert columns["score/Val_score"].values.tolist() == [value - 0.125 for value in values]


def test_a_score_that_is_nan_later_is_kept(series):
    text = log("Epoch: {epoch}, Loss: {loss}, Train: {train:.4f}, Val: {val:.4f}\n", RISING)
    columns = series(text.replace("Val: 0.5625", "Val: nan"))
    assert len(columns["score/Val_score"].values) == 3


@pytest.mark.parametrize(
    "form",
    [
        # error rates or other losses, which fall
        "Epoch: {epoch}, Loss: {loss}, Train: {train:.4f}, Val: {val:.4f}\n",
        # times
        "Epoch: {epoch}, Loss: {loss}, Train: {train:.4f}s, Val: {val:.4f}s\n",
    ],
)
def test_other_values_of_splits_next_to_a_loss(series, form):
    assert [*series(log(form, FALLING))] == ["loss"]


def test_falling_values_of_splits_are_losses(series):
    columns = series(log("Epoch: {epoch}, Train: {train:.4f}, Val: {val:.4f}\n", FALLING))
    assert columns["loss"].values.tolist() == [*FALLING]
    assert columns["eval_loss"].values.tolist() == [value - 0.125 for value in FALLING]


def test_times_of_splits_are_no_scores(series):
    with pytest.raises(LogError):
        series(log("Epoch: {epoch}, Train: {train:.4f}s, Val: {val:.4f}s\n", RISING))


@pytest.mark.parametrize(
    "form",
    [
        "epoch {n}: loss train {x:.4f}, val {y:.4f}",
        "epoch {n}: Loss train={x:.4f}, test={y:.4f}",
        "[{n}] cost tr {x:.4f} / dev {y:.4f}",
        "step {n} mse training: {x:.4f}; valid: {y:.4f}",
    ],
)
def test_a_measure_may_precede_its_splits(series, form):
    lines = (form.format(n=n, x=0.4 + 2 / (n + 1), y=0.5 + 2 / (n + 1)) for n in range(30))
    logged = series("\n".join(lines))
    assert (logged["loss"].values[0], logged["eval_loss"].values[0]) == (2.4, 2.5)


def test_the_rows_of_a_printed_table_may_be_splits(tmp_path):
    path = tmp_path / "train.log"
    rows = "│ price │ loss │ r2 │\n╞═══════╪══════╪════╡\n"
    rows += "│ {} │ {} │ 0.5 │\n│ vali │ {} │ 0.25 │\n│ test │ {} │ 0.25 │\n"
    epochs = (
        f"Epoch {n}\n{rows.format('train', 4 - n / 8, 5 - n / 8, 6 - n / 8)}\n" for n in range(1, 9)
    )
    path.write_text("".join(epochs))
    series = stabdiag.read(path).series
    assert series["loss"].values.tolist() == [4 - n / 8 for n in range(1, 9)]
    assert series["eval_loss"].values.tolist() == [5 - n / 8 for n in range(1, 9)]
