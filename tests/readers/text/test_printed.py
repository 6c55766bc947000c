"""Tables printed for people, without a column that counts their rows."""

import pytest

import stabdiag
from stabdiag.errors import LogError

HEADING = "train loss   va_loss  train_acc   val_acc\n"
ROWS = "".join(
    f"  {1.5 - n / 10:.6f}  0.{40 + n}0833   0.{50 + n}0021  0.{40 + n}0833\n" for n in range(8)
)


@pytest.fixture
def history(tmp_path):
    def read(text):
        path = tmp_path / "run.log"
        path.write_text(text)
        return stabdiag.read(path)

    return read


def test_a_table_without_a_count_is_read(history):
    loss = history(f"Training Summary:\nmodel = resnet\n{HEADING}{ROWS}Remarks: none\n").series[
        "loss"
    ]
    assert loss.values.tolist() == pytest.approx([1.5 - n / 10 for n in range(8)])


def test_the_last_of_equal_tables_is_read_and_the_others_are_named(history):
    second = ROWS.replace("  1.5", "  3.5")
    read = history(f"first\n{HEADING}{ROWS}\nsecond\n{HEADING}{second}\n")
    assert read.series["loss"].values[0] == 3.5
    assert len(read.series["loss"]) == 8
    assert any("1 other table with a loss not read" in event.message for event in read.events)


def test_a_table_of_models_is_refused(history):
    rows = "".join(f"resnet{n}  0.5  0.6  0.7\n" for n in range(8))
    with pytest.raises(LogError):
        history(f"model  train loss  val loss  acc\n{rows}")


def test_a_share_in_percent_is_a_fraction(history):
    rows = "".join(f"| {n} | {3 - n / 10:.4f} | 0.{n:02d}% |\n" for n in range(1, 9))
    table = f"| Epoch | Train Loss | Train Acc |\n|---|---|---|\n{rows}"
    accuracy = history(table).series["accuracy"]
    assert accuracy.values.tolist() == pytest.approx([n / 10000 for n in range(1, 9)])
