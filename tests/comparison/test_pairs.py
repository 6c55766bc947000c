"""Comparisons of trained runs: the findings, and the near misses."""

import json
import re

import jsonschema
import pytest

import stabdiag
from stabdiag.comparison.outcomes import COMPARISON_OUTCOME_BY_SLUG
from stabdiag.formats.json import schema
from stabdiag.model.comparison import ComparisonKind
from stabdiag.model.findings import Severity
from tests.comparison.conftest import NAMES, PAIRS, about, compared, logs

every_pair = pytest.mark.parametrize("pair", NAMES)


@every_pair
def test_each_pair_has_its_expected_finding(pair):
    label, comparison = about(pair), compared(pair)
    assert comparison.kind == label["kind"]
    assert comparison.diagnosis.slug == label["expect"]
    assert comparison.diagnosis.severity == label["severity"]
    assert {finding.slug for finding in comparison.also_found} == set(label["also"])
    if label["step"] is not None:
        assert comparison.diagnosis.step == label["step"]


@every_pair
def test_the_order_of_the_runs_does_not_matter(pair):
    comparison, other = compared(pair), stabdiag.compare(logs(pair)[::-1])
    assert other.kind is comparison.kind  # a folder of ranks is compared by its logs
    if comparison.kind is ComparisonKind.RESUME:
        return
    assert [finding.slug for finding in other.findings] == [
        finding.slug for finding in comparison.findings
    ]
    assert other.diagnosis.severity is comparison.diagnosis.severity
    if comparison.kind is not ComparisonKind.RANKS:
        assert other.diagnosis.step == comparison.diagnosis.step


def test_every_finding_has_a_trained_pair():
    assert {about(pair)["expect"] for pair in NAMES} == set(COMPARISON_OUTCOME_BY_SLUG)


# Pairs that are close to a finding but do not have it.
NEAR_MISSES = {
    "seed-variance": ("agree-seeds", "agree-seeds-noisy", "agree-seeds-smooth"),
    "nondeterminism": ("agree-twice", "agree-names", "config-differs-lr", "config-differs-unsaid"),
    "run-fails": ("config-differs-lr", "seed-variance", "agree-seeds-noisy"),
    "config-differs": ("agree-names", "agree-seeds", "nondeterminism-shuffle"),
    "rank-died": ("agree-ranks-local", "agree-ranks-averaged", "ranks-disagree"),
    "ranks-disagree": ("agree-ranks-local", "agree-ranks-averaged", "agree-ranks-shards"),
    "resume-diverges": ("agree-resumed", "agree-follows"),
    "not-comparable": ("agree-follows", "agree-seeds-smooth"),
    "agree": ("nondeterminism-stays", "not-comparable"),
}


def test_near_misses_are_not_reported():
    assert set(NEAR_MISSES) == set(COMPARISON_OUTCOME_BY_SLUG)
    for slug, pairs in NEAR_MISSES.items():
        for pair in pairs:
            assert compared(pair).kind in COMPARISON_OUTCOME_BY_SLUG[slug].kinds, pair
            assert slug not in {finding.slug for finding in compared(pair).findings}, pair


@pytest.mark.parametrize(
    ("pair", "evidence"),
    [
        # Three ranks report a lost peer; the one that does not is dead.
        ("rank-died", {"rank": 2, "ranks_that_lost_a_peer": 3}),
        ("run-fails-precision", {"failed": 1, "succeeded": 1, "dtype (half)": "fp16"}),
        ("nondeterminism-stays", {"beyond_rounding_from": None}),
        ("resume-diverges-optimizer", {"resumed_at": 200}),
        ("resume-diverges-schedule", {"role": "lr"}),
    ],
)
def test_the_evidence_shows_the_cause(pair, evidence):
    numbers = compared(pair).diagnosis.evidence
    assert {name: numbers[name] for name in evidence} == evidence


@pytest.mark.parametrize(
    ("pair", "kind"),
    [
        ("run-fails-precision", "change-dtype"),
        ("nondeterminism-shuffle", "fix-loader"),
        ("nondeterminism-grows", "rerun"),
        ("nondeterminism-stays", "do-nothing"),
        ("config-differs-unsaid", "fix-schedule"),
        ("resume-diverges-schedule", "fix-schedule"),
        ("ranks-disagree-scale", "dynamic-loss-scale"),
    ],
)
def test_the_pattern_of_differences_decides_the_first_action(pair, kind):
    assert compared(pair).diagnosis.actions[0].kind == kind


def test_two_seeds_need_a_third_and_five_have_an_outlier():
    folder = PAIRS / "seed-variance"
    pair = stabdiag.compare([folder / "seed3.csv", folder / "seed4.csv"])
    assert pair.diagnosis.slug == "seed-variance"
    assert pair.diagnosis.actions[0].kind == "rerun"  # a third seed
    assert stabdiag.compare([folder / "seed2.csv", folder / "seed3.csv"]).diagnosis.slug == "agree"
    assert "seed4.csv" in compared("seed-variance").diagnosis.first_action  # the odd one of five


def test_ranks_share_the_manifest_of_their_folder():
    assert all(run.manifest.seed == 240 for run in compared("agree-ranks-local").runs)


@every_pair
def test_json_is_strict_and_every_finding_has_an_action(pair):
    content = json.loads(compared(pair).to_json(), parse_constant=pytest.fail)
    jsonschema.Draft202012Validator(json.loads(schema("comparison"))).validate(content)
    assert content["diagnosis"]["slug"] == about(pair)["expect"]
    for finding in compared(pair).findings:
        outcome = COMPARISON_OUTCOME_BY_SLUG[finding.slug]
        assert finding.title == outcome.title
        assert finding.severity.rank >= outcome.severity.rank
        assert finding.severity is Severity.OK or finding.evidence
        words = " ".join((finding.summary, finding.first_action, *finding.next_actions))
        assert not re.search(r"\b(None|nan|inf)\b|  ", words)


def test_the_table_of_pairs_is_current():
    table = (PAIRS.parent / "README.md").read_text(encoding="utf-8")
    for pair in NAMES:
        row = next(line for line in table.splitlines() if f"| `{pair}` |" in line)
        assert f"| {about(pair)['kind']} | `{about(pair)['expect']}` |" in row
        assert about(pair)["what"] in row
