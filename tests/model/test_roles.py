"""Which column serves which role."""

import pytest

import stabdiag
from stabdiag.errors import ColumnError
from stabdiag.model.roles.choice import assign, may_serve
from stabdiag.model.roles.fallbacks import fallback_columns
from stabdiag.model.roles.loss_kinds import LossKind, find_discriminator_loss, loss_kind
from stabdiag.model.roles.names import is_evaluation, name_words, normal
from stabdiag.model.roles.settings import (
    changes_objective,
    column_setting,
    difficulty_direction,
    is_loss_weight,
    setting_columns,
)
from stabdiag.model.roles.table import ROLES

# Names that frameworks write, in addition to the names in the table of roles.
NAMES = {
    "step": (
        *("trainer/global_step", "s:", "train/global_step", "misc/nupdates", "train/n_updates"),
        *("time/total_timesteps", "globalStep"),
    ),
    "loss": (
        *("train/loss", "lm loss", "lm-loss", "loss/train/total", "train/CE loss"),
        *("loss_metrics/global_avg_loss", "trl:", "Loss", "main/loss", "TrainLoss", "trainLoss"),
        *("TotalLoss", "LMLoss", "CELoss", "L1Loss", "3D_loss", "trainloss"),
    ),
    "eval_loss": (
        *("eval/loss", "val/loss", "validation/loss", "lm loss validation"),
        *("validation_metrics/loss", "eval/lm/loss", "validation/main/loss", "ValLoss", "valLoss"),
        *("testLoss", "Validation Loss", "valid/loss", "valloss", "TESTLOSS"),
    ),
    "grad_norm": (
        *("train/grad_norm", "grad-norm", "grad norm", "optim/total grad norm"),
        *("l2_norm/grad/global", "norm:", "gradNorm", "GradNorm", "gNorm"),
    ),
    "lr": (
        *("learning-rate", "learning rate", "train/learning_rate", "lr-AdamW", "lr-AdamW/group0"),
        *("lr-SGD/pg1", "optim/LR0", "optim/LR (group 0)", "Train/Samples/lr", "x/lr0", "lr/pg0"),
        *("LearningRate", "learningRate", "optim/learning_rate_group0"),
        "learners/p/default_optimizer_learning_rate",
    ),
    "loss_scale": (
        *("loss-scale", "loss scale", "Train/Samples/loss_scale", "kd/grad_scaler"),
        *("train/gradient/scaler", "misc/gradient_scaler.scale"),
    ),
    "weight_norm": (*("params-norm", "params norm"),),
    "epoch": (*("Episode", "Epochs", "época", "Époque", "轮次", "エポック", "Эпоха"),),
    "reward": (
        *("rollout/ep_rew_mean", "charts/episodic_return", "EpRewMean", "critic/rewards/mean"),
        *("train/reward", "AverageEpRet", "episodeReward", "avg(utility)", "mean_payoff"),
    ),
    "accuracy": ("main/accuracy",),
    "eval_accuracy": ("validation/main/accuracy",),
    "skipped": (*("number of skipped iterations", "optim/step skipped"),),
    "tokens_per_second": (*("throughput(tps)", "throughput/device/TPS"),),
}


@pytest.mark.parametrize(
    ("role", "name"), [(r, name) for r, names in NAMES.items() for name in names]
)
def test_names_that_frameworks_give(role, name):
    assert assign(["unrelated", name]).columns == {role: name}


def test_every_declared_name_is_in_normal_form_and_serves_its_role():
    names = [name for role in ROLES for name in role.names]
    assert [name for name in names if normal(name) != name] == []
    assert sorted(set(names)) == sorted(names)
    for role in ROLES:
        other = "unrelated" if role.name == "loss" else "loss"
        for name in role.names if not role.several else ():
            assert assign([other, name]).columns[role.name] == name


ALONE = {
    "loss": (
        *("loss_scale", "grad_norm/loss", "loss_std", "min_loss", "accuracy", "timing_s/loss"),
        *("loss_duration", "loss/duration_s"),
        *("profiling/Time taken: GRPOTrainer.compute_loss", "best_loss", "best_val_loss"),
    ),
    "eval_loss": ("best_val_loss", "val_loss_best", "best/valid_loss"),
    "lr": (
        *("min_lr", "lrelu", "flr", "lr_floor", "lr_decay_steps", "final_lr", "warmup_lr"),
        *("end_lr", "config/lr", "hparams/learning_rate", "run.args.lr"),
    ),
    "reward": (
        *("reward_std", "best_reward", "eval/mean_reward_100", "rewards/format_reward"),
        *("rewards/margins", "gpu_utility"),
    ),
    "grad_norm": ("eval/grad_norm", "optimizer/norm"),
    "weight_norm": ("grad/param norm",),
    "step": ("timing_s/step", "max_steps", "eval_steps"),
    "saturated_fraction": ("saturation",),
}


@pytest.mark.parametrize(
    ("role", "name"), [(r, name) for r, names in ALONE.items() for name in names]
)
def test_names_without_a_role(role, name):
    assert role not in assign([name]).columns


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        # The preferred of several.
        ("base_lr opt_lr", {"lr": "opt_lr"}),
        ("base_lr", {"lr": "base_lr"}),
        ("train_loss loss", {"loss": "loss"}),
        ("loss:sum dpo_loss", {"loss": "dpo_loss"}),
        ("norm gnorm", {"grad_norm": "gnorm"}),
        ("a/grad_norm a/raw_grad_norm", {"grad_norm": "a/raw_grad_norm"}),
        ("a/grad_norm b/grad_norm", {}),
        ("grad_norm grad_norm_before_clip", {"grad_norm": "grad_norm_before_clip"}),
        ("student_kl_loss mlm_loss val/x_loss", {"loss": "mlm_loss", "eval_loss": "val/x_loss"}),
        ("loss val/recon_loss val/total_loss", {"loss": "loss", "eval_loss": "val/total_loss"}),
        ("loss eval_g0_loss eval_g1_loss", {"loss": "loss", "eval_loss": "eval_g0_loss"}),
        ("losses/ce losses/kl losses/total losses/aux", {"loss": "losses/total"}),
        ("loss/ce loss/kl loss/overall", {"loss": "loss/overall"}),
        ("a/b/total_loss a/vf_loss", {"loss": "a/b/total_loss"}),
        ("loss reward_per_game reward", {"loss": "loss", "reward": "reward"}),
        # Opponents.
        ("gen/loss dis/loss", {"loss": "dis/loss"}),
        ("loss_G loss_D", {"loss": "loss_D"}),
        ("g_loss d_loss_real d_loss_fake", {"loss": "d_loss_real"}),
        # By looks.
        ("loss lr-AdamW", {"loss": "loss", "lr": "lr-AdamW"}),
        ("loss encoder_lr", {"loss": "loss", "lr": "encoder_lr"}),
        ("loss a/current_learning_rate", {"loss": "loss", "lr": "a/current_learning_rate"}),
        ("loss actor/grad_norm", {"loss": "loss", "grad_norm": "actor/grad_norm"}),
        ("loss actor/param_norm", {"loss": "loss", "weight_norm": "actor/param_norm"}),
        ("loss test_student_loss", {"loss": "loss", "eval_loss": "test_student_loss"}),
        ("loss Batch_Reward_Mean", {"loss": "loss", "reward": "Batch_Reward_Mean"}),
        ("loss reward_over_50_games", {"loss": "loss", "reward": "reward_over_50_games"}),
        ("loss avg_reward_100", {"loss": "loss", "reward": "avg_reward_100"}),
        ("loss EpisodeReturns", {"loss": "loss", "reward": "EpisodeReturns"}),
        # Groups.
        ("weight_norm/attn", {"weight_norm/attn": "weight_norm/attn"}),
        ("l2_norm/param/layer.0.w", {"weight_norm/layer.0.w": "l2_norm/param/layer.0.w"}),
        ("debug/weight_norm/x", {"weight_norm/x": "debug/weight_norm/x"}),
        ("layers.3.weight_norm", {"weight_norm/layers.3": "layers.3.weight_norm"}),
        ("l1/q.amax l2/q.amax", {"amax/l1/q": "l1/q.amax", "amax/l2/q": "l2/q.amax"}),
        ("fp8/scale final.weight_norm", {}),
        ("train/weight_norm/x", {"weight_norm/x": "train/weight_norm/x"}),
        ("gradNorm/block.0/w", {"grad_norm/block.0/w": "gradNorm/block.0/w"}),
        ("activations/relu.1", {"activation_norm/relu.1": "activations/relu.1"}),
        ("saturation/tanh.1", {"saturated_fraction/tanh.1": "saturation/tanh.1"}),
        ("grad_norm grad_norm/a", {"grad_norm": "grad_norm", "grad_norm/a": "grad_norm/a"}),
        # A joint loss is the sum of its parts.
        ("rec_avg_loss icl_avg_loss joint_avg_loss", {"loss": "joint_avg_loss"}),
        # gen and discrim, the networks of pix2pix.
        ("gen_loss_L1 gen_loss_GAN discrim_loss", {"loss": "discrim_loss"}),
        # Other languages.
        ("训练损失 验证损失", {"loss": "训练损失", "eval_loss": "验证损失"}),
        ("損失 検証損失", {"loss": "損失", "eval_loss": "検証損失"}),
        ("훈련_손실 검증_손실", {"loss": "훈련_손실", "eval_loss": "검증_손실"}),
        ("\ud800损失", {"loss": "\ud800损失"}),
    ],
    ids=ascii,
)
def test_columns_that_are_chosen(names, columns):
    assert assign(names.split()).columns == columns


@pytest.mark.parametrize(
    "columns",
    [
        {"step": "Step", "loss": "a-3 - train/loss"},
        {"step": "Step", "loss": "Value", "clock": "Wall time"},
        {"reward": "Return (train)"},
        {"weight_norm/Block 3/mlp": "param_norm.Block 3/mlp"},
        {"loss": "Pérdida de entrenamiento", "eval_loss": "Pérdida de validación"},
    ],
    ids=ascii,
)
def test_names_of_several_words(columns):
    assert assign([*columns.values(), "a-3 - train/loss__MIN"]).columns == columns


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["config/lr"], {"lr": "config/lr"}),
        (["loss"], {"eval_loss": "loss"}),
        (["loss", "train/ce", "wn"], {"loss": "train/ce", "weight_norm/all": "wn"}),
    ],
)
def test_a_chosen_column_goes_first(names, chosen):
    assert assign(names, chosen).columns == chosen


@pytest.mark.parametrize(
    ("names", "messages"),
    [
        ("train_loss loss", "'loss' train_loss"),
        ("entropy_loss surrogate_loss value_function_loss", "'value_function_loss' surrogate_loss"),
        ("student_kl_loss mlm_loss", "'mlm_loss' student_kl_loss"),
        ("policy-loss value-loss entropy-loss", "'value-loss' policy-loss"),
        ("loss encoder_lr", "'encoder_lr'"),
    ],
)
def test_a_choice_is_reported(names, messages):
    (note,) = assign(["step", *names.split()]).notes
    assert all(name in note for name in messages.split())


@pytest.mark.parametrize(
    "names",
    [
        "train/box_loss train/cls_loss train/dfl_loss",
        "loss_bbox loss_cls loss_mask",
    ],
)
def test_the_parts_of_a_loss_are_summed_where_no_total_is_logged(names):
    parts = names.split()
    assigned = assign(["step", *parts, "val/box_loss", "val/cls_loss"])
    assert sorted(assigned.parts["loss"]) == sorted(parts)
    assert sorted(assigned.parts["eval_loss"]) == ["val/box_loss", "val/cls_loss"]
    assert assign([*parts, "total_loss"]).parts == {}
    assert assign(parts, {"loss": parts[0]}).columns["loss"] == parts[0]


@pytest.mark.parametrize(
    "names",
    [
        "running_loss batch_loss",
        "loss_ema loss_raw",
        "loss_0 loss_1",
        "student_kl_loss mlm_loss",
        "RunningLoss BatchLoss",
        "set5_val_loss urban100_val_loss",
    ],
)
def test_two_readings_of_one_loss_are_not_parts(names):
    assert assign(names.split()).parts == {}


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"los": "loss"}, "unknown role 'los'; did you mean loss?"),
        ({"zzzz": "loss"}, "unknown role 'zzzz'; roles are step, epoch, loss"),
        ({"eval_loss/a": "loss"}, "unknown role 'eval_loss/a'; did you mean eval_loss?"),
        ({"loss": "los"}, "the log has no column 'los' for loss; did you mean loss?"),
        ({"loss": "zzzz"}, "the log has no column 'zzzz' for loss; it has step, loss"),
    ],
)
def test_choices_that_cannot_be(chosen, message):
    with pytest.raises(ColumnError) as caught:
        assign(["step", "loss"], chosen)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", ["", " ", "//", "偏差", "("])
def test_odd_names_serve_nothing(name):
    assert assign([name]).columns == {}


@pytest.mark.parametrize(
    ("names", "holds"),
    [
        ("eval/loss val_acc Validation/PPL test_score validateAcc ValAcc heldout_loss", True),
        ("va_loss te_acc vaLoss loss_va", True),
        ("latest_loss value interval train/loss tr_loss nova_loss va_encoder_norm", False),
    ],
)
def test_evaluation_is_recognized_by_name(names, holds):
    assert {is_evaluation(name) for name in names.split()} == {holds}


def test_columns_of_no_interest_may_not_serve():
    assert not any(map(may_serve, ["gpu_0_fan", "gpu_0_memory", "hostname", "gpu_0_power"]))


def test_other_runs_in_an_exported_chart():
    names = ["Step", "oak-1 - train/loss", "oak-1 - train/loss__MIN", "elm-2 - train/loss"]
    assignment = assign(names)
    assert assignment.columns["loss"] == "oak-1 - train/loss"
    (note,) = assignment.notes
    assert note == (
        "the table holds 2 runs; this is 'oak-1', not elm-2 (--column 'loss=elm-2 - train/loss')"
    )
    assert assign(names[:3]).notes == ()


@pytest.mark.parametrize(
    ("names", "loss", "eval_loss"),
    [
        ("epoch mse", "mse", None),
        ("history/epoch history/train_bce history/val_bce", "history/train_bce", "history/val_bce"),
        ("data/epoch data/L_train data/L_val", "data/L_train", "data/L_val"),
        ("log/epoch log/train/ce log/val/ce", "log/train/ce", "log/val/ce"),
        ("Percent_Good Mean_Squared_Error", "Mean_Squared_Error", None),
        ("epoch train/rmse mae", "train/rmse", None),
        ("epoch train_error", "train_error", None),
        ("epoch avg_cost", "avg_cost", None),
        ("epoch MultiClass Accuracy", "MultiClass", None),
        ("epoch Quantile:alpha=0.9", "Quantile:alpha=0.9", None),
        ("epoch Sup Unsup Contra mIoU", "Sup", None),
        ("step bpc", "bpc", None),
        ("step perplexity", "perplexity", None),
        ("train val", "train", "val"),
        ("epoch trn val", "trn", "val"),
        ("epoch tr te", "tr", "te"),
        ("n train_cost dev_cost", "train_cost", "dev_cost"),
        ("epoch train_err test_err", "train_err", "test_err"),
        ("epoch avg_train avg_val", "avg_train", "avg_val"),
        ("epoch L_train L_val", "L_train", "L_val"),
        ("epoch train_total val_total", "train_total", "val_total"),
        ("epoch G_GAN G_L1 D_real D_fake", "D_real", None),
        ("L_G L_C L_D", "L_D", None),
        ("discriminator Generator", "discriminator", None),
        ("train_mse val_mse", "train_mse", "val_mse"),
        ("mse test/mse val_mae", "mse", "test/mse"),
        ("mse val_mae", "mse", None),
        ("epoch RMSEpa_Etrain_pu RMSEpa_Etest_pu RMSE_Ftrain_pu", "RMSEpa_Etrain_pu", None),
    ],
)
def test_fallbacks_for_a_loss(names, loss, eval_loss):
    assert "loss" not in assign(names.split()).columns
    fallback = next(fallback_columns(names.split(), counted="epoch" in names))
    assert (fallback.loss, fallback.eval_loss) == (loss, eval_loss)
    assert fallback.note.startswith(f"took {loss!r} as the loss")
    assert may_serve(loss)


@pytest.mark.parametrize(
    "names",
    [
        "epoch error_rate train_accuracy elbo objective",
        "epoch val_mse eval/mae config/mse",
        "x y error",
        "x sup unsup",
        "x poisson quantile",
        "epoch train",
        "epoch auc/train auc/val",
        "epoch objective/train objective/valid",
        "epoch tr",
        "epoch train_x val_x",
        "n train_cost",
        "epoch G D",
        "epoch generator d_model",
    ],
)
def test_columns_that_are_not_a_fallback_loss(names):
    assert list(fallback_columns(names.split(), counted="epoch" in names)) == []


ADVERSARIAL = LossKind.ADVERSARIAL


@pytest.mark.parametrize(
    ("loss", "others", "expected"),
    [
        ("policy_loss", [], LossKind.POLICY),
        ("value_loss + actor_loss", [], LossKind.POLICY),
        ("total_loss", ["policy_loss", "value_loss"], LossKind.POLICY_SUM),
        ("Value function loss", ["Surrogate loss"], LossKind.VALUE),
        ("train/loss", ["pg_loss", "critic_loss"], LossKind.POLICY_SUM),
        ("critic_loss", ["actor_loss"], LossKind.VALUE),
        ("train/critic_loss", ["train/actor_loss", "train/alpha_loss"], LossKind.VALUE),
        ("critic_loss", ["generator_loss"], ADVERSARIAL),
        ("critic_loss", [], ADVERSARIAL),
        ("loss_D", [], ADVERSARIAL),
        ("g_losses_chunk", [], ADVERSARIAL),
        ("G_loss", ["D_loss"], ADVERSARIAL),
        ("loss_G_A", ["loss_D_A"], ADVERSARIAL),
        ("gen_total", ["disc_total"], ADVERSARIAL),
        ("D_real", ["G_GAN"], ADVERSARIAL),
        ("gen_loss", ["dis_loss"], ADVERSARIAL),
        ("loss", ["d_loss"], ADVERSARIAL),
        ("train/loss", ["train/disc_loss"], ADVERSARIAL),
        ("loss", ["dis_loss"], None),
        ("loss", ["critic_loss"], None),
        ("loss", ["d_weight_loss"], None),
        ("loss", ["val_d_loss"], None),
        ("gen_loss", ["dis_rate"], None),
        ("gen_loss", ["val_dis_loss"], None),
        ("loss", ["policy_loss"], None),
        ("loss", ["policy_lag", "value_loss"], None),
        ("student_loss", ["policy_loss", "value_loss"], None),
        ("default_policy/total_loss", [], None),
        ("td_loss", [], LossKind.VALUE),
        ("loss", ["episode", "epsilon"], LossKind.VALUE),
        ("Loss", ["exploration_rate"], LossKind.VALUE),
        ("loss", ["episode", "query_acc"], None),
        ("loss", ["episode_length"], None),
        ("loss", [], None),
        ("3D_loss", [], None),
        ("", ["policy_loss", "value_loss"], None),
    ],
)
def test_a_loss_that_may_rise_while_the_run_learns(loss, others, expected):
    assert loss_kind(loss, [loss, *others], has_reward=False) == expected


@pytest.mark.parametrize(
    "names",
    [
        "actor/entropy_loss actor/kl_loss actor/pg_loss",
        "kl_loss policy_loss entropy_loss",
        "entropy_loss surrogate_loss",
    ],
)
def test_terms_of_a_policy_are_not_summed(names):
    assignment = assign(["step", *names.split()])
    assert not assignment.parts
    assert {"entropy", "kl"}.isdisjoint(name_words(assignment.columns["loss"]))


def test_the_critic_of_a_policy_is_taken_without_the_loss_of_its_temperature():
    assignment = assign(["step", "temp_loss", "critic_loss", "actor_loss", "conservative_loss"])
    assert not assignment.parts
    assert assignment.columns["loss"] == "critic_loss"
    assert loss_kind("critic_loss", ["critic_loss", "actor_loss"], has_reward=True) is None


def test_a_reward_outranks_the_policy_part_of_a_sum():
    names = ["loss", "policy_loss", "value_loss"]
    assert loss_kind("loss", names, has_reward=True) is None
    assert loss_kind("policy_loss", names, has_reward=True) == LossKind.POLICY


@pytest.mark.parametrize(
    ("others", "loss"),
    [
        ([], "value"),
        (["metric", "timestamp"], "value"),
        (["ent", "prob", "train_R"], None),
        (["entropy", "value_loss"], "value_loss"),
        (["avg_return"], None),
    ],
)
def test_a_value_next_to_measures_of_a_policy_is_no_loss(others, loss):
    assert assign(["step", "value", *others]).columns.get("loss") == loss


@pytest.mark.parametrize(("name", "is_reward"), [("train_R", True), ("mean_R", True), ("R", False)])
def test_a_capital_r_is_a_return(name, is_reward):
    assert assign(["step", name]).has("reward") == is_reward


SETTINGS = {
    "batch_size": ("batch_size",),
    "train_batch_size": ("train/batch_size",),
    "global_batch_size": ("global batch size",),
    "seqlen": ("curriculum_seqlen",),
    "seq_len": ("current_seq_len", "hparams.seqLen"),
    "weight_decay": ("optim/weight_decay/group0",),
    "dropout": ("config/dropout",),
    "stage": ("Stage",),
    "phase": ("phase_id",),
    "temperature": ("kd_temperature",),
    "teacher_forcing": ("teacher_forcing_ratio",),
    "momentum": ("oak-1 - momentum",),
    "aux_loss_weight": ("aux_loss_weight",),
    "lambda_gp": ("lambda_gp",),
    "kl_weight": ("losses/kl_weight",),
    None: (
        *("val/stage", "gpu_temperature", "system/gpu.0.temp", "system/gpu.0.temperature"),
        *("grad_norm/stage", "losses/dataset", "completions/max_length", "consumed samples"),
        *("grad_norm/block0.weight", "gradients/layer.0.weight", "epoch", "batch_id", "loss_scale"),
    ),
}


@pytest.mark.parametrize(
    ("name", "setting"), [(name, role) for role, names in SETTINGS.items() for name in names]
)
def test_a_setting_is_recognized_by_name(name, setting):
    assert column_setting(name) == setting
    assert setting_columns([name], ()) == ({f"setting/{name}": name} if setting else {})
    assert setting is None or may_serve(name)
    assert setting_columns([name], {name}) == {}


@pytest.mark.parametrize(
    ("names", "holds"),
    [
        ("seq_len data_source train/resolution entropy_coef dropout", True),
        ("batch_size weight_decay num_workers max_grad_norm loss", False),
    ],
)
def test_settings_that_change_the_objective_are_known(names, holds):
    assert {changes_objective(name) for name in names.split()} == {holds}


@pytest.mark.parametrize(
    ("names", "way", "is_weight"),
    [
        ("train/noise_std mask_ratio train_eps epsilon stage", 1, False),
        ("teacher_forcing_ratio", -1, False),
        ("temperature", 0, False),
        ("details/current_l1_coefficient lambda_u loss/consistency_weight", 1, True),
        ("dataset batch_size adam_epsilon weight_decay val/mask_ratio", None, False),
        ("gradient_noise_scale rewards/margins loss", None, False),
    ],
)
def test_settings_have_a_direction_of_difficulty(names, way, is_weight):
    assert {(difficulty_direction(name), is_loss_weight(name)) for name in names.split()} == {
        (way, is_weight)
    }


@pytest.mark.parametrize(
    "name", ["loss_weights", "loss_weights/balanced", "losses/weights/0", "loss_weights.kl"]
)
def test_weights_of_losses_are_no_losses(name):
    assert not assign([name]).columns


def test_a_regularizer_is_not_a_discriminator_loss():
    names = ["Loss/G/loss/mean", "Loss/D/reg/mean", "Loss/D/loss/mean", "Loss/r1_penalty/mean"]
    assert find_discriminator_loss(names) == "Loss/D/loss/mean"
    assert find_discriminator_loss(["G_loss", "D_reg"]) is None


@pytest.mark.parametrize(
    "name", ["'Training error'", " 'training_error'", '"Training error"', "`loss`"]
)
def test_quotes_are_no_part_of_a_name(name):
    assert normal(name) in ("training_error", "loss")


@pytest.mark.parametrize(
    ("name", "words"), [("dloss", ("d", "loss")), ("G_gloss", ("g", "g", "loss"))]
)
def test_the_loss_of_a_network_may_be_joined_to_its_letter(name, words):
    assert name_words(name) == words


@pytest.mark.parametrize("name", ["gloss", "closs", "ed_loss", "glossary", "dlosses"])
def test_other_words_that_end_like_a_loss_are_kept(name):
    assert name_words(name)[0] == {"gloss": "g", "ed_loss": "ed"}.get(name, name)


@pytest.mark.parametrize("other", ["cv_loss", "mean_cv_loss", "loss_cv", "quiz_loss", "tst_loss"])
@pytest.mark.parametrize("trained", ["tr_loss", "train_loss", "loss_train"])
def test_losses_of_two_sets_are_not_added(trained, other):
    assigned = assign(["epoch", trained, other])
    assert not assigned.parts
    assert assigned.columns["loss"] == trained
    assert ("eval_loss" in assigned.columns) == (other != "quiz_loss")


ACTOR_CRITIC = [
    *("losses/qf1_values", "losses/qf2_values", "losses/qf1_loss", "losses/qf2_loss"),
    *("losses/qf_loss", "losses/actor_loss", "losses/alpha", "losses/alpha_loss"),
]


@pytest.mark.parametrize(
    ("names", "loss", "parts"),
    [
        (ACTOR_CRITIC, "losses/qf_loss", ()),
        (
            ["loss/q1_loss", "loss/q2_loss", "loss/policy_loss", "loss/alpha", "loss/alpha_loss"],
            "loss/q1_loss",
            ("loss/q1_loss", "loss/q2_loss"),
        ),
        (["losses/td_loss", "losses/q_values", "losses/epoch"], "losses/td_loss", ()),
        (["losses/explained_variance", "losses/clipfrac", "losses/vf"], "losses/vf", ()),
        (["losses/accuracy", "loss/box", "loss/cls"], "loss/box", ("loss/box", "loss/cls")),
        (["loss/alpha", "loss/lap"], "loss/lap", ("loss/lap", "loss/alpha")),
    ],
)
def test_measures_in_a_section_of_losses_are_not_the_loss(names, loss, parts):
    assigned = assign(["step", *names])
    assert assigned.columns["loss"] == loss
    assert {*assigned.parts.get("loss", ())} == {*parts}


@pytest.mark.parametrize("measure", ["loss", "l2", "mse"])
def test_trn_and_tst_are_the_sets_of_the_training_and_the_test(measure, put_table):
    rows = [(n, 5 - n / 4, 4 - n / 4) for n in range(6)]
    series = put_table(("step", f"{measure}_tst", f"{measure}_trn"), rows)
    assert series["loss"].values.tolist() == [row[2] for row in rows]
    assert series["eval_loss"].values.tolist() == [row[1] for row in rows]


@pytest.fixture
def put_table(tmp_path):
    def series(names, rows):
        path = tmp_path / "run.csv"
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in (names, *rows)))
        return stabdiag.read(path).series

    return series


@pytest.mark.parametrize(
    ("names", "loss", "evaluation"),
    [
        (["loss_0", "G_loss", "eval_G_l1_loss", "eval_loss_0"], "loss_0", "eval_loss_0"),
        (["train/loss_a", "val/loss_b", "val/loss_a"], "train/loss_a", "val/loss_a"),
        (["train_l1_loss", "val_l2_loss", "val_l1_loss"], "train_l1_loss", "val_l1_loss"),
        (["total_loss", "val_cls_loss", "val_total_loss"], "total_loss", "val_total_loss"),
        (["loss", "val_cls_loss", "val_seg_loss"], "loss", "val_cls_loss"),
    ],
)
def test_the_evaluation_of_the_chosen_loss_is_preferred(names, loss, evaluation):
    assigned = assign(["step", *names])
    assert (assigned.columns["loss"], assigned.columns["eval_loss"]) == (loss, evaluation)
    assert ("eval_loss" in assigned.parts) == (len(names) == 3 and evaluation == "val_cls_loss")
