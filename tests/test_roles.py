"""Which column serves which role."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stabdiag.errors import ColumnError
from stabdiag.roles import ROLES, assign, is_evaluation, may_serve, normal

NAMES = {
    "step": (
        *("step", "global_step", "_step", "iteration", "iter", "num_updates"),
        *("trainer/global_step", "update", "s:"),
    ),
    "loss": (
        *("loss", "train/loss", "train_loss", "train_loss_step", "training_loss", "lm loss"),
        *("lm-loss", "loss/train/total", "train/CE loss", "loss_metrics/global_avg_loss"),
        *("reduced_train_loss", "total_loss", "trl:", "Loss"),
    ),
    "eval_loss": (
        *("eval_loss", "eval/loss", "val/loss", "val_loss", "valid_loss", "validation/loss"),
        *("lm loss validation", "validation_metrics/loss", "eval/lm/loss"),
    ),
    "grad_norm": (
        *("grad_norm", "train/grad_norm", "train_grad_norm", "grad-norm", "grad norm", "gnorm"),
        *("optim/total grad norm", "l2_norm/grad/global", "norm:"),
    ),
    "lr": (
        *("lr", "learning_rate", "learning-rate", "learning rate", "train/learning_rate"),
        *("lr-AdamW", "lr-AdamW/group0", "lr-SGD/pg1", "optim/LR0", "optim/LR (group 0)"),
        *("Train/Samples/lr", "current_lr"),
    ),
    "loss_scale": (
        *("loss_scale", "loss-scale", "loss scale", "amp_loss_scale", "train_loss_scale"),
        "Train/Samples/loss_scale",
    ),
    "weight_norm": ("params-norm", "params norm", "param_norm"),
    "skipped": ("number of skipped iterations", "skipped", "optim/step skipped"),
    "tokens_per_second": (
        *("tokens_per_sec", "throughput(tps)", "tps", "wps", "throughput"),
        *("throughput/device/TPS", "train_samples_per_second"),
    ),
}


@pytest.mark.parametrize(
    ("role", "name"), [(r, name) for r, names in NAMES.items() for name in names]
)
def test_names_that_frameworks_give(role: str, name: str) -> None:
    assert assign(["unrelated", name]).columns == {role: name}


@pytest.mark.parametrize(
    "name", ["loss_scale", "grad_norm/loss", "loss_std", "min_loss", "accuracy"]
)
def test_what_is_not_a_training_loss(name: str) -> None:
    assert "loss" not in assign([name]).columns


@pytest.mark.parametrize("name", ["min_lr", "lrelu", "flr"])
def test_what_is_not_a_learning_rate(name: str) -> None:
    assert "lr" not in assign([name]).columns


def test_the_preferred_of_two_losses_is_taken_and_told() -> None:
    found = assign(["step", "train_loss", "loss"])
    assert found.columns["loss"] == "loss"
    assert found.notes == ("took 'loss' as the loss; also possible: train_loss",)


def test_a_loss_by_its_looks_is_told() -> None:
    found = assign(["step", "student_loss"])
    assert found.columns["loss"] == "student_loss"
    assert found.notes == ("took 'student_loss' as the loss, by its name",)


def test_of_several_losses_by_their_looks_the_shortest_is_taken() -> None:
    found = assign(["step", "student_kl_loss", "mlm_loss", "val/x_loss"])
    assert found.columns["loss"] == "mlm_loss"
    assert found.columns["eval_loss"] == "val/x_loss"
    assert "also possible: student_kl_loss" in found.notes[0]


def test_a_name_serves_one_role() -> None:
    assert assign(["norm", "gnorm"]).columns == {"grad_norm": "gnorm"}
    assert assign(["loss"], {"eval_loss": "loss"}).columns == {"eval_loss": "loss"}


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("weight_norm/attn", "weight_norm/attn"),
        ("l2_norm/param/layer.0.w", "weight_norm/layer.0.w"),
        ("train/weight_norm/x", "weight_norm/x"),
        ("param_norm.Block 3/mlp", "weight_norm/Block 3/mlp"),
        ("train/grad_norm/head", "grad_norm/head"),
        ("l2_norm/grad/wte", "grad_norm/wte"),
        ("activations/relu.1", "activation_norm/relu.1"),
    ],
)
def test_groups(name: str, role: str) -> None:
    assert assign(["loss", name]).columns == {"loss": "loss", role: name}


def test_a_whole_and_its_groups_go_together() -> None:
    found = assign(["grad_norm", "grad_norm/a", "grad_norm/b"])
    assert set(found.columns) == {"grad_norm", "grad_norm/a", "grad_norm/b"}


def test_a_chosen_column_goes_first() -> None:
    found = assign(["loss", "train/ce", "wn"], {"loss": "train/ce", "weight_norm/all": "wn"})
    assert found.columns == {"loss": "train/ce", "weight_norm/all": "wn"}


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"los": "loss"}, "unknown role 'los'; did you mean loss?"),
        ({"zzzz": "loss"}, "unknown role 'zzzz'; roles are step, epoch, loss"),
        ({"loss": "los"}, "the log has no column 'los' for loss; did you mean loss?"),
        ({"loss": "zzzz"}, "the log has no column 'zzzz' for loss; it has step, loss"),
    ],
)
def test_choices_that_cannot_be(chosen: dict[str, str], message: str) -> None:
    with pytest.raises(ColumnError) as caught:
        assign(["step", "loss"], chosen)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", ["", " ", "//", "損失", "("])
def test_odd_names_serve_nothing(name: str) -> None:
    assert assign([name]).columns == {}


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("eval/loss", True),
        ("val_acc", True),
        ("Validation/PPL", True),
        ("test_score", True),
        ("value", False),
        ("interval", False),
        ("train/loss", False),
    ],
)
def test_evaluation_is_told_by_the_name(name: str, holds: bool) -> None:
    assert is_evaluation(name) is holds


def test_every_declared_name_is_in_normal_form_and_belongs_to_one_role() -> None:
    names = [name for role in ROLES for name in role.names]
    assert [name for name in names if normal(name) != name] == []
    assert sorted(set(names)) == sorted(names)


@given(
    st.lists(
        st.sampled_from(
            [
                *(name for names in NAMES.values() for name in names),
                *(name for role in ROLES for name in role.names),
                *(f"train/{prefix}/0" for role in ROLES for prefix in role.prefixes),
                *(
                    "student_loss",
                    "eval/student loss",
                    "val_accuracy",
                    "lr-x",
                    "encoder_lr2",
                    "tag",
                ),
            ]
        ),
        unique=True,
    )
)
def test_only_columns_that_may_serve_do(names: list[str]) -> None:
    serving = set(assign(names).columns.values()) | {n for n in names if is_evaluation(n)}
    assert all(may_serve(name) for name in serving)


def test_columns_of_no_interest_may_not_serve() -> None:
    assert not any(map(may_serve, ["step_time", "gpu_0_memory", "hostname", "perplexity"]))
