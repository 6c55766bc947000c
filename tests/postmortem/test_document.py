"""The post-mortem, section by section."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import stabdiag
from stabdiag import postmortem
from stabdiag.errors import StabdiagError
from stabdiag.formats.postmortem import build_incident
from stabdiag.formats.postmortem.causes import find_causes, suspects
from stabdiag.formats.postmortem.document import BLANK_FIELD
from stabdiag.model.events import Event, EventKind
from stabdiag.model.findings import Verdict
from tests.conftest import compare_golden, diagnosed
from tests.postmortem.conftest import broken

GOLDEN = Path(__file__).parent / "golden" / "spike-persistent.md"
SECTIONS = [
    "Summary",
    "Timeline",
    "Compute lost",
    "Evidence",
    "Root cause according to the log",
    "Actions, in order",
    "What to log next time",
    "What only a person can answer",
    "How this was made",
]
RUNS = [
    "divergence-after-spike",
    "divergence-lr-endless-warmup",
    "gradient-overflow-bf16",
    "healthy-resumed",
    "insufficient-data",
    "loss-scale-static",
    "nan-activations-fp16",
    "nan-no-manifest",
    "spike-duplicate-reused-buffer",
    "spike-unresolved-sparse",
    "symptom-plateau-at-chance",
]


def section(text, title):
    """Return the text between a heading and the next one of any level."""
    content = text.partition(f"# {title}\n")[2]
    return re.split(r"\n#+ ", content)[0]


def rows(text, title):
    """Return the cells of the table in a section, without the header row."""
    lines = [line for line in section(text, title).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def headings(text):
    return re.findall(r"^## (.*)$", text, re.MULTILINE)


def test_the_document_is_unchanged():
    text = postmortem(diagnosed("spike-persistent-lr-stays"))
    text = text.replace(f"stabdiag {stabdiag.__version__}", "stabdiag VERSION")
    compare_golden(text, GOLDEN)


@pytest.mark.parametrize("run", RUNS)
def test_the_template_is_filled_as_a_whole(run):
    text = postmortem(diagnosed(run))
    assert not re.search(r"None|\bnone\b(?! found| of)|[{}]|\n\n\n| \n", text)
    quiet = text.startswith("# No post-mortem")
    assert quiet or headings(text) == SECTIONS
    for line in text.splitlines():  # every row has as many cells as its head
        assert not line.startswith("|") or line.endswith("|")


@pytest.mark.parametrize("loss", [[float("nan")], [float("nan")] * 40, [1.0, float("nan")]])
def test_a_tiny_log_has_a_post_mortem(loss):
    report = stabdiag.diagnose({"step": range(len(loss)), "loss": loss})
    assert headings(postmortem(report)) == SECTIONS
    page = postmortem(report, "html")
    assert page.rstrip().endswith("</html>")
    assert "<svg" not in page or len(loss) > 2


def test_an_unknown_format_is_refused():
    with pytest.raises(StabdiagError, match="did you mean markdown"):
        postmortem(broken(), "markdwn")


def test_time_stamps_are_in_utc():
    text = postmortem(broken({"_timestamp": 1_700_000_000 + 30.0 * np.arange(600)}))
    assert "| Step | Time (UTC) | Event |" in text
    assert "| 500 | 2023-11-15 02:23:20 | **Onset, loss not finite** |" in text
    assert "| Onset | step 500, 2023-11-15 02:23:20 UTC |" in text
    assert ", 99 steps (50 minutes) before the end of the log" in text
    text = postmortem(broken())
    assert "no time stamps" in section(text, "Timeline")
    assert "time stamps" in section(text, "What to log next time")


def test_other_spikes_messages_and_resumes_are_part_of_the_timeline():
    moments = build_incident(diagnosed("spike-long-tail-two")).timeline
    assert (400, "Another spike") in [(moment.step, moment.name) for moment in moments]
    report = broken()
    events = (
        Event(kind=EventKind.MESSAGE, message="CUDA out of memory", step=599, line=700),
        Event(kind=EventKind.REWIND, message="the log goes back from 340 to 300", step=300),
    )
    text = postmortem(replace(report, history=replace(report.history, events=events)))
    assert "| 599 | **Message** | CUDA out of memory (line 700) |" in text
    assert "| 300 | **Resume** | the log goes back from 340 to 300 |" in text
    assert "The log says:\n\n- CUDA out of memory (line 700)" in text


def test_the_bad_step_is_bold_among_its_neighbors():
    evidence = section(postmortem(broken()), "Evidence")
    assert "| **500** | **NaN** |" in evidence
    steps = re.findall(r"^\| (\d+) \| [\d.N]", evidence, re.MULTILINE)
    assert steps == ["496", "497", "498", "499", "501", "502", "503", "504"]


def test_a_divergence_is_shown_in_tenths_of_the_run():
    evidence = section(postmortem(diagnosed("divergence-lr-endless-warmup")), "Evidence")
    assert "| 0 to 149 |" in evidence
    assert "| 1350 to 1499 |" in evidence
    assert "mean lr" in evidence


def test_every_answer_is_found_or_ruled_out_or_open():
    report = diagnosed("divergence-unexplained-data")
    text = postmortem(report)
    out = section(text, "What was ruled out, and how")
    open_ = section(text, "Not ruled out")
    for answer in report.tree.answers:
        assert (f"({answer.question})" in out) is (answer.verdict is Verdict.NO)
        assert (f"({answer.question})" in open_) is (answer.verdict is Verdict.UNKNOWN)
    assert f"not found: {', '.join(report.clear)}." in out


def test_symptoms_that_were_not_checked_are_grouped_by_the_reason():
    report = diagnosed("divergence-unexplained-data")
    rows = [
        [cell.strip() for cell in line.split("|")[1:3]]
        for line in section(postmortem(report), "Not ruled out").splitlines()
        if line.startswith("|")
    ]
    counts = {
        why: int(names.split()[0]) if names.endswith("others") else names.count(",") + 1
        for names, why in rows[rows.index(["Symptoms", "Why"]) + 2 :]
    }
    assert sum(counts.values()) == len(report.not_checked)
    recorded = sum(check.needs_recorder for check in report.not_checked)
    assert counts["need a run that stabdiag.torch recorded"] == recorded
    assert "overfitting" in dict(map(reversed, rows))["needs eval_loss"]


@pytest.mark.parametrize(
    ("run", "causes"),
    [
        ("spike-lr-jump", ["Q2.3"]),
        ("loss-scale-static", ["Q3.2"]),
        ("nan-activations-fp16", ["Q3.3"]),
        ("spike-persistent-lr-stays", ["Q2.3"]),
        ("divergence-weight-norm-climbing", ["Q4.3"]),
        ("spike-recovered-labels", []),
        ("spike-persistent-lost-layer", []),
        ("divergence-unexplained-data", []),
        ("symptom-plateau-at-chance", []),
    ],
)
def test_the_causes_are_those_of_the_tree(run, causes):
    report = diagnosed(run)
    named = find_causes(build_incident(report))
    assert [cause.question for cause in named] == causes
    root_cause = section(postmortem(report), "Root cause according to the log")
    assert ("The log does not show the cause." in root_cause) is (not causes)
    assert all(f"**{cause.asks}** ({cause.question}): " in root_cause for cause in named)


def test_the_cause_of_a_spike_that_stayed_is_part_of_the_first_action():
    text = postmortem(diagnosed("spike-persistent-moments"))
    assert text.count("Look at the batch of step 501 first") == 2
    assert "before the restart" not in postmortem(diagnosed("spike-persistent-lr-stays"))


def jumped(at=None, **options):
    """Return the report on a loss that jumps at step 300, with a batch size that changes."""
    steps = np.arange(600)
    noise = np.random.default_rng(3).normal(0, 0.03, 600)
    log = {"step": steps, "loss": 1.0 + 2.0 * np.exp(-steps / 60) + noise + (steps >= 300)}
    if at is not None:
        log["batch_size"] = np.where(steps < at, 64, 8)
    return stabdiag.diagnose(log, **options)


@pytest.mark.parametrize(
    ("report", "changed", "ruled_out"),
    [
        (jumped(298), 298, False),
        (jumped(100), None, True),
        (jumped(), None, False),
        (jumped(literal=True), None, False),
        (jumped(300, literal=True), 300, False),
    ],
)
def test_a_setting_that_changed_is_a_cause_or_ruled_out(report, changed, ruled_out):
    incident = build_incident(report)
    assert [m.step for m in incident.timeline if m.name == "Setting changed"] == [changed][
        : changed is not None
    ]
    causes = [cause.asks for cause in find_causes(incident)]
    assert ("A changed setting" in causes) is (changed is not None)
    assert any("setting" in suspect.asks for suspect in suspects(incident)) is ruled_out


def test_actions_begin_with_the_first_and_end_with_what_was_also_found():
    report = diagnosed("nan-blow-up-fp32")
    actions = section(postmortem(report), "Actions, in order").strip().splitlines()
    assert actions[0] == f"1. **{report.diagnosis.first_action}**"
    assert [line.partition(".")[0] for line in actions] == [
        str(number)
        for number in range(1, 2 + len(report.diagnosis.next_actions) + len(report.also_found))
    ]
    assert "spike-unresolved" in actions[-1]


@pytest.mark.parametrize(
    ("run", "asks"),
    [
        ("spike-persistent-moments", "the checkpoint of step 500"),
        ("nan-no-manifest", "the last checkpoint from before step 288"),
        # The question is about the batch of the first NaN, not about earlier damage.
        ("nan-log0-fp32", "the batch of step 516"),
        ("spike-duplicate-reused-buffer", "the loader"),
        ("loss-scale-static", "the loss scaler"),
        ("divergence-unexplained-data", "the data mixture"),
    ],
)
def test_blanks_ask_for_facts_outside_the_log(run, asks):
    questions = section(postmortem(diagnosed(run)), "What only a person can answer")
    assert asks in questions
    assert questions.count(f"- [ ] **{BLANK_FIELD}:** ") == questions.count("- ") >= 6


@pytest.mark.parametrize("run", ["healthy-fp32", "insufficient-data", "symptom-eval-rising"])
def test_a_run_without_an_incident_gets_a_short_page(run):
    report = diagnosed(run)
    text = postmortem(report)
    begins = "Short post-mortem: " if run == "symptom-eval-rising" else "No post-mortem to write: "
    assert text.startswith(f"# {begins}")
    assert len(text.splitlines()) < 50
    assert BLANK_FIELD not in text
    assert all(finding.first_action in text for finding in report.findings)
    assert all(f"| {answer.question} |" in text for answer in report.tree.answers)
