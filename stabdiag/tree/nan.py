"""§1: is the loss NaN or infinite, and where did that start?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.model.text import num, plural
from stabdiag.tree.checkpoint import checkpoint_before
from stabdiag.tree.drivers import why_not_known
from stabdiag.tree.origin import first_bad, origin
from stabdiag.tree.question import Question, Reply, no, unknown, yes

if TYPE_CHECKING:
    from stabdiag.tree.case import Case


def _is_it_nan(case: Case) -> Reply:
    bad = first_bad(case)
    total = len(case.history.series["loss"])
    if bad is None:
        which = f"all {total} logged losses are" if total > 1 else "the one logged loss is"
        return no(f"{which} finite", measured={"logged": total})
    good = (
        f"the last finite loss is that of step {bad.last_good}"
        if bad.last_good is not None
        else ("no loss before it is finite")
    )
    return yes(
        f"the loss of step {bad.step} is not finite; {good}; {bad.count} of {total} "
        f"{'is' if bad.count == 1 else 'are'} not finite",
        bad.step,
        measured={
            "first_bad": bad.step,
            "last_good": bad.last_good,
            "not_finite": bad.count,
            "logged": total,
        },
    )


def _which_dtype(case: Case) -> Reply:
    dtype = case.manifest.dtype
    if dtype is None:
        return unknown("neither the manifest nor the log tells the dtype")
    how = case.manifest.inferred.get("dtype")
    told = f"{dtype}, inferred: {how}" if how else dtype
    return yes(told, branch=dtype, measured={"dtype": dtype})


def _where_did_it_start(case: Case) -> Reply:
    start = origin(case)
    if start.surge is None:
        return unknown(
            f"{why_not_known(case, start.step)} before the NaN, so its lead-up is not known"
        )
    lead = start.bad.step - start.step
    where = (
        f"{start.role} went non-finite {plural(lead, 'step')} before the loss"
        if start.role != "loss"
        else "the loss went first, with no other series non-finite before it"
    )
    norm = start.surge.of
    how = f"{norm} was calm before it (at most {num(start.surge.ratio)} x its mean)"
    if start.surge.since is not None:
        how = (
            f"{norm} had surged to {num(start.surge.ratio)} x its mean at step "
            f"{start.surge.step}: an optimization blow-up"
        )
    elif start.broke:
        how += f", but the run was in trouble from step {case.damaged[-1]} on"
    elif case.damaged:
        how += f", but the run had gone wrong before, from step {case.damaged[0]} on"
    elif start.resumed is not None:
        how += f", and the run had just resumed, at step {start.resumed.step}"
    else:
        how += ": a bad sample or a layer's numerics"
    if start.jump:
        how = f"{how}; {start.jump.because}"
    return yes(
        f"{where}; {how}",
        start.step,
        measured={
            "first_series": start.role,
            "first_step": start.step,
            "lead_steps": lead,
            "grad_surge": start.surge.ratio,
        },
    )


def _which_fix(case: Case) -> Reply:
    start = origin(case)
    if start.jump:
        because = "the learning rate jumped just before: the schedule comes first"
    elif start.blew_up:
        because = "the blow-up calls for a smaller step: learning rate, warm-up, clipping"
    elif case.damaged:
        because = f"what went wrong from step {case.damaged[0]} on comes first"
    elif start.resumed is not None:
        because = (
            f"it followed the resume at step {start.resumed.step}, and the attempt before had come "
            f"to step {start.resumed.sound_to}: the resume comes first"
        )
    elif start.surge is None:
        because = (
            f"{why_not_known(case, start.step)}: a blow-up cannot be told from a layer's numerics"
        )
    else:
        because = "calm gradients call for a look at the operations: log(0), 0/0, a bad sample"
    last = checkpoint_before(case.manifest, start.began)
    return yes(because, branch=case.manifest.dtype, measured={"checkpoint": last.step})


QUESTIONS: tuple[Question, ...] = (
    Question(
        id="Q1.1",
        asks="Is the loss NaN or infinite at any logged step?",
        answer=_is_it_nan,
        needs=("loss",),
        limits=("nan.absent_records",),
    ),
    Question(id="Q1.2", asks="Which dtype was the run in?", answer=_which_dtype),
    Question(
        id="Q1.3",
        asks="Where did the NaN start?",
        answer=_where_did_it_start,
        limits=("nan.grad_surge",),
    ),
    Question(
        id="Q1.4",
        asks="Which fix fits the evidence?",
        answer=_which_fix,
        limits=("nan.grad_surge",),
    ),
)
