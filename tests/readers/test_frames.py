"""Tables that pandas prints in parts, with a named index, or as a single column."""

import io

import numpy as np
import pandas as pd
import pytest

import stabdiag
from stabdiag.readers.source import Stream
from stabdiag.readers.unwrapping.frames import plain_frames

FRAME = pd.DataFrame(
    {
        "epoch": [*range(1, 13)],
        "train_loss": [2.4 * 0.9**n for n in range(12)],
        "valid_loss": [2.5 * 0.92**n for n in range(12)],
        "accuracy": [0.1 + n / 50 for n in range(12)],
        "learning_rate": [0.0001] * 12,
    }
)
LOST = FRAME.assign(train_loss=FRAME["train_loss"].where(FRAME["epoch"] < 8, np.nan))


@pytest.fixture
def printed(tmp_path):
    def write(frame, width=200, above="", below=""):
        options = ("display.width", width, "display.max_columns", None)
        with pd.option_context(*options):
            text = f"{above}{frame}\n{below}"
        path = tmp_path / "frame.txt"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("width", [200, 60, 45, 30])
@pytest.mark.parametrize("frame", [FRAME, FRAME.set_index("epoch")])
@pytest.mark.parametrize("around", ["", "this is the history of my run\n"])
def test_a_frame_is_read_as_it_was(printed, width, frame, around):
    series = stabdiag.read(printed(frame, width, above=around)).series
    assert series["loss"].steps.tolist() == [*range(1, 13)]
    assert series["loss"].values == pytest.approx(FRAME["train_loss"], abs=1e-5)
    assert series["eval_loss"].values == pytest.approx(FRAME["valid_loss"], abs=1e-5)
    assert len(series["lr"].values) == 12


@pytest.mark.parametrize("width", [200, 45])
@pytest.mark.parametrize("frame", [LOST, LOST.set_index("epoch")])
def test_a_nan_in_a_frame_is_found(printed, width, frame):
    diagnosis = stabdiag.diagnose(printed(frame, width)).diagnosis
    assert diagnosis.severity.value == "error"
    assert diagnosis.step == 8


@pytest.mark.parametrize(
    ("column", "steps"),
    [(FRAME["train_loss"], 0), (FRAME.set_index("epoch")["train_loss"], 1)],
)
def test_a_single_column_has_its_name_below(printed, column, steps):
    loss = stabdiag.read(printed(column)).series["loss"]
    assert loss.steps.tolist() == [*range(steps, steps + 12)]
    assert loss.values == pytest.approx(FRAME["train_loss"], abs=1e-5)


def test_a_single_row_is_one_record(printed):
    report = stabdiag.diagnose(printed(FRAME.iloc[-1]))
    assert report.diagnosis.slug == "insufficient-data"
    assert "0.753" in report.diagnosis.summary


@pytest.mark.parametrize(
    "text",
    [
        "step 1 loss 2.3\nstep 2 loss 2.2 \\\nstep 3 loss 2.1\n",
        "  usage: train \\\n    --epochs 3 \\\n    --lr 0.1\n",
        "  loss  acc\nepoch\nfinished\n",
        "Name: train_loss, dtype: float64\n",
        "  epoch  loss \\\n0  1  2.3 \n\n  accuracy\n1  0.5\n",
    ],
)
def test_other_texts_stay_as_they_are(text):
    stream = Stream("log.txt", io.BytesIO(text.encode()))
    assert plain_frames(stream).read(1000) == text.encode()
