"""Names that end with the count of their record."""

from __future__ import annotations

import math

import pytest

import stabdiag
from stabdiag.errors import StabdiagError

LOSSES = [2.5, 2.25, 1.75, 1.5, 1.25, 1.125, 1.0]


@pytest.mark.parametrize(
    ("form", "counter"),
    [
        ("loss_{n}: {loss}", "step"),
        ("loss{n} = {loss}", "step"),
        ("Loss {n}: {loss}", "step"),
        ("train_loss_{n} {loss}", "step"),
        ("average cost_{n}: {loss}", "step"),
        ("loss_e{n}: {loss}", "epoch"),
        ("epoch loss_{n} : {loss}", "epoch"),
        ("loss_epoch {n}: {loss}", "epoch"),
        ("The loss of epoch{n}is:{loss}", "epoch"),
        ("train loss of epoch {n} is: {loss}", "epoch"),
        ("loss after step{n}: {loss}", "step"),
        ("epoch{n}loss:{loss}", "epoch"),
        ("iter{n}_train_loss = {loss}", "step"),
    ],
)
@pytest.mark.parametrize("stride", [1, 50])
def test_a_count_at_the_end_of_a_name_is_the_step(put, form, counter, stride):
    lines = [form.format(n=stride * n, loss=loss) for n, loss in enumerate(LOSSES)]
    history = stabdiag.diagnose(put("\n".join(lines) + "\n", "run.log")).history
    assert [*history.series["loss"].values] == LOSSES
    assert [*history.series["loss"].steps] == [stride * n for n in range(len(LOSSES))]
    assert history.unit == counter


def test_names_with_the_same_count_share_a_step(put):
    text = "".join(
        f"train_loss_{n}: {loss}\nval_loss_{n}: {loss + 1}\nacc {n}: 0.5\n"
        for n, loss in enumerate(LOSSES)
    )
    series = stabdiag.diagnose(put(text, "run.log")).history.series
    assert [*series["eval_loss"].values] == [loss + 1 for loss in LOSSES]
    assert [*series["eval_loss"].steps] == [*series["loss"].steps]


def test_a_loss_with_a_count_becomes_nan(put):
    text = "".join(f"Loss {n}: {loss}\n" for n, loss in enumerate([*LOSSES, math.nan, math.nan]))
    report = stabdiag.diagnose(put(text, "run.log"))
    assert (report.diagnosis.slug, report.diagnosis.step) == ("nan-dtype-unknown", 7)


@pytest.mark.parametrize(
    "line",
    ["loss_weight_{n}: {x}", "fold_{n} loss: {x}", "head_loss_{n}: {x}"],
)
def test_numbered_parts_are_no_steps(put, line):
    text = "results\n" + "".join(line.format(n=n, x=0.5 + n % 3 / 8) + "\n" for n in range(9))
    try:
        report = stabdiag.diagnose(put(text, "run.log"))
    except StabdiagError:
        return
    assert "loss" not in report.history.series


def test_the_numbered_losses_of_each_epoch_are_components(put):
    text = "".join(
        f"epoch {n}\n" + "".join(f"loss_{part}: {loss / part}\n" for part in (1, 2, 4, 5))
        for n, loss in enumerate(LOSSES)
    )
    series = stabdiag.diagnose(put(text, "run.log")).history.series
    assert [*series["loss"].values] == LOSSES


PARTS = {
    "below their step": ("Iteration {n} / 400\n", "  Style {part} loss: {x}\n"),
    "behind their step": ("", "epoch {n} | Head {part} Loss = {x}\n"),
}


@pytest.mark.parametrize(("heading", "line"), PARTS.values(), ids=PARTS)
def test_the_number_of_a_part_is_no_step(put, heading, line):
    text = "".join(
        heading.format(n=20 * n)
        + "".join(line.format(n=20 * n, part=part, x=loss / part) for part in (1, 2, 4))
        for n, loss in enumerate(LOSSES)
    )
    loss = stabdiag.diagnose(put(text, "run.log")).history.series["loss"]
    assert [*loss.values] == LOSSES
    assert [*loss.steps] == [20 * n for n in range(len(LOSSES))]


def test_the_parts_of_a_single_step_are_no_steps(put):
    text = "Iteration 20 / 400\n" + "".join(f"  Style {n} loss: {n + 0.5}\n" for n in range(1, 6))
    with pytest.raises(StabdiagError):
        stabdiag.diagnose(put(f"{text}Iteration 40 /\n", "run.log"))


def test_a_part_whose_number_never_recurs_counts(put):
    text = "".join(f"Stage {n} loss: {loss}\n" for n, loss in enumerate(LOSSES, 1))
    assert [*stabdiag.diagnose(put(text, "run.log")).history.series["loss"].values] == LOSSES


@pytest.mark.parametrize(
    ("form", "unit"),
    [
        ("Loss after mini-batch {n:5d}: {loss}", "step"),
        ("cost after minibatch {n}: {loss}", "step"),
        ("Loss in game {n}: {loss}", "game"),
        ("Loss after {n} iterations: {loss}", "step"),
        ("Average loss after {n} steps = {loss}", "step"),
        ("Train loss at {n} updates is {loss}", "step"),
        ("Training loss after {n} epochs: {loss}", "epoch"),
    ],
)
def test_a_value_is_reported_at_a_count(put, form, unit):
    lines = [form.format(n=100 * n, loss=loss) for n, loss in enumerate(LOSSES, start=1)]
    history = stabdiag.diagnose(put("\n".join(lines) + "\n", "run.log")).history
    assert [*history.series["loss"].values] == LOSSES
    assert [*history.series["loss"].steps] == [100 * n for n in range(1, 8)]
    assert history.unit == unit


@pytest.mark.parametrize(
    "form",
    [
        "iters {first}-{last}: loss {loss}",
        "Batches {first} to {last} avg loss = {loss}",
        "average running loss between iter [{first}, {last}] is: {loss}",
        "average loss for discriminator at step {last}: {loss}",
    ],
)
def test_a_range_counts_by_its_end(put, form):
    lines = [
        form.format(first=100 * n + 1, last=100 * (n + 1), loss=loss)
        for n, loss in enumerate(LOSSES)
    ]
    series = stabdiag.diagnose(put("\n".join(lines) + "\n", "run.log")).history.series
    assert [*series["loss"].values] == LOSSES
    assert [*series["loss"].steps] == [100 * n for n in range(1, 8)]


@pytest.mark.parametrize(
    ("form", "steps"),
    [
        ("Reward at generation {n}: {reward}", [1, 2, 3, 4, 5, 6, 7]),
        ("Mean reward at timestep {n}000: {reward}", [1000 * n for n in range(1, 8)]),
        ("Average reward after {n}0 episodes: {reward}", [10 * n for n in range(1, 8)]),
        # The length of a window is no count.
        ("Average reward over the last 100 episodes: {reward}", [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_a_reward_is_reported_at_a_count(put, form, steps):
    lines = [form.format(n=n, reward=9.5 * n) for n in range(1, 8)]
    series = stabdiag.diagnose(put("\n".join(lines) + "\n", "run.log")).history.series
    assert [*series["reward"].values] == [9.5 * n for n in range(1, 8)]
    assert [*series["reward"].steps] == steps


@pytest.mark.parametrize(
    ("form", "unit"),
    [
        ("INFO:root:{n} epochs, 480 batches\tavg loss: {loss}", "epoch"),
        ("[INFO] {n} epochs done, train loss: {loss}", "epoch"),
        ("2026-01-05 10:00:00 {n} iterations: loss={loss}", "step"),
        ("{n}th Epoch - loss: {loss}", "epoch"),
        ("  - {n} steps | loss {loss}", "step"),
    ],
)
def test_a_rising_count_in_front_of_its_word_is_the_step(put, form, unit):
    text = "".join(form.format(n=n, loss=4 - n / 16) + "\n" for n in range(11, 31))
    history = stabdiag.read(put(text))
    assert history.unit == unit
    assert history.series["loss"].steps.tolist() == [*range(11, 31)]


@pytest.mark.parametrize(
    "line", ["{n} epochs without improvement", "3 epochs remaining", "patience: {n} of 20 epochs"]
)
def test_other_counts_in_front_of_a_word_are_no_steps(put, line):
    text = "".join(
        f"Epoch {n}: loss {4 - n / 16}\n{line.format(n=n - 10)}\n" for n in range(11, 31)
    )
    assert stabdiag.read(put(text)).series["loss"].steps.tolist() == [*range(11, 31)]
