"""Variational autoencoders that stop using their latent code, and healthy ones."""

import numpy as np
import pytest

import stabdiag

N = 300
STEPS = np.arange(N)
RNG = np.random.default_rng(5)
NOISE = RNG.normal(0, 0.02, (3, N))
FALLING = np.exp(-STEPS / 20)
NAMES = [("recon_loss", "kl_loss"), ("BCE", "KLD"), ("train/reconstruction_loss", "train/kl")]


def vae(kl, reconstruction=50 + 20 * FALLING, names=NAMES[0], **columns):
    terms = reconstruction * np.exp(NOISE[0]), kl * np.exp(5 * NOISE[1])
    return {"step": STEPS, "loss": sum(terms), **dict(zip(names, terms, strict=True)), **columns}


COLLAPSED = 0.0005 + 4 * FALLING


@pytest.mark.parametrize("names", NAMES)
def test_a_kl_term_that_vanishes_is_reported(names):
    finding = stabdiag.diagnose(vae(COLLAPSED, names=names)).diagnosis
    assert (finding.slug, finding.severity.value) == ("kl-collapsed", "warning")
    assert names[1] in finding.summary
    assert finding.evidence["last"] < 0.001


HEALTHY = {
    "rises": 12 * (1 - FALLING),
    "falls to a plateau": 6 + 200 * FALLING,
    "starts far too high": 6 + 2e5 * np.exp(-STEPS / 2),
    "small from the start": np.full(N, 0.0005),
}


@pytest.mark.parametrize("course", HEALTHY)
def test_a_kl_term_in_use_is_not_reported(symptom, course):
    assert symptom("kl-collapsed", vae(HEALTHY[course])) is None


@pytest.mark.parametrize(("factor", "is_reported"), [(1.0, True), (100.0, False)])
def test_a_code_that_was_never_used_is_reported(symptom, factor, is_reported):
    log = vae(factor * 0.002 * np.exp(-STEPS / 100), reconstruction=np.full(N, 18.0))
    assert (symptom("kl-collapsed", log) is not None) == is_reported
    # The reconstruction improves: the term may be an average over many dimensions.
    log = vae(0.002 * np.exp(-STEPS / 100), reconstruction=18.0 + 4 * FALLING)
    assert symptom("kl-collapsed", log) is None


def test_a_student_that_matches_its_teacher_is_not_reported(symptom):
    assert symptom("kl-collapsed", vae(COLLAPSED, names=("ce_loss", "kl_loss"))) is None


def test_a_single_loss_is_not_compared(symptom):
    log = {"step": STEPS, "loss": 50 + FALLING, "kl_loss": COLLAPSED}
    assert symptom("kl-collapsed", log) is None
