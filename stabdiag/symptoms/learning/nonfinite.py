"""A reward or a score that is not finite at the end."""

from __future__ import annotations

from collections.abc import Callable

from stabdiag.model.findings import Action
from stabdiag.model.history import Series
from stabdiag.model.text import plural
from stabdiag.stats.course import nonfinite_end
from stabdiag.symptoms.symptom import Evidence
from stabdiag.tree.case import Case


def nonfinite_evidence(
    case: Case, series: Series, *, kind: str, subject: str, first: Callable[[int], Action]
) -> Evidence | None:
    """Report a series that is not finite from a step to the end, else return None.

    ``kind`` is the kind of series, and ``subject`` its name at the beginning of the sentence.
    ``first`` returns the first action from the step.
    """
    begin = nonfinite_end(series.values)
    if begin is None:
        return None
    step, count = int(series.steps[begin]), len(series) - begin
    return Evidence(
        title=f"{kind} is not finite",
        because=f"{subject} is not finite from {case.unit} {step} on ({plural(count, 'value')}); "
        "it was finite before.",
        step=step,
        measured={"not_finite": count},
        first=first(step),
    )
