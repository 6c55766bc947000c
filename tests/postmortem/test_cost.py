"""What an incident cost, and what would have to be known to tell."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import stabdiag
from stabdiag.postmortem import postmortem
from stabdiag.postmortem.study import study

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.postmortem.cost import Cost
    from stabdiag.report import Report

SECONDS = np.arange(600) * 30.0


def cost_of(report: Report) -> Cost:
    lost = study(report).lost
    assert lost.cost is not None
    return lost.cost


def test_time_stamps_tell_the_hours_since_the_last_good_checkpoint(
    broken: Callable[..., Report],
) -> None:
    cost = cost_of(broken({"_timestamp": 1.7e9 + SECONDS}))
    assert (cost.first, cost.last) == (400, 599)
    assert cost.hours.value == pytest.approx(199 * 30 / 3600)
    assert cost.work.value is None
    assert "throughput" in cost.work.how


@pytest.mark.parametrize(
    ("column", "value", "hours", "says"),
    [
        ("elapsed time per iteration (ms)", 3000.0, 199 * 3 / 3600, "199 steps x 3 s"),
        ("seconds_per_step", 3.0, 199 * 3 / 3600, "median time of a step"),
        ("step_time", 3.0, 199 * 3 / 3600, "taken to be in seconds"),
    ],
)
def test_the_time_of_a_step_tells_the_hours(
    broken: Callable[..., Report], column: str, value: float, hours: float, says: str
) -> None:
    amount = cost_of(broken({column: np.full(600, value)})).hours
    assert amount.value == pytest.approx(hours)
    assert says in amount.how


def test_a_time_that_only_rises_is_that_of_the_run(broken: Callable[..., Report]) -> None:
    hours = cost_of(broken({"time": SECONDS})).hours
    assert hours.value == pytest.approx(199 * 30 / 3600)
    assert "time stamps" in hours.how


def test_throughput_and_time_tell_the_tokens(broken: Callable[..., Report]) -> None:
    rate = np.full(600, 1000.0)
    cost = cost_of(broken({"_timestamp": 1.7e9 + SECONDS, "tokens_per_second": rate}))
    assert cost.work.value == pytest.approx(199 * 30 * 1000)
    assert cost.unit == "tokens"


def test_samples_are_not_called_tokens(broken: Callable[..., Report]) -> None:
    rate = np.full(600, 64.0)
    more = {"_timestamp": 1.7e9 + SECONDS, "train_samples_per_second": rate}
    cost = cost_of(broken(more))
    assert cost.unit == "samples"
    assert cost.work.value == pytest.approx(199 * 30 * 64)


def test_a_throughput_of_something_unknown_counts_nothing(broken: Callable[..., Report]) -> None:
    rate = np.full(600, 133.7)
    cost = cost_of(broken({"_timestamp": 1.7e9 + SECONDS, "throughput": rate}))
    assert cost.work.value is None


def test_the_manifest_tells_the_tokens_of_a_step(broken: Callable[..., Report]) -> None:
    cost = cost_of(broken(batch_size=8, model={"block_size": 1024}))
    assert cost.work.value == 199 * 8 * 1024
    assert cost.work.how.startswith("199 steps x 8 sequences x 1024 tokens")
    assert cost.hours.value is None


def test_the_log_tells_the_tokens_of_a_step_as_a_manifest_does(
    broken: Callable[..., Report],
) -> None:
    report = broken(batch_size=8)
    config = {"eval": {"max_length": 20}, "model": {"block_size": 1024}}
    told = replace(report, history=replace(report.history, config=config))
    assert cost_of(told).work.value == 199 * 8 * 1024


def test_the_tokens_of_a_step_and_throughput_tell_the_hours(broken: Callable[..., Report]) -> None:
    rate = np.full(600, 4096.0)
    cost = cost_of(broken({"tps": rate}, batch_size=8, seq_len=1024))
    assert cost.hours.value == pytest.approx(199 * 2 / 3600)


def test_without_a_cadence_the_cost_is_a_lower_bound(broken: Callable[..., Report]) -> None:
    report = broken(checkpoint_every=None)
    lost = study(report).lost
    assert lost.at_least
    assert cost_of(report).first == 500
    text = postmortem(report)
    assert "| Steps | at least 99 |" in text
    assert "--set checkpoint_every=N counts from" in text


def test_a_checkpoint_later_than_the_onset_is_none(broken: Callable[..., Report]) -> None:
    cost = cost_of(broken(checkpoint_every=500))
    assert cost.steps == 599


def test_what_recovered_costs_nothing_again(diagnosed: Callable[[str], Report]) -> None:
    lost = study(diagnosed("spike-lr-jump")).lost
    assert lost.cost is None
    assert lost.what == "nothing has to be trained again: the loss was back after 14 steps"


def test_what_was_back_late_costs_the_steps_until_then() -> None:
    at = np.arange(800)
    loss = 2 + 2 * np.exp(-at / 200) + 0.05 * np.random.default_rng(0).standard_normal(800)
    loss[400:520] += 3
    report = stabdiag.diagnose({"loss": loss}, manifest={"checkpoint_every": 100})
    assert report.diagnosis.slug == "spike-persistent"
    cost = cost_of(report)
    assert (cost.first, cost.last) == (400, report.diagnosis.back)
    assert "by which the loss was back" in study(report).lost.what


def test_epochs_are_told_as_such_and_not_counted_as_steps() -> None:
    loss = np.concatenate([2.0 / np.arange(1, 21), np.full(12, 3.0)])
    manifest = {"batch_size": 32, "seq_len": 128, "checkpoint_every": 5}
    report = stabdiag.diagnose({"epoch": np.arange(32), "loss": loss}, manifest=manifest)
    cost = cost_of(report)
    assert (cost.first, cost.last, cost.step_unit) == (15, 31, "epoch")
    assert cost.work.value is None
    text = postmortem(report)
    assert "Lost | 16 epochs: from the checkpoint of epoch 15 to the end at 31" in text
    assert not re.search(r"step \d|\d steps? [^x]", text)
