"""What a post-mortem tells, section by section."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import stabdiag
from stabdiag import postmortem
from stabdiag.errors import StabdiagError
from stabdiag.formats.postmortem.blanks import MARK
from stabdiag.model.findings import Verdict
from stabdiag.model.history import Event, EventKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.model.report import Report

GOLDEN = Path(__file__).parent / "golden"
SECTIONS = [
    "Summary",
    "Timeline",
    "Compute lost",
    "Evidence",
    "Root cause, as far as the log shows it",
    "Actions, in order",
    "What to log next time",
    "What only a person can answer",
    "How this was made",
]
CAUSE, RULED_OUT = SECTIONS[4], "What was ruled out, and how"
RUNS = [
    "divergence-lr-endless-warmup",
    "divergence-weight-norm-collapsing",
    "gradient-overflow-bf16",
    "insufficient-data",
    "loss-scale-static",
    "nan-empty-mask-bf16",
    "nan-no-manifest",
    "plateau",
    "spike-duplicate-reused-buffer",
    "spike-unresolved-sparse",
]


def section(text: str, title: str) -> str:
    """Return what stands below a heading, up to the next of any rank."""
    rest = text.partition(f"# {title}\n")[2]
    return re.split(r"\n#+ ", rest)[0]


def rows(text: str, title: str) -> list[list[str]]:
    """Return the cells of the tables of a section, heads and rules left out."""
    lines = [line for line in section(text, title).splitlines() if line.startswith("| ")]
    ruled = [i for i, line in enumerate(lines) if set(line) <= set("|- ")]
    dropped = {*ruled, *(i - 1 for i in ruled)}
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for i, line in enumerate(lines)
        if i not in dropped
    ]


def headings(text: str) -> list[str]:
    return re.findall(r"^## (.*)$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("divergence-weight-norm-climbing.md", "divergence-after-spike"),
        ("healthy.md", "healthy-resumed"),
        ("nan-fp16-overflow.md", "nan-activations-fp16"),
        ("nan-fp32.html", "nan-blow-up-fp32"),
        ("plateau-at-chance.md", "symptom-plateau-at-chance"),
        ("spike-lr-jump.md", "spike-lr-jump"),
        ("spike-persistent.md", "spike-persistent-lr-stays"),
    ],
)
def test_the_whole_document(
    diagnosed: Callable[[str], Report], monkeypatch: pytest.MonkeyPatch, name: str, run: str
) -> None:
    monkeypatch.setattr("stabdiag.formats.postmortem.document.__version__", "VERSION")
    monkeypatch.setattr("stabdiag.formats.html.shell.__version__", "VERSION")
    text = postmortem(diagnosed(run), "html" if name.endswith("html") else "markdown")
    if os.environ.get("STABDIAG_UPDATE_GOLDEN"):
        (GOLDEN / name).write_text(text, encoding="utf-8")
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("run", RUNS)
def test_nothing_is_left_unfilled(diagnosed: Callable[[str], Report], run: str) -> None:
    text = postmortem(diagnosed(run))
    assert "None" not in re.sub(r"None of", "", text)
    assert not re.search(r"\{\w+\}", text)
    if not text.startswith("# No post-mortem"):
        assert headings(text) == SECTIONS


@pytest.mark.parametrize("loss", [[float("nan")], [float("nan")] * 40, [1.0, float("nan")]])
def test_a_log_of_next_to_nothing_has_a_post_mortem(loss: list[float]) -> None:
    report = stabdiag.diagnose({"step": range(len(loss)), "loss": loss})
    assert headings(postmortem(report)) == SECTIONS
    page = postmortem(report, "html")
    assert page.endswith("</body>\n</html>")
    assert "<svg" not in page or len(loss) > 2


def test_an_unknown_format_is_refused(broken: Callable[..., Report]) -> None:
    with pytest.raises(StabdiagError, match="did you mean markdown"):
        postmortem(broken(), "markdwn")


def test_the_timeline_is_in_order_and_has_the_steps_that_matter(
    diagnosed: Callable[[str], Report],
) -> None:
    text = postmortem(diagnosed("nan-blow-up-fp32"))
    told = rows(text, "Timeline")
    steps = [int(row[0]) for row in told]
    assert steps == sorted(steps)
    by_name = {row[1].strip("*"): int(row[0]) for row in told}
    assert by_name["Start"] == 0
    assert by_name["Last good checkpoint"] == 100
    assert by_name["Onset"] == 197
    assert by_name["Detectable"] == 199
    assert by_name["Last good step"] == 200
    assert by_name["First bad step"] == 201
    assert by_name["End"] == 220
    assert "from step 199 on, 2 steps after the onset; the log goes on for 21 steps" in text


def test_time_stamps_are_in_utc(broken: Callable[..., Report]) -> None:
    text = postmortem(broken({"_timestamp": 1_700_000_000 + 30.0 * np.arange(600)}))
    assert "| Step | Time (UTC) | Event |" in text
    assert "| 500 | 2023-11-15 02:23:20 | **Onset, first bad step** |" in text
    assert "| Onset | step 500, 2023-11-15 02:23:20 UTC |" in text
    assert "from step 500 on; the log goes on for 99 steps, 50 minutes, after that" in text


def test_without_time_stamps_the_document_says_so(broken: Callable[..., Report]) -> None:
    text = postmortem(broken())
    assert "no time stamps" in section(text, "Timeline")
    assert "time stamps" in section(text, "What to log next time")


def test_other_spikes_messages_and_resumes_are_part_of_the_timeline(
    diagnosed: Callable[[str], Report], broken: Callable[..., Report]
) -> None:
    told = rows(postmortem(diagnosed("spike-long-tail-two")), "Timeline")
    assert ["400", "**Another spike**", "The loss jumped here as well"] in told
    report = broken()
    events = (
        Event(kind=EventKind.MESSAGE, message="CUDA out of memory", step=599, line=700),
        Event(kind=EventKind.REWIND, message="the log goes back from 340 to 300", step=300),
    )
    text = postmortem(replace(report, history=replace(report.history, events=events)))
    assert "| 599 | **Message** | CUDA out of memory (line 700) |" in text
    assert "| 300 | **Resume** | the log goes back from 340 to 300 |" in text
    assert "The log says:\n\n- CUDA out of memory (line 700)" in text


def test_the_bad_step_is_bold_among_its_neighbours(broken: Callable[..., Report]) -> None:
    evidence = section(postmortem(broken()), "Evidence")
    assert "| **500** | **NaN** |" in evidence
    steps = re.findall(r"^\| (\d+) \| [\d.N]", evidence, re.MULTILINE)
    assert steps == ["496", "497", "498", "499", "501", "502", "503", "504"]


def test_a_climb_is_shown_in_tenths_of_the_run(diagnosed: Callable[[str], Report]) -> None:
    evidence = section(postmortem(diagnosed("divergence-lr-endless-warmup")), "Evidence")
    assert "| 0 to 149 |" in evidence
    assert "| 1350 to 1499 |" in evidence
    assert "mean lr" in evidence


def test_every_answer_is_found_or_ruled_out_or_open(diagnosed: Callable[[str], Report]) -> None:
    report = diagnosed("divergence-unexplained-data")
    text = postmortem(report)
    out = " ".join(row[0] for row in rows(text, RULED_OUT))
    open_ = " ".join(row[0] for row in rows(text, "Not ruled out"))
    for answer in report.tree.answers:
        assert (f"({answer.question})" in out) is (answer.verdict is Verdict.NO)
        assert (f"({answer.question})" in open_) is (answer.verdict is Verdict.UNKNOWN)


def test_symptoms_are_ruled_out_or_open_or_found(diagnosed: Callable[[str], Report]) -> None:
    report = diagnosed("symptom-plateau-at-chance")
    found = {one.slug for one in report.findings}
    assert len(report.clear) > 5
    assert not found & {*report.clear}
    assert not {*report.clear} & {one.symptom for one in report.not_checked}
    assert f"not found: {', '.join(report.clear)}." in section(postmortem(report), RULED_OUT)


def test_the_cause_of_a_spike_that_stayed_is_looked_for_too(
    diagnosed: Callable[[str], Report],
) -> None:
    text = postmortem(diagnosed("spike-persistent-lr-stays"))
    assert "points at a cause" in section(text, CAUSE)
    assert "learning rate jumped from 0.001543 to 0.1231 at step 550" in section(text, CAUSE)
    assert "2.922 x its rolling mean (within 30 x) | `spike.grad_ratio` 30 |" in text
    assert "before the restart" not in text  # the jump is undone by the first action
    text = postmortem(diagnosed("spike-persistent-lost-layer"))
    assert "does not show the cause" in section(text, CAUSE)
    # Of another cause in the summary and in the first action.
    text = postmortem(diagnosed("spike-persistent-moments"))
    assert text.count("Look at the batch before the restart") == 2


@pytest.mark.parametrize(
    ("run", "says"),
    [
        ("spike-lr-jump", "The log shows the cause."),
        ("loss-scale-static", "The log shows the cause."),
        ("nan-blow-up-fp32", "The log points at a cause, and does not prove it."),
        ("nan-activations-fp16", "The log points at a cause, and does not prove it."),
        ("gradient-overflow-bf16", "The log points at a cause, and does not prove it."),
        ("divergence-unexplained-data", "The log does not show the cause."),
        ("symptom-plateau-at-chance", "The log does not show the cause."),
    ],
)
def test_how_sure_the_cause_is_is_said(
    diagnosed: Callable[[str], Report], run: str, says: str
) -> None:
    assert says in section(postmortem(diagnosed(run)), CAUSE)


def jumped(at: int | None = None, **more: Any) -> Report:
    """Return the report on a loss that jumps at step 300, with a batch size that changes."""
    steps = np.arange(600)
    noise = np.random.default_rng(3).normal(0, 0.03, 600)
    log = {"step": steps, "loss": 1.0 + 2.0 * np.exp(-steps / 60) + noise + (steps >= 300)}
    if at is not None:
        log["batch_size"] = np.where(steps < at, 64, 8)
    return stabdiag.diagnose(log, **more)


def test_a_setting_that_changed_is_in_the_timeline_and_a_cause() -> None:
    text = postmortem(jumped(298))
    assert rows(text, "Timeline")[1][:2] == ["298", "**Setting changed**"]
    assert "batch_size went from 64 to 8 at step 298" in section(text, "Timeline")
    assert "points at a cause" in section(text, CAUSE)
    assert "- batch_size went from 64 to 8 at step 298" in section(text, CAUSE)
    assert "A setting that changed" not in text
    elsewhere = rows(postmortem(jumped(100)), RULED_OUT)
    assert elsewhere[-1][:2] == [
        "A setting that changed where it began",
        "none of these changed near it: batch_size",
    ]


@pytest.mark.parametrize("report", [jumped(), jumped(literal=True), jumped(300, literal=True)])
def test_without_a_setting_nothing_is_said_of_one(report: Report) -> None:
    text = postmortem(report)
    assert "etting" not in section(text, RULED_OUT)
    assert "batch" not in section(text, "Timeline")


def test_actions_begin_with_the_first_and_end_with_what_was_also_found(
    diagnosed: Callable[[str], Report],
) -> None:
    report = diagnosed("nan-blow-up-fp32")
    actions = section(postmortem(report), "Actions, in order").strip().splitlines()
    assert actions[0] == f"1. **{report.diagnosis.first_action}**"
    assert len(actions) == 1 + len(report.diagnosis.next_actions) + len(report.also_found)
    assert "spike-unresolved" in actions[-1]


def test_blanks_are_marked_and_counted(diagnosed: Callable[[str], Report]) -> None:
    text = postmortem(diagnosed("spike-persistent-moments"))
    count = text.count(f"- [ ] **{MARK}:** ")
    assert count >= 6
    assert f"{count} questions left to a person, marked “{MARK}”" in text
    assert "Is the checkpoint of step 500 there" in text
    # The batch of the first NaN is asked about, and not that of earlier damage.
    assert "the batch of step 516," in postmortem(diagnosed("nan-log0-fp32"))


def test_a_missing_cadence_is_asked_of_a_person(broken: Callable[..., Report]) -> None:
    text = postmortem(broken(checkpoint_every=None))
    assert "Which is the last checkpoint from before step 500" in text
    assert "checkpoint cadence" in section(text, "What to log next time")


@pytest.mark.parametrize("run", ["healthy-fp32", "insufficient-data", "symptom-eval-rising"])
def test_a_run_without_an_incident_gets_a_short_page(
    diagnosed: Callable[[str], Report], run: str
) -> None:
    report = diagnosed(run)
    text = postmortem(report)
    begins = "Short post-mortem: " if run == "symptom-eval-rising" else "No post-mortem to write: "
    assert text.startswith(f"# {begins}")
    assert len(text.splitlines()) < 50
    assert MARK not in text
    for found in report.findings:
        assert found.first_action in text
    for answer in report.tree.answers:
        assert f"| {answer.question} |" in text
    assert "If the run failed nevertheless" in text
