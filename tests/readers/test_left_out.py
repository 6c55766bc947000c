"""Lines that are not records, and whether they may hold a loss."""

import pytest

from stabdiag.readers.later_forms.left_out import fails_in_words, may_hold_loss


@pytest.mark.parametrize(
    "line",
    [
        "{'lr': 0.001, 'batch_size': 32, 'loss': 'cross_entropy'}",
        "Namespace(batch_size=64, epochs=60, lr=0.001, loss='ce', gamma=0.7)",
        "wandb:        loss 0.1234",
        "input: torch.Size([32, 3, 224, 224]), logits: torch.Size([32, 10])",
        "class weights: tensor([1.0000, 2.3400, 0.5600])",
        "per-class IoU: [0.91, 0.45, nan, 0.77]  mIoU 0.71",
        "| car   | 0.71 |",
        "Total params: 101,770",
        "observations: Box(-inf, inf, (17,), float32)",
        "2026-01-02 03:04:05,678 - app - INFO - time to wait: inf",
        '{"event": "checkpoint", "step": 500, "path": "ckpt/500"}',
    ],
)
def test_settings_shapes_and_results_hold_no_loss(line):
    assert not may_hold_loss(line)
    assert not fails_in_words(line)


@pytest.mark.parametrize(
    "line",
    [
        "[350, NaN]",
        "{'step': 350, 'loss': 'failed'}",
        "{'step': 350, 'loss': 'nan'}",
        '{"step": 350, "mse": 2.31}',
        "350,2.31,0.001",
        "epoch 5 | 2.31 | 0.001",
        "state(step=350, loss=nan)",
        '"| 350 | 2.31 | 0.001 |"',
        "step: 350, loss: 2.31".encode("utf-16-le").decode(),
    ],
)
def test_other_forms_of_records_may_hold_a_loss(line):
    assert may_hold_loss(line)
