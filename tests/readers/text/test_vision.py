"""What programs for images and scenes print."""

import math

import pytest

import stabdiag
from stabdiag.errors import NoUsableRecord


@pytest.fixture
def read(tmp_path):
    def read(text):
        log = tmp_path / "train.log"
        log.write_text(text)
        return stabdiag.read(log)

    return read


TORCH = (
    " | Epoch: [1][{n}/900]    Time 0.480  Data 0.003  Err {loss}  top1  98.4  top5  95.1",
    "Epoch: [1][{n}/900]  Time 0.480 Err {loss} Top1-%: 1.6 LR 1e-02 DataLoadingTime 0.4",
    "Epoch: [1][{n}/900]\tTime 0.480 Err {loss} Top1-%: 1.6 LR 1e-02",
)


@pytest.mark.parametrize("line", TORCH)
def test_torch_calls_its_loss_err(read, line):
    losses = [6.5, 6.25, 6.0, 5.75, "nan"]
    log = read("\n".join(line.format(n=n, loss=loss) for n, loss in enumerate(losses, start=1)))
    series = log.series["loss"]
    assert series.steps.tolist() == [1, 2, 3, 4, 5]
    assert series.values[:4].tolist() == losses[:4]
    assert math.isnan(series.values[4])
    scores = {role: values.values[0] for role, values in log.series.items() if "acc" in role}
    assert set(scores.values()) == ({1.6} if "Top1" in line else set())


BAR = "Fitting:   3%|#         | 900/30000 [00:42<20:14, 23.83it/s{end}"


KERAS = (
    "640/640 [==============================] - 9s 14ms/step - loss: 0.125 - acc: 0.5",
    "640/640 [==============================] - ETA: 0s - loss: 0.125, as it was said",
    "640/640 ━━━━━━━━━━━━━━━━━━━━ 9s 14ms/step - accuracy: 0.5 - loss: 0.125",
)


@pytest.mark.parametrize("bar", KERAS)
@pytest.mark.parametrize("above", ["", "Epoch 1/1\n", "This is what I see:\n\n"])
def test_the_bar_of_keras_is_a_single_record(read, bar, above):
    assert read(above + bar).series["loss"].values.tolist() == [0.125]


@pytest.mark.parametrize("end", [", Loss=0.125]", ", loss: 0.125, lr=0.1]", "] loss: 0.125"])
@pytest.mark.parametrize("above", [0, 30])
def test_the_bar_of_tqdm_is_a_single_record(read, end, above):
    lines = [f"Loading camera of scene {n}" for n in range(above)]
    series = read("\n".join([*lines, BAR.format(end=end)])).series["loss"]
    assert (series.steps.tolist(), series.values.tolist()) == ([900], [0.125])


@pytest.mark.parametrize("end", ["]", "] and the loss weight is 0.5 in the config"])
def test_a_bar_without_a_loss_is_no_record(read, end):
    with pytest.raises(NoUsableRecord):
        read(BAR.format(end=end))


def test_the_losses_of_open3d(read):
    epoch = "=== EPOCH {n}/20 ===\nloss train: {n}.5  eval: {n}.75\nacc train: 0.{n}  eval: 0.25\n"
    series = read("".join(epoch.format(n=n) for n in range(1, 6))).series
    assert series["loss"].values.tolist() == [1.5, 2.5, 3.5, 4.5, 5.5]
    assert series["eval_loss"].values.tolist() == [1.75, 2.75, 3.75, 4.75, 5.75]
    assert series["accuracy"].values.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]


@pytest.mark.parametrize("total", ["", "[{n}0/60000] ", "[ {n}0/60000] "])
def test_a_position_counts_the_only_loss(read, total):
    loss = read(f"{total.format(n=4)}Train loss: nan, Valid loss: nan").series["loss"]
    assert loss.steps.tolist() == [40 if total else 0]


SUMMARY = "mean loss: 0.125\naccuracy: 0.75\n----\neval mean loss: 12.5\neval accuracy: 0.25\n"


@pytest.mark.parametrize(
    "text",
    [
        SUMMARY,
        "The accuracy on other clouds is 0 in my case.\n" + SUMMARY,
        "Train Loss: 0.125\nVal Loss: 12.5 \n",
        "- train_loss = 0.125\n- test_loss = 12.5\n- seconds = 20\n",
    ],
)
def test_a_summary_of_two_sets_is_a_record(read, text):
    series = read(text).series
    assert series["loss"].values.tolist() == [0.125]
    assert series["eval_loss"].values.tolist() == [12.5]


@pytest.mark.parametrize(
    "text",
    [
        "Val Loss: 0.125\n",
        "loss: 0.125\n",
        "Train Loss: 0.125\nVal Loss: 12.5\nfor 3 in range 4\n",
        "train_loss_weight: 0.125\nval_loss_weight: 0.5\n",
    ],
)
def test_a_summary_of_one_set_or_a_setting_is_no_record(read, text):
    with pytest.raises(NoUsableRecord):
        read(text)


UNET = (
    "Epoch [{n}/50], Loss: {n}.5, \n[Training] Acc: 0.9{n}, F1: 0.25, JS: 0.5, DC: 0.{n}\n"
    "[Validation] Acc: 0.75, F1: 0.0, JS: 0.5, DC: 0.0\n"
)


def test_the_scores_of_the_training_are_below_its_loss(read):
    series = read("".join(UNET.format(n=n) for n in range(1, 6))).series
    values = {name: values.values.tolist() for name, values in series.items()}
    assert values["loss"] == [1.5, 2.5, 3.5, 4.5, 5.5]
    assert values["accuracy"] == [0.91, 0.92, 0.93, 0.94, 0.95]
    assert values["score/dice"] == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert values["eval_accuracy"] == 5 * [0.75]


def test_scores_that_end_at_zero_are_in_the_summary(tmp_path):
    path = tmp_path / "run.txt"
    path.write_text("".join(UNET.format(n=n).replace("0.25", "0.0") for n in range(1, 6)))
    summary = stabdiag.diagnose(path).diagnosis.summary
    assert "stayed at 0.75 and 'F1' at 0." in summary
    assert "dice" not in summary


@pytest.mark.parametrize(
    ("scores", "name"),
    [
        ("current mean dice: {} best mean dice: 0.75 at epoch: 4", "mean dice"),
        ("current mean dice: {}\nbest mean dice: 0.75 at epoch: 4", "mean dice"),
        ("current mean dice: {} tc: 0.5 wt: 0.5 et: 0.5\nbest mean dice: 0.75", "mean dice"),
        ("current AUC: 0.5 current accuracy: {} best AUC: 0.75 at epoch: 4", "accuracy"),
    ],
)
def test_the_current_scores_of_monai_are_those_of_an_evaluation(read, scores, name):
    lines = []
    for epoch in range(1, 9):
        lines += [f"epoch {epoch}/8", *(f"{n}/6, train_loss: 0.5000" for n in range(1, 7))]
        lines += [f"epoch {epoch} average loss: 0.5000"]
        lines += [f"current epoch: {epoch} {scores.format(epoch / 16)}"] * (epoch % 2 == 0)
    log = read("\n".join(lines) + "\n")
    values = [series for series in log.series.values() if name in series.column.replace("_", " ")]
    assert [series.values.tolist() for series in values] == [[0.125, 0.25, 0.375, 0.5]]


def test_tesseract_prints_the_errors_of_each_sample(read):
    lines = "".join(
        f"Iteration {n}: GROUND  TRUTH : a line\nFile /data/{n}.lstmf line 0 :\n"
        f"Mean rms={n / 8}%, delta=4.5%, train={n / 2}%({n}.5%), skip ratio=0%\n"
        for n in range(40, 36, -1)
    )
    for n in range(40, 36, -1):
        lines = lines.replace(f"Iteration {n}:", f"Iteration {900 - n}:")
    series = read(lines).series
    assert series["loss"].steps.tolist() == [860, 861, 862, 863]
    assert series["loss"].values.tolist() == [5.0, 4.875, 4.75, 4.625]
    assert [values.values[0] for role, values in series.items() if "er" in role] == [20.0, 40.5]


def test_matconvnet_prints_its_speed_before_the_objective(read):
    values = [2.5, 2.25, 2.0, 1.75, 1.5]
    log = read(
        "\n".join(
            f"train: epoch 02: {n:3d}/ 90: 81.5 (80.{n}) Hz objective: {value} top1err:0.{9 - n}"
            for n, value in enumerate(values, start=1)
        )
    )
    assert log.series["loss"].values.tolist() == values
    assert log.series["loss"].steps.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "test",
    [
        "* Acc@1 4{n}.250 Acc@5 70.500 loss 9.{n}",
        "Test: Total time: 0:00:07 (0.1 s / it)\nAveraged stats: loss: 9.{n} (9.5)  acc1: 4{n}.25",
    ],
)
def test_means_of_a_test_are_no_means_of_the_training(read, test):
    means = [3.5, 3.25, 3.0, 2.75]
    lines = (
        f"Epoch: [{n}] Total time: 0:01:07 (0.2 s / it)\n"
        f"Averaged stats: lr: 0.0002  loss: {mean} (3.9)\n" + test.format(n=n)
        for n, mean in enumerate(means)
    )
    log = read("\n".join(lines))
    assert log.series["loss"].values.tolist() == means
    assert log.series["eval_loss"].values.tolist() == [9.0, 9.1, 9.2, 9.3]


def test_the_number_after_a_split_is_the_epoch_of_dgcnn(tmp_path):
    form = (
        "Train {0}, loss: {1:.6f}, train acc: 0.940089, train iou: 0.832554\n"
        "Test {0}, loss: {2:.6f}, test acc: 0.92925, test iou: 0.821958\n"
    )
    text = "".join(form.format(n, 1.4 + 1 / n, 1.5 + 1 / n) for n in range(2, 8))
    (tmp_path / "run.log").write_text(text)
    series = stabdiag.read(tmp_path / "run.log").series
    assert series["loss"].steps.tolist() == [2, 3, 4, 5, 6, 7]
    assert series["loss"].values[0] == 1.9
    assert series["eval_loss"].values[0] == 2.0
    assert "score/train iou" in series


@pytest.mark.parametrize("names", [("iou_loss", "dfl_loss"), ("lr", "iou_loss", "cls_loss")])
@pytest.mark.parametrize("end", ["6.61it/s]", ""])
def test_a_heading_of_names_above_each_bar(read, names, end):
    lines = []
    for epoch in range(30, 42):
        cells = [0.001 if name == "lr" else (0 if name == "iou_loss" else 0.5) for name in names]
        heading = "".join(f"{name:>10}" for name in names)
        row = "".join(f"{cell:>10}" for cell in cells)
        bar = f": 100%|██████████| 90/90 [00:15<00:00, {end}"
        lines += ["", f"     Epoch{heading}", f"{epoch:>7}/59{row}{bar}"]
        if epoch % 5 == 0:
            lines += ["", f"Epoch: {epoch} | mAP@0.5: 0.25 | mAP@0.50:0.95: 0.125"]
    series = read("\n".join(lines)).series
    assert series["loss"].steps.tolist() == [*range(30, 42)]
    assert set(series["loss"].values.tolist()) == {0.5}
    assert series["score/mAP50"].steps.tolist() == [30, 35, 40]
    assert series["score/mAP50-95"].values.tolist() == [0.125] * 3
    assert ("lr" in series) == ("lr" in names)


def test_prose_about_an_epoch_is_no_heading_of_a_bar(read):
    with pytest.raises(NoUsableRecord):
        read("Epoch  iou_loss  dfl_loss  cls_loss\nare the columns of each bar, 3/9 of them\n")


def test_darts_prints_values_without_names(read):
    lines = []
    for epoch in range(3):
        lines += [f"2031-04-01 09:{epoch}0:01,123 epoch {epoch} lr 2.500000e-02"]
        for batch in range(0, 200, 50):
            values = f"{2 / (epoch + 1):e} {20 + epoch:f} {60 + epoch:f}"
            lines += [f"2031-04-01 09:{epoch}0:02,123 train {batch:03d} {values}"]
        lines += [f"2031-04-01 09:{epoch}0:03,123 valid 000 {3 / (epoch + 1):e} 30.0 70.0"]
    series = read("\n".join(lines)).series
    assert series["loss"].values.tolist() == pytest.approx(
        [2.0] * 4 + [1.0] * 4 + [2 / 3] * 4, abs=1e-6
    )
    assert series["eval_loss"].values.tolist() == [3, 1.5, 1]
    assert series["accuracy"].values[0] == 20


def test_the_weights_of_the_loss_of_a_layer_are_no_scores(read):
    line = (
        "v3 (iou loss, Normalizer: (iou: 0.07, cls: 1.00) Region 30 Avg (IOU: 0.{n}), count: 1,"
        " class_loss = 1.5, iou_loss = 0.25, total_loss = {n}.75\n"
    )
    series = read("".join(line.format(n=n) for n in range(5, 9))).series
    assert series["loss"].values.tolist() == [5.75, 6.75, 7.75, 8.75]
    assert not any(0.07 in values.values for values in series.values())


def test_the_terms_of_a_face_detector_are_losses(read):
    line = (
        "Epoch:2/9 || Iter: {n}/900 || Loc: {loss} Cla: 1.5 Landm: 3.0 || LR: 0.001 || ETA: 1:42\n"
    )
    text = "".join(line.format(n=n, loss=loss) for n, loss in ((41, 2.5), (42, 2.25), (43, "nan")))
    assert [str(loss) for loss in read(text).series["loss"].values] == ["7.0", "6.75", "nan"]


@pytest.mark.parametrize("glued", ["", "5/6 [=====>.] - ETA: 1s - loss_trn: 0.5"])
def test_the_errors_of_videopose_are_losses(read, glued):
    line = "[{n}] time 43.30 lr 0.000040 3d_train {loss} 3d_eval 63.5 3d_valid 67.25\nsaved\n"
    losses = (88.5, 52.5, "nan")
    text = "".join(glued + line.format(n=n, loss=loss) for n, loss in enumerate(losses, start=1))
    series = read(text).series
    assert series["loss"].steps.tolist() == [1, 2, 3]
    assert [str(loss) for loss in series["loss"].values] == ["88.5", "52.5", "nan"]
    assert series["eval_loss"].values.tolist() == [67.25] * 3


WAV2LIP = (
    "L1: {loss}, Sync Loss: 0.0: : {n}it [09:59,  1.05s/it]",
    "L1: {loss}, Sync: 0.0, Percep: 0.0 | Fake: 0.68, Real: 0.71: : {n}it [09:59,  1.05s/it]",
)


@pytest.mark.parametrize("bar", WAV2LIP)
@pytest.mark.parametrize("number", [1, 2, 9])
def test_a_bar_without_a_total_counts(read, bar, number):
    steps = range(540, 540 + number)
    losses = [2.5 - n / 64 for n in range(number)]
    text = "\n".join(bar.format(n=n, loss=loss) for n, loss in zip(steps, losses, strict=True))
    series = read(text).series["loss"]
    assert (series.steps.tolist(), series.values.tolist()) == ([*steps], losses)


DEPTH = (
    "Epoch: {n:03d} - 025\n========\n     d1         d2    abs_rel       rmse      silog \n"
    " 0.5000     0.7500     0.2500     {loss:6}     9.5000 \n========\n\n",
    "Epoch {n}\n   abs_rel |   sq_rel |     rmse |       a1 | \n"
    "&   0.115  &   0.903  & {loss}  &   0.877  \\\\\n",
)


@pytest.mark.parametrize("table", DEPTH)
def test_the_names_of_the_errors_of_a_depth_are_above_them(read, table):
    losses = (2.5, 2.25, 2.125)
    text = "".join(table.format(n=n, loss=loss) for n, loss in enumerate(losses, start=1))
    series = read(text).series["loss"]
    assert (series.steps.tolist(), series.values.tolist()) == ([1, 2, 3], [*losses])


def test_the_names_of_the_errors_of_a_depth_are_as_many_as_they(read):
    with pytest.raises(NoUsableRecord):
        read("Epoch: 1\n  d1  d2  d3  abs_rel  rmse\n 0.5  0.6  0.7  0.25\n" * 3)


def test_bts_counts_the_steps_of_all_epochs(read):
    line = "[epoch][s/s_per_e/gs]: [{e}][{n}/30/{all}], lr: 0.0001, loss: {loss:.12f}\n"
    steps = [10, 20, 40, 50]
    lines = (line.format(e=n // 30, n=n % 30, all=n, loss=2.5 - n / 64) for n in steps)
    series = read("".join(lines)).series["loss"]
    assert series.steps.tolist() == steps


def test_a_name_with_the_name_of_its_set_stays(tmp_path):
    log = tmp_path / "train.log"
    log.write_text(
        "".join(
            f"[INFO]: train - epoch: {n}, lr: 0.0001, train_loss: {2.5 / n}\n"
            f"[INFO]: val - epoch: {n}, val_loss: 0.5, val_precision: 0, val_recall: 0\n"
            for n in (1, 2, 3)
        )
    )
    summary = stabdiag.diagnose(log).diagnosis.summary
    assert "the evaluation loss stayed at 0.5" in summary
    assert "'val_precision'" in summary


@pytest.mark.parametrize("of_split", [" (train=False)", ""])
def test_the_first_nnunet_names_the_dice_of_its_classes(read, of_split):
    epochs = (
        f"10:32:{n:02d}.27: \nepoch:  {n}\n10:38:44.77: train loss : {-0.5 - n / 64}\n"
        f"10:39:09.50: val loss{of_split}: {-0.25 - n / 64}\n"
        f"10:39:09.50: Val glob dc per class: [{0.125 + n / 64}]\n10:39:10.1: Patience: {n}/50\n\n"
        for n in range(10)
    )
    series = read("".join(epochs)).series
    assert series["loss"].values.tolist() == [-0.5 - n / 64 for n in range(10)]
    assert series["eval_loss"].values.tolist() == [-0.25 - n / 64 for n in range(10)]
    assert series["score/Val dice"].values.tolist() == [0.125 + n / 64 for n in range(10)]
