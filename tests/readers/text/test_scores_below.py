"""Scores on lines of their own, below the lines with the losses of an epoch."""

import pytest

import stabdiag
from stabdiag.errors import LogError


@pytest.fixture
def history(tmp_path):
    def read(text):
        (tmp_path / "run.log").write_text(text)
        return stabdiag.read(tmp_path / "run.log")

    return read


LOSSES = (0.5, 0.4, 0.3, 0.25)
SCORES = (38.5, 34.0, 39.0, 39.5)


def log(name, above="Test loss: {}", form="{}: {}"):
    return "".join(
        f"Training epoch: {epoch}\n  Mean training loss: {loss}\n"
        f"{above.format(loss)}\n{form.format(name, score)}\n"
        for epoch, (loss, score) in enumerate(zip(LOSSES, SCORES, strict=True))
    )


@pytest.mark.parametrize(
    "name",
    [
        *("mAP", "AP50", "BLEU-4", "METEOR", "CIDEr", "Rouge-L", "SSIM", "WER", "CER", "MRR"),
        *("Recall@20", "NDCG@10", "Precision", "Recall", "FID", "kappa", "exact match"),
        *("Pearson", "Spearman", "F-score", "R2", "IoU", "success rate"),
        *("R@1", "Hit@10", "HR@10", "Hits@3"),
    ],
)
@pytest.mark.parametrize("form", ["{}: {}", "{}: {}%", "{} = {}"])
def test_a_score_on_its_own_line(history, name, form):
    series = history(log(name, form=form)).series
    (score,) = (line for role, line in series.items() if role.startswith("score/"))
    assert score.steps.tolist() == [0, 1, 2, 3]
    assert score.values[0] == SCORES[0]
    assert series["eval_loss"].values.tolist() == list(LOSSES)


@pytest.mark.parametrize("name", ["Top1", "top1", "Acc@1", "Prec@1", "Accuracy", "acc"])
@pytest.mark.parametrize("above", ["Test loss: {}", "Mean test loss of 8 batches: {}."])
def test_a_score_below_the_loss_of_an_evaluation_is_of_its_split(history, name, above):
    series = history(log(name, above)).series
    assert series["eval_accuracy"].values.tolist() == list(SCORES)
    assert "accuracy" not in series


def test_accuracies_with_a_named_split_show_whose_the_others_are(history):
    series = history(log("acc", form="{0}: 50.5\nval_{0}: {1}")).series
    assert series["accuracy"].values.tolist() == [50.5] * 4
    assert series["eval_accuracy"].values.tolist() == list(SCORES)


@pytest.mark.parametrize("line", ["time: 38.5 s", "saved model@best: 3", "user@host: 22", "R20: 7"])
def test_other_lines_are_not_scores(history, line):
    text = log(line, form="{}")
    assert {*history(text).series} == {"loss", "eval_loss"}


def epochs(heading, *scores, count=3):
    """Return the text of epochs without a loss."""
    return "".join(
        heading.format(5 * epoch)
        + "\n"
        + "".join(f"{name}: {value + epoch / 64}\n" for name, value in scores)
        for epoch in range(1, count + 1)
    )


@pytest.mark.parametrize(
    "heading", ["Epoch: {:04d}; ", "Epoch {}", "===== Epoch {} =====", "> Epoch: {}"]
)
@pytest.mark.parametrize("count", [2, 3])
def test_scores_on_their_own_lines_below_each_epoch(history, heading, count):
    text = epochs(heading, ("HR@50", 0.5), ("MRR", 0.25), ("AUC", 0.75), count=count)
    series = history(text).series
    assert series["score/MRR"].steps.tolist() == [5, 10, 15][:count]
    assert series["score/MRR"].values[0] == 0.25 + 1 / 64
    assert series["score/HR@50"].values[0] == 0.5 + 1 / 64


def test_a_score_of_two_epochs_alone_is_read(history):
    series = history(epochs("Epoch {} is done.", ("AUC", 0.75), count=2)).series
    assert series["score/AUC"].steps.tolist() == [5, 10]


def test_scores_below_epochs_that_fall_are_not_a_course(history):
    lines = "".join(f"Epoch: {epoch}\nMRR: 0.5\nAUC: 0.7\n" for epoch in (30, 20, 10))
    with pytest.raises(LogError):
        history(lines)


@pytest.mark.parametrize("name", ["Valid MRR", "Test average HITS@10", "Valid accuracy"])
@pytest.mark.parametrize("form", ["{} at step {}: {}", "{} after iteration {} = {}"])
def test_a_score_with_its_step_before_its_value(history, name, form):
    scores = {1000: 0.25, 2000: 0.5, 3000: 0.625, 4000: 0.625, 5000: 0.75}
    text = "".join(form.format(name, step, score) + "\n" for step, score in scores.items())
    series = history(text).series
    (scored,) = series.values()
    assert scored.steps.tolist() == [*scores]
    assert scored.values.tolist() == [*scores.values()]
