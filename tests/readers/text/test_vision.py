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
