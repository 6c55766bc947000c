"""Values without a name on their lines, and rows of YOLO without their heading."""

import math

import pytest

import stabdiag
from stabdiag.errors import LogError


@pytest.fixture
def read(tmp_path):
    def read(text, name="run.log"):
        log = tmp_path / name
        log.write_text(text)
        return stabdiag.read(log)

    return read


LOOP = "for i in range(5):\n    loss = step()\n    print(loss)\n\nOutput:\n"


@pytest.mark.parametrize("of_a_tensor", ["", ", device='cuda:0'", ", grad_fn=<NllLossBackward0>"])
def test_tensors_below_a_printed_loss_are_losses(read, of_a_tensor):
    values = ["3.2207", "2.8", "nan", "nan", "nan"]
    text = LOOP + "".join(f"tensor({value}{of_a_tensor})\n" for value in values)
    losses = read(text).series["loss"].values
    assert losses[:2].tolist() == [3.2207, 2.8]
    assert [math.isnan(loss) for loss in losses] == [False, False, True, True, True]


def test_tensors_of_unknown_meaning_are_refused(read):
    with pytest.raises(LogError):
        read("print(accuracy)\n" + "".join(f"tensor({3 - n / 10:.4f})\n" for n in range(8)))


ROW = (
    "      {n}/100      6.2G {losses}         {n}        640: 100%|█████| 113/113 [00:24<00:00]\n"
    "                   all        128        929      0.4        0.3       0.21        0.1\n"
)


def test_rows_of_yolo_without_a_heading(read):
    text = "".join(ROW.format(n=n, losses=f"  {3 - n / 10:.3f}  1.5  1.2") for n in range(1, 13))
    series = read(text).series
    assert series["loss"].steps.tolist() == list(range(1, 13))
    assert series["loss"].values.tolist() == pytest.approx([5.7 - n / 10 for n in range(1, 13)])


def test_rows_of_yolo_that_are_all_nan(read):
    text = "".join(ROW.format(n=n, losses="       nan" * 3) for n in range(1, 4))
    assert all(map(math.isnan, read(text).series["loss"].values))


def test_a_row_of_yolo_with_another_number_of_losses_has_no_names(read):
    text = "".join(ROW.format(n=n, losses="  1.5" * 6) for n in range(1, 13))
    assert "loss" not in read(text).series


HTML = (
    "<div><table border='1'><thead><tr><th>Step</th><th>Training Loss</th>"
    "<th>Validation Loss</th></tr></thead><tbody>{rows}</tbody></table></div>\n"
)


@pytest.mark.parametrize("separator", ["", "\n    "])
def test_a_table_of_html(read, separator):
    cells = separator + "<td>{step}</td>" + separator + "<td>{loss}</td>" + separator
    rows = "".join(
        "<tr>" + cells.format(step=100 * n, loss=3 - n / 10) + "<td>nan</td></tr>"
        for n in range(1, 13)
    )
    series = read("Is this normal?\n" + HTML.format(rows=rows)).series
    assert series["loss"].steps.tolist() == list(range(100, 1300, 100))
    assert series["loss"].values.tolist() == [3 - n / 10 for n in range(1, 13)]
    assert all(map(math.isnan, series["eval_loss"].values))


@pytest.mark.parametrize("lost", ["None", "(nan)", "N/A"])
def test_a_loss_in_another_language_may_be_lost(tmp_path, lost):
    losses = [f"{2.5 - n / 100:.4f}" for n in range(60)] + [lost] * 3
    log = tmp_path / "train.log"
    log.write_text("".join(f"第 {n} 轮 训练损失: {loss}\n" for n, loss in enumerate(losses)))
    assert stabdiag.diagnose(log).diagnosis.slug == "nan-dtype-unknown"


@pytest.mark.parametrize(
    "text",
    [
        "'train_loss_history': [3.5,\n  3.25,\n  3.0,\n  2.75,\n",
        "'train_loss_history': [3.5,\n  3.25,\n  3.0,\n  2.75]\n",
        "losses = [3.5, 3.25, 3.0, 2.75, 2.6",
        "epoch 9 - loss 0.5\n\n{'loss': [3.5, 3.25, 3.0, 2.75, 2.",
    ],
)
def test_a_list_is_read_if_the_paste_ends_within_it(tmp_path, text):
    (tmp_path / "post.txt").write_text(text)
    series = stabdiag.read(tmp_path / "post.txt").series["loss"]
    assert series.values.tolist() == [3.5, 3.25, 3.0, 2.75]


@pytest.mark.parametrize(
    "text", ["losses = [3.5, 3.25 were the first of", "weights = [3.5, 3.25, 3"]
)
def test_other_brackets_that_do_not_close_are_refused(tmp_path, text):
    (tmp_path / "post.txt").write_text(text)
    with pytest.raises(LogError):
        stabdiag.read(tmp_path / "post.txt")


VALUES = [2.5, 2.25, 2.0, 1.75, 1.5, 1.375]
MANY = [*VALUES, *VALUES]


@pytest.mark.parametrize(
    ("above", "role"),
    [
        ("Here are the average returns of the last run:\n\n", "reward"),
        ("my rewards in each episode\n", "reward"),
        ("Episode scores: ", "reward"),
        ("returns = ", "reward"),
        ("These are the losses that I get:\n", "loss"),
        ("accuracy per epoch: ", "accuracy"),
    ],
)
def test_a_sentence_says_what_a_list_has(put, above, role):
    series = stabdiag.diagnose(put(f"{above}{MANY}\n", "run.log")).history.series
    assert series[role].values.tolist() == MANY


@pytest.mark.parametrize(
    "above",
    [
        "The function returns a list:\n",
        "These are the weights of the layers:\n",
        "accuracy: ",
        "IoU: ",
        "'scores': ",
        "learning rates: ",
    ],
)
def test_a_list_of_something_else_is_refused(put, above):
    with pytest.raises(LogError):
        stabdiag.diagnose(put(f"{above}{MANY}\n", "run.log"))


def test_a_variable_of_a_program_is_no_list_of_rewards(put):
    with pytest.raises(LogError):
        stabdiag.diagnose(put(f"rewards = {MANY}\nprint(sum(rewards))\n", "run.log"))


def test_a_short_list_of_rewards_may_be_a_setting(put):
    with pytest.raises(LogError):
        stabdiag.diagnose(put("rewards = [1.0, -1.0, 0.5, 0.1]\n", "run.log"))


@pytest.mark.parametrize("separator", [",", ", ", "\t", "  ", ";"])
@pytest.mark.parametrize("end", ["\n", ",\n"])
def test_the_only_row_of_a_file_named_after_a_loss_has_its_values(put, separator, end):
    text = separator.join(map(str, VALUES)) + end
    series = stabdiag.diagnose(put(text, "loss.txt")).history.series
    assert series["loss"].values.tolist() == VALUES
    with pytest.raises(LogError):
        stabdiag.diagnose(put(text, "data.txt"))


@pytest.mark.parametrize("name", ["best_fitness.txt", "scores.csv", "cost.txt", "val_rmse.txt"])
def test_the_only_row_of_a_file_named_after_another_measure(put, name):
    history = stabdiag.diagnose(put(f"{' '.join(map(str, VALUES))}\n", name)).history
    assert any(series.values.tolist() == VALUES for series in history.series.values())


@pytest.mark.parametrize("name", ["acc.txt", "oak_test_accuracy.csv", "accuracy_of_oak.txt"])
@pytest.mark.parametrize("separator", [",", " "])
def test_the_only_row_of_accuracies_is_a_course_if_neighbours_are_alike(put, name, separator):
    rises = [f"{0.9 - 0.6 / (n + 1):.3f}" for n in range(12)]
    summary = stabdiag.diagnose(put(f"{separator.join(rises)}\n", name)).diagnosis.summary
    assert "accuracy went from 0.3 to 0.85" in summary
    # Each class has an accuracy.
    classes = [f"{0.9 - n * 7 % 12 / 15:.3f}" for n in range(12)]
    with pytest.raises(LogError):
        stabdiag.diagnose(put(f"{separator.join(classes)}\n", name))


def test_the_only_numbers_of_a_convergence_are_losses_if_they_fall(put):
    falls = "".join(f"{9 / (n // 3 + 1)}\n" for n in range(30))
    report = stabdiag.diagnose(put(falls, "oak_convergence.dat"))
    assert "The loss went from 9 to 0.9" in report.diagnosis.summary
    rises = "".join(f"{9 * (n // 3 + 1)}.5\n" for n in range(30))
    history = stabdiag.diagnose(put(rises, "convergence.csv")).history
    assert "loss" not in history.series


@pytest.mark.parametrize("above", ["", ",0,1,2,3,4,5\n", "epoch,1,2,3,4,5,6\n"])
def test_a_row_is_named_after_its_split_in_a_file_named_after_a_loss(put, above):
    rows = {"train": VALUES, "val": [loss + 1 for loss in VALUES]}
    lines = [f"{name},{','.join(map(str, row))}\n" for name, row in rows.items()]
    text = above + "".join(lines)
    series = stabdiag.diagnose(put(text, "loss_curve.csv")).history.series
    assert series["loss"].values.tolist() == VALUES
    assert series["eval_loss"].values.tolist() == rows["val"]
    with pytest.raises(LogError):
        stabdiag.diagnose(put(text, "curve.csv"))


@pytest.mark.parametrize("separator", [",", " ", "\t"])
@pytest.mark.parametrize("is_numbered", [False, True])
def test_a_few_long_rows_need_no_names_in_a_file_named_after_a_loss(put, separator, is_numbered):
    falls = [2.5 / (n + 1) for n in range(14)]
    turns = [2.75 / (n + 1) + max(0, n - 6) / 4 for n in range(14)]
    lines = [separator.join(map(repr, row)) for row in (falls, turns)]
    if is_numbered and separator != " ":
        above = separator.join(["", *map(str, range(14))])
        lines = [above, *(f"{n}{separator}{line}" for n, line in enumerate(lines))]
    text = "\n".join([*lines, ""])
    series = stabdiag.diagnose(put(text, "losses.csv")).history.series
    assert series["loss"].values.tolist() == falls
    assert series["eval_loss"].values.tolist() == turns
    for name, content in (("data.csv", text), ("losses.csv", text + "\n".join(lines[-1:] * 4))):
        with pytest.raises(LogError):
            stabdiag.diagnose(put(content, name))


FALLS = [2.5 / (n + 1) + 0.25 for n in range(14)]
ABOVE = [2.75 / (n + 1) + 0.5 for n in range(14)]
SCORES = [0.9 - 0.8 / (n + 1) for n in range(14)]


def row_of(numbers, separator=",", quote=""):
    return separator.join(f"{quote}{number!r}{quote}" for number in numbers) + "\n"


@pytest.mark.parametrize("separator", [",", ";", "\t", ", "])
def test_the_numbers_of_a_row_may_be_quoted(put, separator):
    text = row_of(FALLS, separator, '"')
    series = stabdiag.diagnose(put(text, "val_loss.csv")).history.series
    assert series["eval_loss" if "eval_loss" in series else "loss"].column == "val_loss"
    series = stabdiag.diagnose(put('"loss",' + row_of(FALLS, quote='"'), "x.csv")).history.series
    assert series["loss"].values.tolist() == FALLS


def test_the_numbers_of_a_row_may_have_decimal_commas(put):
    text = row_of(FALLS, ";").replace(".", ",")
    series = stabdiag.diagnose(put(text, "cost.csv")).history.series
    assert series["loss"].values.tolist() == FALLS


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (row_of(range(1, 15)) + row_of(FALLS), 1),
        ("," + row_of(range(14)) + "0," + row_of(FALLS), 0),
        ("0," + row_of(FALLS), 0),
    ],
)
def test_counts_above_or_in_front_of_a_row_are_no_losses(put, text, first):
    loss = stabdiag.diagnose(put(text, "loss.csv")).history.series["loss"]
    assert (loss.values.tolist(), loss.steps[0]) == (FALLS, first)


def test_a_row_of_a_history_is_its_loss_if_it_falls(put):
    name = "oak_history.csv"
    assert stabdiag.diagnose(put(row_of(FALLS), name)).history.series["loss"].values[0] == FALLS[0]
    series = stabdiag.diagnose(put(row_of(FALLS) + row_of(ABOVE), name)).history.series
    assert series["loss"].values.tolist() == FALLS
    assert series["eval_loss"].values.tolist() == ABOVE


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("oak_history.csv", row_of(SCORES)),
        ("oak_history.csv", row_of(FALLS) + row_of(SCORES)),
        ("loss.csv", row_of(SCORES) + row_of(FALLS)),
        ("loss.csv", "1,0.69,0.5,0.7,0.001,12.5,64.0,0.5,0.25,0.125,3.5\n"),
        ("oak.csv", row_of(FALLS)),
        ("oak.txt", row_of(FALLS, " ") * 2),
    ],
)
def test_rows_that_may_be_anything_are_refused_with_a_remedy(put, name, text):
    with pytest.raises(LogError, match="seem to run across; write the name of each"):
        stabdiag.diagnose(put(text, name))


def test_rows_of_evaluation_losses_are_no_training_losses(put):
    text = row_of(FALLS) + row_of(ABOVE)
    series = stabdiag.diagnose(put(text, "val_loss.csv")).history.series
    assert {"val_loss", "val_loss_2"} >= {own.column for own in series.values()}


@pytest.mark.parametrize(("name", "role"), [("rewards.txt", "reward"), ("cost.txt", "loss")])
def test_the_only_row_of_a_file_may_have_any_name(put, name, role):
    series = stabdiag.diagnose(put(f"oak: {', '.join(map(str, MANY))}\n", name)).history.series
    assert series[role].values.tolist() == MANY


def test_a_blank_is_enough_between_a_name_and_its_long_row(put):
    rows = {"step": range(100, 1300, 100), "loss": MANY}
    text = "".join(f"{name} {' '.join(map(str, row))}\n" for name, row in rows.items())
    loss = stabdiag.diagnose(put(text, "run.txt")).history.series["loss"]
    assert (loss.values.tolist(), loss.steps[0], loss.steps[-1]) == (MANY, 100, 1200)
    with pytest.raises(LogError):
        stabdiag.diagnose(put("loss 2.5 2.25 2.0 1.75\n", "run.txt"))


@pytest.mark.parametrize("sign", [": ", ",", "\t", " = "])
def test_a_row_may_have_all_values_of_a_name(put, sign):
    rows = {
        "Train loss": VALUES,
        "val_loss": [loss + 1 for loss in VALUES],
        "epochs": [1, 2, 3, 4, 5, 6],
    }
    text = "".join(f"{name}{sign}{', '.join(map(str, row))}\n" for name, row in rows.items())
    series = stabdiag.diagnose(put(text, "results.txt")).history.series
    assert series["loss"].values.tolist() == VALUES
    assert series["eval_loss"].values.tolist() == rows["val_loss"]


@pytest.mark.parametrize(
    "text",
    [
        "loss weights: 1.0, 0.5, 0.25, 0.125, 0.5\n",
        "In one run the loss, 0.5, 0.4, 0.3, 0.2, 0.1 was fine.\n",
        "setosa,5.1,3.5,1.4,0.2\nvirginica,4.9,3.0,1.4,0.2\n",
    ],
)
def test_other_rows_of_numbers_are_refused(put, text):
    with pytest.raises(LogError):
        stabdiag.diagnose(put(text, "results.txt"))


def test_a_loss_file_may_hold_only_zeros(tmp_path):
    (tmp_path / "loss.txt").write_text(8 * "0.0\n")
    assert stabdiag.diagnose(tmp_path / "loss.txt").diagnosis.slug == "loss-constant"


def test_a_printed_list_of_many_lines_needs_no_name(read):
    values = ",\n ".join(str(4 - n / 4) for n in range(6))
    text = f"print(trainer.loss_history)\n```\nOutput:\n```\n[{values}]\n```\n"
    assert read(text).series["loss"].values.tolist() == [4 - n / 4 for n in range(6)]


@pytest.mark.parametrize("name", ["history.csv", "history.tsv", "history.txt"])
@pytest.mark.parametrize("counts", ["epoch,1,2,3,4,5", ",0,1,2,3,4", None])
def test_a_table_on_its_side_is_read(read, name, counts):
    rows = [counts, "loss,2.5,2.25,2.0,1.75,1.5", "val_loss,2.5,2.5,2.25,2.25,2.0"]
    text = "".join(f"{row}\n" for row in rows if row is not None)
    series = read(text.replace(",", "\t") if name.endswith(".tsv") else text, name).series
    assert series["loss"].values.tolist() == [2.5, 2.25, 2.0, 1.75, 1.5]
    assert series["eval_loss"].values.tolist() == [2.5, 2.5, 2.25, 2.25, 2.0]


def test_variables_of_old_versions_are_losses(read):
    values = ["2.5", "2.25", "nan", "nan"]
    variable = "Variable containing:\n {}\n[torch.cuda.FloatTensor of size 1 (GPU 0)]\n"
    for form in ("{}\n", "epoch {n} loss: {}\n"):
        rows = [form.replace("{n}", str(n)) for n in range(4)]
        text = "\n".join(
            row.replace("{}", variable.format(value).rstrip())
            for row, value in zip(rows, values, strict=True)
        )
        losses = read(text).series["loss"].values
        assert losses[:2].tolist() == [2.5, 2.25]
        assert [*map(math.isnan, losses)] == [False, False, True, True]


def test_the_lists_of_costs_and_objectives_are_losses(put):
    costs = [2.5, 2.2, 1.9, 1.5, 1.2, 1.0]
    report = stabdiag.diagnose(put(f"costs = {costs}\naccs = {costs[::-1]}\n", "page.txt"))
    assert report.history.series["loss"].values.tolist() == costs
    text = f"opt.train =\nobjective: {costs}\nerror: {costs}\nopt.val =\nobjective: {costs[1:]} \n"
    text = text.replace("2.2, 1.9, 1.5, 1.2, 1.0] \n", "2.2, 1.9, 1.5, 1.2, 1.0, 0.9]\n")
    report = stabdiag.diagnose(put(text.replace(",", ""), "page.txt"))
    assert report.history.series["loss"].values.tolist() == costs
    assert report.history.series["eval_loss"].values.tolist() == [*costs[1:], 0.9]


def test_the_prices_of_a_list_are_no_losses(put):
    with pytest.raises(LogError):
        stabdiag.diagnose(
            put("prices: [2.5, 2.2, 1.9, 1.5, 1.2]\ncost: [5.5, 7.5, 6.5, 8.5]\n", "a.md")
        )


@pytest.mark.parametrize("between", ["saving model", "done"])
def test_values_below_a_message_are_losses_if_they_end_as_nan(read, between):
    values = [*(f"{3 - n / 10:.4f}" for n in range(8)), "nan", "nan"]
    text = "".join(f"Epoch {n}\n{between}\n{value}\n" for n, value in enumerate(values, start=1))
    losses = read(text).series["loss"]
    assert losses.steps.tolist() == list(range(1, 11))
    assert [math.isnan(loss) for loss in losses.values] == [False] * 8 + [True] * 2
