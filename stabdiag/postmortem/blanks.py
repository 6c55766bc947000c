"""What no log can tell: the questions that are left to a person, as marked blanks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stabdiag.findings import Severity
from stabdiag.words import in_epochs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stabdiag.postmortem.incident import Incident
    from stabdiag.report import Report

MARK = "To be filled in"
"""What every blank begins with, and is counted and searched by."""

# What to ask for a kind of finding, by the beginning of its slug.
_BY_KIND: Final[Mapping[str, str]] = {
    "nan": "What is in the batch of step {not_finite}, and does a value turn NaN or infinite again "
    "when that step is run again from the checkpoint?",
    "spike-lr-jump": "Was the jump of the learning rate meant, and where does it come from: the "
    "configuration, a resume, two phases that join?",
    "spike-duplicate-batch": "Why did the loader give the same batch again at step {first_bad}: "
    "its seed, a worker, a resume?",
    "spike": "What is in the batch of step {first_bad} and of the two before it, and where does it "
    "come from?",
    "gradient-overflow": "Which layer overflows first?",
    "loss-scale": "Who configured the loss scaler, and is the scale that was logged the one in "
    "force?",
    "divergence-lr-rising": "Which schedule was meant, and where does the one in force come from?",
    "divergence": "What else changed near step {step}: the data's mixture, a phase, a code path?",
}


def blanks(report: Report, incident: Incident) -> tuple[str, ...]:
    """Return the questions, each a sentence; log text does not enter into them."""
    asked = _asked(report, incident)
    return tuple(map(in_epochs, asked) if report.history.unit == "epoch" else asked)


def _asked(report: Report, incident: Incident) -> Iterator[str]:
    yield "Who noticed, when, and how: an alert, a look at the curves, or the next job?"
    yield "What had changed since the last run that went well: code, data, configuration, cluster?"
    if incident.checkpoint.step is None and report.diagnosis.severity is Severity.ERROR:
        yield f"Which is the last checkpoint from before step {incident.onset}, and is it whole?"
    elif incident.checkpoint.step and report.diagnosis.severity is Severity.ERROR:
        yield f"Is the checkpoint of step {incident.checkpoint.step} there, and does it load?"
    kinds = (kind for kind in _BY_KIND if report.diagnosis.slug.startswith(kind))
    kind = max(kinds, key=len, default=None)
    if kind is not None:
        yield _BY_KIND[kind].format(
            step=incident.onset, first_bad=incident.first_bad, not_finite=incident.not_finite
        )
    yield "Was the cause above confirmed, and by which experiment?"
    yield "What was decided, by whom and when: stop, restart, go on?"
    yield "What did it cost beyond the compute above: money, deadlines, models that build on it?"
    yield "Who does each of the actions above, and until when?"
    yield "Which alert or check will notice it next time?"
