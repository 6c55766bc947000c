"""Bars of YOLO and of classifiers whose heading names each number."""

import pytest

import stabdiag

END = " 100%|██████████| 106/106 [00:17<00:00,"
DETECTION = (
    "     Epoch        lr  iou_loss  dfl_loss  cls_loss\n"
    "  0%|          | 0/106 [00:00<?, ?it/s]\n"
    "     {n}/99     0.001       9.5       9.5       9.5:   1%|          | 1/106 [00:00<\n"
    "     {n}/99     0.001         0      0.25  {loss:8}:" + END + "\n"
    "Inferencing model in train datasets.: 100%|█████| 11/11 [00:01<00:00,  9.37it/s]\n"
    "Epoch: {n} | mAP@0.5: 0.125 | mAP@0.50:0.95: 0.0625\n\n"
)
CLASSIFICATION = (
    "       {n}/5     1.47G         9.5                        :" + END + "\n"
    "       {n}/5     1.47G    {loss:8}       0.974       0.828       0.975:" + END + "\n"
)


@pytest.fixture
def read(tmp_path):
    def read(text):
        log = tmp_path / "train.log"
        log.write_text(text)
        return stabdiag.read(log).series

    return read


@pytest.mark.parametrize("losses", [(2.5,), (2.5, 2.25), (2.5, "nan"), (2.5, 2.25, 2.0)])
def test_the_heading_of_a_detector_names_the_losses(read, losses):
    text = "".join(DETECTION.format(n=n, loss=loss) for n, loss in enumerate(losses, start=1))
    series = read(text)
    assert series["loss"].steps.tolist() == [*range(1, len(losses) + 1)]
    assert [str(loss - 0.25) for loss in series["loss"].values] == [str(loss) for loss in losses]
    assert any({*scores.values} == {0.0625} for scores in series.values())


@pytest.mark.parametrize("number", [1, 5])
def test_the_heading_of_a_classifier_names_the_losses(read, number):
    heading = "     Epoch   GPU_mem  train_loss    val_loss    top1_acc    top5_acc\n"
    rows = (CLASSIFICATION.format(n=n, loss=2.5 / n) for n in range(1, number + 1))
    series = read(heading + "".join(rows))
    assert series["loss"].values.tolist() == [2.5 / n for n in range(1, number + 1)]
    assert series["eval_loss"].values.tolist() == [0.974] * number


def test_a_table_of_losses_without_bars_is_none_of_yolo(read):
    heading = "     Epoch  train_loss    val_loss\n"
    series = read(heading + "".join(f"         {n}       {2.5 / n}       0.5\n" for n in (1, 2, 4)))
    assert series["loss"].values.tolist() == [2.5, 1.25, 0.625]
