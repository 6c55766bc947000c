"""The page about what an answer depends on: every flip is listed, explained, and still happens."""

import re
import sys

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from invariance import CHANGES, PAGE, REASONS, changed_answers, fixtures, is_flip

# A few runs are written in every form; the page has all of them.
EVERY = 16


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def flips(page):
    """The reasons of the page, by the name of the change and the run."""
    names = {change.title: name for name, change in CHANGES.items()}
    row = r"^\| (.+?): `([\w-]+)` \| `[\w-]+` \| `[\w-]+` \| (.*) \|$"
    return {
        (names[title], run): reason for title, run, reason in re.findall(row, page, re.MULTILINE)
    }


@pytest.fixture(scope="module")
def runs():
    return fixtures()


def test_the_page_explains_every_flip(flips):
    assert flips == REASONS
    assert all(REASONS.values())


def test_the_page_counts_the_flips_of_each_change(page, flips):
    counts = re.findall(r"^\| (.+?) \| \d+ \| (\d+) \|$", page, re.MULTILINE)
    assert [title for title, _ in counts] == [change.title for change in CHANGES.values()]
    for (_, count), name in zip(counts, CHANGES, strict=True):
        assert int(count) == sum(flip[0] == name for flip in flips)


def test_the_page_is_about_all_runs(page, runs):
    assert f"| {len(runs)} runs of `fixtures/runs`" in page


@pytest.mark.parametrize("name", CHANGES)
def test_listed_flips_still_happen(name, flips, runs):
    of_name = {run: runs[run] for change, run in flips if change == name}
    changes = changed_answers([name], of_name)
    assert {change.run for change in changes if is_flip(change)} == of_name.keys()


@pytest.mark.parametrize("name", CHANGES)
def test_no_other_run_flips(name, flips, runs):
    some = {run: runs[run] for run in sorted(runs)[::EVERY] if (name, run) not in flips}
    assert not [change for change in changed_answers([name], some) if is_flip(change)]


CHANGE_NOTHING = (
    *("csv", "tsv", "json", "gzip", "halves", "eval", "twice", "train_loss"),
    *("hf", "lightning", "megatron", "fairseq", "keras", "wandb"),
)


@pytest.mark.parametrize("name", CHANGE_NOTHING)
def test_formats_and_common_names_change_no_answer(name, runs):
    some = {run: runs[run] for run in sorted(runs)[1::EVERY]}
    assert not [*changed_answers([name], some)]
