"""The symptoms of the learning rate's schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Log = dict[str, NDArray[Any]]
    Floats = NDArray[np.float64]

N = 800
AT = np.arange(N)
PEAK = 1e-3
LOSS = 2 + 2 * np.exp(-AT / 150) + np.random.default_rng(0).normal(0, 0.02, N)
SURGING = LOSS + 3 * np.exp(-(((AT - 12) / 8) ** 2))
NOISY = 1 + np.exp(-AT / 15) + np.random.default_rng(0).exponential(1.2, N)
LOW_AT_FIRST = np.where(AT == 0, 4.0, 6 + np.random.default_rng(0).normal(0, 1, N))
TO_THE_END = {"total_steps": N, "schedule": "cosine"}


def run(lr: Floats, loss: Floats = LOSS) -> Log:
    return {"step": AT, "loss": loss, "lr": lr}


def cosine(warmup: int, total: int) -> Floats:
    share = np.clip((AT - warmup) / (total - warmup), 0, 1)
    return PEAK * np.minimum((AT + 1) / max(warmup, 1), (1 + np.cos(np.pi * share)) / 2)


WELL = cosine(50, N)
CONSTANT = np.full(N, PEAK)
RESTARTS = PEAK * (1 + np.cos(np.pi * (AT % 200) / 200)) / 2
STAIRS = PEAK * 0.1 ** (AT // 250)
DROPPED = np.where(AT < 480, PEAK, 0.0)
JUMPED = np.where(AT < 400, WELL, 20 * WELL)


@pytest.mark.parametrize(
    ("slug", "log", "manifest", "first"),
    [
        ("lr-no-warmup", run(cosine(0, N), SURGING), {}, "at least 80 steps"),
        ("lr-warmup-mismatch", run(cosine(200, N)), {"warmup_steps": 50}, "its warm-up of 50"),
        ("lr-warmup-mismatch", run(cosine(10, N)), {"warmup_steps": 200}, "its warm-up of 200"),
        ("lr-warmup-mismatch", run(cosine(200, N)), {"warmup_steps": 0}, "its warm-up of 0"),
        (
            "lr-warmup-mismatch",
            run(PEAK * (AT + 1) / N),
            {"warmup_steps": 50},
            "the unit in which",
        ),
        ("lr-decays-early", run(cosine(50, 500)), {}, "800 steps"),
        ("lr-decays-early", run(DROPPED), {}, "stop at step 480"),
        ("lr-never-decays", run(CONSTANT), TO_THE_END, "cosine scheduler is built with 800"),
        ("lr-discontinuity", run(JUMPED), {}, "at step 400"),
    ],
)
def test_it_is_found(symptom, slug: str, log: Log, manifest: dict[str, object], first: str) -> None:
    found = symptom(slug, log, manifest)
    assert found is not None
    assert first in found.first_action
    assert found.evidence


@pytest.mark.parametrize(
    ("slug", "log", "manifest"),
    [
        pytest.param("lr-no-warmup", run(cosine(0, N)), {}, id="none, and none was needed"),
        pytest.param("lr-no-warmup", run(WELL, SURGING), {}, id="there was one"),
        pytest.param(
            "lr-no-warmup",
            run(CONSTANT, np.where(AT == 5, 20.0, LOSS)),
            {},
            id="one bad batch",
        ),
        pytest.param(
            "lr-no-warmup", run([None] * 100 + [PEAK] * 700, SURGING), {}, id="logged from 100 on"
        ),
        pytest.param("lr-warmup-mismatch", run(WELL), {"warmup_steps": 60}, id="a few steps off"),
        pytest.param(
            "lr-warmup-mismatch",
            run(1e-6 * 1.01**AT),
            {"warmup_steps": 0},
            id="no warm-up, but a rate that rises by design",
        ),
        pytest.param(
            "lr-warmup-mismatch",
            {"step": 5000 + AT, "loss": LOSS, "lr": WELL},
            {"warmup_steps": 1000},
            id="after a resume",
        ),
        pytest.param(
            "lr-warmup-mismatch",
            run(PEAK * (AT + 1) / 2000),
            {"warmup_steps": 2000},
            id="ended within its warm-up",
        ),
        pytest.param("lr-decays-early", run(WELL), {}, id="a cosine to the end"),
        pytest.param("lr-decays-early", run(STAIRS), {}, id="a step decay"),
        pytest.param(
            "lr-decays-early", run(np.maximum(cosine(50, 500), PEAK / 10)), {}, id="a floor"
        ),
        pytest.param("lr-decays-early", run(RESTARTS), {}, id="warm restarts"),
        pytest.param("lr-never-decays", run(WELL), TO_THE_END, id="it did"),
        pytest.param(
            "lr-never-decays",
            run(CONSTANT),
            {"total_steps": N, "schedule": "constant_with_warmup"},
            id="constant as was meant",
        ),
        pytest.param(
            "lr-never-decays",
            run(CONSTANT),
            {"total_steps": 10 * N, "schedule": "wsd"},
            id="stopped before",
        ),
        pytest.param("lr-no-warmup", run(CONSTANT, NOISY), {}, id="ups and downs of a small batch"),
        pytest.param("lr-no-warmup", run(CONSTANT, LOW_AT_FIRST), {}, id="it began low by chance"),
        pytest.param("lr-discontinuity", run(RESTARTS), {}, id="restarts go back to the peak"),
        pytest.param("lr-discontinuity", run(STAIRS), {}, id="steps down"),
        pytest.param(
            "lr-discontinuity", run(np.where(AT < 2, 1e-5, PEAK)), {}, id="up after two records"
        ),
        pytest.param("lr-discontinuity", run(np.where(AT < 100, 0.0, PEAK)), {}, id="up from 0"),
    ],
)
def test_a_near_miss_is_not(symptom, slug: str, log: Log, manifest: dict[str, object]) -> None:
    assert symptom(slug, log, manifest) is None


@pytest.mark.parametrize("slug", ["lr-no-warmup", "lr-decays-early", "lr-discontinuity"])
def test_without_rates_it_is_unknown(symptom, slug: str) -> None:
    assert symptom(slug, {"step": AT, "loss": LOSS}) == ("lr",)


@pytest.mark.parametrize(
    ("slug", "missing"),
    [
        ("lr-warmup-mismatch", ("manifest.warmup_steps",)),
        ("lr-never-decays", ("manifest.schedule", "manifest.total_steps")),
    ],
)
def test_without_a_manifest_it_is_unknown(symptom, slug: str, missing: tuple[str, ...]) -> None:
    assert symptom(slug, run(WELL)) == missing


@pytest.mark.parametrize(("total", "warmup"), [(60, 6), (800, 80), (3000, 100), (50_000, 1000)])
def test_a_short_run_is_told_a_short_warm_up(symptom, total: int, warmup: int) -> None:
    found = symptom("lr-no-warmup", run(cosine(0, N), SURGING), {"total_steps": total})
    assert found.first_action.endswith(f"over at least {warmup} steps.")


def test_a_run_that_went_nan_is_told_a_warm_up_of_its_own_length(symptom) -> None:
    loss = np.where(AT < 200, SURGING, np.nan)
    found = symptom("lr-no-warmup", run(cosine(0, N), loss))
    assert found.first_action.endswith("over at least 100 steps.")


def test_its_clip_threshold_is_that_of_the_tree(symptom) -> None:
    found = symptom("lr-no-warmup", run(cosine(0, N), SURGING), {"grad_clip": 0.5})
    assert "Clip the gradient norm at 0.25 (now 0.5)." in found.next_actions


def test_a_mismatch_lies_within_the_log(symptom) -> None:
    late = {"step": 5000 * (AT + 1), "loss": LOSS, "lr": cosine(200, N)}
    assert symptom("lr-warmup-mismatch", late, {"warmup_steps": 50}).step == 5000


def test_no_checkpoint_is_made_up(symptom) -> None:
    manifest = {**TO_THE_END, "checkpoint_every": 750}
    found = symptom("lr-never-decays", run(CONSTANT), manifest)
    assert "from the checkpoint nearest to step 799" in found.next_actions[0]
