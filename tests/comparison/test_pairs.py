"""Runs that were really trained, side by side: what is found of them, and what is not."""

import json
import re

import jsonschema
import pytest

import stabdiag
from stabdiag.comparison.outcomes import BY_SLUG
from stabdiag.formats.json import schema
from stabdiag.model.comparison import Kind
from stabdiag.model.findings import Severity
from tests.comparison.conftest import NAMES, PAIRS, about, compared, logs

every_pair = pytest.mark.parametrize("pair", NAMES)


@every_pair
def test_the_finding_is_right(pair):
    label, found = about(pair), compared(pair)
    assert found.kind == label["kind"]
    assert found.diagnosis.slug == label["expect"]
    assert found.diagnosis.severity == label["severity"]
    assert {one.slug for one in found.also_found} == set(label["also"])
    if label["step"] is not None:
        assert found.diagnosis.step == label["step"]


@every_pair
def test_the_order_of_the_runs_decides_nothing(pair):
    found, other = compared(pair), stabdiag.compare(logs(pair)[::-1])
    assert other.kind is found.kind  # of ranks, a folder is its logs
    if found.kind is Kind.RESUME:
        return
    assert [one.slug for one in other.findings] == [one.slug for one in found.findings]
    assert other.diagnosis.severity is found.diagnosis.severity
    if found.kind is not Kind.RANKS:
        assert other.diagnosis.step == found.diagnosis.step


def test_every_finding_is_shown_by_real_runs():
    assert {about(pair)["expect"] for pair in NAMES} == set(BY_SLUG)


# Runs that come near a finding: it was looked for, and it is not there.
NEAR_MISSES = {
    "seed-variance": ("agree-seeds", "agree-seeds-noisy", "agree-seeds-smooth"),
    "nondeterminism": ("agree-twice", "agree-names", "config-differs-lr", "config-differs-unsaid"),
    "run-fails": ("config-differs-lr", "seed-variance", "agree-seeds-noisy"),
    "config-differs": ("agree-names", "agree-seeds", "nondeterminism-shuffle"),
    "rank-died": ("agree-ranks-local", "agree-ranks-averaged", "ranks-disagree"),
    "ranks-disagree": ("agree-ranks-local", "agree-ranks-averaged", "agree-ranks-shards"),
    "resume-parts": ("agree-resumed", "agree-follows"),
    "not-comparable": ("agree-follows", "agree-seeds-smooth"),
    "agree": ("nondeterminism-stays", "not-comparable"),
}


def test_near_misses_do_not_fire():
    assert set(NEAR_MISSES) == set(BY_SLUG)
    for slug, pairs in NEAR_MISSES.items():
        for pair in pairs:
            assert compared(pair).kind in BY_SLUG[slug].kinds, pair
            assert slug not in {one.slug for one in compared(pair).findings}, pair


@pytest.mark.parametrize(
    ("pair", "evidence"),
    [
        # Three ranks complain of a lost peer; the one that does not is the dead one.
        ("rank-died", {"rank": 2, "ranks_that_lost_a_peer": 3}),
        ("run-fails-precision", {"failed": 1, "sound": 1, "dtype (half)": "fp16"}),
        ("nondeterminism-stays", {"beyond_rounding_from": None}),
        ("resume-parts-optimizer", {"resumed_at": 200}),
        ("resume-parts-schedule", {"role": "lr"}),
    ],
)
def test_the_numbers_that_tell_the_cause(pair, evidence):
    found = compared(pair).diagnosis.evidence
    assert {name: found[name] for name in evidence} == evidence


@pytest.mark.parametrize(
    ("pair", "kind"),
    [
        ("run-fails-precision", "change-dtype"),
        ("nondeterminism-shuffle", "fix-loader"),
        ("nondeterminism-grows", "rerun"),
        ("nondeterminism-stays", "do-nothing"),
        ("config-differs-unsaid", "fix-schedule"),
        ("resume-parts-schedule", "fix-schedule"),
        ("ranks-disagree-scale", "dynamic-loss-scale"),
    ],
)
def test_the_pattern_of_the_differences_tells_what_to_do(pair, kind):
    assert compared(pair).diagnosis.actions[0].kind == kind


def test_two_of_the_seeds_are_told_apart_and_n_is_honoured():
    folder = PAIRS / "seed-variance"
    odd = stabdiag.compare([folder / "seed3.csv", folder / "seed4.csv"])
    assert odd.diagnosis.slug == "seed-variance"
    assert odd.diagnosis.actions[0].kind == "rerun"  # a third seed
    assert stabdiag.compare([folder / "seed2.csv", folder / "seed3.csv"]).diagnosis.slug == "agree"
    assert "seed4.csv" in compared("seed-variance").diagnosis.first_action  # the odd one of five


def test_ranks_share_the_manifest_of_their_folder():
    assert all(run.manifest.seed == 240 for run in compared("agree-ranks-local").runs)


@every_pair
def test_its_json_is_strict_and_every_finding_says_what_to_do(pair):
    found = json.loads(compared(pair).to_json(), parse_constant=pytest.fail)
    jsonschema.Draft202012Validator(json.loads(schema("comparison"))).validate(found)
    assert found["diagnosis"]["slug"] == about(pair)["expect"]
    for finding in compared(pair).findings:
        outcome = BY_SLUG[finding.slug]
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
