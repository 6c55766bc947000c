"""A value that is not finite means the same in every format, however it is spelled."""

import json
import math

import numpy as np
import pytest

import stabdiag
from stabdiag.readers.values import not_finite
from stabdiag.readers.words import NULL, NUMBER, WORD, leading_counts, meaning

LAST_GOOD, STEPS = 30, 60

NOT_FINITE = (
    *("nan", "NaN", "-nan", "inf", "-inf", "Infinity", "1e400", "(nan)", "-nan(ind)", "nan(ind)"),
    *(
        "1.#QNAN",
        "-1.#IND",
        "1.#INF",
        "1.#INF00",
        "-1.#IND00",
        "1.#QNANe+000",
        "-1.#INDe+00",
        "1.#INF00e+00",
        "1.#NAN",
        "nan%",
        '"nan"',
        "#NUM!",
        "***",
    ),
    *("tensor(nan)", "tensor(nan, device='cuda:0')", "np.float32(nan)", "array(nan)", "overflow"),
    *("<NaN>", "`nan`", "**NaN**", "~nan", "∞", "-∞", "非数", "#ZAHL!"),
    *("jnp.nan", "float('inf')", "Decimal('NaN')"),
    *(
        "1.#QO",
        "NaNQ",
        "Inf32",
        "####",
        "+++++",
        "#DIV/0",
        "\uff2e\uff41\uff2e",
        "\u2212inf",
    ),
)
# In a sentence, these may follow the word "loss".
PHRASES = ("not a number", "Non-finite", "keine Zahl", "не число")
# Blanks within a cell separate values in most texts.
IN_CELLS = (
    "{nan}",
    "nan!",
    "nan bits",
    "inf dB",
    "**nan** ❌",
    "-1.#SNAN",
    "unendlich",
    "#¡NUM!",
    "NINF",
    "-1.$",
    "[inf, inf]",
    "nan (nan)",
    "<tf.Tensor: shape=(), dtype=float32, numpy=nan>",
    "nane+00",
    "Indeterminate",
    "OverflowError",
    "&infin;",
    "<b>nan</b>",
    "\x1b[31mnan\x1b[0m",
    "(nan+nanj)",
    "nan ± 0.2",
    "nan +/- nan",
    "nan/nan",
    "{'loss': nan}",
    "Tensor(shape=[1], dtype=float32, place=Place(gpu:0), stop_gradient=False,\n       [nan])",
    "nan.",
    "NaNf0",
    "nan (skipped)",
    "NaN (not a number)",
    "NaN <--",
)
WITHOUT_A_VALUE = (
    *("None", "null", "N/A", "NA", "-", "--", "undefined", "(null)", "<none>"),
    *("undef", "masked", "none", "нет", "无", "なし", "없음"),
)
SPELLINGS = (*NOT_FINITE, *WITHOUT_A_VALUE)


def quoted(value):
    return f'"{value}"' if "," in value else value


def json_value(value):
    try:
        json.loads(value)
    except ValueError:
        return json.dumps(value)
    return value


LINES = {
    "json-lines": lambda step, loss: f'{{"step": {step}, "loss": {json_value(loss)}, "lr": 0.1}}',
    "bare-json": lambda step, loss: f'{{"step": {step}, "loss": {loss}, "lr": 0.1}}',
    "csv": lambda step, loss: f"{step},{quoted(loss)}",
    "colons": lambda step, loss: f"step: {step}, loss: {loss}, lr: 0.1",
    "equals": lambda step, loss: f"step={step} loss={loss} lr=0.1",
    "blanks": lambda step, loss: f"step {step} loss {loss} lr 0.1",
    "loss-last": lambda step, loss: f"iter {step}: loss {loss}",
    "position": lambda step, loss: f"[{step}/60] train loss: {loss}",
    "trainer": lambda step, loss: f"{{'loss': {loss}, 'grad_norm': 0.5, 'epoch': {step / 10}}}",
    "caffe": lambda step, loss: (
        f"I0101 10:00:00.0 12 solver.cpp:22] Iteration {step}, loss = {loss}"
    ),
    "megatron": lambda step, loss: (
        f" iteration {step:8d}/      60 | lm loss: {loss} | grad norm: 1 |"
    ),
    "bar": lambda step, loss: f" 5%|#    | {step}/60 [00:10<00:10,  8.00it/s, loss={loss}]",
}
HEADERS = {"csv": "step,loss\n"}


def log_of(tmp_path, form, spelling):
    losses = [f"{2 - step / 100:.4f}" for step in range(1, LAST_GOOD + 1)]
    losses += [spelling] * (STEPS - LAST_GOOD)
    lines = [LINES[form](step, loss) for step, loss in enumerate(losses, start=1)]
    path = tmp_path / "run.log"
    path.write_text(HEADERS.get(form, "") + "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("form", LINES)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_loss_without_a_finite_value_is_not_finite(tmp_path, form, spelling):
    loss = stabdiag.read(log_of(tmp_path, form, spelling)).series["loss"]
    assert np.isfinite(loss.values[:LAST_GOOD]).all()
    assert len(loss) == STEPS
    assert not np.isfinite(loss.values[LAST_GOOD:]).any()


@pytest.mark.parametrize("form", ["json-lines", "csv", "colons", "equals", "bar", "caffe"])
@pytest.mark.parametrize("spelling", PHRASES)
def test_a_phrase_in_place_of_a_loss_is_not_finite(tmp_path, form, spelling):
    loss = stabdiag.read(log_of(tmp_path, form, spelling)).series["loss"]
    assert len(loss) == STEPS
    assert not np.isfinite(loss.values[LAST_GOOD:]).any()


@pytest.mark.parametrize("sentence", ["loss not finite, see above", "loss is **not** logged here"])
def test_a_sentence_about_a_loss_is_no_value(tmp_path, sentence):
    lines = [f"step: {n}, loss: {2 - n / 100:.4f}" for n in range(STEPS)]
    path = tmp_path / "run.log"
    path.write_text("\n".join([f"# {sentence}", *lines]))
    assert np.isfinite(stabdiag.read(path).series["loss"].values).all()


@pytest.mark.parametrize("spelling", [*NOT_FINITE, *PHRASES, *IN_CELLS])
def test_a_spelling_is_a_number_that_is_not_finite(spelling):
    state, value, _ = meaning(spelling)
    assert state == NUMBER
    assert not math.isfinite(value)


@pytest.mark.parametrize("word", WITHOUT_A_VALUE)
def test_a_word_for_no_value_is_a_null(word):
    assert meaning(word)[0] == NULL


@pytest.mark.parametrize(
    "word",
    [
        *("nano", "info", "banana", "1.#X", "*", "n", "infra(3)", "over", "nan-gpt", "inf/2"),
        *("#12", "##", "++", "infrared", "nan and 3", "<section>", "m&m", "C#", "nans", "1.$5"),
        *("nan_count", "x(nan)y", "#1", "# nan", "finite", "info!", "Infinity War", "∞-gpt"),
    ],
)
def test_other_words_are_words(word):
    assert not_finite(word) is None
    assert meaning(word)[0] == WORD


@pytest.mark.parametrize(("spelling", "value"), [("-1.#INF", -np.inf), ("1.#INF00", np.inf)])
def test_an_infinity_keeps_its_sign(spelling, value):
    assert not_finite(spelling) == value


def test_a_loss_that_is_written_every_other_record_is_complete(tmp_path):
    lines = (f"step: {n}, loss: {'None' if n % 2 else 2.5}, acc: 0.5" for n in range(60))
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines))
    assert np.isfinite(stabdiag.read(path).series["loss"].values).all()


def test_a_mean_in_parentheses_is_not_the_value(tmp_path):
    lines = (f"step: {n} loss: 2.5 (nan) lr: 0.1" for n in range(60))
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines))
    assert np.isfinite(stabdiag.read(path).series["loss"].values).all()


@pytest.mark.parametrize(
    ("cell", "state", "number"),
    [
        ("0.91 ✓", NUMBER, 0.91),
        ("2.5e-3*", NUMBER, 0.0025),
        ("(2.5+0j)", NUMBER, 2.5),
        ("<tf.Tensor: shape=(), dtype=float32, numpy=2.5>", NUMBER, 2.5),
        ("Tensor(shape=[], dtype=float32, place=Place(cpu), stop_gradient=True, 2.5)", NUMBER, 2.5),
        ("{'loss': 2.5}", NUMBER, 2.5),
        ("-1.5 ↓", NUMBER, -1.5),
        ("nan ❌", NUMBER, math.nan),
        ("—", NULL, math.nan),
        ("3 → 4", WORD, math.nan),
        ("95‰", WORD, math.nan),
        ("25 °C", WORD, math.nan),
    ],
)
def test_a_mark_behind_a_number_is_not_part_of_it(cell, state, number):
    assert meaning(cell)[0] == state
    np.testing.assert_equal(meaning(cell)[1], number)


@pytest.mark.parametrize(
    ("cells", "steps"),
    [
        (["500", "1k", "1.5k", "2k", "2.5K"], [500, 1000, 1500, 2000, 2500]),
        (["5k", "10k", "15k", "0.02M", "~25k"], [5000, 10000, 15000, 20000, 25000]),
        (["0", "500", "1 000", "1 500", "2 000"], [0, 500, 1000, 1500, 2000]),
        (["1/5", "2/5", "3/5", "4/5", "5"], [1, 2, 3, 4, 5]),
        (["1   / 50", "2   / 50", "3 / 50", "10  / 50"], [1, 2, 3, 10]),
        (["1 of 50", "2 of 50", "3 of 50", "4 of 50"], [1, 2, 3, 4]),
        (["Epoch 1", "Epoch 2", "Epoch 3", "Epoch 4"], [1, 2, 3, 4]),
        (["step_10", "step_20", "step_30", "step_40"], [10, 20, 30, 40]),
    ],
)
@pytest.mark.parametrize("form", ["| {} | {} |", "{};{}", "{}\t{}"])
def test_counts_with_units_are_numbers(tmp_path, cells, steps, form):
    rows = [("Step", "Loss"), *((cell, 2.5 - n / 4) for n, cell in enumerate(cells))]
    (tmp_path / "table.md").write_text("".join(form.format(*row) + "\n" for row in rows))
    loss = stabdiag.read(tmp_path / "table.md").series["loss"]
    assert loss.steps.tolist() == steps


@pytest.mark.parametrize(
    "cells",
    [
        ["4k", "8k", "hd"],
        ["1 00", "2 00", "3 00"],
        ["2k5", "3k", "4k"],
        ["net 1", "net 2"],
        ["fold_1"],
    ],
)
def test_other_words_with_digits_are_no_counts(cells):
    assert leading_counts(cells) is None
