"""Which runs are found below a folder, by names alone."""

import os

import pytest

from stabdiag.errors import LogError
from stabdiag.sources.find import find
from stabdiag.sources.group import SkippedEntries
from stabdiag.sources.logs import may_be_log


@pytest.fixture
def find_runs(tmp_path):
    """Return a function that creates files and returns the runs with their logs."""

    def find_runs(*names, skipped=None):
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x")
        jobs = list(find([str(tmp_path)], skipped or SkippedEntries()))
        keys = {job.key for job in jobs}
        assert len(keys) == len(jobs)
        return {job.run: sorted(file.path for file in job.logs) for job in jobs}

    return find_runs


WANDB = "wandb/run-20240101_120000-abc"
TORCH = "Nov23_12-00-00_node1/events.out.tfevents.1.node1"

# Runs with their logs, and other files next to them.
RUN_LAYOUTS = {
    "a text log goes with the run of its name": (
        {"a": ["a.jsonl", "a.log"], "b": ["b.jsonl", "b.log"]},
        (),
    ),
    "each folder with logs called by what they are is a run": (
        {
            "lr1": ["metrics.csv", "train.log"],
            "lr2": ["eval.csv", "metrics.csv", "slurm-101.out", "slurm-102.out"],
        },
        (),
    ),
    "folders of logs inside a run are not runs": (
        {
            "out": [
                *("checkpoint-1000/trainer_state.json", "checkpoint-500/trainer_state.json"),
                *(f"runs/{TORCH}", "tokenizer.json", "trainer_state.json", "vocab_extra.json"),
            ]
        },
        (),
    ),
    "folders of programs hold no runs": (
        {"run": ["metrics.csv"]},
        (
            *("env/pyvenv.cfg", "env/bin/train.log", "env/share/a.csv", "node_modules/b.csv"),
            ".git/logs/c.csv",
        ),
    ),
    "versions and event folders are runs": (
        {
            "lightning_logs/version_0": ["metrics.csv"],
            "lightning_logs/version_1": ["metrics.csv"],
            "tb/keras": ["train/events.out.tfevents.1", "validation/events.out.tfevents.2"],
            "tb/torch": ["events.out.tfevents.1", "events.out.tfevents.2"],
        },
        ("lightning_logs/version_0/hparams.yaml",),
    ),
    "a run of W&B is one": (
        {WANDB: ["files/output.log", "logs/debug.log", "run-abc.wandb"]},
        (f"{WANDB}/files/config.yaml",),
    ),
    "a run with one file per metric is one run": (
        {
            "mlruns/0/abc": ["metrics/lr", "metrics/train/loss", "params/lr"],
            "dvclive": ["plots/metrics/lr.tsv", "plots/metrics/train/loss.tsv"],
        },
        ("mlruns/0/abc/meta.yaml", "mlruns/0/abc/artifacts/metrics.csv"),
    ),
    "ranks are one run": ({"j": ["log.rank0.jsonl", "log.rank1.jsonl"]}, ()),
}


@pytest.mark.parametrize(("runs", "other_files"), RUN_LAYOUTS.values(), ids=RUN_LAYOUTS)
def test_files_are_grouped_into_runs(find_runs, runs, other_files):
    top = {"a", "b"} & set(runs)  # logs side by side, each a run
    logs = [log if run in top else f"{run}/{log}" for run, names in runs.items() for log in names]
    assert find_runs(*logs, *other_files) == runs


def test_torch_time_stamped_folders_are_runs_by_default(find_runs):
    names = [f"runs/{TORCH}", f"runs/{TORCH}".replace("Nov23", "Nov24")]
    assert list(find_runs(*names).values()) == [[names[0]], [names[1]]]


def test_attempts_are_one_run(find_runs):
    runs = find_runs("k/run1_attempt1.jsonl", "k/run1_attempt2.jsonl", "k/run2_attempt1.jsonl")
    assert runs["k/run1"] == ["run1_attempt1.jsonl", "run1_attempt2.jsonl"]


def test_a_learning_rate_in_a_name_is_not_a_suffix(find_runs):
    assert len(find_runs("lr0.1.jsonl", "lr0.01.jsonl")) == 2
    assert len(find_runs("sub/run_lr0.1", "sub/run_lr0.01")) == 4


def test_folders_are_walked_once(find_runs, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "a" / "latest.jsonl").symlink_to(tmp_path / "a" / "metrics.jsonl")
    skipped = SkippedEntries()
    assert find_runs("a/metrics.jsonl", skipped=skipped) == {"a": ["metrics.jsonl"]}
    assert skipped.messages() == [
        f"skipped, a link to a folder; to scan it, name it: {tmp_path}/a/loop"
    ]


def test_a_link_to_its_own_folder_is_left_out(find_runs, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "self").symlink_to(".", target_is_directory=True)
    assert find_runs("a/metrics.jsonl") == {"a": ["metrics.jsonl"]}


def test_a_link_to_a_missing_file_is_reported(find_runs, tmp_path):
    (tmp_path / "run").mkdir()
    for name in ("latest.jsonl", "readme"):
        (tmp_path / "run" / name).symlink_to(tmp_path / "run" / "gone.jsonl")
    skipped = SkippedEntries()
    assert find_runs("run/metrics.jsonl", skipped=skipped) == {"run": ["metrics.jsonl"]}
    assert skipped.messages() == [f"skipped, a broken link: {tmp_path}/run/latest.jsonl"]


def test_links_to_runs_below_are_left_out(find_runs, tmp_path):
    """As in W&B's folder; a link into a hidden folder is the only way to its file."""
    for name in ("run-1", ".store", "run-2"):
        (tmp_path / "wandb" / name).mkdir(parents=True)
    (tmp_path / "wandb" / ".store" / "b.csv").write_text("step,loss\n1,2\n")
    (tmp_path / "wandb" / "run-1" / "debug.log").write_text("started\n")
    (tmp_path / "wandb" / "latest-run").symlink_to("run-1", target_is_directory=True)
    (tmp_path / "wandb" / "debug.log").symlink_to("run-1/debug.log")
    (tmp_path / "wandb" / "run-2" / "b.csv").symlink_to("../.store/b.csv")
    (tmp_path / "wandb" / "b.csv").symlink_to(".store/b.csv")
    skipped = SkippedEntries()
    runs = find_runs("wandb/run-1/run.wandb", skipped=skipped)
    assert runs == {
        "wandb/b.csv": ["b.csv"],
        "wandb/run-1": ["debug.log", "run.wandb"],
        "wandb/run-2/b.csv": ["b.csv"],
    }
    assert not any("a link to" in message for message in skipped.messages())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open every folder")
def test_a_folder_that_cannot_be_listed_is_reported(find_runs, tmp_path):
    (tmp_path / "locked").mkdir(mode=0)
    skipped = SkippedEntries()
    assert find_runs("a.jsonl", skipped=skipped)
    assert "cannot be listed" in skipped.messages()[0]


def test_a_missing_path_is_reported_before_reading(tmp_path):
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(LogError, match=r"none: no such file"):
        next(find([str(tmp_path), str(tmp_path / "none")], SkippedEntries()))


def test_a_pattern_matches_all_paths(find_runs, tmp_path):
    find_runs("a/metrics.csv", "b/metrics.csv", "c/other.csv")
    jobs = find([f"{tmp_path}/*/metrics.csv"], SkippedEntries())
    keys = [f"{tmp_path}/{name}/metrics.csv" for name in "ab"]
    assert sorted(job.key for job in jobs) == keys


def test_work_begins_before_the_listing_ends(find_runs, tmp_path):
    find_runs("a/metrics.csv", "b/metrics.csv")
    jobs = find([str(tmp_path)], SkippedEntries())
    assert next(jobs).run == "a"
    (tmp_path / "b" / "metrics.csv").unlink()  # it was not listed yet
    assert list(jobs) == []


def test_a_manifest_goes_with_the_log_of_its_name(tmp_path):
    for name in ("a.jsonl.gz", "b.jsonl", "a.manifest.json", "b.manifest.json", "config.yaml"):
        (tmp_path / name).write_text("x")
    jobs = find([str(tmp_path)], SkippedEntries())
    other_files = {job.run: [file.path for file in job.sidecars] for job in jobs}
    assert other_files == {
        "a.jsonl.gz": ["a.manifest.json", "config.yaml"],
        "b.jsonl": ["b.manifest.json", "config.yaml"],
    }


def test_among_runs_each_file_with_a_name_of_its_own_is_one(find_runs):
    names = ["a.csv", "b.csv", "c.jsonl", "d.log", "e.log", "keras_run7.tfevents", "f.wandb"]
    assert find_runs(*names) == {name: [name] for name in names}
    assert len(find_runs("metrics.csv")) == len(names) + 1


@pytest.mark.parametrize(
    ("name", "is_expected"),
    [
        ("experiment_state-2026-11-29_06-15-32.json", False),
        ("basic-variant-state-2026-11-29_06-15-32.json", False),
        ("result.json", True),
        ("experiment_state.json", True),
    ],
)
def test_the_state_of_ray_tune_is_not_a_log(name, is_expected):
    assert may_be_log(name) is is_expected
