"""The texts of ``explain``: complete, in their form, and in step with the declarations."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import stabdiag.explain as package
from stabdiag.comparison.outcomes import BY_SLUG as COMPARED
from stabdiag.errors import StabdiagError
from stabdiag.explain import contents, explain, names
from stabdiag.explain.__main__ import PAGES, main, page
from stabdiag.formats.terminal.prose import markdown_page
from stabdiag.model.edges import QUESTIONS
from stabdiag.model.leaves import BY_SLUG
from stabdiag.model.limits import Limits
from stabdiag.model.text import kept_text
from stabdiag.symptoms import BY_SLUG as SYMPTOMS

OUTCOME_HEADINGS = ("What it means", "How it is detected", "What to do", "References")
SYMPTOM_HEADINGS = (
    "What it means",
    "How it is detected",
    "When it must not fire",
    "What to do",
    "References",
)
QUESTION_HEADINGS = ("Why it is asked", "How it is measured", "Answers", "References")

LIMITS = Limits()
DOCS = Path(__file__).parents[2] / "docs"
TEXTS = Path(package.__file__).parent
KEPT = [
    *(("outcomes", slug, OUTCOME_HEADINGS) for slug in BY_SLUG),
    *(("symptoms", slug, SYMPTOM_HEADINGS) for slug in SYMPTOMS),
    *(("comparisons", slug, SYMPTOM_HEADINGS) for slug in COMPARED),
    *(("questions", question.id, QUESTION_HEADINGS) for question in QUESTIONS),
]
every_text = pytest.mark.parametrize(
    ("kind", "name", "headings"), KEPT, ids=[name for _, name, _ in KEPT]
)
every_name = pytest.mark.parametrize("name", names(LIMITS))


def test_the_contents_name_all_that_can_be_explained():
    listed = re.findall(r"[\w.-]+", contents(LIMITS))
    assert set(names(LIMITS)) <= set(listed)


def test_there_is_a_text_for_each_and_no_other():
    kept = sorted(f"{p.parent.name}/{p.stem}" for p in TEXTS.glob("*/*.md"))
    assert kept == sorted(f"{kind}/{name}" for kind, name, _ in KEPT)


@every_text
def test_form(kind: str, name: str, headings: tuple[str, ...]):
    lines = kept_text(kind, name).splitlines()
    assert lines[0].startswith(f"# {name}: ")
    assert tuple(line[3:] for line in lines if line.startswith("## ")) == headings
    assert all(len(line) <= 105 and line == line.rstrip() for line in lines)
    if kind == "outcomes":
        assert lines[0] == f"# {name}: {BY_SLUG[name].title}"
    if kind == "symptoms":
        assert lines[0] == f"# {name}: {SYMPTOMS[name].title}"
    if kind == "comparisons":
        assert lines[0] == f"# {name}: {COMPARED[name].title}"


@every_text
def test_limits_that_a_text_names_exist(kind: str, name: str, headings: tuple[str, ...]):
    known = {info.name for info in LIMITS.items()}
    assert set(re.findall(r"\{([^}]*)\}", kept_text(kind, name))) <= known


@every_text
def test_questions_and_slugs_that_a_text_names_exist(
    kind: str, name: str, headings: tuple[str, ...]
):
    content = kept_text(kind, name)
    asked = {question.id for question in QUESTIONS}
    assert set(re.findall(r"Q\d\.\d", content)) <= asked
    prefixes = "nan|spike|gradient|loss-scale|divergence"
    assert set(re.findall(rf"`((?:{prefixes})-[a-z0-9-]+)`", content)) <= {*BY_SLUG, *SYMPTOMS}


@every_text
def test_references_are_in_the_list(kind: str, name: str, headings: tuple[str, ...]):
    listed = re.findall(r"^## (.+)$", (DOCS / "references.md").read_text("utf-8"), re.MULTILINE)
    cited = re.findall(
        r"^- ([^:]+):", kept_text(kind, name).partition("## References\n")[2], re.MULTILINE
    )
    assert cited
    assert set(cited) <= set(listed)


@every_name
def test_everything_is_explained(name: str):
    told = explain(name, LIMITS)
    assert told.startswith(f"# {name}")
    assert "{" not in re.sub(r"`[^`]*`", "", told)


@every_name
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_everything_reads_on_a_terminal(name: str, encoding: str):
    shown = markdown_page(explain(name, LIMITS), encoding=encoding)
    shown.encode(encoding)
    assert all(len(line) <= 80 and line == line.rstrip() for line in shown.splitlines())
    assert shown.startswith(name)


def test_values_in_force_are_told():
    changed = LIMITS.override({"spike.recovery_steps": 77})
    assert "77 steps" in explain("spike-persistent", changed)
    assert "`spike.recovery_steps` = 77 steps (default 50)" in explain("Q2.2", changed)
    assert "- In force: 77 steps (default 50)" in explain("spike.recovery_steps", changed)
    assert "Asked as: Did the loss recover within 77 steps?" in explain("Q2.2", changed)


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


@pytest.mark.parametrize("kind", PAGES)
def test_the_docs_are_up_to_date(kind: str, capsys: pytest.CaptureFixture[str]):
    assert main([kind]) == 0
    written = (DOCS / f"{kind}.md").read_text("utf-8")
    assert written == capsys.readouterr().out == page(kind), (
        f"run: python -m stabdiag.explain {kind} > docs/{kind}.md"
    )


def test_there_is_no_other_page(capsys: pytest.CaptureFixture[str]):
    assert main(["nothing"]) == 2
    assert "usage" in capsys.readouterr().err
