"""What a post-mortem tells, section by section."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import stabdiag
from stabdiag.errors import StabdiagError
from stabdiag.findings import Verdict
from stabdiag.history import Event, EventKind
from stabdiag.postmortem import postmortem
from stabdiag.postmortem.blanks import MARK
from stabdiag.postmortem.incident import incident_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.report import Report

SECTIONS = [
    "Summary",
    "Timeline",
    "Evidence",
    "What was ruled out, and how",
    "Root cause, as far as the log shows it",
    "Actions, in order",
    "What to log next time",
    "What only a person can answer",
    "How this was made",
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


def test_the_sections_stand_in_their_order(broken: Callable[..., Report]) -> None:
    headings = re.findall(r"^## (.*)$", postmortem(broken()), re.MULTILINE)
    assert headings == SECTIONS


def test_the_timeline_is_in_order_and_has_the_steps_that_matter(
    diagnosed: Callable[[str], Report],
) -> None:
    told = rows(postmortem(diagnosed("nan-blow-up-fp32")), "Timeline")
    steps = [int(row[0]) for row in told if row[0].isdigit()]
    assert steps == sorted(steps)
    by_name = {row[1].strip("*"): int(row[0]) for row in told if row[0].isdigit()}
    assert by_name["Start"] == 0
    assert by_name["Last good checkpoint"] == 100
    assert by_name["Onset"] == 197
    assert by_name["Onset"] <= by_name["Detectable"] < by_name["First bad step"]
    assert by_name["Last good step"] == 200
    assert by_name["First bad step"] == 201
    assert by_name["End"] == 220


def test_time_stamps_are_told_in_utc(broken: Callable[..., Report]) -> None:
    text = postmortem(broken({"_timestamp": 1_700_000_000 + 30.0 * np.arange(600)}))
    assert "| Step | Time (UTC) | Event |" in text
    assert "| 500 | 2023-11-15 02:23:20 | **Onset, first bad step** |" in text
    assert "| Onset | step 500, 2023-11-15 02:23:20 UTC |" in text
    assert "does not tell its machine's zone" in text
    assert "From step 500 on. The log goes on for 99 steps, 50 minutes, after that." in text


def test_without_time_stamps_the_document_says_so(broken: Callable[..., Report]) -> None:
    text = postmortem(broken())
    assert "in steps alone" in section(text, "Timeline")
    assert "time stamps" in section(text, "What to log next time")


def test_the_bad_step_is_bold_among_its_neighbours(broken: Callable[..., Report]) -> None:
    evidence = section(postmortem(broken()), "Evidence")
    assert "| **500** | **NaN** |" in evidence
    steps = re.findall(r"^\| (\d+) \| [\d.N]", evidence, re.MULTILINE)
    assert steps == ["496", "497", "498", "499", "501", "502", "503", "504"]


def test_a_climb_is_told_in_tenths_of_the_run(diagnosed: Callable[[str], Report]) -> None:
    evidence = section(postmortem(diagnosed("divergence-lr-endless-warmup")), "Evidence")
    assert "| 0 to 149 |" in evidence
    assert "| 1350 to 1499 |" in evidence
    assert "mean lr" in evidence


def test_every_answer_is_found_or_ruled_out_or_open(diagnosed: Callable[[str], Report]) -> None:
    report = diagnosed("divergence-unexplained-data")
    text = postmortem(report)
    out = " ".join(row[0] for row in rows(text, "What was ruled out, and how"))
    open_ = " ".join(row[0] for row in rows(text, "Not ruled out"))
    for answer in report.tree.answers:
        assert (f"({answer.question})" in out) is (answer.verdict is Verdict.NO)
        assert (f"({answer.question})" in open_) is (answer.verdict is Verdict.UNKNOWN)


def test_what_was_ruled_out_comes_with_numbers_and_limits(
    diagnosed: Callable[[str], Report],
) -> None:
    text = section(
        postmortem(diagnosed("spike-persistent-lr-stays")), "What was ruled out, and how"
    )
    assert "all 1000 logged losses are finite" in text
    assert "2.922 x its rolling mean (within 30 x) | `spike.grad_ratio` 30 |" in text


def test_the_cause_of_a_spike_that_stayed_is_looked_for_too(
    diagnosed: Callable[[str], Report],
) -> None:
    cause = section(postmortem(diagnosed("spike-persistent-lr-stays")), SECTIONS[4])
    assert "points at a cause" in cause
    assert "the learning rate jumped from 0.001543 to 0.1231 at step 550" in cause
    cause = section(postmortem(diagnosed("spike-persistent-lost-layer")), SECTIONS[4])
    assert "does not show the cause" in cause


@pytest.mark.parametrize(
    ("run", "says"),
    [
        ("spike-lr-jump", "The log shows the cause."),
        ("nan-blow-up-fp32", "The log points at a cause, and does not prove it."),
        ("nan-dropped-field-fp32", "The log points at a cause, and does not prove it."),
        ("divergence-unexplained-data", "The log does not show the cause."),
        ("symptom-plateau-at-chance", "The log does not show the cause."),
    ],
)
def test_how_sure_the_cause_is_is_said(
    diagnosed: Callable[[str], Report], run: str, says: str
) -> None:
    assert says in postmortem(diagnosed(run))


def test_when_it_could_be_known_is_part_of_the_summary(
    diagnosed: Callable[[str], Report],
) -> None:
    text = postmortem(diagnosed("nan-blow-up-fp32"))
    assert "From step 199 on, 2 steps after the onset. The log goes on for 21 steps" in text


def test_other_spikes_are_part_of_the_timeline(diagnosed: Callable[[str], Report]) -> None:
    told = rows(postmortem(diagnosed("spike-long-tail-two")), "Timeline")
    assert ["400", "**Another spike**", "The loss jumped here as well"] in told


def test_actions_begin_with_the_first_and_end_with_what_was_also_found(
    diagnosed: Callable[[str], Report],
) -> None:
    report = diagnosed("nan-blow-up-fp32")
    actions = section(postmortem(report), "Actions, in order").strip().splitlines()
    assert actions[0].startswith(
        "1. **Reload the checkpoint of step 100, the last before the trouble"
    )
    assert len(actions) == 1 + len(report.diagnosis.next_actions) + len(report.also_found)
    assert "spike-unresolved" in actions[-1]


def test_the_cause_of_a_spike_that_stayed_comes_before_the_restart(
    diagnosed: Callable[[str], Report],
) -> None:
    text = postmortem(diagnosed("spike-persistent-moments"))
    # In the summary and in the first action.
    assert text.count("See to the cause before the restart: a long-tail batch") == 2
    assert "See to the cause" not in postmortem(diagnosed("spike-persistent-lost-layer"))


def test_a_jump_of_the_learning_rate_is_undone_by_the_first_action(
    diagnosed: Callable[[str], Report],
) -> None:
    text = postmortem(diagnosed("spike-persistent-lr-stays"))
    assert "See to the cause" not in text
    assert "the last before the jump of the learning rate at 550, and restart" in text


def test_blanks_are_marked_and_counted(diagnosed: Callable[[str], Report]) -> None:
    text = postmortem(diagnosed("spike-persistent-moments"))
    count = text.count(f"- [ ] **{MARK}:** ")
    assert count >= 6
    assert f"{count} questions left to a person, marked “{MARK}”" in text
    assert "Is the checkpoint of step 500 there" in text


@pytest.mark.parametrize(
    ("run", "step"),
    [("nan-log0-fp32", 516), ("nan-filtered-fp16", 209), ("nan-empty-mask-fp32", 523)],
)
def test_the_batch_that_is_asked_about_is_that_of_the_nan_and_not_of_earlier_damage(
    diagnosed: Callable[[str], Report], run: str, step: int
) -> None:
    assert f"What is in the batch of step {step}," in postmortem(diagnosed(run))


def test_a_missing_cadence_is_asked_of_a_person(broken: Callable[..., Report]) -> None:
    text = postmortem(broken(checkpoint_every=None))
    assert "Which is the last checkpoint from before step 500" in text
    assert "checkpoint cadence" in section(text, "What to log next time")


def test_messages_and_resumes_are_part_of_the_timeline(broken: Callable[..., Report]) -> None:
    report = broken()
    events = (
        Event(kind=EventKind.MESSAGE, message="CUDA out of memory", step=599, line=700),
        Event(kind=EventKind.REWIND, message="the log goes back from 340 to 300", step=300),
    )
    report = replace(report, history=replace(report.history, events=events))
    text = postmortem(report)
    assert "| 599 | **Message** | CUDA out of memory (line 700) |" in text
    assert "| 300 | **Resume** | the log goes back from 340 to 300 |" in text
    assert "The log says:\n\n- CUDA out of memory (line 700)" in text


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


def test_the_facts_of_a_recovered_spike(diagnosed: Callable[[str], Report]) -> None:
    incident = incident_of(diagnosed("spike-lr-jump"))
    assert (incident.onset, incident.first_bad, incident.recovered) == (260, 261, 275)
    assert incident.took == 14
    assert incident.worst == 262
    assert incident.checkpoint.step == 200


def test_a_checkpoint_from_after_the_jump_is_not_the_last_good_one(
    diagnosed: Callable[[str], Report],
) -> None:
    report = diagnosed("spike-lr-jump-sgd")
    assert "the checkpoint of step 200," in report.diagnosis.reload  # 300 had the jump already
    incident = incident_of(report)
    assert (incident.onset, incident.first_bad, incident.checkpoint.step) == (300, 301, 200)


def test_a_surge_of_the_gradients_begins_before_the_nan(broken: Callable[..., Report]) -> None:
    norms = np.ones(600)
    norms[497:] = 1000.0
    report = broken({"grad_norm": norms}, checkpoint_every=249)
    assert "Reload the checkpoint of step 249," in report.diagnosis.first_action
    incident = incident_of(report)
    assert (incident.onset, incident.checkpoint.step) == (497, 249)
    assert rows(postmortem(report), "Timeline")[2][:2] == ["497", "**Onset**"]


def test_a_climb_has_no_first_bad_step(diagnosed: Callable[[str], Report]) -> None:
    incident = incident_of(diagnosed("divergence-lr-endless-warmup"))
    assert incident.onset == 262
    assert incident.first_bad is None


def test_gradients_that_went_first_are_the_onset(diagnosed: Callable[[str], Report]) -> None:
    report = diagnosed("nan-dtype-unknown")
    incident = incident_of(report)
    assert report.diagnosis.step == 193
    assert incident.onset < 193
    assert incident.last_good == 192


@pytest.mark.parametrize("loss", [[float("nan")], [float("nan")] * 40, [1.0, float("nan")]])
def test_a_log_of_next_to_nothing_has_a_post_mortem(loss: list[float]) -> None:
    report = stabdiag.diagnose({"step": range(len(loss)), "loss": loss})
    text = postmortem(report)
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    assert postmortem(report, "html").endswith("</html>\n")


def test_an_unknown_format_is_refused(broken: Callable[..., Report]) -> None:
    with pytest.raises(StabdiagError, match="did you mean markdown"):
        postmortem(broken(), "markdwn")
