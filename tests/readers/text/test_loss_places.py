"""A text in the place of the loss, for which no table has a spelling."""

from contextlib import suppress

import pytest

import stabdiag
from stabdiag.errors import NoUsableRecord

LOSSES = [f"{0.4 + 3 / (n + 1):.4f}" for n in range(60)]
OTHERS = [f"{0.5 + 3 / (n + 1):.4f}" for n in range(60)]
ENTROPY = "Epoch[{0}] Batch [40]\taccuracy=0.4{0}\tcross-entropy={1}"
FORMS = {
    "a name of the loss": "pass {0} nll={1} rate=0.0{0}",
    "at the end": ENTROPY,
    "two counts": "[{0:03d}, 200] loss: {1}",
    "splits": "round {0}: loss train {1}, val {2}",
    "a bar": " 40%|████      | {0}/60 [00:12<00:09, 1.8it/s, ce={1}, lr=0.0{0}]",
    "elements": "<step>{0}</step><loss>{1}</loss><lr>0.0{0}</lr>",
    "a value and its mean": "it {0:4d}: {1}, {1} avg loss, 0.01 rate, 2.1 seconds, 640 images",
    "rows of TeX": "{0} & {1} & 0.9 \\\\",
    "a sentence": "Finished round {0}: average training loss of {1} (took 31 s)",
    "an optimizer": "At iterate {0:4d}    f=  {1}    |proj g|=  7.12D-02",
    "the value of a function": "Iteration {0}: objective value {1}, gradient norm 0.0{0}",
    "losses of parts": "[{0}] train: loss_ctc=80.2, loss_att=50.1, loss={1}, lr0=0.0{0}",
    "an element of a list": "loss[{0}] = {1}",
    "two losses": "epoch {0} (train_loss={1}, val_loss={2})",
    "the loss of an evaluation": "epoch {0} val_loss {1}",
    "a value that may be the loss": "iter {0} value {1}",
    "a dict on several lines": "{{'epoch': {0},\n 'loss': {1},\n 'lr': 0.0{0}}}",
}
TEXTS = ("lost", "???", ">1e38", "0x7fc0", "0/0", "1.2.3", "NaN.0", "N/A")
PLACES = {"from the middle on": range(30, 60), "last": [59], "once": [30]}


def diagnosis(put, form, losses):
    lines = [form.format(n, loss, OTHERS[n % 60]) for n, loss in enumerate(losses)]
    return stabdiag.diagnose(put("\n".join([*lines, ""]))).diagnosis


@pytest.mark.parametrize("form", FORMS)
def test_numbers_only_are_read_in_full(put, form):
    assert diagnosis(put, FORMS[form], LOSSES).slug == "healthy"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("form", FORMS)
def test_a_text_in_the_place_of_the_loss_is_not_ignored(put, form, text, place):
    losses = [text if n in PLACES[place] else loss for n, loss in enumerate(LOSSES)]
    assert diagnosis(put, FORMS[form], losses).severity in ("warning", "error")


def test_the_line_of_the_first_text_is_named(put):
    losses = [*LOSSES[:40], "lost", "lost", *LOSSES[42:]]
    text = "\n".join(f"pass {n} nll={loss} rate=0.0{n}" for n, loss in enumerate(losses))
    (event,) = stabdiag.diagnose(put(text)).history.left_out
    assert (event.line, event.value) == (41, 2.0)


@pytest.mark.parametrize(
    "line",
    [
        "pass 9 begins",
        "pass 9 nll=0.7012",
        "pass 9 took 12.1 s",
        "pass 9 nll improved, saving rate=0.09",
        "best pass 9 nll=lost",
        "val pass 9 nll=0.7 rate=0.09",
    ],
)
def test_other_lines_are_no_records(put, line):
    lines = [FORMS["a name of the loss"].format(n, loss) for n, loss in enumerate(LOSSES)]
    text = "\n".join([*lines[:30], line, *lines[30:], ""])
    assert stabdiag.diagnose(put(text)).diagnosis.slug == "healthy"


def test_a_placeholder_above_the_first_loss_is_no_record(put):
    assert diagnosis(put, FORMS["a name of the loss"], ["-", "-", *LOSSES]).slug == "healthy"


@pytest.mark.parametrize("text", ["...", "n. a.", "None/None", "qNaN", "<?>", "not available"])
@pytest.mark.parametrize(
    "form",
    [
        "epoch {0} - loss: {1} - acc: 0.5{0} - val_loss: {2} - val_acc: 0.4{0}",
        "epoch {0}, train loss={1}, accuracy=0.5{0}",
        "epoch {0}; Loss {1}; Val {2}",
    ],
)
def test_a_log_with_a_text_as_every_training_loss_is_not_healthy(tmp_path, form, text):
    path = tmp_path / "run.log"
    path.write_text("".join(form.format(n, text, loss) + "\n" for n, loss in enumerate(LOSSES)))
    with suppress(NoUsableRecord):
        assert stabdiag.diagnose(path).diagnosis.severity in ("warning", "error")


def test_the_name_of_a_loss_function_is_no_value(put):
    form = "epoch {0} loss: {1} val_loss: {2}"
    assert diagnosis(put, form, ["mse"] * 60).slug == "healthy"


SCORES = {
    "accuracy": "epoch {0} accuracy {1}",
    "F1": "epoch {0} - dev F1: {1}",
    "reward": "Episode: {0}, Total reward: {1}, Epsilon: 0.{0}",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", SCORES)
def test_a_text_in_the_place_of_the_only_score_is_not_ignored(put, form, place):
    scores = ["lost" if n in PLACES[place] else f"{n}.5" for n in range(60)]
    assert diagnosis(put, SCORES[form], scores).slug == "partly-read"


@pytest.mark.parametrize("placeholder", ["-", "N/A", "none"])
@pytest.mark.parametrize("form", SCORES)
def test_a_score_may_be_missing_between_evaluations(put, form, placeholder):
    scores = [f"{n}.5" if n % 5 == 4 else placeholder for n in range(60)]
    assert diagnosis(put, SCORES[form], scores).slug != "partly-read"


def test_decimal_commas_show_the_place_of_the_loss(put):
    form = "Epoche {0}/60: Trainingsverlust {1}, Validierungsverlust 1,9"
    losses = [loss.replace(".", ",") if n % 2 else "0x7fc0" for n, loss in enumerate(LOSSES)]
    assert diagnosis(put, form, losses).slug == "partly-read"


@pytest.mark.parametrize(
    "form",
    [
        "pass {0} nll={1} (v1.2.3) rate=0.0{0}",
        "pass {0} nll={1} shards 1,2,3 done 0/0 rate=0.0{0}",
        "2026-01-02 03:04:{0:02d},123 pass {0} nll={1}",
        "pass {0} nll={1} tokens 1,234,5{0:02d} left 1:02:{0:02d}",
    ],
)
def test_other_numbers_of_a_record_may_have_any_form(put, form):
    assert diagnosis(put, form, LOSSES).slug == "healthy"


def test_a_loss_that_is_missing_where_a_bar_begins_is_named_if_others_have_it(put):
    lines = [
        f"Epoch {n // 10}: {n % 10 * 10:3d}%|{'#' * (n % 10):10}| {n % 10}/10 "
        f"[00:0{n % 10}<00:09, 1.8it/s, ce={'lost' if n == 40 else loss}]"
        for n, loss in enumerate(LOSSES)
    ]
    report = stabdiag.diagnose(put("\n".join([*lines, ""])))
    assert [event.line for event in report.history.left_out] == [41]


@pytest.mark.parametrize("placeholder", ["?", "--", "N/A", "..."])
def test_a_placeholder_where_a_bar_begins_is_no_record(put, placeholder):
    lines = [
        f"Epoch {n // 10}: {n % 10 * 10:3d}%|{'#' * (n % 10):10}| {n % 10}/10 "
        f"[00:0{n % 10}<00:09, 1.8it/s, ce={loss if n % 10 else placeholder}]"
        for n, loss in enumerate(LOSSES)
    ]
    assert stabdiag.diagnose(put("\n".join([*lines, ""]))).diagnosis.slug == "healthy"


def bars(placeholder, at):
    return "\n".join(
        f"Epoch {n // 10}: {n % 10 * 10:3d}%|{'#' * (n % 10):10}| {n % 10}/10 "
        f"[00:0{n % 10}<00:09, 1.8it/s, loss={placeholder if n in at else loss}]"
        for n, loss in enumerate(LOSSES)
    )


@pytest.mark.parametrize("placeholder", ["nan", "None", "N/A", "-"])
def test_a_loss_that_is_missing_where_each_bar_begins_is_a_placeholder(put, placeholder):
    report = stabdiag.diagnose(put(bars(placeholder, range(0, 60, 10))))
    assert report.diagnosis.slug == "healthy"


@pytest.mark.parametrize("at", [range(30, 40), [0, 10, 20, 30, 40, 45, 50], range(50, 60)])
def test_a_loss_that_fails_elsewhere_is_no_placeholder(put, at):
    assert stabdiag.diagnose(put(bars("nan", at))).diagnosis.severity == "error"


@pytest.mark.parametrize("words", ["improved", "has improved!", "decreased", "is unchanged."])
def test_words_about_the_course_of_the_loss_are_no_value(put, words):
    lines = [f"Epoch {n} loss {loss}" for n, loss in enumerate(LOSSES)]
    text = "\n".join([*lines, f"Epoch 60 loss {words}", ""])
    assert stabdiag.diagnose(put(text)).diagnosis.slug == "healthy"
    assert stabdiag.diagnose(put(text.replace(words, "lost"))).diagnosis.slug != "healthy"


EMPTY = {
    "before a value": ("epoch {0} train loss: {1}, val loss: 2.1", 1),
    "before a bar": ("loss: {1}: {0:3d}%|{0}| {0}/60 [00:12<00:09, 1.8it/s]", 1),
    "at the end": ("loss[{0}] = {1}", 2),
    "a block": ("Step: {0}\nLoss: {1}\nRate: 0.{0}", 2),
}


@pytest.mark.parametrize("form", EMPTY)
def test_an_empty_place_of_the_loss_is_not_ignored(put, form):
    pattern, fewest = EMPTY[form]
    losses = [*LOSSES[: 60 - fewest], *fewest * [""]]
    assert diagnosis(put, pattern, losses).slug == "partly-read"


@pytest.mark.parametrize("form", ["at the end", "a block"])
@pytest.mark.parametrize("row", [30, 59])
def test_a_line_that_ends_before_its_loss_may_be_cut(put, form, row):
    losses = ["" if n == row else loss for n, loss in enumerate(LOSSES)]
    assert diagnosis(put, EMPTY[form][0], losses).slug == "healthy"


def test_the_place_of_an_evaluation_may_be_empty(put):
    losses = [loss if n % 5 == 4 else "" for n, loss in enumerate(LOSSES)]
    form = "epoch {0} val_loss: {1}, rate: 0.1"
    assert diagnosis(put, form, losses).slug != "partly-read"
