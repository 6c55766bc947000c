"""Two loggers print each line, with labels of their own."""

import pytest

import stabdiag

LOSSES = [round(0.5 + 3 / (n + 2), 4) for n in range(24)]
LABELS = {
    "a bare line first": ("", "INFO:__main__:"),
    "a bare line second": ("[fit.py:71] ", ""),
    "two labels": ("2031-04-01 09:10:{n:02d},250 - root - INFO - ", "INFO:root:"),
    "the same line twice": ("", ""),
}
BOTH = pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)


def doubled(labels, message, first=LOSSES, second=LOSSES):
    return "\n".join(
        label.format(n=n) + message.format(n=n + 1, loss=loss)
        for n, losses in enumerate(zip(first, second, strict=True))
        for label, loss in zip(labels, losses, strict=True)
    )


@BOTH
@pytest.mark.parametrize("message", ["Epoch {n}: loss {loss}, lr 0.1", "loss={loss} | acc=0.{n}1"])
def test_each_line_counts_once(put, labels, message):
    loss = stabdiag.read(put(doubled(labels, message))).series["loss"]
    assert loss.values.tolist() == LOSSES
    first = int("Epoch" in message)
    assert loss.steps.tolist() == [*range(first, first + 24)]


@BOTH
@pytest.mark.parametrize("side", [0, 1])
def test_a_nan_of_one_of_both_is_no_copy(put, labels, side):
    failed = [*LOSSES[:16], *[float("nan")] * 8]
    losses = (failed, LOSSES) if side == 0 else (LOSSES, failed)
    report = stabdiag.diagnose(put(doubled(labels, "Epoch {n}: loss {loss}, lr 0.1", *losses)))
    assert report.diagnosis.slug.startswith("nan-")


def test_lines_of_ranks_are_no_copies(put):
    text = doubled(("[rank0] ", "[rank1] "), "loss={loss} | acc=0.{n}1")
    history = stabdiag.read(put(text))
    assert history.series["loss"].values.tolist() == LOSSES
    assert any("ranks" in event.message for event in history.events)


def test_pairs_of_equal_losses_are_no_copies(put):
    pairs = [loss for loss in LOSSES for _ in range(2)]
    text = "\n".join(f"step {n} loss {loss}" for n, loss in enumerate(pairs))
    assert stabdiag.read(put(text)).series["loss"].values.tolist() == pairs
