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
