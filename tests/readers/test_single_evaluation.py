"""The scores of one evaluation, without another record."""

import pytest

import stabdiag
from stabdiag.errors import LogError

REPORT = """               precision    recall  f1-score   support

           a       0.91      0.95      0.93       210
           b       0.88      0.79      0.83       102

    accuracy                           0.90       312
   macro avg       0.90      0.87      0.88       312
weighted avg       0.90      0.90      0.90       312
"""


@pytest.fixture
def diagnosed(tmp_path):
    def diagnose(text, name="scores.txt"):
        path = tmp_path / name
        path.write_text(text)
        return stabdiag.diagnose(path).diagnosis

    return diagnose


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Test results\naccuracy: 0.813\nf1: 0.772\n", "0.813"),
        ("***** Eval results *****\n  tp = 210\n  fp = 30\n  mcc = 0.412\n", "0.412"),
        ("INFO:__main__:***** Eval results *****\nINFO:__main__:  mcc = 0.0\n", "'mcc' was 0"),
        ("{'eval_loss': 0.61, 'eval_accuracy': 0.81, 'eval_runtime': 3.2}\n", "0.61"),
        ("{'accuracy': 0.813, 'f1': 0.772}\n", "0.772"),
        ("Epoch 14: Acc 81.3, Precision 77.2, Recall 79.1\n", "81.3"),
        ("MRR: 0.312\nHits@1: 0.221\nHits@10: 0.491\n", "0.312"),
        ("[50]    valid_0's auc: 0.84    valid_1's auc: 0.81\n", "0.81"),
        ("episode_reward_mean: 21.3\nepisode_len_mean: 44.0\nepisodes_total: 12\n", "21.3"),
        (
            "Early stopping, best iteration is:\n[50]\tvalid_0's auc: 0.84\tvalid_1's auc: 0.81\n",
            "0.84",
        ),
        ("Test accuracy: 81.3%, precision: 77.2%\n", "77.2"),
        (REPORT, "0.9"),
        (f"{REPORT}\nEpoch: 3, F1: 0.88 on test_set\n", "0.9"),
    ],
)
def test_an_evaluation_is_too_little_to_judge(diagnosed, text, shown):
    diagnosis = diagnosed(text)
    assert diagnosis.slug == "insufficient-data"
    assert shown in diagnosis.summary


def coco(*values):
    rows = (
        f" Average {name} @[ IoU={threshold} | area={area} | maxDets={limit} ] = {value:.3f}\n"
        for (name, threshold, area, limit), value in zip(
            [
                ("Precision  (AP)", "0.50:0.95", "   all", "100"),
                ("Precision  (AP)", "0.50     ", "   all", "100"),
                ("Precision  (AP)", "0.50:0.95", " small", "100"),
                ("Recall     (AR)", "0.50:0.95", "   all", " 10"),
            ],
            values,
            strict=True,
        )
    )
    return "".join(rows)


def test_the_summary_of_coco(diagnosed):
    text = f"Accumulating evaluation results...\nDONE (t=0.03s).\n{coco(0.25, 0.5, 0.125, 0.75)}"
    summary = diagnosed(text).summary
    assert "'test_mAP' was 0.25" in summary
    assert "'test_mAP50' 0.5" in summary


def test_the_scores_of_classes_are_left_out(diagnosed):
    text = "[EVAL]#image=500 acc=0.9125 IoU=0.725\n[EVAL]Category IoU: [0.97 0.82 0.91]\n"
    summary = diagnosed(text).summary
    assert "0.9125" in summary
    assert "0.725" in summary


@pytest.mark.parametrize(
    "text",
    [
        "|Task|Metric|Value|   |Stderr|\n|---|---|---|---|---|\n"
        "|a|acc|0.41|±|0.03|\n|b|acc_norm|0.36|±|0.02|\n|c|acc|0.52|±|0.04|\n",
        "".join(
            f"[CV {n}/5] END ...C={n}, kernel='rbf'; score: (test=0.9{n}) total time=   0.0s\n"
            for n in range(1, 6)
        ),
    ],
)
def test_scores_of_tasks_and_folds_are_no_log(diagnosed, text):
    with pytest.raises(LogError):
        diagnosed(text)


def test_a_json_object_of_scores_is_one_evaluation(diagnosed):
    assert "0.772" in diagnosed('{"accuracy": 0.813, "f1": 0.772}\n', "scores.json").summary


def test_a_reward_of_no_episode_is_not_finite(diagnosed):
    text = "episode_reward_mean: .nan\nepisode_len_mean: .nan\nepisodes_total: 0\n"
    assert "not finite" in diagnosed(text).summary


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Val Loss: 0.125\nVal Acc: 0.5\n", "0.125"),
        ("loss: 0.125\naccuracy: 0.5\n", "0.125"),
        ("train/total_loss: 2.0535,\nval/total_loss: 2.3923,\nval/bleu4: 0.163,\n", "2.054"),
        ("replay size: 30000\naverage Q-learning loss: 0.0158\nreward: 0.87\n", "0.0158"),
        ("average_loss: 7.31e+09\naverage_return: 1.5\nmax_return: 1.5\nepochs: 15\n", "7.31e+09"),
    ],
)
def test_the_loss_next_to_scores_is_read(diagnosed, text, shown):
    assert shown in diagnosed(text).summary


@pytest.mark.parametrize(
    "text",
    [
        "stop_loss: 0.025\ntake_profit: 0.050\nfee: 0.001\nminimum_loss: 0.001\n",
        "for epoch in epochs:\n    accuracy = 0.5\n    f1 = 0.75\n",
        "iou_threshold: 0.5\nprecision: 0.9\nrecall: 0.8\nlr: 0.1\n",
        "precision: 16\nrecall: 1\n",
        "batch_size: 32\naccuracy: 0.93\nf1: 0.91\n",
        "We reach an accuracy of: 0.93 and a good F1: 0.91 here\n",
        "Accuracy: 0.931\n",
        "model a\naccuracy: 0.91\nf1: 0.90\nmodel b\naccuracy: 0.93\nf1: 0.92\n",
        "name\nversion\nauthor\nlicense\naccuracy: 0.91\nf1: 0.90\n",
    ],
)
def test_settings_prose_and_several_models_are_not(diagnosed, text):
    with pytest.raises(LogError):
        diagnosed(text)


@pytest.mark.parametrize(
    "ending",
    [
        "Killed",
        "slurmstepd: error: Detected 1 oom-kill event(s)",
        'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\nKeyError: 3',
    ],
    ids=lambda ending: ending[:9],
)
def test_what_ended_a_run_below_its_only_scores_is_read(put, ending):
    scores = "***** Eval results *****\n  accuracy = 0.8123\n  f1 = 0.7711\n  recall = 0.71\n"
    report = stabdiag.diagnose(put(f"{scores}  precision = 0.73\n{ending}\n"))
    assert report.diagnosis.slug == "stall"
    assert [event.line for event in report.history.events if event.line] == [6]


def test_what_ended_a_run_below_its_summary_is_read(put):
    summary = "wandb: Run summary:\nwandb:      epoch 4\nwandb: train_loss 0.41234\nwandb: \n"
    report = stabdiag.diagnose(put(f"{summary}slurmstepd: error: Detected 1 oom-kill event(s)\n"))
    assert report.diagnosis.slug == "stall"
    assert [event.line for event in report.history.events if event.line] == [5]


@pytest.mark.parametrize(("bar", "rule"), [("│", "─"), ("┃", "━"), ("║", "═"), ("|", "-")])
@pytest.mark.parametrize("sets", [1, 2])
def test_a_frame_of_names_and_values_is_an_evaluation(diagnosed, bar, rule, sets):
    scores = [("val_f1", "0.731"), ("val_loss", "0.812")]
    cells = [(name, *(value for _ in range(sets))) for name, value in scores]
    rows = "".join(f"{bar} {f' {bar} '.join(row)} {bar}\n" for row in cells)
    text = f"- run 12: dropout - 0.4; lr = 5e-5\n{12 * rule}\n{rows}{12 * rule}\n"
    diagnosis = diagnosed(text)
    assert diagnosis.slug == "insufficient-data"
    assert "0.812" in diagnosis.summary


def test_a_frame_of_settings_is_no_evaluation(diagnosed):
    with pytest.raises(LogError):
        diagnosed("│ dropout │ 0.1 │\n│ accuracy_weight │ 0.5 │\n│ lr │ 0.01 │\n")


def test_the_only_round_of_boosting_has_its_count(diagnosed):
    text = "[150]\ttraining's multi_logloss: 0.4812\tvalid_1's multi_logloss: 0.5233\n"
    assert "1 loss at step 150" in diagnosed(text).summary


@pytest.mark.parametrize("title", ["Evaluating the {} set", "=== {} results ===", "{}:"])
def test_each_set_may_have_the_same_scores(diagnosed, title):
    text = "".join(
        f"{title.format(name)}\nMean rank: {rank}\nMRR: {value}\nHits@3: 0.125\n"
        for name, rank, value in [("valid", 41.5, 0.375), ("test", 43.5, 0.3125)]
    )
    diagnosis = diagnosed(text)
    assert diagnosis.slug == "insufficient-data"
    assert "'valid_MRR' was 0.375" in diagnosis.summary


@pytest.mark.parametrize("name", ["MSE", "loss"])
def test_a_loss_below_the_title_of_results_is_not_of_the_training(diagnosed, name):
    summary = diagnosed(f"Forecast results\n{name}: 0.00425\nMAE: 0.0315\nR2: 0.91\n").summary
    assert "eval" in summary
    assert "The loss" not in summary


@pytest.mark.parametrize(
    "text",
    [
        "# decoding finished\n%WER 11.25 [ 225 / 2000, 40 ins, 75 del, 110 sub ]\n"
        "%SER 40.5 [ 81 / 200 ]\n",
        "%WER 11.25 [ 225 / 2000, 40 ins, 75 del, 110 sub ] exp/a/dev_x/wer_9\n"
        "%WER 13.75 [ 275 / 2000, 60 ins, 85 del, 130 sub ] exp/a/dev_y/wer_9\n",
    ],
)
def test_an_error_rate_of_kaldi_is_an_evaluation(diagnosed, text):
    assert "'WER' was 11.25" in diagnosed(text).summary


def test_a_loss_with_the_name_of_its_set_keeps_it(diagnosed):
    bars = "Train: 100%|██████| 40/40 [01:10<00:00]\nValidation: 100%|██████| 5/5 [00:04<00:00]\n"
    summary = diagnosed(f"{bars}Train loss: 0.625, acc: 0.75\nVal loss: 0.875, acc: 0.5\n").summary
    assert "The loss was 0.625" in summary
    assert "the evaluation loss 0.875" in summary


@pytest.mark.parametrize("bars", [1, 5])
def test_the_bars_before_the_losses_of_an_epoch_are_left_out(diagnosed, bars):
    drawn = "".join(
        f"  train:  9{n}%|█████████▊| 9{n}/99 [00:4{n}<00:07,  1.42s/it]" for n in range(bars)
    )
    text = (
        f"{drawn}{' ' * 40}Train  loss=0.625  acc=0.75\n  Val    loss=0.875  acc=0.5\n"
        "  Saved best (val_acc=0.5)\n\nTraining done. Best val acc: 0.5\n"
    )
    summary = diagnosed(text).summary
    assert "The loss was 0.625" in summary
    assert "the evaluation loss 0.875" in summary


@pytest.mark.parametrize("rule", ["|---|---|", "+-----+-----+"])
def test_a_table_of_measures_is_an_evaluation(diagnosed, rule):
    rows = "| Accuracy | 0.71 |\n| F1 | **0.625** |\n| Recall | 66.5% |\n"
    summary = diagnosed(f"## Results\n\n| Metric | Value |\n{rule}\n{rows}").summary
    assert "accuracy was 0.71" in summary
    assert "'F1' 0.625" in summary


@pytest.mark.parametrize(
    "text",
    [
        f"Accuracy: 0.8974\nConfusion Matrix:\n[[199 11] [22 80]]\n{REPORT}\nBest Score: 0.91\n",
        "".join(REPORT.splitlines(keepends=True)[-3:]) + "batch_size = 8\nmax_len = 256\n",
        f"classification_report: {REPORT.lstrip()}\nrecall score: 0.9012\n",
    ],
)
def test_the_only_report_of_classes_counts_among_other_lines(diagnosed, text):
    assert "The accuracy was 0.9" in diagnosed(text).summary


def test_a_page_with_a_report_is_no_evaluation(diagnosed):
    text = f"# Churn\n\nThis repository trains a model.\n\n## Results\n```\n{REPORT}```\n## Usage\n"
    with pytest.raises(LogError):
        diagnosed(f"{text}Install the packages, and run the script.\n")
