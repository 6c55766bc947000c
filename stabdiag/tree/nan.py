"""§1: is the loss NaN or infinite, where did that start, and what preceded it?"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from stabdiag.model.findings import Panel
from stabdiag.model.frozen import frozen
from stabdiag.model.history import History, Series
from stabdiag.model.roles.names import name_words
from stabdiag.model.text import EXACT_FIGURES, num, plural
from stabdiag.stats.shape import FP32_SQUARE_OVERFLOW
from stabdiag.stats.standards import HUNDREDFOLD, MIN_CONSECUTIVE
from stabdiag.tree.case import Case, Reply, no, unknown, yes
from stabdiag.tree.checkpoint import earlier_checkpoint
from stabdiag.tree.drivers import Surge, find_surge, why_lead_up_unknown
from stabdiag.tree.panels import lookback_start, lr_panel


@frozen
class FirstBad:
    """The first non-finite loss, the last finite step before it (or None), and their count.

    ``is_permanent`` means that no later loss is finite.
    """

    step: int
    last_good: int | None
    count: int
    total: int
    is_permanent: bool


@frozen
class Origin:
    """The start of a NaN and its lead-up, from the log.

    ``bad`` is the first non-finite loss. ``role`` is the first non-finite series, at ``step``: the
    loss itself or a series before it. ``surge`` is None if the log does not show the gradient norm.
    ``jump`` is the learning-rate jump that led to the NaN, if any. ``was_damaged`` means that an
    error began shortly before. ``exploded_to`` is the last finite loss if it exploded and the
    gradient norm does not show it. ``began`` is the first step of all trouble: a sound checkpoint
    precedes it.
    """

    bad: FirstBad
    role: str
    step: int
    surge: Surge | None
    jump: Panel | None
    was_damaged: bool
    exploded_to: float | None
    began: int

    @property
    def surge_start(self) -> int | None:
        """The first step of a surge of the gradient norm, or None."""
        return self.surge.since if self.surge else None

    @property
    def blew_up(self) -> bool:
        """Whether the optimization blew up: gradients or loss surged, or an error began before."""
        return self.surge_start is not None or self.was_damaged or self.exploded_to is not None


# Measured in the forward pass, before the loss of the same step is computed.
FORWARD: Final = frozenset({"activation_norm", "max_attention_logit", "amax"})

# Series that may be non-finite before the loss.
_MAY_GO_FIRST = FORWARD | {"grad_norm", "weight_norm"}

# The largest finite fp16 number.
FP16_MAX: Final = float(np.finfo(np.float16).max)

_EMBEDDINGS = frozenset({"embed", "embedding", "embeddings", "emb", "wte", "wpe", "tok"})
_HEADS = frozenset({"head", "logits", "output", "out", "final", "classifier"})


def find_first_bad(case: Case) -> FirstBad | None:
    """Return the first NaN or infinite loss, or None."""
    loss = case.history.series["loss"]
    bad = np.flatnonzero(~np.isfinite(loss.values))
    if not len(bad):
        return None
    at = int(bad[0])
    return FirstBad(
        step=int(loss.steps[at]),
        last_good=int(loss.steps[at - 1]) if at else None,
        count=len(bad),
        total=len(loss),
        is_permanent=len(bad) == len(loss) - at,
    )


def require_bad_loss(case: Case) -> FirstBad:
    """Return the first non-finite loss; raise LookupError if there is none."""
    bad = find_first_bad(case)
    if bad is None:
        raise LookupError("Q1.2 to Q1.4 require a NaN")
    return bad


def origin(case: Case) -> Origin:
    """Return the start of the NaN."""
    bad = require_bad_loss(case)
    first = {"loss": bad.step}
    for role, series in case.history.series.items():
        # A scaler skips single overflows, so only the stretch that reaches the NaN counts.
        if role.partition("/")[0] in _MAY_GO_FIRST and not np.isfinite(series.values).all():
            first[role] = _start_of_last_stretch(series, bad.step)
    role = min(first, key=lambda name: (first[name], _order(name)))
    step = first[role]
    surge = find_surge(case, step)
    jump = lr_panel(case, lookback_start(case, step), step)
    # A jump before the damage is an earlier start.
    panels = (
        jump,
        *(lr_panel(case, lookback_start(case, error), error) for error in case.error_steps),
    )
    jumps = (at for panel in panels if panel.holds for at in panel.steps)
    damage = () if case.damage_start is None else (case.damage_start,)
    surged = () if surge is None or surge.since is None else (surge.since,)
    return Origin(
        bad=bad,
        role=role,
        step=step,
        surge=surge,
        jump=jump if jump.holds else None,
        was_damaged=bool(case.error_steps)
        and bad.step - case.error_steps[-1] <= case.recovery_steps,
        exploded_to=_last_loss_if_exploded(case, bad) if surge is None else None,
        began=min((step, *surged, *case.error_steps, *jumps, *damage)),
    )


def _last_loss_if_exploded(case: Case, bad: FirstBad) -> float | None:
    """Return the last loss before the NaN if it is far above all others and their first.

    A single bad batch is as high only once: the loss has to be beyond what fp32 can square.
    """
    x = case.history.finite("loss").until(bad.step).values
    is_exploded = len(x) > 1 and x[-1] > FP32_SQUARE_OVERFLOW and x[-1] > HUNDREDFOLD * x[:-1].max()
    return float(x[-1]) if is_exploded else None


def _order(role: str) -> tuple[int, int, list[int], str]:
    """Return a sort key: the order of the roles within a training step.

    Activations precede the loss, from the embedding to the head. The gradient norm follows the loss
    and is a consequence of it, not its cause.
    """
    kind, _, layer = role.partition("/")
    words = set(name_words(layer))
    depth = 0 if words & _EMBEDDINGS else 2 if words & _HEADS else 1
    numbers = [int(number) for number in re.findall(r"\d+", layer)]
    return (0 if kind in FORWARD else 1 if kind == "loss" else 2, depth, numbers, layer)


@frozen
class Peak:
    """The largest finite value of a series, and its step."""

    column: str
    value: float
    step: int


def activation_near_fp16_max(history: History, last: int) -> Peak | None:
    """Return the largest activation up to a step if it is within a factor of 2 of 65504.

    A norm over many values may safely exceed 65504, so only columns of maxima count.
    """
    peaks = []
    for series in history.group("activation_norm").values():
        finite = series.finite().until(last)
        if len(finite) and {"max", "amax", "maximum"} & set(name_words(series.column)):
            at = int(np.argmax(np.abs(finite.values)))
            value = float(abs(finite.values[at]))
            peaks.append(Peak(column=series.column, value=value, step=int(finite.steps[at])))
    peak = max(peaks, key=lambda peak: (peak.value, peak.column), default=None)
    return None if peak is None or peak.value <= FP16_MAX / 2 else peak


def describe_near_fp16_max(peak: Peak, unit: str) -> str:
    """Return a clause on an activation near the fp16 maximum."""
    value, highest = num(peak.value, EXACT_FIGURES), num(FP16_MAX, EXACT_FIGURES)
    return (
        f"{peak.column!r} reached {value} at {unit} {peak.step}, near the fp16 maximum of {highest}"
    )


def infinite_embedding_gradient(case: Case) -> str | None:
    """Return the column of an embedding's gradient norm that was infinite up to the NaN."""
    bad = require_bad_loss(case).step
    columns = [
        series.column
        for layer, series in case.history.group("grad_norm").items()
        if _EMBEDDINGS.intersection(name_words(layer))
        and _start_of_last_stretch(series, bad) <= bad
        and np.isinf(series.until(bad).values[-MIN_CONSECUTIVE:]).any()
    ]
    return min(columns, default=None)


def _start_of_last_stretch(series: Series, bad: int) -> int:
    """Return the start of the stretch of non-finite values that reaches ``bad``."""
    finite = series.steps[np.isfinite(series.values) & (series.steps < bad)]
    after = series.steps[series.steps > finite[-1]] if len(finite) else series.steps
    nonfinite = after[~np.isfinite(series.values[-len(after) :])] if len(after) else after
    return int(nonfinite[0]) if len(nonfinite) else bad + 1


def _is_it_nan(case: Case) -> Reply:
    bad = find_first_bad(case)
    total = len(case.history.series["loss"])
    if bad is None:
        because = "the only loss is finite"
        if total > 1:
            because = f"all {total} logged losses are finite"
        if case.history.left_out:
            return unknown(
                f"{because}, but not all of the log was read", measured={"logged": total}
            )
        return no(because, measured={"logged": total})
    good = f"the last finite loss is at {case.unit} {bad.last_good}"
    if bad.last_good is None:
        good = "no earlier loss is finite"
    return yes(
        f"the loss is non-finite at {case.unit} {bad.step}; {good}; {bad.count} of {total} losses "
        f"{'is' if bad.count == 1 else 'are'} non-finite",
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
        return unknown("the dtype is not in the manifest or the log")
    source = case.manifest.inferred.get("dtype")
    because = f"{dtype} (inferred: {source})" if source else dtype
    return yes(because, branch=dtype, measured={"dtype": dtype})


def _where_did_it_start(case: Case) -> Reply:
    start = origin(case)
    if start.surge is None:
        return unknown(f"{why_lead_up_unknown(case, start.step)}, so the lead-up is unknown")
    lead = start.bad.step - start.step
    where = "the loss went non-finite first"
    if start.role != "loss":
        where = f"{start.role} went non-finite {plural(lead, case.unit)} before the loss"
    if start.role != "loss" and not lead:
        where = f"{start.role} was non-finite at the same {case.unit}, ahead of the loss"
    norm, ratio = start.surge.name, num(start.surge.ratio)
    lead_up = f"{norm} was calm before it (at most {ratio} x its mean)"
    if start.surge.since is not None:
        lead_up = (
            f"{norm} surged to {ratio} x its mean at {case.unit} {start.surge.step} (a blow-up)"
        )
    elif case.error_steps:
        lead_up += f", but an earlier error began at {case.unit} {case.error_steps[0]}"
    if start.jump:
        lead_up += f"; {start.jump.because}"
    return yes(
        f"{where}; {lead_up}",
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
        because = "the learning rate jumped just before: fix the schedule first"
    elif start.blew_up:
        because = "a blow-up needs smaller steps: lower learning rate, warm-up, clipping"
    elif case.error_steps:
        because = f"fix the error from {case.unit} {case.error_steps[0]} on first"
    elif start.surge is None:
        why = why_lead_up_unknown(case, start.step)
        because = f"{why}: a blow-up and a layer's numerics look the same"
    else:
        because = "with calm gradients, check the operations: log(0), 0/0, a bad sample"
    last = earlier_checkpoint(case, start.began)
    return yes(because, branch=case.manifest.dtype, measured={"checkpoint": last.step})


ANSWERS: Final = {
    "Q1.1": _is_it_nan,
    "Q1.2": _which_dtype,
    "Q1.3": _where_did_it_start,
    "Q1.4": _which_fix,
}
