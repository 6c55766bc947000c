"""What no log can tell: the questions that are left to a person, as marked blanks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stabdiag.model.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stabdiag.formats.postmortem.incident import Incident

MARK = "To be filled in"
"""What every blank begins with, and is counted and searched by."""

# What to ask for a kind of finding, by the beginning of its slug.
_BY_KIND: Final[Mapping[str, str]] = {
    "nan": "What is in the batch of {unit} {not_finite}, and does a value turn NaN or infinite "
    "again when that {unit} is run again from the checkpoint?",
    "spike-lr-jump": "Was the jump of the learning rate meant, and where does it come from: the "
    "configuration, a resume, two phases that join?",
    "spike-duplicate-batch": "Why did the loader give the same batch again at {unit} {first_bad}: "
    "its seed, a worker, a resume?",
    "spike": "What is in the batch of {unit} {first_bad} and of the two before it, and where does "
    "it come from?",
    "gradient-overflow": "Which layer overflows first?",
    "loss-scale": "Who configured the loss scaler, and is the logged scale the one in force?",
    "divergence-lr-rising": "Which schedule was meant, and where does the one in force come from?",
    "divergence": "What else changed near {unit} {onset}: the data mixture, a phase, a code path?",
}


def blanks(one: Incident) -> list[str]:
    """Return the questions, each a sentence; log text does not enter into them."""
    return [
        "Who noticed, when, and how: an alert, a look at the curves, or the next job?",
        "What had changed since the last run that went well: code, data, configuration, cluster?",
        *_by_facts(one),
        "Was the cause above confirmed, and by which experiment?",
        "What was decided, by whom and when: stop, restart, go on?",
        "What did it cost beyond the compute above: money, deadlines, models that build on it?",
        "Who does each of the actions above, and until when?",
        "Which alert or check will notice it next time?",
    ]


def _by_facts(one: Incident) -> Iterator[str]:
    found, unit = one.report.diagnosis, one.unit
    if one.checkpoint is None and found.severity is Severity.ERROR:
        yield f"Which is the last checkpoint from before {unit} {one.onset}, and is it whole?"
    elif one.checkpoint and found.severity is Severity.ERROR:
        yield f"Is the checkpoint of {unit} {one.checkpoint} there, and does it load?"
    kind = max((kind for kind in _BY_KIND if found.slug.startswith(kind)), key=len, default=None)
    if kind is not None:
        yield _BY_KIND[kind].format(
            unit=unit, onset=one.onset, first_bad=one.first_bad, not_finite=one.not_finite
        )
