"""Lists and columns below the statements that print them."""

import pytest

import stabdiag

LOSSES = [1.5, 1.25, 1.0, 0.75, 0.5, 0.25]
EVALUATED = [1.6, 1.4, 1.3, 1.35, 1.4, 1.5]


@pytest.fixture
def series(tmp_path):
    def series(text):
        path = tmp_path / "train.log"
        path.write_text(text)
        return stabdiag.read(path).series

    return series


@pytest.mark.parametrize(
    "form",
    [
        "print(history['loss'])\nprint(history['val_loss'])\n\n{loss}\n{evaluated}\n",
        "print(h.history['loss'])\n{loss}\n\nprint(h.history['val_loss'])\n{evaluated}\n",
        "print test_loss\nprint train_loss\n{evaluated}\n{loss}\n",
        ">>> train_losses\n{loss}\n>>> test_losses\n{evaluated}\n",
        "In [7]: run.val_loss\nOut[7]: {evaluated}\n\nIn [8]: run.loss\nOut[8]: {loss}\n",
        '>>> print(hist["val_loss"])\n{evaluated}\n>>> print(hist["loss"])\n{loss}\n',
        "history['loss']\n{loss}\nhistory['val_loss']\n{evaluated}\n",
    ],
)
def test_statements_name_the_lists_below(series, form):
    read = series(form.format(loss=LOSSES, evaluated=EVALUATED))
    assert read["loss"].values.tolist() == LOSSES
    assert read["eval_loss"].values.tolist() == EVALUATED


@pytest.mark.parametrize(
    "above", ["print(weights)\nprint(train_loss)\n", ">>> settings['rates']\n[0.1, 0.2]\n"]
)
def test_another_number_of_lists_keeps_its_names(series, above):
    read = series(f"{above}loss: {LOSSES}\n")
    assert read["loss"].values.tolist() == LOSSES


@pytest.mark.parametrize(
    "above",
    ["I see this:\n>>> df['AverageReturn']\n", "In [3]: df.reward\nOut[3]:\n", "  reward\n"],
)
def test_a_reward_above_a_column_names_it(series, above):
    rows = "".join(f"{n}    {value}\n" for n, value in enumerate(EVALUATED))
    assert series(above + rows)["reward"].values.tolist() == EVALUATED
