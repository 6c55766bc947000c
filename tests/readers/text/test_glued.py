"""Bars and records that follow each other on one line."""

import math

import pytest

import stabdiag
from stabdiag.readers.text.lines.clean import LONGEST_TEXT_LINE, Text


@pytest.fixture
def read(tmp_path):
    def read(text):
        log = tmp_path / "train.log"
        log.write_text(text)
        return stabdiag.read(log)

    return read


def loss_at(number):
    return 2.5 - number / 100


def test_a_bar_begins_after_the_end_of_another_one(read):
    bar = "Epoch 3: {n:3d}%|████      | {n}/100 [00:{n:02d}<01:10,  2.15it/s, loss={loss:.2f}]"
    series = read("".join(bar.format(n=n, loss=loss_at(n)) for n in range(1, 60))).series["loss"]
    assert series.steps.tolist() == list(range(1, 60))
    assert series.values.tolist() == pytest.approx([loss_at(n) for n in range(1, 60)])


def test_a_bar_without_an_end_begins_after_a_comma(read):
    bar = "Epoch 0: {n:3d}%|██    | {n}/100 [2:19<7:15, 1.05s/it, loss={loss:.2f}, rate=19.00, "
    series = read("".join(bar.format(n=n, loss=loss_at(n)) for n in range(1, 60))).series["loss"]
    assert series.steps.tolist() == list(range(1, 60))


@pytest.mark.parametrize("form", ["{}, {}", "{} {}", "({}, {})", "{}: {}"])
@pytest.mark.parametrize("rate", ["9.87s/it", "2.15it/s"])
def test_a_count_with_its_value_next_to_a_bar_is_another_line(read, form, rate):
    bar = "{p:3d}%|##    | {n}/400 [{n:02d}:11<31:02, {rate}]"
    texts = [
        bar.format(p=n // 4, n=n, rate=rate) + form.format(n - 1, loss)
        for n, loss in zip((1, 21, 41), ("3.125", "2.75", "nan"), strict=True)
    ]
    series = read("Number of epochs = 1\n" + "\n".join(texts) + "\n").series["loss"]
    assert series.steps.tolist() == [0, 20, 40]
    assert math.isnan(series.values[-1])


def test_what_a_bar_counts_stays_next_to_it():
    line = b" 10%|#   | 4/40 [00:04<00:40, 1.0it/s]5 files of 12.5 MB\n"
    assert Text(line).data.count(b"\n") == 2


def test_values_after_a_blank_belong_to_the_bar_before_them():
    line = b"100%|##| 9/9 [00:01<00:00, 9.1it/s] train loss 0.5 100%|##| 3/3 [00:01<00:00, 3it/s]\n"
    assert Text(line).data.count(b"\n") == 2


@pytest.mark.parametrize(
    "record",
    [
        "Epoch {n}/40 - train_loss: {loss} - val_acc: 0.97",
        "step {n} | lr 1e-4 | loss {loss}",
        "[2024-02-11 09:00:{n:02d}] step {n} loss {loss} 12 images/s",
    ],
)
def test_records_without_line_ends(read, record):
    series = read("".join(record.format(n=n, loss=loss_at(n)) for n in range(1, 41))).series["loss"]
    assert series.steps.tolist() == list(range(1, 41))
    assert series.values.tolist() == [loss_at(n) for n in range(1, 41)]


def test_the_last_of_records_without_line_ends_may_be_nan(read):
    values = read("step 100 loss 2.3step 200 loss 2.1step 300 loss nan").series["loss"].values
    assert math.isnan(values[-1])
    assert values[:2].tolist() == [2.3, 2.1]


@pytest.mark.parametrize("name", ["val_loss_step=11.30", "10epoch:train:1-5batch", "global_step=4"])
def test_a_counter_within_a_name_does_not_begin_a_record(name):
    line = f"loss=1.5, {name}, lr=0.1, {name}\n".encode()
    assert Text(line).data == b"\n" + line


def test_lines_of_usual_length_are_not_searched():
    lines = b"loss 0.97Epoch 2\n" * 4
    assert Text(lines).data == b"\n" + lines


def test_line_numbers_do_not_count_the_separated_records():
    text = Text(b"step 1 loss 2.5step 2 loss 2.4step 3 loss 2.3\nstep 4 loss 2.2\n")
    starts = [text.data.index(b"step %d" % n) for n in (1, 2, 3, 4)]
    assert text.line_numbers(starts).tolist() == [1, 1, 1, 2]


def test_line_numbers_do_not_depend_on_the_length_of_values():
    value = b"<tf.Tensor: shape=(), dtype=float32, numpy=nan>"
    lines = b"".join(b"step %d loss %bstep %d loss 2.4\n" % (n, value, n + 1) for n in (1, 3, 5))
    text = Text(lines)
    starts = [text.data.index(b"step %d" % n) for n in (1, 2, 3, 4, 5, 6)]
    assert text.line_numbers(starts).tolist() == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    "record",
    [
        "idx: {n}loss: tensor({loss:.4f}, grad_fn=<NegBackward>)",
        "epoch:{n}loss:{loss:.4f}",
        "Epoch {n}Loss: {loss:.4f}acc: 0.5",
        "step={n}loss={loss:.4f}lr=0.001",
    ],
)
def test_a_name_may_follow_a_value_without_a_blank(read, record):
    lines = [record.format(n=n, loss=loss_at(n)) for n in range(60)]
    series = read("\n".join(lines)).series["loss"]
    assert series.values.tolist() == pytest.approx([loss_at(n) for n in range(60)])


def test_a_name_may_contain_a_digit(read):
    lines = [f"step {n}, head1loss: {loss_at(n)}, head2loss: 0.5" for n in range(60)]
    history = read("\n".join(lines))
    assert any("head1loss" in event.message for event in history.events)


LINES = [f"step {n} loss: {loss_at(n)}" for n in range(60)]


def test_only_the_beginning_of_a_very_long_line_is_read(read):
    page = "a value 1 and a word " * 40_000
    history = read("\n".join([*LINES[:30], page, *LINES[30:]]))
    assert history.series["loss"].values.tolist() == pytest.approx([loss_at(n) for n in range(60)])
    assert not history.left_out
    assert len(Text(page.encode()).data) <= LONGEST_TEXT_LINE


@pytest.mark.parametrize("end", ["\\n", "^M"])
def test_line_ends_that_are_shown_far_apart_end_no_record(end):
    page = ("x" * 3000 + end) * 100
    assert Text(page.encode()).data.count(b"\n") == 1


@pytest.mark.parametrize("end", ["\\n", "^M", "<br>"])
def test_line_ends_that_are_shown_below_a_picture_end_records(read, end):
    history = read("x" * 100_000 + end + end.join(LINES))
    assert history.series["loss"].values.tolist() == pytest.approx([loss_at(n) for n in range(60)])


@pytest.mark.parametrize("sign", [" ", ",", "; "])
def test_a_very_long_line_is_not_cut_within_a_number(sign):
    data = Text(f"1234567.5{sign}".encode() * 10_000).data
    assert data.rstrip(b";").endswith(b"1234567.5")


def test_losses_in_the_end_of_a_very_long_line_are_left_out(read):
    lost = "; ".join(f"loss: {loss_at(n)}" for n in range(20))
    page = "a word and a value " * 4_000
    history = read("\n".join([*LINES, page + lost]))
    assert "20 losses" in history.left_out[0].message


@pytest.mark.parametrize("end", ["loss: 2.5 at last", "a loss of words " * 20])
def test_a_few_losses_in_the_end_of_a_very_long_line_are_a_summary(read, end):
    assert not read("\n".join([*LINES, "a word and a value " * 4_000 + end])).left_out


def test_losses_in_a_very_long_line_above_the_last_record_are_not_left_out(read):
    lost = "a word and a value " * 4_000 + "loss: 2.5 " * 20
    assert not read("\n".join([*LINES[:30], lost, *LINES[30:]])).left_out


@pytest.mark.parametrize("before", ["", "history: ", "INFO done: "])
def test_a_long_list_of_dicts_is_read_whole(read, before):
    records = [{"step": n, "loss": loss_at(n), "lr": 0.001} for n in range(2_500)]
    series = read(f"{before}{records}\n").series["loss"]
    assert len(series.values) == len(records)


def test_a_long_list_of_losses_is_read_whole(read):
    losses = [loss_at(n) for n in range(9_000)]
    assert len(read(f"losses: {losses}\n").series["loss"].values) == len(losses)


@pytest.mark.parametrize("end", ["", "\\n", "\r"])
def test_a_long_log_on_one_line_is_read_whole(read, end):
    losses = [round(2.5 - n / 10_000, 4) for n in range(12_000)]
    log = "".join(f"Epoch {n}/12000 loss: {loss}{end}" for n, loss in enumerate(losses))
    assert len(read(log).series["loss"].values) == len(losses)


def test_a_message_of_keras_begins_after_the_loss_of_its_bar(read):
    bar = " {n}/80 [>.............................] - ETA: 1:07 - loss: {loss}"
    lines = ["Epoch 1/3", *(bar.format(n=n, loss=loss_at(n)) for n in (1, 2, 3))]
    lines[-1] += "Batch 2: Invalid loss, terminating training"
    series = read("\n".join([*lines, bar.format(n=4, loss="nan")])).series["loss"]
    assert series.steps.tolist() == [1, 2, 3, 4]
    assert series.values[:3].tolist() == pytest.approx([loss_at(n) for n in (1, 2, 3)], abs=0.05)
    assert math.isnan(series.values[3])


def test_a_bar_of_keras_may_end_on_the_heading_of_its_validation(read):
    form = (
        "Epoch {n}/50\n 99/100 [=========>.] - ETA: 2s - loss: {loss}Epoch 1/50\n"
        "100/100 [==========] - 32s 3s/step - loss: {loss} - val_loss: {loss}\n"
    )
    losses = (0.25, 0.125, "nan")
    text = "".join(form.format(n=n, loss=loss) for n, loss in enumerate(losses, start=30))
    series = read(text).series["loss"]
    assert series.steps.tolist() == [30, 31, 32]
    assert str(series.values.tolist()) == "[0.25, 0.125, nan]"


@pytest.mark.parametrize("size", [1, 900])
def test_the_last_text_that_was_written_over_a_bar_counts(read, size):
    epoch = (
        "Epoch {}/999\n400/400 [=====================] - ETA: 0s - loss: 8.5 - mae: 8.512"
        " - ETA: 0s - loss: 7.5 - mae: 7.5  - 1s 8ms/step - loss: {} - mae: 0.5 - val_loss: 2.5\n"
    )
    losses = [*(4 - n / 1000 for n in range(size)), "nan"]
    history = read("".join(epoch.format(n, loss) for n, loss in enumerate(losses, start=1)))
    assert [str(loss) for loss in history.series["loss"].values] == [str(loss) for loss in losses]
    assert {*history.series["eval_loss"].values} == {2.5}


@pytest.mark.parametrize("form", ["{:.4f}", "{:.4e}"])
def test_the_count_of_a_bar_may_follow_the_last_digit(read, form):
    bar = "{n:2d}/18 [=====>....] - ETA: 7s - loss: 0.5000 - acc: {value}"
    text = "".join(bar.format(n=n, value=form.format(n / 32)) for n in range(1, 19))
    series = read(f"Epoch 3/9\n{text}\n").series["accuracy"]
    assert series.steps.tolist() == [*range(1, 19)]
    assert series.values.tolist() == pytest.approx([n / 32 for n in range(1, 19)], abs=1e-4)


def test_an_episode_follows_the_score_of_another_one(read):
    line = "Episode {n}\tFrame {at} \tAverage100 Score: {score:.2f}"
    rows = (line.format(n=n, at=25 * n, score=9 + n / 20) for n in range(1, 121))
    assert len(read("".join(rows)).series["reward"]) == 120


@pytest.mark.parametrize(
    "line",
    [
        "epoch {epoch},  mean_loss{loss}, test MRR: 0.25",
        "Epoch {epoch}: loss{loss} acc0.712",
        "epoch {epoch} train loss{loss}",
    ],
)
def test_a_value_without_a_blank_after_its_name(read, line):
    losses = [0.625, 0.375, 0.125, 0.0625]
    text = "".join(line.format(epoch=n, loss=loss) + "\n" for n, loss in enumerate(losses, 1))
    assert read(text).series["loss"].values.tolist() == losses


@pytest.mark.parametrize("value", ["nan", "inf", "NaN", "-inf"])
@pytest.mark.parametrize(
    "line", ["epoch {n},  mean_loss{x}, test MRR: 0.25", "step{n}: loss{x} acc{x}"]
)
def test_a_value_that_is_not_finite_without_a_blank_after_its_name(read, line, value):
    losses = ["0.625", "0.375", "0.125", value, value, value]
    text = "".join(line.format(n=n, x=loss) + "\n" for n, loss in enumerate(losses, 1))
    values = read(text).series["loss"].values
    assert [*map(str, values)] == [*map(str, map(float, losses))]


def test_a_file_with_a_loss_in_its_name_is_not_a_record(read):
    text = "".join(
        f"epoch {n} loss: 0.{9 - n}5, saved to best-loss0.{n}250.pt and loss0.{n}250.pt\n"
        for n in range(1, 6)
    )
    values = read(text).series["loss"].values.tolist()
    assert values == pytest.approx([0.85, 0.75, 0.65, 0.55, 0.45])


@pytest.mark.parametrize("heading", ["epoch: {} ", "Epoch [{}/90] ", "Step {} | ", "Iter #{} "])
def test_a_record_with_a_counter_follows_the_end_of_a_bar(read, heading):
    bar = "{p:3d}%|##    | {n}/40 [1:{n:02d}:11<31:02, 580.1s/it]"
    losses = [0.75, 0.5, 0.25]
    records = [f"{heading.format(10 * n + 1)}loss: {loss}" for n, loss in enumerate(losses)]
    bars = ["", *(bar.format(p=25 * n, n=10 * n) for n in (1, 2))]
    series = read("\n".join(map("".join, zip(bars, records, strict=True))) + "\n").series["loss"]
    assert series.steps.tolist() == [1, 11, 21]
    assert series.values.tolist() == losses


CUT_BARS = (
    "Training epoch 23 loss: {loss:.3f}, lr: 1e-4:  {n}%|7| {n}/131 [00",
    "net/voc |####   | train: [2][{n}/131]|Tot: 0:01:49 |loss {loss:.4f} |Data 0.",
    "Epoch 2:  {n}%|###▌  | {n}/131 [00:12<00:31, 2.1it/s, loss={loss:.3f}, v_nu",
)


@pytest.mark.parametrize("bar", CUT_BARS)
def test_bars_that_end_at_the_width_of_a_terminal_begin_with_the_same_label(read, bar):
    series = read("".join(bar.format(n=n, loss=loss_at(n)) for n in range(1, 60))).series["loss"]
    assert series.steps.tolist() == list(range(1, 60))
    assert series.values.tolist() == pytest.approx([loss_at(n) for n in range(1, 60)])


def test_a_name_that_recurs_in_a_line_is_no_label():
    line = (
        b"train_loss: 0.5, mean_train_loss: 0.5, best_train_loss: 0.4 accuracy: 0.5|accuracy: 0.7"
    )
    assert Text(b"%b of the first epochs\n" % line).data.count(b"\n") == 2


EQUALS, HEAVY = f"[{'=' * 30}] - {{}}", f"{'━' * 20} {{}}"
CALLBACKS = (
    "Epoch {n}: val_loss improved from inf to 0.55, saving model to best.h5\n",
    "\nEpoch {n:05d}: val_loss did not improve from 0.55\n"
    "Epoch {n:05d}: ReduceLROnPlateau reducing learning rate to 0.0003.\n",
)


@pytest.mark.parametrize(("bar", "time"), [(EQUALS, "ETA: 0s"), (HEAVY, "0s 9ms/step")])
@pytest.mark.parametrize("message", CALLBACKS)
def test_a_full_bar_of_keras_is_drawn_again_below_its_callbacks(read, bar, time, message):
    losses = [0.75, 0.5, "nan"]
    text = "".join(
        f"Epoch {n}/9\n30/30 {bar.format(time)} - loss: 8.5\n{message.format(n=n)}"
        f"30/30 {bar.format('3s 9ms/step')} - loss: {loss} - val_loss: 2.5\n"
        for n, loss in enumerate(losses, start=1)
    )
    series = read(text).series["loss"]
    assert series.steps.tolist() == [1, 2, 3]
    assert [str(loss) for loss in series.values] == [str(loss) for loss in losses]


def test_the_bar_of_an_evaluation_is_not_drawn_again():
    bar = b"30/30 [%b] - 3s 9ms/step - loss: 0.5\n" % (b"=" * 30)
    text = b"Epoch 1/2\n%bEpoch 2/2\n%b%b" % (bar, bar, bar)
    assert Text(text).data.count(b"loss: 0.5") == 3


@pytest.mark.parametrize("blanks", [" ", "        ", "\t", " " * 60])
@pytest.mark.parametrize(
    "form",
    [
        "Epoch... ({n}/90 | Loss: {loss})",
        "Epoch {n} - loss: {loss}",
        "[Epoch {n}] train_loss={loss} [3.2 s]",
        "step: {n} | loss: {loss} | lr: 0.001",
        "Training: Iteration {n}, loss = {loss}",
    ],
)
def test_records_that_begin_alike_share_a_line_here_and_there(read, form, blanks):
    records = [form.format(n=n, loss=f"{loss_at(n):.3f}") for n in range(1, 13)]
    lines = [*records[:2], blanks.join(records[2:4]), *records[4:9], blanks.join(records[9:])]
    series = read("".join(f"{line}{blanks}\n" for line in lines)).series["loss"]
    assert series.steps.tolist() == list(range(1, 13))


@pytest.mark.parametrize(
    "sentence", ["This is what my training prints: ", "Hier ist das Log (gekürzt), siehe unten: "]
)
@pytest.mark.parametrize(
    "record",
    ["INFO: global step {n}: loss = {loss:.4f} (0.2 sec/step)", "epoch {n} loss {loss:.3f}"],
)
def test_a_sentence_may_share_the_line_of_records(read, sentence, record):
    records = " ".join(record.format(n=n, loss=loss_at(n)) for n in range(1, 9))
    series = read(f"{sentence}{records}\n").series["loss"]
    assert series.steps.tolist() == list(range(1, 9))
    assert series.values.tolist() == pytest.approx([loss_at(n) for n in range(1, 9)])


@pytest.mark.parametrize(
    "line",
    [
        "Epoch 12 - loss: 0.4 (the best is Epoch 10)",
        "Epoch 12 took 3.2 s, Epoch 11 took 3.1 s",
        "step 4 loss 0.5 steps 12 left",
        "loss 0.5 loss 0.4",
        "GPU 0 epoch 1 loss 0.5  GPU 1 epoch 1 loss 0.4",
    ],
)
def test_a_record_may_name_another_one(line):
    assert Text(f"{line}\n{line}\n".encode()).data.count(b"\n") == 3


@pytest.mark.parametrize(
    "record",
    [
        "2024-01-05 15:{n:02d}:12,995|INFO|epoch:0, batch: {n}, current loss: {loss:.2f}",
        "2024/01/05 15:{n:02d}:12 step {n} loss {loss:.2f} lr 0.01",
    ],
)
@pytest.mark.parametrize("on_a_line", [5, 40])
def test_records_that_begin_with_a_time_may_share_a_line(read, record, on_a_line):
    records = [record.format(n=n, loss=loss_at(n)) for n in range(40)]
    lines = [" ".join(records[n : n + on_a_line]) for n in range(0, 40, on_a_line)]
    series = read("\n".join(lines) + "\n").series["loss"]
    assert series.steps.tolist() == list(range(40))
    assert series.values.tolist() == pytest.approx([loss_at(n) for n in range(40)])


def test_a_second_time_on_a_line_is_a_part_of_its_record(read):
    record = "2024-01-05 15:{n:02d}:00 step {n} loss {loss:.2f} 2024-01-06 15:{n:02d}:00 lr 0.1\n"
    series = read("".join(record.format(n=n, loss=loss_at(n)) for n in range(40))).series
    assert series["lr"].steps.tolist() == series["loss"].steps.tolist() == list(range(40))


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize(
    "message",
    ["val_acc did not improve", "val_loss improved from 2.5 to 2.4, saving model to a.h5"],
)
def test_keras_reports_on_the_epoch_before_in_the_next_one(read, end, message):
    text = ""
    for n in range(1, 12):
        text += f"Epoch {n}/40\n 50/472 [==>.................] - ETA: 2s - loss: {3 - n / 8}"
        text += f"{end}Epoch {n - 1:05d}: {message}\n" if n > 1 else "\n"
        text += f"472/472 [=====================] - 9s - loss: {3 - n / 9:.4f}"
        text += f" - val_loss: {3.5 - n / 9}\n"
    series = read(text).series
    assert series["eval_loss"].values.tolist() == pytest.approx([3.5 - n / 9 for n in range(1, 12)])
    assert len(series["loss"].values) == 22
    assert all(a < b for a, b in zip(series["loss"].steps, series["loss"].steps[1:], strict=False))
