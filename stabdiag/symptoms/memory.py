"""The symptom of memory that goes on growing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import num
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.symptoms.tenths import by_tenths

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats
    from stabdiag.tree.case import Case


_LEAST = 50


def memory_growth(case: Case) -> Evidence | None:
    """Does memory grow, and go on growing?"""
    memory = next(iter(by_tenths(case, "memory", _LEAST)), None)
    if memory is None or not _goes_on(memory.levels):
        return None
    first, last, since = float(memory.levels[1]), float(memory.levels[-1]), memory.step(1)
    # Since the first tenth, in which a run allocates what it needs.
    growth = last / first - 1 if first > 0 else 0.0
    if growth <= case.limits.throughput.memory_growth:
        return None
    return Evidence(
        because=f"The memory in use grew from {num(first)}, from step {since} on, to {num(last)} "
        f"({growth:+.0%}; medians of a tenth of the run), steadily to the end.",
        step=since,
        measured={"first": first, "last": last, "growth": growth},
        first=Action(
            ActionKind.FREE_MEMORY,
            "Look for tensors that are kept from step to step: a loss added up without .item(), "
            "outputs in a list, a graph that is retained.",
        ),
        then=(
            Action(ActionKind.FREE_MEMORY, "Evaluate under torch.no_grad()."),
            Action(
                ActionKind.FREE_MEMORY,
                "Take two memory snapshots a hundred steps apart and compare them.",
            ),
            Action(ActionKind.FREE_MEMORY, "Set expandable_segments:True if it is fragmentation."),
        ),
    )


def _goes_on(level: Floats) -> bool:
    """Tell whether memory grows in each tenth, and in the last ones as it began.

    A peak that is only kept rises by ever smaller steps.
    """
    steady = bool(np.all(np.diff(level[1:]) > 0))
    return steady and bool(level[-1] - level[-4] > (level[-1] - level[1]) / 4)


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="memory-growth",
        severity=Severity.WARNING,
        family="throughput",
        title="Memory keeps growing",
        check=memory_growth,
        needs=("memory",),
        limits=("throughput.memory_growth",),
        enough=(at_least(_LEAST, "memory", groups=True),),
    ),
)
