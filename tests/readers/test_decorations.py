"""What launchers, viewers and posts add to each line of a log."""

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import NoUsableRecord

LOSSES = [2.5 - n / 50 for n in range(40)]

LOGS = {
    "epochs": [
        f"Epoch {n + 1}/40 - train_loss: {loss:.4f} - val_acc: 0.5" for n, loss in enumerate(LOSSES)
    ],
    "keras": [
        line
        for n, loss in enumerate(LOSSES)
        for line in (f"Epoch {n + 1}/40", f"9/9 [====] - 4s 40ms/step - loss: {loss:.4f}")
    ],
    "table": ["epoch      loss   val_loss"]
    + [f"{n + 1:5d} {loss:9.4f} {loss:9.4f}" for n, loss in enumerate(LOSSES)],
    "csv": ["epoch,train_loss,lr"] + [f"{n + 1},{loss:.4f},0.1" for n, loss in enumerate(LOSSES)],
    "darknet": [
        f" {n + 1}: {loss:.6f}, {loss:.6f} avg loss, 0.001000 rate, 2.05 seconds, 64 images"
        for n, loss in enumerate(LOSSES)
    ],
    "boosting": [f"[{n + 1}]\ttraining's l2: {loss:.5f}" for n, loss in enumerate(LOSSES)],
}

LABELS = {
    "docker": "2024-02-11T09:{n:02d}:03.482913447Z ",
    "compose": "trainer_1  | ",
    "kubernetes": "[pod/train-7f9c/trainer] ",
    "actions": "train\tRun training\t2024-02-11T09:{n:02d}:03.482Z ",
    "journal": "Feb 11 09:{n:02d}:03 node-03 train.sh[41213]: ",
    "ray": "(TrainTrainable pid=41213) ",
    "torchrun": "[rank0]: ",
    "line numbers": "{n:6d}  ",
    "numbers and a bar": "{n:4d} | ",
    "searched": "logs/train.log:{n}:",
    "list": "- ",
    "quotation": "> > ",
    "comment": "# ",
    "comment of C": "// ",
    "loguru": "2024-02-11 09:00:{n:02d}.482 | INFO     | __main__:train:214 - ",
    "parentheses": "(2024-02-11 09:00:{n:02d}.482 INFO) - train: ",
    "brackets": "[2024-02-11 09:00:{n:02d}] [INFO] trainer.py:64 - ",
    "a name and a level": "2024-02-11 09:00:{n:02d},482 | trainer | INFO | ",
    "absl": "I0211 09:00:{n:02d}.482913 140168988 train.py:115] ",
    "indented": "    ",
}


@pytest.fixture
def read(tmp_path):
    def read(text):
        log = tmp_path / "run.log"
        log.write_text(text, encoding="utf-8")
        return stabdiag.read(log)

    return read


@pytest.mark.parametrize("label", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("lines", LOGS.values(), ids=LOGS)
def test_a_label_on_each_line(read, lines, label):
    minutes = [f"{label.format(n=n % 60)}{line}\n" for n, line in enumerate(lines, 3)]
    numbered = [f"{label.format(n=n)}{line}\n" for n, line in enumerate(lines, 3)]
    loss = read("".join(minutes if ":{n:02d}" in label else numbered)).series["loss"]
    np.testing.assert_allclose(loss.values, LOSSES, atol=1e-4)
    # A label makes the first column of a CSV file a text: its rows are counted.
    first = loss.steps[0] if lines is LOGS["csv"] else 1
    assert loss.steps.tolist() == list(range(first, first + 40))


SHOWN = {
    "colors": "[32m{line}[0m\n",
    "colors with a caret": "^[[32m{line}^[[0m\n",
    "carriage returns": "{line}^M\n",
    "breaks": "{line}<br>\n",
    "backticks": "`{line}`\n",
    "two blanks": "{line}  \n",
    "a border": "│ {line} │\n",
    "no-break spaces": "{line}\n",
    "strings": "    '{line}',\n",
}


@pytest.mark.parametrize("form", SHOWN)
@pytest.mark.parametrize("lines", [LOGS["epochs"], LOGS["keras"]], ids=["epochs", "keras"])
def test_signs_that_a_page_shows(read, lines, form):
    text = "".join(SHOWN[form].format(line=line) for line in lines)
    text = text.replace(" ", "\u00a0") if form == "no-break spaces" else text
    loss = read(text).series["loss"]
    assert loss.values.tolist() == pytest.approx(LOSSES)
    assert loss.steps.tolist() == list(range(1, 41))


@pytest.mark.parametrize("end", ["<br/>", "^M", "\\n", "\\r\\n"])
def test_line_ends_that_a_page_shows(read, end):
    loss = read(end.join(LOGS["epochs"])).series["loss"]
    assert loss.values.tolist() == pytest.approx(LOSSES)


def test_signs_of_html(read):
    lines = [f"{{'loss': {loss:.2f}, 'epoch': {n / 10}}}" for n, loss in enumerate(LOSSES)]
    loss = read("\n".join(lines).replace("'", "&#39;")).series["loss"]
    assert loss.values.tolist() == pytest.approx(LOSSES)


def test_the_lines_of_a_difference_of_files(read):
    head = "diff --git a/log.csv b/log.csv\n--- /dev/null\n+++ b/log.csv\n@@ -0,0 +1,41 @@\n"
    loss = read(head + "".join(f"+{line}\n" for line in LOGS["csv"])).series["loss"]
    assert loss.values.tolist() == pytest.approx(LOSSES)


def test_a_step_at_the_start_of_each_line_is_not_removed(read):
    loss = read("".join(f"{n}: loss={loss}\n" for n, loss in enumerate(LOSSES, 7))).series["loss"]
    assert loss.steps.tolist() == list(range(7, 47))


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"[pod/web-7f9c/nginx] GET /page/{n} 200\n" for n in range(40)),
        "".join(f"> line {n} of a mail about the training\n" for n in range(40)),
        "".join(f"- learning rate {n}\n- batch size {n}\n" for n in range(3)),
    ],
)
def test_labeled_lines_without_a_log_are_refused(read, text):
    with pytest.raises(NoUsableRecord):
        read(text)


def test_the_label_of_a_process_hides_no_format(read):
    """pm2 writes it, also before lines whose values look like losses."""
    region = "Region 82 Avg IOU: -nan, Class: -nan, Obj: -nan, No Obj: 0.1, .5R: -nan, count: 0"
    lines = [part for line in LOGS["darknet"] for part in (region, line)]
    loss = read("".join(f"0|yolo     | {line}\n" for line in lines)).series["loss"]
    assert (
        loss.values.tolist()
        == read("".join(f"{line}\n" for line in lines)).series["loss"].values.tolist()
    )


def test_removed_labels_are_reported(read):
    history = read("".join(f"[pod/train-7f9c/x] {line}\n" for line in LOGS["darknet"]))
    assert any("labels" in event.message for event in history.events)
    history = read("".join(f"{line}\n" for line in LOGS["darknet"]))
    assert not any("labels" in event.message for event in history.events)


@pytest.mark.parametrize(
    "label",
    [
        *("worker-1  | ", "[rank0]: ", "INFO:root:", "0: ", "(pid=123) ", "rank0: ", "INFO: "),
        *("[0]<stdout>:", "(Worker pid=1, ip=1.2.3.4) ", "2026-01-01 00:00:00 "),
    ],
)
def test_a_labeled_table_keeps_its_first_column(tmp_path, label):
    lines = ["step,loss,acc", *(f"{n},{2.5 - n / 10},0.5" for n in range(10, 20))]
    path = tmp_path / "run.csv"
    path.write_text("".join(f"{label}{line}\n" for line in lines))
    assert stabdiag.read(path).series["loss"].steps.tolist() == [*range(10, 20)]


def test_a_first_column_of_names_is_kept(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("run: a,loss\n" + "".join(f"run: {n},{2.5 - n / 10}\n" for n in range(9)))
    assert stabdiag.read(path).series["loss"].values[0] == 2.5


NUMBERED = {
    "vim": "{n:4d} {line}",
    "cat -n": "{n:6d}\t{line}",
    "grep -n": "{n}:{line}",
    "a listing": "{n:4d}: {line}",
    "GitHub": "L{n}: {line}",
    "a difference": "{n:5d} + {line}",
}
NUMBERED_LOGS = {
    "trainer": [f"{{'loss': {3 - n / 10}, 'grad_norm': 1.5, 'epoch': 0.{n}}}" for n in range(1, 9)],
    "keras": [
        line
        for n in range(1, 9)
        for line in (
            f"Epoch {n}/8",
            f"90/90 [=====] - 1s 9ms/step - loss: {3 - n / 10} - acc: 0.{n}",
        )
    ],
    "table": [
        "  epoch    train_loss    valid_loss    dur",
        "-------  ------------  ------------  -----",
        *(f"{n:7d}  {3 - n / 10:12.4f}  {3.5 - n / 10:12.4f}  1.{n}7" for n in range(1, 9)),
    ],
    "words": [f"step {n} loss {3 - n / 10} lr 0.01" for n in range(1, 9)],
}


@pytest.mark.parametrize("numbers", NUMBERED.values(), ids=NUMBERED)
@pytest.mark.parametrize("lines", NUMBERED_LOGS.values(), ids=NUMBERED_LOGS)
def test_the_numbers_of_lines_are_no_values_and_no_ranks(tmp_path, numbers, lines):
    text = "\n".join(numbers.format(n=n, line=line) for n, line in enumerate(lines, start=5))
    (tmp_path / "run.log").write_text(text)
    loss = stabdiag.read(tmp_path / "run.log").series["loss"]
    np.testing.assert_allclose(loss.values, [3 - n / 10 for n in range(1, 9)])


@pytest.mark.parametrize("lines", NUMBERED_LOGS.values(), ids=NUMBERED_LOGS)
def test_the_label_of_a_notebook_cell_is_no_part_of_a_log(tmp_path, lines):
    (tmp_path / "run.log").write_text("Out[12]: " + "\n".join(lines))
    loss = stabdiag.read(tmp_path / "run.log").series["loss"]
    np.testing.assert_allclose(loss.values, [3 - n / 10 for n in range(1, 9)])


def test_the_first_line_of_each_rank_is_one_record(tmp_path):
    text = "\n".join(
        f"{rank}: {{'loss': {4 - n}.5, 'epoch': 0.{n}}}" for n in (1, 2, 3) for rank in range(4)
    )
    (tmp_path / "run.log").write_text(text)
    assert stabdiag.read(tmp_path / "run.log").series["loss"].values.tolist() == [3.5, 2.5, 1.5]


@pytest.mark.parametrize("form", ["{n} | {v} | {a}", "{n} | {c} | 0.1", "[{n}] [{v}] [{a}]"])
def test_a_value_is_no_label(tmp_path, form):
    log = tmp_path / "train.log"
    log.write_text(
        "".join(
            form.format(n=n, v=loss, a=0.25 + n / 80, c=2.3026) + "\n"
            for n, loss in enumerate(LOSSES, 1)
        )
    )
    series = stabdiag.diagnose(log).history.series
    if "loss" in series:
        assert series["loss"].values.tolist() == LOSSES
        assert series["loss"].steps.tolist() == list(range(1, 41))
    else:
        assert "{c}" in form


@pytest.mark.parametrize("form", ["{n}: {v}", "{n} -> {v}", "{n}) {v}"])
def test_a_count_in_front_of_a_value_is_a_step(tmp_path, form):
    log = tmp_path / "train.log"
    log.write_text("".join(form.format(n=n, v=loss) + "\n" for n, loss in enumerate(LOSSES, 7)))
    assert stabdiag.diagnose(log).history.series["loss"].steps.tolist() == list(range(7, 47))


def test_a_frame_around_columns_may_be_cut(tmp_path):
    rows = ["step  loss    lr", *(f"{n}0    {4 - n}.125   0.001" for n in range(1, 4))]
    framed = "\n".join(f"│{row:24}│" for row in rows)
    (tmp_path / "run.log").write_text(f"{framed}\n│40    0.5     0.0")
    loss = stabdiag.read(tmp_path / "run.log").series["loss"]
    assert loss.values.tolist() == [3.125, 2.125, 1.125, 0.5]
    assert loss.steps.tolist() == [10, 20, 30, 40]
