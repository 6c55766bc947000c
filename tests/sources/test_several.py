"""Several files of one run: the same diagnosis as of one log."""

import json
import random

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import LogError
from stabdiag.sources import read_source


def records(first, last, seed=0):
    """Return a run that is well until its loss leaps at step 700."""
    noise = random.Random(seed)
    return [
        {
            "step": n,
            "loss": 3 - n / 1000 + noise.gauss(0, 0.02) + (4 if n > 700 else 0),
            "grad_norm": 1 + noise.random(),
        }
        for n in range(first, last)
    ]


def jsonl(rows):
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def csv(rows):
    names = list(rows[0])
    return "\n".join([",".join(names), *(",".join(map(str, row.values())) for row in rows)]) + "\n"


def summary(report):
    loss = report.history.series["loss"]
    return (
        [(result.slug, result.step, result.evidence) for result in report.findings],
        loss.steps.tolist(),
        loss.values.tolist(),
        [event.message for event in report.history.events if event.kind is not event.kind.SOURCE],
    )


def test_attempts_in_files_of_their_own_are_as_attempts_in_one(put):
    first, second, third = records(0, 500), records(400, 800, 1), records(300, 900, 2)
    full_log = put("whole/run.jsonl", jsonl([*first, *second, *third]))
    parts = [
        put(f"parts/slurm-{number}.jsonl", jsonl(part))
        for number, part in ((9, first), (10, second), (11, third))
    ]
    expected = summary(stabdiag.diagnose(full_log))
    assert expected[0][0][0].startswith("spike")
    for order in (parts, parts[::-1], [parts[1], parts[2], parts[0]]):
        report = stabdiag.diagnose(order)
        assert summary(report) == expected
        assert report.history.events[0].message == (
            "read as one run: slurm-9.jsonl, slurm-10.jsonl, slurm-11.jsonl,"
            " in the order of their numbers"
        )
        assert report.history.source.name == f"{order[0]} and 2 more"


def test_files_that_follow_each_other_go_by_their_steps(put):
    late, early = put("a1.jsonl", jsonl(records(500, 900))), put("a2.jsonl", jsonl(records(0, 500)))
    columns = read_source([late, early]).columns
    assert columns.load("step").values.tolist() == list(range(900))
    assert columns.events[0].message.endswith(
        "a2.jsonl, a1.jsonl, in the order of their first steps"
    )


def test_files_that_overlap_and_have_no_numbers_go_by_their_first_steps(put):
    second, first = put("b.jsonl", jsonl(records(300, 900))), put("z.jsonl", jsonl(records(0, 400)))
    columns = read_source([second, first]).columns
    assert columns.load("step").values.tolist() == [*range(400), *range(300, 900)]


def test_formats_may_differ_and_roles_go_by_their_names_in_the_first(put):
    first = put("a.jsonl", jsonl(records(0, 400)))
    rows = [{"iteration": r["step"], "lm loss": r["loss"]} for r in records(400, 900)]
    second = put("b.csv", csv(rows))
    columns = read_source([first, second]).columns
    assert columns.names == ("step", "loss", "grad_norm")
    assert (columns.format, columns.rows) == ("jsonl + csv", 900)
    assert not columns.distinguishes_null
    grad_norm = columns.load("grad_norm")
    assert grad_norm.present.tolist() == [True] * 400 + [False] * 500
    assert np.isnan(grad_norm.values[400:]).all()


def test_an_evaluation_log_is_joined_to_the_training_log(put):
    train = put("train.csv", csv(records(0, 600)))
    evaluation = [{**row, "loss": row["loss"] + 0.05} for row in records(0, 650)[::50]]
    val = put("val.csv", csv(evaluation))
    alone = stabdiag.diagnose(train)
    for order in ([train, val], [val, train]):
        report = stabdiag.diagnose(order)
        assert report.diagnosis.slug == alone.diagnosis.slug == "healthy"
        assert summary(report)[1:3] == summary(alone)[1:3]
        eval_loss = report.history.series["eval_loss"]
        assert eval_loss.steps.tolist() == list(range(0, 650, 50))
        assert report.history.source.records == 601
        assert (
            report.history.events[0].message
            == "read as one run: train.csv; joined by step: val.csv"
        )


def test_evaluations_alone_are_read_as_they_are(put):
    files = [put(f"eval_{n}.csv", csv(records(n * 300, n * 300 + 300))) for n in range(2)]
    assert read_source(files).columns.load("loss").present.sum() == 600


def test_a_series_in_a_file_of_its_own_goes_to_the_rows_of_its_steps(put):
    loss = [{"step": r["step"], "loss": r["loss"]} for r in records(0, 600)]
    rate = [{"step": n, "lr": 0.1 if n < 300 else 0.9} for n in range(0, 700, 2)]
    report = stabdiag.diagnose([put("loss.csv", csv(loss)), put("lr.csv", csv(rate))])
    assert report.history.series["lr"].steps.tolist() == list(range(0, 700, 2))
    assert report.history.source.records == 650
    alone = stabdiag.diagnose(put("loss.csv", csv(loss)))
    assert report.tree.outcome.slug == alone.tree.outcome.slug


def test_other_files_come_after_attempts_that_go_back(put):
    first, second = put("1.jsonl", jsonl(records(0, 500))), put("2.jsonl", jsonl(records(400, 900)))
    joined = put("x.csv", csv([{"step": n, "lr": 0.5} for n in (0, 450, 2000)]))
    columns = read_source([first, second, joined]).columns
    assert columns.load("step").values.tolist() == [*range(500), *range(400, 900), 2000]
    assert np.flatnonzero(columns.load("lr").present).tolist() == [0, 550, 1000]


def test_without_a_step_the_files_follow_each_other(put):
    first = put("a.csv", "loss\n" + "".join(f"{n}\n" for n in range(30)))
    second = put("b.csv", "loss\n" + "".join(f"{n}\n" for n in range(30, 50)))
    columns = read_source([first, second]).columns
    assert columns.load("loss").values.tolist() == list(range(50))


def test_words_of_two_files_are_never_taken_for_equal(put):
    first = put("a.csv", "step,loss,batch_id\n0,1,x\n1,1,y\n2,1,x\n")
    second = put("b.csv", "step,loss,batch_id\n3,1,z\n4,1,x\n")
    column = read_source([first, second]).columns.load("batch_id")
    assert column.is_text
    assert column.values[0] == column.values[2]
    assert len(set(column.values.tolist())) == 4
    three = put("c.csv", "step,loss,batch_id\n5,1,7\n6,1,8\n")
    column = read_source([first, three]).columns.load("batch_id")
    assert not column.is_text
    assert (column.strays, column.present.tolist()) == (3, [False] * 3 + [True] * 2)


def test_unreadable_lines_name_their_file(put):
    first = put("a.jsonl", jsonl(records(0, 50)) + "{broken\n")
    second = put("b.jsonl", jsonl(records(50, 90)) + '{"step": 91,')
    columns = read_source([first, second]).columns
    assert columns.bad_count == 2


def test_the_later_manifest_precedes_the_earlier(put):
    first, second = (
        put("1/a.jsonl", jsonl(records(0, 50))),
        put("2/b.jsonl", jsonl(records(50, 90))),
    )
    put("1/manifest.json", '{"dtype": "fp16", "lr": 0.1}')
    put("2/manifest.json", '{"dtype": "bf16"}')
    manifest = read_source([first, second]).manifest
    assert (manifest.dtype, manifest.peak_lr) == ("bf16", 0.1)


def test_a_loss_that_only_the_user_knows(put):
    files = [
        put(f"{n}.csv", "step,error\n" + "".join(f"{k},1\n" for k in range(n * 50, n * 50 + 50)))
        for n in (1, 0)
    ]
    history = stabdiag.read(files, columns={"loss": "error"})
    assert history.series["loss"].steps.tolist() == list(range(100))


def test_files_are_named_by_their_distinguishing_part(put):
    files = [
        put(f"{name}.jsonl", jsonl(records(n * 50, n * 50 + 50)))
        for n, name in enumerate(("1/a/log", "2/a/log", "2/b/log", "rest"))
    ]
    message = read_source(files).columns.events[0].message
    assert message.startswith(
        "read as one run: 1/a/log.jsonl, 2/a/log.jsonl, b/log.jsonl, rest.jsonl"
    )
    twice = read_source([files[3], files[3]]).columns.events[0].message
    assert twice.startswith(f"read as one run: {files[3]}, {files[3]}")


def test_a_finding_belongs_to_the_file_with_its_step(put):
    first, second = records(0, 500), records(400, 900, 1)
    first[300]["loss"] = first[301]["loss"] = 30.0
    files = [put("a/log.jsonl", jsonl(first)), put("b/log.jsonl", jsonl(second))]
    for order in (files, files[::-1]):
        report = stabdiag.diagnose(order)
        source = report.history.source
        assert [(part.path, part.first, part.last) for part in source.parts] == [
            (str(files[0]), 0, 399),
            (str(files[1]), 400, 899),
        ]
        assert source.record_path(None) == str(files[1])
        steps = {finding.step: source.record_path(finding.step) for finding in report.findings}
        assert (steps[300], steps[701]) == (str(files[0]), str(files[1]))


def test_an_attempt_belongs_to_its_own_file(put):
    files = [put(f"{n}.jsonl", jsonl(records(0, 700, n))) for n in (1, 2)]
    for attempt, path in enumerate(files, 1):
        source = stabdiag.diagnose(files, attempt=attempt).history.source
        assert [part.path for part in source.parts] == [str(path)]
        assert source.record_path(5) == str(path)
    assert stabdiag.diagnose(files[0]).history.source.record_path(5) == str(files[0])


def test_all_files_that_were_read_are_known(put):
    first, second = (
        put("1/a.jsonl", jsonl(records(0, 50))),
        put("2/b.jsonl", jsonl(records(50, 90))),
    )
    manifest = put("1/manifest.json", '{"dtype": "fp16"}')
    assert stabdiag.read([first, second]).source.files == (str(first), str(manifest), str(second))
    assert stabdiag.read(first.parent).source.files == (str(first), str(manifest))


def test_an_attempt_that_logged_nothing_is_left_out(put):
    logs = [put("1.jsonl", jsonl(records(0, 50))), put("2.jsonl", jsonl(records(50, 90)))]
    empty = put("3.out", "Traceback\n")
    for part in (logs[:1], logs):
        columns = read_source([*part, empty]).columns
        assert columns.rows == 50 + 40 * (len(part) - 1)
        assert columns.events[0].message.startswith(f"left out: {empty}: a text")
    with pytest.raises(LogError, match=r"3\.out: a text"):
        read_source([empty, empty])
    with pytest.raises(LogError, match=r"none\.jsonl: no such file"):
        read_source([*logs, empty.with_name("none.jsonl")])


def test_several_files_without_a_log_are_an_error():
    with pytest.raises(LogError, match="no log given"):
        stabdiag.diagnose([])
