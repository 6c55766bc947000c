"""Texts whose only measure is a score: sentences, blocks of lines, and scores that never change."""

import math

import pytest

import stabdiag
from stabdiag.errors import StabdiagError


@pytest.fixture
def diagnosed(tmp_path):
    def diagnose(text, name="run.log"):
        log = tmp_path / name
        log.write_text(text)
        return stabdiag.diagnose(log)

    return diagnose


def lines(form, values):
    return "".join(form.format(n=n, value=value) for n, value in enumerate(values, 1))


RISING = [round(0.8 - 0.5 * math.exp(-n / 3), 4) for n in range(9)]

SENTENCES = [
    ("Episode {n} finished after 17 timesteps and got {value} reward\n", "reward"),
    ("Episode {n} ended with a total reward of {value} after 12 moves\n", "reward"),
    ("Round {n} complete, accuracy now {value}\n", "accuracy"),
    ("Epoch {n}: {value} F1, {value} AUC\n", "score/F1"),
    ("{value} mIoU\n", "score/mIoU"),
    ("The Dice of the network: {value}\n", "score/Dice"),
    ("Accuracy of the network on the 10000 test images: {value}\n", "eval_accuracy"),
    ("AUC at epoch {n} is {value}\n", "score/AUC"),
]


@pytest.mark.parametrize(("form", "role"), SENTENCES)
def test_a_score_in_a_sentence(diagnosed, form, role):
    series = diagnosed(lines(form, RISING)).history.series
    assert series[role].values.tolist() == RISING
    steps = [*range(1, 10)] if "{n}" in form else [*range(9)]
    assert series[role].steps.tolist() == steps


@pytest.mark.parametrize(("form", "role"), SENTENCES)
def test_a_score_in_a_sentence_that_is_lost(diagnosed, form, role):
    report = diagnosed(lines(form, [*RISING, "nan", "nan", "nan"]))
    assert report.diagnosis.severity.value == "warning"
    assert "is not finite" in report.diagnosis.title


@pytest.mark.parametrize(
    "form",
    [
        "Accuracy: {value}\n",
        "Accuracy: {value}:\n",
        "F1 = {value}\n",
        "{{'dice': {value}}}\n",
        "2024-03-01 10:22:31 INFO BLEU {value}\n",
        "The recall of the model: {value}\n",
    ],
)
def test_a_score_that_never_changes(diagnosed, form):
    report = diagnosed(lines(form, [0.4375] * 12))
    assert report.diagnosis.slug != "healthy"
    assert "0.4375" in report.diagnosis.summary


def test_scores_of_two_splits_in_turn(diagnosed):
    text = "".join(f"Train F1: {a}\nTest F1: {a / 2}\n" for a in RISING)
    series = diagnosed(text).history.series
    assert series["score/Train F1"].values.tolist() == RISING
    assert series["score/Test F1"].values.tolist() == [a / 2 for a in RISING]


def test_percentages_that_are_lost_have_no_sign(diagnosed):
    text = (
        "".join(f"Recall of all pairs: {n}.5%\n" for n in range(9))
        + "Recall of all pairs: nan\n" * 4
    )
    assert diagnosed(text).diagnosis.title == "A score is not finite"


@pytest.mark.parametrize(
    "form",
    [
        "Fold {n}: accuracy {value}\n",
        "=== FOLD {n} ===\nF1: {value}\nAUC: {value}\n",
        "fold {n}/9\ntraining\nval accuracy = {value}\n",
        "seed {n} final reward {value}\n",
        "Experiment {n}:\n Generation 0. best score: {value}\n",
        "Model {n}: accuracy {value}\n",
        "k = {n}, accuracy = {value}\n",
        "max_depth={n} accuracy={value}\n",
        "For n_clusters = {n}, the silhouette score is {value}\n",
        "Accuracy of class {n}: {value}\n",
        "class {n} IoU: {value} Dice: {value}\n",
        "box {n} score {value}\n",
        "Individual {n} fitness: {value}\n",
        "sentence {n} BLEU score: {value}\n",
        "if (x == {n}) {{\n  score = {value};\n}}\n",
    ],
)
def test_results_of_several_runs_or_parts_are_no_course(diagnosed, form):
    with pytest.raises(StabdiagError):
        diagnosed(lines(form, [0.5 + (n * 7 % 9) / 50 for n in range(9)]))


@pytest.mark.parametrize(
    "form",
    [
        "{name}\nAccuracy: {value}\nF1: {value}\n",
        "{name}: accuracy={value} f1={value}\n",
        "Training {name} ...\nTest accuracy of {name}: {value}\n",
    ],
)
def test_results_of_several_models_are_no_course(diagnosed, form):
    names = ["trees", "forest", "bayes", "neighbors", "boosting"]
    text = "".join(form.format(name=name, value=0.8 + n / 100) for n, name in enumerate(names))
    with pytest.raises(StabdiagError):
        diagnosed(text)


def test_two_scores_with_numbers_are_not_mixed(diagnosed):
    text = "".join(f"Top score #0: {n}.5\nTop score #1: {90 - n}.5\n" for n in range(9))
    with pytest.raises(StabdiagError):
        diagnosed(text)


@pytest.mark.parametrize(
    "header", ["train_f1,validation_f1", "acc,val_acc", "train dice,test dice"]
)
def test_a_table_with_few_scores_of_both_splits_needs_no_counter(diagnosed, header):
    rows = "".join(f"{value},{value}\n" for value in RISING[:4])
    report = diagnosed(f"{header}\n{rows}", "scores.csv")
    assert "from 0.3 to " in report.diagnosis.summary


def test_a_table_of_pandas_with_one_score_needs_no_counter(diagnosed):
    rows = "".join(f"{n},{value}\n" for n, value in enumerate(RISING))
    series = diagnosed(f",F1\n{rows}", "scores.csv").history.series
    assert series["score/F1"].values.tolist() == RISING


def test_a_table_of_a_cross_validation_is_no_course(diagnosed):
    rows = "".join(f"{n},1.5,0.25,{value},0.9\n" for n, value in enumerate(RISING[:5]))
    with pytest.raises(StabdiagError):
        diagnosed(f",fit_time,score_time,test_score,train_score\n{rows}", "scores.csv")


@pytest.mark.parametrize(
    ("form", "word"),
    [
        ("Fold {n}: accuracy {value}\n", "Fold"),
        ("fold {n} begins\ntime: 0.5 s\nfold {n} - F1: {value}\n", "fold"),
        ("Experiment {n}:\n Generation 0. best score: {value}\n", "Experiment"),
        ("k = {n}, accuracy = {value}\n", "k"),
        ("Accuracy of class {n}: {value}\n", "class"),
    ],
)
def test_a_refusal_names_what_the_scores_belong_to(diagnosed, form, word):
    with pytest.raises(StabdiagError, match=f"each score belongs to another '{word}'"):
        diagnosed(lines(form, RISING))


COURSE = [round(0.8 - 0.5 * math.exp(-n / 5), 4) for n in range(14)]


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("F1", "score/F1"),
        ("mIoU", "score/mIoU"),
        ("val_acc", "eval_accuracy"),
        ("FID", "score/FID"),
    ],
)
@pytest.mark.parametrize("sign", [": ", " = "])
def test_a_list_of_scores_that_change_as_in_a_run(diagnosed, name, role, sign):
    assert diagnosed(f"{name}{sign}{COURSE}\n").history.series[role].values.tolist() == COURSE
    constant = diagnosed(f"{name}{sign}{[0.125] * 14}\n").history.series
    assert constant[role].values.tolist() == [0.125] * 14


@pytest.mark.parametrize(
    "text",
    [
        f"F1: {[COURSE[n * 5 % 14] for n in range(14)]}\n",
        f"precision: {COURSE}\nrecall: {COURSE[::-1]}\n",
    ],
)
def test_a_list_of_scores_of_classes_or_thresholds_is_no_course(diagnosed, text):
    with pytest.raises(StabdiagError):
        diagnosed(text)


@pytest.mark.parametrize("header", ["score", "iter,score", ",score", "epoch,mean_score,time"])
def test_a_table_of_a_score_needs_no_games(diagnosed, header):
    width = header.count(",")
    rows = "".join(
        ",".join([str(n), f"{n * n}.5", "0.25"][: width + 1] if width else [f"{n * n}.5"]) + "\n"
        for n in range(8)
    )
    series = diagnosed(f"{header}\n{rows}", "run.csv").history.series
    assert series["reward"].values.tolist() == [n * n + 0.5 for n in range(8)]


def test_a_table_of_players_is_no_course(diagnosed):
    rows = "".join(f"player{name},{n}.5\n" for n, name in enumerate("abcdefgh"))
    with pytest.raises(StabdiagError):
        diagnosed(f"name,score\n{rows}", "scores.csv")


def test_an_objective_that_is_lost_is_reported(diagnosed):
    rows = "".join(f"{n},{n}.5,1\n" for n in range(6)) + "6,nan,1\n7,nan,1\n8,nan,1\n"
    report = diagnosed(f"epoch,objective,time\n{rows}", "run.csv")
    assert report.diagnosis.title == "The reward is not finite"


def test_whole_numbers_of_a_file_of_scores(diagnosed):
    text = "".join(f"==== {n} ==== {n // 7} \n" for n in range(40))
    series = diagnosed(text, "scores.txt").history.series
    assert series["reward"].values.tolist() == [n // 7 for n in range(40)]


@pytest.mark.parametrize(
    ("name", "header", "role"),
    [
        ("win_rate.csv", "step,rate", "score/win_rate"),
        ("run_val_acc.csv", "step,y", "eval_accuracy"),
        ("my_reward.csv", "epoch,mean", "reward"),
    ],
)
def test_a_column_that_says_nothing_has_the_name_of_its_file(diagnosed, name, header, role):
    rows = "".join(f"{n},{value}\n" for n, value in enumerate(RISING))
    assert diagnosed(f"{header}\n{rows}", name).history.series[role].values.tolist() == RISING


def test_other_scores_next_to_a_known_one_are_no_loss(diagnosed):
    rows = "".join(f"{n}, {value}, 0.25\n" for n, value in enumerate(RISING))
    series = diagnosed(f"Epoch, Inception Score, Foo Score\n{rows}", "eval.log").history.series
    assert series["score/Inception Score"].values.tolist() == RISING


def test_a_number_behind_a_score_is_no_setting(diagnosed):
    text = "".join(f"BLEU = {value} (len=5{n * n}) {10 * n}\n" for n, value in enumerate(RISING))
    assert diagnosed(text).history.series["score/BLEU"].values.tolist() == RISING


def test_trials_of_a_search_are_named(diagnosed):
    text = "".join(
        f"Best trial: {n}. Best value: {v}: 5%|# | {n}/40\n" for n, v in enumerate(RISING)
    )
    with pytest.raises(StabdiagError, match="another 'trial'"):
        diagnosed(text)


@pytest.mark.parametrize("name", ["Validation Reward", "eval return is"])
def test_the_rewards_of_evaluations_alone_are_read(diagnosed, name):
    text = "".join(f"epoch {n}, {name}: {40 * value}\n" for n, value in enumerate(RISING))
    (series,) = diagnosed(text).history.series.values()
    assert series.values.tolist() == pytest.approx([40 * value for value in RISING])
