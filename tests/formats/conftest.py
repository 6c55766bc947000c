"""Reports on small synthetic runs for the tests of all formats."""

from dataclasses import replace

import numpy as np
import pytest

import stabdiag
from stabdiag.model.edges import OUTCOME_BY_SLUG
from stabdiag.model.events import Event, EventKind
from stabdiag.model.findings import (
    EARLIER_RUN_FAILED,
    PARTLY_READ,
    Action,
    ActionKind,
    Severity,
    Verdict,
)
from stabdiag.model.report import NotChecked, NotLogged, Tree
from tests.conftest import NAMES, about, diagnosed, log_of

# The run with the smallest log for each leaf of the tree. Findings about the log itself have none.
LEAVES = {
    slug: min(
        (run for run in NAMES if about(run)["expect"] == slug),
        key=lambda run: log_of(run).stat().st_size,
    )
    for slug in OUTCOME_BY_SLUG
    if slug not in (EARLIER_RUN_FAILED, PARTLY_READ)
}


def falling(points, noise=0.03):
    """Return steps and a healthy, decreasing loss."""
    rng = np.random.default_rng(7)
    steps = np.arange(points, dtype=np.int64)
    return steps, 2.0 + 6.0 * np.exp(-steps / (points / 6)) + rng.normal(0, noise, points)


def named(report, *events):
    """Return a report as if its run had been read from a file, with more events."""
    source = replace(report.history.source, name="run.jsonl", format="jsonl")
    history = replace(report.history, source=source, events=(*report.history.events, *events))
    return replace(report, history=history)


@pytest.fixture(scope="session")
def persistent():
    """A spike that did not recover, in a run of 6,200 steps, and a finding of another run."""
    steps, loss = falling(6200, noise=0.08)
    after = steps >= 4913
    loss[after] += 1.3 + 4.2 * np.exp(-(steps[after] - 4913) / 20.0)
    norm = 0.8 + np.random.default_rng(1).gamma(4.0, 0.05, steps.size)
    norm[4911:4920] *= np.array([2.0, 9.0, 38.0, 22.0, 12.0, 8.0, 5.0, 3.0, 2.0])
    report = stabdiag.diagnose(
        {"step": steps, "train/loss": loss, "train/grad_norm": norm},
        manifest={"checkpoint_every": 200, "peak_lr": 3e-4, "team": "secret"},
        settings={"grad_clip": 1.0},
    )
    actions = (Action(ActionKind.LOWER_LR, "Lower it.", also=(ActionKind.CHANGE_DTYPE,)),)
    overflow = replace(
        report.diagnosis,
        slug="gradient-overflow",
        severity=Severity.WARNING,
        section="§3",
        question="Q3.2",
        title=OUTCOME_BY_SLUG["gradient-overflow"].title,
        summary="The loss scale was halved 14 times where its probe rate explains 3.",
        actions=actions,
        step=212,
        evidence={},
    )
    answers = tuple(
        replace(answer, verdict=Verdict.UNKNOWN) if answer.question == "Q3.1" else answer
        for answer in report.tree.answers
    )
    report = replace(
        report,
        findings=(report.diagnosis, overflow),
        tree=replace(report.tree, answers=answers),
        not_checked=report.not_checked[:2],
        manifest=replace(report.manifest, path="manifest.json"),
    )
    back = "Step 3000 follows step 3140: the later attempt is used."
    torn = "Line 6201 breaks off and was left out."
    return named(
        report,
        Event(kind=EventKind.REWIND, message=back, step=3000),
        Event(kind=EventKind.UNREADABLE, message=torn),
    )


@pytest.fixture(scope="session")
def healthy():
    """A healthy run that logged only its loss."""
    steps, loss = falling(1200)
    return named(stabdiag.diagnose({"step": steps, "loss": loss}))


@pytest.fixture(scope="session")
def nan():
    """A loss that went NaN at step 812, after a surge of the gradient norm."""
    steps, loss = falling(900, noise=0.05)
    loss[790:812] += np.linspace(0.0, 3.0, 22) ** 2
    norm = 0.9 + np.random.default_rng(2).gamma(4.0, 0.05, steps.size)
    norm[795:812] *= np.geomspace(1.0, 900.0, 17)
    norm[812:] = np.inf
    scale = np.full(steps.size, 65536.0)
    scale[800:] = np.maximum(65536.0 * 0.5 ** np.arange(100), 1.0)
    logged = [*loss[:812], *[None] * 88]
    log = {"step": steps, "loss": logged, "grad_norm": norm, "amp/scale": scale}
    report = stabdiag.diagnose(log, limits={"spike.sigma": 4})
    return named(replace(report, not_checked=report.not_checked[:2]))


@pytest.fixture(params=LEAVES)
def leaf(request):
    """The report on a trained run for each leaf of the tree."""
    return diagnosed(LEAVES[request.param])


def renamed(report, name):
    """Put a name in every place for text of a log or a manifest."""
    events = (
        Event(kind=EventKind.COLUMN, message=f"The loss is read from {name}."),
        Event(kind=EventKind.MESSAGE, message=name, step=report.diagnosis.step, line=3),
        Event(kind=EventKind.REWIND, message=name, step=9),
    )
    logged = {role: replace(s, column=name) for role, s in report.history.series.items()}
    logged[f"weight_norm/{name}"] = replace(logged["loss"], role=f"weight_norm/{name}", column=name)
    source = replace(report.history.source, name=name, format=name)
    first = replace(
        report.diagnosis,
        title=name,
        summary=f"See {name} here.",
        actions=(
            Action(ActionKind.INSPECT_DATA, f"Look at {name} now."),
            Action(ActionKind.INSPECT_DATA, f"Then look at {name}."),
        ),
        evidence={name: name},
    )
    answers = tuple(
        replace(a, asks=name, because=f"It is {name}.", measured={name: name}, branch=name)
        for a in report.tree.answers
    )
    others = (
        replace(finding, title=name, summary=name, actions=first.actions)
        for finding in report.also_found
    )
    return replace(
        report,
        findings=(first, *others),
        tree=Tree(outcome=first, answers=answers),
        not_logged=(NotLogged(role=name, cost=name),),
        not_checked=(NotChecked(symptom="mfu-low", missing=(name,)),),
        history=replace(report.history, series=logged, source=source, events=events),
        manifest=replace(
            report.manifest,
            path=name,
            optimizer=name,
            schedule=name,
            inferred={name: name},
            overridden=("optimizer",),
            logged=("schedule",),
            unknown={name: 1},
        ),
    )


@pytest.fixture(params=["persistent", "healthy", "nan"])
def report(request):
    """Each of the three."""
    return request.getfixturevalue(request.param)
