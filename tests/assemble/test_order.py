"""Steps that go back: resumes, new runs, counter resets and several writers."""

import tracemalloc

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import LogError
from stabdiag.model.events import EventKind
from tests.assemble.conftest import messages


def falling(steps, mark=0, **columns):
    """Return losses that depend only on the step; the last digit marks the attempt."""
    return [{"step": s, "loss": round(4 / (1 + s / 50), 4) + mark * 1e-6, **columns} for s in steps]


def marks(history):
    return [round(value * 1e6) % 10 for value in history.series["loss"].values.tolist()]


def turned(steps, every, mark=0):
    """Return a continuous loss whose step counter restarts repeatedly."""
    return [{**record, "step": record["step"] % every} for record in falling(steps, mark)]


NAN = float("nan")


def lost(steps):
    return [{"step": step, "loss": NAN} for step in steps]


COUNTS, RESTARTED, LOST = [1, 101, 201, 301, 313], turned(range(400), 100), (130, 199, 200)


@pytest.mark.parametrize(
    ("log", "attempts", "steps"),
    [
        # Records of the first attempt after the end of the second are dropped.
        ([*falling(range(100)), *falling(range(60, 70), 1)], 1, range(70)),
        # A new run after a rewind, or after a counter that started again.
        ([*falling(range(100)), *falling(range(50, 120)), *falling(range(30), 2)], 2, range(30)),
        ([*turned(range(300), 100), *falling(range(40), 2)], 2, range(40)),
        # A new run may log its first loss slightly later; a much later start is a resume.
        ([*falling(range(1000)), *falling(range(8, 900))], 2, range(8, 900)),
        ([*falling(range(1000)), *falling(range(40, 900))], 1, range(900)),
        # A run that went NaN immediately and was restarted, and a run that begins with NaN.
        ([*lost(range(20)), *falling(range(60))], 2, range(60)),
        ([*falling(range(60)), *lost(range(20))], 2, range(20)),
        ([*falling(range(3)), *lost(range(3, 5)), *falling(range(5), 2)], 2, range(5)),
        # A second run that falls ten times as fast.
        (
            [*falling(range(100)), *({"step": s, "loss": 4 / (1 + s / 5)} for s in range(9))],
            *(2, range(9)),
        ),
        # A counter restarts every epoch, also after the loss went NaN.
        (
            [{"epoch": n // 10, "iter": n % 10, "loss": 3.0 - n % 7} for n in range(200)],
            *(1, range(200)),
        ),
        *(
            ([*RESTARTED[:at], *({**r, "loss": NAN} for r in RESTARTED[at:])], 1, range(400))
            for at in LOST
        ),
        # Counting on keeps the stride; an epoch is as long as its last step says.
        ([{**r, "step": 10 * r["step"]} for r in turned(range(60), 30)], 1, range(0, 600, 10)),
        (
            [{"step": n, "loss": 4 / (1 + e + n / 313)} for e in range(6) for n in COUNTS],
            *(1, [313 * epoch + n for epoch in range(6) for n in COUNTS]),
        ),
    ],
)
def test_the_steps_of_the_last_run(build, log, attempts, steps):
    history = build(log)
    assert history.source.attempts == attempts
    assert history.series["loss"].steps.tolist() == list(steps)


def test_a_continued_epoch_is_a_resume_for_any_loss(build):
    log = [{"step": n, "loss": 2.5, "epoch": n / 20} for n in range(1, 40)]
    log += [{"step": n, "loss": 2.5, "epoch": 1.97 + n / 20} for n in range(1, 41)]
    history = build(log)
    assert (history.source.attempts, len(history.series["loss"])) == (1, 79)


def test_a_resume_supersedes_the_repeated_steps(build):
    history = build([*falling(range(100)), *falling(range(60, 130), mark=1)])
    assert history.series["loss"].steps.tolist() == list(range(130))
    assert marks(history) == [0] * 60 + [1] * 70
    rewind = [event for event in history.events if event.kind is EventKind.REWIND]
    assert [event.step for event in rewind] == [60]
    assert rewind[0].message == "the log goes back from step 99 to 60: the later attempt is used"


def test_non_finite_losses_before_a_resume_are_reported(build):
    broken = falling(range(100))
    for record in broken[90:]:
        record["loss"] = float("nan")
    history = build([*broken, *falling(range(60, 130), mark=1)])
    assert np.isfinite(history.series["loss"].values).all()
    assert messages(history, EventKind.REWIND) == [
        "the log goes back from step 99 to 60: the later attempt is used; before, 10 losses were "
        "not finite, from step 90 on"
    ]


def test_an_earlier_record_repeated_at_the_end_is_not_a_resume(build):
    # Early stopping ends on the line of the best iteration.
    log = falling(range(1, 61))
    history = build([*log, log[54]])
    assert history.series["loss"].steps.tolist() == list(range(1, 61))
    assert history.resumes == []
    assert build([*log, *falling([55], mark=1)]).resumes == [55]
    assert build([*log, log[54], *falling([56], mark=1)]).resumes == [55]


def test_evaluation_rows_of_the_last_step_survive_a_resume(build):
    log = [*falling(range(100)), {"step": 99, "eval_loss": 2.0}, *falling(range(60, 120), mark=1)]
    assert "eval_loss" not in build(log).series
    log = [*falling(range(100)), {"step": 99, "eval_loss": 2.0}, *falling(range(100, 120), mark=1)]
    assert build(log).series["eval_loss"].steps.tolist() == [99]


def test_a_late_evaluation_at_a_lower_step_is_not_a_rewind(build):
    history = build([*falling(range(60)), {"step": 50, "eval_loss": 2.0}, *falling(range(60, 90))])
    assert history.events == ()
    assert history.series["eval_loss"].steps.tolist() == [50]


def test_the_last_of_several_appended_runs_is_used(build):
    log = [*falling(range(50)), *falling(range(70), mark=1), *falling(range(40), mark=2)]
    history = build(log)
    assert set(marks(history)) == {2}
    assert (history.source.attempts, history.source.attempt) == (3, 3)
    assert "contains 3 runs" in messages(history, EventKind.ATTEMPT)[0]


@pytest.mark.parametrize(("attempt", "points"), [(1, 50), (2, 70), (3, 40)])
def test_another_attempt_may_be_picked(build, attempt, points):
    log = [*falling(range(50)), *falling(range(70), mark=1), *falling(range(40), mark=2)]
    history = build(log, attempt=attempt)
    assert len(history.series["loss"]) == points
    assert set(marks(history)) == {attempt - 1}


@pytest.mark.parametrize("attempt", [0, 2, -1])
def test_a_missing_attempt_is_an_error(build, attempt):
    with pytest.raises(
        LogError, match=rf"run.jsonl: no attempt {attempt}; the log contains 1 attempt"
    ):
        build(falling(range(50)), attempt=attempt)


def test_a_counter_that_restarts_while_the_loss_continues_is_extended(build):
    history = build(turned(range(300), 100))
    assert history.series["loss"].steps.tolist() == list(range(300))
    message = "the step counter restarts while the values continue: its count is continued, from"
    assert messages(history, EventKind.STEPS) == [f"{message} 100", f"{message} 200"]
    assert history.jobs_began == [100, 200]


@pytest.mark.parametrize("batches", [20, 100, 5000])
def test_evaluations_with_their_number_of_batches_as_the_counter_are_kept(build, batches):
    log = []
    for epoch in range(1, 7):
        for n in range(1, 101):
            loss = 2.0 / (epoch + n / 100)
            log.append({"mode": "train", "epoch": epoch, "iter": n, "loss": loss})
        log.append({"mode": "val", "epoch": epoch, "iter": batches, "mAP": 0.1 * epoch})
    score = next(s for s in build(log).series.values() if s.column == "mAP")
    assert score.steps.tolist() == [100, 200, 300, 400, 500, 600]


@pytest.mark.parametrize("every", [4, 8, 15])
def test_the_short_cycles_of_one_run_are_continued(build, every):
    rng = np.random.default_rng(1)
    log = [
        {**r, "loss": r["loss"] + 0.02 * rng.standard_normal()} for r in turned(range(600), every)
    ]
    assert len(build(log).series["loss"]) == 600


def test_short_cycles_that_each_fall_from_the_same_start_are_several_runs(build):
    folds = [{"step": s, "loss": 3.0 / (1 + s)} for _ in range(50) for s in range(8)]
    assert len(build(folds).series["loss"]) == 8


def test_interleaved_ranks_are_sorted_by_step(build):
    log = []
    for step in range(0, 200, 2):
        log += falling([step + 1, step], mark=step % 3)
    history = build(log)
    assert history.series["loss"].steps.tolist() == list(range(200))
    (message,) = messages(history, EventKind.STEPS)
    assert "several writers" in message


@pytest.mark.parametrize("name", ["rank", "local_rank", "worker"])
@pytest.mark.parametrize("stretch", [5, 50, 300])
def test_only_one_rank_of_a_rank_column_is_used(build, name, stretch):
    # No rank goes back, even if another is far ahead.
    log = [
        {"step": step, "loss": 4 - step / 100 - rank / 1000, name: rank}
        for begin in range(0, 300, stretch)
        for rank in range(3)
        for step in range(begin, begin + stretch, 5)
    ]
    history = build(log)
    assert history.series["loss"].values.tolist() == [4 - step / 100 for step in range(0, 300, 5)]
    assert "only one rank is used" in " ".join(messages(history, EventKind.STEPS))
    assert not messages(history, EventKind.REWIND) + messages(history, EventKind.ATTEMPT)
    log[-1]["loss"] = np.nan
    assert np.isnan(build(log).series["loss"].values[-1])


@pytest.mark.parametrize(
    ("name", "numbers"), [("PID", (7204, 7206, 7211)), ("env_id", range(3)), ("worker", range(3))]
)
def test_the_episodes_of_one_process_are_judged(build, name, numbers):
    log = [
        {"episode": episode, name: number, "reward": 90.5 - 40 * place + episode / 8}
        for episode in range(30)
        for place, number in enumerate(numbers)
        if episode < 30 - place
    ]
    rewards = build(log).series["reward"]
    assert rewards.steps.tolist() == [*range(30)]
    assert rewards.values.tolist() == [90.5 + episode / 8 for episode in range(30)]


def test_a_process_that_replaces_another_is_a_restart(build):
    log = [{**row, "pid": 7204 + half} for half in (0, 1) for row in falling(range(60))]
    history = build(log)
    assert len(history.earlier) == 1
    assert "only one rank is used" not in " ".join(messages(history, EventKind.STEPS))


def test_a_rank_that_is_a_setting_is_not_a_writer(build):
    log = [{**row, "rank": rank} for rank in (4, 8, 16) for row in falling(range(100))]
    assert build(log).source.attempts == 3


def two_at_once(seed, ahead, rate):
    """Two runs write one log at different rates; the second starts later."""
    chance = np.random.default_rng(seed)
    queues = [
        [
            {"step": step, "loss": 4 / (1 + step / 50) + chance.normal(0, 0.02), "lr": lr}
            for step in range(0, 40 * stride, stride // 2)
        ]
        for lr, stride in ((1e-4, 20), (rate, 10))
    ]
    log = []
    while any(queues):
        which = 0 if len(log) < ahead or not queues[1] else int(chance.random() < 0.5)
        log += [(queues[which] or queues[1 - which]).pop(0)]
    return log


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ahead", [0, 30])
def test_concurrent_runs_in_one_log_are_separate_runs(build, seed, ahead):
    log = two_at_once(seed, ahead, 3e-4)
    runs = [build(log, attempt=number) for number in (1, 2)]
    runs.sort(key=lambda run: run.series["loss"].steps[-1])
    assert [np.unique(run.series["loss"].steps[1:]).tolist() for run in runs] == [
        list(range(5, 400, 5)),
        list(range(10, 800, 10)),
    ]
    assert [set(run.series["lr"].values.tolist()) for run in runs] == [{3e-4}, {1e-4}]
    assert "written at the same time" in messages(runs[0], EventKind.ATTEMPT)[0]


def test_an_evaluation_with_its_own_counter_follows_its_epoch(build):
    log = []
    for epoch in range(1, 4):
        log += [
            {"epoch": epoch, "iter": n, "loss": 3.0 - epoch * 0.1 - n * 1e-3, "lr": 1.0 / epoch}
            for n in (50, 100, 150)
        ]
        log.append({"epoch": epoch, "iter": 40, "lr": 1.0 / epoch, "val_loss": 2.0})
    history = build(log)
    assert history.series["loss"].steps.tolist() == list(range(50, 500, 50))
    assert history.series["eval_loss"].steps.tolist() == [150, 300, 450]
    assert np.all(np.diff(history.series["lr"].values) <= 0)


def test_a_counter_restarts_with_the_epoch_in_any_log(build):
    # Two launches; the batch counter of an epoch does not always start at the same number.
    log = falling(range(100, 1500, 100), epoch=1)
    for _ in range(2):
        for epoch, begin in ((1, 100), (2, 48), (3, 96), (4, 44)):
            log += falling(range(begin, begin + 1400, 100), epoch=epoch)
    history = build(log)
    assert history.source.attempts == 3
    assert len(history.series["epoch"]) == 4 * 14
    assert not messages(history, EventKind.REWIND)


@pytest.mark.parametrize(("epochs", "attempts"), [((1, 99, 100), 1), ((3, 4, 1), 2)])
def test_a_paste_may_leave_out_epochs(build, epochs, attempts):
    losses = zip(epochs, (9.5, 4.5, 9.0 if attempts > 1 else 4.25), strict=True)
    log = [
        {"epoch": epoch, "step": step, "loss": loss - step / 100}
        for epoch, loss in losses
        for step in (0, 100, 200)
    ]
    history = build(log)
    assert history.source.attempts == attempts
    assert len(history.series["loss"]) == (9 if attempts == 1 else 3)


def test_thousands_of_runs_take_the_memory_of_one():
    """Memory use, unlike time, is the same on every machine."""
    runs, length = 2000, 25
    steps = np.tile(np.arange(length), runs)
    losses = np.tile(np.linspace(4.0, 1.0, length), runs)
    tracemalloc.start()
    try:
        history = stabdiag.read({"step": steps, "loss": losses})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert history.source.attempts == runs
    assert history.series["loss"].steps.tolist() == list(range(length))
    assert peak < 50 * steps.nbytes


def ranks(bad=()):
    """Two ranks write each step; the first has NaN at some steps."""
    log = [{**row, "rank": rank} for row in falling(range(100)) for rank in (0, 1)]
    for record in log:
        if record["step"] in bad and record["rank"] == 0:
            record["loss"] = float("nan")
    return log


@pytest.mark.parametrize("ahead", [0, 2.5])
def test_the_nan_of_one_rank_is_not_lost(build, ahead):
    log = ranks(range(80, 100))
    log.sort(key=lambda record: record["step"] - ahead * (record["rank"] == 0))
    history = build(log)
    lost = history.series["loss"].steps[~np.isfinite(history.series["loss"].values)].tolist()
    assert lost == list(range(80, 100))


@pytest.mark.parametrize(("bad", "is_lost"), [(range(2, 100), True), (range(2, 50, 10), False)])
def test_an_early_nan_of_one_rank_counts_if_it_lasts(build, bad, is_lost):
    history = build(ranks(bad))
    assert np.isfinite(history.series["loss"].values).all() != is_lost


def test_a_step_that_is_repeated_after_a_nan_is_a_resume(build):
    log = falling(range(100))
    log[50]["loss"] = float("nan")
    history = build([*log[:51], *falling([50], mark=1), *log[51:]])
    assert np.isfinite(history.series["loss"].values).all()


def test_records_that_never_contain_a_loss_are_not_evidence(build):
    history = build(ranks(range(100)))
    assert np.isfinite(history.series["loss"].values).all()


@pytest.mark.parametrize("name", ["reward", "val_accuracy", "val_f1"])
def test_the_runs_of_a_log_without_a_loss_are_apart(name):
    runs = [
        {"epoch": epoch, name: round(end * epoch / 30, 4)}
        for end in (0.9, 0.6)
        for epoch in range(1, 31)
    ]
    report = stabdiag.diagnose(runs)
    (series,) = (s for s in report.history.series.values() if s.column == name)
    assert series.values.tolist() == [run[name] for run in runs[30:]]
    assert report.history.source.attempts == 2


def test_a_reward_whose_step_restarts_with_each_epoch_is_continued():
    records = [
        {"epoch": epoch, "step": step, "reward": epoch + step / 1000}
        for epoch in range(6)
        for step in range(0, 1000, 100)
    ]
    series = stabdiag.diagnose(records).history.series["reward"]
    assert series.steps.tolist() == list(range(0, 6000, 100))


def test_a_resume_of_a_log_of_rewards_replaces_what_it_repeats():
    steps = [*range(80), *range(60, 120)]
    records = [{"step": step, "reward": step + n / 1000} for n, step in enumerate(steps)]
    series = stabdiag.diagnose(records).history.series["reward"]
    assert series.steps.tolist() == list(range(120))
    assert series.values[70] == records[90]["reward"]


def test_an_earlier_run_whose_score_collapsed_is_a_note():
    collapsed = [{"epoch": n, "val_accuracy": 0.5 + n / 100 if n < 25 else 0.1} for n in range(40)]
    stable = [{"epoch": n, "val_accuracy": 0.5 + n / 100} for n in range(40)]
    finding = stabdiag.diagnose([*collapsed, *stable]).diagnosis
    assert (finding.slug, finding.evidence["attempt"]) == ("earlier-run-failed", 1)
    assert finding.evidence["outcome"] == "score-collapsed"
    slugs = {f.slug for f in stabdiag.diagnose([*stable, *stable]).findings}
    assert "earlier-run-failed" not in slugs
