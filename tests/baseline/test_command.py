"""``--baseline`` on the command line, and in Python."""

import json
import re

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import stabdiag
from stabdiag.cli import main
from stabdiag.formats.json import schema
from tests.baseline.made import good_runs, run, write


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def called(monkeypatch, capsys, *arguments):
    monkeypatch.setattr("sys.argv", ["stabdiag", *map(str, arguments)])
    code = main()
    out, err = capsys.readouterr()
    return int(code), out, err


def diagnosed(monkeypatch, capsys, *arguments):
    code, out, _ = called(monkeypatch, capsys, "diagnose", *arguments, "--json")
    report = json.loads(out)
    Draft202012Validator(json.loads(schema())).validate(report)
    return code, report


def test_a_worse_run_is_the_diagnosis(folder, monkeypatch, capsys):
    good = good_runs(folder / "good")
    bad = write(folder / "bad", run(50, end=0.7))
    code, report = diagnosed(monkeypatch, capsys, bad, "--baseline", good)
    diagnosis = report["diagnosis"]
    assert code == 0  # a warning
    assert (diagnosis["slug"], diagnosis["severity"]) == ("worse-than-baseline", "warning")
    assert re.match(
        r"The run is worse than your 5 good runs from step \d+ on: its evaluation loss ends "
        r"3\d% above theirs, which differ by at most \d+(\.\d+)?%\.",
        diagnosis["summary"],
    )
    assert report["baseline"]["references"] == [f"seed{seed}" for seed in range(5)]
    assert report["baseline"]["deciding"] == "eval_loss"
    assert report["tree"]["outcome"]["slug"] == "healthy"


def test_fail_on_warning(folder, monkeypatch, capsys):
    good = good_runs(folder / "good")
    bad = write(folder / "bad", run(50, end=0.7))
    code, *_ = called(
        monkeypatch, capsys, "diagnose", bad, "--baseline", good, "--fail-on", "warning"
    )
    assert code == 1


def test_a_good_run_stays_healthy_and_names_the_baseline(folder, monkeypatch, capsys):
    good = good_runs(folder / "good")
    write(folder / "new", run(50))
    code, out, err = called(monkeypatch, capsys, "diagnose", folder / "new", "--baseline", good)
    assert (code, err) == (0, "")
    assert "[healthy]" in out
    assert "within the band of your 5 good runs" in " ".join(out.split())


def test_a_run_among_its_references_is_not_one_of_them(folder, monkeypatch, capsys):
    good = good_runs(folder / "good")
    _, report = diagnosed(monkeypatch, capsys, good / "seed2" / "log.jsonl", "--baseline", good)
    assert report["baseline"]["references"] == ["seed0", "seed1", "seed3", "seed4"]


def test_several_paths_and_patterns(folder, monkeypatch, capsys):
    good_runs(folder / "good")
    bad = write(folder / "bad", run(50, end=0.7))
    pattern = "good/seed[123]/log.jsonl"
    _, report = diagnosed(
        monkeypatch, capsys, bad, "--baseline", pattern, "--baseline", "good/seed4"
    )
    assert report["baseline"]["references"] == ["seed1", "seed2", "seed3", "seed4"]


def test_settings_that_differ_are_the_first_action(folder, monkeypatch, capsys):
    good = good_runs(folder / "good", manifest={"peak_lr": 0.003, "dtype": "fp32"})
    manifest = {"peak_lr": 0.03, "dtype": "fp32"}
    bad = write(folder / "bad", run(50, end=0.7), manifest)
    _, report = diagnosed(monkeypatch, capsys, bad, "--baseline", good)
    action = report["diagnosis"]["actions"][0]
    assert action["text"] == (
        "Set peak_lr to 0.003 as in the references (now 0.03), and run again."
    )
    assert (action["kind"], action["from"], action["to"]) == ("lower-lr", 0.03, 0.003)
    assert (
        "Settings that differ: peak_lr 0.03 (theirs 0.003). Begin there."
        in (report["diagnosis"]["summary"])
    )


def test_a_learning_rate_that_differs_is_named_without_manifests(folder, monkeypatch, capsys):
    def with_rate(seed, rate, **options):
        columns = run(seed, **options)
        return {**columns, "lr": np.full(len(columns["step"]), rate)}

    for seed in range(4):
        write(folder / "good" / f"seed{seed}", with_rate(seed, 0.003))
    bad = write(folder / "bad", with_rate(50, 0.006, end=0.7))
    _, report = diagnosed(monkeypatch, capsys, bad, "--baseline", "good")
    assert (
        "The learning rate differs from step 1 on: begin there." in report["diagnosis"]["summary"]
    )
    assert report["diagnosis"]["actions"][0]["kind"] == "lower-lr"


def test_another_dataset_is_refused_by_name(folder, monkeypatch, capsys):
    good = good_runs(folder / "good", number=2, manifest={"dtype": "fp32", "dataset": "imagenet"})
    new = write(folder / "new", run(50), {"dtype": "fp32", "dataset": "cifar10"})
    code, out, err = called(monkeypatch, capsys, "diagnose", new, "--baseline", good)
    assert (code, out) == (2, "")
    assert err == (
        "stabdiag: baseline: another dataset: cifar10 in this run, imagenet in seed0; give runs "
        "of the same dataset\n"
    )


@pytest.mark.parametrize("named", ["nowhere", "empty", "text.csv"])
def test_a_baseline_that_cannot_be_read_costs_nothing_else(folder, monkeypatch, capsys, named):
    (folder / "empty").mkdir()
    (folder / "text.csv").write_text("no numbers here\n")
    bad = write(folder / "bad", run(50) | {"loss": np.where(np.arange(400) > 300, np.nan, 2.0)})
    code, out, err = called(monkeypatch, capsys, "diagnose", bad, "--baseline", named, "--json")
    report = json.loads(out)
    assert code == 1
    assert report["diagnosis"]["slug"].startswith("nan-")
    assert report["baseline"]["status"] == "unusable"
    assert err.startswith(f"stabdiag: no baseline to compare with: {named} (")
    assert len(err.splitlines()) == 1


def test_a_run_that_diverged_is_an_error(folder, monkeypatch, capsys):
    good = good_runs(folder / "good")
    columns = run(50)
    columns["loss"][300:] = np.nan
    columns["eval_loss"][300:] = np.nan
    bad = write(folder / "bad", columns)
    code, report = diagnosed(monkeypatch, capsys, bad, "--baseline", good)
    assert code == 1
    by_slug = {finding["slug"]: finding for finding in report["findings"]}
    assert by_slug["worse-than-baseline"]["severity"] == "error"
    assert by_slug["worse-than-baseline"]["step"] == 301
    assert report["diagnosis"]["slug"].startswith("nan-")  # the tree's own finding comes first


def test_the_settings_file_names_a_baseline(folder, monkeypatch, capsys):
    good_runs(folder / "good")
    bad = write(folder / "bad", run(50, end=0.7))
    (folder / "stabdiag.toml").write_text('baseline = "good"\n')
    _, report = diagnosed(monkeypatch, capsys, bad)
    assert report["diagnosis"]["slug"] == "worse-than-baseline"
    monkeypatch.chdir(folder / "bad")  # the path is relative to the file
    _, report = diagnosed(monkeypatch, capsys, "log.jsonl")
    assert report["diagnosis"]["slug"] == "worse-than-baseline"


def test_the_settings_file_wants_paths(folder, monkeypatch, capsys):
    write(folder / "new", run(50))
    (folder / "stabdiag.toml").write_text("baseline = 5\n")
    code, _, err = called(monkeypatch, capsys, "diagnose", "new")
    assert code == 2
    assert "baseline must be a path or a list of paths, not 5" in err


def test_where_without_a_baseline_is_refused(folder, monkeypatch, capsys):
    write(folder / "new", run(50))
    code, _, err = called(monkeypatch, capsys, "diagnose", "new", "--where", "outcome=healthy")
    assert code == 2
    assert "name them with --baseline" in err


def test_an_ignored_finding_is_a_note(folder, monkeypatch, capsys):
    good_runs(folder / "good")
    bad = write(folder / "bad", run(50, end=0.7))
    (folder / "stabdiag.toml").write_text(
        '[[ignore]]\nfinding = "worse-than-baseline"\nreason = "a test"\nuntil = 9999-01-01\n'
    )
    _, report = diagnosed(monkeypatch, capsys, bad, "--baseline", "good")
    (finding,) = [item for item in report["findings"] if item["slug"] == "worse-than-baseline"]
    assert finding["severity"] == "note"


@pytest.mark.parametrize(
    "slug",
    ["worse-than-baseline", "unlike-baseline", "better-than-baseline", "left-baseline",
     "baseline-unusable"],
)  # fmt: skip
def test_every_finding_is_explained(monkeypatch, capsys, slug):
    code, out, _ = called(monkeypatch, capsys, "explain", slug)
    assert code == 0
    for heading in ("What it means", "How it is detected", "What to do"):
        assert heading in out


def test_python_takes_histories_tables_reports_and_paths(folder):
    good_runs(folder / "good", 2)
    report = stabdiag.diagnose(
        run(50, end=0.7),
        baseline=[
            "good",
            stabdiag.diagnose(run(2)),
            stabdiag.diagnose(run(3)).history,
            run(4),
        ],
    )
    assert report.diagnosis.slug == "worse-than-baseline"
    assert report.baseline.status == "worse"
    assert report.baseline.deciding.role == "eval_loss"
    assert len(report.baseline.references) == 5
    assert not report.ok


def test_python_keeps_a_baseline(folder):
    good = stabdiag.baseline(str(good_runs(folder / "good")))
    assert isinstance(good, stabdiag.Baseline)
    assert good.names == tuple(f"seed{seed}" for seed in range(5))
    good.save("base.parquet")
    assert (folder / "base.parquet").stat().st_size < 25_000
    bad = run(50, end=0.7)
    kept = stabdiag.diagnose(bad, baseline="base.parquet")
    direct = stabdiag.diagnose(bad, baseline=good)
    assert kept.diagnosis.summary == direct.diagnosis.summary
    assert kept.baseline.deciding.peak == pytest.approx(direct.baseline.deciding.peak, rel=1e-3)


def test_python_raises_if_there_is_no_run(folder):
    with pytest.raises(stabdiag.StabdiagError, match="nowhere"):
        stabdiag.baseline("nowhere")
    with pytest.raises(stabdiag.StabdiagError, match="no run is given"):
        stabdiag.baseline([])


def test_a_baseline_of_another_version_is_one_clear_line(folder, monkeypatch, capsys):
    good_runs(folder / "good", 2)
    monkeypatch.setattr("stabdiag.sources.profiles.PROFILE_VERSION", 99)
    stabdiag.baseline("good").save("base.parquet")
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    new = write(folder / "new", run(50))
    code, out, err = called(monkeypatch, capsys, "diagnose", new, "--baseline", "base.parquet")
    assert code == 0
    assert "another version of stabdiag wrote this baseline" in err
    assert "[baseline-unusable]" in out


def test_a_dissimilar_run_gets_both_explanations(folder):
    report = stabdiag.diagnose(
        run(50, start=9.0, end=1.0), baseline=[run(seed) for seed in range(5)]
    )
    assert report.diagnosis.slug == "unlike-baseline"
    assert (
        "Either it is a run of something else, another task, dataset or model, or it was set up "
        "differently from the start."
    ) in report.diagnosis.summary


def test_three_references_of_which_one_is_odd(folder):
    good_runs(folder / "good", 2)
    write(folder / "good" / "run_b", run(7, worse=2, since=100))
    report = stabdiag.diagnose(run(50), baseline="good")
    assert re.match(
        r"Nothing to say: the 3 references differ too much among themselves \(run_b from step "
        r"\d+\)\. Give at least 4, or leave run_b out\.",
        report.diagnosis.summary,
    )


def test_the_command_keeps_a_baseline(folder, monkeypatch, capsys):
    good_runs(folder / "good")
    (folder / "good" / "broken.csv").write_text("step,loss\nno numbers here\n")
    code, out, err = called(monkeypatch, capsys, "baseline", "good", "-o", "base.parquet")
    assert (code, out) == (0, "")
    assert err.splitlines()[-1].startswith("stabdiag: wrote base.parquet, ")
    assert err.splitlines()[-1].endswith(": 5 runs (seed0, seed1, seed2, seed3, seed4)")
    bad = write(folder / "bad", run(50, end=0.7))
    _, report = diagnosed(monkeypatch, capsys, bad, "--baseline", "base.parquet")
    assert report["diagnosis"]["slug"] == "worse-than-baseline"
    own = folder / "good" / "seed1" / "log.jsonl"
    _, report = diagnosed(monkeypatch, capsys, own, "--baseline", "base.parquet")
    assert "seed1" not in report["baseline"]["references"]


def test_keeping_no_run_is_an_error(folder, monkeypatch, capsys):
    (folder / "empty").mkdir()
    code, _, err = called(monkeypatch, capsys, "baseline", "empty", "-o", "base.parquet")
    assert code == 2
    assert "no run to keep" in err
    assert not (folder / "base.parquet").exists()


def test_conditions_select_references(folder, monkeypatch, capsys):
    for seed in range(4):
        manifest = {"dtype": "fp32", "peak_lr": 0.1 if seed < 3 else 0.2}
        write(folder / "good" / f"seed{seed}", run(seed), manifest)
    write(folder / "new", run(50))
    where = ("--where", "peak_lr>=0.05", "--where", "peak_lr<0.15")
    _, report = diagnosed(monkeypatch, capsys, "new", "--baseline", "good", *where)
    assert report["baseline"]["references"] == ["seed0", "seed1", "seed2"]
    _, report = diagnosed(monkeypatch, capsys, "new", "--baseline", "good", "--where", "peak_lr=9")
    assert report["baseline"]["status"] == "unusable"
    assert report["baseline"]["left_out"][0]["reason"] == "no match among 4 runs"
    code, _, err = called(
        monkeypatch, capsys, "diagnose", "new", "--baseline", "good", "--where", "peak_lr"
    )
    assert code == 2
    assert "expected NAME=VALUE" in err


@pytest.mark.parametrize("command", ["check", "watch", "scan"])
def test_other_commands_compare_as_well(folder, monkeypatch, capsys, command):
    good_runs(folder / "good")
    write(folder / "runs" / "bad", run(50, end=0.7))
    target = "runs/bad/log.jsonl" if command == "watch" else "runs"
    options = ["--until-idle", "0"] if command == "watch" else []
    code, out, _ = called(
        monkeypatch, capsys, command, target, "--baseline", "good", "--fail-on", "warning", *options
    )
    assert code == 1
    assert "worse-than-baseline" in out


def test_a_scan_takes_a_baseline_in_python(folder):
    good_runs(folder / "good")
    write(folder / "runs" / "bad", run(50, end=0.7))
    overview = stabdiag.scan("runs", baseline="good")
    assert [count.outcome for count in overview.counts] == ["worse-than-baseline"]


def test_a_run_of_something_else_in_a_folder_is_not_compared(folder):
    good_runs(folder / "good", manifest={"dtype": "fp32", "dataset": "imagenet"})
    write(folder / "runs" / "other", run(50), {"dtype": "fp32", "dataset": "cifar10"})
    overview = stabdiag.scan("runs", baseline="good")
    assert [count.outcome for count in overview.counts] == ["baseline-unusable"]


def test_compare_as_a_baseline(folder, monkeypatch, capsys):
    good_runs(folder / "good", 3)
    write(folder / "bad", run(50, end=0.7))
    write(folder / "fine", run(51))
    others = [f"good/seed{seed}" for seed in range(3)]
    options = ("--as", "baseline", "--json")
    code, out, _ = called(monkeypatch, capsys, "compare", "bad", *others, *options)
    output = json.loads(out)
    Draft202012Validator(json.loads(schema("comparison"))).validate(output)
    assert (code, output["kind"]) == (0, "baseline")
    assert output["diagnosis"]["slug"] == "worse-than-baseline"
    assert output["diagnosis"]["summary"].startswith("bad is worse than your 3 good runs from")
    _, out, _ = called(monkeypatch, capsys, "compare", "fine", *others, *options)
    output = json.loads(out)["diagnosis"]
    assert (output["slug"], output["severity"]) == ("agree", "ok")
    assert output["summary"].startswith("fine is within the band of your 3 good runs")


def compared(monkeypatch, capsys, *runs):
    code, out, _ = called(monkeypatch, capsys, "compare", *runs, "--json")
    comparison = json.loads(out)
    Draft202012Validator(json.loads(schema("comparison"))).validate(comparison)
    return code, comparison


def test_a_run_that_ends_worse_than_others_that_agree_is_compared_with_them(
    folder, monkeypatch, capsys
):
    runs = ["mon", "tue", "wed", "thu"]
    for seed, name in enumerate(runs):
        write(folder / name, run(seed, end=0.7 if name == "thu" else 0.5))
    _, comparison = compared(monkeypatch, capsys, *runs)
    assert comparison["kind"] == "baseline"
    assert comparison["why"] == "thu ends worse than 3 other runs that agree"
    diagnosis = comparison["diagnosis"]
    assert diagnosis["slug"] == "worse-than-baseline"
    assert diagnosis["summary"].startswith("thu is worse than the 3 other runs from step")
    # Requested relations are kept.
    _, comparison = compared(monkeypatch, capsys, *runs, "--as", "seeds")
    assert (comparison["kind"], comparison["diagnosis"]["slug"]) == ("seeds", "seed-variance")


def test_runs_that_differ_by_seed_remain_seeds(folder, monkeypatch, capsys):
    names = [f"seed{seed}" for seed in range(4)]
    for seed, name in enumerate(names):
        write(folder / name, run(seed, end=0.7 if seed == 3 else 0.5), {"peak_lr": 0.1})
    _, comparison = compared(monkeypatch, capsys, *names)
    assert (comparison["kind"], comparison["diagnosis"]["slug"]) == ("seeds", "seed-variance")
    assert re.search(
        r"seed3 leaves the band of the others at step \d+\.$", comparison["diagnosis"]["summary"]
    )
    # Another setting that differs, too, makes the others a baseline.
    (folder / "seed3" / "manifest.json").write_text('{"peak_lr": 0.3}')
    _, comparison = compared(monkeypatch, capsys, *names)
    assert comparison["kind"] == "baseline"
    assert (
        "Settings that differ: peak_lr 0.3 (theirs 0.1). Begin there."
        in (comparison["diagnosis"]["summary"])
    )


def test_runs_that_agree_remain_seeds(folder, monkeypatch, capsys):
    for seed, name in enumerate("abcd"):
        write(folder / name, run(seed))
    _, comparison = compared(monkeypatch, capsys, *"abcd")
    assert (comparison["kind"], comparison["diagnosis"]["slug"]) == ("seeds", "agree")


@pytest.mark.parametrize(
    "ends", [(0.5, 0.7), (0.5, 0.5, 0.35), (0.5, 0.7, 0.9), (0.5, 0.5, 0.7, 0.7)]
)
def test_runs_without_one_clearly_worse_run_remain_seeds(folder, monkeypatch, capsys, ends):
    """Two runs; one better run; runs that all differ; two against two."""
    names = "abcd"[: len(ends)]
    for seed, (name, end) in enumerate(zip(names, ends, strict=True)):
        write(folder / name, run(seed, end=end))
    _, comparison = compared(monkeypatch, capsys, *names)
    assert comparison["kind"] == "seeds"
    assert comparison["diagnosis"]["slug"] == "seed-variance"


def test_a_run_with_a_loss_that_is_not_finite_fails(folder, monkeypatch, capsys):
    for seed, name in enumerate("abc"):
        write(folder / name, run(seed))
    bad = run(3) | {"loss": np.where(np.arange(400) > 300, np.nan, 2.0)}
    write(folder / "d", bad)
    _, comparison = compared(monkeypatch, capsys, *"abcd")
    assert (comparison["kind"], comparison["diagnosis"]["slug"]) == ("seeds", "run-fails")


@pytest.mark.parametrize("name", ["terminal", "html"])
def test_every_format_shows_a_comparison_with_a_baseline(folder, monkeypatch, capsys, name):
    good_runs(folder / "good", 3)
    write(folder / "bad", run(50, end=0.7))
    others = [f"good/seed{seed}" for seed in range(3)]
    arguments = ("compare", "bad", *others, "--as", "baseline", "--format", name)
    code, out, err = called(monkeypatch, capsys, *arguments)
    assert (code, err) == (0, "")
    assert "worse than your 3 good runs" in " ".join(out.split())


def test_references_with_the_same_folder_name_are_distinguished(folder):
    for task in ("chars", "images"):
        for seed in range(2):
            write(folder / task / str(seed), run(seed))
    assert stabdiag.baseline("chars/0").names == ("chars",)
    assert stabdiag.baseline("chars").names == ("chars/0", "chars/1")
    assert stabdiag.baseline(["chars/0", "images/0"]).names == ("chars", "images")
    write(folder / "a" / "good" / "0", run(3))
    write(folder / "b" / "good" / "0", run(4))
    assert stabdiag.baseline(["a", "b"]).names == ("a/good/0", "b/good/0")


def test_a_run_with_another_level_from_the_start_may_have_another_task():
    references = [run(seed) for seed in range(5)]
    other = run(50, end=0.7)
    other["grad_norm"] = 3 * other["grad_norm"]
    sentence = "The run may also have another task: no manifest names its task, data or model."
    report = stabdiag.diagnose(other, baseline=references)
    assert report.diagnosis.slug == "worse-than-baseline"
    assert sentence in report.diagnosis.summary
    # The same run, and references that name the same dataset.
    reports = [
        stabdiag.diagnose(columns, manifest={"dtype": "fp32", "dataset": "imagenet"})
        for columns in references
    ]
    report = stabdiag.diagnose(
        other, manifest={"dtype": "fp32", "dataset": "imagenet"}, baseline=reports
    )
    assert report.diagnosis.slug == "worse-than-baseline"
    assert sentence not in report.diagnosis.summary
    # A run that only leaves the band later.
    report = stabdiag.diagnose(run(50, end=0.7), baseline=references)
    assert report.diagnosis.slug == "worse-than-baseline"
    assert sentence not in report.diagnosis.summary


def test_references_of_several_tasks_are_unusable():
    references = [run(seed) for seed in range(4)]
    references += [run(seed, start=30.0, end=12.0) for seed in range(4)]
    report = stabdiag.diagnose(run(50), baseline=references)
    assert report.diagnosis.slug == "baseline-unusable"
    assert report.diagnosis.summary.startswith(
        "Nothing to say: the 8 references differ too much among themselves, like runs of different "
        "tasks or settings."
    )
    assert "at least 4" not in report.diagnosis.summary


def test_references_left_out_are_grouped_by_reason(folder, monkeypatch, capsys):
    good_runs(folder / "good", 2)
    for seed in range(5):
        manifest = {"dtype": "fp32", "dataset": "imagenet"}
        write(folder / "good" / f"other{seed}", run(seed), manifest)
    write(folder / "new", run(50), {"dtype": "fp32", "dataset": "cifar10"})
    _, out, _ = called(monkeypatch, capsys, "diagnose", "new", "--baseline", "good")
    text = " ".join(out.split())
    assert "Left out: other0, other1, other2 and 2 more (another dataset: imagenet)." in text
