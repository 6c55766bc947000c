"""The actions that follow from a comparison with a baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stabdiag.model.baseline import BaselineComparison, BaselineStatus, SettingDifference
from stabdiag.model.findings import Action, ActionKind, Finding, Scalar
from stabdiag.model.text import SHOWN_NAMES, num
from stabdiag.symptoms.baseline.outcomes import BY_STATUS, UNLIKE, WORSE

# The kinds of action by the setting that differs: for a value above the references, and below.
_ACTIONS_BY_SETTING: Final = {
    "peak_lr": (ActionKind.LOWER_LR, ActionKind.RAISE_LR),
    "lr": (ActionKind.LOWER_LR, ActionKind.RAISE_LR),
    "warmup_steps": (ActionKind.FIX_SCHEDULE, ActionKind.ADD_WARMUP),
    "total_steps": (ActionKind.FIX_SCHEDULE, ActionKind.FIX_SCHEDULE),
    "schedule": (ActionKind.FIX_SCHEDULE, ActionKind.FIX_SCHEDULE),
    "grad_clip": (ActionKind.CLIP_GRADIENTS, ActionKind.RAISE_CLIP),
    "weight_decay": (ActionKind.LOWER_WEIGHT_DECAY, ActionKind.RAISE_WEIGHT_DECAY),
    "dtype": (ActionKind.CHANGE_DTYPE, ActionKind.CHANGE_DTYPE),
    "batch_size": (ActionKind.CHANGE_BATCH, ActionKind.CHANGE_BATCH),
    "optimizer": (ActionKind.CHANGE_OPTIMIZER, ActionKind.CHANGE_OPTIMIZER),
    "epsilon": (ActionKind.CHANGE_OPTIMIZER, ActionKind.CHANGE_OPTIMIZER),
}
_OTHER: Final = (ActionKind.CHECK_SETTINGS, ActionKind.CHECK_SETTINGS)

_SAME_TASK: Final = Action(
    ActionKind.CHECK_SETTINGS,
    "Check that run and references have the same task, dataset, model and loss; if not, give "
    "other references.",
)


def format_value(value: Scalar) -> str:
    """Return the value of a setting as a report shows it."""
    return num(value) if isinstance(value, float) else str(value)


def baseline_actions(
    comparison: BaselineComparison, related: Sequence[Finding]
) -> Iterator[Action]:
    """Yield what to do: the settings that differ first, then what was found around the step."""
    outcome = BY_STATUS[comparison.status]
    if outcome not in (WORSE, UNLIKE):
        yield from _quiet_actions(comparison)
        return
    rate = comparison.learning_rate
    for difference in comparison.settings[:SHOWN_NAMES]:
        yield _reset(difference)
    if not comparison.settings and rate is not None:
        high, low = _ACTIONS_BY_SETTING["lr"]
        yield Action(
            high if rate.higher else low,
            f"Find why the learning rate differs from {comparison.unit} {rate.step}: it is "
            f"{num(rate.level)} in this run and {num(rate.reference)} in the references.",
            also=(ActionKind.FIX_SCHEDULE,),
            setting="lr",
            from_=rate.level,
            to=rate.reference,
            step=rate.step,
        )
    for finding in related[:1]:
        yield Action(
            ActionKind.SEE_FINDING,
            f"Look at {finding.slug} first: {finding.first_action}".rstrip(": "),
            step=finding.step,
        )
    if outcome is UNLIKE:
        yield _SAME_TASK
    elif not comparison.settings and rate is None:
        settings_text = (
            "settings that both name are the same"
            if comparison.settings_known
            else "settings are not known"
        )
        first = comparison.first_to_leave
        role = "loss" if first is None else first.name
        at = comparison.step if first is None else first.step
        yield Action(
            ActionKind.CHECK_SETTINGS,
            f"Compare this run with {comparison.references[0]} at {comparison.unit} {at}, where "
            f"the {role} leaves first: the {settings_text}.",
            step=at,
        )
    if outcome is WORSE and not comparison.task_known:
        yield _SAME_TASK
    yield from outcome.next_actions


def _reset(difference: SettingDifference) -> Action:
    """Return the action that gives a setting the value of the references."""
    value, reference = difference.value, difference.reference
    numeric = isinstance(value, float) and isinstance(reference, float)
    higher = numeric and float(value or 0) > float(reference or 0)
    kind = _ACTIONS_BY_SETTING.get(difference.key, _OTHER)[0 if higher else 1]
    return Action(
        kind,
        f"Set {difference.key} to {format_value(reference)} as in the references (now "
        f"{format_value(value)}), and run again.",
        setting=difference.key,
        from_=value,
        to=reference,
    )


def _quiet_actions(comparison: BaselineComparison) -> Iterator[Action]:
    if comparison.is_unexplained:
        yield Action(
            ActionKind.CHECK_EVALUATION,
            "Evaluate this run and a reference on the same held-out data; if this run is worse "
            "there, look for targets in its inputs, and for batches that repeat.",
            also=(ActionKind.INSPECT_DATA,),
        )
    elif comparison.status is BaselineStatus.BETTER:
        same = "evaluation is" if comparison.task_known else "task, data and evaluation are"
        it = "it is" if comparison.task_known else "they are"
        yield Action(
            ActionKind.CHECK_EVALUATION,
            f"Check that the {same} the same; if {it}, take this run as a reference.",
        )
    elif comparison.status is BaselineStatus.UNUSABLE:
        odd_one = comparison.odd_one
        yield Action(
            ActionKind.CHECK_SETTINGS,
            "Give other references: good runs of the same task that log a loss over the same steps."
            if odd_one is None
            else f"Give at least 4 references, or leave {odd_one.name} out.",
        )
    else:
        yield Action(ActionKind.DO_NOTHING, "Nothing has to be done: the run is back in the band.")
