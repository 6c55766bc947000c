"""A log that continues in words below its last record."""

import json

import pytest

import stabdiag

LOSSES = [round(0.5 + 2 / (n + 1), 4) for n in range(30)]
HEADS = {
    "text": [f"step {5 * n} loss {loss}" for n, loss in enumerate(LOSSES)],
    "bars": [f"{5 * n}/900 [00:10<00:20, 2.1it/s, loss={loss}]" for n, loss in enumerate(LOSSES)],
    "json": [json.dumps({"step": 5 * n, "loss": loss}) for n, loss in enumerate(LOSSES)],
    "csv": ["step,loss", *(f"{5 * n},{loss}" for n, loss in enumerate(LOSSES))],
}


def diagnosis(put, head, *lines):
    return stabdiag.diagnose(put("\n".join([*HEADS[head], *lines]))).diagnosis


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(
    "line",
    [
        "at 150 we are, and it costs nan",
        "150: it was NaN",
        "the cost of iteration 150 came to inf",
        "150 ... nan",
        "batch no. 150 gave us a NaN again",
        "nan (150)",
        "150 nan",
        "150 inf nan",
    ],
)
def test_a_line_that_counts_on_and_is_nan_is_not_ignored(put, head, line):
    assert diagnosis(put, head, line).severity in ("warning", "error")


@pytest.mark.parametrize("head", ["text", "bars"])
def test_lines_that_count_on_in_the_same_strides_are_not_ignored(put, head):
    lines = [f"{n} is where we are, {n / 100:.2f} what it costs" for n in range(150, 190, 5)]
    assert diagnosis(put, head, *lines).slug == "partly-read"


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(
    "form",
    [
        "S{n} C{x}",
        "st{n} cs{x}",
        "c:{x},s:{n}",
        "step/{n}/cost/{x}",
        "step_{n}_cost_{x}",
        "wrote net_step{n}_cost{x}.pt",
        "step.....{n} cost.....{x}",
    ],
)
@pytest.mark.parametrize("is_lost", [False, True])
def test_counts_and_values_that_are_glued_to_words_are_not_ignored(put, head, form, is_lost):
    values = (("nan" if is_lost else f"{n / 100:.2f}", n) for n in range(150, 250, 5))
    lines = [form.format(n=n, x=x) for x, n in values]
    assert diagnosis(put, head, *lines).severity in ("warning", "error")


def test_epochs_above_lines_of_another_name_are_not_ignored(put):
    lines = [
        f"step {n}\n40/40 - 2s - criterion_b: {n / 100:.2f} - acc: 0.5" for n in range(150, 250, 5)
    ]
    assert diagnosis(put, "text", *lines).slug == "partly-read"


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(
    "lines",
    [
        [f"layer{n}.weight has {n}.5 k values" for n in range(1, 20)],
        [f"python3.{n} is installed" for n in range(8, 15)],
        ["Finished after 150 steps, val score nan for class 3"],
        ["nan_to_num was applied to 150 inputs"],
        ["no NaN in 150 batches"],
        ["filled 151 NaN values of the age"],
        ["space: Box(-inf, inf, (151,), float32)"],
        ["2026-01-02 03:04:05.152 - app - INFO - waiting at most: inf"],
        ["if it is nan at 150, stop"],
        ["Saved 3 files in 150.2 s: information.txt"],
        [f"class {n}: {n / 10:.1f}" for n in range(10)],
        [f"{n} images took {n / 10:.1f} s" for n in (200, 300, 310, 350, 400, 500, 600)],
    ],
)
def test_what_does_not_count_on_is_no_record(put, head, lines):
    assert diagnosis(put, head, *lines).slug != "partly-read"


@pytest.mark.parametrize("head", ["text", "bars"])
@pytest.mark.parametrize(
    "line",
    ["At 12 it had been nan, before the fix", "2024-03-05 15:00:10 done, 9000 examples, nan"],
)
def test_a_count_far_from_the_last_step_is_another(put, head, line):
    assert diagnosis(put, head, line).slug != "partly-read"


def test_a_reported_failure_is_read_once(put):
    report = stabdiag.diagnose(put("\n".join([*HEADS["text"], "at step 150 the loss was nan"])))
    assert [finding.slug for finding in report.findings] == ["nan-dtype-unknown"]


LOOPS = {
    "epochs": [f"round {n} of 90 done, cost came to {n / 100:.3f}" for n in range(31, 60)],
    "rows between colons": [
        "pass:cost:rate",
        *(f"{n}:{n / 9:.3f}:0.1" for n in range(150, 190, 5)),
    ],
    "rows between other signs": [f"{n}^{n / 9:.3f}^0.1" for n in range(150, 210, 5)],
    "rows of TeX": [f"{n} & {n / 9:.3f} & 0.1 \\\\" for n in range(150, 210, 5)],
    "decimal commas": [f"{n};{n / 90:.3f};0,1".replace(".", ",") for n in range(31, 60)],
    "batches of epochs": [
        f"pass {6 + n // 10} part {n % 10} gave {n / 100:.3f}" for n in range(40)
    ],
}
RESULTS = {
    "classes": [f"class {n} has {n / 100:.3f}" for n in range(40)],
    "two lists": [f"item {n % 20} has {n / 100:.3f}" for n in range(40)],
    "results of a test": [f"Test: batch {n} took {n / 100:.3f}" for n in range(30, 60)],
    "the best": [
        f"round {n} had {n / 100:.3f}" for n in (3, 7, 9, 30, 41, 42, 60, 80, 99, 130, 131, 150)
    ],
}


@pytest.mark.parametrize("lines", LOOPS.values(), ids=LOOPS)
def test_lines_of_a_loop_with_its_own_counter_are_not_ignored(put, lines):
    assert diagnosis(put, "text", *lines).slug == "partly-read"


@pytest.mark.parametrize("lines", RESULTS.values(), ids=RESULTS)
def test_lists_of_results_are_no_loop(put, lines):
    assert diagnosis(put, "text", *lines).slug != "partly-read"


def test_lines_that_are_between_records_as_well_are_no_loop(put):
    between = [f"round {n} took {n / 100:.3f}" for n in range(400)]
    mixed = [line for pair in zip(between, HEADS["text"], strict=False) for line in pair]
    assert (
        stabdiag.diagnose(put("\n".join([*mixed, *between[30:]]))).diagnosis.slug != "partly-read"
    )


@pytest.mark.parametrize("word", ["boom", "???", "💥nan", "[n/a, n/a]"])
def test_another_value_in_the_place_of_a_number_is_not_ignored(put, word):
    line = (
        "LOG Average objective function for 'output' for minibatches {}-{} is {} over 900 frames."
    )
    values = [*(-1.0 / (n + 1) for n in range(30)), word]
    lines = [line.format(10 * n, 10 * n + 9, value) for n, value in enumerate(values)]
    assert stabdiag.diagnose(put("\n".join(lines))).diagnosis.severity == "warning"


@pytest.mark.parametrize("word", ["boom", "?", "lost it"])
@pytest.mark.parametrize(
    "line",
    [
        "Epoch {}: train_loss = {}, val_loss = 1.2",
        "[{}]\ttrain-logloss:{}\tval-logloss:1.3",
        "│ {:4} │ {:>8} │ 1e-4 │",
    ],
)
def test_a_word_for_one_of_several_values_is_not_ignored(put, line, word):
    table = line.startswith("│")
    head = ["│ epoch │ loss │ lr │"] if table else []
    values = [*(round(2 - n / 50, 3) for n in range(30)), *[word] * 10]
    lines = [line.format(n, value) for n, value in enumerate(values)]
    report = stabdiag.diagnose(put("\n".join([*head, *lines])))
    assert report.diagnosis.severity in ("warning", "error")


def test_lines_below_tables_that_name_their_steps_otherwise_are_not_ignored(put):
    rule = "-" * 34
    tables = [
        f"{rule}\n| time/              |          |\n|    total_timesteps | {2048 * (n + 1):<8} |\n"
        f"| train/             |          |\n|    loss            | {loss:<8} |\n{rule}"
        for n, loss in enumerate(LOSSES)
    ]
    lines = [f"10:{n} | batch    {n} | cost {n / 9:.3f} | 2.5e-04" for n in range(31, 59)]
    path = put("\n".join([*tables, *lines]))
    assert stabdiag.diagnose(path).diagnosis.severity in ("warning", "error")


def test_lines_of_another_form_with_steps_are_not_the_end_of_the_records(put):
    blocks = [f"---\nstep: {n}\ntrain:\n  loss: {loss}" for n, loss in enumerate(LOSSES)]
    lines = [f"step {n} - mse: {n / 9:.3f} - mae: 0.{n}" for n in range(30, 60)]
    assert stabdiag.diagnose(put("\n".join([*blocks, *lines]))).diagnosis.slug != "healthy"


@pytest.mark.parametrize("head", ["text", "bars"])
@pytest.mark.parametrize("form", ["[{n}/14] cost: {v}", "iteration {n} nll {v}"])
def test_another_training_below_is_not_ignored(put, head, form):
    lines = [form.format(n=n, v=f"{1.6**n:.3f}") for n in range(1, 15)]
    assert diagnosis(put, head, *lines).slug in ("partly-read", "divergence-unexplained")


@pytest.mark.parametrize("head", ["text", "bars"])
@pytest.mark.parametrize(
    "form", ["Epoch {n} took {v} s", "epoch {n} ppl {v}", "iteration {n} peak memory {v} GB"]
)
def test_a_list_of_each_epoch_below_is_a_summary(put, head, form):
    lines = [form.format(n=n, v=f"{12 + n / 8:.3f}") for n in range(1, 15)]
    assert diagnosis(put, head, *lines).slug != "partly-read"
