"""Tables of the HF Trainer in notebooks and model cards, as people copy them."""

import pytest

import stabdiag

NAMES = ("Training Loss", "Epoch", "Step", "Validation Loss", "Accuracy")
ROWS = [
    ("No log", "1.0", "40", "1.91", "0.41"),
    ("No log", "2.0", "80", "1.72", "0.52"),
    ("1.6412", "3.0", "120", "1.64", "0.57"),
    ("1.5204", "4.0", "160", "1.61", "0.58"),
]
SENTENCES = "The card of the model has this table of results.\n\n"


def tabular(separator, names=NAMES, rows=ROWS):
    return "".join(f"{separator.join(row)}\n" for row in (names, *rows))


def markdown(rows=ROWS):
    lines = [NAMES, ["---"] * len(NAMES), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


FORMS = {
    "tabs": tabular("\t"),
    "blanks": tabular(" "),
    "markdown": markdown(),
    "quotation": "".join(f"> {line}\n" for line in markdown().splitlines()),
}


def read(tmp_path, text):
    (tmp_path / "table.txt").write_text(text)
    return stabdiag.read(tmp_path / "table.txt").series


@pytest.mark.parametrize("above", ["", SENTENCES])
@pytest.mark.parametrize("form", FORMS)
def test_a_table_is_read_with_losses_that_were_not_logged(tmp_path, form, above):
    series = read(tmp_path, above + FORMS[form])
    assert series["loss"].steps.tolist() == [120, 160]
    assert series["eval_loss"].values.tolist() == [1.91, 1.72, 1.64, 1.61]


@pytest.mark.parametrize("form", [markdown, lambda rows: tabular("\t", rows=rows)])
def test_the_evaluation_counts_if_no_loss_was_logged(tmp_path, form):
    series = read(tmp_path, form([*ROWS[:2], ("No log", "3.0", "120", "1.6", "0.57")]))
    assert series["loss"].values.tolist() == [1.91, 1.72, 1.6]


@pytest.mark.parametrize("cell", ["", "null", "nan", "None"])
def test_a_loss_without_values_is_not_passed_over(tmp_path, cell):
    rows = "".join(f"{epoch},{cell},{1.9 - epoch / 10}\n" for epoch in range(1, 30))
    (tmp_path / "run.csv").write_text(f"epoch,loss,val_loss\n{rows}")
    try:
        report = stabdiag.diagnose(tmp_path / "run.csv")
    except stabdiag.errors.LogError:
        return
    assert report.diagnosis.severity == "error"


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("Epoch Train Loss Train Accuracy Validation Loss Validation Accuracy", 5),
        ("Epoch Train Loss Train Sparse Categorical Accuracy Val Loss Macro F1", 5),
        ("Training Loss Epoch Step Validation Loss Rouge1 Gen Len", 6),
        ("Epoch Training Loss Validation Loss F1 Score Exact Match", 5),
    ],
)
@pytest.mark.parametrize("above", ["", SENTENCES, "Results\n-------\n"])
def test_names_of_several_words_are_names_of_columns(tmp_path, heading, names, above):
    first = heading.startswith("Epoch")
    rows = "".join(
        " ".join(
            [str(n), *[f"{2 / n:.3f}"] * (names - 1)]
            if first
            else [f"{2 / n:.3f}", f"{n}.0", str(100 * n), *([f"{2 / n:.3f}"] * (names - 3))]
        )
        + "\n"
        for n in range(1, 5)
    )
    series = read(tmp_path, f"{above}{heading}\n{rows}")
    assert len(series["loss"]) == len(series["eval_loss"]) == 4


@pytest.mark.parametrize(
    "text",
    [
        "Step | Training Loss | Validation Loss | F1\n-- | -- | -- | --\n"
        "100 | No log | 0.69 | 0.4\n200 | No log | 0.68 | 0.5\n",
        "| Step | Training Loss | Validation Loss |\n|---|---|---|\n"
        "| 100 | No log | 0.69 |\n| 200 | No log | 0.68 |\n",
    ],
)
def test_only_evaluations_are_judged_if_no_training_loss_was_logged(tmp_path, text):
    series = read(tmp_path, text)
    assert series["loss"].values.tolist() == [0.69, 0.68]
    assert series["loss"].steps.tolist() == [100, 200]


def test_an_evaluation_that_is_not_finite_counts_without_a_training_loss(tmp_path):
    rows = "".join(f"{epoch} | No log | nan\n" for epoch in range(1, 4))
    (tmp_path / "table.txt").write_text(
        f"Epoch | Training Loss | Validation Loss\n-- | -- | --\n{rows}"
    )
    assert stabdiag.diagnose(tmp_path / "table.txt").diagnosis.severity.value == "error"
