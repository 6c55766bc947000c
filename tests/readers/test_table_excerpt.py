"""Tables of numbers that a post quotes between sentences."""

import pytest

import stabdiag
from stabdiag.errors import LogError

ABOVE = "The errors are reduced. These are the last steps of lcurve.out:\n"
BELOW = "\nI use 14 data sets, 80 percent of each is for the training. What is wrong?\n"
COMMENT = "# If there is no reference data, rmse_*_{val,trn} will print nan\n......\n"


@pytest.fixture
def written(tmp_path):
    def write(text):
        (tmp_path / "post.txt").write_text(text)
        return tmp_path / "post.txt"

    return write


def rows(separator="     ", count=6, first=1):
    cells = ((f"{first + n}000", f"{2 / (n + 1):.2e}", f"{1 / (n + 1):.2e}") for n in range(count))
    return "".join(separator.join(row) + "\n" for row in cells)


@pytest.mark.parametrize("heading", ["# step  rmse_val  rmse_trn\n", "step rmse_val rmse_trn\n"])
@pytest.mark.parametrize("separator", ["     ", " ", "\t"])
@pytest.mark.parametrize("between", ["", COMMENT])
def test_a_table_between_sentences_is_read(written, heading, separator, between):
    history = stabdiag.read(written(ABOVE + heading + between + rows(separator) + BELOW))
    assert history.series["loss"].steps.tolist() == [1000, 2000, 3000, 4000, 5000, 6000]
    assert history.series["loss"].values[0] == 1.0
    assert history.series["eval_loss"].values[0] == 2.0


def test_rows_between_commas_and_a_quotation_mark_are_read(written):
    text = ABOVE + '"epoch,loss,val_loss\n1,0.9,1.0\n2,0.8,0.9\n3,0.7,0.8"\n' + BELOW
    assert stabdiag.read(written(text)).series["loss"].values.tolist() == [0.9, 0.8, 0.7]


def test_the_longest_table_is_read(written):
    heading = "step rmse_val rmse_trn\n"
    text = ABOVE + heading + rows(count=3) + BELOW + heading + rows(count=5, first=11) + BELOW
    assert stabdiag.read(written(text)).series["loss"].steps[0] == 11000


@pytest.mark.parametrize("rule", ["", "------  -------  ------  ------\n"])
@pytest.mark.parametrize("name", ["cost", "loss"])
def test_a_heading_above_the_rows_of_each_epoch(written, rule, name):
    options = "".join(f"l_{n}: (None, {n})\n" for n in range(12))
    heading = f"split     epoch    {name}    cerr\n{rule}"
    epochs = "".join(
        f"{heading}trn       {n:5}    {2 - n / 10:.2f}    0.18\ndev       {n:5}    1.90    0.20\n"
        for n in range(6)
    )
    series = stabdiag.read(written(options + epochs)).series
    assert series["loss"].steps.tolist() == [0, 1, 2, 3, 4, 5]
    assert series["loss"].values.tolist() == [2.0, 1.9, 1.8, 1.7, 1.6, 1.5]
    assert set(series["eval_loss"].values) == {1.9}


@pytest.mark.parametrize("heading", ["", "step rmse_val rmse_trn\n"])
def test_rows_below_other_lines_continue_the_table(written, heading):
    text = ABOVE + "step rmse_val rmse_trn\n" + rows() + BELOW + heading + "7000 nan nan\n" + BELOW
    assert stabdiag.diagnose(written(text)).diagnosis.slug == "nan-dtype-unknown"


@pytest.mark.parametrize(
    ("below", "is_read"),
    [
        ("7000 nan\n", False),  # a cut row
        ("step bleu\n7000 21.0\n8000 3.0\n9000 2.0\n", False),
        ("class precision\n1 0.9\n", True),  # an evaluation
    ],
)
def test_another_table_below_that_may_go_on_is_not_ignored(written, below, is_read):
    path = written(ABOVE + "step rmse_val rmse_trn\n" + rows() + BELOW + below)
    try:
        slug = stabdiag.diagnose(path).diagnosis.slug
    except LogError:
        slug = "refused"
    assert slug in (("insufficient-data",) if is_read else ("partly-read", "refused"))


@pytest.mark.parametrize(
    "table",
    [
        # The first column is not a counter: a table of results.
        "layers accuracy time\n2 0.71 3.0\n4 0.75 5.0\n8 0.78 9.0\n",
        # The counter does not rise.
        "step rmse_val rmse_trn\n3000 1.0 0.9\n2000 0.9 0.8\n1000 0.8 0.7\n",
        # Two rows.
        "step rmse_val rmse_trn\n" + rows(count=2),
        # No name is known.
        "step size mass\n1 3 4\n2 5 6\n3 7 8\n",
    ],
)
def test_other_tables_are_not_logs(written, table):
    with pytest.raises(LogError):
        stabdiag.read(written(ABOVE + table + BELOW))


def test_rows_without_a_heading_have_unknown_values(written):
    report = stabdiag.diagnose(written("tail lcurve.out\n" + rows()))
    assert report.diagnosis.slug == "partly-read"


VOWPAL_WABBIT = """Reading datafile = clicks.vw
average    since         example     example  current  current  current
loss       last          counter      weight    label  predict features
"""


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_first_rows_of_vowpal_wabbit_are_read(written, count):
    lines = (
        f"0.{9 - n}12300   0.{8 - n}00100          {2**n}      {2**n}.0   1.0000   0.1{n}00   2{n}"
        for n in range(count)
    )
    loss = stabdiag.read(written(VOWPAL_WABBIT + "\n".join(lines) + "\n")).series["loss"]
    assert loss.values.tolist() == [float(f"0.{9 - n}123") for n in range(count)]
    assert loss.steps.tolist() == [2**n for n in range(count)]


def test_a_quoted_table_may_count_batches(written):
    text = '"# batch   l2_tst   l2_trn\n' + rows().replace("000", "00") + '"'
    series = stabdiag.read(written(text)).series
    assert series["loss"].steps.tolist() == [100 * n for n in range(1, 7)]
    assert series["eval_loss"].values[0] == 2
