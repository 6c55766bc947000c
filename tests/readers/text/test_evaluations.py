"""Evaluations in logs of names and values, on lines of their own."""

import pytest

import stabdiag

EVALUATIONS = {
    "before a test": "Epoch {epoch}, val: loss {loss}\nEpoch {epoch}, test: loss 9.5",
    "next to the training mean": "Epoch {epoch}: train loss {train}, valid loss {loss}",
    "alone": "Validation loss: {loss}",
    "of PyTorch's MNIST": "\nTest set: Average loss: {loss}, Accuracy: 9000/10000 (90%)\n",
    "a sentence": "Epoch {epoch}, val loss is {loss}, val mse is 0.5.",
    "held out": "Epoch {epoch}, held_out_loss: {loss}",
    "of time series": "Epoch: {epoch} | Train Loss: {train} Vali Loss: {loss} Test Loss: 9.5",
}


def epochs_with(line):
    return "".join(
        "".join(f"Epoch {epoch}, Step {at * 10}, loss: {4 - epoch / 10}\n" for at in range(1, 6))
        + line.format(epoch=epoch, loss=5 - epoch / 10, train=4.5)
        + "\n"
        for epoch in range(8)
    )


@pytest.mark.parametrize("line", EVALUATIONS.values(), ids=EVALUATIONS)
def test_an_evaluation_without_the_counter_is_of_the_step_before_it(put, line):
    series = stabdiag.read(put(epochs_with(line))).series
    assert series["loss"].values.tolist() == [4 - epoch / 10 for epoch in range(8) for _ in "12345"]
    assert series["eval_loss"].values.tolist() == [5 - epoch / 10 for epoch in range(8)]
    assert series["eval_loss"].steps.tolist() == list(range(50, 450, 50))


@pytest.mark.parametrize(("begins", "first"), [("", 1), ("Val: loss=9.5, acc=0.1\n", 0)])
def test_evaluations_above_the_lines_of_their_epochs(put, begins, first):
    """A program that evaluates before training evaluates after each epoch."""
    lines = ["Epoch {n}/40 | loss={loss}\n", "Val: loss={held}, acc=0.4\ntrain=5 s | val=2 s\n"]
    epoch = "".join(lines if begins else reversed(lines))
    epochs = (epoch.format(n=n, loss=4 - n / 100, held=5 - n / 100) for n in range(1, 41))
    history = stabdiag.read(put(begins + "".join(epochs)))
    assert history.series["eval_loss"].steps.tolist() == list(range(first, 41))
    assert not any("val val" in event.message for event in history.events)


def test_the_last_running_mean_of_an_evaluation_counts(put):
    batch = "Test: [{at}/100]  Time: 0.3 (0.3)  Loss:  9.5 ( {mean:.3f})  Acc@1: 41.0 (41.0)\n"
    text = "".join(
        "".join(f"Epoch {epoch}, Step {at * 10}, loss: {4 - epoch / 10}\n" for at in range(1, 6))
        + "".join(batch.format(at=at, mean=5 - epoch / 10 + 1 - at / 100) for at in (0, 50, 100))
        + "Test: Total time: 0:00:20 (0.3 s / it)\n* Acc@1 50.1 Acc@5 75.1 loss 9.5\n"
        for epoch in range(8)
    )
    eval_loss = stabdiag.read(put(text)).series["eval_loss"]
    assert eval_loss.values.tolist() == [5 - epoch / 10 for epoch in range(8)]


@pytest.mark.parametrize(
    ("below", "counts"),
    [
        ("{epoch}/8 [05:49<00:00, val_loss={loss:.3g}]", True),
        ("Saved val_loss: {loss:.4f}", True),
        ("{epoch}/8 [05:49<00:00, val_loss={loss:.0f}]", False),
        ("val_loss: {other:.4f}", False),
    ],
)
def test_an_evaluation_that_is_printed_twice_counts_once(put, below, counts):
    """A line and a progress bar have the same loss. Other losses are of several evaluations."""
    eval_losses = [5.0123 - epoch / 10 for epoch in range(8)]
    text = epochs_with("val_loss: {loss}").split("\n")
    lines = iter(
        f"val_loss: {loss:.4f}\n" + below.format(epoch=epoch, loss=loss, other=loss + 0.01)
        for epoch, loss in enumerate(eval_losses)
    )
    text = "\n".join(next(lines) if line.startswith("val_loss") else line for line in text)
    series = stabdiag.read(put(text)).series
    assert ("eval_loss" in series) == counts
    assert not counts or series["eval_loss"].values.tolist() == pytest.approx(eval_losses, abs=1e-4)


def test_a_file_of_the_program_is_not_the_first_name_of_a_line(put):
    train = (
        "[2026-01-05 10:00:00 swin] (main.py 201): INFO Train: [{n}/9][{at}/300]\tloss {loss} (4)\n"
    )
    test = "[2026-01-05 10:00:00 swin] (main.py 268): INFO Test: [{at}/98]\tLoss 5.5 ({loss})\n"
    text = "".join(
        "".join(train.format(n=n, at=at, loss=4 - n - at / 300) for at in range(0, 300, 10))
        + "".join(test.format(at=at, loss=5 - at / 100) for at in (0, 50, 90))
        for n in range(3)
    )
    history = stabdiag.read(put(text))
    assert history.series["eval_loss"].values.tolist() == [4.1] * 3
    assert not any("main.py" in event.message for event in history.events)


def test_a_line_for_each_split_is_not_a_log_of_the_hf_trainer(put):
    line = "{}: {{'epoch': {}, 'loss': {}, 'lr': 0.001}}\n"
    splits = {"train": 4, "val": 5}
    text = "".join(line.format(s, n, at - n / 10) for n in range(20) for s, at in splits.items())
    series = stabdiag.read(put(text)).series
    assert series["loss"].values.tolist() == [4 - n / 10 for n in range(20)]
    assert series["eval_loss"].values.tolist() == [5 - n / 10 for n in range(20)]


def test_unnamed_leading_steps_next_to_named_steps(put):
    """As llama2.c prints them."""
    text = "".join(
        (f"step {n}: train loss 3.5, val loss {5 - n / 100}\n" if n % 10 == 0 else "")
        + f"{n} | loss {4 - n / 100} | lr 1.000000e-04 | 100.12ms | mfu 10.12%\n"
        for n in range(60)
    )
    series = stabdiag.read(put(text)).series
    assert series["loss"].values.tolist() == [4 - n / 100 for n in range(60)]
    assert series["eval_loss"].values.tolist() == [5 - n / 100 for n in range(0, 60, 10)]


def test_a_repeated_step_without_learning_rate_is_an_evaluation(put):
    text = "".join(
        f"Step... ({n} | Loss: {4 - n / 100}, Learning Rate: 1e-4)\n"
        + (f"Step... ({n} | Loss: {5 - n / 100}, Acc: 0.4)\n" if n % 10 == 0 else "")
        for n in range(1, 61)
    )
    series = stabdiag.read(put(text)).series
    assert series["loss"].values.tolist() == [4 - n / 100 for n in range(1, 61)]
    assert series["eval_loss"].values.tolist() == [5 - n / 100 for n in range(10, 61, 10)]


@pytest.mark.parametrize(
    "batch",
    [
        "Epoch[{n} of 9]-Minibatch[1-50]: TrainLossPerSample = {loss}; SamplesPerSecond = 9.5",
        "epoch {n} batch 50: loss {loss}",
    ],
)
def test_a_batch_and_the_summary_of_its_epoch_with_a_rate_are_no_evaluations(put, batch):
    epoch = f"{batch}\nFinished Epoch[{{n}} of 9]: TrainLossPerSample = {{loss}}; LR = 1e-4\n"
    text = "".join(epoch.format(n=n, loss=4 - n / 10) for n in range(1, 9))
    series = stabdiag.read(put(text.replace("TrainLossPerSample =", "loss:"))).series
    assert "eval_loss" not in series
    assert series["loss"].values[-1] == 3.2


SPLITS = {
    "behind the name of a program": (
        "[train.py:  171]:\ttrain Epoch {n} Loss {loss} Acc 0.5",
        "[train.py:  171]:\tval Epoch {n} Loss {held} Acc 0.4",
    ),
    "beside another measure": (
        "[Epoch {n}] train accuracy: 0.5, loss: {loss}",
        "[Epoch {n}] eval accuracy: 0.4, loss: {held}",
    ),
    "blocks": (
        "Iter {n} (16.0 / 16.0):\nTrain results:\n    Loss : {loss}\n    Accuracy : 0.5\n",
        "Val results:\n    Loss : {held}\n    Accuracy : 0.4\n",
    ),
    "below a rule": ("Epoch {n}/40\ntrain loss: {loss}", "=== Validation ===\nloss: {held}\n"),
}


@pytest.mark.parametrize("lines", SPLITS.values(), ids=SPLITS)
def test_two_lines_of_a_step_are_of_two_splits(put, lines):
    step = "\n".join((*lines, ""))
    text = "".join(step.format(n=n, loss=4 - n / 100, held=5 - n / 100) for n in range(1, 41))
    series = stabdiag.read(put(text)).series
    assert series["loss"].values.tolist() == [4 - n / 100 for n in range(1, 41)]
    assert series["eval_loss"].values.tolist() == [5 - n / 100 for n in range(1, 41)]
    assert series["eval_loss"].steps.tolist() == list(range(1, 41))


@pytest.mark.parametrize(
    "line",
    [
        "val batch loss: 0.5\nval batch loss: {loss}",
        "best val loss: {loss}",
        "Epoch {epoch}: train loss {loss}",
        "validating {epoch}",
        "Then run eval. If loss is nan, lower the learning rate.",
    ],
    ids=["of batches", "the best so far", "of the training", "none", "a condition"],
)
def test_training_lines_are_not_evaluations(put, line):
    series = stabdiag.read(put(epochs_with(line))).series
    assert "eval_loss" not in series
    assert len(series["loss"]) == 40


@pytest.mark.parametrize(
    ("line", "role"),
    [
        ("step {n} | val_mAP 0.{n}", "score/val_mAP"),
        ("step {n} | eval_wer 0.{n}", "score/eval_wer"),
        ("step {n} | val_acc 0.{n} | time 3.5", "eval_accuracy"),
    ],
)
def test_a_score_on_a_line_of_its_own_is_read(put, line, role):
    lines = []
    for n in range(10, 100):
        lines.append(f"step {n} | loss {4 - n / 100:.2f} | lr 0.001")
        if n % 10 == 0:
            lines.append(line.format(n=n))
    series = stabdiag.read(put("\n".join(lines) + "\n")).series
    assert len(series["loss"]) == 90
    assert series[role].steps.tolist() == list(range(10, 100, 10))
    assert series[role].values.tolist() == [n / 100 for n in range(10, 100, 10)]


@pytest.mark.parametrize(
    "late", ["step {n} | lr 0.001 | tokens 900", "step {n} | gnorm nan | lr 0.001 | tokens 900"]
)
def test_lines_that_lose_their_loss_are_records(put, late):
    usual = "step {n} | loss {loss:.2f} | gnorm 0.9 | lr 0.001 | tokens 900"
    lines = [usual.format(n=n, loss=4 - n / 100) for n in range(60)]
    lines += [late.format(n=n) for n in range(60, 120)]
    report = stabdiag.diagnose(put("\n".join(lines) + "\n"))
    assert report.diagnosis.slug.startswith("nan")
    assert report.diagnosis.step == 60


def test_a_rate_on_lines_of_its_own_is_not_a_record(put):
    lines = []
    for n in range(100):
        if n % 10 == 0:
            lines.append(f"step {n} | loss {4 - n / 100:.2f} | lr 0.001 | tokens 900")
        lines.append(f"step {n} | lr 0.001")
    assert len(stabdiag.read(put("\n".join(lines) + "\n")).series["loss"]) == 10


def epochs_with_bests(name, loss_at, *, best="loss"):
    """Return epochs that end on a line about the best model so far, if they improved."""
    lines, lowest = [], 9.0
    for epoch in range(40):
        loss = loss_at(epoch)
        lines.append(f"Epoch {epoch}\n  Train - {name}: {loss:.4f}, KL: 2.6, acc: 91.5%")
        if loss < lowest:
            lowest = loss
            lines.append(f"  -> Saved best ({best}: {loss + 0.03:.4f})")
    return "\n".join(lines) + "\n"


def fails_at_half(epoch):
    return 2.5 - epoch / 20 if epoch < 20 else float("nan")


@pytest.mark.parametrize("best", ["loss", "val loss"])
@pytest.mark.parametrize("name", ["CE", "MSE", "loss"])
def test_the_losses_of_saved_models_are_not_those_of_the_training(put, name, best):
    series = stabdiag.read(put(epochs_with_bests(name, fails_at_half, best=best))).series
    assert len(series["loss"]) == 40
    assert series["loss"].values[1] == 2.45


def test_a_log_with_the_losses_of_the_best_models_only_has_no_verdict(put):
    report = stabdiag.diagnose(put(epochs_with_bests("foo", fails_at_half)))
    assert report.diagnosis.slug == "partly-read"


def test_losses_that_are_saved_with_each_epoch_are_read(put):
    lines = (f"Epoch {epoch}: saved model, loss: {2.5 - epoch / 20}" for epoch in range(40))
    assert stabdiag.diagnose(put("\n".join(lines) + "\n")).diagnosis.slug == "healthy"


@pytest.mark.parametrize(
    ("line", "role"),
    [
        ("INFO:main:AUC: {score}\tpAUC: 60.5", "score/AUC"),
        ("  mIoU = {score}, time 12.5 s", "score/mIoU"),
        ("Dice: {score}", "score/Dice"),
        ("[12:00:00] * BLEU {score}", "score/BLEU"),
        ("{{'wer': {score}}}", "score/wer"),
    ],
)
@pytest.mark.parametrize("form", ["Epoch-{n}\tloss:{loss}\n", "epoch {n}: loss {loss}\n"])
def test_a_score_on_a_line_of_its_own_is_of_the_epoch_before_it(put, line, role, form):
    text = "".join(
        form.format(n=n, loss=4 - n / 16)
        + (line.format(score=50 + n / 8) + "\n" if n % 5 == 0 else "")
        for n in range(1, 31)
    )
    series = stabdiag.read(put(text)).series
    assert series[role].steps.tolist() == [5, 10, 15, 20, 25, 30]
    assert series[role].values.tolist() == [50 + n / 8 for n in range(5, 35, 5)]
    assert len(series["loss"].values) == 30


@pytest.mark.parametrize("line", ["best AUC: {}", "AUC weight: {}", "area {} accumulated", "k={}"])
def test_other_values_on_lines_of_their_own_are_not_scores(put, line):
    text = "".join(f"epoch {n}: loss {4 - n / 16}\n{line.format(n / 64)}\n" for n in range(1, 31))
    assert {*stabdiag.read(put(text)).series} == {"loss"}


def test_a_score_that_is_printed_once_is_a_final_result(put):
    text = "".join(f"epoch {n}: loss {4 - n / 16}\n" for n in range(1, 31)) + "AUC: 0.75\n"
    assert {*stabdiag.read(put(text)).series} == {"loss"}


@pytest.mark.parametrize(
    "label", ["{} Val  | ", "[{}] val: ", "INFO:main:{} - validation ", "12:00 {} eval: "]
)
def test_evaluations_of_several_data_sets_are_named_after_them(put, label):
    text = "".join(
        f"epoch {n}: loss {4 - n / 16}\n"
        f"{label.format('Image')}loss: {5 - n / 16}, Dice: {0.5 + n / 64}\n"
        f"{label.format('Video')}loss: {6 - n / 16}, Dice: {0.25 + n / 64}\n"
        for n in range(1, 21)
    )
    series = stabdiag.read(put(text)).series
    assert series["eval_loss"].values.tolist() == [5 - n / 16 for n in range(1, 21)]
    assert series["score/val Image Dice"].values.tolist() == [0.5 + n / 64 for n in range(1, 21)]
    assert series["score/val Video Dice"].values[0] == 0.25 + 1 / 64


def test_the_mean_of_the_scores_of_several_machines_counts(put):
    machines = ("fan", "pump", "valve")
    text = "".join(
        f"epoch {n}: loss {4 - n / 16}\n"
        + "".join(f"{name}\t\tAUC: {n + at / 8}\n" for at, name in enumerate(machines))
        + f"Total average:\t\tAUC: {n + 0.125}\n"
        for n in range(1, 21)
    )
    series = stabdiag.read(put(text)).series
    assert {*series} == {"loss", "score/Total average AUC"}
    assert series["score/Total average AUC"].values[0] == 1.125


@pytest.mark.parametrize("label", ["Batch {}", "fold {}", "best {}", "saved"])
def test_numbered_evaluations_are_not_named_after_their_numbers(put, label):
    text = "".join(
        f"epoch {n}: loss {4 - n / 16}\n"
        + "".join(f"{label.format(at)}: val loss: {5 - n / 16 + at / 8}\n" for at in range(3))
        for n in range(1, 21)
    )
    assert "eval_loss" not in stabdiag.read(put(text)).series


def test_words_after_that_of_an_evaluation_are_no_training_loss(put):
    lines = (
        f"Epoch: {n}, Training Loss: {4 - n / 10}, Validation Loss: nan, "
        "Validation Regression Loss nan, Validation Classification Loss: nan\n"
        for n in range(12)
    )
    series = stabdiag.read(put("".join(lines))).series
    assert series["loss"].column == "Training Loss"
    assert series["eval_loss"].column == "Validation Loss"


@pytest.mark.parametrize(
    "line",
    [
        "epoch {n}, trainset loss = {loss}, valset loss = {evaluated}",
        "epoch {n} trainset: loss {loss} acc 0.5 | testset: loss {evaluated} acc 0.25",
        "epoch {n} (trainset) loss: {loss}\nepoch {n} (valset) loss: {evaluated}",
        "epoch {n} loss_trainset={loss} loss_devset={evaluated}",
    ],
)
def test_the_word_for_a_set_may_end_with_set(put, line):
    text = "".join(
        line.format(n=n, loss=4 - n / 16, evaluated=5 - n / 16) + "\n" for n in range(1, 21)
    )
    series = stabdiag.read(put(text)).series
    assert series["loss"].values.tolist() == [4 - n / 16 for n in range(1, 21)]
    assert series["eval_loss"].values.tolist() == [5 - n / 16 for n in range(1, 21)]


@pytest.mark.parametrize("name", ["Valid. time", "Validation time", "Test duration"])
def test_the_time_of_an_evaluation_names_the_split_of_its_loss(put, name):
    text = "".join(
        f"* Epoch {n}:\n-> Training time: 85.3s, loss = {1 / n:.4f}\n"
        f"-> {name}: 3.02s, loss: {1.1 / n:.4f}\n"
        for n in range(1, 12)
    )
    history = stabdiag.read(put(text))
    assert history.logged("loss").values[-1] == 0.0909
    assert history.logged("eval_loss").values[-1] == 0.1


BATCHES = {
    "a total of its own": ("Epoch {e} [{b}/6] train_loss: {x}", "Epoch {e} [{b}/4] val_loss: {x}"),
    "in one list": ("({e}, {b}/6) training loss: {x}", "({e}, {b}/4) validation loss: {x}"),
    "joined positions": ("[{e}/9-{b}/6] training loss: {x}", "[{e}/9-{b}/4] validation loss: {x}"),
    "a colon between them": ("[{e}/9:{b}/6] train loss: {x}", "[{e}/9:{b}/4] val loss: {x}"),
    "an underscore": ("({e}/9_{b}/6) train loss {x}", "({e}/9_{b}/4) valid loss {x}"),
}


@pytest.mark.parametrize("lines", BATCHES.values(), ids=BATCHES)
def test_the_last_batch_of_an_evaluation_counts(put, lines):
    train, evaluation = lines
    text = "".join(
        "".join(train.format(e=e, b=b, x=f"{3 - e / 4 - b / 100:.3f}") + "\n" for b in range(1, 7))
        + "".join(
            evaluation.format(e=e, b=b, x=f"{4 - e / 4 - b / 100:.3f}") + "\n" for b in (1, 2, 3, 4)
        )
        for e in range(1, 5)
    )
    series = stabdiag.read(put(text)).series
    assert series["loss"].steps.tolist() == [*range(1, 25)]
    assert series["eval_loss"].values.tolist() == [4 - e / 4 - 0.04 for e in range(1, 5)]


@pytest.mark.parametrize("split", ["valid", "val", "test", "dev", "eval", "validation"])
@pytest.mark.parametrize("between", [" ", ", ", " | "])
@pytest.mark.parametrize("sign", [": ", " = ", " "])
def test_a_split_in_small_letters_belongs_to_the_name_behind_it(put, split, between, sign):
    text = "".join(
        f"Epoch: {n}, Train Loss{sign}{2.5 - n / 8:.3f}{between}"
        f"{split} Loss{sign}{2.6 - n / 9:.3f}\n"
        for n in range(1, 9)
    )
    series = stabdiag.read(put(text)).series
    assert series["loss"].values.tolist() == [2.5 - n / 8 for n in range(1, 9)]
    assert series["eval_loss"].values[0] == 2.489


@pytest.mark.parametrize("losses", [2, 8])
def test_an_evaluation_of_coqui_at_the_end_is_read(put, losses):
    names = [f"G_{n}_loss" for n in range(losses)]
    step = "   --> STEP: {n}/90 -- GLOBAL_STEP: {n}\n"
    block = "".join(f"     | > {name}: 3.5  (3.5)\n" for name in names)
    block += "     | > loss_0: {loss}  (3.5)\n     | > current_lr_0: 0.0001 \n\n"
    evaluation = " --> EVAL PERFORMANCE\n     | > avg_loader_time: 0.00034 (-0.00003)\n"
    evaluation += "".join(f"     | > avg_{name}: 4.5 (+0.00000)\n" for name in names)
    evaluation += "     | > avg_loss_0: {loss} (+0.00000)\n\n"
    text = "".join(
        (step + block).format(n=n, loss=4 - n / 100)
        + (evaluation.format(loss=5 - n / 100) if n % 50 == 0 else "")
        for n in range(25, 125, 25)
    )
    report = stabdiag.diagnose(put(text))
    assert report.diagnosis.slug == "insufficient-data"
    assert report.history.logged("eval_loss").values.tolist() == [4.5, 4]
