"""The diagnoses of labeled training runs, as a whole: what a change must not make worse."""

import math

import numpy as np
import pytest

from stabdiag.model.limits import Limits
from tests.conftest import ROOT, python


@pytest.fixture(scope="module", autouse=True)
def _benchmark():
    """The benchmark's own modules can be imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks" / "accuracy"))
        yield


@pytest.fixture(scope="module")
def scored():
    """The runs that the page is about, with the reports on them."""
    import corpus
    from page import SPLIT
    from scoring import score

    return score(corpus.folder_of(SPLIT), SPLIT)


@pytest.mark.parametrize(
    ("label", "least", "highest"),
    [
        ("right leaf", 95.2, 100),
        ("right section", 95.5, 100),
        ("recovered or not, of the spikes", 84.0, 100),
        ("onset within 5 points, right leaf, §1", 99.0, 100),
        ("onset within 5 points, right leaf, §2", 95.0, 100),
        ("healthy: an error", 0, 1.2),
        # Two healthy runs of the page end no better than a guess, which is now a warning.
        ("healthy: a warning", 0, 4.1),
    ],
)
def test_diagnoses_are_right_as_often_as_they_were(scored, label, least, highest):
    from scoring import shares

    (share,) = (entry for entry in shares(scored) if entry.name == label)
    assert least <= 100 * share.hits / share.runs <= highest


@pytest.mark.parametrize(
    ("classes", "end", "expect"),
    [(6, 1.79, ""), (6, 1.7, "healthy"), (None, 1.79, "healthy"), (60, 1.79, "healthy")],
)
def test_a_classifier_that_only_guesses_is_not_labeled_healthy(classes, end, expect):
    from labels import Seen, healthy_label
    from logged import Log

    at = np.arange(200)
    noise = 0.01 * np.random.default_rng(0).standard_normal(200)
    loss = end + np.exp(-at / 10) + noise
    log = Log(step=at, values={"loss": loss}, present={"loss": np.ones(200, bool)})
    seen = Seen(
        log=log,
        full=log,
        twin=log,
        full_twin=log,
        dtype="fp32",
        logs_dtype=True,
        growth=2000,
        static=False,
        classes=classes,
    )
    assert healthy_label(seen).expect == expect


def test_the_page_is_current(scored):
    import corpus
    from page import SPLIT, page

    kept = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert page(kept, scored, corpus.folder_of(SPLIT)) == kept, "run make accuracy-page"


def test_the_page_on_calibration_has_every_limit_of_our_own_as_it_is():
    page = (ROOT / "docs" / "calibration.md").read_text(encoding="utf-8")
    tree = ("nan.", "spike.", "precision.", "divergence.")
    calibrated = [info for info in Limits().items() if info.about.source == "own calibration"]
    tree_limits = [info for info in calibrated if info.name.startswith(tree)]
    assert len(tree_limits) > 10
    for info in tree_limits:
        assert f"| `{info.name}` | **{info.value:g}** |" in page
    assert page.count("**") == 2 * len(tree_limits)


def test_intervals_of_shares_and_of_rates():
    from intervals import rate, wilson

    # Newcombe 1998, doi:10.1002/sim.4780170802, table I, method 3
    for hits, runs, interval in ((81, 263, (0.2553, 0.3662)), (0, 20, (0.0, 0.1611))):
        assert wilson(hits, runs) == pytest.approx(interval, abs=5e-5)
    low, high = rate([0, 0], [600, 400])
    assert low == 0
    assert math.exp(-1000 * high) == pytest.approx(0.025)
    low, high = rate([0, 3, 0, 1, 0, 0, 2, 0], [100] * 8)
    assert 0 <= low < 6 / 800 < high


def test_ambiguous_output_of_other_tools_counts_in_their_favor():
    from peer_tools import ToolFinding
    from peer_worker import summarize_findings

    note, advice = ToolFinding(serious=False, families=("§4",)), ToolFinding(serious=True)
    spike = ToolFinding(serious=True, families=("§2",), loss_spike=True)
    overflow = ToolFinding(serious=True, families=("§1", "§3"))
    assert summarize_findings([]) == (False, "", 0)
    assert summarize_findings([note]) == (False, "", 0)
    assert summarize_findings([advice, note]) == (True, "", 0)
    assert summarize_findings([advice, overflow, spike, spike]) == (True, "§1§3", 2)


@pytest.mark.parametrize("script", ["score.py", "page.py"])
def test_a_split_that_is_not_there(script):
    result = python(f"benchmarks/accuracy/{script}", "--split", "nobody", cwd=ROOT)
    assert result.returncode == 1
    assert "nobody" in result.stderr
    assert len(result.stderr.splitlines()) == 1
