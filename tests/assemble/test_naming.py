"""The columns that are loaded to assign roles."""

import json
import math
import random
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

import stabdiag
from stabdiag.assemble import build_history
from stabdiag.errors import StabdiagError
from stabdiag.model.limits import Limits
from stabdiag.model.roles.choice import may_serve
from stabdiag.model.roles.other_losses import MAX_OTHER_LOSSES
from stabdiag.model.roles.table import ROLES
from tests.assemble.conftest import columns_of

_WORDS = [
    *(name for role in ROLES for name in role.names),
    *("total", "model", "Method", "trial_id", "value", "metric", "phase", "is_train", "round"),
    *("box", "cls", "box_loss", "d_loss", "g_loss", "accuracy", "ppl", "host", "note", "reward"),
]
_PREFIXES = ["", "", "", "train/", "val_", "stage2_", "actor/", "run 1 - ", "test ", "config/"]


@pytest.mark.parametrize("seed", range(100))
def test_columns_that_a_reader_leaves_out_are_not_loaded(seed):
    chance = random.Random(seed)
    wide = chance.sample(_WORDS, 8)
    names = {chance.choice(_PREFIXES) + name: chance.random() for name in wide}
    names |= {f"unknown_{number}": chance.random() for number in range(MAX_OTHER_LOSSES + 1)}
    records = [{name: start + n for name, start in names.items()} for n in range(6)]
    for record in records if seed % 3 == 0 else ():
        record.update(dict.fromkeys(list(names)[:3], "loss"))
    columns = columns_of(records, chance.choice(["csv", "jsonl"]))
    loaded = set()

    def load(name):
        loaded.add(name)
        return columns.load(name)

    with suppress(StabdiagError):
        build_history(replace(columns, load=load, is_parsed=may_serve), Limits())
    assert [name for name in loaded if not may_serve(name)] == []


@pytest.mark.parametrize("header", ["step,box_loss,cls_loss,total", "host,box_loss,loss,model"])
def test_a_long_table_with_a_type_column(tmp_path, header):
    rows = (f"{n},{3 - n / 4e4:.5f},{1 - n / 4e4:.5f},{4 + n % 3}\n" for n in range(30_000))
    log = tmp_path / "run.csv"
    log.write_text(f"{header}\n" + "".join(rows))
    assert log.stat().st_size > 1 << 19
    assert len(stabdiag.read(log).series["loss"]) == 30_000


def test_columns_without_a_role_are_named(build):
    log = [
        {"step": n, "loss": 3 - n / 9, "val/r2": 0.5, "flux": 0.1, "weight_decay": 0.1, "n/a": 1}
        for n in range(9)
    ]
    messages = [event.message for event in build(log).events if "ignored columns" in event.message]
    assert messages == ["ignored columns: flux, n/a (--column ROLE=NAME assigns a role)"]


def test_likely_columns_without_a_role_are_named_first(build):
    others = dict.fromkeys(("eta", "mom", "grad/spread", "data", "mem", "grad_to_go"), 0.5)
    events = build([{"step": n, "loss": 3 - n / 9, **others} for n in range(9)]).events
    messages = [event.message for event in events if "ignored columns" in event.message]
    assert messages == [
        "ignored columns: grad/spread, grad_to_go, eta, mom and 2 more "
        "(--column ROLE=NAME assigns a role)"
    ]


def test_a_table_of_trials_that_counts_their_steps(build):
    trials = [{"trial": n, "final_loss": 0.3 - n / 99, "steps": 90 + n % 3} for n in range(9)]
    with pytest.raises(StabdiagError, match="a table of results"):
        build(trials)
    assert len(build([{**row, "steps": n} for n, row in enumerate(trials)]).series["loss"]) == 9


def test_a_table_of_models_that_were_saved(build):
    models = [{"model_path": f"runs/{n}.zip", "mean_reward": 9 - n, "seed": n} for n in range(9)]
    with pytest.raises(StabdiagError, match="a table of results"):
        build(models)


@pytest.mark.parametrize("sections", ["resnet vgg", "fold_1 fold_2 fold_3", "a/small a/large"])
def test_the_results_of_several_runs_in_one_record(build, sections):
    results = {f"{section}/{name}": 0.5 for section in sections.split() for name in ("loss", "acc")}
    with pytest.raises(StabdiagError, match="have the same measures: this is a table of results"):
        build([results])
    assert len(build([{"epoch": 3, **results}]).series["loss"]) == 1


@pytest.mark.parametrize("sections", ["train val", "actor critic", "generator discriminator"])
def test_the_splits_and_networks_of_one_run(build, sections):
    results = {f"{section}/{name}": 0.5 for section in sections.split() for name in ("loss", "acc")}
    assert len(build([results]).series["loss"]) == 1


@pytest.mark.parametrize("counter", ["episode", "train/episode"])
def test_unknown_measures_of_episodes_are_not_a_loss(build, counter):
    log = [{counter: n, "test/success_rate": n / 9, "obs/mean": 0.25 * n} for n in range(9)]
    assert "score/test/success_rate" in build(log).series
    with pytest.raises(StabdiagError, match="no column looks like a training loss"):
        build([{**row, counter: n / 9, "obs/mean": float("nan")} for n, row in enumerate(log)])


@pytest.mark.parametrize(
    ("names", "loss"),
    [
        (("train/ce", "eval_loss"), "train/ce"),
        (("train_nll", "val_loss"), "train_nll"),
        (("ce", "eval_loss"), "eval_loss"),
        (("train/ppl", "eval_loss"), "eval_loss"),
        (("train/accuracy", "eval_loss"), "eval_loss"),
        (("train/loss", "train/ce", "eval_loss"), "train/loss"),
        (("train/ce", "recorder/held_loss"), "train/ce"),
    ],
)
def test_a_measure_of_the_training_is_the_loss_next_to_an_evaluation(names, loss):
    records = [{"step": n, **dict.fromkeys(names, 2 - n / 10)} for n in range(8)]
    history = build_history(columns_of(records, "jsonl"), Limits())
    assert history.series["loss"].column == loss


@pytest.mark.parametrize(
    ("name", "is_loss"),
    [
        ("val_ce", True),
        ("test/mean_nll", True),
        ("val_bce", False),
        ("val_mse", False),
        ("ce", False),
    ],
)
def test_an_entropy_of_the_evaluation_is_its_loss(build, name, is_loss):
    series = build(
        [{"epoch": n, "train_loss": 3 - n / 9, name: 2 - n / 9} for n in range(9)]
    ).series
    assert ("eval_loss" in series) == is_loss


FALLING = [2.0, 1.5, 1.2, 1.0, 0.9, 0.8, 0.7, 0.6, 0.55]


@pytest.mark.parametrize(
    ("val", "is_loss"),
    [
        ([v + 0.1 for v in FALLING], True),
        # It overfits early.
        ([2.1, 1.6, 1.4, 1.6, 1.9, 2.3, 2.8, 3.3, 4.0], True),
        # A score, on another scale or not
        ([0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.72, 0.74, 0.75], False),
        ([1.1, 1.2, 1.3, 1.6, 1.7, 1.8, 1.9, 2.0, 2.1], False),
    ],
)
def test_a_column_named_after_a_split_is_a_loss_at_the_level_of_the_loss(build, val, is_loss):
    records = [
        {"epoch": n, "loss": loss, "val": other}
        for n, (loss, other) in enumerate(zip(FALLING, val, strict=True))
    ]
    assert ("eval_loss" in build(records).series) == is_loss
    with_training = [{**record, "train": 0.5 + n / 20} for n, record in enumerate(records)]
    assert "eval_loss" not in build(with_training).series


def test_a_column_of_unknown_meaning_next_to_scores_may_be_the_loss():
    log = {"step": range(60), "accuracy": [0.1 + 0.004 * i for i in range(60)]}
    assert stabdiag.diagnose({**log, "lr": [0.1] * 60}).diagnosis.slug == "insufficient-data"
    with pytest.raises(StabdiagError, match="name it with --column loss=NAME"):
        stabdiag.diagnose({**log, "energy": [2.0 - 0.01 * i for i in range(60)]})


def test_gradients_of_parts_of_a_model_are_not_the_loss():
    log = {"epoch": range(9), "val_acc": [0.1 + 0.01 * i for i in range(9)]}
    parts = {"head_grad": [0.2 - 0.01 * i for i in range(9)], "stats tail_grad": [0.1] * 9}
    assert "eval_accuracy" in stabdiag.diagnose({**log, **parts}).history.series
    with pytest.raises(StabdiagError, match="name it with --column loss=NAME"):
        stabdiag.diagnose({**log, "head_grad": [0.2] * 8 + [math.nan]})


def test_a_file_of_scores_needs_no_counter(tmp_path):
    path = tmp_path / "train.log"
    path.write_text("% mean class accuracy (train set)\t\n" + " 7.5e+01\t\n" * 3 + " 9.5e+01\t\n")
    report = stabdiag.diagnose(path)
    assert report.diagnosis.slug == "insufficient-data"
    assert [len(series) for series in report.history.series.values()] == [4]


@pytest.mark.parametrize("score", ["acc", "dice"])
def test_scores_of_splits_need_no_counter_if_they_change_as_those_of_a_run(tmp_path, score):
    path = tmp_path / "results.csv"
    runs = [f"{n / 20},{n / 25},{n % 3}" for n in range(12)]
    path.write_text("\n".join([f"train_{score},val_{score},f1", *runs, ""]))
    assert " from 0 to 0.44" in stabdiag.diagnose(path).diagnosis.summary
    # Several models have results.
    rows = [runs[n * 7 % 12] for n in range(12)]
    path.write_text("\n".join([f"train_{score},val_{score},f1", *rows, ""]))
    with pytest.raises(StabdiagError, match="no column looks like a training loss"):
        stabdiag.diagnose(path)


def test_a_column_next_to_a_score_without_a_counter_may_be_the_loss(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("mean class accuracy,foo\n" + "75.5,2.5\n" * 9)
    with pytest.raises(StabdiagError, match="no column looks like a training loss"):
        stabdiag.diagnose(path)


@pytest.mark.parametrize(("column", "is_read"), [("snapshot_pkl", True), ("energy", False)])
def test_a_clock_may_count_the_records_of_a_score(tmp_path, column, is_read):
    path = tmp_path / "metric.jsonl"
    values = {"snapshot_pkl": [f"network-{n}.pkl" for n in range(9)], "energy": [*range(9)]}[column]
    records = [
        {"results": {"fid50k_full": 90.0 - 9 * n}, column: values[n], "timestamp": 1.6e9 + 900 * n}
        for n in range(9)
    ]
    path.write_text("\n".join(map(json.dumps, records)))
    if is_read:
        assert "score/results/fid50k_full" in stabdiag.diagnose(path).history.series
    else:
        with pytest.raises(StabdiagError, match="no column looks like a training loss"):
            stabdiag.diagnose(path)


def test_the_log_of_episodes_needs_no_loss(tmp_path):
    path = tmp_path / "train.csv"
    rows = [f"{n},{n},0.0{n}" for n in range(9)]
    path.write_text("\n".join(["Episode,Interval_Solves,Success_Rate", *rows]))
    assert "score/Success_Rate" in stabdiag.diagnose(path).history.series


def test_a_column_that_fails_in_the_log_of_episodes_may_be_the_loss(tmp_path):
    path = tmp_path / "train.csv"
    rows = [f"{n},{'nan' if n > 5 else n},0.0{n}" for n in range(9)]
    path.write_text("\n".join(["Episode,Interval_Solves,Success_Rate", *rows]))
    with pytest.raises(StabdiagError, match="no column looks like a training loss"):
        stabdiag.diagnose(path)


@pytest.mark.parametrize(("column", "is_read"), [("Opponent", True), ("Moves", False)])
def test_games_serve_as_steps_of_a_score(tmp_path, column, is_read):
    path = tmp_path / "train.csv"
    rows = [f"{n},{'random' if is_read else 1.5 * n},0.0{n}" for n in range(1, 10)]
    path.write_text("\n".join([f"{'Game' if is_read else 'Nr'},{column},Win Rate", *rows]))
    if is_read:
        report = stabdiag.diagnose(path)
        assert report.history.series["score/Win Rate"].steps.tolist() == [*range(1, 10)]
    else:
        with pytest.raises(StabdiagError, match="no column looks like a training loss"):
            stabdiag.diagnose(path)


def test_words_for_a_changed_reward_do_not_hide_it(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text(
        "Episode,Reward_Clipped,Real_Score\n" + "".join(f"{n},{n},5\n" for n in range(9))
    )
    assert "reward" in stabdiag.diagnose(path).history.series


@pytest.mark.parametrize(("size", "name"), [(500, "avg_loss"), (0, "loss")])
def test_the_mean_of_a_loss_is_used_instead_of_its_sum(size, name):
    means = [2 - n / 10 for n in range(9)]
    sums = [mean * (size or 500 + 50 * n) for n, mean in enumerate(means)]
    log = {"step": range(9), "train_loss": sums, "train_avg_loss": means}
    evaluated = {"test_loss": sums, "test_avg_loss": means}
    series = stabdiag.read({**log, **evaluated}).series
    assert series["loss"].column == f"train_{name}"
    assert series["eval_loss"].column == f"test_{name}"


@pytest.mark.parametrize(
    "names",
    [("fitness",), ("generation", "fitness"), ("generation", "best_fitness", "avg_fitness")],
)
@pytest.mark.parametrize(("sign", "role"), [(1, "reward"), (-1, "loss")])
def test_a_fitness_gets_better_if_it_never_goes_back(names, sign, role):
    log = {name: [40.0 + sign * n for n in range(30)] for name in names}
    series = stabdiag.diagnose(log | {"generation": range(30)}).history.series
    assert series[role].column == names[-1]
    assert {"reward", "loss"} & {*series} == {role}


def test_a_fitness_that_falls_but_not_always_has_no_known_direction(tmp_path):
    path = tmp_path / "evolution.csv"
    path.write_text("\n".join(["fitness", *(str(40 - n + 3 * (n % 2)) for n in range(30))]))
    diagnosis = stabdiag.diagnose(path).diagnosis
    assert diagnosis.slug == "partly-read"
    assert "'fitness' (from 40 to 14)" in diagnosis.summary


def test_a_fitness_that_only_varies_is_a_reward_without_progress():
    log = {"generation": range(60), "mean fitness": [9.4 + 0.1 * (n * 7 % 5) for n in range(60)]}
    finding = stabdiag.diagnose(log).diagnosis
    assert finding.slug == "no-progress"
    assert "'mean fitness'" in finding.summary


def test_the_action_for_a_fitness_that_fell_does_not_mention_a_rate():
    fitness = [120.0 + n % 7 for n in range(60)] + [18.0 + n % 5 for n in range(60)]
    log = {"generation": range(120), "best_fitness": [200.0] * 120, "mean_fitness": fitness}
    finding = stabdiag.diagnose(log).diagnosis
    assert (finding.slug, finding.step) == ("reward-not-rising", 60)
    assert finding.first_action.startswith("Continue from the population of epoch 60")
    assert not any("rate" in action.text or "policy" in action.text for action in finding.actions)


@pytest.mark.parametrize("counts", [("wins", "losses"), ("win", "loss", "draw")])
def test_lost_games_are_no_loss(counts):
    log = {count: [n % 5 for n in range(30)] for count in counts} | {"step": range(30)}
    log["elo"] = [1000 + 9 * n for n in range(30)]
    assert not {"loss", "other_loss"} & {*stabdiag.diagnose(log).history.series}
    log["loss"] = [2.5 - n / 20 for n in range(30)]
    if "draw" not in counts:
        assert stabdiag.diagnose(log).history.series["loss"].column == "loss"


@pytest.mark.parametrize("mean", ["avg_fitness", "Mean Fitness", "fitness_mean"])
@pytest.mark.parametrize("best", ["best_fitness", "Top Fitness", "elite fitness"])
@pytest.mark.parametrize(("lead", "role"), [(2.5, "reward"), (-2.5, "loss")])
def test_the_best_fitness_shows_the_direction_of_the_mean(mean, best, lead, role):
    means = [9.5 + n / 4 for n in range(12)]
    log = {"generation": range(12), best: [m + lead for m in means], mean: means}
    series = stabdiag.diagnose(log).history.series
    assert series[role].column == mean
    assert {"reward", "loss"} & {*series} == {role}


@pytest.mark.parametrize("reward", ["reward", "score"])
def test_the_memory_of_a_policy_is_no_memory_of_the_machine(reward):
    log = {"episode": range(60), reward: [n % 9 for n in range(60)], "memory": range(0, 6000, 100)}
    assert "memory" not in stabdiag.diagnose(log).history.series
    log["gpu_memory"] = log.pop("memory")
    assert "memory" in stabdiag.diagnose(log).history.series


def generations(highest, lowest):
    mean = [(a + 2 * b) / 3 for a, b in zip(highest, lowest, strict=True)]
    columns = {"avg": mean, "std": [1.5] * len(mean), "min": lowest, "max": highest}
    return {"gen": range(len(mean)), "nevals": [90 - n for n in range(len(mean))], **columns}


WANDERING = [3.0, 2.5, 3.25, 2.75, 3.5, 2.25, 3.0, 2.5]


@pytest.mark.parametrize(
    ("log", "role"),
    [
        (generations([9.0, 9, 9.5, 10, 10, 11, 11, 12], WANDERING), "reward"),
        (generations([9 + x for x in WANDERING], [2.0, 2, 1.5, 1.5, 1, 1, 1, 0.5]), "loss"),
        # Without an elite the mean shows it.
        (generations([6 + n + n % 2 * 1.5 for n in range(8)], WANDERING), "reward"),
    ],
)
def test_the_extreme_that_an_evolution_keeps_shows_the_direction(log, role):
    history = stabdiag.diagnose(log).history
    assert history.series[role].column == "avg"
    assert history.series[role].steps.tolist() == [*range(8)]
    assert {"reward", "loss"} & {*history.series} == {role}


def test_the_last_of_several_evolutions_shows_the_direction():
    kept = [9.0, 9, 9.5, 10, 10, 11, 11, 12]
    log = generations(kept * 2, WANDERING * 2) | {"gen": [*range(8)] * 2}
    history = stabdiag.diagnose(log).history
    assert history.series["reward"].steps.tolist() == [*range(8)]


def test_the_statistics_of_other_logs_are_no_fitness():
    log = generations([9.0, 9, 9.5, 10, 10, 11, 11, 12], WANDERING)
    log["batch"] = log.pop("gen")
    with pytest.raises(StabdiagError):
        stabdiag.diagnose(log)


@pytest.mark.parametrize(
    "name", ["best cost", "gbest", "f(x)", "Function value", "shortest length"]
)
def test_the_best_value_of_an_optimizer_is_its_loss(name):
    values = [9.0, 9.0, 7.5, 7.5, 7.5, 4.25, *[4.0] * 30]
    report = stabdiag.diagnose({"iteration": range(len(values)), name: values})
    assert report.history.series["loss"].column == name
    assert report.diagnosis.severity.value in ("ok", "note")
    other = [math.nan if n > 9 else 0.5 for n in range(len(values))]
    with pytest.raises(StabdiagError):
        stabdiag.diagnose({"iteration": range(len(values)), name: values, "other": other})


BLANK = [None] * 6


@pytest.mark.parametrize(
    ("first", "later", "chosen"),
    [
        ("pretrain_loss", ("d_loss", "g_loss"), "d_loss"),
        ("mlm_loss", ("cls_loss",), "cls_loss"),
    ],
)
def test_the_loss_of_the_last_stage_is_judged(first, later, chosen):
    log = {"epoch": [*range(1, 7), *range(1, 7)], first: [2.5 - n / 8 for n in range(6)] + BLANK}
    log |= {name: [*BLANK, *(0.75 - n / 64 for n in range(6))] for name in later}
    history = stabdiag.diagnose(log).history
    assert history.series["loss"].column == chosen
    assert not history.left_out


def test_a_few_results_below_a_log_are_no_stage():
    log = {"epoch": [*range(1, 9), *[None] * 3], "loss": [2.5 - n / 8 for n in range(8)]}
    log = {**log, "loss": log["loss"] + [None] * 3, "class_loss": [None] * 8 + [0.5, 0.25, 0.75]}
    assert stabdiag.diagnose(log).history.series["loss"].column == "loss"


ACCURACIES = 0.3 + 0.6 * (1 - np.exp(-np.arange(60) / 20))


@pytest.mark.parametrize("section", ["", "history/"])
def test_fractions_of_splits_that_rise_are_scores(section):
    splits = {f"{section}train": ACCURACIES, f"{section}val": 0.97 * ACCURACIES}
    report = stabdiag.diagnose({"epoch": np.arange(60), **splits})
    assert "loss" not in report.history.series
    assert not report.diagnosis.slug.startswith("divergence")


@pytest.mark.parametrize("losses", [2.5 - 2 * ACCURACIES, 1 - ACCURACIES, 3 * ACCURACIES])
def test_other_values_of_splits_are_losses(losses):
    history = stabdiag.read({"epoch": np.arange(60), "train": losses, "val": 1.1 * losses})
    assert history.series["loss"].column == "train"
