"""What can be said of a run before its launch, from its manifest alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.preflight.keeping import checkpoints, evaluations, seed
from stabdiag.preflight.numerics import clip, epsilon, loss_scaling, precision, weight_decay
from stabdiag.preflight.rates import peak_rate, schedule_length, warmup
from stabdiag.preflight.sanity import sanity_checks
from stabdiag.preflight.settings import launch
from stabdiag.ticks import Sheet, State, TickList
from stabdiag.words import plural

if TYPE_CHECKING:
    from stabdiag.limits import Limits
    from stabdiag.manifest import Manifest

CHECKS = (
    peak_rate,
    warmup,
    schedule_length,
    clip,
    weight_decay,
    epsilon,
    precision,
    loss_scaling,
    checkpoints,
    evaluations,
    seed,
)

_TOLD = {State.TICKED: "fine", State.CROSSED: "look", State.UNKNOWN: "not told"}
_BY_HAND = {State.TICKED: "done", State.CROSSED: "not done", State.UNKNOWN: "to tick by hand"}


def preflight(manifest: Manifest, limits: Limits) -> Sheet:
    """Hold a manifest against what is usual, and list what to try before the launch."""
    at = launch(manifest, limits)
    settings = TickList(
        title="Configuration", words=_TOLD, ticks=tuple(check(at) for check in CHECKS)
    )
    trials = TickList(title="To try before a long run", words=_BY_HAND, ticks=sanity_checks(at))
    return Sheet(
        name="preflight",
        subject=manifest.path or "the manifest",
        summary=_summary(settings),
        lists=(settings, trials),
    )


def _summary(settings: TickList) -> str:
    look, untold = settings.count(State.CROSSED), settings.count(State.UNKNOWN)
    every = plural(len(settings.ticks), "setting")
    if untold == len(settings.ticks):
        return f"Of {every} nothing could be checked: the manifest tells too little."
    needs = "needs" if look <= 1 else "need"
    told = f"; {untold} could not be checked." if untold else "."
    return f"{look or 'None'} of {every} {needs} a look before the launch{told}"
