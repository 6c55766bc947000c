"""Labels of runs."""

import pytest

from stabdiag.comparison.labels import make_labels


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["runs/base.jsonl", "runs/low.jsonl"], ["base", "low"]),
        (["runs/base/log.csv", "runs/low/log.csv"], ["base", "low"]),
        (["out/a/wandb/files/output.log", "out/b/wandb/files/output.log"], ["a", "b"]),
        (["x.jsonl", "x.csv"], ["x.jsonl", "x.csv"]),
        (["x.jsonl.gz", "y.jsonl.gz"], ["x", "y"]),
        # A folder is a better label than a generated or a standard name.
        (["base/log.jsonl", "low/log.jsonl.gz"], ["base", "low"]),
        (["base/log.jsonl", "low/metrics.csv"], ["base", "low"]),
        (["one/runs/Nov28_10-00-00_h", "two/runs/Nov28_11-00-00_h"], ["one", "two"]),
        # Equal names are not labels, and types of tables are not either.
        (["log.csv", "log.csv"], ["run 1", "run 2"]),
        (["dict", "dict", "dict"], ["run 1", "run 2", "run 3"]),
    ],
)
def test_the_label_is_the_part_of_the_path_that_differs(names, labels):
    assert make_labels(names, [None] * len(names)) == labels


def test_distinct_ranks_are_labels_and_equal_ranks_are_not():
    assert make_labels(["a.log", "b.log"], [0, 1]) == ["rank 0", "rank 1"]
    assert make_labels(["a.log", "b.log"], [0, 0]) == ["a", "b"]


def test_long_names_are_cut_where_they_are_equal():
    long = "gpt2-large-openwebtext-cosine-warmup2000-lr{}-clip1.0-weight-decay0.1-run"
    labels = make_labels([f"{long.format(lr)}.jsonl" for lr in ("3e-4", "1e-3")], [None, None])
    assert all(len(label) <= 24 for label in labels)
    assert len(set(labels)) == 2
    assert "3e-4" in labels[0]
    assert "1e-3" in labels[1]
