"""Tables printed for people: without a count, with two lines of names, of several sets."""

import numpy as np
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


@pytest.mark.parametrize("count", ["{}:", "{})", "[{}]", "{}."])
@pytest.mark.parametrize("name", ["ITER:", "step"])
def test_marks_of_counts_and_names_are_ignored(history, name, count):
    rows = "".join(f"{count.format(n)}\t{3 - n / 10:.1f}\t0.5\n" for n in range(20, 26))
    loss = history(f"{name}    LOSS    gnorm\n{rows}").series["loss"]
    assert loss.steps.tolist() == [*range(20, 26)]
    assert loss.values.tolist() == pytest.approx([3 - n / 10 for n in range(20, 26)])


def test_a_share_in_percent_is_a_fraction(history):
    rows = "".join(f"| {n} | {3 - n / 10:.4f} | 0.{n:02d}% |\n" for n in range(1, 9))
    table = f"| Epoch | Train Loss | Train Acc |\n|---|---|---|\n{rows}"
    accuracy = history(table).series["accuracy"]
    assert accuracy.values.tolist() == pytest.approx([n / 10000 for n in range(1, 9)])


MATLAB = (
    "|=============================================================|\n"
    "|  Epoch  |  Iteration  |  Mini-batch  |  Mini-batch  |  Validation  |  Base Learning  |\n"
    "|         |             |   Accuracy   |     Loss     |     Loss     |      Rate       |\n"
    "|=============================================================|\n"
)


def test_the_names_of_a_heading_of_two_lines_are_joined(history):
    rows = "".join(
        f"| {n // 4 + 1:7} | {50 * n + 1:11} | {50 + n:11.2f}% | {3 - n / 10:12.4f} |"
        f" {'2.5000' if n % 4 == 0 else '':12} | {'0.0010':>15} |\n"
        for n in range(12)
    )
    series = history(MATLAB + rows).series
    assert series["loss"].column == "Mini-batch Loss"
    assert series["loss"].steps.tolist() == [50 * n + 1 for n in range(12)]
    assert series["loss"].values.tolist() == pytest.approx([3 - n / 10 for n in range(12)])
    assert series["eval_loss"].values.tolist() == [2.5] * 3
    assert series["lr"].values.tolist() == [0.001] * 12


def test_the_batches_of_nequip_are_read_without_those_of_the_validation(history):
    def batches(name, losses):
        rows = "".join(f"  {epoch:7} {10 * n:5} {x:12.3g} {x / 2:12.3g}\n" for n, x in losses)
        return f"{name}\n# Epoch batch         loss       loss_f\n{rows}\n"

    text = ""
    for epoch in range(1, 9):
        loss = 3 - epoch / 4
        text += batches("training", [(1, loss), (2, loss - 0.125)])
        text += batches("validation", [(1, 9.5), (2, 9.5)])
        text += (
            "  Train      #    Epoch      wal       loss_f         loss\n"
            f"! Train           {epoch:9} {10.5 * epoch:8} {loss / 2:12.3g} {loss:12.3g}\n"
        )
    loss = history(text).series["loss"]
    assert len(loss) == 16
    assert loss.values.max() == pytest.approx(2.75)
    assert loss.values[-1] == pytest.approx(0.875)


SPACY = """E    #       LOSS TOK2VEC  LOSS NER  ENTS_F  SCORE
---  ------  ------------  --------  ------  ------
  0       0          0.00     44.25   12.50    0.13
"""


@pytest.mark.parametrize(
    ("text", "losses"),
    [
        (SPACY, [44.25]),
        (SPACY + "  0     200         35.75   1963.50   80.00    0.80\n", [1963.5]),
        ("Itn.  Train Loss  UAS\n0     3.125       9.5\n1     2.5         10.5\n", [3.125, 2.5]),
        ("options:\nrate = 0.5\n\nEpoch  Train Loss  F1\n    3      0.625    0.5\n", [0.625]),
    ],
)
def test_the_first_rows_of_a_table_are_read_if_they_count(history, text, losses):
    assert history(text).series["loss"].values.tolist() == losses


@pytest.mark.parametrize(
    "text",
    [
        "Model       Train Loss  F1\n1           0.625       0.5\n",
        "epoch  loss weight  seed\nfirst  0.5  7\n",
        "Epoch  Train Loss  F1\nsee the table of the paper\n",
    ],
)
def test_other_tables_of_a_row_are_refused(history, text):
    with pytest.raises(LogError):
        history(text)


def test_a_single_row_below_a_count_is_read(history):
    rows = "|       1 |          50 |       43.75% |       nan |        |          0.0100 |\n"
    loss = history(MATLAB + rows).series["loss"]
    assert loss.steps.tolist() == [50]
    assert np.isnan(loss.values).all()


@pytest.mark.parametrize("reward", ["31.5", "nan"])
def test_the_only_status_of_ray_tune_is_read(history, reward):
    status = (
        "== Status ==\nNumber of trials: 1/1 (1 RUNNING)\n"
        "| Trial name      | status   | loc           |   iter |   ts |   reward |\n"
        "|-----------------+----------+---------------+--------+------+----------|\n"
        f"| PPO_0dbb4_00000 | RUNNING  | 10.0.0.1:8650 |      3 | 3000 | {reward:>8} |\n"
    )
    series = history(status).series["reward"]
    assert series.values.tolist() == pytest.approx([float(reward)], nan_ok=True)


def test_a_row_of_results_is_no_log(history):
    with pytest.raises(LogError):
        history("Results\n| model | epochs | test loss |\n|---|---|---|\n| resnet | 90 | 0.75 |\n")


def test_the_first_number_of_a_list_in_a_cell_counts(history):
    rule = "+-------+---------------+--------------+--------+\n"
    heading = f"{rule}| Epoch | training time |     Loss     | recall |\n{rule}"
    text = "".join(
        f"{heading}|   {n}   |     98.25     | [{40.5 - n}, 1.5e-2] | [0.0{n}25] |\n{rule}"
        for n in range(1, 5)
    )
    series = history(f"sampling time: 2.95s\n{text}").series
    assert series["loss"].values.tolist() == [39.5, 38.5, 37.5, 36.5]
    assert series["loss"].steps.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("word", ["nan", "NaN", "Inf"])
def test_a_row_may_begin_with_a_value_that_is_not_finite(history, word):
    rows = ROWS.replace("0.900000", f"     {word}").replace("0.800000", f"     {word}")
    loss = history(f"Training Summary:\n{HEADING}{rows}Remarks: none\n").series["loss"]
    assert np.isfinite(loss.values).tolist() == [True] * 6 + [False] * 2


@pytest.mark.parametrize("words", ["nan s", "out of range", "see the notes", "not a number"])
@pytest.mark.parametrize("bad", [range(9, 17), [16], range(3, 17, 3)], ids=str)
def test_a_row_with_words_as_its_loss_is_left_out(put, words, bad):
    rows = [f"{n} {words if n in bad else 3 - n / 9:} 0.{n}" for n in range(1, 17)]
    report = stabdiag.diagnose(put("\n".join(["# step loss grad", *rows, ""])))
    assert report.diagnosis.slug == "partly-read"


@pytest.mark.parametrize("remark", ["(best)", "*", "<- saved here"])
def test_a_remark_behind_a_row_is_no_cell(history, remark):
    rows = [f"{n} {3 - n / 9:.3f} 0.{n} {remark if n % 3 else ''}" for n in range(1, 17)]
    loss = history("\n".join(["# step loss grad", *rows])).series["loss"]
    assert loss.steps.tolist() == [*range(1, 17)]


@pytest.mark.parametrize("sign", ["%", "% %", "#", "//"])
def test_a_table_may_be_in_comments(history, sign):
    text = MATLAB + "".join(
        f"|       1 |         {n}0 |       43.75% |     {9 - n}.25 |        |          0.0100 |\n"
        for n in range(1, 6)
    )
    commented = "".join(f"{sign} {line}\n" for line in text.splitlines())
    assert history(commented).series["loss"].values.tolist() == [8.25, 7.25, 6.25, 5.25, 4.25]


def test_a_table_below_names_and_values_is_read(history):
    scores = "| Metric | Value |\n|---|---|\n| Accuracy | 71.2% |\n| Loss | 1.812 |\n"
    rows = "".join(f"| {n} | {3 - n / 4} | {3.5 - n / 8} |\n" for n in range(1, 5))
    table = f"| Epoch | Training Loss | Validation Loss |\n|---|---|---|\n{rows}"
    loss = history(f"## Results\n{scores}\n### Training\n{table}").series["loss"]
    assert loss.values.tolist() == [2.75, 2.5, 2.25, 2.0]


@pytest.mark.parametrize("above", ["", "Number of trials: 3 (1 RUNNING)\n"])
@pytest.mark.parametrize("name", ["DQN_0dbb4_00001", "objective_21"])
def test_a_table_of_trials_that_wait_for_their_losses_is_no_log(history, name, above):
    status = (
        "| Trial name      | status     |   lr |   loss |   iter |\n"
        "|-----------------+------------+------+--------+--------|\n"
        "| DQN_0dbb4_00000 | TERMINATED | 0.01 |   2.41 |     10 |\n"
        f"| {name:15} | RUNNING    | 0.02 |        |        |\n"
        "| DQN_0dbb4_00003 | PENDING    | 0.04 |        |        |\n"
    )
    with pytest.raises(LogError):
        history(f"{above}{status}")


def test_a_wide_cell_is_not_the_one_of_the_next_name(history):
    heading = "epoch  train_loss  valid_loss  error_rate\n"
    row = "1      11.250000   2250176384.000000  0.812500    (00:09)\n"
    series = history(f"Total time: 00:09\n{heading}{row}").series
    assert series["eval_loss"].values.tolist() == [2250176384]
    assert series["score/error_rate"].values.tolist() == [0.8125]


def test_a_table_may_name_the_split_in_front_of_the_counter(history):
    def table(split, epoch, loss):
        return (
            f"Epoch {epoch} {split}(): 100%|████████| Time: 0:00:12\n"
            "┌─────────────────┬───────┬────────┐\n"
            "│           Phase │ Epoch │   Loss │\n"
            "├─────────────────┼───────┼────────┤\n"
            f"│ {split:>15} │   {epoch}.0 │ {loss:6} │\n"
            "└─────────────────┴───────┴────────┘\n"
        )

    for epochs in ([1], [1, 2, 3]):
        text = "".join(
            table("TrainingPhase", epoch, 2 - epoch / 4)
            + table("ValidationPhase", epoch, 3 - epoch / 4)
            for epoch in epochs
        )
        series = history(text).series
        assert series["loss"].values.tolist() == [2 - epoch / 4 for epoch in epochs]
        assert series["eval_loss"].values.tolist() == [3 - epoch / 4 for epoch in epochs]


def test_a_table_of_techniques_is_no_log(history):
    rows = "Plain\t0.125\t0.25\nL1\t0.15\t0.2\nL2\t0.145\t0.18\nMixup\t0.16\t0.17\n"
    with pytest.raises(LogError, match="Technique"):
        history(f"Technique\tTraining Loss\tValidation Loss\n{rows}")


def test_names_with_a_count_are_no_names_of_results(history):
    rows = "".join(f"epoch-{n}.pt,{4 - n / 4}\n" for n in range(1, 6))
    loss = history(f"checkpoint,loss\n{rows}").series["loss"]
    assert loss.values.tolist() == [4 - n / 4 for n in range(1, 6)]


def test_a_line_about_both_sets_is_above_the_table_of_the_training(put):
    rows = "".join(f"{n:5d}  {2.4 * 0.8**n:8.4f}   0.{n + 10}\n" for n in range(1, 13))
    run = f"Training samples: 640, validation samples: 160\nepoch    loss     acc\n{rows}"
    history = stabdiag.diagnose(put(run * 2)).history
    assert history.source.attempts == 2
    assert len(history.series["loss"]) == 12
