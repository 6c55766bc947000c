"""The texts of ``explain`` are complete, have the required form, and match the declarations."""

import re
from pathlib import Path

import pytest

import stabdiag.explain as package
from stabdiag.comparison.outcomes import COMPARISON_OUTCOME_BY_SLUG as COMPARED
from stabdiag.errors import StabdiagError
from stabdiag.explain import contents, explain, names
from stabdiag.formats.terminal.page import markdown_page
from stabdiag.model.edges import OUTCOME_BY_SLUG, QUESTIONS
from stabdiag.model.limits import Limits
from stabdiag.model.text import kept_text
from stabdiag.symptoms.registry import SYMPTOM_BY_SLUG as SYMPTOMS

MEANING, DETECTION, DO = "What it means", "How it is detected", "What to do"
LIMITS = Limits()
DOCS = Path(__file__).parents[2] / "docs"
TEXTS = Path(package.__file__).parent
FAMILIES = TEXTS.parent / "symptoms"
# An optional section, References, follows.
HEADINGS = {
    "outcomes": (MEANING, DETECTION, DO),
    "symptoms": (MEANING, DETECTION, "When it stays quiet", DO),
    "comparisons": (MEANING, DETECTION, "When it stays quiet", DO),
    "questions": ("Why it matters", "How it is measured", "Answers"),
}
NAMES = {
    "outcomes": set(OUTCOME_BY_SLUG),
    "symptoms": set(SYMPTOMS),
    "comparisons": set(COMPARED),
    "questions": {question.id for question in QUESTIONS},
}


def test_contents_list_every_entry():
    listed = re.findall(r"[\w.-]+", contents(LIMITS))
    assert set(names(LIMITS)) <= set(listed)


def test_every_entry_has_exactly_one_text():
    folders = {kind: TEXTS / kind for kind in NAMES} | {"symptoms": FAMILIES}
    assert {
        kind: sorted(path.stem for path in folder.rglob("*.md")) for kind, folder in folders.items()
    } == {kind: sorted(names) for kind, names in NAMES.items()}


def test_check_limits_and_text_of_a_symptom_are_in_one_folder():
    folders = {path.stem: path.parent.name for path in FAMILIES.glob("*/*.md")}
    assert folders == {slug: symptom.family for slug, symptom in SYMPTOMS.items()}
    for family in set(folders.values()):
        section = type(getattr(LIMITS, family))
        assert section.__module__ == f"stabdiag.symptoms.{family}.limits"


@pytest.mark.parametrize("kind", HEADINGS)
def test_texts_have_the_required_headings_and_valid_names(kind):
    limits = {info.name for info in LIMITS.items()}
    question_ids = {question.id for question in QUESTIONS}
    listed = re.findall(r"^## (.+)$", (DOCS / "references.md").read_text("utf-8"), re.MULTILINE)
    slugs = re.compile(r"`((?:nan|spike|gradient|loss-scale|divergence)-[a-z0-9-]+)`")
    for name in NAMES[kind]:
        content = kept_text(kind, name)
        lines = content.splitlines()
        headings = tuple(line[3:] for line in lines if line.startswith("## "))
        _, _, citations = content.partition("\n## References\n")
        assert headings == (*HEADINGS[kind], *(["References"] if citations else []))
        assert all(len(line) <= 105 and line == line.rstrip() for line in lines), name
        assert set(re.findall(r"\{([^}]*)\}", content)) <= limits, name
        assert set(re.findall(r"Q\d\.\d", content)) <= question_ids, name
        assert set(slugs.findall(content)) <= {*OUTCOME_BY_SLUG, *SYMPTOMS}, name
        works = citations.strip().removesuffix(".").split("; ") if citations else ()
        assert {work.partition(", section")[0] for work in works} <= set(listed), name


def test_every_entry_fits_a_terminal():
    for name in names(LIMITS):
        page = explain(name, LIMITS)
        assert page.startswith(f"# {name}")
        assert "{" not in re.sub(r"`[^`]*`", "", page), name
        for encoding in ("utf-8", "ascii"):
            shown = markdown_page(page, encoding=encoding)
            shown.encode(encoding)
            lines = shown.splitlines()
            assert all(len(line) <= 80 and line == line.rstrip() for line in lines), name
            assert shown.startswith(name)


def test_entries_show_the_limits_in_force():
    changed = LIMITS.override({"spike.recovery_steps": 77})
    assert "77 steps" in explain("spike-persistent", changed)
    assert "`spike.recovery_steps` = 77 steps (default 50)" in explain("Q2.2", changed)
    assert "- In force: 77 steps (default 50)" in explain("spike.recovery_steps", changed)
    assert "# Q2.2: Did the loss recover within 77 steps?" in explain("Q2.2", changed)


def test_a_limit_lists_the_questions_that_use_it():
    assert "- Used in: Q2.2\n" in explain("spike.recovery_steps", LIMITS)


def test_names_are_case_insensitive():
    assert explain("q2.1", LIMITS) == explain("Q2.1", LIMITS)


def test_unknown_name_suggests_the_nearest_name():
    with pytest.raises(StabdiagError, match=r"'spike-persistant'; did you mean spike-persistent\?"):
        explain("spike-persistant", LIMITS)


def test_words_on_several_pages_list_those_pages():
    listed = explain("Loss SPIKE", LIMITS)
    assert "- `spike-persistent`: Loss spike that did not recover.\n  The loss jumped and" in listed
    assert "nan-fp32" not in listed
    assert explain("lost layer", LIMITS) != listed


def test_words_on_a_single_page_show_that_page():
    assert explain("generator discriminator wins", LIMITS) == explain("discriminator-wins", LIMITS)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("loss goes up", "divergence-unexplained"),
        ("validation loss increases", "eval-rising"),
        ("exploding gradients", "grad-exploding"),
        ("Loss is NaN", "nan-dtype-unknown"),
        ("my loss is not decreasing", "not-learning"),
        ("dead neurons", "dead-neurons"),
        ("accuracy stuck", "plateau-at-chance"),
        ("slow data loader", "data-loading-slow"),
    ],
)
def test_a_problem_in_the_words_of_a_user_is_found(query, expected):
    page = explain(query, Limits())
    listed = re.findall(r"^- `([^`]+)`", page, re.MULTILINE)
    assert expected in (listed or [page.split(":")[0].removeprefix("# ")])
    assert len(listed) <= 8


@pytest.mark.parametrize("query", ["xyzzy plugh", "the of it", ""])
def test_words_that_match_nothing_are_refused(query):
    with pytest.raises(StabdiagError, match="no finding, question or limit is named"):
        explain(query, Limits())
