"""A loss that is written as a word, in all records from one on, or in the last record alone."""

import numpy as np
import pytest

import stabdiag as api

LOSS = 1.4 + 2 * np.exp(-np.arange(150) / 30) + np.random.default_rng(9).normal(0, 0.02, 150)

FORMS = {
    "csv": lambda n, x: f"{n},{x},0.0003",
    "tsv": lambda n, x: f"{n}\t{x}\t0.0003",
    "hf": lambda n, x: f"{{'loss': {x}, 'learning_rate': 0.0003, 'epoch': {n / 50:.2f}}}",
    "epochs": lambda n, x: f"Epoch {n / 50:.2f}: train_loss={x}",
    "arrow": lambda n, x: f"[{n}] loss -> {x}",
    "dict": lambda n, x: f"{{'loss': {x}, 'lr': 0.0003, 'step': {n}}}",
    "capitals": lambda n, x: f"STEP {n} LOSS {x} LR 0.0003",
    "pairs": lambda n, x: f"[('step', {n}), ('loss', {x if x[:1].isdigit() else repr(x)})]",
    "pair": lambda n, x: f"Epoch({n}) ('loss', {x})",
    "validation": lambda n, x: f"epoch {n}: train_loss {x} val_loss 1.{n % 10}2",
    "darknet": lambda n, x: (
        f" {n + 1}: {x}, {x} avg loss, 0.001000 rate, 2.9 seconds, {32 * n} images"
    ),
}
HEADERS = {"csv": "step,loss,lr\n", "tsv": "step\tloss\tlr\n"}


def slug(tmp_path, form, word, since):
    rows = [FORMS[form](n, word if n >= since else f"{x:.4f}") for n, x in enumerate(LOSS)]
    path = tmp_path / "run.log"
    path.write_text(HEADERS.get(form, "") + "".join(f"{row}\n" for row in rows))
    return api.diagnose(path).diagnosis.slug


@pytest.mark.parametrize("word", ["None", "N/A", "-", "***", "(nan)", "#NUM!", "diverged"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("since", [70, 149])
def test_a_word_in_place_of_the_loss_is_never_healthy(tmp_path, form, word, since):
    assert slug(tmp_path, form, word, since) != "healthy"


@pytest.mark.parametrize("form", ["hf", "arrow", "dict", "capitals", "validation"])
@pytest.mark.parametrize("since", [70, 149])
def test_a_list_of_a_nan_is_never_healthy(tmp_path, form, since):
    assert slug(tmp_path, form, "[nan]", since) != "healthy"


@pytest.mark.parametrize("form", FORMS)
def test_a_loss_that_is_always_a_number_is_healthy(tmp_path, form):
    assert slug(tmp_path, form, "1.40", 150) == "healthy"


FINAL_RECORDS = [
    ("step,loss,lr,val_loss", "{},{:.4f},0.0003,", "150,,,1.52"),  # a final evaluation
    ("step,loss,lr,val_loss", "{},{:.4f},0.0003,", "149,,,1.52"),
    ("step,loss,lr", "{},{:.4f},0.0003", "150,"),  # a killed writer
    ("step,loss,lr", "{},{:.4f},0.0003", "149,,0.0003"),  # the rate at the last step
]


@pytest.mark.parametrize(("header", "row", "last"), FINAL_RECORDS)
def test_a_last_record_of_another_kind_may_lack_the_loss(tmp_path, header, row, last):
    path = tmp_path / "run.csv"
    rows = [header, *(row.format(n, x) for n, x in enumerate(LOSS)), last]
    path.write_text("".join(f"{row}\n" for row in rows))
    assert api.diagnose(path).diagnosis.slug == "healthy"


@pytest.mark.parametrize("form", ["csv", "tsv"])
@pytest.mark.parametrize("word", ["None", "-", "", "broken", ">1e38"])
def test_a_loss_among_others_that_is_no_number_is_not_ignored(tmp_path, form, word):
    rows = [FORMS[form](n, word if n == 70 else f"{x:.4f}") for n, x in enumerate(LOSS)]
    path = tmp_path / "run.csv"
    path.write_text(HEADERS[form] + "".join(f"{row}\n" for row in rows))
    assert api.diagnose(path).diagnosis.slug == "partly-read"


@pytest.mark.parametrize(
    "row",
    [
        "{n},{x:.4f},,0.0003",  # an evaluation once in a while
        "{n},{other},{x:.4f},0.0003",
        "{n},{loss},,{rate}",
    ],
)
def test_a_record_of_another_kind_among_others_may_lack_the_loss(tmp_path, row):
    rows = [
        row.format(
            n=n,
            x=x,
            loss="" if n in (40, 80) else f"{x:.4f}",
            other="" if n % 2 else f"{x:.4f}",
            rate="" if n in (40, 80) else "0.0003",
        )
        for n, x in enumerate(LOSS)
    ]
    path = tmp_path / "run.csv"
    path.write_text("step,loss,eval_loss,lr\n" + "".join(f"{row}\n" for row in rows))
    assert api.diagnose(path).diagnosis.slug == "healthy"


def test_an_evaluation_of_each_record_does_not_excuse_the_last_loss(tmp_path):
    rows = [f"{n},{'-' if n == 149 else round(x, 4)},{x + 0.1:.4f}" for n, x in enumerate(LOSS)]
    path = tmp_path / "run.csv"
    path.write_text("step,loss,eval_loss\n" + "".join(f"{row}\n" for row in rows))
    assert api.diagnose(path).diagnosis.slug == "partly-read"


LONG = "step,metric,value\n"


@pytest.mark.parametrize("word", ["None", "N/A", "-", "lost"])
@pytest.mark.parametrize("row", [80, 149])
@pytest.mark.parametrize("others", [True, False])
def test_a_null_of_a_long_table_is_not_ignored(tmp_path, word, row, others):
    lines = [
        f"{n},loss,{word if n == row else f'{x:.4f}'}" + (f"\n{n},lr,0.0003" if others else "")
        for n, x in enumerate(LOSS)
    ]
    (tmp_path / "run.csv").write_text(LONG + "".join(f"{line}\n" for line in lines))
    assert api.diagnose(tmp_path / "run.csv").diagnosis.slug == "partly-read"


@pytest.mark.parametrize("blank", ["", "N/A"])
def test_a_long_table_may_have_a_blank_for_each_missing_evaluation(tmp_path, blank):
    lines = [
        f"{n},loss,{x:.4f}\n{n},val_loss,{f'{x + 0.1:.4f}' if n % 5 == 4 else blank}"
        for n, x in enumerate(LOSS)
    ]
    (tmp_path / "run.csv").write_text(LONG + "".join(f"{line}\n" for line in lines))
    assert api.diagnose(tmp_path / "run.csv").diagnosis.slug == "healthy"


@pytest.mark.parametrize("form", ["{},{}", "| {} | {} |"])
def test_the_last_null_of_a_table_of_losses_only_is_not_ignored(tmp_path, form):
    rows = [form.format(n, "None" if n == 149 else f"{x:.4f}") for n, x in enumerate(LOSS)]
    (tmp_path / "run.csv").write_text("\n".join([form.format("step", "loss"), *rows, ""]))
    assert api.diagnose(tmp_path / "run.csv").diagnosis.slug == "partly-read"


@pytest.mark.parametrize("blank", ["", "N/A"])
def test_every_other_loss_is_missing_from_the_middle_on(tmp_path, blank):
    rows = [f"{n},{blank if n > 70 and n % 2 else f'{x:.4f}'},0.0003" for n, x in enumerate(LOSS)]
    (tmp_path / "run.csv").write_text("\n".join(["step,loss,lr", *rows, ""]))
    assert api.diagnose(tmp_path / "run.csv").diagnosis.slug == "partly-read"


@pytest.mark.parametrize("begin", [0, 70])
def test_an_evaluation_may_be_on_every_other_row(tmp_path, begin):
    rows = [f"{n},,{x:.4f}" if n > begin and n % 2 else f"{n},{x:.4f}," for n, x in enumerate(LOSS)]
    (tmp_path / "run.csv").write_text("\n".join(["step,loss,val_loss", *rows, ""]))
    assert api.diagnose(tmp_path / "run.csv").diagnosis.slug == "healthy"


@pytest.mark.parametrize("since", [80, 149])
def test_words_in_place_of_a_number_of_an_aligned_table_are_not_ignored(tmp_path, since):
    rows = [
        f"{n:5d}  {'too large' if n == since else f'{x:9.4f}'}   0.71  00:12"
        for n, x in enumerate(LOSS)
    ]
    (tmp_path / "run.log").write_text("\n".join([" step       loss  gnorm   time", *rows, ""]))
    report = api.diagnose(tmp_path / "run.log")
    assert report.diagnosis.slug == "partly-read"
    assert [event.line for event in report.history.left_out] == [since + 2]


@pytest.mark.parametrize(
    "line", ["12 of 90 files saved", "80  new best, saved", "epoch done in 12 s"]
)
def test_sentences_between_the_rows_of_an_aligned_table_are_no_rows(tmp_path, line):
    rows = [f"{n:5d}  {x:9.4f}   0.71" for n, x in enumerate(LOSS)]
    text = "\n".join([" step       loss  gnorm", *rows[:80], line, *rows[80:], ""])
    (tmp_path / "run.log").write_text(text)
    assert api.diagnose(tmp_path / "run.log").diagnosis.slug == "healthy"
