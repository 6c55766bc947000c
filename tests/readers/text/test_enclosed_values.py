"""Values in pairs, after arrows, in brackets and after the calls of a tensor."""

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
    "Epoch[%d/120] Loss[%.4f]",
    '[["step", %d], ["loss", %.4f]]',
    "[('step', %d), ('loss', %.4f)]",
    "[%d, %.4f]",
    "step=%d loss.item()=%.4f",
    "%d train_loss.item(): %.4f",
    "epoch %d, loss.detach().cpu().numpy() %.4f",
    "i=%d outputs.loss.mean()=tensor(%.4f, device='cuda:0')",
    "step %d, loss == %.4f",
    "step %d, SmoothL1 -> %.4f",
    "step %d, train error=> %.4f",
    "step %d | perplexity -> <%.4f>",
    "step %d, nll(%.4f), T(1.0)",
    "step %d bits per char [%.4f]",
    "step %d, Cost <%.4f>",
    "%d, perda\t%.4f",
    "step %d nll/char: %.4f",
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


DICTS = {
    "epoch {n} losses: {{'cls': {a}, 'box': {b}}}": {"loss": 3, "other_loss/loss_cls": 1},
    "[{n}] loss={{'total': {a}, 'kl': {b}}}": {"loss": 1, "other_loss/loss_kl": 2},
    'step {n} loss: {{"a": {a}}}': {"loss": 1},
    "Epoch {n}: train_loss: {{'loss': {a}, 'acc': {b}}} val_loss: {{'loss': {b}}}": {
        "loss": 1,
        "eval_loss": 2,
        "accuracy": 2,
    },
    "Epoch {n} | losses: {{'D loss': {a}, 'G loss': {b}}}": {"loss": 1, "other_loss/G loss": 2},
    "Epoch {n} Loss: {{'sum_loss': {a}, 'ce': {b}}}": {"loss": 1, "other_loss/Loss_ce": 2},
    "[02:43:{n:02d}][#{n:06d}][4251ms][{a}][{b}]": {"loss": 3, "other_loss/src_loss": 1},
    "[02:43:{n:02d}][#{n:06d}][4251ms] src_loss:{a} dst_loss:{b}": {"loss": 3},
    "[02:43:{n:02d}][#{n:06d}][0251ms][{a}]": {"loss": 1},
}


@pytest.mark.parametrize("form", DICTS)
def test_losses_in_dicts_and_after_a_time_are_named(tmp_path, form):
    path = tmp_path / "run.log"
    rows = [form.format(n=n, a=1 / n, b=2 / n) for n in range(1, 9)]
    path.write_text("\n".join(rows))
    series = api.read(path).series
    for name, first in DICTS[form].items():
        assert series[name].steps.tolist() == [*range(1, 9)]
        assert series[name].values[[0, -1]] == pytest.approx([first, first / 8])


def test_a_time_and_a_number_in_brackets_are_no_losses(tmp_path):
    path = tmp_path / "run.log"
    path.write_text("".join(f"[02:43:{n:02d}][#{n}][42ms] saved\n" for n in range(9)))
    with pytest.raises(LogError):
        api.read(path)


@pytest.mark.parametrize(
    "form",
    [
        "Iter {n} Losses: cls {a}, box {b}",
        "step {n} | losses cls: {a} | box: {b}",
        "epoch {n} train losses: cls={a}; box={b}",
    ],
)
def test_the_values_of_a_list_of_losses_are_losses(tmp_path, form):
    text = "".join(form.format(n=n, a=2.5 - n / 4, b=1.25) + "\n" for n in range(1, 7))
    (tmp_path / "run.log").write_text(text)
    loss = api.diagnose(tmp_path / "run.log").history.series["loss"]
    assert loss.values.tolist() == [3.75 - n / 4 for n in range(1, 7)]
    assert loss.steps.tolist() == [*range(1, 7)]


def test_calls_in_source_code_are_no_names(tmp_path):
    path = tmp_path / "run.log"
    path.write_text(
        "".join(
            f"        total += loss.item() / {n}\n        assert loss.item() == {n}.5\n"
            f"        writer.add_scalar('loss', loss.item(), {n})\n"
            for n in range(40)
        )
    )
    with pytest.raises(LogError):
        api.diagnose(path)


def test_names_and_values_between_bars_in_brackets(tmp_path):
    form = "Epoch {0} Train[Cost|{1} Acc|0.{0}] Test[Cost|{2} Acc|0.1]\n"
    path = tmp_path / "run.log"
    path.write_text("".join(form.format(n, 2.5 - n / 8, 2.75 - n / 8) for n in range(1, 9)))
    series = api.read(path).series
    assert series["loss"].values.tolist() == [2.5 - n / 8 for n in range(1, 9)]
    assert series["eval_loss"].values.tolist() == [2.75 - n / 8 for n in range(1, 9)]


@pytest.mark.parametrize(
    "form",
    [
        "acc={}/400",
        "Accuracy: {} / 400",
        "correct: {}/400",
        "accuracy {}/400 (12%)",
        "Acc = {}/400 [12.5%]",
    ],
)
def test_an_accuracy_may_be_a_count_of_a_total(tmp_path, form):
    path = tmp_path / "train.log"
    lines = (f"epoch {n} loss {4 - n / 16}, {form.format(10 * n)}\n" for n in range(1, 21))
    path.write_text("".join(lines))
    accuracy = api.read(path).series["accuracy"]
    assert accuracy.values.tolist() == pytest.approx([n / 40 for n in range(1, 21)])


@pytest.mark.parametrize("form", ["acc={}/9", "accuracy {}/100.5", "acc 450/400 {}"])
def test_other_pairs_of_numbers_are_no_accuracy(tmp_path, form):
    path = tmp_path / "train.log"
    lines = (f"epoch {n} loss {4 - n / 16}, {form.format(n)}\n" for n in range(1, 9))
    path.write_text("".join(lines))
    assert {*api.read(path).series} == {"loss"}
