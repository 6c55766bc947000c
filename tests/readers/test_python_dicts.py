"""Results that RLlib and others return as nested Python dicts, printed one after the other."""

import pprint

import pytest

import stabdiag

NAN = float("nan")


def result(n, loss=None):
    learner = {"total_loss": 9.0 - n / 10 if loss is None else loss, "vf_loss": 8.9 - n / 10}
    return {
        "episode_reward_mean": 20.5 + n,
        "episodes_this_iter": 12,
        "hist_stats": {"episode_reward": [12.0, 30.5], "episode_lengths": [12, 30]},
        "info": {"learner": {"default_policy": {"learner_stats": learner}}},
        "custom_metrics": {},
        "done": False,
        "training_iteration": n + 1,
    }


FORMS = {
    "lines": repr,
    "pretty": pprint.pformat,
    "labels": lambda record: f"result:\n{record!r}",
    "tensors": lambda record: repr(record).replace("20.5", "np.float32(20.5)"),
    "objects": lambda record: repr(record).replace("False", "<object at 0x7f01>"),
}


@pytest.fixture
def diagnosed(tmp_path):
    def diagnose(text):
        (tmp_path / "log.txt").write_text(text)
        return stabdiag.diagnose(tmp_path / "log.txt")

    return diagnose


@pytest.mark.parametrize("form", FORMS)
def test_the_means_of_each_iteration_are_read(diagnosed, form):
    text = "".join(f"{FORMS[form](result(n))}\n" for n in range(4))
    series = diagnosed(text).history.series
    assert series["reward"].steps.tolist() == [1, 2, 3, 4]
    assert series["reward"].values.tolist() == [20.5, 21.5, 22.5, 23.5]


@pytest.mark.parametrize("form", FORMS)
def test_a_single_result_is_one_record(diagnosed, form):
    report = diagnosed(f"{FORMS[form](result(0))}\n")
    assert report.diagnosis.slug == "insufficient-data"
    assert report.history.series["reward"].values.tolist() == [20.5]


@pytest.mark.parametrize("form", ["lines", "pretty"])
def test_a_loss_that_is_not_finite_at_the_end_is_found(diagnosed, form):
    records = [result(0), result(1), result(2, loss=NAN)]
    diagnosis = diagnosed("".join(f"{FORMS[form](record)}\n" for record in records)).diagnosis
    assert diagnosis.severity.value == "error"
    assert diagnosis.step == 3


def test_settings_above_a_log_stay_text(diagnosed):
    settings = {"model": {"loss": {"name": "mse", "weight": 1.0}}, "optimizer": {"lr": 0.1}}
    lines = "".join(f"step {n} loss {2.5 - n / 10:.2f} lr 0.001\n" for n in range(12))
    series = diagnosed(f"{settings!r}\n{lines}").history.series
    assert len(series["loss"].values) == 12
