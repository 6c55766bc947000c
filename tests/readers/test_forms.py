"""A log that changes its format is read on, or the remainder is reported as not read."""

import numpy as np
import pytest

import stabdiag

CHANGE, STEPS = 30, 60


def loss_at(step):
    return "NaN" if step > 50 else f"{2.5 - step / 100:.2f}"


def json_line(step):
    return f'{{"step": {step}, "loss": {loss_at(step)}, "lr": 0.1}}'


def csv_line(step):
    return f"{step},{loss_at(step)},0.1"


def text_line(step):
    return f"step: {step} loss: {loss_at(step)} lr: 0.1"


JSON = {
    "renamed": lambda n: f'{{"step": {n}, "train_loss": {loss_at(n)}, "lr": 0.1}}',
    "capitalized": lambda n: f'{{"STEP": {n}, "LOSS": {loss_at(n)}, "LR": 0.1}}',
    "total": lambda n: f'{{"step": {n}, "total_loss": {loss_at(n)}, "lr": 0.1}}',
    "cross-entropy": lambda n: f'{{"step": {n}, "train/ce": {loss_at(n)}, "lr": 0.1}}',
    "iteration": lambda n: f'{{"iteration": {n}, "loss": {loss_at(n)}, "lr": 0.1}}',
    "batch loss": lambda n: f'{{"itr": {n}, "batch_loss": {loss_at(n)}, "lr": 0.1}}',
    "nested event": lambda n: f'{{"type": "x", "data": {{"step": {n}, "loss": {loss_at(n)}}}}}',
    "position": lambda n: f'{{"step": "{n}/60", "loss": {loss_at(n)}, "lr": 0.1}}',
    "nested": lambda n: f'{{"step": {n}, "metrics": {{"loss": {loss_at(n)}, "lr": 0.1}}}}',
    "nested value": lambda n: f'{{"step": {n}, "loss": {{"value": {loss_at(n)}}}, "lr": 0.1}}',
    "trailing comma": lambda n: f'{{"step": {n}, "loss": {loss_at(n)}, "lr": 0.1,}}',
    "Python dict": lambda n: f"{{'step': {n}, 'loss': {loss_at(n)}, 'lr': 0.1}}",
    "quoted": lambda n: f'{{"step": "{n}", "loss": "{loss_at(n)}", "lr": "0.1"}}',
}
CSV = {
    "semicolons": lambda n: f"{n};{loss_at(n)};0.1",
    "tabs": lambda n: f"{n}\t{loss_at(n)}\t0.1",
    "header": lambda n: ("step,lr,loss\n" if n == CHANGE + 1 else "") + f"{n},0.1,{loss_at(n)}",
    "header renamed": lambda n: (
        ("step,train_loss,lr\n" if n == CHANGE + 1 else "") + f"{n},{loss_at(n)},0.1"
    ),
    "header with semicolons": lambda n: (
        ("step;loss;lr\n" if n == CHANGE + 1 else "") + f"{n};{loss_at(n)};0.1"
    ),
    "position": lambda n: f"{n}/60,{loss_at(n)},0.1",
    "blanks": lambda n: f"{n} {loss_at(n)} 0.1",
}
TEXT = {
    "capitalized": lambda n: f"Step: {n} Loss: {loss_at(n)} LR: 0.1",
    "upper case": lambda n: f"STEP: {n} LOSS: {loss_at(n)} LR: 0.1",
    "equals": lambda n: f"step={n} loss={loss_at(n)} lr=0.1",
    "renamed": lambda n: f"step: {n} train_loss: {loss_at(n)} lr: 0.1",
    "reordered": lambda n: f"lr: 0.1 loss: {loss_at(n)} step: {n}",
    "JSON": json_line,
    "parentheses": lambda n: f"step({n}) loss({loss_at(n)}) lr(0.1)",
}
FORMS = [
    *(("", json_line, form) for form in JSON.values()),
    *(("step,loss,lr\n", csv_line, form) for form in CSV.values()),
    *(("", text_line, form) for form in TEXT.values()),
]
NAMES = [*(f"json {name}" for name in JSON), *(f"csv {name}" for name in CSV)]
NAMES += [f"text {name}" for name in TEXT]

# Unreadable changes: a row of another width, a value in another unit, lines without a step.
LEFT_OUT = [
    ("step,loss,lr\n", csv_line, lambda n: f"{n},{loss_at(n)},0.1,7"),
    ("step,loss,lr\n", csv_line, lambda n: f"{n},{loss_at(n)}"),
    ("step,loss,lr\n", csv_line, lambda n: f"{n},{loss_at(n).lower()} nats,0.1"),
    ("", text_line, csv_line),
    ("", text_line, lambda n: f"{n:6d}  {loss_at(n)}  1.0e-01"),
    ("", text_line, lambda n: f"step: {n} loss: {loss_at(n)}nats lr: 0.1"),
    ("", json_line, lambda n: f'{{"loss": {loss_at(n)}, "lr": 0.1}}'),
    ("step,loss,lr\n", csv_line, lambda n: f"{n}:{loss_at(n)}:0.1"),
]


@pytest.fixture
def written(tmp_path):
    def write(header, before, after):
        steps = range(1, STEPS + 1)
        lines = [before(n) if n <= CHANGE else after(n) for n in steps]
        path = tmp_path / "run.log"
        path.write_text(header + "\n".join(lines) + "\n")
        return path

    return write


@pytest.mark.parametrize(("header", "before", "after"), FORMS, ids=NAMES)
def test_a_loss_continues_in_another_format(written, header, before, after):
    loss = stabdiag.read(written(header, before, after)).series["loss"]
    assert loss.steps.tolist() == [*range(1, STEPS + 1)]
    np.testing.assert_allclose(loss.values, [float(loss_at(n)) for n in range(1, STEPS + 1)])


@pytest.mark.parametrize(("header", "before", "after"), LEFT_OUT, ids=range(len(LEFT_OUT)))
def test_an_unreadable_change_of_format_is_not_healthy(written, header, before, after):
    assert stabdiag.diagnose(written(header, before, after)).diagnosis.slug != "healthy"


def test_pairs_of_names_and_values_continue_a_loss(written):
    losses = [2.5 - n / 100 for n in range(1, STEPS + 1)]
    pairs = written("", json_line, lambda n: f'[["step", {n}], ["loss", {losses[n - 1]}]]')
    loss = stabdiag.read(pairs).series["loss"]
    np.testing.assert_allclose(loss.values, losses)


def test_a_value_with_a_unit_is_left_out_and_not_nan(written):
    lines = [f"{n},2.{99 - n}{' nats' * (n > 30)},0.1" for n in range(60)]
    path = written("", json_line, json_line)
    path.write_text("step,loss,lr\n" + "\n".join(lines))
    report = stabdiag.diagnose(path)
    assert report.diagnosis.slug == "partly-read"
    assert np.isfinite(report.history.series["loss"].values).all()


def test_a_cell_with_blanks_in_brackets_is_one_cell(written):
    rows = [f"{n:6d}  {2.5 - n / 100:.2f}  1e-4" for n in range(30)]
    rows += [f"{n:6d}  tensor(nan, device='cuda:0')  1e-4" for n in range(30, 60)]
    path = written("", json_line, json_line)
    path.write_text("  step  loss  lr\n" + "\n".join(rows))
    loss = stabdiag.read(path).series["loss"]
    assert len(loss) == 60
    assert np.isnan(loss.values[30:]).all()


def test_times_below_the_records_are_not_left_out(written):
    path = written("", csv_line, csv_line)
    times = "\n".join(f"0:0{n}:12.5" for n in range(10))
    rows = "\n".join(f"{n},{2.5 - n / 100},0.1" for n in range(60))
    path.write_text(f"step,loss,lr\n{rows}\n{times}\n")
    assert stabdiag.diagnose(path).diagnosis.slug != "partly-read"


def test_a_nan_in_records_without_a_step_does_not_hide_the_others(written):
    def nested(n):
        loss = "NaN" if n > 50 else 2.0
        return f'{{"type": "train", "other": {{"step": {n}, "loss": {loss}}}}}'

    assert len(stabdiag.read(written("", json_line, nested)).series["loss"]) == CHANGE


def test_a_matrix_below_the_records_is_not_left_out(written):
    path = written("", text_line, text_line)
    matrix = "\n".join(f"{n * 3} {n * 7} {n}" for n in range(10))
    path.write_text("\n".join(f"step: {n} loss: 2.5 lr: 0.1" for n in range(60)) + "\n" + matrix)
    assert stabdiag.diagnose(path).diagnosis.slug != "partly-read"


REPORT = "".join(
    f"           {n}       0.97      0.98      0.9{n}       98{n}\n" for n in range(10)
)


TABS = "".join(f"{n}\t0.{n}1\t0.{n}2\n" for n in range(12))


@pytest.mark.parametrize(
    ("line", "table"), [(text_line, REPORT), (text_line, TABS), (json_line, REPORT)]
)
def test_scores_of_each_class_below_the_records_are_not_left_out(written, line, table):
    path = written("", line, line)
    lines = [line(n).replace("NaN", "1.9") for n in range(1, 60)]
    path.write_text("\n".join(lines) + f"\n              precision    recall\n{table}")
    assert stabdiag.diagnose(path).diagnosis.slug != "partly-read"


def test_a_new_name_is_an_event(written):
    history = stabdiag.read(written("", json_line, JSON["renamed"]))
    assert any("'loss' is named 'train_loss'" in event.message for event in history.events)


def test_losses_of_two_stages_are_not_joined(written):
    lines = [f'{{"step": {n}, "mlm_loss": 2.5, "lr": 0.1}}' for n in range(30)]
    lines += [f'{{"step": {n}, "cls_loss": 0.5, "lr": 0.1}}' for n in range(30, 60)]
    path = written("", json_line, json_line)
    path.write_text("\n".join(lines))
    assert len({*stabdiag.read(path).series["loss"].values.tolist()}) == 1


def test_a_loss_logged_with_another_is_not_its_continuation(written):
    path = written("", lambda n: f'{{"step": {n}, "loss": 2.5, "total_loss": 3.5}}', json_line)
    assert not any("is called" in event.message for event in stabdiag.read(path).events)


def test_the_loss_in_a_sentence_continues_the_loss(written):
    path = written("", text_line, text_line)
    lines = [f"step {n} loss {3 - n / 60:.4f} lr 0.1" for n in range(60)]
    lines += [f"At step {n} the loss was {3 - n / 60:.4f}." for n in range(60, 90)]
    path.write_text("\n".join(lines))
    assert len(stabdiag.read(path).series["loss"]) == 90


def test_the_best_model_below_json_lines_is_not_left_out(written):
    path = written("", json_line, json_line)
    lines = [f'{{"step": {n}, "loss": {3 - n / 60:.4f}}}' for n in range(90)]
    path.write_text("\n".join([*lines, "Best model saved (epoch 12, loss 1.5121)."]))
    assert stabdiag.diagnose(path).diagnosis.slug == "healthy"
