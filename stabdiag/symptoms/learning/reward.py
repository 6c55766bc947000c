"""A reward that fell and stayed down, or never rose."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.roles.names import is_fitness
from stabdiag.model.text import listed, num
from stabdiag.stats.course import measure_course, outer_levels, start_level
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median, usual_gap
from stabdiag.stats.standards import (
    BEYOND_CHANCE,
    MAX_CHANCE,
    MIN_CONSECUTIVE,
    MIN_LONG_LOG,
    MIN_SAMPLE,
    QUARTER,
    TENFOLD,
    TENTH,
    TENTHS,
)
from stabdiag.stats.trend import mann_kendall
from stabdiag.symptoms.learning.causes import without_learning
from stabdiag.symptoms.learning.nonfinite import nonfinite_evidence
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.advice.rates import half_lr
from stabdiag.tree.case import Case
from stabdiag.tree.checkpoint import earlier_checkpoint
from stabdiag.tree.divergence import level_name
from stabdiag.tree.reward import Reward, find_collapsed_reward

# A policy with less than this fraction of its first entropy always takes the same action.
_NO_ENTROPY_LEFT: Final = 0.01

# Trained policies stay within about 10 nats of their reference. Beyond this, and far above its
# early level, the reward model sees texts that it was not trained on (Gao et al. 2023,
# arXiv:2210.10760).
_FAR_FROM_REFERENCE: Final = 30.0
_DRIFT: Final = TENFOLD


@Symptom(
    slug="reward-not-rising",
    title="The reward does not rise",
    needs=("reward",),
    explained_by=("nan", "divergence-unexplained"),
    inconclusive_if=(at_least(MIN_LONG_LOG, "reward"),),
    next_actions=(
        Action(
            Do.CHECK_LOSS_FUNCTION,
            "Print the rewards of one episode, and the advantages with their signs.",
        ),
        Action(
            Do.RERUN, "Run three other seeds: results of reinforcement learning depend on chance."
        ),
    ),
)
def reward_not_rising(case: Case) -> Evidence | None:
    """Has the reward clearly fallen, gone NaN, or never risen since the run began?"""
    lost = _not_finite(case)
    if lost is not None:
        return lost
    collapse, reward = find_collapsed_reward(case), case.history.finite("reward")
    if collapse is not None:
        # A policy that keeps learning may occasionally lose less than that.
        has_lost_most = collapse.best - collapse.last >= collapse.last - collapse.first
        return _fallen(case, collapse) if has_lost_most else None
    if len(reward) < MIN_LONG_LOG:
        return _falls_in_a_short_log(case) or _never_changes(case)
    if reward.steps[0] > max(TENTHS, 2 * usual_gap(reward.steps)):
        return None
    return _flat(case)


def _not_finite(case: Case) -> Evidence | None:
    """Report a reward that is not finite from a step to the end."""
    reward = case.history.series["reward"]

    def first(step: int) -> Action:
        return Action(
            Do.CHECK_MODEL,
            f"Check the actions and weights of the policy at {case.unit} {step} for NaN; if they "
            "are finite, find out why no episode ends.",
            step=step,
        )

    subject = f"The reward {reward.column!r}"
    return nonfinite_evidence(case, reward, kind="The reward", subject=subject, first=first)


def _fallen(case: Case, collapse: Reward) -> Evidence:
    """Report a reward that fell; it is an error if the whole gain is collapse."""
    gained, step = collapse.best - collapse.first, collapse.fall_step
    rate = half_lr(case, step)
    reload = earlier_checkpoint(case, step).reload(
        f"the fall of the reward, from about {case.unit} {step} on"
    )
    first = reload.and_then(Do.LOWER_LR, str(rate), **rate.change)
    next_actions = (*reward_not_rising.next_actions, *_log_more(case))
    if is_fitness(collapse.column):
        first, next_actions = _restarted_evolution(case, step), ()
    return Evidence(
        because=f"The reward {collapse.column!r} fell from {num(collapse.best)} near {case.unit} "
        f"{step} to {num(collapse.last)} ({level_name(collapse.points)}); it began "
        f"at {num(collapse.first)}.",
        title="The reward fell and stayed down",
        severity=Severity.ERROR if collapse.last <= collapse.first + TENTH * gained else None,
        step=step,
        measured={"first": collapse.first, "best": collapse.best, "last": collapse.last},
        first=first,
        next_actions=next_actions,
    )


def _falls_in_a_short_log(case: Case) -> Evidence | None:
    """Report a reward that keeps falling in a log that is too short to compare levels.

    The last three are below the first three, by a quarter of their level, or by a multiple of it if
    they are fewer than eight.
    """
    reward = case.history.finite("reward")
    x = reward.values
    if not 2 * MIN_CONSECUTIVE <= len(x) < case.limits.divergence.min_points:
        return None
    begun, ends = x[:MIN_CONSECUTIVE], x[-MIN_CONSECUTIVE:]
    first, last = median(begun), median(ends)
    least = (QUARTER if len(x) >= MIN_SAMPLE else TENFOLD) * abs(first)
    is_below = ends.max() < begun.min() and first - last > least
    if not is_below or mann_kendall(-x) >= MAX_CHANCE or is_fitness(reward.column):
        return None
    step = int(reward.steps[x.argmax()])
    return Evidence(
        because=f"The reward {reward.column!r} went from {num(float(x[0]))} to "
        f"{num(float(x[-1]))} in {len(x)} records: the last {MIN_CONSECUTIVE} are below the first "
        f"{MIN_CONSECUTIVE}.",
        title="The reward falls",
        step=step,
        measured={"first": first, "last": last},
        first=Action(
            Do.CHECK_LOSS_FUNCTION,
            "Print the rewards of one episode, and the advantages with their signs; if both are "
            "right, run again with half the learning rate.",
            also=(Do.LOWER_LR,),
        ),
        next_actions=(reward_not_rising.next_actions[1], *_log_more(case)),
    )


def _never_changes(case: Case) -> Evidence | None:
    """Report a reward that is the same in all records; it may be the highest possible one."""
    reward = case.history.finite("reward")
    if len(reward) < 2 * MIN_CONSECUTIVE or np.ptp(reward.values):
        return None
    first, last = int(reward.steps[0]), int(reward.steps[-1])
    value = float(reward.values[0])
    return Evidence(
        because=f"The reward {reward.column!r} is {num(value)} in all {len(reward)} records, from "
        f"{case.unit} {first} to {last}.",
        title="The reward never changes",
        severity=Severity.NOTE,
        step=first,
        measured={"first": value, "last": value},
        first=Action(
            Do.CHECK_MODEL,
            f"If {num(value)} is not the highest possible reward, print the actions of one "
            "episode: a policy that always takes the same one needs more exploration.",
        ),
    )


def _restarted_evolution(case: Case, step: int) -> Action:
    """Return the action for an evolution whose population got worse."""
    return Action(
        Do.RELOAD_CHECKPOINT,
        f"Continue from the population of {case.unit} {step}, keep its best individuals unchanged "
        "in each generation, and check that their evaluation did not change there.",
        step=step,
    )


def _log_more(case: Case) -> tuple[Action, ...]:
    """Return the action to log what describes a policy, or nothing if all of it was logged."""
    if is_fitness(case.history.series["reward"].column):
        return ()
    names = {
        "policy_entropy": "the policy's entropy",
        "other_loss": "the value loss",
        "policy_kl": "the KL of each update",
    }
    missing = [name for role, name in names.items() if not case.history.has(role)]
    return (Action(Do.LOG_MORE, f"Log {listed(missing)}."),) if missing else ()


def _flat(case: Case) -> Evidence | None:
    """Report a reward without a trend, and without a tenth above the first by more than chance.

    A reward that is mostly at its highest value does not have to rise.
    """
    reward = case.history.finite("reward")
    x, steps, tenths = reward.values, reward.steps, measure_course(reward.values, TENTHS)
    parts = tenths.rows(x)
    means, error = parts.mean(axis=1), float(np.sqrt(2 * parts.var(axis=1).mean() / tenths.size))
    rose = means.max() - means[0] > BEYOND_CHANCE * error or mann_kendall(x) < MAX_CHANCE
    if rose or (x.max() > 0 and median(x) >= x.max()):
        return None
    begun, ends = float(means[0]), float(means[-1])
    first, last = int(steps[0]), int(steps[-1])
    small = Action(
        Do.TRY_SMALL,
        "Run the same code on a task that is solved within minutes, such as CartPole: if the "
        "reward rises there, look at exploration and rewards; otherwise look at the code.",
    )
    collapsed = policy_entropy_collapsed
    entropy = collapsed.evidence(case)
    if entropy is not None:
        return Evidence(
            because=f"From {case.unit} {first} to {last} the reward {reward.column!r} never rose "
            f"beyond its noise: {num(begun)} in the first tenth and {num(ends)} in the last. "
            "The policy no longer explores.",
            step=first,
            measured={"first": begun, "best": float(means.max()), "last": ends},
            first=entropy.first,
            next_actions=(*collapsed.next_actions, *reward_not_rising.next_actions, small),
        )
    evidence = without_learning(
        case,
        reward_not_rising,
        step=first,
        because=f"From {case.unit} {first} to {last} the reward {reward.column!r} never rose "
        f"beyond its noise: {num(begun)} in the first tenth and {num(ends)} in the last",
        measured={"first": begun, "best": float(means.max()), "last": ends},
        first=small,
    )
    own_actions = evidence.next_actions
    next_actions = reward_not_rising.next_actions if own_actions is None else own_actions
    return replace(evidence, next_actions=(*next_actions, *_log_more(case)))


@Symptom(
    slug="policy-entropy-collapsed",
    severity=Severity.NOTE,
    title="The policy no longer explores",
    needs=("policy_entropy",),
    explained_by=("nan",),
    preconditions=(at_least(MIN_LONG_LOG, "policy_entropy"),),
    next_actions=(
        Action(Do.LOWER_LR, "Lower the learning rate, or clip the policy update more tightly."),
    ),
)
def policy_entropy_collapsed(case: Case) -> Evidence | None:
    """Has the entropy of a policy fallen to almost nothing?

    The entropy of continuous actions may be negative, and has no such floor.
    """
    entropy = case.history.finite("policy_entropy")
    begun, last = outer_levels(entropy.values)
    begun = max(begun, start_level(entropy.values))
    if entropy.values.min() < 0 or begun <= 0 or last > _NO_ENTROPY_LEFT * begun:
        return None
    gone = entropy.values <= _NO_ENTROPY_LEFT * begun
    step = int(entropy.steps[int(gone.argmax())])
    return Evidence(
        because=f"The entropy {entropy.column!r} fell from {num(begun)} to {num(last)}, below "
        f"{_NO_ENTROPY_LEFT:.0%} of its start from {case.unit} {step} on: the policy always takes "
        "the same action.",
        step=step,
        measured={"first": begun, "last": last},
        first=Action(
            Do.CHANGE_MODEL,
            "Raise the weight of the entropy bonus, and look at the actions of a few episodes: "
            "a solved task needs no exploration, a low reward does.",
        ),
    )


@Symptom(
    slug="policy-drifts",
    severity=Severity.NOTE,
    title="The policy drifts far from its reference",
    needs=("policy_kl", "reward"),
    explained_by=("nan",),
    preconditions=(at_least(MIN_LONG_LOG, "policy_kl"),),
    next_actions=(
        Action(Do.LOWER_LR, "Lower the learning rate, or make fewer updates per batch of samples."),
    ),
)
def policy_drifts(case: Case) -> Evidence | None:
    """Has the KL divergence of a policy grown far beyond its level in trained policies?"""
    kl = case.history.finite("policy_kl")
    reached = levels(kl.values, TENTHS)
    begun, last = float(reached[:2].min()), float(reached[-1])
    if last < _FAR_FROM_REFERENCE or last < _DRIFT * begun:
        return None
    far = np.flatnonzero(kl.values >= _FAR_FROM_REFERENCE)
    step = int(kl.steps[far[0]])
    return Evidence(
        because=f"The KL divergence {kl.column!r} went from {num(begun)} to {num(last)}, above "
        f"{num(_FAR_FROM_REFERENCE)} from {case.unit} {step} on: a reward this far from the "
        "reference may be exploited, not earned.",
        step=step,
        measured={"first": begun, "last": last},
        first=Action(
            Do.CHECK_EVALUATION,
            f"Read 20 samples from before and after {case.unit} {step}, and raise the weight of "
            "the KL penalty if they got worse while the reward rose.",
            step=step,
        ),
    )
