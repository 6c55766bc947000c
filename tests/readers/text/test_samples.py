"""Each framework's log: as it is, with the lines of several ranks in it, and with a NaN.

The samples hold twelve records whose loss is 4 − k/8; their lines are made as the frameworks' own
format strings make them.
"""

import re
from pathlib import Path

import numpy as np
import pytest

import stabdiag
from stabdiag.readers.registry import TEXT_READERS
from tests.readers.conftest import read_columns

SAMPLES = Path(__file__).parents[1] / "samples"

STEPS = {
    "baselines": range(2048, 26624, 2048),
    "caffe": range(0, 240, 20),
    "composer": range(1, 13),
    "coqui": range(0, 300, 25),
    "deepspeed": range(10, 130, 10),
    "dowel": range(1, 13),
    "hf-trainer-stdout": range(1, 13),
    "hf-trainer-stdout/bars": range(10, 130, 10),
    "megatron": range(10, 130, 10),
    "mllog": range(512, 6656, 512),
    "printed-table": range(1, 13),
    "rllib": range(1, 13),
    "text": range(1, 13),
    "text/basicsr": range(100, 1300, 100),
    "text/big-vision": range(50, 650, 50),
    "text/darknet": range(1, 13),
    "text/darknet-hours": range(1, 13),
    "text/detectron2": range(19, 259, 20),
    "text/fairseq": range(100, 1300, 100),
    "text/fairseq-json": range(100, 1300, 100),
    "text/fairseq-text": range(100, 1300, 100),
    "text/lerobot": range(200, 2600, 200),
    "text/llmc": range(1, 13),
    "text/llmc-main": range(12),
    "text/marian": range(1000, 13000, 1000),
    "text/maskrcnn": range(20, 260, 20),
    "text/nanogpt": range(0, 120, 10),
    "text/nemo": range(9, 129, 10),
    "text/nemo-bar": range(12),
    "text/olmo-core": range(1, 13),
    "text/pix2pix": range(100, 1300, 100),
    "text/tacotron2": range(12),
    "text/torchtitan": (1, *range(10, 120, 10)),
    "text/tutorial": range(100, 1300, 100),
    "text/yolact": range(10, 130, 10),
    "yolo": range(1, 13),
}
# Alarms are what is left of a log without its losses.
FORMATS = [text_reader.name for text_reader in TEXT_READERS if text_reader.name != "alarms"]
FILES = sorted(path for name in FORMATS for path in (SAMPLES / name).iterdir())
IDS = [f"{path.parent.name}/{path.name}" for path in FILES]
EVERY = pytest.mark.parametrize("path", FILES, ids=IDS)


def steps_of(path):
    kind, name = path.parent.name, re.sub("-(?:nan|ranks)$", "", path.stem)
    return list(STEPS.get(f"{kind}/{name}", STEPS.get(kind, ())))


def sample_losses(path):
    losses = 4 - np.arange(12) / 8
    if path.stem.endswith("-nan"):
        losses[9:] = np.nan
    return losses


@EVERY
def test_the_losses_and_the_diagnosis(path):
    report = stabdiag.diagnose(path)
    loss = report.history.series["loss"]
    assert loss.steps.tolist() == steps_of(path)
    # Lightning's progress bar rounds to two decimals.
    np.testing.assert_allclose(
        loss.values, sample_losses(path), atol=0.0051 if "bar" in path.stem else 0
    )
    # The sample of YOLO has the same scores in each epoch.
    # A sample is short; if its loss only falls, it has no spike.
    usual = ("score-constant",) if path.parent.name == "yolo" else ("insufficient-data", "healthy")
    assert report.diagnosis.slug.startswith("nan-" if path.stem.endswith("-nan") else usual)


@pytest.mark.parametrize("path", [path for path in FILES if path.stem.endswith("ranks")])
def test_a_line_of_another_rank_does_not_count_again(path):
    format, columns = path.parent.name, read_columns(path)
    # A record of DeepSpeed has two lines; an evaluation before the training makes one more.
    allowed = {
        "big-vision-ranks": 15,
        "deepspeed": 24,
        "llmc-main-ranks": 13,
        "modded-nanogpt-ranks": 13,
        "nanogpt-ranks": 13,
        "tacotron2-ranks": 13,
    }
    assert columns.rows == allowed.get(path.stem, allowed.get(format, 12))
    # Darknet prints its losses at the start of a line, so that a labeled one is none.
    assert path.stem == "darknet-ranks" or any("lines of 2 ranks" in note for note in columns.notes)


@pytest.mark.parametrize("format", ["megatron", "deepspeed", "text"])
def test_megabytes_of_other_lines_before_it(format, tmp_path):
    path = next(path for path in FILES if path.parent.name == format)
    warning = b"node-3: UserWarning: 1Torch was not compiled with flash attention.\n"
    log = tmp_path / "run.log"
    log.write_bytes(warning * 80_000 + path.read_bytes())
    loss = stabdiag.read(log).series["loss"]
    assert loss.steps.tolist() == steps_of(path)


def test_roles_next_to_the_loss():
    expected = {
        "baselines/plain.log": {"lr", "reward", "clock"},
        "text/basicsr.log": {"lr", "epoch", "step_time", "clock"},
        "text/big-vision.log": {"grad_norm", "weight_norm", "eval_loss", "eval_accuracy"},
        "caffe/plain.log": {"lr", "eval_loss", "eval_accuracy"},
        "composer/plain.log": {"lr", "grad_norm", "tokens_per_second"},
        "coqui/plain.log": {"lr", "grad_norm", "loss_scale", "eval_loss", "step_time", "clock"},
        "text/darknet.log": {"lr"},
        "deepspeed/plain.log": {"lr", "skipped", "clock"},
        "hf-trainer-stdout/bars.log": {"lr", "grad_norm", "epoch"},
        "text/lerobot.log": {"lr", "grad_norm", "epoch", "step_time", "data_time", "clock"},
        "text/llmc-main.log": {"lr", "grad_norm", "eval_loss"},
        "text/marian.log": {"lr", "grad_norm", "epoch", "clock"},
        "megatron/plain.log": {
            *("lr", "grad_norm", "loss_scale", "skipped", "eval_loss", "step_time", "clock")
        },
        "text/olmo-core.log": {"lr", "grad_norm", "tokens_per_second", "clock"},
        "text/pix2pix.log": {"epoch", "step_time"},
        "printed-table/markdown.log": {"eval_loss", "accuracy"},
        "printed-table/plain.log": {"eval_loss"},
        "printed-table/rich.log": {"eval_loss"},
        "text/tacotron2.log": {"eval_loss", "grad_norm", "step_time"},
        "text/fairseq-json.log": {
            *("lr", "grad_norm", "loss_scale", "tokens_per_second", "epoch", "clock")
        },
        "text/maskrcnn.log": {"lr", "step_time", "memory", "clock"},
        "text/modded-nanogpt.log": {"eval_loss"},
        "text/nanogpt.log": {"eval_loss", "step_time", "mfu"},
        "text/nemo.log": {"lr", "epoch"},
        "text/plain.log": {"lr", "grad_norm", "clock"},
        "text/torchtitan.log": {"grad_norm", "tokens_per_second", "memory", "mfu", "clock"},
        "text/yolact.log": {"epoch"},
    }
    for name, roles in expected.items():
        series = stabdiag.read(SAMPLES / name).series
        actual = {role for role in series if not role.startswith(("other_loss/", "score/"))}
        assert actual == {"loss", *roles}, name
