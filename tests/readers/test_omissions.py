"""Pastes whose author left out lines, with a mark in their place."""

import pytest

import stabdiag
from stabdiag.model.events import EventCode

EARLY, LATE = range(10, 70, 10), range(940, 1010, 10)
MARKS = [
    *(
        "...",
        "......",
        "[...]",
        "(...)",
        "<...>",
        "{...}",
        "…",
        "[…]",
        "⋮",
        ".\n.\n.",
        ":",
        "> ...",
    ),
    *("<snip>", "--- snip ---", "[200 lines omitted]", "... (truncated) ...", "(output truncated)"),
    *("*TRUNCATED*", "some lines are omitted for brevity", "【省略】", "  ...  \t"),
]


def text_lines(steps):
    return [f"step {step}: loss {3 - step / 500:.3f}" for step in steps]


def csv_lines(steps):
    return [f"{step},{3 - step / 500:.3f},0.001" for step in steps]


def json_lines(steps):
    return [f'{{"step": {step}, "loss": {3 - step / 500:.3f}}}' for step in steps]


def keras_lines(steps):
    return [
        f"Epoch {step // 10}/101\n20/20 [=====] - 1s - loss: {3 - step / 500:.4f}" for step in steps
    ]


FORMS = {
    "text": (text_lines, []),
    "csv": (csv_lines, ["step,loss,lr"]),
    "jsonl": (json_lines, []),
    "keras": (keras_lines, []),
}


def diagnosed(tmp_path, lines):
    (tmp_path / "run.log").write_text("\n".join(lines) + "\n")
    return stabdiag.diagnose(tmp_path / "run.log")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mark", MARKS)
def test_lines_that_a_paste_leaves_out_are_not_missing_steps(tmp_path, form, mark):
    lines, heading = FORMS[form]
    report = diagnosed(tmp_path, [*heading, *lines(EARLY), mark, *lines(LATE)])
    assert report.diagnosis.slug == "healthy"
    assert len(report.history.series["loss"]) == len(EARLY) + len(LATE)
    codes = [event.code for event in report.history.events]
    assert codes.count(EventCode.LINES_OMITTED) == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "between",
    [
        *("", "Saving the model...", "loading... done", "1...2", "done.", "-----", "* * *"),
        *("12 steps skipped", "the sequence was truncated", "step: ...", "]", "a :"),
    ],
)
def test_other_lines_leave_nothing_out(tmp_path, form, between):
    lines, heading = FORMS[form]
    report = diagnosed(tmp_path, [*heading, *lines(EARLY), between, *lines(LATE)])
    assert report.diagnosis.slug == "resume-step-gap"


def test_a_failure_below_the_mark_is_found(tmp_path):
    lines = [*text_lines(EARLY), "...", *text_lines(LATE), "step 1010: loss nan"]
    assert diagnosed(tmp_path, lines).diagnosis.slug == "nan-dtype-unknown"


@pytest.mark.parametrize("footer", [[], ["", "[120 rows x 3 columns]"]])
@pytest.mark.parametrize("mark", [["..      ...    ...       ..."], []])
def test_both_ends_of_a_table_of_pandas_are_read(tmp_path, mark, footer):
    def rows(numbers):
        return [f"{n:<5} {n:>5}  {2 - n / 100:.3f}     {2.1 - n / 100:.3f}" for n in numbers]

    heading = "      epoch   loss  val_loss"
    table = [heading, *rows(range(5)), *mark, *rows(range(115, 120)), *footer]
    loss = diagnosed(tmp_path, table).history.series["loss"]
    assert loss.steps.tolist() == [*range(5), *range(115, 120)]


def test_the_end_of_a_table_of_pandas_is_read(tmp_path):
    rows = [f"{n}  {n}  {2 - n / 100:.3f}" for n in range(115, 120)]
    loss = diagnosed(tmp_path, ["     epoch  loss", *rows]).history.series["loss"]
    assert loss.steps.tolist() == [*range(115, 120)]
