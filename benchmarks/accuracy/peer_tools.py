"""Run the other tools on a log, and map their findings to families of faults.

This runs in the environment that ``peers.py`` creates. Each tool is called as its documentation
shows, with its defaults, on every logged step.

A family is a section of the decision tree. A gradient norm that is not finite can mean two
families, and is right if one of them is; a burst counts as a spike, which suits these tools best
overall. A finding without a family (a plateau, no warm-up) is only a warning.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

NAN, SPIKE, PRECISION, DIVERGENCE = "§1", "§2", "§3", "§4"
BAD_GRADIENT = (NAN, PRECISION)  # not finite, while nothing is said of the loss
BURST = (SPIKE,)  # of the gradient norm


@dataclass(frozen=True)
class ToolFinding:
    """One finding: whether the tool itself calls it more than a note, and its families."""

    serious: bool
    families: tuple[str, ...] = ()
    loss_spike: bool = False


def families(
    table: Mapping[str, tuple[str, ...]], name: str, *, serious: bool, spike: str
) -> ToolFinding:
    """A finding by its name in a tool's table."""
    return ToolFinding(serious, table.get(name, ()), name == spike)


def records(log: Path) -> list[dict[str, float]]:
    """The lines of a log, without values that were not logged."""
    lines = log.with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


RUNMEDIC = {
    "non_finite": (NAN,),
    "non_finite grad_norm": BAD_GRADIENT,
    "loss_spikes": (SPIKE,),
    "divergence": (DIVERGENCE,),
    "grad_spikes": BURST,
}


def runmedic(log: Path) -> list[ToolFinding]:
    """Diagnose, as ``runmedic diagnose run.csv --json`` does."""
    from runmedic import loaders, roles
    from runmedic.checks import run_checks

    (run,) = loaders.load(str(log))
    findings = []
    for finding in run_checks(run, roles.detect(run)):
        name = finding.check
        if name == "non_finite" and finding.metric == "grad_norm":
            name = "non_finite grad_norm"
        serious = finding.severity in ("critical", "warning")
        findings.append(families(RUNMEDIC, name, serious=serious, spike="loss_spikes"))
    return findings


LOSSLINT = {
    "nan_inf": (NAN,),
    "nan_inf grad_norm": BAD_GRADIENT,
    "loss_spike": (SPIKE,),
    "divergence": (DIVERGENCE,),
}


def losslint(log: Path) -> list[ToolFinding]:
    """Check, as ``losslint check run.csv`` does, the errors first."""
    from losslint.checks import run_all_checks
    from losslint.parsing import load_run

    rank = ("error", "warning", "info")
    findings = []
    for finding in sorted(run_all_checks(load_run(log)), key=lambda f: rank.index(f.severity)):
        name = finding.check
        if name == "nan_inf" and finding.details["series"] != "loss":
            name = "nan_inf grad_norm"
        serious = finding.severity != "info"
        findings.append(families(LOSSLINT, name, serious=serious, spike="loss_spike"))
    return findings


TRAINSPOTTER = {
    "Loss spike": (SPIKE,),
    "Diverged (non-finite values)": (NAN,),
    "Diverged (sustained growth)": (DIVERGENCE,),
    "Gradient-norm explosion": BURST,
}


def trainspotter(log: Path) -> list[ToolFinding]:
    """Analyse, as ``trainspotter analyze run.csv`` does."""
    from trainspotter.detectors import run_all
    from trainspotter.readers import load_run

    return [
        families(
            TRAINSPOTTER, finding.title, serious=finding.severity != "info", spike="Loss spike"
        )
        for finding in run_all(load_run(log))
    ]


# By the first word of the message: the type of a gradient that explodes or vanishes is one.
RUNWISE = {"NaN": (NAN,), "Inf": (NAN,), "loss": (SPIKE,), "Gradient": BURST}


def runwise(log: Path) -> list[ToolFinding]:
    """Look for anomalies in the whole history; its own command line takes 200 of its points."""
    from runwise import detect_anomalies

    return [
        families(RUNWISE, anomaly.message.split(" ")[0], serious=True, spike="loss")
        for anomaly in detect_anomalies(records(log))
    ]


# By the first of its evidence: its diagnoses ("learning rate likely too high") have many causes.
TRAINING_DOCTOR = {
    "NaN or Inf values": (NAN,),
    "Loss spiked": (SPIKE,),
    "Loss increasing": (DIVERGENCE,),
    "Loss slowly diverging": (DIVERGENCE,),
    "NaN or Inf gradients": BAD_GRADIENT,
    "NaN/Inf gradients": BAD_GRADIENT,
    "Gradient norm spiked": BURST,
    "Gradient spikes": BURST,
    "Exploding gradients": BURST,
    "Highly unstable gradients": BURST,
}


def training_doctor(log: Path) -> list[ToolFinding]:
    """Log line after line, as in its example of a training loop; the worst diagnosis first.

    Reading the CSV as a whole comes to the same, and takes twice as long.
    """
    from training_doctor import Doctor

    doctor = Doctor()
    for record in records(log):
        doctor.log(int(record.pop("step")), **record)
    rank = ("critical", "warning", "info")
    findings = []
    for diagnosis in sorted(doctor.diagnoses, key=lambda d: rank.index(d.severity.value)):
        words = [evidence.observation for evidence in diagnosis.evidence]
        named = [
            them
            for word in words
            for start, them in TRAINING_DOCTOR.items()
            if word.startswith(start)
        ]
        spike = any(word.startswith("Loss spiked") for word in words)
        serious = diagnosis.severity.value != "info"
        findings.append(ToolFinding(serious, named[0] if named else (), spike))
    return findings


TRAINPULSE = {
    "nan_detector": (NAN,),
    "nan_detector grad_norm": BAD_GRADIENT,
    "loss_spike": (SPIKE,),
    "gradient": BURST,
}


def trainpulse(log: Path) -> list[ToolFinding]:
    """Log line after line, as ``trainpulse analyze run.jsonl`` does; the worst alerts first."""
    from trainpulse import Monitor

    monitor = Monitor()
    names = {"loss": "loss", "grad_norm": "grad_norm", "lr": "learning_rate"}
    for record in records(log):
        for key, name in names.items():
            if key in record:
                monitor.log(name, int(record["step"]), record[key])
    rank = ("critical", "warning", "info")
    findings = []
    for alert in sorted(monitor.report().alerts, key=lambda a: rank.index(a.severity.value)):
        name = alert.detector
        if name == "nan_detector" and alert.metric_name != "loss":
            name = "nan_detector grad_norm"
        if name == "gradient" and "Vanishing" in alert.message:
            name = "vanishing"
        serious = alert.severity.value != "info"
        findings.append(families(TRAINPULSE, name, serious=serious, spike="loss_spike"))
    return findings


TOOLS: Mapping[str, Callable[[Path], list[ToolFinding]]] = {
    "runmedic": runmedic,
    "losslint": losslint,
    "trainspotter": trainspotter,
    "runwise": runwise,
    "training-doctor": training_doctor,
    "trainpulse": trainpulse,
}
