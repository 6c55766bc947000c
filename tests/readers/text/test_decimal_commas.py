"""Numbers with decimal commas."""

import pytest

import stabdiag
from stabdiag.errors import LogError
from stabdiag.readers.text.names.notations import find_decimal_commas


@pytest.fixture
def read(tmp_path):
    def read(text):
        log = tmp_path / "train.log"
        log.write_text(text)
        return stabdiag.read(log).series

    return read


LOSSES = [2.5, 2.25, 2.125, 1.875, 0.5]


@pytest.mark.parametrize(
    "line",
    [
        "Epoch {n}/9 - loss: {loss} - acc: 0,{n}25",
        "step {n}00 loss {loss} lr 0,0025",
        "Epoche {n}; Verlust={loss}; Genauigkeit={n}2,25 %",
        "12:30:0{n},250 Epoch: {n}, Cross-Entropy: {loss}, Learning Rate: 2,5E-05",
        "iter={n} (loss={loss})",
    ],
)
def test_decimal_commas_are_points(read, line):
    lines = [
        line.format(n=n, loss=f"{loss:.4f}".replace(".", ","))
        for n, loss in enumerate(LOSSES, start=1)
    ]
    assert read("\n".join(lines))["loss"].values.tolist() == LOSSES


def test_a_sentence_above_a_log_may_have_a_decimal_point(read):
    lines = [f"Epoch #{n} Error:{loss:.5f}".replace(".", ",") for n, loss in enumerate(LOSSES, 1)]
    text = "\n".join(["It trains until error < 0.001 and printed this:", *lines])
    assert read(text)["loss"].values.tolist() == LOSSES


def test_a_loss_of_trillions_with_a_decimal_comma(read):
    line = "Dataset used: Train, Epoch: {n}, Accuracy:  0,48{n}352, Cross-Entropy: {n},5E+12\n"
    loss = read("".join(line.format(n=n) for n in range(1, 5)))["loss"]
    assert loss.values.tolist() == [1.5e12, 2.5e12, 3.5e12, 4.5e12]


@pytest.mark.parametrize(
    "line",
    [
        "step 1,00{n} loss 2.{n}5 tps 7,012 ranks 0,125",
        "epoch {n}, loss 2.{n}5, gpus 0,1,2,3",
    ],
)
def test_commas_next_to_points_separate_thousands_or_values(read, line):
    series = read("\n".join(line.format(n=n) for n in range(1, 6)))
    assert series["loss"].values.tolist() == [2.15, 2.25, 2.35, 2.45, 2.55]
    assert series["loss"].steps[0] in (1, 1001)


@pytest.mark.parametrize(
    "line",
    ["tokens 7,012 of 31,125", "devices=0,1", "shape (3,25,64)", "12:30:05,250 12:30:05,2500"],
)
def test_groups_lists_and_times_have_no_decimal_commas(line):
    assert find_decimal_commas(10 * f"{line}\n".encode()) == ()


def test_prose_with_commas_is_no_log(read):
    with pytest.raises(LogError):
        read("Der Verlust war 0,25 und dann 0,125, am Ende 0,0625.\n")


@pytest.mark.parametrize("other", ["reward={n}.5", "lr 0.001", "val_loss: 9,123.5"])
def test_a_loss_has_thousands_separators_next_to_a_value_with_a_point(read, other):
    losses = [3.5, 62, 847, 4102, 93500, 1234567]
    lines = [f"[ep_{n}00] avg_loss={x:,}  {other.format(n=n)}" for n, x in enumerate(losses, 1)]
    assert read("\n".join(lines))["loss"].values.tolist() == losses


def test_a_loss_with_a_comma_alone_on_its_line_has_no_certain_value(read):
    series = read("step 1 loss 2.5\nstep 2 loss 2.25\nstep 3 loss 2,125\n")
    assert series["loss"].values.tolist() == [2.5, 2.25]


def test_points_in_the_middle_of_the_line_are_points(read):
    lines = [
        f"Epoch {n} | loss {loss:.4f}".replace(".", "·") for n, loss in enumerate(LOSSES, start=1)
    ]
    assert read("\n".join(lines))["loss"].values.tolist() == LOSSES
