"""Logs that end within a line, as a copied excerpt or a full disk leaves them."""

from __future__ import annotations

from pathlib import Path

import pytest

import stabdiag
from stabdiag.readers.text.cut_end import without_cut_number

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
