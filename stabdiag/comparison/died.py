"""The ranks of one job: did one of them stop before the others?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stabdiag.comparison.kind import span, stride
from stabdiag.comparison.settings import joined
from stabdiag.comparison.study import Study, finding
from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.history import EventCode
from stabdiag.model.text import capitalised, clipped, num, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.comparison import Run
    from stabdiag.model.findings import Finding
    from stabdiag.model.history import Event

# A message is quoted up to here.
_LONGEST: Final = 140

# What another rank's death makes a rank say.
_AFTERMATH: Final = (
    "collective communication",
    "connection closed by peer",
    "connection reset by peer",
    "connectionerror",
    "broken pipe",
    "disterror",
    "distbackenderror",
    "distnetworkerror",
    "childfailederror",
    "heartbeat",
    "remote process exited",
)

_THEN: Final = (
    Action(
        ActionKind.CHECK_MACHINES,
        "Check the kernel's log of its node and the scheduler's for out of memory (exit code "
        "137), a lost node, a GPU that fell off the bus.",
    ),
    Action(
        ActionKind.READ_LOGS,
        "Export NCCL_DEBUG=INFO and TORCH_DISTRIBUTED_DEBUG=DETAIL: they name the collective that "
        "the others waited in.",
    ),
    Action(
        ActionKind.RELOAD_CHECKPOINT,
        "Restart from the last checkpoint; checkpoint often enough that a node's failure costs "
        "little.",
        also=(ActionKind.KEEP_CHECKPOINT,),
    ),
)


def rank_died(study: Study) -> Iterator[Finding]:
    """Find the rank that stopped before the others, or that took them along when it did.

    In a job that waits for all of its ranks, one that dies stops the others at the same step: they
    complain of a peer that is gone, and the one that does not is the dead one.
    """
    runs = [run for run in study.runs if run.history.get("loss") is not None]
    last = {run.label: span(run)[1] for run in runs}
    end = max(last.values(), default=0)
    early = [run for run in runs if _is_early(study, run, end)]
    mourners = [run for run in runs if _mourns(run)]
    silent = [run for run in runs if run not in mourners] if mourners else []
    if early:
        dead = min(early, key=lambda run: last[run.label])
        others = f"{plural(end - last[dead.label], 'step')} before the others' ({end})"
    elif silent:
        # An error of its own, such as out of memory, tells it from ranks that log none.
        dead = max(silent, key=lambda run: len(_last_words(run)))
        others = "as those of the others do"
    else:
        return
    step = last[dead.label]
    seconds = _seconds(dead, study)
    yield finding(
        "rank-died",
        because=f"The log of {dead.label} ends at step {step}, {others}{seconds}. "
        f"{_said(dead, silent)} {_mourning(mourners)}".rstrip(),
        first=Action(
            ActionKind.READ_LOGS,
            f"Read the end of {dead.name} and what that rank wrote to standard error: the real "
            "traceback is there; the errors of the others follow from it.",
        ),
        then=_THEN,
        step=step,
        measured={
            "rank": dead.rank if dead.rank is not None else dead.label,
            "last_step": step,
            "last_step_of_others": end,
            "steps_missing": end - step,
            "ranks_that_ended_early": len(early),
            "ranks_that_lost_a_peer": len(mourners),
            "ranks": len(study.runs),
        },
    )


def _is_early(study: Study, run: Run, end: int) -> bool:
    """Tell whether a rank's log ends early; a step is enough where others say that it is gone."""
    others = [other for other in study.runs if other is not run]
    mourned = not _mourns(run) and any(map(_mourns, others))
    gap = 0.0 if mourned else study.limits.compare.rank_gap * max(map(stride, study.runs))
    return end - span(run)[1] > gap


def _mourns(run: Run) -> bool:
    """Tell whether a rank says that it lost another."""
    return any(map(_is_aftermath, run.history.messages))


def _is_aftermath(event: Event) -> bool:
    said = event.said.lower()
    return event.code is EventCode.COLLECTIVE_FAILED or any(word in said for word in _AFTERMATH)


def _last_words(run: Run) -> list[str]:
    return [one.message for one in run.history.messages]


def _said(dead: Run, silent: list[Run]) -> str:
    words = _last_words(dead)
    if words:
        return f"Its last words: {clipped(words[-1], _LONGEST)}."
    among = [run.label for run in silent if not _last_words(run)]
    if len(among) > 1 and dead.label in among:
        rest = joined([label for label in among if label != dead.label])
        return f"It does not say why; neither do others ({rest})."
    return "It does not say why: a process that is killed leaves no word."


def _mourning(mourners: list[Run]) -> str:
    if not mourners:
        return ""
    words = next(one.message for one in mourners[0].history.messages if _is_aftermath(one))
    verb = "complains" if len(mourners) == 1 else "complain"
    told = joined([run.label for run in mourners])
    return f"{capitalised(told)} {verb} of a lost peer: {clipped(words, _LONGEST)}"


def _seconds(dead: Run, study: Study) -> str:
    """Return how long before the others a rank stopped, where the logs tell the time."""
    clocks = {run.label: run.history.finite("clock").values for run in study.runs}
    ends = {label: float(clock[-1]) for label, clock in clocks.items() if len(clock)}
    if dead.label not in ends or len(ends) < 2:
        return ""
    before = max(ends.values()) - ends[dead.label]
    return f" and {num(round(before, 1))} seconds" if before > 0 else ""
