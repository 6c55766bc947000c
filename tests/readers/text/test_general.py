"""Logs of names and values that no framework's grammar knows."""

import pytest

import stabdiag
from stabdiag.errors import NoUsableRecord
from stabdiag.readers.text.grammars.general import sniff
from tests.readers.text.printed import log

FALLING = [4 - n / 100 for n in range(1, 61)]
TIME = "2026-01-05 10:00:00,123"
# A line, or two, of each step, and the column of the loss in it.
LINES = [
    ("Step {n} | loss: {loss} | lr: 1e-4", "loss"),
    ("step={n} loss={loss:.4f} lr=1e-4", "loss"),
    (f"{TIME} INFO train: global_step: {{n}}, loss: {{loss}}, grad_norm: 1.5", "loss"),
    ("[{n}/100] iteration {n}: loss {loss}", "loss"),
    ("Iter: {n:06d}  Loss: {loss:.3e}  time: 00:12:13", "Loss"),
    ("epoch 1 iter {n} loss = {loss}", "loss"),
    ("INFO: 'step': {n}, 'train_loss': {loss}, 'eta': 0:12:13", "train_loss"),
    ("update {n:>8}; total loss: {loss}; acc: 0.5", "total loss"),
    ("iter: {n}, lr: 0.01, 'loss_cls': '0.5', 'loss': '{loss:.6f}', eta: 1:02:03", "loss"),
    ("> step: {n}, loss: {loss}", "loss"),
    ("[Fold 1 Ep {n:03d}] tr_loss={loss:.4f} tr_auc=0.49", "tr_loss"),
    ("E5 it[ 9/ 10] | [Loss] {loss:.4f} | [step]   {n} | [time] 0.4m", "Loss"),
    ("mini-batch {n}: avg. loss: {loss}", "avg. loss"),
    ("STEP {n} LOSS {loss:.4f} LR 0.001", "LOSS"),
    ("EPOCH: {n} TRAIN_LOSS: {loss:.4f} VAL_LOSS: 4.5", "TRAIN_LOSS"),
    ("--- epoch {n} ---\ntrain/loss     : {loss:.4f}\ntrain/ctc      : 1.5", "train/loss"),
    ("step {n}, policy=3.17 mse=0.1747 reg=0.37326 total={loss:.4f} (4083.19 pos/s)", "loss"),
    ("step {n}, lr=0.02 P=3.1 V=0.9 Reg=0.1 Total={loss:.4f} V MSE=0.3 (2000.1 pos/s)", "loss"),
    ("epoch: 4 | nupdates: {n} | lr: 0.1 | loss: {loss:.5f} | train-TER: 50.68", "loss"),
    ("{n} loss: {loss}", "loss"),
    ("{n}\tloss {loss:.4f}\tacc 0.3", "loss"),
    ("{n}: loss={loss:.4f}", "loss"),
    ("[{n}] loss: {loss:.4f}", "loss"),
    ("3 {n} Loss={loss:.3f} Time=0.040", "Loss"),
    ("[{n}]\ttrain-rmse:{loss:.5f}\teval-rmse:4.50000", "train-loss"),
    ("[{n}]\tvalid_0's l2: {loss:.4f}", "valid_0's loss"),
    ("\x1b[32mbatch {n}\x1b[0m loss \x1b[1m{loss:.4f}\x1b[0m", "loss"),
    ("iter: {n} total_grad_norm: N/A total_loss: {loss} (3.5)", "total_loss"),
    ("iter: {n} grad_norm: None loss: {loss}", "loss"),
    ("Training epoch {n}: Mean training loss: {loss}.  Mean: 91.75%.", "Mean training loss"),
    ("[Iteration {n}] Throughput is 408.4 records/second. Loss is {loss}.", "Loss"),
    ("epoch {n} loss tensor({loss}, device='cuda:0', grad_fn=<MulBackward0>)", "loss"),
    ("epoch {n} loss: tensor([{loss}], device='cuda:0')", "loss"),
    ("[epoch]: 1, [batch]: {n}, [loss]: {loss}", "loss"),
    ("[{n}]:   training's binary_logloss: {loss}", "training's binary_logloss"),
    ("epoch 010  {n} / 8223 loss={loss} (1.50), wps=962, wpb=908", "loss"),
    ("Epoch\uff1a{n}\uff0cLoss\uff1a{loss}\uff08train\uff09", "Loss"),
    ("Epoch {n} | lr=6.88E-02 | ce={loss} | ppl=1.1", "loss"),
    ("Loss at step {n}: {loss}", "Loss"),
    ("Loss at epoch 1 and step {n} is {loss}", "Loss"),
    ("Training loss in epoch 1, step {n} = {loss}", "Training loss"),
    ("Average loss at step  {n} :  {loss}", "Average loss"),
    ("Training loss (for one batch) at step {n}: {loss}", "Training loss"),
    ("mean loss after epoch {n}/60 = {loss}", "mean loss"),
    ("Steps : {n}, Gen Loss Total : {loss}, Mel-Spec. Error : 0.5, s/b : 0.3", "Gen Loss Total"),
    ("{n} [D loss: {loss}, acc.: 62.50%] [G loss: 0.9]", "D loss"),
    ("Iteration: {n}, Generator Loss : 9.5, Discriminator Loss : {loss}", "Discriminator Loss"),
    ("INFO Step {n} G Loss: 9.5 | D Loss: {loss}", "D Loss"),
    ("Epoch [0/5] Batch {n}/600 Loss D: {loss}, loss G: 9.5", "Loss D"),
    ("[Epoch 0/5] [Batch {n}/600] [D loss: {loss}] [G loss: 9.5]", "D loss"),
    (
        "[Epoch 0/30, Batch {n}/73] [Losses: x 0.27, conf 4.3, total {loss}, recall: 0.1]",
        "total loss",
    ),
    ("Epoch {n} is done, loss: {loss}.", "loss"),
    ("Epoch: {n}/60.. Training Loss: {loss}.. Test Loss: 2.5.. ", "Training Loss"),
    ("Step {n}/100; acc:  58.42; ppl:  7.46; xent: {loss}; lr: 0.00030", "loss"),
    ("epoch {n} avg_cost = {loss}", "avg_loss"),
    ("[Epoch 0][Batch {n}], Speed: 2.3 samples/sec, CrossEntropy={loss}", "loss"),
    ("iter {n} Train MSE: {loss}", "Train loss"),
    ("update {n} nll {loss}", "loss"),
    ("Cost after iteration {n}: {loss}", "loss"),
    (
        "[INFO:s.training] Epoch[0] Batch [{n}]\tSpeed: 9.1 samples/sec\tperplexity={loss}",
        "perplexity_loss",
    ),
    (
        "07:08:09.1 [main] INFO o.d.ScoreIterationListener - Score at iteration {n} is {loss}",
        "loss",
    ),
    ("Epoch {n} ELBO: {loss}", "loss"),
    ("[{n}]\ttrain-logloss:{loss}\teval-logloss:2.5", "train-logloss"),
    ("[{n}]\tvalid_0's logloss: 2.5\ttraining's logloss: {loss}", "training's logloss"),
    ("轮次 {n}/60 - 训练损失: {loss}, 验证损失: 4.5, 学习率: 0.1", "train loss"),
    ("第{n}轮训练\uff0c平均损失\uff1a{loss}\uff0c准确率\uff1a0.5", "loss"),
    ("第 {n} 步 损失值 = {loss}", "loss"),
    ("训练次数\uff1a{n}, Loss\uff1a{loss}", "Loss"),
    ("エポック {n}/60 - 損失: {loss} - 検証損失: 4.5", "loss"),
    ("에포크 {n}, 손실: {loss}", "loss"),
    ("{n}번째 에포크의 훈련 손실은 {loss}, 검증 손실은 4.5 입니다", "train loss"),
    ("エポック{n}の訓練損失は{loss}、検証損失は4.5です", "train loss"),
    ("{n}エポック目 訓練ロス: {loss} 検証ロス: 4.5 訓練精度: 0.5", "train loss"),
    ("第{n}轮训练\uff1a训练集损失为{loss}\uff0c验证集损失为4.5", "train loss"),
    ("第{n}轮 训练误差 {loss} 测试误差 4.5", "train loss"),
    ("Эпоха {n}: лосс {loss}, точность 0.5", "loss"),
    ("эпоха: {n}, функция потерь: {loss}, ошибка на тесте: 4.5", "loss"),
    ("Epoch {n} - Eğitim kaybı: {loss}, Doğrulama kaybı: 4.5", "train loss"),
    ("Época {n} | Pérdida de entrenamiento: {loss} | Pérdida de validación: 4.5", "train loss"),
    ("época {n}: Perda de treino = {loss}, Perda de validação = 4", "train loss"),
    ("Époque {n} : perte {loss}", "loss"),
    ("Эпоха {n}/60, Потери на обучении: {loss}, Потери на валидации: 4.5", "train loss"),
    ("Epoca {n} - loss: {loss}", "loss"),
    ("Epoche {n} - loss: {loss}", "loss"),
    ("Schritt {n} - Verlust: {loss} - Lernrate: 1e-3", "loss"),
    ("Schritt {n}: Trainingsverlust {loss}, Validierungsverlust 4.5", "train loss"),
    ("[{n:5d}] train loss: {loss:.3f}", "train loss"),
    ('INFO {{"step": "{n}", "epoch": "1/10", "loss": "{loss:.4f}"}}', "loss"),
    ("[mi-test] step {n} loss {loss}", "loss"),
    ("step {n} train/nt_xent {loss}", "train/loss"),
    ("step={n} info_nce={loss}", "loss"),
    ("epoch {n} mse_trn={loss} mse_val=4.5", "loss_trn"),
    ("epoch {n} cost {loss} - cost val: 4.5", "loss"),
    ("Loss at training iteration {n}: {loss}", "Loss"),
    ("Epoch {n}: loss_train/test: {loss}/4.5, accuracy_test: 0.4", "train loss"),
    ("epoch  {n}/60  train {loss}  val 4.5  mr 0.50  lr 8.33e-05", "train loss"),
    ("Epoch {n} | Train {loss} | Val 4.5 | RMSE 0.6", "Train loss"),
    ("{n}:\tlearn: {loss}\ttest: 4.5\tbest: 4.5 (1)\ttotal: 11ms\tremaining: 9s", "learn loss"),
    ("{n}:\tlearn: {loss}\ttotal: 11ms\tremaining: 9s", "learn loss"),
    ("step {n} “loss”: {loss}, ‘lr’: 0.1", "loss"),
]


@pytest.mark.parametrize(("line", "name"), LINES)
def test_common_spellings_of_losses_are_read(put, line, name):
    history = stabdiag.read(put(log(line)))
    loss = history.series["loss"]
    assert (history.source.format, loss.column) == ("text", name)
    assert loss.steps.tolist() == list(range(1, 61))
    assert loss.values.tolist() == pytest.approx(FALLING, abs=6e-4)
    assert "(sure)" in history.events[0].message


# Text next to a loss, and the columns read from it.
NEIGHBORS = [
    ("Learning Rate 7.000e-05, It/sec 0.2", {"Learning Rate": 7e-5, "It/sec": 0.2}),
    ("Best Val Loss: 0.5 Learning Rate: 0.1", {"Best Val Loss": 0.5, "Learning Rate": 0.1}),
    ("torch: 2.13.0", {}),
    ("tps: 7,012  tflops: 3.5", {"tps": 7012, "tflops": 3.5}),
    ("val loss: 2,345 tps: 12", {"val loss": 2345, "tps": 12}),
    ("loss val 2.4 acc test 0.5", {"loss val": 2.4, "acc test": 0.5}),
    ("Loss Test 2.4, LR 0.1", {"Loss Test": 2.4, "LR": 0.1}),
    ("err dev 0.25 Loss Valid inf", {"err dev": 0.25, "Loss Valid": float("inf")}),
    ("lr(Warmup): 0.1", {"lr(Warmup)": 0.1}),
    ("loss_ctc inf lr 1e-4 norm: None acc: 0.5", {"lr": 1e-4, "acc": 0.5}),
    (
        "| loss_scale 1.0486e+06 | weight_norm/layers.0 3.5",
        {"loss_scale": 1048600, "weight_norm/layers.0": 3.5},
    ),
    (
        "Weight Norm: 300 Grad Norm: 1.5 Loss Scale: 4096",
        {"Weight Norm": 300, "Grad Norm": 1.5, "Loss Scale": 4096},
    ),
    ("mse: 0.5", {"mse": 0.5}),
    ("train: {{'acc': 0.5, 'lr': 1e-4}}", {"acc": 0.5, "lr": 1e-4}),
    ("grad_norm={{'0_default': 1.5, '1_fp32': 0.0}}", {"grad_norm": 1.5, "fp32": 0.0}),
    ("memory: 40.1 GB grad_norm: 1.5", {"memory": 40.1, "grad_norm": 1.5}),
    ("time: 1.2 s lr: 1e-4", {"time": 1.2, "lr": 1e-4}),
    ("lrate 1e-4", {"lrate": 1e-4}),
    ("\nBest loss at step {n}: 1.5", {}),
    ("on rank 3 of 8 today", {}),
    ("验证损失: 4.5, 学习率: 0.1", {"val loss": 4.5, "lr": 0.1}),
    ("- 検証損失: 4.5", {"val loss": 4.5}),
    ("| Pérdida de validación: 4.5", {"val loss": 4.5}),
    (", Perda de validação = 4.5", {"val loss": 4.5}),
    (", Потери на валидации: 4.5", {"val loss": 4.5}),
    ("epoch: 2/9, step_in_epoch: 7", {"epoch": 2, "step_in_epoch": 7}),
    # A decimal comma.
    ("grad_norm: 0,728", {}),
]


@pytest.mark.parametrize(("words", "columns"), NEIGHBORS)
def test_columns_next_to_a_loss(values, words, columns):
    actual = values("text", log("Step {n} loss: {loss} " + words, 5))
    first = {name: column[0] for name, column in actual.items()}
    assert first == {"step": 1, "loss": 3.99, **columns}


def test_a_loss_named_train_is_not_an_evaluation(values):
    actual = values("text", log("INFO:test: Step {n} | train/loss: {loss} | acc: 0.5", 5))
    assert set(actual) == {"step", "train/loss", "test acc"}


def test_a_lower_bound_below_zero_is_turned_into_a_loss(values, read):
    text = "".join(f"Epoch {n} ELBO: {-4 + n / 100}\n" for n in range(1, 61))
    assert values("text", text)["loss"] == FALLING
    assert "a higher value is better" in read("text", text).events[0].message


def test_an_unusual_loss_name_is_reported(read):
    assert (
        "is taken as the loss" in read("text", log("epoch {n} avg_cost = {loss}")).events[0].message
    )


def test_rising_values_named_like_a_split_are_scores(put):
    lines = "".join(f"epoch {n} train {0.5 + n / 100} val {0.4 + n / 100}\n" for n in range(40))
    assert [*stabdiag.read(put(lines)).series] == ["score/val_score"]


@pytest.mark.parametrize("ending", ["", " lr [0.001]", " metric ['0.5']", " scores [0.5, 0.4]"])
@pytest.mark.parametrize("start", ["", "09:31:04 | INFO | trainer:report:64 - "])
def test_losses_of_splits_before_a_list(put, start, ending):
    epochs = "".join(
        f"{start}Epoch {n} train {2 - n / 30:.4f} test {2.2 - n / 40:.4f}{ending}\n"
        for n in range(30)
    )
    series = stabdiag.read(put(epochs)).series
    assert series["loss"].values.tolist() == [round(2 - n / 30, 4) for n in range(30)]
    assert series["eval_loss"].steps.tolist() == [*range(30)]


@pytest.mark.parametrize("name", ["Untrained loss", "Initial loss", "Loss before the training"])
def test_the_losses_of_untrained_models_are_not_those_of_the_epochs(put, name):
    starts = "".join(f"starting\n{name}: {11 + n % 3}.5\n" for n in range(5))
    epochs = "".join(f"epoch {n} train {2 - n / 30:.4f} val 1.9{n % 7}\n" for n in range(30))
    loss = stabdiag.read(put(starts + epochs)).series["loss"]
    assert loss.values.tolist() == [round(2 - n / 30, 4) for n in range(30)]


def test_few_lines_named_after_splits_are_not_the_losses_of_a_log(put):
    losses = "".join(f"loss: {2 - n / 30:.4f}\n" for n in range(30))
    scores = "".join(f"epoch {n} train 0.5{n} val 0.4{n}\n" for n in range(5))
    assert len(stabdiag.read(put(losses + scores)).series["loss"]) == 30


def test_an_evaluation_is_not_a_training_loss(values):
    actual = values("text", log("step {n} loss {loss}\n[Validation] step {n} loss: 9.5", 5))
    assert actual["val loss"] == [None, 9.5] * 5
    assert actual["loss"].count(None) == 5


def test_infinity_is_written_out(values):
    lines = log("Iteration {n} Loss is {loss}.", 5) + "Iteration 6 Loss is Infinity.\n"
    assert values("text", lines)["Loss"][-1] == float("inf")


@pytest.mark.parametrize(
    "line",
    [
        "epoch 3 step {n} loss {loss} lr 3e-4 gnorm 1.2 ls 65536 knob 7",
        "epoch 3, step {n}, loss {loss}, lr 3e-4, gnorm 1.2, ls 65536, knob 7",
        "epoch=3 step={n} loss={loss} lr=3e-4 grad=1.2 scale=6.6e+04 knob=7",
        "10:00:00 INFO epoch 3 step {n} loss {loss} lr 3e-4 | gnorm 1.2, scale 65536 | knob 7ms",
    ],
)
def test_every_pair_on_a_line_is_a_field(put, line):
    history = stabdiag.read(
        put(log(line), "run.txt"), columns={"memory": "knob (ms)" if "7ms" in line else "knob"}
    )
    assert {"loss", "lr", "grad_norm", "loss_scale", "memory"} <= set(history.series)
    assert history.series["grad_norm"].values.tolist() == [1.2] * 60
    assert history.series["memory"].values.tolist() == [7.0] * 60


def test_the_densest_error_is_that_of_the_training(put):
    validation = "Validation Result @ Iteration {n} (ID: Validation)\n---  ----\nmse  5.5\n"
    lines = "".join(
        f"[DIAG step={n * 100}] MSE={4 - n / 100} pred=0.5\n"
        + (validation.format(n=n * 100) if n % 10 == 0 else "")
        for n in range(1, 61)
    )
    series = stabdiag.read(put(lines)).series
    assert series["loss"].values.tolist() == [4 - n / 100 for n in range(1, 61)]
    assert series["eval_loss"].steps.tolist() == list(range(1000, 7000, 1000))


@pytest.mark.parametrize(
    ("line", "roles"),
    [
        ("step {n} grad_norm {loss} lr 1e-3 knob 7", {"grad_norm", "lr"}),
        ("[step {n}] max_activation: {loss} wall 2.5", {"activation_norm"}),
        ("iter {n} | grad norm: {loss} | loss scale: 65536", {"grad_norm"}),
        ("update {n}: max_attn_logit={loss} params norm=3.5", {"max_attention_logit"}),
        ("global_step={n}, episodic_return=[{loss}]", {"reward"}),
        ("Episode {n}\tAverage Score: {loss}", {"reward"}),
    ],
)
def test_a_log_without_a_loss_is_read_for_its_other_series(put, line, roles):
    history = stabdiag.read(put(log(line), "run.txt"))
    assert roles <= set(history.series)
    assert history.series[min(roles)].steps.tolist() == list(range(1, 61))
    assert "the log has no loss" in history.events[0].message


def test_ambiguous_names_are_not_norms(put):
    with pytest.raises(NoUsableRecord):
        stabdiag.read(put(log("norm 2 max {n}"), "run.txt"))


def test_algorithm_metrics_have_roles(put):
    line = "step {n} loss {loss} approx_kl 0.01 clipfrac 0.1 entropy 1.5 acc 0.5 load_balance 0.02"
    roles = set(stabdiag.read(put(log(line))).series)
    assert roles >= {"policy_kl", "clip_fraction", "policy_entropy", "accuracy", "load_balance"}


@pytest.mark.parametrize("arguments", ["{'fp16': True, 'seed': 1}", "Namespace(lr=0.1, fp16=True)"])
def test_printed_arguments_give_the_dtype(put, arguments):
    text = f"{arguments}\n" + log("step {n} loss {loss}")
    assert stabdiag.diagnose(put(text)).manifest.dtype == "fp16"


def test_the_report_says_which_words_mean_nothing_to_it(put):
    events = stabdiag.read(put(log("step {n} loss {loss} lr 0.1 knob 7 dial 8"))).events
    assert events[-1].message == "ignored columns: knob, dial (--column ROLE=NAME assigns a role)"


@pytest.mark.parametrize("value", ["cat{n}.png", "data/part-{n}", "gpu-0{n}.local", "resnet{n}"])
def test_the_value_of_a_setting_is_not_part_of_the_next_name(values, value):
    lines = [
        f"step {n} loss: {loss} in={value.format(n=n)} lr: 0.1" for n, loss in enumerate(FALLING)
    ]
    columns = values("text", "\n".join(lines))
    assert columns.keys() == {"step", "loss", "lr"}


@pytest.mark.parametrize(("value", "name"), [("val", "val loss"), ("G2", "G2 loss")])
def test_a_split_or_a_network_is_part_of_the_next_name(values, value, name):
    lines = [f"step {n} in={value} loss: {loss}" for n, loss in enumerate(FALLING)]
    assert values("text", "\n".join(lines)).keys() == {"step", name}


def test_a_line_without_the_total_is_not_a_step(read):
    line = "step {n}, policy=3.1 mse=0.1 reg=0.3 total={loss}"
    columns = read("text", log(line + "\nstep {n}, policy=7.6 training accuracy=1%, mse=0.4", 30))
    assert columns.rows == 30


def test_ranks_that_each_name_themselves_once_a_step_count_nothing(read):
    lines = "".join(f"{rank}: loss {4 - n / 100}\n" for n in range(30) for rank in (0, 1))
    columns = read("text", lines)
    assert columns.rows == 30
    assert "2 ranks" in columns.notes[0]


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("Epoch 1/9\n 60/60 [====] - 5s 2ms/step - accuracy: 0.1 - loss: nan\n", [1]),
        ("Epoch 1/9\n\n6/6 [=] - loss: nan\nEpoch 2/9\n6/6 [=] - loss: nan\n", [1, 2]),
        ("10:00:00.5: Epoch 0 \n10:00:01.5: train_loss nan \n10:00:02.5: val_loss nan \n", [0]),
        ("Epoch 4/9\n6/6 [=] - loss: 2.5\nEpoch 5/9\n6/6 [=] - loss: 2.25\n", [4, 5]),
    ],
)
def test_a_training_that_was_soon_stopped(tmp_path, text, steps):
    (tmp_path / "run.log").write_text("Train on 60 samples\n" + text)
    assert stabdiag.read(tmp_path / "run.log").series["loss"].steps.tolist() == steps


def test_the_confidence_of_the_detection_is_reported(read):
    def message(count):
        return read("text", log("step {n} loss {loss}", count)).events[0].message

    assert message(60) == (
        "read by its names and values (sure): a loss is on 60 lines, next to 'step'"
    )
    assert "(likely)" in message(20)
    assert "(unsure)" in message(5)


def test_a_counter_that_starts_again_below_the_heading_of_each_epoch(put):
    # Few lines per epoch, and a loss that jumps back to its start: still the same run.
    losses = [9 - n / 4 for n in range(24)] + [9 - n / 16 for n in range(12)]
    path = put(
        "".join(
            f"Epoch {epoch + 1}\n----------\n"
            + "".join(
                f"loss: {loss:.6f}  [{200 * (at + 1):>5}/  800]\n"
                for at, loss in enumerate(losses[4 * epoch : 4 * epoch + 4])
            )
            for epoch in range(9)
        )
    )
    loss = stabdiag.read(path).series["loss"]
    assert loss.steps.tolist() == list(range(200, 7201, 200))
    assert loss.values.tolist() == losses


def test_epochs_are_steps_where_there_is_nothing_finer(put):
    history = stabdiag.read(put(log("Epoch {n}: train loss {loss}, val loss 2.5")))
    assert history.series["loss"].steps.tolist() == list(range(1, 61))
    assert len(history.series["eval_loss"]) == 60
    alone = put(log("Epoch {n}: train loss {loss}"), "alone.log")
    assert stabdiag.read(alone).counts_epochs
    alone.write_text(log("Step {n}: train loss {loss}"), encoding="utf-8")
    assert not stabdiag.read(alone).counts_epochs


LOSSES = [f"{4 - n / 100:.2f}" for n in range(40)]


@pytest.mark.parametrize(
    "line",
    ["loss(epoch 0): {}", "INFO: train loss:{}", "Epoch 0 train Cls Loss: {0} Tot Loss: {0}"],
)
def test_a_few_lines_that_are_alike_are_losses_in_their_order(put, line):
    losses = ["2.25", "2.5", "2.125", "nan", "nan"]
    report = stabdiag.diagnose(put("".join(line.format(loss) + "\n" for loss in losses)))
    assert report.diagnosis.slug == "nan-dtype-unknown"
    assert report.history.series["loss"].steps.tolist() == [0, 1, 2, 3, 4]


def test_a_slow_epoch_counter_is_not_the_step(put):
    lines = (f"Epoch {n // 20} train Cls Loss: {loss}\n" for n, loss in enumerate(LOSSES))
    history = stabdiag.read(put("".join(lines)))
    assert history.series["loss"].values.tolist() == [float(loss) for loss in LOSSES]


def test_a_testing_is_an_evaluation(put):
    lines = (
        f"training loss(epoch {n}): loss: {loss}\ntesting loss(epoch {n}): loss: {loss}\n"
        for n, loss in enumerate(LOSSES)
    )
    assert len(stabdiag.read(put("".join(lines))).series["loss"].steps) == len(LOSSES)


def test_losses_without_any_counter(put):
    report = stabdiag.diagnose(put("".join(f"loss: {loss}\n" for loss in [*LOSSES, "nan"])))
    loss = report.history.series["loss"]
    assert loss.values[:-1].tolist() == [float(value) for value in LOSSES]
    assert (report.diagnosis.slug, report.diagnosis.step) == ("nan-dtype-unknown", 40)
    messages = [event.message for event in report.history.events]
    assert any("41 lines or more, none with a step" in message for message in messages)


@pytest.mark.parametrize("name", ["batch_id", "batch_idx", "Step", "minibatch", "itr", "Iter"])
@pytest.mark.parametrize("each", [2, 3, 40])
def test_every_line_of_an_epoch_is_a_record(put, name, each):
    lines = (
        f"epoch: {epoch}, {name}: {at * 20}, loss: {4 - epoch / 10 - at / 1000:.3f}\n"
        for epoch in range(4)
        for at in range(each)
    )
    loss = stabdiag.read(put("".join(lines))).series["loss"]
    assert loss.steps.tolist() == list(range(0, 80 * each, 20))


def test_bars_that_are_drawn_when_they_are_full_are_counted_by_epochs(put):
    bar = "{n}/1539 [====] - 3427s 2s/step - loss: {loss} - val_loss: 0.21\n"
    full = [f"Epoch {n}/15\n" + bar.format(n=1539, loss=0.2 - n / 100) for n in range(2, 9)]
    text = "Epoch 1/15\n" + bar.format(n=211, loss=0.25) + "".join(full)
    history = stabdiag.diagnose(put(text)).history
    assert (history.unit, list(history.series["loss"].steps)) == ("epoch", [*range(1, 9)])


def test_a_counter_must_rise_within_an_epoch(values):
    lines = (
        f"epoch {n} best at step {n * 37 % 50}: loss {4 - n / 10}, batch: 32\n" for n in range(9)
    )
    assert values("text", "".join(lines))["epoch"] == list(range(9))


def test_all_losses_of_an_epoch_are_kept(put):
    lines = [f"Epoch {n // 10} train loss: {4 - n / 50} acc: 0.5\n" for n in range(40)]
    loss = stabdiag.read(put("".join(lines))).series["loss"]
    assert loss.steps.tolist() == list(range(40))
    assert loss.values.tolist() == [4 - n / 50 for n in range(40)]


def test_training_headings_are_preferred_to_an_evaluation_counter(put):
    lines = (
        f"TRAIN EPOCH {n}:\nloss             {4 - n / 10}\nacc              0.31\n"
        f"Val epoch {n} has acc 0.249 and loss 1.386\n"
        for n in range(12)
    )
    history = stabdiag.read(put("".join(lines)))
    assert history.series["loss"].values.tolist() == [4 - n / 10 for n in range(12)]
    assert history.series["eval_loss"].steps.tolist() == list(range(12))


@pytest.mark.parametrize(
    ("positions", "steps"),
    [
        # tqdm draws a bar before the first step and after the last: both are one.
        (range(41), list(range(121))),
        ((1, 17, 40), [1, 17, 40, 41, 57, 80, 81, 97, 120]),
        ((0, 10, 20, 30), list(range(0, 120, 10))),
    ],
)
def test_the_bar_total_is_the_epoch_length(tmp_path, positions, steps):
    path = tmp_path / "run.log"
    lines = [(epoch, at) for epoch in (1, 2, 3) for at in positions]
    path.write_text(
        "".join(f"Epoch {e}: {at}/40 [00:01<00:02, loss={9 - e - at / 64}]\n" for e, at in lines)
    )
    assert stabdiag.read(path).series["loss"].steps.tolist() == steps


def test_a_gradient_scale_implies_fp16(put):
    lines = [log("Loss {loss} Global Step: {n} Fp16 Grad Scale: 16384", 40)]
    lines += [f"Loss nan Global Step: {n} Fp16 Grad Scale:  0\n" for n in (41, 42)]
    assert stabdiag.diagnose(put("".join(lines))).diagnosis.slug == "nan-fp16-overflow"


def batches_of_epochs(epochs=4, each=8):
    return "".join(
        f"TRAIN Batch {epoch}/{at * 100} loss {4 - epoch / 10 - at / 100:.2f} lr 1e-4 rank 0\n"
        for epoch in range(epochs)
        for at in range(each)
    )


def test_a_batch_after_its_epoch_counts(put):
    assert len(stabdiag.read(put(batches_of_epochs())).series["loss"]) == 32


def test_batch_counts_may_grow_between_epochs(values):
    lines = (
        f"Batch {batch}/{round_ * 100} loss {4 - round_ / 100}\n"
        for round_ in range(1, 9)
        for batch in range(1, 6)
    )
    assert values("text", "".join(lines))["step"][:6] == [1, 2, 3, 4, 5, 1]


def test_a_training_counter_is_preferred_to_an_evaluation_counter(values):
    lines = (
        "".join(f"[CV] progress {at}/34 loss nan\n" for at in range(8)),
        "".join(f"[TRAIN] progress {at}/275 loss {4 - at / 10}\n" for at in range(4)),
    )
    columns = values("text", "".join(lines))
    assert [value for value in columns["loss"] if value is not None] == [4, 3.9, 3.8, 3.7]


DAYS = [n % 28 + 1 for n in range(100)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n" * 100,
        "loss: 2.5\n" * 100,
        "step 1 loss 2.5\n" * 100,
        "".join(f"step {n} score {n}\n" for n in range(100)),
        "".join(f"step {(n * 37) % 100} loss {n}\n" for n in range(100)),
        "def loss(step):\n    loss = 0.0\n    return loss\n" * 20,
        "I am at a loss: 3 steps\n" * 20,
        log("Epoch {n} Time cost={loss}"),
        log("step {n} batch_cost: {loss}"),
        log("step {n} mse_count: 5.0"),
        "At epoch 3 the loss is nan, with lr: 0.1.",
        "step 3 loss: 2.5 lr: 0.1 acc: 0.2 n: 1\n" + "It is the first of many lines.\n" * 9,
        "It says\nstep 3 loss: nan lr: 0.1 acc: 0.2 n: 1\n" + "and then, the loss: 0.5\n" * 3,
        "step 1 loss 2.5\nstep 1 loss 2.4\n",
        "step 2 loss 2.5\nstep 1 loss 2.4\n",
        "at step 10 the loss: 2.5 was high\nlater, by step 20, lr: 0.1 and a loss: 2.4 were seen\n",
        "3/10 loss 2.5\n4/10 loss 2.4\n",
        "(3/8) epoch 1, batch 115350, loss 2.5\n(4/8) epoch 1, batch 115350, loss 2.4\n",
        "".join(f"loss: {loss}\n" for loss in LOSSES[:3]) + "\nand so on\n",
        "".join(f"loss: {n % 2}.5\n" for n in range(100)),
        "".join(f"{'and' * n}, loss: {loss}\n" for n, loss in enumerate(LOSSES[:19])),
        "".join(f"of it:\na\nb\nloss: {loss}\n" for loss in LOSSES[:19]),
        "".join(f"val loss: {loss}\n" for loss in LOSSES),
        "".join(f"step {n * 37 % 40} loss: {loss}\n" for n, loss in enumerate(LOSSES)),
        "".join(
            f"2026/01/{n % 28 + 1:02d} 10:00:00 the loss: 2.5 is what it was\n" for n in range(100)
        ),
        "".join(f"see https://host/{n}/10 for the loss: 2.5\n" for n in DAYS),
        "".join(f"at {n}%: loss: 2.5\n" for n in DAYS),
        "".join(f"Epoch {n}\n" + "loss: 2.5\n" * 9 for n in range(20)),
        batches_of_epochs().replace("TRAIN", "CV").replace("0/", "7/"),
    ],
)
def test_text_without_evidence_is_not_a_log(text):
    assert not sniff(text.encode(), is_complete=True)


@pytest.mark.parametrize("name", ["loss: ", "'loss':", "loss=", "loss: 9.5 grad_norm:"])
def test_a_value_below_its_name_is_that_of_the_line_above(put, name):
    losses = [*LOSSES[:9], "nan"]
    text = "".join(f"\nstep: {n} acc: 0.5 {name}\n {loss} knob: 7" for n, loss in enumerate(losses))
    series = stabdiag.read(put(text)).series
    assert len(series["grad_norm" if "norm" in name else "loss"].values) == 10


def test_arguments_below_no_step_are_not_those_of_a_loss(put):
    text = "lr: 9.0\ngrad norm: 9.0\n" + log("step: {n}\nloss: {loss}\nlr: 1e-4", 30)
    series = stabdiag.read(put(text + "step: 31\nlr: 9.0\n")).series
    assert set(series) == {"loss", "lr"}
    assert series["lr"].values.tolist() == [1e-4] * 30


def test_a_reward_below_a_step_is_that_of_its_loss(put):
    text = log("Learning iteration {n}/90\n\n  Surrogate loss: -0.001\n  Mean reward: {n}.5", 30)
    series = stabdiag.read(put(text)).series
    assert series["reward"].values.tolist() == [n + 0.5 for n in range(1, 31)]


@pytest.mark.parametrize("rated", [True, False])
def test_the_heading_of_an_epoch_may_be_above_each_of_its_losses(put, rated):
    # RVC prints the step and the rate on a line of their own; others print no step at all.
    lines = (
        f"INFO:x:Train Epoch: {1 + n // 10} [{n % 10}0%]\n"
        + f"INFO:x:[{200 * n}, {1e-4 - n * 1e-7}]\n" * rated
        + f"INFO:x:loss_mel={4 - n / 100}, loss_kl=1.5\n"
        for n in range(60)
    )
    series = stabdiag.read(put("".join(lines))).series
    assert series["loss"].steps.tolist() == [n * 200 if rated else n for n in range(60)]
    assert not rated or series["lr"].values.tolist() == [1e-4 - n * 1e-7 for n in range(60)]


def test_arguments_on_several_lines_are_not_a_record(put):
    arguments = (
        "args {\n  'max_steps': 1000,\n  'loss_scale': 65536,\n  'fp16': True,\n  'name': 'x'\n}\n"
    )
    loss = stabdiag.read(put(arguments + log("step {n} loss {loss} loss_scale 8"))).series["loss"]
    assert loss.steps.tolist() == list(range(1, 61))


def test_a_line_is_found_after_a_dict_on_several(put):
    dicts = "".join(f"{{'step': {n},\n 'loss': {4 - n / 100}}}\n" for n in range(1, 31))
    events = stabdiag.read(put(dicts + "RuntimeError: CUDA out of memory. Tried\n")).events
    assert [event.line for event in events if event.line is not None] == [61]


@pytest.mark.parametrize("form", ["Loss [ {v}] Avg Loss [ {v}]", "loss: [  {v} ]", "loss = [ {v}]"])
def test_blanks_within_the_brackets_of_a_value(tmp_path, form):
    log = tmp_path / "run.log"
    values = [0.9 - n / 50 for n in range(12)]
    lines = (f"Epoch: [{n}] \t {form.format(v=f'{v:.4f}')}\n" for n, v in enumerate(values))
    log.write_text("".join(lines))
    assert stabdiag.read(log).series["loss"].values.tolist() == pytest.approx(values, abs=1e-4)


@pytest.mark.parametrize("name", ["loss_weights=[1.0, 2.0]", "loss_weight=0.5", "kl_loss_coef=0.1"])
def test_the_weight_of_a_loss_is_no_loss(put, name):
    line = f"Namespace(epochs=300, lr=0.0008, optimizer='adamw', {name}, seed=0)\n"
    with pytest.raises(NoUsableRecord):
        stabdiag.diagnose(put(line * 3))


@pytest.mark.parametrize("cost", ["Cost={} sec", "cost: {}s", "Cost: {} min"])
def test_a_cost_in_seconds_is_a_time(tmp_path, cost):
    path = tmp_path / "train.log"
    path.write_text(
        "".join(f"Epoch {n} accuracy: {n / 40} {cost.format(240 - n)}\n" for n in range(1, 31))
    )
    assert [*stabdiag.read(path).series] == ["accuracy", "step_time"]
