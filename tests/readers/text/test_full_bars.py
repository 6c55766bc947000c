"""Bars that are drawn when full, one for each epoch, or a second one for its evaluation."""

import pytest

import stabdiag

LOSSES = [2.25, 1.75, 1.5, 1.25, 1.125]
EVALUATED = [2.5, 2.0, 1.875, 1.9375, 2.125]


def tqdm(total, loss):
    drawn = "█" * 10
    return f"100%|{drawn}| {total}/{total} [00:12<00:00,  9.41it/s, loss={loss}]"


def before_the_bar(total, loss):
    return f"accuracy: 0.5, loss: {loss} ||: 100%|##########| {total}/{total} [00:12<00:00, 9it/s]"


def keras(total, loss):
    return f"{total}/{total} [{'=' * 30}] - 12s 9ms/step - loss: {loss} - mae: 0.25"


def series(put, lines):
    return stabdiag.diagnose(put("\n".join(lines))).history.series


@pytest.mark.parametrize("bar", [tqdm, before_the_bar, keras])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_bar_for_each_epoch_needs_no_counter(put, bar, count):
    read = series(put, [bar(60, loss) for loss in LOSSES[:count]])
    assert read["loss"].values.tolist() == LOSSES[:count]


@pytest.mark.parametrize("bar", [tqdm, before_the_bar, keras])
@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize("labels", [("", ""), ("Training: ", "Validation: "), ("train: ", "val: ")])
def test_the_second_bar_is_an_evaluation(put, bar, count, labels):
    pairs = zip(LOSSES[:count], EVALUATED, strict=False)
    lines = [line for a, b in pairs for line in (labels[0] + bar(60, a), labels[1] + bar(9, b))]
    read = series(put, lines)
    assert read["loss"].values.tolist() == LOSSES[:count]
    assert read["eval_loss"].values.tolist() == EVALUATED[:count]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Epoch {}: ", ""),
        ("Epoch {}: ", "Epoch {}: "),
        ("Epoch {}/4: ", "Epoch {}/4: "),
        ("Epoch {}: ", "Validation: "),
        ("Epoch {}: ", "Evaluating: "),
        ("Epoch {} train: ", "Epoch {} val: "),
        ("Epoch {}\n", ""),
        ("Epoch {}\nTraining: ", "Validating: "),
    ],
)
def test_the_epoch_may_be_on_either_bar(put, first, second):
    lines = []
    for epoch, (trained, evaluated) in enumerate(zip(LOSSES, EVALUATED, strict=True)):
        lines += [first.format(epoch) + tqdm(60, trained)]
        lines += [second.format(epoch) + tqdm(9, evaluated)]
    read = series(put, lines)
    assert read["loss"].values.tolist() == LOSSES
    assert read["loss"].steps.tolist() == [0, 1, 2, 3, 4]
    assert read["eval_loss"].values.tolist() == EVALUATED


@pytest.mark.parametrize("label", ["", "Epoch {}\n"])
@pytest.mark.parametrize("bar", [tqdm, before_the_bar])
@pytest.mark.parametrize("totals", [(60, 9, 12), (60, 9, 9)])
def test_the_third_bar_is_a_test(put, label, bar, totals):
    lines = []
    for epoch, (trained, evaluated) in enumerate(zip(LOSSES, EVALUATED, strict=True)):
        values = (trained, evaluated, evaluated + 0.5)
        own = [bar(total, loss) for total, loss in zip(totals, values, strict=True)]
        lines += [label.format(epoch) + own[0], *own[1:]]
    read = series(put, lines)
    assert read["loss"].values.tolist() == LOSSES
    if len({*totals}) == len(totals):
        assert read["eval_loss"].values.tolist() == EVALUATED


def test_bars_of_two_networks_are_no_evaluation(put):
    lines = []
    for epoch, (a, b) in enumerate(zip(LOSSES, EVALUATED, strict=True)):
        lines += [f"Epoch {epoch} critic: {tqdm(60, a)}", f"Epoch {epoch} actor: {tqdm(9, b)}"]
    assert "eval_loss" not in series(put, lines)


def state(n, total, loss):
    drawn = "█" * (10 * n // total)
    return f"{100 * n // total:3}%|{drawn:10}| {n}/{total} [00:01<00:01, loss={loss:.6f}]"


@pytest.mark.parametrize("label", ["Validation: ", "Val: ", "Evaluating: ", "Epoch {} val: "])
def test_the_last_state_of_the_bar_of_an_evaluation_counts(put, label):
    lines = []
    for epoch, (trained, evaluated) in enumerate(zip(LOSSES, EVALUATED, strict=True)):
        lines += [f"Epoch {epoch}: {tqdm(60, trained)}"]
        lines += [label.format(epoch) + state(n, 9, evaluated + (9 - n) / 64) for n in (0, 3, 6, 9)]
    read = series(put, lines)
    assert read["loss"].values.tolist() == LOSSES
    assert read["eval_loss"].values.tolist() == EVALUATED


@pytest.mark.parametrize("counts", [(3, 6), (9, 3, 6, 9)])
def test_states_of_another_bar_do_not_count(put, counts):
    lines = []
    for epoch, (trained, evaluated) in enumerate(zip(LOSSES, EVALUATED, strict=True)):
        lines += [f"Epoch {epoch}: {tqdm(60, trained)}"]
        lines += [f"Validation: {state(n, 9, evaluated + at / 64)}" for at, n in enumerate(counts)]
    read = series(put, lines)
    assert read["loss"].values.tolist() == LOSSES
    assert "eval_loss" not in read
