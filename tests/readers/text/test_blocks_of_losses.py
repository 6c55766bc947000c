"""Pastes with one loss on each line, and records whose summary is below them."""

import pytest

import stabdiag
from stabdiag.errors import LogError


@pytest.fixture
def diagnosed(tmp_path):
    def diagnosed(text):
        path = tmp_path / "paste.txt"
        path.write_text(text)
        return stabdiag.diagnose(path)

    return diagnosed


@pytest.mark.parametrize(
    ("text", "step"),
    [
        (
            "progress epoch 7 step 350 images/sec 31.5\nd_loss nan\ng_loss_A 0.1\ng_loss_B 2.5\n",
            350,
        ),
        ("Epoch 7\n  loss_cls   0.69312\n  loss_box   0.12345\n  loss_mask  inf\n", 7),
    ],
)
def test_a_loss_in_a_block_is_not_finite(diagnosed, text, step):
    diagnosis = diagnosed(f"This is what it prints now:\n{text}").diagnosis
    assert diagnosis.slug.startswith("nan")
    assert diagnosis.step == step


def test_the_total_of_a_block_is_the_loss(diagnosed):
    values = {"content": 164312, "style": 41753.5, "tv": 26570.25, "total": 232635.75}
    text = "".join(f"{name:>12} loss: {value}\n" for name, value in values.items())
    diagnosis = diagnosed(text).diagnosis
    assert diagnosis.slug == "insufficient-data"
    assert "The loss was 232636" in diagnosis.summary


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("content_loss: 5.0\nstyle_loss: 100.0\ntv_loss: 0.00001\n", id="weights"),
        pytest.param("a_loss 0.69312\nb_loss 0.12345\n", id="two"),
        pytest.param("loss_a 1.23456\nloss_b 1.23456\nloss_c 1.2\n\nloss_d 1.23456\n", id="twice"),
    ],
)
def test_other_blocks_are_refused(diagnosed, text):
    with pytest.raises(LogError):
        diagnosed(text)


def test_the_summary_of_a_record_is_no_record(diagnosed):
    values = "lr: 0.0015  min_lr: 0.0015  loss: 6.5  loss_scale: 8192.0  grad_norm: 0.4 (nan)"
    record = f"Epoch: [15]  [98/99]  eta: 0:00:00  {values}  time: 0.5\n"
    text = f"Is this expected?\n\n{record}\nAveraged stats: {values}\n"
    assert "1 loss at step 98" in diagnosed(text).diagnosis.summary
