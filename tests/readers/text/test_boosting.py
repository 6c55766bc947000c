"""The measures of boosted trees and factorization machines."""

import math

import pytest

import stabdiag
from stabdiag.errors import LogError


@pytest.fixture
def read(tmp_path):
    def read(text):
        log = tmp_path / "train.log"
        log.write_text(text)
        return stabdiag.read(log).series

    return read


def rounds(name, values, separator=":"):
    return "".join(f"[{n}]\t{name}{separator}{value}\n" for n, value in enumerate(values))


@pytest.mark.parametrize(
    "measure",
    [
        *("gamma-nloglik", "poisson-nloglik", "cox-nloglik", "tweedie-nloglik@1.5"),
        *("gamma-deviance", "mphe", "merror", "error", "error@0.7", "rmse", "logloss"),
    ],
)
@pytest.mark.parametrize("place", ["train", "validation_0"])
def test_a_measure_that_xgboost_minimizes_is_a_loss(read, measure, place):
    loss = read(rounds(f"{place}-{measure}", [2.5, 2.25, "nan", "-nan"]))["loss"]
    assert loss.steps.tolist() == [0, 1, 2, 3]
    assert loss.values[:2].tolist() == [2.5, 2.25]
    assert all(map(math.isnan, loss.values[2:]))


@pytest.mark.parametrize("measure", ["merror", "rmse", "logloss", "poisson-nloglik"])
def test_the_second_set_of_an_estimator_is_an_evaluation(read, measure):
    form = f"[{{n}}]\tvalidation_0-{measure}:{{n}}.5\tvalidation_1-{measure}:{{n}}.75\n"
    series = read("".join(form.format(n=n) for n in range(5)))
    assert series["loss"].values.tolist() == [0.5, 1.5, 2.5, 3.5, 4.5]
    assert series["eval_loss"].values.tolist() == [0.75, 1.75, 2.75, 3.75, 4.75]


def test_a_ranking_is_a_score(read):
    series = read(rounds("train-ndcg@5", [0.25, 0.5, 0.75]))
    assert "loss" not in series
    assert [values.values.tolist() for values in series.values()] == [[0.25, 0.5, 0.75]]


XLEARN = "[------------] Epoch      Train log_loss       Test log_loss            Test AUC     "


@pytest.mark.parametrize(
    ("heading", "row", "evaluation"),
    [
        (XLEARN + "Time cost (sec)", "{loss}   {test}    0.500000     11.07", [0.75, 0.5, 0.25]),
        (XLEARN + "Time cost (sec)", "{loss}   {test}", [0.75, 0.5, 0.25]),
        ("[------------] Epoch      Train mse_loss     Time cost (sec)", "{loss}   1.25", None),
        # An excerpt without the bar before the heading.
        ("               Epoch      Train mse_loss     Time cost (sec)", "{loss}   1.25", None),
    ],
)
def test_the_table_of_xlearn(read, heading, row, evaluation):
    values = [(0.5, 0.75), (0.25, 0.5), ("nan", 0.25)]
    rows = [
        f"[   {n}0%      ]     {n}            " + row.format(loss=loss, test=test)
        for n, (loss, test) in enumerate(values, start=1)
    ]
    series = read("\n".join([heading, *rows]))
    assert series["loss"].steps.tolist() == [1, 2, 3]
    assert series["loss"].values[:2].tolist() == [0.5, 0.25]
    assert math.isnan(series["loss"].values[2])
    evaluations = series["eval_loss"].values.tolist() if "eval_loss" in series else None
    assert evaluations == evaluation


def test_the_scale_of_a_line_search_is_not_a_loss_scale(read):
    line = "[iter {n}] loss={loss} val_loss=0.0000 scale={scale} norm=2.5000\n"
    scales = ["2.0000", "0.5000", "1.0000", "0.2500", "0.2500"]
    series = read(
        "".join(
            line.format(n=100 * n, loss=10.5 - n / 4, scale=scale) for n, scale in enumerate(scales)
        )
    )
    assert series["loss"].steps.tolist() == [0, 100, 200, 300, 400]
    assert series["loss"].values.tolist() == [10.5, 10.25, 10.0, 9.75, 9.5]
    assert {"loss_scale", "eval_loss"}.isdisjoint(series)


def test_an_unknown_metric_next_to_a_known_score_of_its_set_is_no_loss(read):
    text = "".join(f"[{n}]\ttrain-auc:0.5\ttrain-ams@0.15:0.62\n" for n in range(6))
    assert [*read(text)] == ["score/train-auc"]


def test_an_unknown_metric_of_another_set_may_be_the_loss(read):
    text = "".join(f"[{n}]\ttrain-auc:0.5\twatch-ams@0.15:0.62\n" for n in range(6))
    with pytest.raises(LogError):
        read(text)


def test_a_negative_measure_that_rises_is_an_objective(read):
    line = "{n}:\tlearn: {learn}\ttotal: {n}s\tremaining: 2m 4{n}s\n"
    text = "".join(line.format(n=n, learn=n / 4 - 2) for n in range(4))
    assert read(text)["loss"].values.tolist() == [2.0, 1.75, 1.5, 1.25]


def test_a_negative_measure_of_two_sets_that_rises_is_an_objective(read):
    line = "{n}:\tlearn: {a}\ttest: {b}\tbest: {b} ({n})\ttotal: {n}s\tremaining: 2m\n"
    text = "".join(line.format(n=n, a=n / 4 - 2, b=n / 8 - 3) for n in range(4))
    series = read(text)
    assert series["loss"].values.tolist() == [2.0, 1.75, 1.5, 1.25]
    assert series["eval_loss"].values.tolist() == [3.0, 2.875, 2.75, 2.625]


def test_a_measure_that_becomes_positive_is_a_score(read):
    line = "{n}:\tlearn: {a}\ttest: {b}\tbest: {b} ({n})\ttotal: {n}s\tremaining: 2m\n"
    text = "".join(line.format(n=n, a=n / 2 - 1, b=n / 2 - 1.5) for n in range(4))
    assert [*read(text)] == ["score/test_score"]


@pytest.mark.parametrize("tested", ["", "test: 0.75\tbest: 0.75 (0)\t"])
@pytest.mark.parametrize("counts", [[0], [200], [0, 100]])
def test_a_line_of_catboost_has_its_count(read, tested, counts):
    series = read(
        "".join(f"{n}:\tlearn: 0.6875\t{tested}total: 9ms\tremaining: 2s\n" for n in counts)
    )
    assert series["loss"].steps.tolist() == counts
    assert ("eval_loss" in series) == bool(tested)


def test_the_rest_of_a_line_of_catboost_with_a_score_is_not_unknown(tmp_path):
    scores = "{n}00:\tlearn: 0.9{n}\ttest: 0.8{n}\tbest: 0.8{n} ({n}00)"
    line = scores + "\ttotal: {n}9s\tremaining: 1m 5s\n"
    (tmp_path / "train.log").write_text("".join(line.format(n=n) for n in range(3, 7)))
    assert stabdiag.diagnose(tmp_path / "train.log").diagnosis.slug == "insufficient-data"


@pytest.mark.parametrize("tested", ["", "test: {b:.5f}\tbest: {b:.5f} ({n})\t"])
def test_models_of_catboost_follow_each_other(tmp_path, tested):
    line = "{n}:\tlearn: {a:.5f}\t" + tested + "total: 9ms\tremaining: 2s\n"
    text = "".join(
        f"--- Run {k} ---\n"
        + "".join(
            line.format(n=n, a=k / 90 + 1.1 / (n + 1), b=k / 80 + 1.2 / (n + 1)) for n in range(30)
        )
        for k in range(1, 4)
    )
    (tmp_path / "train.log").write_text(text)
    report = stabdiag.diagnose(tmp_path / "train.log")
    assert report.history.series["loss"].steps.tolist() == [*range(30)]
    assert report.diagnosis.severity.value in ("ok", "note")


@pytest.mark.parametrize("above", ["with bins:", "second result:"])
def test_an_introduction_of_two_words_is_no_header(put, above):
    rows = "".join(f"[{n}]     test-merror:0.{40 - 3 * n}100\n" for n in range(5))
    history = stabdiag.diagnose(put(f"{above}\n{rows}")).history
    assert history.series["loss"].steps.tolist() == [*range(5)]


@pytest.mark.parametrize("metric", ["", "ks", "profit"])
def test_a_custom_metric_has_no_known_direction(put, metric):
    rows = "".join(f"[{n}]\ttrain-{metric}:0.3{n}5\teval-{metric}:0.2{n}1\n" for n in range(9))
    report = stabdiag.diagnose(put(rows))
    assert report.diagnosis.slug == "partly-read"
    assert f"only 'train-{metric or 'metric'}' (from 0.305 to 0.385)" in report.diagnosis.summary
