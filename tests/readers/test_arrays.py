"""The rows of a NumPy array in a file of its own."""

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import LogError

LOSSES = np.array([2.5 - n / 8 + 0.02 * (n % 2) for n in range(12)])


@pytest.fixture
def saved(tmp_path):
    def save(array, name="train_loss.npy", **options):
        np.save(tmp_path / name, array, **options)
        return tmp_path / name

    return save


@pytest.mark.parametrize(
    "array",
    [
        LOSSES,
        LOSSES[:, None],
        LOSSES[None],
        np.stack([np.arange(12.0), LOSSES], axis=1),
        np.asfortranarray(np.stack([np.arange(12.0), LOSSES], axis=1)),
        LOSSES.astype(">f8"),
    ],
)
def test_an_array_in_a_file_of_losses_is_a_log(saved, array):
    series = stabdiag.diagnose(saved(array)).history.series["loss"]
    assert series.values.tolist() == LOSSES.tolist()


def test_an_array_in_a_file_of_rewards_has_rewards(saved):
    history = stabdiag.diagnose(saved(LOSSES.astype("f4"), "episode_rewards.npy")).history
    assert history.series["reward"].values == pytest.approx(LOSSES)


def test_a_loss_that_is_lost_in_an_array(saved):
    diagnosis = stabdiag.diagnose(saved(np.append(LOSSES, [np.nan] * 5))).diagnosis
    assert (diagnosis.slug, diagnosis.step) == ("nan-dtype-unknown", 12)


@pytest.mark.parametrize("array", [LOSSES > 2, np.zeros((4, 4, 4)), np.zeros((3, 40)), LOSSES[:0]])
def test_other_arrays_are_refused(saved, array):
    with pytest.raises(LogError, match="a NumPy array"):
        stabdiag.diagnose(saved(array))


def test_an_array_of_another_file_is_refused(saved):
    with pytest.raises(LogError, match="a NumPy array"):
        stabdiag.diagnose(saved(LOSSES, "features.npy"))


def test_no_object_is_unpickled(saved):
    with pytest.raises(LogError, match="a NumPy array"):
        stabdiag.diagnose(saved(np.array([{"loss": 1}] * 3, dtype=object), allow_pickle=True))


def test_a_header_that_promises_more_than_the_file_has_is_refused(saved):
    path = saved(LOSSES)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"(12,)", b"(99999999,)".ljust(5)))
    with pytest.raises(LogError):
        stabdiag.diagnose(path)
    path.write_bytes(data[:-9])
    with pytest.raises(LogError):
        stabdiag.diagnose(path)
