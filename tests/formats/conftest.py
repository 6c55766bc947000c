"""Hand-made reports, small and seeded, that every format is tried on."""

from contextlib import chdir
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import stabdiag
from stabdiag.api.shown import Report
from stabdiag.model.edges import QUESTIONS
from stabdiag.model.findings import Action, ActionKind, Answer, AskedOf, Finding, Verdict
from stabdiag.model.history import Event, EventKind, History, Series, Source
from stabdiag.model.leaves import BY_SLUG
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest
from stabdiag.model.report import NotChecked, NotLogged, Tree

ROOT = Path(__file__).parents[2]

# A real run for each leaf of the tree, one with a small log.
LEAVES = {
    "divergence-grad-norm-rising": "divergence-grad-norm-weak-decay",
    "divergence-lr-rising": "divergence-lr-inverse-cosine",
    "divergence-unexplained": "divergence-unexplained-rotting-labels",
    "divergence-weight-norm-climbing": "divergence-after-spike",
    "divergence-weight-norm-collapsing": "divergence-weight-norm-collapsing",
    "gradient-overflow": "gradient-overflow-bf16",
    "healthy": "healthy-sparse-50",
    "insufficient-data": "insufficient-data-sparse",
    "loss-scale-collapsed": "loss-scale-collapsed-padding",
    "loss-scale-static": "loss-scale-static-null",
    "nan-bf16": "nan-empty-mask-bf16",
    "nan-dtype-unknown": "nan-no-manifest",
    "nan-fp16-overflow": "nan-activations-fp16",
    "nan-fp32": "nan-log0-fp32",
    "plateau": "plateau",
    "spike-duplicate-batch": "spike-duplicate-stale-targets",
    "spike-long-tail-batch": "spike-long-tail-regression",
    "spike-lr-jump": "spike-lr-jump-sgd",
    "spike-persistent": "spike-persistent-head-bf16",
    "spike-recovered": "spike-recovered-head-noise",
    "spike-unresolved": "spike-unresolved-sparse",
}

LIMITS = Limits()
ASKS = {question.id: question.asked(LIMITS) for question in QUESTIONS}
LIMIT_VALUES = {info.name: info.value for info in LIMITS.items()}


def answer(question, verdict, because, *, limits=(), steps=(), asked_of=AskedOf.RUN, **measured):
    """Return one answer, with its limits looked up."""
    return Answer(
        question=question,
        asks=ASKS[question],
        verdict=verdict,
        because=because,
        measured=measured,
        limits={name: LIMIT_VALUES[name] for name in limits},
        steps=steps,
        asked_of=asked_of,
    )


def finding(slug, question, summary, *actions, **rest):
    """Return one finding, with what its outcome fixes looked up."""
    outcome = BY_SLUG[slug]
    known = Finding(
        slug=slug,
        severity=outcome.severity,
        section=outcome.section,
        question=question,
        title=outcome.title,
        summary=summary,
        actions=actions,
    )
    return replace(known, **rest)  # type: ignore[arg-type]


def series(role, column, steps, values):
    """Return one series."""
    return Series(role=role, column=column, steps=steps, values=values)


def history(*logged, events=()):
    """Return a history of these series, as if read from ``run.jsonl``."""
    return History(
        series={entry.role: entry for entry in logged},
        source=Source(name="run.jsonl", format="jsonl", records=max(map(len, logged))),
        events=events,
    )


def falling(points, *, noise=0.03):
    """Return steps and a loss that falls as a healthy one does."""
    rng = np.random.default_rng(7)
    steps = np.arange(points, dtype=np.int64)
    return steps, 2.0 + 6.0 * np.exp(-steps / (points / 6)) + rng.normal(0, noise, points)


@cache
def diagnosed(slug):
    """Return the report on a leaf's run, whose log is named from the top of the repository."""
    (log,) = (ROOT / "fixtures" / "runs" / LEAVES[slug]).glob("log.*")
    with chdir(ROOT):
        return stabdiag.diagnose(str(log.relative_to(ROOT)))


@pytest.fixture(params=BY_SLUG)
def leaf(request):
    """The report on a real run, one for each leaf of the tree."""
    return diagnosed(request.param)


@pytest.fixture
def persistent():
    """A spike that did not recover, in a run of 6,200 steps."""
    rng = np.random.default_rng(1)
    steps, loss = falling(6200, noise=0.08)
    after = steps >= 4913
    loss[after] += 1.3 + 4.2 * np.exp(-(steps[after] - 4913) / 20.0)
    norm = 0.8 + rng.gamma(4.0, 0.05, steps.size)
    norm[4911:4920] *= np.array([2.0, 9.0, 38.0, 22.0, 12.0, 8.0, 5.0, 3.0, 2.0])
    diagnosis = finding(
        "spike-persistent",
        "Q2.4",
        "At step 4913 the loss jumped from 2.03 to 7.51 (68 σ). It was 3.75 after 50 steps.",
        Action(
            ActionKind.CLIP_GRADIENTS,
            "Reload the checkpoint of step 4800 and restart with clip 0.5 (now 1.0).",
            setting="grad_clip",
            from_=1.0,
            to=0.5,
            checkpoint=4800,
        ),
        Action(ActionKind.SKIP_BATCHES, "Skip the batches of steps 4905 to 4915 first.", step=4905),
        step=4913,
        evidence={
            "loss": 7.51,
            "mean_before": 2.03,
            "sigmas": 68.0,
            "exceedances": 11,
            "checkpoint": 4800,
        },
    )
    overflow = finding(
        "gradient-overflow",
        "Q3.2",
        "The loss scale was halved 14 times where its probe rate explains 3.",
        Action(
            ActionKind.LOWER_LR,
            "Lower the learning rate by a factor of 2, or switch from fp16 to bf16.",
            also=(ActionKind.CHANGE_DTYPE,),
        ),
        step=212,
    )
    trail = (
        answer("Q1.1", Verdict.NO, "All 6200 logged losses are finite.", points=6200),
        answer(
            "Q2.1",
            Verdict.YES,
            "The loss of 7.51 at step 4913 is 68 σ above the 100 steps before it; the noise of "
            "this run reaches 5.9 σ.",
            limits=("spike.sigma", "spike.window", "spike.false_alarm"),
            steps=(4913,),
            sigmas=68.0,
            exceedances=11,
        ),
        answer(
            "Q2.2",
            Verdict.NO,
            "The smoothed loss is 3.75 after 50 steps; recovered would be below 2.07.",
            limits=("spike.recovery_sigma", "spike.recovery_steps"),
            steps=(4913, 4963),
            smoothed_loss=3.75,
        ),
        answer("Q2.4", Verdict.YES, "The last checkpoint is that of step 4800.", checkpoint=4800),
        answer("Q3.1", Verdict.UNKNOWN, "The manifest does not tell the dtype."),
        answer(
            "Q4.1",
            Verdict.NO,
            "No trend over the last 200 steps (p = 0.61).",
            limits=("divergence.window", "divergence.significance"),
            p_value=0.61,
        ),
    )
    return Report(
        findings=(diagnosis, overflow),
        tree=Tree(outcome=diagnosis, answers=trail),
        not_logged=(
            NotLogged(role="weight_norm", cost="Q4.3 cannot tell whether the weights blew up."),
            NotLogged(role="batch_id", cost="Q2.3 cannot tell a repeated batch."),
        ),
        history=history(
            series("loss", "train/loss", steps, loss),
            series("grad_norm", "train/grad_norm", steps, norm),
            events=(
                Event(
                    kind=EventKind.REWIND,
                    message="Step 3000 follows step 3140: the later attempt is used.",
                    step=3000,
                ),
                Event(kind=EventKind.UNREADABLE, message="Line 6201 breaks off and was left out."),
            ),
        ),
        manifest=Manifest(
            grad_clip=1.0,
            checkpoint_every=200,
            peak_lr=3e-4,
            path="manifest.json",
            overridden=("grad_clip",),
            unknown={"team": "secret"},
        ),
        limits=LIMITS,
    )


@pytest.fixture
def healthy():
    """A healthy run that logged its loss and gradient norm, and no more."""
    steps, loss = falling(1200)
    norm = 0.8 + np.random.default_rng(3).gamma(4.0, 0.05, steps.size)
    diagnosis = finding(
        "healthy",
        "Q4.1",
        "No NaN, no spike and no divergence in 1200 steps; the loss went from 8.0 to 2.0.",
    )
    return Report(
        findings=(diagnosis,),
        tree=Tree(
            outcome=diagnosis,
            answers=(
                answer("Q1.1", Verdict.NO, "All 1200 logged losses are finite."),
                answer(
                    "Q2.1",
                    Verdict.NO,
                    "The largest of 3 exceedances is 3.4 σ; the noise of this run reaches 4.9 σ.",
                    limits=("spike.sigma", "spike.false_alarm"),
                    sigmas=3.4,
                ),
                answer("Q3.1", Verdict.UNKNOWN, "The manifest does not tell the dtype."),
                answer("Q4.1", Verdict.NO, "The loss still falls over the last 200 steps."),
            ),
        ),
        not_logged=(NotLogged(role="loss_scale", cost="§3 cannot be asked."),),
        history=history(
            series("loss", "loss", steps, loss), series("grad_norm", "grad_norm", steps, norm)
        ),
        manifest=Manifest(),
        limits=LIMITS,
    )


@pytest.fixture
def nan():
    """A loss that went NaN at step 812, after a surge of the gradient norm."""
    rng = np.random.default_rng(2)
    steps, loss = falling(900, noise=0.05)
    loss[790:812] += np.linspace(0.0, 3.0, 22) ** 2
    loss[812:] = np.nan
    norm = 0.9 + rng.gamma(4.0, 0.05, steps.size)
    norm[795:812] *= np.geomspace(1.0, 900.0, 17)
    norm[812:] = np.inf
    scale = np.full(steps.size, 65536.0)
    scale[800:] = np.maximum(65536.0 * 0.5 ** np.arange(100), 1.0)
    diagnosis = finding(
        "nan-fp16-overflow",
        "Q3.3",
        "The loss is NaN from step 812 on. The gradient norm rose 900-fold in the 16 steps before.",
        Action(
            ActionKind.DYNAMIC_LOSS_SCALE,
            "Reload the checkpoint of step 800 with the loss scale capped at 1024.",
            checkpoint=800,
        ),
        Action(
            ActionKind.CHANGE_DTYPE,
            "Switch from fp16 to bf16.",
            setting="dtype",
            from_="fp16",
            to="bf16",
        ),
        Action(ActionKind.CLIP_GRADIENTS, "Clip the gradient norm at 1.0.", to=1.0),
        step=812,
        evidence={"first_bad_step": 812, "last_good_step": 811, "bad": 88, "last": float("nan")},
    )
    return Report(
        findings=(diagnosis,),
        tree=Tree(
            outcome=diagnosis,
            answers=(
                answer(
                    "Q1.1",
                    Verdict.YES,
                    "The loss is NaN at 88 steps, first at step 812.",
                    steps=(812,),
                ),
                answer("Q1.2", Verdict.YES, "The loss scale moves, which only fp16 has."),
                answer(
                    "Q2.1",
                    Verdict.YES,
                    "At step 803 the loss stood 21 σ above the 100 steps before it.",
                    asked_of=AskedOf.LEAD_UP,
                    steps=(803,),
                    sigmas=21.0,
                ),
                answer(
                    "Q4.1",
                    Verdict.NO,
                    "Before the spike the loss was falling.",
                    asked_of=AskedOf.LEAD_UP,
                ),
            ),
        ),
        not_logged=(NotLogged(role="batch_id", cost="Q2.3 cannot tell a repeated batch."),),
        history=history(
            series("loss", "loss", steps, loss),
            series("grad_norm", "grad_norm", steps, norm),
            series("loss_scale", "amp/scale", steps, scale),
            events=(
                Event(
                    kind=EventKind.HIDDEN_NAN,
                    message="The loss is written as null from step 812 on, which counts as NaN.",
                    step=812,
                ),
            ),
        ),
        manifest=Manifest(dtype="fp16", inferred={"dtype": "the loss scale moves"}),
        limits=LIMITS.override({"spike.sigma": 4}),
    )


@pytest.fixture
def renamed():
    """Return a function that puts a name wherever text of a log or a manifest can go."""

    def rename(report, name):
        events = (
            Event(kind=EventKind.COLUMN, message=f"The loss is read from {name}."),
            Event(kind=EventKind.MESSAGE, message=name, step=report.diagnosis.step, line=3),
            Event(kind=EventKind.REWIND, message=name, step=9),
        )
        logged = {role: replace(s, column=name) for role, s in report.history.series.items()}
        logged[f"weight_norm/{name}"] = replace(
            logged["loss"], role=f"weight_norm/{name}", column=name
        )
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
            replace(one, title=name, summary=name, actions=first.actions)
            for one in report.also_found
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

    return rename
