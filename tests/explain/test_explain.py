"""The texts of ``explain``: complete, in their form, and in step with the declarations."""

import re
from pathlib import Path

import pytest

import stabdiag.explain as package
from stabdiag.comparison.outcomes import BY_SLUG as COMPARED
from stabdiag.errors import StabdiagError
from stabdiag.explain import contents, explain, names
from stabdiag.formats.terminal.page import markdown_page
from stabdiag.model.edges import BY_SLUG, QUESTIONS
from stabdiag.model.limits import Limits
from stabdiag.model.text import kept_text
from stabdiag.symptoms import BY_SLUG as SYMPTOMS

MEANING, HOW, DO = "What it means", "How it is detected", "What to do"
LIMITS = Limits()
DOCS = Path(__file__).parents[2] / "docs"
TEXTS = Path(package.__file__).parent
# Where there is something to cite, References follow.
HEADINGS = {
    "outcomes": (MEANING, HOW, DO),
    "symptoms": (MEANING, HOW, "When it stays quiet", DO),
    "comparisons": (MEANING, HOW, "When it stays quiet", DO),
    "questions": ("Why it is asked", "How it is measured", "Answers"),
}
NAMES = {
    "outcomes": set(BY_SLUG),
    "symptoms": set(SYMPTOMS),
    "comparisons": set(COMPARED),
    "questions": {question.id for question in QUESTIONS},
}


def test_the_contents_name_all_that_can_be_explained():
    listed = re.findall(r"[\w.-]+", contents(LIMITS))
    assert set(names(LIMITS)) <= set(listed)


def test_there_is_a_text_for_each_and_no_other():
    assert {kind: {path.stem for path in (TEXTS / kind).iterdir()} for kind in NAMES} == NAMES


@pytest.mark.parametrize("kind", HEADINGS)
def test_texts_have_their_form_and_name_what_there_is(kind):
    limits = {info.name for info in LIMITS.items()}
    asked = {question.id for question in QUESTIONS}
    listed = re.findall(r"^## (.+)$", (DOCS / "references.md").read_text("utf-8"), re.MULTILINE)
    slugs = re.compile(r"`((?:nan|spike|gradient|loss-scale|divergence)-[a-z0-9-]+)`")
    for name in NAMES[kind]:
        content = kept_text(kind, name)
        lines = content.splitlines()
        headings = tuple(line[3:] for line in lines if line.startswith("## "))
        _, _, cited = content.partition("\n## References\n")
        assert headings == (*HEADINGS[kind], *(["References"] if cited else []))
        assert all(len(line) <= 105 and line == line.rstrip() for line in lines), name
        assert set(re.findall(r"\{([^}]*)\}", content)) <= limits, name
        assert set(re.findall(r"Q\d\.\d", content)) <= asked, name
        assert set(slugs.findall(content)) <= {*BY_SLUG, *SYMPTOMS}, name
        works = cited.strip().removesuffix(".").split("; ") if cited else ()
        assert {work.partition(", section")[0] for work in works} <= set(listed), name


def test_everything_is_explained_and_reads_on_a_terminal():
    for name in names(LIMITS):
        told = explain(name, LIMITS)
        assert told.startswith(f"# {name}")
        assert "{" not in re.sub(r"`[^`]*`", "", told), name
        for encoding in ("utf-8", "ascii"):
            shown = markdown_page(told, encoding=encoding)
            shown.encode(encoding)
            lines = shown.splitlines()
            assert all(len(line) <= 80 and line == line.rstrip() for line in lines), name
            assert shown.startswith(name)


def test_values_in_force_are_told():
    changed = LIMITS.override({"spike.recovery_steps": 77})
    assert "77 steps" in explain("spike-persistent", changed)
    assert "`spike.recovery_steps` = 77 steps (default 50)" in explain("Q2.2", changed)
    assert "- In force: 77 steps (default 50)" in explain("spike.recovery_steps", changed)
    assert "# Q2.2: Did the loss recover within 77 steps?" in explain("Q2.2", changed)


def test_a_limit_tells_who_asks():
    assert "- Asked in: Q2.2\n" in explain("spike.recovery_steps", LIMITS)


def test_names_may_be_written_in_any_case():
    assert explain("q2.1", LIMITS) == explain("Q2.1", LIMITS)


def test_unknown_name_gives_the_nearest():
    with pytest.raises(StabdiagError, match=r"'spike-persistant'; did you mean spike-persistent\?"):
        explain("spike-persistant", LIMITS)


def test_words_that_several_pages_hold_give_the_list_of_these():
    listed = explain("Loss SPIKE", LIMITS)
    assert "- `spike-persistent`: Loss spike that did not recover.\n  The loss jumped and" in listed
    assert "nan-fp32" not in listed
    assert explain("lost layer", LIMITS) != listed


def test_words_of_one_page_alone_give_that_page():
    assert explain("keeps spiking", LIMITS) == explain("frequent-spikes", LIMITS)
