"""The inferred kind of a comparison, and the reason."""

import json

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import LogError, ManifestError, StabdiagError
from stabdiag.model.comparison import ComparisonKind


def losses(n=60, first=0, seed=0):
    steps = np.arange(first, first + n)
    noise = np.random.default_rng(seed).normal(0, 0.05, n)
    return {"step": steps, "loss": 1 + 3 * np.exp(-steps / 40) + noise}


def write(path, run, **manifest):
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = zip(run["step"].tolist(), run["loss"].tolist(), strict=True)
    lines = [json.dumps({"step": step, "loss": loss}) for step, loss in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if manifest:
        sidecar = path.with_name(f"{path.name.removesuffix('.jsonl')}.manifest.json")
        sidecar.write_text(json.dumps(manifest), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("names", "manifests", "kind"),
    [
        (("a.jsonl", "b.jsonl"), ({"seed": 1}, {"seed": 2}), "seeds"),
        (("a.jsonl", "b.jsonl"), ({"seed": 7}, {"seed": 7}), "reruns"),
        (("seed-3/log.jsonl", "seed-4/log.jsonl"), ({}, {}), "seeds"),
        (("run.rank0.jsonl", "run.rank1.jsonl"), ({}, {}), "ranks"),
        (("rank_0.jsonl", "rank_1.jsonl"), ({}, {}), "ranks"),
        (("job/rank0/log.jsonl", "job/rank1/log.jsonl"), ({}, {}), "ranks"),
        (("x.jsonl", "y.jsonl"), ({"rank": 0, "seed": 1}, {"rank": 1, "seed": 1}), "ranks"),
        # Sizes called ranks, words that contain "rank", ranks of adapters.
        (("adapter.rank8.jsonl", "adapter.rank16.jsonl"), ({}, {}), "seeds"),
        (("frank0.jsonl", "frank1.jsonl"), ({}, {}), "seeds"),
        (("x.jsonl", "y.jsonl"), ({"lora": {"rank": 0}}, {"lora": {"rank": 1}}), "seeds"),
    ],
)
def test_names_and_manifests_decide_the_kind(tmp_path, names, manifests, kind):
    pairs = zip(names, manifests, strict=True)
    logs = [write(tmp_path / name, losses(seed=i), **m) for i, (name, m) in enumerate(pairs)]
    comparison = stabdiag.compare(logs)
    assert comparison.kind == kind
    if kind == "ranks":
        assert [(run.label, run.rank) for run in comparison.runs] == [("rank 0", 0), ("rank 1", 1)]
        assert "config-differs" not in {finding.slug for finding in comparison.findings}
    else:
        assert comparison.runs[0].rank in (None, 8)
    if kind == "ranks" and "rank" in names[0]:
        assert stabdiag.compare([tmp_path]).kind is ComparisonKind.RANKS


def test_consecutive_steps_are_a_resume_unless_the_seeds_differ(tmp_path):
    first = write(tmp_path / "a.jsonl", losses(60), seed=1)
    second = write(tmp_path / "b.jsonl", losses(60, first=50), seed=1)
    comparison = stabdiag.compare([first, second])
    assert (comparison.kind, comparison.common) == (ComparisonKind.RESUME, 10)
    assert "b begins at step 50" in comparison.why
    other = write(tmp_path / "c.jsonl", losses(60, first=20, seed=3), seed=2)
    assert stabdiag.compare([first, other]).kind is ComparisonKind.SEEDS


def test_missing_steps_and_several_runs_are_noted(tmp_path):
    comparison = stabdiag.compare([losses(60), losses(60, first=120)], kind="resume")
    assert "60 steps between 59 and 120 are missing from both logs" in comparison.notes
    run = losses()
    twice = {name: np.concatenate([values, values]) for name, values in run.items()}
    comparison = stabdiag.compare([write(tmp_path / "a.jsonl", twice), run])
    assert any(note.startswith("a contains 2 runs") for note in comparison.notes)


def test_without_manifests_the_first_losses_decide():
    same, other = losses(), losses(seed=1)
    assert stabdiag.compare([same, same]).kind is ComparisonKind.RERUNS
    comparison = stabdiag.compare([same, other])
    assert comparison.kind is ComparisonKind.SEEDS
    assert "--as reruns" in comparison.why


def test_losses_that_have_not_moved_do_not_decide():
    """A head of zeros starts at the loss of guessing for any seed."""
    flat = np.full(60, np.log(1000.0))
    first, second = (
        {"step": np.arange(60), "loss": flat - d * np.arange(60)} for d in (1e-2, 2e-2)
    )
    first["loss"][:5] = second["loss"][:5] = np.log(1000.0)
    assert stabdiag.compare([first, second]).kind is ComparisonKind.SEEDS


def test_invalid_comparisons_are_refused(tmp_path):
    log = write(tmp_path / "rank0.jsonl", losses())
    for runs in ([log], [tmp_path]):
        with pytest.raises(StabdiagError, match="two or more runs"):
            stabdiag.compare(runs)
    with pytest.raises(StabdiagError, match=r"as 'seed'; did you mean seeds\?"):
        stabdiag.compare([log, log], kind="seed")
    with pytest.raises(StabdiagError, match="2 runs and 1 manifest; give one"):
        stabdiag.compare([log, log], manifests=[None])
    with pytest.raises(LogError, match="no such file"):
        stabdiag.compare([log, tmp_path / "nope.jsonl"])
    with pytest.raises(ManifestError):
        stabdiag.compare([log, log], manifests=[None, tmp_path / "nope.json"])


def test_many_runs_have_labels():
    comparison = stabdiag.compare([losses(seed=i) for i in range(28)])
    assert [run.label for run in comparison.runs][:2] == ["run 1", "run 2"]
    assert [run.label for run in comparison.runs][-2:] == ["run 27", "run 28"]
