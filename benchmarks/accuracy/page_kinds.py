"""The kinds of fault and of failure, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scoring import CAUSES, LASTING, Scored


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One way to be wrong: its name in file names, a title, and why it happens."""

    name: str
    title: str
    why: str


KINDS = (
    Kind(
        name="false-spike",
        title="A healthy run, called a spike that recovered",
        why="The data have hard batches or heavy tails, and one loss exceeds all before it: the "
        "log alone does not distinguish this batch from a broken one.",
    ),
    Kind(
        name="false-level",
        title="A healthy run, called a spike that stayed",
        why="The data came in blocks or by a curriculum, and the loss stepped up where a harder "
        "one began, as after a fault; no column says that the data changed.",
    ),
    Kind(
        name="false-climb",
        title="A healthy run, called a divergence",
        why="The level of the loss wanders with the difficulty of the data, slowly enough to look "
        "like a trend in the part that was logged.",
    ),
    Kind(
        name="false-overflow",
        title="A healthy run, called a mixed-precision fault",
        why="The gradient scaler searched for its scale a little longer than its growth interval "
        "explains.",
    ),
    Kind(
        name="false-symptom",
        title="A healthy run with a symptom",
        why="A check outside the tree took something in the log for a fault.",
    ),
    Kind(
        name="false-note",
        title="A healthy run, called a plateau",
        why="A note, not an alarm: the loss fell by less than its noise in that part.",
    ),
    Kind(
        name="missed-spike",
        title="A spike that was missed",
        why="Most are hardly higher than the run's noise; the label comes from the same run "
        "without the fault, which a reader of the log does not have.",
    ),
    Kind(
        name="missed-climb",
        title="A climb that was missed",
        why="The rise is small against the noise, has few points, or swings as widely as it rises: "
        "no trend test is sure of it.",
    ),
    Kind(
        name="missed-overflow",
        title="A mixed-precision fault that was missed",
        why="There are few overflows, and a working scaler has some too.",
    ),
    Kind(
        name="recovery",
        title="A spike, wrong about its recovery",
        why="The loss comes back to about its old level at about the last step that counts: a "
        "little noise decides.",
    ),
    Kind(
        name="cause",
        title="A spike with the wrong cause",
        why="The log shows a sign of another cause, or too weak a sign of the true one.",
    ),
    Kind(
        name="climb-cause",
        title="A divergence with the wrong cause",
        why="The growth of the gradient norm or a weight norm decides the leaf, and this run is "
        "near the limit.",
    ),
    Kind(
        name="jump-or-climb",
        title="A spike called a divergence, or the other way round",
        why="A rise within some hundred steps is both; what came before it decides, by degrees.",
    ),
    Kind(
        name="hidden",
        title="A fault that another event hid",
        why="The log shows two events, and the wrong one was taken for the worse.",
    ),
)
FAULTS = {
    "activations": "inputs so large that half precision overflows",
    "blow-up": "a learning rate so high that the weights blow up",
    "collapse": "enough batches without a gradient to let the loss scale fall without end",
    "empty": "a batch without a valid row, 0/0",
    "endless": "a warm-up that never ends",
    "growing": "weight decay of the wrong sign",
    "harder": "inputs with more and more noise",
    "inverse": "a cosine schedule that goes up",
    "jump": "a learning rate too high for 1 to 3 steps",
    "labels": "a few batches with wrong targets",
    "log0": "a probability of 0, and its logarithm",
    "long-jump": "a learning rate too high for 5 to 15 steps",
    "lost": "a layer initialized again, as by a checkpoint that lacked it",
    "moments": "Adam's second moments scaled down",
    "noise": "noise on the weights of a layer",
    "outlier": "one batch of garbage",
    "overflow": "4 to 12 batches without a gradient",
    "rot": "more and more wrong targets",
    "shrinking": "far too much weight decay",
    "stale": "targets of an earlier batch, with fresh inputs",
    "static": "a fixed loss scale that is too high",
    "stays": "a learning rate too high from a step on",
    "stuck": "one batch handed out many times",
    "unguarded": "a fixed loss scale, and nothing that skips a bad step",
}
BY_NAME = {kind.name: kind for kind in KINDS}
FALSE = {"§1": "hidden", "§3": "false-overflow", "§4": "false-climb", "symptom": "false-symptom"}
MISSED = {"§1": "hidden", "§2": "missed-spike", "§3": "missed-overflow", "§4": "missed-climb"}


def grouped(scored: Sequence[Scored]) -> list[tuple[Kind, list[Scored]]]:
    """The failures by kind, the most frequent first."""
    groups: dict[str, list[Scored]] = {}
    for result in scored:
        if not result.right:
            groups.setdefault(kind_of(result), []).append(result)
    order = sorted(groups, key=lambda name: (-len(groups[name]), name))
    return [(BY_NAME[name], groups[name]) for name in order]


def kind_of(result: Scored) -> str:
    """The kind of a failure."""
    expect, reported = result.run.section, result.report.tree.outcome.section
    if result.healthy and not result.alarm:
        return "false-note"
    if result.healthy and reported == "§2":
        return "false-level" if result.slug in LASTING else "false-spike"
    if result.healthy:
        return FALSE[reported]
    if not result.alarm or reported == "symptom":
        return MISSED[expect]
    if {expect, reported} == {"§2", "§4"}:
        return "jump-or-climb"
    if expect != reported:
        return "hidden"
    if reported == "§2":
        return "cause" if result.run.expect in CAUSES and result.slug in CAUSES else "recovery"
    return "climb-cause" if reported == "§4" else "hidden"


def example(runs: Sequence[Scored]) -> Scored:
    """The run to show: the first of those with the most frequent confusion."""
    pairs = Counter((result.run.expect, result.slug) for result in runs)
    (often, _), *_ = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    return next(result for result in runs if (result.run.expect, result.slug) == often)
