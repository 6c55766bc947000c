"""The role of the columns that common frameworks and tutorials write, in their own spelling."""

from __future__ import annotations

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import ColumnError
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.scores import Direction, is_training_score, score_columns, score_direction

ACCURACY, EVAL_ACCURACY = "accuracy", "eval_accuracy"

# Scores by their better direction, and whether they were measured on the training data.
HIGHER, LOWER = (Direction.HIGHER, False), (Direction.LOWER, False)
HIGHER_IN_TRAINING, LOWER_IN_TRAINING = (Direction.HIGHER, True), (Direction.LOWER, True)

TENSORBOARD = {
    "loss": ("Loss/train", "Loss/Train", "training loss", "train/Loss", "Train/Loss_epoch"),
    "eval_loss": (
        *("Loss/val", "Loss/test", "Loss/valid", "Loss/Validation", "loss/eval", "Test Loss"),
        "evaluation_loss_vs_iterations",
    ),
    ACCURACY: (
        *("Accuracy/train", "Accuracy/Train", "Accuracy/training", "accuracy/train", "Acc/train"),
        *("Train/Accuracy", "train/acc", "Train Acc", "training accuracy", "Train Accuracy (%)"),
        *("trainAcc", "acc_train", "accuracy_train", "train_acc_epoch", "train_accuracy_step"),
        *("top1/train", "train/top1", "train/acc1", "Training accuracy", "Accuracy"),
        "train_top1_acc",
    ),
    EVAL_ACCURACY: (
        *("Accuracy/val", "Accuracy/test", "Accuracy/valid", "Accuracy/Validation", "acc/val"),
        *("Val/Accuracy", "val/acc", "Test Acc", "test accuracy", "Valid Accuracy (%)", "valAcc"),
        *("val_accs", "test_accuracies"),
        *("acc_val", "accuracy_test", "val_acc_epoch", "valid/acc_epoch", "top1/val", "val/top1"),
        *("val/acc1", "acc1/val", "Validation accuracy", "evaluation_accuracy_vs_iterations"),
        *("dev_acc", "acc_dev", "testAccuracy", "val_top1_acc", "eval/acc@1", "val/Acc@1"),
    ),
    HIGHER: (
        "F1/val",
        "IoU/val",
        "mIoU/test",
        "Dice/val",
        "PSNR/val",
        "AUC/test",
        "SSIM/val",
        "val_f1s",
    ),
    HIGHER_IN_TRAINING: ("F1/train", "Dice/train", "PSNR/train"),
    LOWER: ("RMSE/val", "WER/test", "Perplexity/val", "Metrics/FID", "Error/test", "val_wers"),
    LOWER_IN_TRAINING: ("Perplexity/train", "train/ppl"),
}
VISION = {
    # timm and torchvision
    ACCURACY: ("acc1", "top1", "acc@1", "Acc@1", "prec1", "train_acc1", "train_top1", "Prec@1"),
    EVAL_ACCURACY: (
        *("eval_top1", "eval_acc1", "test_acc1", "val_acc1", "eval_prec1", "test_acc@1"),
        *("val_top1", "test_top1", "eval_acc@1"),
    ),
    # mmengine and Ultralytics evaluate under a bare name.
    HIGHER: (
        *("eval_top5", "eval_acc5", "test_acc5", "acc5", "top5", "acc@5", "val/top5"),
        *(
            "accuracy/top1",
            "accuracy/top5",
            "acc/top1",
            "acc/top5",
            "acc/mean1",
            "single-label/f1-score",
        ),
        *(
            "coco/bbox_mAP",
            "coco/bbox_mAP_50",
            "coco/bbox_mAP_s",
            "coco/segm_mAP",
            "coco/bbox_mAP_l",
        ),
        *("bbox_mAP", "segm_mAP_75", "pascal_voc/mAP", "pascal_voc/AP50", "mIoU", "mAcc", "aAcc"),
        *("mDice", "mFscore", "coco/keypoints_mAP", "PCK", "PSNR", "SSIM", "Set5/PSNR"),
        *("metrics/mAP50(B)", "metrics/mAP50-95(B)", "metrics/precision(B)", "metrics/recall(B)"),
        *("metrics/mAP50(M)", "metrics/mAP_0.5", "metrics/mAP_0.5:0.95", "metrics/precision"),
        *("metrics/accuracy_top1", "metrics/accuracy_top5", "mAP50", "mAP50-95", "mAP@0.5"),
        *("mAP@.5:.95", "val/mAP", "bbox/AP", "bbox/AP50", "segm/AP", "val_map", "mAP"),
        *("metrics/psnr", "m_psnr", "metrics/ssim", "psnr_y", "val/psnr", "val_ssim"),
        *("mAP@0.5IOU", "PascalBoxes_Precision/mAP@0.5IOU", "DetectionBoxes_Precision/mAP@.75IOU"),
        *("recall@thr=0.5", "prec@top3", "hmean", "norm_edit_dis", "val_dsc", "acc_pose"),
        *("pixAcc", "qwk", "cohen_kappa", "quadratic_kappa"),
    ),
    LOWER: (
        *("fid", "FID", "fid50k_full", "Metrics/fid50k_full", "metrics/lpips", "val/fid"),
        *("fid_score", "Metrics/kid50k", "metrics/niqe", "NIQE", "LPIPS"),
        *("epe", "val_epe", "abs_rel", "sq_rel", "val/silog", "HD95", "EER", "minDCF", "medr"),
    ),
}
KERAS = {
    ACCURACY: ("accuracy", "acc", "epoch_accuracy", "epoch_acc"),
    EVAL_ACCURACY: (
        *("val_accuracy", "val_acc", "val_sparse_categorical_accuracy", "val_categorical_accuracy"),
        "val_binary_accuracy",
    ),
    HIGHER: (
        *("val_auc", "val_auc_1", "val_precision_1", "val_recall", "val_mean_io_u", "val_f1_score"),
        *("val_top_k_categorical_accuracy", "val_sparse_top_k_categorical_accuracy"),
        *("val_dice_coef", "val_r2_score", "eval_acc_and_f1"),
    ),
    LOWER: ("val_mae", "val_mean_absolute_error", "val_root_mean_squared_error", "val_mse"),
    "lr": ("epoch_learning_rate", "lr", "learning_rate"),
}
TRANSFORMERS = {
    ACCURACY: ("mean_token_accuracy", "train/mean_token_accuracy", "token_accuracy", "token_acc"),
    EVAL_ACCURACY: (
        *("eval_accuracy", "eval/accuracy", "eval_mean_token_accuracy", "eval_overall_accuracy"),
        "eval_mean_accuracy",
        *("eval/mean_token_accuracy", "eval_token_acc"),
    ),
    HIGHER: (
        *("eval_f1", "eval_overall_f1", "eval_bleu", "eval/bleu", "eval_rouge1", "eval_rougeLsum"),
        *("eval_matthews_correlation", "eval_pearson", "eval_spearmanr", "eval_exact_match"),
        *("eval_map", "eval_map_50", "eval_mar_100", "eval_mean_iou", "bleu"),
        *("eval_f1_macro", "eval_f1_weighted", "eval_roc_auc", "BLEU", "chrf"),
        *(
            "valid_bleu",
            "val_bleu4",
            "sacrebleu",
            "rougeL",
            "eval_combined_score",
            "eval_recall@10",
        ),
    ),
    LOWER: (
        *("eval_wer", "eval/wer", "eval_cer", "eval_perplexity", "valid_ppl", "wer", "WER"),
        *("val_wer", "raw_wer", "uer", "valid WER", "eval_wer_ortho", "val/bpb", "cer"),
    ),
    LOWER_IN_TRAINING: ("training_batch_wer", "train_wer", "train_ppl"),
    None: (
        *("eval_runtime", "eval_samples_per_second", "eval_steps_per_second", "eval_gen_len"),
        *("train_runtime", "total_flos", "eval_meteor_time", "num_tokens", "eval_num_tokens"),
    ),
}
LIGHTNING = {
    ACCURACY: (
        "train_acc_step",
        "train/acc_epoch",
        "train_MulticlassAccuracy",
        "train/BinaryAccuracy",
    ),
    EVAL_ACCURACY: (
        *("val_acc/dataloader_idx_0", "valid_acc", "test_acc", "val_MulticlassAccuracy"),
        *("val/BinaryAccuracy",),
    ),
    "eval_loss": ("val_loss/dataloader_idx_0", "val_loss_epoch", "valid_loss_epoch"),
    HIGHER: (
        "val/f1",
        "val_BinaryF1Score",
        "val/MulticlassF1Score",
        "val_BinaryAUROC",
        "test_auroc",
    ),
    HIGHER_IN_TRAINING: ("train/f1", "train_f1_epoch"),
    None: (
        "val/acc_best",
        "best_val_acc",
        "best_acc1",
        "max_accuracy",
        "val/f1_best",
        "best_fitness",
    ),
}
REINFORCEMENT = {
    "reward": (
        *("reward", "Reward", "Episode Reward", "episode_return_mean", "train/reward", "return"),
        *("env_runners/episode_return_mean", "ray/tune/episode_reward_mean", "rollout/ep_rew_mean"),
        *("charts/episodic_return", "Train/mean_reward", "Environment/Cumulative Reward"),
        *(
            "objective/rlhf_reward",
            "ppo/mean_scores",
            "env/reward_mean",
            "reward/mean",
            "rewards/step",
        ),
        *("episode_reward_mean", "Reward/train", "critic/score/mean", "rollout/reward"),
    ),
    HIGHER: (
        *("eval_rewards/accuracies", "success_rate", "eval/success_rate"),
        *("eval/mean_reward", "eval_reward", "evaluation/episode_reward_mean", "val/reward_mean"),
    ),
    HIGHER_IN_TRAINING: ("rewards/accuracies",),
    None: (
        *("reward_std", "rewards/margins", "Episode_Reward/track_lin_vel", "best_reward"),
        *("rewards/format_reward/mean", "reward_scale", "logps/chosen", "completions/mean_length"),
    ),
}
# PyTorch's ``clip_grad_norm_`` calls what it returns ``total_norm``.
HAND_WRITTEN = {
    "grad_norm": (
        *("total_norm", "train/total_norm", "gradients_norm", "norm_grad", "grad_l2"),
        *("grad_l2_norm", "global_gradient_norm", "grad_global_norm", "avg_grad_norm"),
        *("mean_grad_norm", "grad_norm_preclip"),
    ),
    "lr": ("learn_rate", "LR", "train/LR", "lr/group0"),
    "loss_scale": ("dynamic_loss_scale", "amp/scale"),
    "weight_norm": ("parameter_norm", "l2_norm_params", "w_norm", "param_norm"),
    "eval_loss": ("cv_loss", "loss_val", "heldout_loss"),
    None: ("step_size_up", "norm_layer", "w_norm_time", "total_norms"),
}
# Names with a word of a score that measure something else.
NO_SCORES = {
    None: (
        *("accuracy_threshold", "accelerate", "map_size", "feature_map_norm", "top_p", "top_k"),
        *("time_per_acc", "f1_time", "precision_bits", "acceptance_rate", "accumulated_steps"),
        *("bleu_time", "reward_model_lr_mult", "acc_steps", "iou_threshold", "fidelity"),
        *("val_acc_std", "accuracy_std", "bucket_map", "mapping", "er", "top", "val_batches"),
        *("mask_rcnn/accuracy", "fast_rcnn/cls_accuracy", "decoder/acc"),
        *("recall_time", "ap_power", "num_rewards", "auc_bins", "words_per_second"),
    ),
}
GROUPS = (
    TENSORBOARD,
    VISION,
    KERAS,
    TRANSFORMERS,
    LIGHTNING,
    REINFORCEMENT,
    HAND_WRITTEN,
    NO_SCORES,
)
SPELLINGS = [
    (expected, name) for group in GROUPS for expected, names in group.items() for name in names
]


def role_of(name: str, *, with_loss: bool = True) -> object:
    """Return the role of a column: its name, the kind of a score, or None."""
    values = np.linspace(0.9, 0.4, 12)
    loss = {"loss": values + 0.1} if with_loss else {}
    history = stabdiag.read({"step": np.arange(12), **loss, name: values})
    role = next((role for role, series in history.series.items() if series.column == name), None)
    if role is not None and role.startswith("score/"):
        return score_direction(name), is_training_score(name)
    return role


def test_the_battery_is_large():
    assert len({name for _, name in SPELLINGS}) > 250


@pytest.mark.parametrize(("expected", "name"), SPELLINGS, ids=ascii)
def test_the_role_of_a_spelling(expected, name):
    assert role_of(name, with_loss=expected != "loss") == expected


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        ("val_acc Accuracy/test", {"eval_accuracy": "val_acc"}),
        ("tr_loss tr_acc va_acc", {"accuracy": "tr_acc", "eval_accuracy": "va_acc"}),
        ("te_acc", {"eval_accuracy": "te_acc"}),
        ("Accuracy/test Accuracy/val", {"eval_accuracy": "Accuracy/val"}),
        ("train_acc_epoch train_acc_step", {"accuracy": "train_acc_step"}),
        (
            "Accuracy/train Accuracy/val",
            {"accuracy": "Accuracy/train", "eval_accuracy": "Accuracy/val"},
        ),
        # The accuracy of a part of the model, of a class or of several splits does not serve.
        ("head_a/acc_train head_b/acc_train", {}),
        ("acc_val/cat acc_val/dog", {}),
        ("train_val_acc_gap", {}),
        ("student/top1", {}),
    ],
)
def test_the_preferred_accuracy_is_chosen(names, columns):
    assert assign(["loss", *names.split()]).columns == {"loss": "loss", **columns}


@pytest.mark.parametrize(("sections", "count"), [(4, 4), (20, 0)])
def test_the_same_score_of_many_sections_belongs_to_classes(sections, count):
    names = [f"class_{index}/f1" for index in range(sections)]
    assert len(score_columns(names, ())) == count


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        ("decoder_acc_val", "--column eval_accuracy=decoder_acc_val"),
        ("decoder_acc", "--column accuracy=decoder_acc"),
        ("w_grad_l2", "--column grad_norm=w_grad_l2"),
        ("decoder_acc val_acc", "--column accuracy=decoder_acc"),
        ("decoder_acc accuracy", ""),
        ("acc_threshold decoder_acc_std best_decoder_acc w_grad", ""),
        ("acc_cat acc_dog acc_cow", ""),
    ],
)
def test_an_unclear_name_gets_a_hint(names, hint):
    assignment = assign(["loss", *names.split()])
    notes = [note for note in assignment.notes if "--column" in note]
    assert [note.rpartition("it: ")[2] for note in notes] == ([hint] if hint else [])
    assert not hint or hint.partition("=")[2] not in assignment.columns.values()


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (
            {"Accuracy/val": "eval_accuracy"},
            "unknown role 'Accuracy/val'; the role comes first: eval_accuracy=Accuracy/val",
        ),
        ({"val_acc": "Accuracy/val"}, "unknown role 'val_acc'; did you mean eval_accuracy?"),
        ({"learning_rate": "loss"}, "unknown role 'learning_rate'; did you mean lr?"),
    ],
)
def test_a_role_under_another_name_is_suggested(chosen, message):
    with pytest.raises(ColumnError) as caught:
        assign(["loss", "Accuracy/val"], chosen)
    assert str(caught.value) == message
