"""CSV: headers, delimiters, blanks, and rows that do not fit."""

import numpy as np
import pandas as pd
import pytest

import stabdiag
from stabdiag.errors import LogError, NoUsableRecord
from stabdiag.model.events import EventKind
from stabdiag.readers.csv import cells, dialect
from stabdiag.readers.csv import log as csv
from stabdiag.readers.source import open_stream
from stabdiag.readers.words import WORD, meaning

NAME = "metrics.csv"


@pytest.fixture(params=[-1, 1 << 20], ids=["fast", "tolerant"])
def either(put, request):
    """Return a function that reads CSV, by the fast or the tolerant reader."""

    def written(text):
        with open_stream(put(text, NAME)) as stream:
            return csv.read(stream, small=request.param)

    return written


NAN, INF = np.nan, np.inf
RULE = "+---+------+\n"
FRAMED = "".join(f"| {n} | {3 - n / 8} |\n" for n in range(12))
# A log, the names of its columns, and the values of the last of them.
VALUES = {
    "not finite": ("step,loss\n1,2.5\n2,nan\n3,-inf\n", "step loss", [2.5, NAN, -INF]),
    "commas": ("step,loss,lr\n1,2.5,0.1\n2,2.4,0.2\n", "step loss lr", [0.1, 0.2]),
    "semicolons": ("step;loss;lr\n1;2.5;0.1\n2;2.4;0.2\n", "step loss lr", [0.1, 0.2]),
    "tabs": ("step\tloss\tlr\n1\t2.5\t0.1\n2\t2.4\t0.2\n", "step loss lr", [0.1, 0.2]),
    "bars": ("step|loss|lr\n1|2.5|0.1\n2|2.4|0.2\n", "step loss lr", [0.1, 0.2]),
    "padded": ("\ufeff   epoch,  loss \r\n   0,   1.5\r\n   1,   2\r\n", "epoch loss", [1.5, 2]),
    "comments": ("# by hand\n\nstep,loss\n1,2\n\n# resumed\n2,3\n", "step loss", [2, 3]),
    "a header in a comment": ("# step loss\n#step,loss\n1,2\n2,3\n", "step loss", [2, 3]),
    "no last end": ("step,loss\n1,2\n2,3", "step loss", [2, 3]),
    "one column": ("loss\n3\n2\n1\n", "loss", [3, 2, 1]),
    "a comma that is not a point": ("step,loss\n1,234\n2,235\n", "step loss", [234, 235]),
    "decimal commas": ("1;2,5\n2;2,25\n3;2,125\n", "step loss", [2.5, 2.25, 2.125]),
    "a frame": (
        f"{RULE}| step | loss |\n{RULE}{FRAMED}{RULE}",
        "column_1 step loss",
        [3 - n / 8 for n in range(12)],
    ),
    "an index": (",loss,loss\n0,1,2\n1,2,3\n", "index loss loss.1", [2, 3]),
    "no index": (",loss\n0.5,1\n0.25,2\n", "column_1 loss", [1, 2]),
    "another index": (",index,loss\n0,3,2.5\n1,4,2.25\n", "column_1 index loss", [2.5, 2.25]),
    "an index of pandas": (
        "epoch loss\n0 1 2.5\n1 2 2.25\n2 3 2\n",
        "index epoch loss",
        [2.5, 2.25, 2],
    ),
    "an index of R": (
        '"epoch" "loss"\n"1" 1 2.5\n"2" 2 2.25\n"3" 3 2\n',
        "index epoch loss",
        [2.5, 2.25, 2],
    ),
    "an index of R with commas": (
        '"epoch","loss"\n"1",1,2.5\n"2",2,2.25\n"3",3,2\n',
        "index epoch loss",
        [2.5, 2.25, 2],
    ),
    "one cell more behind a step": (
        "step,loss,lr\n0,2.5,0.1,7\n1,2.25,0.1,14\n2,2,0.1,21\n",
        "step loss lr column_4",
        [7, 14, 21],
    ),
    "two cells more behind an episode": (
        "episode,loss\n100,2.5,0,7\n200,2.25,0,14\n300,2,0,21\n",
        "episode loss column_3 column_4",
        [7, 14, 21],
    ),
    "an index before counters": (
        "epoch,step,loss\n0,0,10,2.5\n1,0,20,2.25\n2,1,30,2\n",
        "index epoch step loss",
        [2.5, 2.25, 2],
    ),
    "below a mark": ("\ufeff\n3.5\n3.25\n3\n", "loss", [3.5, 3.25, 3]),
}


@pytest.mark.parametrize(("text", "names", "values"), VALUES.values(), ids=VALUES)
def test_values_of_cells_are_read(log, text, names, values):
    columns = log(text)
    last = columns.load(columns.names[-1])
    assert (columns.format, columns.names) == ("csv", tuple(names.split()))
    assert (columns.bad_count, last.present.all()) == (0, True)
    np.testing.assert_array_equal(last.values, values)


def test_blank_cells_zeros_and_bytes_that_are_not_utf8(log):
    columns = log(b"gr\xf6\xdfe,loss\n1,2.5\n\0\0\0\0\n2,\n3,  \n")
    assert columns.load("loss").present.tolist() == [True, False, False]
    assert columns.load("loss").null.tolist() == [False, True, True]
    assert columns.bad_lines[0].reason == "contains NUL bytes"


def test_quoted_cells_are_read(log):
    columns = log('"step","a ""b"", c","text"\n"1","2","x, y"\n"2","3","several\nlines"\n')
    assert columns.names == ("step", 'a "b", c', "text")
    assert columns.load("step").values.tolist() == [1, 2]
    assert columns.load("text").is_text
    assert columns.bad_count == 0


@pytest.mark.parametrize("lines", [2, 12, 60, 120])
@pytest.mark.parametrize("order", [("text", "reward"), ("reward", "text")])
def test_texts_of_many_lines_are_cells(log, lines, order):
    text = "\n".join(f'Line {n}, ""so"" it goes' for n in range(lines))
    rows = ({"text": f'"{text} {n}"', "reward": n / 4} for n in range(12))
    columns = log(
        f"step,{order[0]},{order[1]}\n"
        + "".join(f"{n},{row[order[0]]},{row[order[1]]}\n" for n, row in enumerate(rows))
    )
    assert columns.load("step").values.tolist() == [*range(12)]
    assert columns.load("reward").values.tolist() == [n / 4 for n in range(12)]
    assert columns.load("text").is_text


@pytest.mark.parametrize("are_all", [False, True])
def test_rows_may_lack_their_last_cells(either, are_all):
    """An evaluation is written only in its epoch, and a writer leaves the blanks out."""
    rows = [f"{n},{2.5 - n / 64}" + ",1.5,0.1" * (not are_all and n % 4 == 3) for n in range(30)]
    columns = either("epoch,loss,val_loss,lr\n" + "".join(f"{row}\n" for row in rows))
    assert columns.load("loss").values.tolist() == [2.5 - n / 64 for n in range(30)]
    assert columns.load("val_loss").present.sum() == (0 if are_all else 7)
    assert columns.bad_count == 0


def test_rows_that_lose_a_cell_for_good_are_left_out(either):
    rows = [*(f"{n},0.1,2.5" for n in range(20)), *(f"{n},2.5" for n in range(20, 30))]
    columns = either("step,lr,loss\n" + "".join(f"{row}\n" for row in rows))
    assert (columns.rows, columns.bad_count) == (20, 10)


def test_rows_that_do_not_fit(log):
    columns = log("step,loss,lr\n" + "0,1,2\n" * 20 + "2,3\n3,4,5,6\n4,5,6\n5,6,7,\n5,0.1")
    assert columns.load("step").values.tolist() == [0] * 20 + [4, 5]
    assert [(bad.line, bad.reason) for bad in columns.bad_lines] == [
        (22, "2 cells under a header of 3"),
        (23, "4 cells under a header of 3"),
        (26, "breaks off"),
    ]


def test_the_same_header_again(log):
    columns = log("step,loss\n1,2\n2,3\nstep,loss\n1,4\n")
    assert columns.load("loss").values.tolist() == [2, 3, 4]
    assert columns.bad_count == 0
    assert columns.notes == ("the header is repeated on line 4: several logs in one file",)


def test_the_same_header_in_another_case(log):
    columns = log("step,loss\n1,2\n2,3\nStep,Loss\n3,4\n")
    assert columns.names == ("step", "loss")
    assert columns.load("loss").values.tolist() == [2, 3, 4]


@pytest.mark.parametrize("word", ["#N/A", "#DIV/0!", "#VALUE!"])
def test_a_failed_cell_at_the_start_of_a_row_is_no_comment(log, word):
    columns = log(f"loss,acc\n2.5,0.5\n# a remark, not a row\n{word},0.5\n")
    assert columns.rows == 2
    assert np.isnan(columns.load("loss").values[1])


def test_a_word_alone_in_the_only_column_is_a_value(log):
    loss = log("loss\n2.5\n2.25\nlost\nlost\n").load("loss")
    assert loss.stray_rows.tolist() == [2, 3]


def test_another_header_starts_other_columns(log):
    columns = log("step,loss\n1,2\nstep,lr,loss\n2,0.1,3\n")
    assert columns.names == ("step", "loss", "lr")
    assert columns.load("loss").values.tolist() == [2, 3]
    assert columns.load("lr").present.tolist() == [False, True]
    assert not columns.load("lr").null.any()
    assert columns.notes == ("a different header is on line 3: it applies from there on",)


@pytest.mark.parametrize(
    ("above", "count"),
    [
        ("An experiment\n\n", 1),
        ("model,resnet\nlr,0.5\nbatch size,32\n\n", 3),
        ("Log of 2026-01-02, host a\n# a comment\nseed: 7\n", 2),
        ("".join(f"[10:00:{n}] [INFO] option_{n}: {n}\n" for n in range(40)), 40),
    ],
)
def test_lines_above_the_header(either, above, count):
    columns = either(f"{above}step,loss\n1,2.5\n2,\n3,2.25\n")
    assert columns.names == ("step", "loss")
    assert columns.load("loss").values[[0, 2]].tolist() == [2.5, 2.25]
    lines = "1 line" if count == 1 else f"{count} lines"
    assert columns.notes == (f"{lines} above the header of the columns left out",)


def test_the_rules_of_a_table_are_not_records(either):
    rows = "".join(f"|{n}|{3 - n / 8}|\n" for n in range(12))
    columns = either(f"|step|loss|\n|---|---|\n{rows}|---|---|\n")
    assert (columns.rows, columns.bad_count) == (12, 0)
    assert columns.load("loss").values.tolist() == [3 - n / 8 for n in range(12)]


def test_lines_of_names_and_numbers_are_not_a_table(log):
    columns = log("".join(f"step={n},loss={3 - n / 8},lr=0.5\n" for n in range(5)))
    assert (columns.format, columns.load("loss").values.tolist()[-1]) == ("text", 2.5)


@pytest.mark.parametrize("index", [True, False])
def test_a_table_as_pandas_prints_it(log, index):
    frame = pd.DataFrame({"loss": [2.5, np.nan, 2.25, 2.125], "lr": 0.5})
    columns = log(frame.to_string(index=index) + "\n", "log.txt")
    assert columns.names == (("index", "loss", "lr") if index else ("loss", "lr"))
    np.testing.assert_array_equal(columns.load("loss").values, [2.5, np.nan, 2.25, 2.125])


def test_a_trailing_delimiter_does_not_add_a_column(either):
    columns = either("error,loss,\n" + "1,2.5,\n2,2.25,\n" * 20)
    assert columns.names == ("error", "loss")
    assert columns.load("loss").values.tolist() == [2.5, 2.25] * 20
    names = ("error", "loss", "column_3")
    assert either("error,loss,\n1,2.5,\n2,2.25,5\n").names == names


def test_words_among_numbers_are_left_out(log):
    columns = log("step,mode,loss\n1,train,2\n2,val,oops\n3,train,1\n")
    mode = columns.load("mode")
    assert mode.is_text
    assert mode.values[0] == mode.values[2] != mode.values[1]
    assert columns.load("loss").strays == 1


@pytest.mark.parametrize(
    ("text", "losses"),
    [
        ("2.5\n2.25\nnan\n2.0\n", [2.5, 2.25, np.nan, 2.0]),
        ("2.500000000000000000e+00\n2.250000000000000000e+00\ninf\n", [2.5, 2.25, np.inf]),
        ("# by hand\n\n2.5\n[2.25]\n2\n", [2.5, 2.25, 2]),
    ],
)
def test_one_column_without_a_header_holds_the_losses(log, text, losses):
    columns = log(text, "train_out.txt")
    assert (columns.format, columns.names, columns.unnamed) == ("csv", ("loss",), True)
    np.testing.assert_array_equal(columns.load("loss").values, losses)
    (event,) = columns.events
    assert event.kind is EventKind.COLUMN
    assert event.message == "the file names no column: its numbers are taken as the loss"


def test_unnamed_numbers_in_a_file_without_loss_in_its_name_are_not_losses(log):
    assert log("20.5\n21.25\n19.0\n", "temperatures.txt").names == ("temperatures",)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", " "])
def test_two_columns_without_a_header_are_step_and_loss(log, delimiter):
    text = "10,2.5\n20,2.25\n30,nan\n40,2\n".replace(",", delimiter)
    columns = log(text, "train_out.txt")
    assert columns.names == ("step", "loss")
    assert columns.load("step").values.tolist() == [10, 20, 30, 40]
    np.testing.assert_array_equal(columns.load("loss").values, [2.5, 2.25, np.nan, 2])
    assert "the first, which rises in whole numbers, is taken as the step" in str(columns.events)


@pytest.mark.parametrize("time", ["2024-01-0{} 10:00:00.5", "2024/01/0{}", "1{}:00:00"])
def test_lines_without_names_may_begin_with_a_time(log, time):
    rows = [f"{time.format(n)},{n},{2.5 - n / 9:.4f}\n" for n in range(9)]
    columns = log("".join(rows), "train_loss.csv")
    assert columns.names == ("date", "step", "train_loss")
    assert columns.load("train_loss").values[0] == 2.5


@pytest.mark.parametrize(("unit", "delimiter"), [(1, ","), (1000, "\t")])
def test_lines_without_names_may_begin_with_the_seconds_since_1970(log, unit, delimiter):
    rows = [(1767225600.25 * unit + 60 * n, 50 * n, 2.5 - n / 9) for n in range(9)]
    columns = log("".join(f"{delimiter.join(map(str, row))}\n" for row in rows), "eval_loss.csv")
    assert columns.names == ("wall_time", "step", "eval_loss")
    assert columns.load("eval_loss").values[0] == 2.5


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("val_acc.csv", "val_acc"),
        ("run-.-tag-Accuracy_train.csv", "Accuracy_train"),
        ("run-dqn_1-tag-returns_of_agents.csv", "reward"),
        ("oak_tag_val_loss.csv", "val_loss"),
        ("run-oak-tag-alpha.csv", "alpha"),
        ("rollout_ep_len_mean.csv", "rollout_ep_len_mean"),
        ("fitness_history.csv", "fitness_history"),
        ("oak_dice.csv", "dice"),
        ("best_dice.csv", "best_dice"),
        ("dice_per_class.csv", "dice_per_class"),
        # Nothing says what these values are.
        ("oak_1.csv", "Value"),
        ("train.csv", "Value"),
    ],
)
def test_a_tag_that_tensorboard_exports_is_named_after_its_file(log, file, name):
    rows = [f"{1767225600.5 + 60 * n},{50 * n},{2.5 - n / 9}\n" for n in range(9)]
    columns = log(f"Wall time,Step,Value\n{''.join(rows)}", file)
    assert columns.names == ("Wall time", "Step", name)
    assert columns.load(name).values[0] == 2.5


HEADINGS = [
    ("# epoch, loss, acc", " "),
    ("# epoch; loss; acc", ","),
    ("% epoch\tloss\tacc", " "),
    ("%% Columns: epoch loss acc", " "),
    ("# fields = epoch | loss | acc", "\t"),
]


@pytest.mark.parametrize(("heading", "delimiter"), HEADINGS)
def test_names_in_a_comment_may_have_another_delimiter(log, heading, delimiter):
    rows = [f"{delimiter.join((f'{n}', f'{2.5 - n / 9}', '0.5'))}\n" for n in range(9)]
    columns = log(f"{heading}\n{''.join(rows)}", "results.dat")
    assert columns.names == ("epoch", "loss", "acc")


@pytest.mark.parametrize("rows", [2, 9])
def test_a_comment_may_name_groups_of_columns(log, rows):
    terms = "0.125 0.5 0.25 0.5"  # two terms of each loss, one of them equal
    text = "".join(f"{n}00 {terms}\n" for n in range(rows))
    columns = log(f"# step, loss_train, loss_test\n{text}", "loss.dat")
    assert columns.names == ("step", "loss_train", "column_3", "column_4", "column_5")
    # The first group has to be a loss.
    columns = log(f"# step, weights, loss\n{text}", "loss.dat") if rows > 2 else None
    assert columns is None or "weights" not in columns.names


@pytest.mark.parametrize(
    ("end", "is_read"), [(0.9, True), (90.0, True), (0.2, True), (12.5, False), (1.5, False)]
)
def test_a_loss_next_to_another_that_may_rise_needs_names(log, end, is_read):
    rows = [f"{2.5 - n / 9:.4f}, {end * (n + 3) / 12:.4f}\n" for n in range(10)]
    if is_read:
        assert log("".join(rows), "acc_loss.csv").names == ("loss", "loss_2")
    else:
        with pytest.raises(LogError, match="without a header"):
            log("".join(rows), "acc_loss.csv")


def test_steps_without_a_name_may_begin_again(log):
    rows = [*range(4), *range(12)]
    text = "".join(f"{n}\t{2.5 - n / 9}\t{0.5 + n / 70}\n" for n in rows)
    assert log(text, "loss.txt").names == ("step", "loss", "loss_2")
    # Labels are not steps.
    labels = "".join(f"{n % 2}\t{2.5 - n / 9}\t{0.5 + n / 70}\n" for n in range(12))
    with pytest.raises(LogError, match="without a header"):
        log(labels, "losses.csv")


@pytest.mark.parametrize("rows", [9, 80_000])
def test_several_unnamed_columns_in_a_file_named_after_a_loss_are_losses(log, rows):
    text = "".join(f"{n},{2.5 - n / 7},{-3.5 - n / 9}\n" for n in range(rows))
    columns = log(text, "loss.csv")
    assert (columns.names, columns.unnamed) == (("step", "loss", "loss_2"), True)
    assert columns.load("loss_2").values[0] == -3.5
    uncounted = "".join(
        f"{4.5 - n / 8},{line.partition(',')[2]}\n" for n, line in enumerate(text.split())
    )
    assert log(uncounted, "train_loss.csv").names[-1] == "loss_3"


@pytest.mark.parametrize("factor", [1, -1])
def test_durations_next_to_a_loss_that_falls_need_no_name(log, factor):
    losses = [2.5 - factor * (n + n % 2) / 40 for n in range(30)]
    text = "".join(f"{loss},{400 if n == 0 else 20 + n % 7}\n" for n, loss in enumerate(losses))
    if factor == 1:
        assert log(text, "losses.csv").names == ("loss", "column_2")
    else:
        with pytest.raises(LogError, match="without a header"):
            log(text, "losses.csv")


def test_a_client_and_its_round_need_no_names_next_to_a_loss(log):
    rows = [(client, number) for number in range(1, 9) for client in (2, 0, 1)]
    text = "".join(f"{client}, {n}, {0.5 / n + client / 90:.6f}\n" for client, n in rows)
    assert log(text, "loss.csv").names == ("column_1", "epoch", "loss")
    with pytest.raises(LogError, match="without a header"):
        log(text, "table.csv")


def test_a_first_column_that_only_rises_is_no_loss_next_to_one_that_only_falls(log):
    text = "".join(f"{54.5 + n / 7},{2.5 - n / 40},{0.25 + n % 3}\n" for n in range(30))
    with pytest.raises(LogError, match="without a header"):
        log(text, "loss.csv")
    # The rate of a run that diverges falls, too.
    text = "".join(f"{4.5 + n / 7},{0.1 - n / 400}\n" for n in range(30))
    assert log(text, "loss.csv").names == ("loss", "loss_2")


def course(delimiter, *, columns, rows=30):
    return "".join(delimiter.join(str(column(n)) for column in columns) + "\n" for n in range(rows))


# An accuracy, a rate that only falls, a loss, and a time.
COURSE = (
    lambda n: n,
    lambda n: 0.5 + n / 100,
    lambda n: 0.01 * 0.9**n,
    lambda n: 2.5 - n / 20 + 0.1 * (n % 3),
    lambda n: 12.5 + n % 5 / 7,
)


@pytest.mark.parametrize("delimiter", [",", "\t", " "])
def test_the_column_that_falls_in_an_unnamed_log_is_the_loss(log, delimiter):
    columns = log(course(delimiter, columns=COURSE), "history.txt")
    assert columns.names == ("step", "column_2", "column_3", "loss", "column_5")
    assert "column 4, which falls, as the loss" in str(columns.events)
    assert not columns.is_unknown


@pytest.mark.parametrize("delimiter", [",", "\t", " "])
def test_unnamed_columns_next_to_a_counter_are_unknown(log, delimiter):
    # Nothing but a rate falls, or the file may have anything.
    for columns, name in [((*COURSE[:3], COURSE[4]), "history.txt"), (COURSE, "table.txt")]:
        read = log(course(delimiter, columns=columns), name)
        assert read.is_unknown
        assert read.names[:2] == ("step", "column_2")
        assert "loss" not in read.names


def test_decimals_between_blanks_in_a_file_named_after_a_loss(log):
    text = course(" ", columns=[COURSE[3], COURSE[1], lambda _: 0.0])
    assert log(text, "losses.txt").names == ("loss", "loss_2", "loss_3")
    with pytest.raises(LogError, match="rows of numbers without names"):
        log(text, "table.txt")


FALLS = [2.5, 2.25, 2.0, 1.5, 1.25, 1.0]


@pytest.mark.parametrize(
    ("columns", "loss"),
    [
        # A rate that only falls, and a loss that only falls.
        ([[0.001, 0.0009, 0.0008, 0.0007, 0.0006, 0.0005], FALLS], "column 3"),
        ([FALLS, [0.1, 0.3, 0.5, 0.6, 0.7, 0.75]], "column 2"),
        # The accuracy falls if a run diverges or its loss becomes NaN.
        ([[2.5, 2.25, 2.0, 9.5, 82.5, 913.5], [0.1, 0.3, 0.5, 0.2, 0.1, 0.05]], None),
        ([[2.5, 2.25, *["nan"] * 4], [0.1, 0.3, *[0.05] * 4]], "column 2"),
        # The scale of the gradient overflows.
        ([FALLS, ["inf", 2.5, "inf", 1.5, 1.25, "inf"]], "column 2"),
        ([[12.5, 12.25, 12.5, 12.75, 12.5, 12.25], FALLS], "column 3"),
    ],
)
def test_the_loss_of_a_short_unnamed_log(log, columns, loss):
    rows = zip(range(6), *columns, strict=True)
    read = log("".join(",".join(map(str, row)) + "\n" for row in rows), "history.txt")
    assert read.is_unknown == (loss is None)
    assert loss is None or f"{loss}, which falls, as the loss" in str(read.events)


@pytest.mark.parametrize("form", ["{n}\n{v}\n", "epoch\n{n}\nloss\n{v}\n"])
def test_a_count_and_a_value_on_lines_of_their_own_are_no_column(form):
    text = "".join(form.format(n=n, v=2.5 - n / 9) for n in range(9))
    assert not csv.sniff(text.encode(), is_complete=True)


@pytest.mark.parametrize("rows", [5, 200_000])
def test_unnamed_numbers_are_named_after_the_file(log, rows):
    text = "".join(f"{step},{0.5 + step / 7}\n" for step in range(rows))
    for file, name in [
        ("run.csv", "loss"),
        ("G_loss.csv", "G_loss"),
        ("val.csv", "val_loss"),
        ("accuracy.csv", "accuracy"),
    ]:
        columns = log(text, file)
        assert columns.names == ("step", name)
        assert columns.load(name).values[-1] == 0.5 + (rows - 1) / 7
    assert "taken as the step, the second as 'accuracy', after the name" in str(columns.events)


LOSSES = ("loss", "loss_2", "loss_3")


@pytest.mark.parametrize(
    ("file", "text", "names"),
    [
        ("rewards.txt", "12\n9\n30\n", ("rewards",)),
        ("acc.txt", "1 81\n2 85\n3 90\n", ("step", "acc")),
        ("rewards.csv", "0,0,12\n1,500,9\n2,1000,30\n", ("step", "column_2", "rewards")),
        ("loss_g.csv", "0,0,2.5\n1,500,2.25\n2,900,2.0\n", ("step", "column_2", "loss_g")),
        # An epoch, and a step of the run or of the epoch.
        ("loss.txt", "7,500,2.5\n7,510,2.25\n7,520,2.0\n", ("epoch", "step", "loss")),
        ("loss.txt", "10\t0\t2.5\n11\t0\t2.25\n12\t1\t2.0\n", ("step", "epoch", "loss")),
        ("loss.txt", "0 0 2.5\n0 1 2.25\n1 0 2.0\n1 1 1.5\n", ("epoch", "step", "loss")),
        ("loss.txt", "4\t2.5\n4\t2.25\n5\t2.0\n", ("epoch", "loss")),
        ("fitness.csv", "0,0,210\n1,1,209\n2,2,230\n", ("step", "column_2", "fitness")),
        ("scores.txt", "12\n9\n30\n", ("reward",)),
        ("train_error.txt", "2.5 0.5 7.5\n2.25 0.25 7\n2.0 0.125 6.5\n", LOSSES),
        ("mean_scores.tsv", "0.25\t-0.1\n0.5\t0.7\n0.75\t1.9\n", ("reward", "reward_2")),
        ("acc.csv", "1,0.5,0.45\n2,0.7,0.6\n3,0.75,0.7\n", ("step", "acc", "acc_2")),
        # The best and the mean fitness, as neat-python writes them.
        ("fitness.csv", "56.0 21.5\n61.0 30.25\n61.0 37.5\n68.0 41.5\n", ("column_1", "fitness")),
    ],
)
def test_the_last_column_of_a_file_named_after_a_measure(log, file, text, names):
    assert log(text, file).names == names


@pytest.mark.parametrize(
    ("row", "names"),
    [
        ("{n},{v},{w}", ("step", "rewards", "rewards_2")),
        ("{n},{x},{v}", ("step", "column_2", "rewards")),
        ("{n},{epsilon},{v},{w}", ("step", "column_2", "rewards", "rewards_2")),
        ("{n},{v},{x}", ("step", "rewards", "column_3")),
        ("{v}\t{w}", ("rewards", "rewards_2")),
    ],
)
def test_columns_of_a_file_of_rewards(log, row, names):
    text = "".join(
        row.format(n=n, v=-90.5 + 7 * n % 5, w=-80.5 + 3 * n % 4, x=7 * n % 5, epsilon=0.99**n)
        + "\n"
        for n in range(1, 12)
    )
    assert log(text, "rewards.csv").names == names


def mean_so_far(values):
    return [sum(values[: n + 1]) / (n + 1) for n in range(len(values))]


REWARDS = [-35 + 9 * n % 14 for n in range(12)]
LENGTHS = [20 + 7 * n % 11 for n in range(12)]
EPSILONS = [0.98**n for n in range(12)]
LOSSES_OF_A_NETWORK = [0.5 + 3 * n % 7 / 16 for n in range(12)]


@pytest.mark.parametrize(
    ("columns", "score"),
    [
        ([REWARDS, mean_so_far(REWARDS), EPSILONS], 2),
        ([LENGTHS, mean_so_far(LENGTHS), LOSSES_OF_A_NETWORK], 2),
        ([LENGTHS, EPSILONS], 2),
        ([EPSILONS, LENGTHS], 3),
        ([12 * [-350], 12 * [-350], EPSILONS], 2),
        ([12 * [0], EPSILONS], 2),
        ([LENGTHS, REWARDS], 3),
        ([12 * [32], LENGTHS], 3),
        ([REWARDS, LOSSES_OF_A_NETWORK], 2),
        # Which of them is the reward is unknown.
        ([LENGTHS, 12 * [0]], None),
        ([LENGTHS, LENGTHS[::-1]], None),
        ([12 * [0.25], EPSILONS], None),
    ],
)
@pytest.mark.parametrize(
    ("file", "delimiter"), [("oak_rewards.csv", ","), ("returns.txt", " "), ("scores.csv", ";")]
)
def test_a_reward_next_to_other_columns(log, file, delimiter, columns, score):
    rows = zip(range(1, 13), *columns, strict=True)
    text = "".join(f"{delimiter.join(map(str, row))}\n" for row in rows)
    names = log(text, file).names
    are_scores = [name in ("reward", "returns") for name in names]
    assert are_scores == [place == score for place in range(1, len(names) + 1)]


@pytest.mark.parametrize("delimiter", [" ", ",", "\t"])
def test_a_count_behind_each_reward_needs_no_counter(put, delimiter):
    rows = zip([reward + 0.5 for reward in REWARDS], LENGTHS, strict=True)
    log = put("".join(f"{delimiter.join(map(str, row))}\n" for row in rows), "rewards.txt")
    reward = stabdiag.diagnose(log).history.finite("reward")
    assert reward.values.tolist() == [value + 0.5 for value in REWARDS]


@pytest.mark.parametrize("name", ["Total Steps", "length", "episode_len"])
def test_lengths_of_episodes_are_refused_with_a_remedy(put, name):
    text = "".join(f"{n},{7 + 5 * n % 4}\n" for n in range(30))
    log = put(f"Episode,{name}\n{text}", "oak_rewards.csv")
    with pytest.raises(LogError, match="if longer episodes are better, --column reward=NAME"):
        stabdiag.diagnose(log)
    assert stabdiag.diagnose(log, columns={"reward": name}).history.series["reward"].column == name


def test_the_running_mean_of_a_reward_is_left_out(log):
    means = mean_so_far(REWARDS)
    text = "".join(f"{n},{REWARDS[n]},{means[n]:.2f},{0.98**n:.4f}\n" for n in range(12))
    assert log(text, "rewards.csv").names == ("step", "rewards", "column_3", "column_4")


@pytest.mark.parametrize("header", ["x1,x2", "a,b", "V1,V2", "Column 1,Column 2", ",0"])
@pytest.mark.parametrize("file", ["training_loss.csv", "rewards.csv"])
def test_a_header_that_says_nothing_is_named_after_the_file(log, header, file):
    text = "".join(f"{n},{90.5 - n / 7} (mean)\n" for n in range(12))
    columns = log(f"{header}\n{text}", file)
    assert columns.names == ("step", file.removesuffix(".csv"))
    assert columns.load(columns.names[1]).values[0] == 90.5
    assert file.removesuffix(".csv") not in log(f"{header}\n{text}", "data.csv").names


@pytest.mark.parametrize("header", ["r,l,t", "G,D,c", "x1,loss,x2"])
def test_other_headers_of_one_letter_are_kept(log, header):
    text = "".join(f"{90.5 - n / 7},{n},{n}.5\n" for n in range(12))
    names = log(f"{header}\n{text}", "loss.csv").names
    assert names in (tuple(header.split(",")), ("episode_reward", "episode_length", "time"))


def test_other_whole_numbers_in_front_of_a_value_do_not_count(log):
    text = "".join(f"{7 * n % 5},{3 * n % 4},{2.5 - n / 9}\n" for n in range(12))
    with pytest.raises(LogError, match="without a header"):
        log(text, "loss.txt")


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
@pytest.mark.parametrize("form", ["{loss}", " {loss}", "{n}{delimiter}{loss}"])
def test_lines_without_names_may_end_with_a_delimiter(log, form, delimiter):
    lines = [form.format(n=n, loss=2.5 - n / 8, delimiter=delimiter) for n in range(9)]
    columns = log("".join(f"{line}{delimiter}\n" for line in lines), "loss.txt")
    assert columns.names == (("step", "loss") if "{n}" in form else ("loss",))
    assert columns.load("loss").values.tolist() == [2.5 - n / 8 for n in range(9)]


def test_noise_next_to_a_counter_is_no_loss(log):
    noise = [311.5, 589.5, 202.5, 150.5, 602.5, 998.5, 497.5, 308.5, 240.5, 322.5, 136.5, 299.5]
    text = "".join(f"{n},{value},0.1\n" for n, value in enumerate(noise))
    assert log(text, "train_stats.csv").is_unknown


@pytest.mark.parametrize("counts", ["{epoch},{n}00", "{epoch},{batch}"])
def test_a_step_behind_an_epoch_counts(log, counts):
    noise = [3.5, 5.9, 2.2, 1.5, 6.2, 9.9, 4.7, 3.8, 2.4, 3.2, 1.6, 2.5]
    rows = [
        f"{counts.format(epoch=190 + n // 4, n=n, batch=n % 4)},{value},{10 - value}\n"
        for n, value in enumerate(noise)
    ]
    columns = log("".join(rows), "train_stats.csv")
    assert columns.is_unknown
    assert columns.names == ("epoch", "step", "column_3", "column_4")


@pytest.mark.parametrize("text", ["12\n9\n30\n", "1,81\n2,85\n3,90\n"])
def test_whole_numbers_of_other_files_are_refused(log, text):
    with pytest.raises(LogError, match=r"without (a header|names)"):
        log(text, "labels.csv")


def test_numbers_as_python_prints_them(log):
    printed = [
        '"tensor(2.5, grad_fn=<NllLossBackward0>)"',
        "\"tensor(2.5, device='cuda:0', dtype=torch.float64)\"",
        "tensor(2.5000)",
        "[2.5]",
        "[ 2.5]",
        "np.float64(2.5)",
        '"array([2.5], dtype=float32)"',
        '"Array(2.5, dtype=float32)"',
        '"tf.Tensor(2.5, shape=(), dtype=float32)"',
        "tensor([[2.5]])",
        "2.5f0",
        "0.25D+01",
        "Float32(2.5)",
    ]
    loss = log("step,loss\n" + "".join(f"{n},{number}\n" for n, number in enumerate(printed))).load(
        "loss"
    )
    assert loss.values.tolist() == [2.5] * len(printed)
    columns = log('a,b\n"tensor(nan, grad_fn=<F>)",[inf]\n' * 3)
    assert columns.load("a").present.all()
    assert columns.load("b").values.tolist() == [np.inf] * 3


@pytest.mark.parametrize(
    "word", ["[x]", "[1, 2]", "tensor([1., 2.])", "f(3)", "torch.Size([1])", "[]", "tensor(" * 9]
)
def test_other_brackets_are_words(word):
    assert meaning(word) == (WORD, pytest.approx(np.nan, nan_ok=True), word)


def test_large_logs_take_the_arrow_path(log):
    rows = "".join(f"{step},train,nan,,{step / 7}\n" for step in range(60_000))
    columns = log(f"step,mode,gn,val,x\n{rows}")
    assert columns.load("step").values.tolist() == list(range(60_000))
    assert columns.load("val").null.all()
    assert columns.load("gn").present.all()
    assert columns.load("mode").is_text


def test_another_header_holds_in_the_blocks_that_follow(put):
    half = "".join(f"{n},1\n" for n in range(5_000))
    with open_stream(put(f"step,loss\n{half}step,lr\n{half}")) as stream:
        columns = csv.read(stream, small=0, size=4096)
    assert columns.names == ("step", "loss", "lr")
    assert columns.load("loss").present.tolist() == [True] * 5_000 + [False] * 5_000
    assert columns.load("lr").present.tolist() == [False] * 5_000 + [True] * 5_000
    assert columns.notes


@pytest.mark.parametrize("grown", [False, True])
def test_unrequired_columns_are_read_on_request(tmp_path, grown):
    path = tmp_path / "run.csv"
    text = "host,step,loss,note\n" + "a,1,2.5,x\nb,2,none,\n" * 1000
    path.write_text(text, encoding="utf-8")
    with open_stream(path) as stream:
        stream.is_required = {"step", "loss"}.__contains__
        columns = csv.read(stream, small=0, size=4096)
    assert columns.names == ("host", "step", "loss", "note")
    assert columns.load("step").values.tolist() == [1.0, 2.0] * 1000
    assert columns.load("loss").present.tolist() == [True, False] * 1000
    if grown:
        path.write_text(text + "a,1,2.5,x\n", encoding="utf-8")
        assert not columns.load("note").present.any()
    else:
        assert columns.load("note").present.tolist() == [True, False] * 1000


EXCEL = "Step;Loss;Learning Rate\r\n1;2,345;1,0E-04\r\n2;-1.002,5;0,001\r\n1.000;nan;\r\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be-sig"])
@pytest.mark.parametrize("above", ["", "sep=;\r\n"])
@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_decimal_commas_of_excel_are_read(log, encoding, above, delimiter):
    text = (above + EXCEL).replace(";", delimiter)
    if encoding == "utf-16-be-sig":
        content = b"\xfe\xff" + text.encode("utf-16-be")
    else:
        content = text.encode(encoding)
    columns = log(content)
    assert columns.names == ("Step", "Loss", "Learning Rate")
    assert columns.load("Step").values.tolist() == [1, 2, 1000]
    np.testing.assert_array_equal(columns.load("Loss").values, [2.345, -1002.5, np.nan])
    assert columns.load("Loss").present.all()
    assert columns.load("Learning Rate").values[:2].tolist() == [1e-4, 1e-3]


@pytest.mark.parametrize("last", ["2,5", "torch.nan"])
def test_quoted_decimal_commas_between_commas_are_read(log, last):
    columns = log(f'step,loss,lr\n1,"2,125","0,001"\n2,"2,25","0,001"\n3,"{last}","0,001"\n')
    assert columns.load("loss").values.tolist()[:2] == [2.125, 2.25]
    assert columns.load("lr").values.tolist() == [0.001] * 3


def test_quoted_thousands_are_no_decimals(log):
    columns = log('step,loss,tokens\n1,205,"1,000"\n2,204,"2,000"\n')
    assert columns.load("tokens").values.tolist() != [1, 2]


@pytest.mark.parametrize("header", ["step;loss;lr;gpus\n", "step;loss;gpus\n"])
@pytest.mark.parametrize("gpus", [["0,1"], ["0,1", "2", "3"]])
def test_a_list_with_a_comma_does_not_turn_decimals_into_thousands(log, header, gpus):
    """A learning rate with a point, or losses with three decimals."""
    lr = "0.001;" if "lr" in header else ""
    rows = "".join(f"{n};{2 + n / 1000:.3f};{lr}{gpus[n % len(gpus)]}\n" for n in range(1, 90))
    losses = log(header + rows).load("loss").values
    assert losses.tolist() == [round(2 + n / 1000, 3) for n in range(1, 90)]


@pytest.fixture
def checked_cells(monkeypatch):
    """Collect the cells that the sniffer checks."""
    checked_cells = []

    def collected(cell):
        checked_cells.append(cell)
        return meaning(cell)

    for module in (cells, dialect):
        monkeypatch.setattr(module, "meaning", collected)
    return checked_cells


@pytest.mark.parametrize("line", [",", ";", "|", "1,", "a;", '"|', "a ", "a\x1f", "1\x85"])
@pytest.mark.parametrize("above", ["", "step,loss\n"])
def test_an_endless_line_is_not_checked_cell_by_cell(checked_cells, line, above):
    assert not csv.sniff((above + line * (1 << 20) + "\n").encode(), is_complete=True)
    assert len(checked_cells) < 100


def test_few_rows_of_many_columns_are_detected(checked_cells):
    names = ",".join(f"norm/{number}" for number in range(20_000))
    row = ",".join(["1.5"] * 20_000)
    assert csv.sniff("\n".join([names, *[row] * 40, ""]).encode(), is_complete=True)
    assert len(checked_cells) < 10 * 20_000


def test_a_header_that_repeats_one_name():
    names = cells.header_names(["loss"] * 100_000)
    assert (names[:3], len(set(names))) == (("loss", "loss.1", "loss.2"), 100_000)
    assert cells.header_names(["a", "a.1", "a", "a"]) == ("a", "a.1", "a.2", "a.3")


@pytest.mark.parametrize("rows", [10, 80_000])
@pytest.mark.parametrize("header", ["step,loss\r", ""])
def test_carriage_returns_that_end_lines(log, header, rows):
    columns = log(header + "".join(f"{n},{3 - n / 1e5}\r" for n in range(rows)))
    assert (columns.names, columns.rows) == (("step", "loss"), rows)
    assert columns.load("loss").values[-1] == 3 - (rows - 1) / 1e5


HEADER = r"{name}: CSV without a header; add a first line"
# A file name, its content, and the reason for the refusal.
REFUSED = [
    ("metrics.csv", "1,2.5\n2,2.25\n", HEADER),  # too few rows to be sure
    ("metrics.csv", "2.5,519\n2.25,22\n2.0,24\n", HEADER),
    ("metrics.csv", "1,2.5\n1,2.25\n2,2.0\n", HEADER),
    ("metrics.csv", "1,519\n2,22\n3,24\n", HEADER),
    ("metrics.csv", "1767225600,2.5\n1767225599,2.25\n1767225602,2.0\n", HEADER),
    ("cost.csv", "0,1.5,2.5\n1.5,0,3.5\n2.5,3.5,0\n", HEADER),  # the costs of routes
    ("metrics.csv", "1,2.5,0.1\n2,2.25,0.1\n3,2.0,0.1\n", HEADER),
    ("loss.csv", "1,2.5,7\n2,2.25,9\n3,2.0,8\n", HEADER),
    ("metrics.csv", "1,2.5\n2,up\n3,2.0\n", HEADER),
    (
        "metrics.csv",
        "run,my loss\na,high\nb,low\n",
        "'my loss' has words instead of numbers: 'high' on line 2$",
    ),
    ("metrics.csv", "step,loss\n", "nothing is logged below its header yet"),
    ("metrics.csv", "# run 7\nstep;loss;lr\n\n", "nothing is logged below its header yet"),
    ("metrics.csv", "\n  \n", "blank; has the run logged anything yet"),
    ("metrics.csv", "hello\n", "expected a line of names"),
    ("labels.txt", "3\n1\n2\n", "rows of numbers without names"),
    (
        "train.log",
        "loading\nI0120 20:02:17 net.cpp:46] 0, done\nI0120 step, 1, 2\n",
        "a text without a training loss",
    ),
    ("train.log", "import os\nimport sys\nx = 1\n", "a text without a training loss"),
    ("train.log", "name,city\nada,london\nalan,wilmslow\n", "a text without a training loss"),
]


@pytest.mark.parametrize(("name", "text", "why"), REFUSED)
def test_invalid_files_are_refused(log, name, text, why):
    with pytest.raises(LogError, match=why.format(name=name)):
        log(text, name)


@pytest.mark.parametrize("blank", ["", "\n", " \r\n"])
def test_a_byte_order_mark_and_blank_lines_contain_no_record(log, blank):
    with pytest.raises(LogError):
        log(f"\ufeff{blank}\n", format="csv")


@pytest.mark.parametrize("count", [1, 3])
def test_headers_without_records(log, count):
    with pytest.raises(NoUsableRecord, match="nothing is logged below its header yet"):
        log("epoch,loss\n" * count, "log.csv")


def test_rows_below_no_header_that_begin_with_a_word(tmp_path):
    path = tmp_path / "history.txt"
    path.write_text("".join(f"resnet, {2.5 - n / 9}, 0.5, {n}\n" for n in range(5)))
    with pytest.raises(LogError, match="CSV without a header; add a first line"):
        stabdiag.diagnose(path)


@pytest.mark.parametrize("rows", [2, 9])
def test_a_traceback_below_a_few_records(log, rows):
    error = (
        "Traceback (most recent call last):\n" + '  File "a.py", line 3, in f\n    g(1, 2)\n' * 6
    )
    text = "epoch,loss\n" + "".join(f"{n},{2.5 - n / 9}\n" for n in range(rows))
    columns = log(f"{text}{error}OSError: [Errno 28] No space left, disk\n", "log.csv")
    assert columns.load("loss").present.sum() == rows


def test_messages_between_the_rows_are_no_obstacle(log):
    rows = "".join(
        f"{n},{1 - n / 10:.2f},{n / 10},21m {n}s\nBest model saved at epoch {n}\n"
        for n in range(1, 6)
    )
    read = log(f"Epoch,Train Loss,Val Loss,Time\n{rows}Using device: cuda\nSeed: 5\n")
    assert read.load("Train Loss").values.tolist() == [0.9, 0.8, 0.7, 0.6, 0.5]


@pytest.mark.parametrize(
    ("last", "left_out"),
    [("9,0.875,", 0), ("9,0.8", 0), ("9,nan", 1), ("9,0.8,0.1,7,7", 1), ("9,0.8\n10,0.7", 1)],
)
def test_a_row_cut_by_a_paste_is_no_unread_record(either, last, left_out):
    rows = "".join(f"{n},{2 - n / 8},0.1,{n * 64}\n" for n in range(9))
    assert len(either(f"step,loss,lr,samples\n{rows}{last}\n").left_out) == left_out


def test_the_mark_of_code_before_a_pasted_header_is_no_part_of_a_name(put):
    rows = "".join(f"{epoch}\t{2 - epoch / 8}\t0.01\n" for epoch in range(5, 12))
    history = stabdiag.read(put(f"`Epoch\tTrain-Loss\tLR\n{rows}"))
    assert history.series["loss"].steps.tolist() == [*range(5, 12)]


def test_the_numbers_of_a_file_without_any_name_are_reported(tmp_path):
    path = tmp_path / "data17.txt"
    path.write_text("".join(f"{40 / n:.4f}\n" for n in range(1, 200)))
    report = stabdiag.diagnose(path)
    assert report.diagnosis.slug == "partly-read"
    assert "only 'data17' (from 40 to 0.201)" in report.diagnosis.summary


def test_whole_numbers_without_any_name_are_no_log(tmp_path):
    path = tmp_path / "17.txt"
    path.write_text("".join(f"{n * n % 83}\n" for n in range(1, 200)))
    with pytest.raises(LogError):
        stabdiag.diagnose(path)


@pytest.mark.parametrize("rule", ["|---|---|", "+------+------+"])
def test_the_first_number_of_a_list_counts_in_a_table(tmp_path, rule):
    rows = [f"| {step} | [{2 - step / 100}, 0.5] |" for step in range(60)]
    path = tmp_path / "run.md"
    path.write_text("\n".join(["| step | loss |", rule, *rows]))
    loss = stabdiag.read(path).series["loss"]
    assert loss.values.tolist() == [2 - step / 100 for step in range(60)]


@pytest.mark.parametrize("label", ["Features:\t5", "Best accuracy: \t(0.93,)", "Mask\t: [1, 0, 1]"])
def test_a_result_below_a_table_is_no_unread_record(tmp_path, label):
    rows = "".join(f"{n}\t{2 / n}\t0.{n}\n" for n in range(1, 9))
    path = tmp_path / "run.tsv"
    path.write_text(f"epoch\tloss\tacc\n{rows}{label}\n")
    assert not stabdiag.read(path).left_out


def test_a_constant_epoch_in_front_of_losses(log):
    rows = "".join(f"45\t{0.04 - n / 5000:.6f}\n" for n in range(12))
    assert log(rows, "loss.txt").names == ("epoch", "loss")


BLANK_ROWS = [f"{n:5d}    {2.4 * 0.8**n:10.4f}    {2.6 * 0.8**n:8.4f}" for n in range(1, 13)]
BLANK_HEADER = ["Epoch    Train loss    Val loss", "-----    ----------    --------"]


@pytest.mark.parametrize(
    "above",
    [
        BLANK_HEADER,  # again, with names of two words
        ["seed = 2"],  # as many words as cells
        ["Second run begins"],
    ],
    ids=["header", "setting", "words"],
)
def test_rows_between_blanks_go_on_below_another_line(put, above):
    text = "\n".join([*BLANK_HEADER, *BLANK_ROWS, *above, *BLANK_ROWS, ""])
    report = stabdiag.diagnose(put(text))
    assert report.history.source.attempts == 2
    assert report.diagnosis.slug == "healthy"
    assert len(report.history.series["loss"]) == len(BLANK_ROWS)


def test_rows_below_a_header_that_is_none_are_judged(put):
    rows = [f"{n},{2.4 * 0.8**n:.4f},{n}" for n in range(1, 16)]
    climb = [f"{n},{0.4 * 2**n:.4f},{n}" for n in range(1, 16)]
    text = "\n".join(["epoch,loss,part", *rows, "epoch,loss,other part,size", *climb, ""])
    assert stabdiag.diagnose(put(text)).diagnosis.severity == "error"


def test_a_later_header_between_bars_names_its_own_columns(put):
    rows = "".join(f"| {n} | {2.4 * 0.8**n:.4f} | 0.01 |\n" for n in range(1, 13))
    tables = [
        f"| {' | '.join(names)} |\n|---|---|---|\n{rows}\n"
        for names in (("epoch", "train_loss", "val_loss"), ("epoch", "loss", "lr"))
    ]
    series = stabdiag.diagnose(put("".join(tables))).history.series
    assert "lr" in series
    assert "eval_loss" not in series


@pytest.mark.parametrize("value", ["#NUM!", "#DIV/0!", "#VALUE!", "####"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", " "])
def test_a_failed_cell_that_begins_a_line_is_no_comment(put, value, delimiter):
    rows = [
        ("loss", "step"),
        *((3 - n / 20, n) for n in range(20)),
        *((value, n) for n in (20, 21)),
    ]
    lines = [delimiter.join(map(str, row)) for row in (*rows[:5], ("# note", "3"), *rows[5:])]
    loss = stabdiag.read(put("\n".join(lines) + "\n", NAME)).series["loss"].values
    assert len(loss) == 22
    assert np.isnan(loss[20:]).all()


def test_sections_in_names_between_blanks_separate_cells(put):
    rows = "".join(f"{n} {3 - n / 20} {4 - n / 20}\n" for n in range(20))
    history = stabdiag.read(put("epoch loss/train loss/val\n" + rows, "log.txt"))
    assert history.series["loss"].column == "loss/train"
    assert history.series["eval_loss"].column == "loss/val"


ROWS_OF_LOSSES = [(n, 3 - n / 40, 4 - n / 40) for n in range(40)]


def test_numbers_between_blanks_continue_a_table_without_a_frame(put):
    lines = ["epoch|loss|val_loss", *("|".join(map(str, row)) for row in ROWS_OF_LOSSES[:20])]
    lines += [" ".join(map(str, row)) for row in ROWS_OF_LOSSES[20:]]
    assert len(stabdiag.read(put("\n".join(lines), NAME)).series["loss"]) == 40


def test_a_report_of_classes_continues_no_framed_table(put):
    rows = [f"| {epoch} | {loss} | {held_out} |" for epoch, loss, held_out in ROWS_OF_LOSSES]
    report = ["precision recall f1-score support", "", "  0  0.98  0.99  0.98  980"]
    lines = ["| epoch | loss | val_loss |", "|---|---|---|", *rows, *report]
    assert len(stabdiag.read(put("\n".join(lines), "log.md")).series["loss"]) == 40
