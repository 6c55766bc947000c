"""Rows whose columns change places in mid-run, without a new header."""

import numpy as np
import pytest

import stabdiag

RECORDS = 240
CHANGE = 120
LOSS = 2 + 4 * np.exp(-np.arange(RECORDS) / 40) + np.random.default_rng(5).normal(0, 0.02, RECORDS)
CLIMBING = np.append(LOSS[:CHANGE], LOSS[CHANGE] * np.linspace(1, 20, RECORDS - CHANGE))
LOST = np.append(LOSS[:CHANGE], np.full(RECORDS - CHANGE, np.nan))


def rows(losses, order, sign):
    cells = [(str(n), f"{x:.4f}", f"{3e-4 - n * 1e-6:.6f}") for n, x in enumerate(losses)]
    moved = (sign.join(row[place] for place in order) for row in cells[CHANGE:])
    return [sign.join(("step", "loss", "lr")), *map(sign.join, cells[:CHANGE]), *moved]


@pytest.mark.parametrize("order", [(0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
@pytest.mark.parametrize("sign", [",", "\t", "   "])
def test_values_are_followed_to_another_column(put, order, sign):
    outcomes = (put("\n".join(rows(losses, order, sign))) for losses in (LOSS, CLIMBING, LOST))
    healthy, climbing, lost = (stabdiag.diagnose(log) for log in outcomes)
    assert healthy.diagnosis.slug == "healthy"
    assert climbing.diagnosis.severity == "error"
    assert lost.diagnosis.slug.startswith("nan")
    assert any("is in the column" in event.message for event in healthy.history.events)


def test_a_counter_within_epochs_is_not_moved(put):
    lines = [f"{n % 60},{n},{x:.4f}" for n, x in enumerate(LOSS)]
    report = stabdiag.diagnose(put("\n".join(["iter,global_step,loss", *lines])))
    assert report.diagnosis.slug == "healthy"
    assert not any("is in the column" in event.message for event in report.history.events)


def test_a_restart_with_another_rate_is_not_moved(put):
    lines = [
        *(f"{n},{x:.4f},0.0003" for n, x in enumerate(LOSS[:CHANGE])),
        *(f"{n},{x:.4f},0.3" for n, x in enumerate(LOSS[:CHANGE])),
    ]
    report = stabdiag.diagnose(put("\n".join(["step,loss,lr", *lines])))
    assert not any("is in the column" in event.message for event in report.history.events)


def test_a_further_cell_of_a_row_between_bars_is_not_the_loss(put):
    above = [f"| {n} | {x:.4f} | 0.0003 |" for n, x in enumerate(LOSS[:CHANGE])]
    below = [f"| {n} | 1.1 | {x:.4f} | 0.0003 |" for n, x in enumerate(CLIMBING) if n >= CHANGE]
    log = put("\n".join(["| step | loss | lr |", "|---|---|---|", *above, *below]))
    assert stabdiag.diagnose(log).diagnosis.severity in ("warning", "error")


def test_rows_that_lose_their_count_are_not_ignored(put):
    above = [f"{n:6d}  {x:8.4f}  0.0003" for n, x in enumerate(LOSS[:CHANGE])]
    below = [f"{x:8.4f}  0.0003" for x in CLIMBING[CHANGE:]]
    log = put("\n".join(["  step      loss      lr", *above, *below]))
    assert stabdiag.diagnose(log).diagnosis.slug == "partly-read"
