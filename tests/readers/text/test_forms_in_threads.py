"""Forms of logs that people paste from less common programs."""

import pytest

import stabdiag
from stabdiag.errors import LogError


@pytest.fixture
def history(tmp_path):
    def read(text):
        (tmp_path / "run.txt").write_text(text)
        return stabdiag.read(tmp_path / "run.txt")

    return read


def points(series):
    return [*zip(series.steps.tolist(), series.values.tolist(), strict=True)]


@pytest.mark.parametrize("metric", ["rmspe", "rmsle", "mape", "rmse"])
@pytest.mark.parametrize("blank", ["\t", " "])
def test_boosting_reports_an_error_of_each_set(history, metric, blank):
    rows = [
        f"[{n}]{blank}train-{metric}:{1 / (n + 1):.4f}{blank}eval-{metric}:{1.5 / (n + 1):.4f}"
        for n in range(6)
    ]
    series = history("The output:\n" + "\n".join(rows)).series
    assert points(series["loss"])[:2] == [(0, 1.0), (1, 0.5)]
    assert points(series["eval_loss"])[:2] == [(0, 1.5), (1, 0.75)]


def test_a_blank_after_a_bracket_follows_a_rank_before_other_names(history):
    rows = [f"[{n % 2}] step {n // 2} loss: {2 - n / 10:.2f}" for n in range(12)]
    assert [step for step, _ in points(history("\n".join(rows)).series["loss"])] == [*range(6)]


def test_boosting_in_r_prints_each_line_as_a_text(history):
    warning = "[LightGBM] [Warning] No further splits with positive gain, best gain: -inf\n"
    rows = [
        f"{warning}[1] \"[{n}]:  train's auc:{n / 100}  test's auc:0.45\"\n" for n in range(85, 89)
    ]
    series = history("".join(rows)).series
    assert points(series["score/train's auc"])[0] == (85, 0.85)
    assert points(series["score/test's auc"])[-1] == (88, 0.45)


def test_two_lines_of_one_score_are_not_a_log(history):
    with pytest.raises(LogError):
        history("[1]:  test's auc:0.45\n[2]:  test's auc:0.47\n")


def test_the_accuracy_of_an_evaluation_is_read_in_a_log_of_scores(history):
    rows = []
    for epoch in (3, 4):
        rows += [
            f"Epoch[{epoch}] Batch [{n}]\tSpeed: 580.5 samples/sec\taccuracy=0.9{n}"
            for n in (2, 4, 6)
        ]
        rows += [f"Epoch[{epoch}] Validation-accuracy=0.80{epoch}"]
    series = history("\n".join(rows)).series
    assert series["eval_accuracy"].values.tolist() == [0.803, 0.804]


def test_the_second_of_two_full_bars_is_an_evaluation(history):
    epochs = [
        f"Epoch: {n} | LR: 0.00025000\n"
        f"Processing |####| (3708/3708) ETA: 0:00:01 | Loss: 0.{30 - n} | Acc:  0.84\n"
        f"Processing |####| (493/493) ETA: 0:00:01 | Loss: 0.{40 - n} | Acc:  0.83\n"
        for n in range(4, 8)
    ]
    series = history("\n".join(epochs)).series
    assert points(series["loss"]) == [(4, 0.26), (5, 0.25), (6, 0.24), (7, 0.23)]
    assert points(series["eval_loss"])[0] == (4, 0.36)


def test_darknet_prints_nan_for_a_layer_without_an_object(history):
    layers = (
        "Region 23 Avg IOU: -nan, Class: -nan, Obj: -nan, No Obj: 0.55, .5R: -nan, count: 0\n"
        "Region 16 Avg IOU: 0.48, Class: 0.58, Obj: 0.33, No Obj: 0.48, .5R: 0.37, count: 8\n"
    )
    batch = "\n 24: 232.563187, 298.240204 avg loss, 0.000000 rate, 0.903927 seconds, 1536 images\n"
    series = history(6 * layers + batch + layers).series
    assert points(series["loss"]) == [(24, 232.563187)]


def test_gaussian_splatting_reports_its_evaluations(history):
    text = (
        "Training progress:  44%|####8     | 22000/50000 [09:23<08:34, 54.45it/s, Loss=0.01003]\n"
        "[ITER 22000] Evaluating test: L1 0.0066 PSNR 34.69 [26/11 18:13:40]\n\n"
        "[ITER 22000] Evaluating train: L1 0.0067 PSNR 35.03 [26/11 18:13:43]\n"
        "Training progress:  48%|####9     | 24000/50000 [10:18<11:08, 38.92it/s, Loss=0.01359]\n"
        "[ITER 24000] Evaluating test: L1 0.0065 PSNR 34.99 [26/11 18:14:36]\n"
    )
    series = history(text).series
    assert points(series["loss"]) == [(22000, 0.01003), (24000, 0.01359)]
    assert points(series["eval_loss"]) == [(22000, 0.0066), (24000, 0.0065)]


def test_heads_of_a_detector_have_losses_below_the_iteration(history):
    block = (
        "2023-07-09 21:27:20,877 - INFO - Epoch [1/20][{n}/15448]\tlr: 0.00010, eta: 23 days\n"
        "2023-07-09 21:27:20,878 - INFO - task : ['car'], loss: {car}, hm_loss: 5.7041\n"
        "2023-07-09 21:27:20,878 - INFO - task : ['truck', 'bus'], loss: 14.0, hm_loss: 9.6\n"
    )
    text = "\n".join(block.format(n=n, car=14 - n / 10) for n in (10, 20, 30))
    series = history(text).series
    assert series["loss"].steps.tolist() == [10, 20, 30]
    assert series["loss"].values[0] - series["loss"].values[-1] == pytest.approx(2.0)


def test_the_only_head_of_a_detector_has_the_loss(history):
    block = (
        "2023-07-09 21:27:20,877 - INFO - Epoch [2/20][{n}/900]\tlr: 0.00010, eta: 23 days, \n"
        "2023-07-09 21:27:20,878 - INFO - task : ['car', 'bus'], loss: {loss}, hm_loss: 5.5\n"
    )
    text = "\n".join(block.format(n=n, loss=14 - n / 10) for n in (10, 20, 30))
    assert points(history(text).series["loss"]) == [(10, 13.0), (20, 12.0), (30, 11.0)]


def test_the_first_iteration_may_be_cut_off_above_its_heading(history):
    block = "Mean value loss: {0}\nMean surrogate loss: -0.0013\nMean reward: -4.1\n"
    heading = "\n                  Learning iteration 41/100                  \n\n"
    series = history(block.format(19.7) + heading + block.format(19.6)).series
    assert points(series["loss"])[-1] == (41, 19.6)


def test_a_cut_last_line_is_not_an_evaluation(history):
    rows = [
        f"| epoch 01{epoch}  {n}000 / 8223 loss={2 - n / 10}, wps=962, lr=0.001, gnorm=2.1"
        for epoch in (0, 1)
        for n in range(1, 5)
    ]
    series = history("\n".join([*rows, "| epoch 011  5000 / 8223 loss=1.18 (1.33),"])).series
    assert "eval_loss" not in series
    assert series["loss"].values[-1] == 1.18


@pytest.mark.parametrize("name", ["Validation accuracy", "Test Accuracy", "val acc", "Dev F1"])
def test_scores_below_a_loss_belong_to_its_epoch(history, name):
    rows = [f"Epoch {n} loss {2 / n:.3f}\n{name}: 0.{50 + n}\n" for n in range(1, 6)]
    series = history("".join(rows)).series
    scores = [data for role, data in series.items() if role not in ("loss", "epoch", "step")]
    assert [points(data) for data in scores] == [[(n, 0.5 + n / 100) for n in range(1, 6)]]


@pytest.mark.parametrize(
    "line",
    ["Best validation accuracy: 0.9", "Best Valid accuracy: 77.00%", "Training accuracy: 0.9"],
)
def test_best_and_training_scores_below_a_loss_are_not_evaluations(history, line):
    rows = [f"Epoch {n} loss {2 / n:.3f}\n{line}\n" for n in range(1, 6)]
    assert "eval_accuracy" not in history("".join(rows)).series


def test_flair_prints_scores_without_a_sign(history):
    rows = [
        f"epoch {n} - iter 100/100 - loss {2 / n:.3f}\nEPOCH {n}: lr 0.1000 - bad epochs 0\n"
        f"DEV : f-score 0.{n} - acc 0.5 - tp 0\n"
        for n in range(1, 6)
    ]
    series = history("".join(rows)).series
    assert series["score/val f-score"].values.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert series["lr"].steps.tolist() == [1, 2, 3, 4, 5]


def test_keras_rl_reports_the_reward_of_an_episode_and_of_a_step(history):
    rows = [
        f"  {100 * n}/5000: episode: {n}, duration: 0.9s, steps per second: 194,"
        f" episode reward: {n}.0, mean reward: 1.000 [1.000, 1.000], loss: {9 / n:.3f}\n"
        for n in range(1, 6)
    ]
    assert history("".join(rows)).series["reward"].values.tolist() == [1, 2, 3, 4, 5]


def test_a_sentence_is_not_the_heading_of_lines_with_as_many_words(history):
    rows = [
        f"- Episode {n} Frame 199 Samples: 10 Terminal: {n} Reward: {n % 3} Epsilon: 0.05\n"
        for n in range(11, 17)
    ]
    series = history("Here are a few of the episodes of a run that I had\n" + "".join(rows)).series
    assert series["reward"].values.tolist() == [2, 0, 1, 2, 0, 1]


def test_rows_of_deepxde_need_no_heading(history):
    rows = [
        f"{n}000     [8.3e-04, {n}e-05]    [4.6e-04, 7.4e-03]    [1.0e-02]    \n" for n in (1, 2, 3)
    ]
    history = history("".join(rows))
    assert history.series["loss"].steps.tolist() == [1000, 2000, 3000]
    assert history.series["loss"].values.tolist() == pytest.approx([8.4e-4, 8.5e-4, 8.6e-4])


def test_pairs_of_a_round_and_a_loss_are_a_list_of_losses(history):
    text = (
        "INFO flower | app_fit: losses_distributed []\n"
        "INFO flower | app_fit: losses_centralized [(0, 2.31), (1, 2.28), (2, 2.24)]\n"
        "INFO flower | app_fit: metrics_centralized {'accuracy': [(0, 0.1), (1, 0.12), (2, 0.2)]}\n"
    )
    series = history(text).series
    assert series["loss"].values.tolist() == [2.31, 2.28, 2.24]
    assert series["accuracy"].values.tolist() == [0.1, 0.12, 0.2]


def test_a_loss_of_zero_on_each_line_needs_no_counter(history):
    assert history(4 * "Model loss: 0.0\n").series["loss"].values.tolist() == 4 * [0.0]


@pytest.mark.parametrize("text", [2 * "Model loss: 0.0\n", 4 * "Model loss: 0.5\n"])
def test_other_repeated_values_are_not_a_log(history, text):
    with pytest.raises(LogError):
        history(text)


def test_two_records_with_many_values_need_no_counter(history):
    line = "epoch: 4 | lr: 1.6 | loss: {0} | train-TER: 50.6 | train-WER: 55.1 | val-loss: 6.1\n"
    assert history(line.format(3.3) + line.format(3.2)).series["loss"].values.tolist() == [3.3, 3.2]


def test_a_position_within_an_epoch_does_not_plan_the_run(history):
    rows = [f"Epoch 1/3 | batch {n}/600 | loss {2 - n / 600}\n" for n in range(100, 700, 100)]
    assert "total_steps" not in history("".join(rows)).config


def test_paddle_prints_the_cost_of_all_batches_so_far(history):
    rows = [f"x.cpp:165]  Batch={n}000 AvgCost={9 / n:.3f} CurrentCost=1.0\n" for n in range(1, 6)]
    assert points(history("".join(rows)).series["loss"])[:2] == [(1000, 9.0), (2000, 4.5)]


def test_a_nan_of_the_first_catboost_is_seen(history):
    rows = [f"{n}:      learn {0.7 - n / 50:.10f}passed: 17 sec      total: 3m\n" for n in range(9)]
    rows += [f"{n}:\tlearn nan\tpassed: 17 sec\ttotal: 3m\n" for n in range(9, 12)]
    series = history("".join(rows)).series["loss"]
    assert [step for step, value in points(series) if value != value] == [9, 10, 11]


def test_a_value_loss_next_to_a_few_rewards_is_no_policy_loss(tmp_path):
    rows = [
        f"{{'objective/kl': {6 + n}.8, 'objective/rlhf_reward': {2 - n / 10}, 'loss/policy_avg':"
        f" -0.003, 'loss/value_avg': {0.35 - n / 100}, 'lr': 9e-06, 'epoch': 0.{n}}}\n"
        for n in range(1, 4)
    ]
    (tmp_path / "run.txt").write_text("".join(rows))
    summary = stabdiag.diagnose(tmp_path / "run.txt").diagnosis.summary
    assert "'loss/value_avg' is the loss of a value function" in summary


@pytest.mark.parametrize("unit", ["samples/sec", "img/s", "tokens/second"])
def test_the_unit_of_a_speed_does_not_begin_the_next_name(history, unit):
    rows = [f"Batch [{n}0] Speed: {500 + n}.5 {unit} accuracy={n / 20}\n" for n in range(1, 9)]
    assert points(history("".join(rows)).series["accuracy"])[0] == (10, 0.05)


def test_batches_of_scores_that_restart_are_continued(history):
    rows = [
        f"Batch [{n}0] Speed: 500.5 samples/sec Train-accuracy={(10 * epoch + n) / 40}\n"
        for epoch in range(2)
        for n in range(1, 10)
    ]
    values = [value for _, value in points(history("".join(rows)).series["accuracy"])]
    assert values == sorted(values)
    assert len(values) == 18


def test_one_batch_of_each_epoch_is_no_loss(history):
    rows = [
        f"Epoch[{epoch}] Batch [500]\tSpeed: 5{epoch}.5 samples/sec\taccuracy=0.{epoch + 3}\n"
        f"Epoch[{epoch}] Validation-accuracy=0.{epoch + 4}1\n"
        for epoch in range(5)
    ]
    run = history("".join(rows))
    assert [value for _, value in points(run.series["accuracy"])] == [0.3, 0.4, 0.5, 0.6, 0.7]
    assert len(run.series["eval_accuracy"]) == 5


VOWPAL_WABBIT = """\
average  since    example  example  current  current  current
loss     last     counter  weight   label    predict  features
"""


@pytest.mark.parametrize("above", ["Reading datafile = x\n", "power_t = 0.5\nReading x\n" * 4])
def test_the_names_of_columns_may_be_on_two_lines(history, above):
    rows = [f"{2 / n:.4f}   {1 / n:.4f}   {n}   {n}.0   1.0   0.5   7\n" for n in (1, 2, 4, 8)]
    series = history(above + VOWPAL_WABBIT + "".join(rows)).series["loss"]
    assert points(series) == [(1, 2.0), (2, 1.0), (4, 0.5), (8, 0.25)]


@pytest.mark.parametrize("line", ["**avg loss in epoch = nan", "the mean train loss: NaN **"])
def test_a_line_that_ends_with_a_lost_loss_is_read(tmp_path, line):
    (tmp_path / "run.txt").write_text(f"I get this output:\nIter: 2\n{line}\nI don't know why.\n")
    assert stabdiag.diagnose(tmp_path / "run.txt").diagnosis.slug == "nan-dtype-unknown"


def test_a_sentence_about_a_lost_loss_is_not_a_log(history):
    with pytest.raises(LogError):
        history("What should I do if the mean loss is nan after an hour of training?\n")


def test_the_first_iteration_may_be_in_the_middle_of_an_epoch(tmp_path):
    rows = [f"INFO - Score at iteration {n} is NaN\n" for n in (60, 80, 0, 20, 40)]
    (tmp_path / "run.txt").write_text("".join(rows))
    assert stabdiag.diagnose(tmp_path / "run.txt").diagnosis.slug == "nan-dtype-unknown"


def test_a_single_score_of_deeplearning4j_that_is_lost_is_read(tmp_path):
    text = "Score at iteration 1 is NaN\nBackTrackLineSearch - Scaling back step size...\n"
    (tmp_path / "run.txt").write_text(text)
    assert stabdiag.diagnose(tmp_path / "run.txt").diagnosis.slug == "nan-dtype-unknown"


def test_a_dash_may_follow_the_epoch_of_a_loss(history):
    rows = [f"Training loss at epoch {n} - {2 / (n + 1):.3f}\n" for n in range(4)]
    assert [value for _, value in points(history("".join(rows)).series["loss"])][:2] == [2.0, 1.0]


BOOSTED = [0, 10, 20, 30, 34]


@pytest.mark.parametrize("metric", ["auc", "rmse"])
@pytest.mark.parametrize(
    "stop", ["Stopping. Best iteration:", "Early stopping, best iteration is:"]
)
def test_the_best_line_of_boosting_that_stops_early_is_no_resume(history, metric, stop):
    rows = [f"[{n}]\ttrain-{metric}:0.8{n}\tvalid-{metric}:0.7{n}\n" for n in BOOSTED]
    rows += [f"{stop}\n", f"[29]\ttrain-{metric}:0.81\tvalid-{metric}:0.71\n"]
    log = history("".join(rows))
    series = log.series["loss" if metric == "rmse" else f"score/train-{metric}"]
    assert [step for step, _ in points(series)] == BOOSTED
    assert log.resumes == []


def test_numbers_in_brackets_that_rise_unevenly_are_not_a_counter(history):
    with pytest.raises(LogError):
        history("".join(f"[{n}]\ttest-auc:0.7{n}\n" for n in (1, 5, 7, 20, 30)))


@pytest.mark.parametrize(
    "line", ["[{n}]\tvalid-auc:{score}", "[Info] Iteration:{n}, valid_1 auc : {score}"]
)
def test_three_scores_make_a_log_if_their_counter_begins_at_the_start(history, line):
    lines = (line.format(n=n, score=0.7 + n / 50) for n in (1, 2, 3))
    log = history("".join(f"{text}\n[Info] 3 roots, max_depth=7\n" for text in lines))
    (score,) = (series for name, series in log.series.items() if name.startswith("score/"))
    assert [step for step, _ in points(score)] == [1, 2, 3]


def test_three_scores_are_read_if_their_counter_begins_later(history):
    text = "".join(f"[{n}]\tvalid-auc:{0.7 + n / 50}\n" for n in (5, 6, 7))
    assert history(text).series["score/valid-auc"].steps.tolist() == [5, 6, 7]


def test_progress_of_fasttext_may_share_a_line(history):
    rows = [
        f"Progress: {10 * n:5.1f}% words/sec/thread: 35323 lr: 0.0{9 - n} loss: {3 - n / 5:.3f} "
        "ETA: 0h 1m"
        for n in range(1, 9)
    ]
    assert len(history("".join(rows)).series["loss"]) == 8


def test_a_reward_without_a_sign_is_read(history):
    rows = [
        f"Time 00h {n}m 08s, Avg Reward {n / 8:.3f}, Avg Accuracy 0.{n}6, Best Reward 0.1\n"
        for n in range(1, 9)
    ]
    values = [value for _, value in points(history("".join(rows)).series["reward"])]
    assert values == [n / 8 for n in range(1, 9)]


def test_a_sentence_about_rewards_is_not_a_log(history):
    with pytest.raises(LogError):
        history("".join(f"In game {n} it gets the reward {n}.5 for each step\n" for n in (1, 2)))


def test_a_heading_of_pointnet_announces_the_evaluation_of_its_epoch(history):
    losses = [(2.8, 2.6), (1.9, 12.1), (1.7, 22.0)]
    text = "".join(
        f"**** EPOCH {n:03d} ****\nmean loss: {loss}\n"
        f"---- EPOCH {n:03d} EVALUATION ----\nmean loss: {evaluated}\n"
        for n, (loss, evaluated) in enumerate(losses)
    )
    series = history(text).series
    assert series["loss"].values.tolist() == [loss for loss, _ in losses]
    assert series["eval_loss"].values.tolist() == [evaluated for _, evaluated in losses]


def test_a_lost_part_below_a_lost_loss_is_no_further_loss(history):
    rows = [(20 * n, 0.6 if n < 3 else "nan") for n in range(6)]
    text = "".join(
        f"iter: {step} / 70000, total loss: {loss}\n >>> rpn_loss_cls: 0.222\n"
        f" >>> rpn_loss_box: {loss}\n >>> lr: 0.001000\nspeed: 0.167s / iter\n"
        for step, loss in rows
    )
    assert history(text).series["loss"].steps.tolist() == [step for step, _ in rows]


def test_a_lost_part_below_a_finite_loss_is_reported(history):
    text = "".join(f"iter: {20 * n}, total loss: 0.6\n" for n in range(6))
    losses = history(f"{text} >>> rpn_loss_box: nan\n").series["loss"]
    assert losses.values[-1] != losses.values[-1]


def test_randla_net_prints_the_loss_of_its_output(history):
    rows = [
        f"Step {50 * n:08d} L_out={2 / n:.3f} Acc=0.31 ---   54.71 ms/batch" for n in range(1, 5)
    ]
    text = "****EPOCH 7****\n" + "\n".join(
        [*rows, "Step 00000250 L_out=  nan Acc=0.00 --- 54.7 ms/batch"]
    )
    assert history(text).series["loss"].steps.tolist() == [50, 100, 150, 200, 250]


def test_fastreid_prints_the_epoch_and_the_iteration_with_a_slash(history):
    row = "[11/06 21:51:09 fastreid]:  eta: 7:25:44  epoch/iter: {}/{}  total_loss: {}  time: 0.24"
    text = "\n".join(row.format(n // 2, 200 * n - 1, 9 - n) for n in range(1, 6))
    assert history(text).series["loss"].steps.tolist() == [199, 399, 599, 799, 999]


def test_two_loggers_of_object_detection_print_each_record(history):
    losses = "{{'Loss/box': 0.7,\n 'Loss/total_loss': {1},\n 'learning_rate': 0.03}}\n"
    glog = "I0612 13:11:12.110213 140120 model_lib_v2.py:7{2}] "
    steps = "Step {0} per-step time 0.512s\n"
    form = f"INFO:tensorflow:{steps}{glog}{steps}INFO:tensorflow:{losses}{glog}{losses}"
    text = form.format(100, 1.75, "00") + form.format(200, "nan", "01")
    loss = history(text).series["loss"]
    assert loss.steps.tolist() == [100, 200]
    assert str(loss.values.tolist()) == "[1.75, nan]"


@pytest.mark.parametrize("loggers", [("INFO:tensorflow:",), ("INFO:tensorflow:", "I0612 m.py:9] ")])
def test_evaluations_of_object_detection_have_a_line_for_each_value(history, loggers):
    values = ("Eval metrics at step {}", "\t+ Det_Boxes/mAP: 0.0", "\t+ Loss/total_loss: {}")
    form = "".join(f"{logger}{value}\n" for value in values for logger in loggers)
    rows = [(1000, 1.75), (2000, 1.5), (3000, "nan")]
    text = "".join(form.format(*[step] * len(loggers), *[v] * len(loggers)) for step, v in rows)
    series = history(text).series
    assert series["loss"].steps.tolist() == [1000, 2000, 3000]
    assert str(series["loss"].values.tolist()) == "[1.75, 1.5, nan]"
    assert series["score/val_mAP"].values.tolist() == [0, 0, 0]


@pytest.mark.parametrize("last", [0.31, float("nan")])
def test_a_list_of_names_and_losses_below_an_episode(history, last):
    form = (
        "outdir:results step:{0} episode:{1} R:{2}\n"
        "statistics:[('average_q', {2}), ('average_loss', {3}), ('n_updates', {0})]\n"
    )
    losses = [1.5, 1.1, 0.8, last]
    text = "".join(form.format(200 * n, n, 5.0 + n, loss) for n, loss in enumerate(losses))
    series = history(text).series
    assert series["loss"].steps.tolist() == [0, 200, 400, 600]
    assert str(series["loss"].values.tolist()) == str(losses)
    assert series["reward"].values.tolist() == [5.0, 6.0, 7.0, 8.0]


@pytest.mark.parametrize(
    ("batches", "slug"),
    [
        ("nan\n", "partly-read"),
        ("NaN\r\n" * 3, "partly-read"),
        ("    nan\n" * 8, "partly-read"),
        ("", "insufficient-data"),
        ("nanny\nno nan here\n", "insufficient-data"),
    ],
)
def test_lines_that_are_only_nan_are_left_out(tmp_path, batches, slug):
    block = "--- epoch {n} ---\n{batches}train/loss     : {loss}\neval/loss      : {loss}\n"
    path = tmp_path / "train.log"
    path.write_text("".join(block.format(n=n, batches=batches, loss=9 / n) for n in (1, 2, 3)))
    assert stabdiag.diagnose(path).diagnosis.slug == slug


def test_scores_of_two_sets_on_lines_of_their_own(history):
    text = "".join(
        f"2016-01-0{n} Node[0] Update[{n}8956]: Change learning rate to 5.9e-03\n"
        f"2016-01-0{n} Node[0] Epoch[{n}] Train-accuracy=0.5{n}\n"
        f"2016-01-0{n} Node[0] Epoch[{n}] Time cost=20670.702\n"
        f"2016-01-0{n} Node[0] Epoch[{n}] Validation-accuracy=0.4{n}\n"
        for n in (4, 5, 6)
    )
    series = history(text).series
    assert series["accuracy"].values.tolist() == [0.54, 0.55, 0.56]
    assert series["eval_accuracy"].values.tolist() == [0.44, 0.45, 0.46]


def test_a_sentence_above_two_epochs_may_name_one_of_them(history):
    epoch = "2020-06-19: \nepoch:  {n} \n2020-06-19: train loss : {a} \n2020-06-19: lr: 0.009 \n"
    text = "Around Epoch 100\n" + epoch.format(n=99, a=-0.25) + epoch.format(n=100, a=-0.375)
    assert points(history(text).series["loss"]) == [(99, -0.25), (100, -0.375)]


@pytest.mark.parametrize("name", ["RSE", "RAE", "RRSE", "NRMSE"])
def test_relative_errors_are_losses(history, name):
    rows = [f"Epoch {n}, Training {{'{name}': {2 / n}, 'CORR': 0.5}}" for n in range(1, 7)]
    assert points(history("\n".join(rows)).series["loss"])[-1] == (6, 2 / 6)


def test_the_name_of_a_loss_is_above_its_value(history):
    rows = [f"EPOCH:  {n}\ncurrent training loss is :\n{2 / n}\n-*--*-" for n in range(3, 9)]
    assert points(history("\n".join(rows)).series["loss"])[0] == (3, 2 / 3)


@pytest.mark.parametrize("epoch", [2, 7])
def test_an_excerpt_has_one_heading_of_an_epoch(history, epoch):
    above = [f"batch {n} with 32 sentences loss {5 - n / 100}" for n in range(50, 350, 50)]
    below = [f"batch {n} with 32 sentences loss {4 - n / 100}" for n in range(0, 200, 50)]
    run = history("\n".join([*above, f"Epoch:  {epoch}", *below]))
    assert len(run.series["loss"].steps) == len(above) + len(below)


def test_the_first_epoch_begins_a_run(history):
    above = [f"batch {n} with 32 sentences loss {5 - n / 100}" for n in range(50, 350, 50)]
    below = [f"batch {n} with 32 sentences loss {6 - n / 100}" for n in range(0, 200, 50)]
    run = history("\n".join([*above, "Epoch:  1", *below]))
    assert len(run.series["loss"].steps) == len(below)


ROUND = """
>> ROUND {n}
> pre-client selection 10/100
> Client Training: [===================>] 100% (10/10) Loss {loss} Acc 0.1935
> 10 Clients Training: Loss {loss} Acc 0.2345
> Client Testing: [===================>] 100% (100/100) Loss {loss} Acc 0.0000
> ALL Clients Testing: Loss {loss} Acc 0.0715
"""


@pytest.mark.parametrize("rounds", [2, 6, 200])
def test_a_log_without_any_finite_loss_failed(tmp_path, rounds):
    path = tmp_path / "run.log"
    path.write_text("".join(ROUND.format(n=n, loss="nan") for n in range(rounds)))
    assert stabdiag.diagnose(path).diagnosis.slug.startswith("nan-")


def test_sentences_about_nan_losses_are_no_log(history):
    advice = "If you see that the train loss is nan, or Loss nan in your own log, lower the rate.\n"
    with pytest.raises(LogError):
        history(advice * 80)


def test_speechbrain_prints_the_negative_ratio_as_its_loss(history):
    row = "epoch: {n}, lr: 1.50e-04 - train si-snr: {a:.2e} - valid si-snr: {b:.2e}"
    rows = [row.format(n=n, a=2 - n, b=1.5 - n) for n in range(1, 9)]
    series = history("\n".join(rows)).series
    assert points(series["loss"])[-1] == (8, -6)
    assert points(series["eval_loss"])[-1] == (8, -6.5)


def test_titles_with_nan_losses_are_no_log(history):
    titles = [f"{n} issues: {w}_net training {w}_loss nan\n" for n, w in enumerate("abcdefghijk")]
    with pytest.raises(LogError):
        history("".join(titles) + "questions about many other things\n" * 200)


HEADINGS = (
    "Training: epoch 3[{n}/20254], lr: [0.0001]\n\tmax_ht: 1.5\n\theatmap_loss: {loss}",
    "Epoch: [3][{n}/2000]\nloss {loss}\nacc 0.5",
    "Train Epoch: 3 [{n}/2000 (5%)]\nloss: {loss}",
    "Epoch [3/10], [{n}/2000]\n  total loss: {loss}\n  lr: 0.1",
)


@pytest.mark.parametrize("form", HEADINGS)
def test_a_heading_has_the_position_of_the_values_below_it(history, form):
    text = "\n".join(form.format(n=n * 50, loss=2 / n) for n in range(2, 9))
    assert points(history(text).series["loss"])[-1] == (400, 0.25)


def test_a_position_on_the_line_of_its_loss_stays_one(history):
    rows = [f"Epoch: [3][{n * 50}/2000] loss {2 / n}" for n in range(2, 9)]
    assert points(history("\n".join(rows)).series["loss"])[-1] == (400, 0.25)


@pytest.mark.parametrize("end", ["", ", 12.5)", ", 12.", ")"])
def test_the_last_round_of_a_federated_training_is_cut(tmp_path, end):
    log = tmp_path / "run.log"
    log.write_text(
        "".join(
            f"INFO flower | fit progress: ({n}, {3 - n}.5, {{'f1': 0.{n}}}, 9)\n" for n in (1, 2)
        )
        + "INFO flower | fit progress: (3, 0.25, {'f1': 0.8}"
        + end
    )
    series = stabdiag.diagnose(log).history.series
    assert series["loss"].values.tolist() == [2.5, 1.5, 0.25]


@pytest.mark.parametrize("metrics", ["{'accuracy': 0.5}, ", "{'accuracy': 0.5, 'auc': 0.7}, ", ""])
@pytest.mark.parametrize("last", ["2.14", "nan"])
def test_the_rounds_of_a_federated_training(tmp_path, metrics, last):
    losses = ["2.5", "2.31", "2.28", last]
    rows = [
        "INFO :      initial parameters (loss, other metrics): 2.5, {'accuracy': 0.1}\n",
        *(
            f"INFO :      [ROUND {n}]\nINFO :      aggregate_fit: received 10 results\n"
            f"INFO :      fit progress: ({n}, {loss}, {metrics}{12.5 * n})\n"
            for n, loss in enumerate(losses[1:], start=1)
        ),
    ]
    log = tmp_path / "run.log"
    log.write_text("".join(rows))
    report = stabdiag.diagnose(log)
    series = report.history.series["loss"]
    assert series.steps.tolist() == [0, 1, 2, 3]
    assert series.values[:3].tolist() == [2.5, 2.31, 2.28]
    assert (report.diagnosis.slug == "nan-dtype-unknown") == (last == "nan")
