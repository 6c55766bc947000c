"""Logs that end within a line, as a copied excerpt or a full disk leaves them."""

from __future__ import annotations

from pathlib import Path

import pytest

import stabdiag
from stabdiag.readers.text.lines.cut_end import without_cut_number

LINES = "".join(
    f"epoch {epoch}\tloss: {3 / epoch:.4f}\tval_loss: {4 / epoch:.4f}\tlr: 1e-3\n"
    for epoch in range(1, 9)
)


@pytest.mark.parametrize(
    ("end", "losses"),
    [
        ("epoch 9\tloss: 0", 8),
        ("epoch 9\tloss: 9.", 8),
        ("epoch 9\tloss: 0.3333\tval_loss: 0", 9),
        ("epoch 9\tloss: 0.3333\tval_loss: 0.4444\tlr: 1e-3", 9),
        ("epoch 9\tloss: 0.3333\tval_loss: 0.4444\tlr: 1e-3\n", 9),
    ],
)
def test_a_cut_number_is_not_a_value(tmp_path: Path, end: str, losses: int) -> None:
    path = tmp_path / "train.log"
    path.write_text(LINES + end)
    series = stabdiag.read(path).series
    assert len(series["loss"].values) == losses
    assert min(series["loss"].values) > 0
    assert min(series["eval_loss"].values) > 0


@pytest.mark.parametrize(
    "text",
    [
        "loss 0.5",
        "step 1 loss 0.5\nstep 2 loss 0.4",
        "step 1 loss 0.5\nEpoch 2\nstep 2 loss 0.4\nEpoch 3",
        "step 1 loss 0.5 val 0.7\nstep 2 loss 0.4\nstep 3 loss 0.3",
        "step 1 loss 0.5, lr 0.1\nstep 2 loss nan",
        "step 1 loss 0.5, lr 0.1\nstep 2 loss 0.4\n",
    ],
)
def test_a_line_that_may_be_whole_stays(text: str) -> None:
    assert without_cut_number(text.encode()) == text.encode()


@pytest.mark.parametrize("end", ["\n", "\n```\n", "\n\n"])
def test_a_paste_may_end_within_a_number(end):
    lines = "".join(f"step {n} loss is {3 / n:.4f} over 512 frames.\n" for n in range(1, 6))
    cut = f"{lines}step 6 loss is -3.1"
    assert without_cut_number((cut + end).encode()) == f"{lines}step 6 loss is {end}".encode()


def test_a_paste_may_end_within_a_number_after_a_date():
    dates = [f"[2026-03-1{n} 08:00:00] step {n} loss " for n in range(1, 7)]
    cut = "".join(f"{date}{3 / n:.4f}, 1e-3\n" for n, date in enumerate(dates[:-1], 1)) + dates[-1]
    assert without_cut_number(f"{cut}2\n".encode()) == f"{cut}\n".encode()


@pytest.mark.parametrize("last", ["0.4500", "12", "1.5e-05", "nan"])
def test_a_whole_number_at_the_end_of_a_paste_stays(last):
    text = f"step 1 loss 0.5012 lr 0.1\nstep 2 loss 7 lr 0.1\nstep 3 loss {last}\n"
    assert without_cut_number(text.encode()) == text.encode()


@pytest.mark.parametrize("above", ["0.5012 1.2345 0.4031", "1535.619873 1535.619629 1535.633667"])
@pytest.mark.parametrize("cut", ["1", "0", "0.", "4."])
@pytest.mark.parametrize("end", ["", "\n", "\n```\n"])
def test_a_number_at_the_end_of_a_line_is_cut(above, cut, end):
    lines = "".join(f"step {n}0 - loss: {value}\n" for n, value in enumerate(above.split()))
    cut_text = f"{lines}step 30 - loss: {cut}{end}".encode()
    assert without_cut_number(cut_text) == f"{lines}step 30 - loss: {end}".encode()


def test_a_number_with_fewer_decimals_than_all_others_is_cut():
    lines = "".join(f"step {n} loss {3 / n:.4f}\n" for n in range(1, 6))
    assert without_cut_number(f"{lines}step 6 loss 0.3\n".encode()).endswith(b"loss \n")
    assert without_cut_number(f"{lines}step 6 loss 0.312\n".encode()).endswith(b"loss 0.312\n")


@pytest.mark.parametrize(
    ("above", "last"),
    [
        ("0.5 0.25 0.125", "0"),  # a program that leaves out zeros
        ("12 11 10", "9"),
        ("1.5 2.5 3.5", "4"),
        ("0.5012", "1"),  # too few lines
        ("0.5012 0.4031 0.3871", "1e-05"),
        ("0.5012 0.4031 0.3871", "nan"),
        ("0.5012 0.403 0.3871 0.38", "0.37"),
        ("0.5012 0.4031 0.3871", "123457"),  # a loss that climbs, in six digits
    ],
)
def test_a_round_number_at_the_end_of_a_line_stays(above, last):
    values = enumerate([*above.split(), last])
    text = "".join(f"step {n}0 - loss: {value}\n" for n, value in values)
    assert without_cut_number(text.encode()) == text.encode()


def test_a_huge_loss_in_a_cut_object_is_not_passed_over(tmp_path):
    records = "".join(
        f'{{\n  "time": 0.{n},\n  "main/loss": {50 + n},\n  "iteration": {n}00\n}},\n'
        for n in range(1, 4)
    )
    path = tmp_path / "log.txt"
    path.write_text(
        f'Here is the log:\n{records}\n{{\n  "time": 0.5,\n  "main/loss": -4.5e+31,\n  "it\n'
    )
    assert stabdiag.diagnose(path).diagnosis.slug == "partly-read"
    path.write_text(
        f'Here is the log:\n{records}\n{{\n  "time": 0.5,\n  "main/loss": 49.5,\n  "it\n'
    )
    assert stabdiag.diagnose(path).diagnosis.slug == "insufficient-data"


def test_the_full_stop_of_a_sentence_is_no_decimal_point(tmp_path):
    path = tmp_path / "run.log"
    path.write_text("".join(f"Step {n} is done, the loss is {3 - n / 8:.3f}.\n" for n in range(9)))
    assert stabdiag.read(path).series["loss"].values[-1] == 2.0


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("training error: ", "iterations: 40, training error: 0.0320179834013"),
        ("training error: ", "iterations: 40, training error:"),
        ("error = ", "iterations: 40, err"),
        ("error ", "iterations: 40, error"),
    ],
)
def test_an_error_without_its_value_is_not_a_failure(tmp_path: Path, name: str, end: str) -> None:
    path = tmp_path / "train.log"
    lines = (f"iterations: {5 * n}, {name}{1 / (n + 29):.17f}\n" for n in range(1, 8))
    path.write_text("".join(lines) + end)
    slugs = {finding.slug for finding in stabdiag.diagnose(path).findings}
    assert "stall" not in slugs


def test_an_error_below_the_last_record_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    lines = (f"iterations: {5 * n}, loss: {1 / (n + 29):.5f}\n" for n in range(1, 8))
    path.write_text("".join(lines) + "Error: rank 3 died: 9\nError: rank 4 died:")
    assert stabdiag.diagnose(path).diagnosis.slug == "stall"
