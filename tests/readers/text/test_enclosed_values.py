"""Values in pairs, after arrows and in brackets."""

import numpy as np
import pytest

import stabdiag as api
from stabdiag.errors import LogError

LOSS = 1.3 + 2.5 * np.exp(-np.arange(120) / 25) + np.random.default_rng(8).normal(0, 0.02, 120)

FORMS = [
    "Epoch(%d) ('loss', %.4f)",
    "('step', %d) ('loss', %.4f)",
    "OrderedDict([('step', %d), ('loss', %.4f)])",
    "epoch %d loss -> %.4f",
    "[%d] loss => %.4f",
    "step %d | train loss → %.4f",
    "step(%d), loss(%.4f)",
    "step {%d} loss {%.4f}",
    "Epoch(%d): loss=<%.4f>",
    '[["step", %d], ["loss", %.4f]]',
    "[('step', %d), ('loss', %.4f)]",
    "[%d, %.4f]",
]


@pytest.mark.parametrize("form", FORMS)
def test_values_between_signs_are_read(tmp_path, form):
    path = tmp_path / "run.log"

    def diagnosis(loss):
        path.write_text("".join(f"{form % pair}\n" for pair in enumerate(loss)))
        return api.diagnose(path).diagnosis

    assert diagnosis(LOSS).slug == "healthy"
    failed = LOSS.copy()
    failed[80:] = np.nan
    assert diagnosis(failed).slug.startswith("nan")
    assert diagnosis(failed).step == 80


@pytest.mark.parametrize(
    "form",
    [
        "step %d loss %.4f (2.4000)",  # a mean in parentheses
        "step %d loss %.4f, lr 0.1 -> 0.01",
        "step %d loss: %.4f f(3) -> 4.0",
    ],
)
def test_other_brackets_and_arrows_change_nothing(tmp_path, form):
    path = tmp_path / "run.log"
    path.write_text("".join(f"{form % pair}\n" for pair in enumerate(LOSS)))
    values = api.diagnose(path).history.logged("loss").values
    assert values == pytest.approx(LOSS, abs=1e-4)


def test_lists_of_losses_are_no_records(tmp_path):
    path = tmp_path / "run.log"
    path.write_text("".join(f"[{loss:.4f}, {loss:.4f}]\n" for loss in LOSS))
    with pytest.raises(LogError):
        api.diagnose(path)
