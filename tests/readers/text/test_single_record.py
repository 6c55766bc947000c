"""A text with a single record, and how the run ended below it."""

import pytest

import stabdiag
from stabdiag.errors import LogError

RECORDS = (
    "Epoch 1/10 | Step 40/500 | loss: 7.25 | lr: 0.0003 | grad_norm: 1.2\n",
    "step 40 loss 7.25\n",
    "iter 40: loss 7.25, time 812.5ms, mfu 12.5%\n",
)
STARTUP = "".join(f"reading shard {n} of the set, which may take some time\n" for n in range(40))
TRACEBACK = (
    "Traceback (most recent call last):\n"
    + "".join(f'  File "train.py", line {n}, in step\n    loss = model(batch)\n' for n in range(9))
    + "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB\n"
)
ENDS = (
    TRACEBACK,
    "Killed\n",
    "Segmentation fault (core dumped)\n",
    "RuntimeError: CUDA error: an illegal memory access was encountered\n",
)


@pytest.fixture
def diagnosed(tmp_path):
    def diagnose(text):
        path = tmp_path / "run.log"
        path.write_text(text)
        return stabdiag.diagnose(path).diagnosis

    return diagnose


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("end", ENDS, ids=["traceback", "killed", "fault", "device"])
@pytest.mark.parametrize("startup", ["", STARTUP], ids=["alone", "below other output"])
def test_a_run_may_fail_after_its_first_record(diagnosed, startup, record, end):
    diagnosis = diagnosed(startup + record + end)
    assert (diagnosis.slug, diagnosis.step) == ("stall", 40)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"# Errors\n\n    {RECORDS[0]}\n{TRACEBACK}", id="page"),
        pytest.param(f"I train, and at step 40 the loss is 7.25 and\n{TRACEBACK}", id="sentence"),
        pytest.param(f"{TRACEBACK}{STARTUP}{RECORDS[1]}", id="failed before"),
    ],
)
def test_other_texts_with_a_traceback_are_refused(diagnosed, text):
    with pytest.raises(LogError):
        diagnosed(text)


@pytest.mark.parametrize("repetition", ["", "[rank 0][Train](4000/4000) average loss: 0.4375\n"])
def test_lines_with_the_same_position_are_a_record(diagnosed, repetition):
    values = {"pos_loss": 0.3125, "neg_loss": 0.5625, "loss": 0.4375, "penalty": 0.0625}
    lines = (f"[rank 0][Train](4000/4000) average {name}: {v}\n" for name, v in values.items())
    diagnosis = diagnosed("".join(lines) + repetition)
    assert "1 loss at step 4000" in diagnosis.summary
    assert "0.4375" in diagnosis.summary
