"""What must not change a diagnosis: names and order of columns, and columns that mean nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stabdiag

N = 400
AT = np.arange(N)
NOISE = np.random.default_rng(8).standard_normal(N)


def base():
    return {
        "step": AT,
        "loss": 2 + 2 * np.exp(-AT / 100) + 0.05 * NOISE,
        "grad_norm": np.exp(0.2 * NOISE),
        "lr": 1e-3 * (1 - AT / (2 * N)),
        "loss_scale": np.full(N, 1024.0),
        "weight_norm/h.0": 10 + 0.001 * AT,
        "weight_norm/h.1": 12 + 0.002 * AT,
        "weight_norm/head": 3 + 0.001 * AT,
    }


def spike(log):
    log["loss"][200:203] += 8
    log["grad_norm"][200] *= 100


def jump(log):
    log["loss"][200:] += 3


def nan(log):
    log["loss"][300:] = np.nan
    log["weight_norm/h.1"][299:] = np.nan


def climb(log):
    log["loss"][150:] += np.linspace(0, 4, N - 150)
    log["weight_norm/h.0"][150:] *= np.exp(np.linspace(0, 2, N - 150))


def overflow(log):
    log["grad_norm"][[100, 200, 300]] = np.inf


def diverged_twice(log):
    log["weight_norm/h.0"][200:] *= 2.5
    log["weight_norm/h.1"][200:] *= 2.5


DAMAGE = [lambda log: None, spike, jump, nan, climb, overflow, diverged_twice]
ALIASES = {
    "loss": ["train_loss", "lm_loss", "total_loss"],
    "grad_norm": ["gradient_norm", "gnorm", "global_grad_norm"],
    "lr": ["learning_rate", "train/learning_rate"],
    "loss_scale": ["train/loss_scale", "amp_scale"],
    "step": ["global_step", "iteration"],
}


def findings_of(log):
    report = stabdiag.diagnose(log, manifest={"dtype": "fp16", "grad_clip": 1.0})
    return [(finding.slug, finding.severity, finding.step) for finding in report.findings]


@settings(max_examples=40, deadline=None)
@given(damage=st.sampled_from(DAMAGE), data=st.data())
def test_names_order_and_meaningless_columns_change_nothing(damage, data):
    log = base()
    damage(log)
    names = {name: data.draw(st.sampled_from([name, *ALIASES.get(name, [])])) for name in log}
    columns = [(names[name], values) for name, values in log.items()]
    columns += data.draw(
        st.lists(
            st.sampled_from([("zzz_gibberish", NOISE), ("xq17", AT % 7), ("blob", NOISE**2)]),
            unique_by=lambda column: column[0],
        )
    )
    assert findings_of(dict(data.draw(st.permutations(columns)))) == findings_of(log)


@pytest.mark.parametrize("value", [1e39, 1e150, 1.7e308, -1.7e308, 5e-324])
@pytest.mark.parametrize("where", [slice(200, 201), slice(200, 210), slice(200, None), slice(None)])
@pytest.mark.parametrize("name", ["loss", "grad_norm", "lr", "loss_scale", "weight_norm/h.0"])
def test_huge_finite_values_are_finite(name, where, value):
    log = base()
    log[name] = log[name].astype(float)
    log[name][where] = value
    with np.errstate(all="raise", under="ignore"):
        findings = findings_of(log)
    assert not any(slug.startswith("nan-") for slug, _, _ in findings)
    if name == "loss" and value > 1:
        assert any(severity == "error" for _, severity, _ in findings)
