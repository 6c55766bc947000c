"""A failing run next to a good one: the settings that differ, and the likely cause."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Final

from stabdiag.comparison.ends import FinalLevel, split_by_decrease, split_by_end
from stabdiag.comparison.outcomes import RUN_FAILS
from stabdiag.comparison.settings import explaining, first_values, join_words
from stabdiag.model.comparison import ComparedRun, Comparison, ComparisonKind, Difference, same
from stabdiag.model.findings import Action, ActionKind, Finding, Scalar, Severity
from stabdiag.model.manifest.parsing import number, plain
from stabdiag.model.text import clipped, num

# At most this many suspects are named.
_MAX_SUSPECTS: Final = 5


class Family(Enum):
    """A family of settings, and the words in their keys."""

    PRECISION = re.compile(
        r"(^|_)(dtype|\w*precision|fp16\w*|bf16\w*|fp8|tf32|amp\w*|autocast\w*|half"
        r"|(static_)?loss_scal\w*|grad_scal\w*|growth_interval)(_|$)"
    )
    DISTRIBUTION = re.compile(
        r"(^|_)(world_size|n?_?gpus?|num_gpus|gpu_count|ngpu|nodes|num_nodes|nnodes|devices"
        r"|num_devices|nproc\w*|num_processes|processes|ranks|dp\w*|ddp\w*|fsdp\w*|zero\w*"
        r"|deepspeed\w*|strategy|distributed\w*|\w*parallel\w*|accelerator)(_|$)"
    )
    DATA = re.compile(
        r"(^|_)(data\w*|corpus|corpora|(train|training)_(file|path|size|set|split|samples)"
        r"|(num|n|max)_(train_)?(samples|examples|images|documents)|subset|split|shuffle"
        r"|tokeni[sz]er\w*|augment\w*|fraction)(_|$)"
    )
    RATE = re.compile(r"(^|_)(lr|learning_rate|peak_lr|warm\w*|sched\w*|lr_\w+)(_|$)")
    SEED = re.compile(r"seed$")
    OTHER = re.compile(r"")


def find_family(key: str) -> Family:
    """Return the family of a setting by its key."""
    words = plain(key)
    return next(family for family in Family if family.value.search(words))


# Settings in file and folder names, for runs without a recorded configuration.
_IN_NAME: Final[Mapping[str, re.Pattern[str]]] = {
    "dtype": re.compile(
        r"(?<![a-z0-9])(fp16|bf16|fp32|fp8|tf32|float16|bfloat16|float32)(?![a-z0-9])"
    ),
    "gpus": re.compile(r"(?<![a-z0-9])(\d{1,4}|one|single|multi)[-_]?gpus?(?![a-z0-9])"),
    "data": re.compile(
        r"(?<![a-z0-9])(tiny|full|subset|small|all|overfit|one[-_]?batch)"
        r"(?:[-_]?data(?:set)?)?(?![a-z0-9])"
    ),
}


def settings_in_label(label: str) -> dict[str, str]:
    """Return the settings that the name of a run mentions, such as its dtype.

    >>> settings_in_label("gpt2-fp16_8gpus")
    {'dtype': 'fp16', 'gpus': '8'}
    """
    words = label.lower()
    matches = {key: pattern.search(words) for key, pattern in _IN_NAME.items()}
    return {key: match[1] for key, match in matches.items() if match}


def run_fails(comparison: Comparison) -> Iterator[Finding]:
    """Find runs that fail next to good ones, with the settings that differ as suspects.

    A run that learns less than another counts if precision or distribution differ: they should not
    matter, unlike the model or the learning rate.
    """
    if comparison.kind not in (ComparisonKind.SEEDS, ComparisonKind.RERUNS):
        return
    failed, sound = split_by_end(comparison.runs, comparison.limits)
    is_lagging = not failed
    if is_lagging and comparison.kind is ComparisonKind.RERUNS:
        failed, sound = split_by_decrease(comparison.runs, comparison.limits)
    if not failed:
        return
    suspects = find_suspects(comparison, failed, sound)
    if is_lagging and leading_family(suspects) not in (Family.PRECISION, Family.DISTRIBUTION):
        return
    steps = [] if is_lagging else [end.step for end in failed if end.step is not None]
    step = min(steps, default=None)
    yield RUN_FAILS.finding(
        " ".join(filter(None, [_ends(failed, sound), _settings(suspects), _conclusion(suspects)])),
        _first_action(suspects, failed, sound),
        next_actions=_next_actions(suspects, failed, sound),
        step=step,
        measured={
            "failed": len(failed),
            "succeeded": len(sound),
            **{f"end of {end.run.label}": end.last for end in [*failed, *sound][:_MAX_SUSPECTS]},
            **first_values(suspects),
        },
        title="A run learns less than another" if is_lagging else None,
        severity=Severity.WARNING if is_lagging else None,
    )


def find_suspects(
    comparison: Comparison, failed: Sequence[FinalLevel], sound: Sequence[FinalLevel]
) -> tuple[Difference, ...]:
    """Return the settings whose values separate failed runs from good ones, if any.

    Configurations take precedence over the names of the runs.
    """
    configured = [
        difference
        for difference in explaining(comparison.differences)
        if _separates(difference, failed, sound)
    ]
    if configured:
        return tuple(configured)
    mentioned = {end.run.label: settings_in_label(end.run.label) for end in [*failed, *sound]}
    keys = dict.fromkeys(key for values in mentioned.values() for key in values)
    candidates = (
        Difference(
            key=key,
            values={label: settings.get(key) for label, settings in mentioned.items()},
            in_name=True,
        )
        for key in keys
        if all(key in values for values in mentioned.values())
    )
    return tuple(difference for difference in candidates if _separates(difference, failed, sound))


def _separates(
    difference: Difference, failed: Sequence[FinalLevel], sound: Sequence[FinalLevel]
) -> bool:
    """Return True if no failed run shares its value with a sound run."""
    values = difference.values
    bad = {same(values[end.run.label]) for end in failed if end.run.label in values}
    good = {same(values[end.run.label]) for end in sound if end.run.label in values}
    return bool(bad) and bool(good) and bad.isdisjoint(good)


def leading_family(suspects: Sequence[Difference]) -> Family | None:
    """Return the family that the suspects point to, or None if there are several.

    A batch size, a learning rate or a number of steps often depends on the number of devices, the
    dtype or the amount of data.
    """
    families = {find_family(suspect.key) for suspect in suspects}
    leading = families & {Family.PRECISION, Family.DISTRIBUTION, Family.DATA}
    families = leading or families - ({Family.SEED} if len(families) > 1 else set())
    return families.pop() if len(families) == 1 else None


def _ends(failed: Sequence[FinalLevel], sound: Sequence[FinalLevel]) -> str:
    parts = [end.described() for end in failed[:3]]
    if len(failed) > 3:
        parts.append(f"and {len(failed) - 3} more runs fail")
    good = sound[0].described()
    ending = f", as do {len(sound) - 1} other sound runs" if len(sound) > 2 else ""
    if len(sound) == 2:
        ending = f", and {sound[1].described()}"
    return f"{'; '.join(parts)}. {good}{ending}."


def _settings(suspects: Sequence[Difference]) -> str:
    if not suspects:
        return ""
    is_in_name = suspects[0].in_name
    listed = "; ".join(map(_in_words, suspects[:_MAX_SUSPECTS]))
    hidden = len(suspects) - _MAX_SUSPECTS
    ending = f"; and {hidden} more" if hidden > 0 else ""
    source = "By their names, the runs" if is_in_name else "The runs"
    return f"{source} differ in {listed}{ending}."


def _in_words(difference: Difference) -> str:
    parts = [f"{value} in {join_words(labels)}" for value, labels in difference.by_value]
    return f"{difference.key} ({', '.join(parts)})"


_CONCLUSIONS: Final[Mapping[Family, str]] = {
    Family.PRECISION: "precision: the run itself trains, and the number format breaks it",
    Family.DISTRIBUTION: (
        "distribution: model, loss and data work on fewer devices, and what changes with the "
        "number of processes does not"
    ),
    Family.DATA: (
        "the data: model, loss and optimizer can learn, and the data of the failed run differs"
    ),
    Family.RATE: "the learning rate",
    Family.SEED: "a run near its stability limit, where the seed decides, or a race",
}


def _conclusion(suspects: Sequence[Difference]) -> str:
    if not suspects:
        return (
            "No recorded setting separates them: the run is near its stability limit, where the "
            "seed decides, or a fault hits only some runs."
        )
    family = leading_family(suspects)
    if family is None:
        return "Each of these settings is a suspect."
    if family is Family.OTHER:
        return (
            f"{suspects[0].key} is the suspect."
            if len(suspects) == 1
            else "These are the suspects."
        )
    others = [suspect.key for suspect in suspects if find_family(suspect.key) is not family]
    ending = f"; {join_words(others)} may follow from it or matter as well" if others else ""
    return f"This points to {_CONCLUSIONS[family]}{ending}."


def _first_action(
    suspects: Sequence[Difference],
    failed: Sequence[FinalLevel],
    sound: Sequence[FinalLevel],
) -> Action:
    bad, good = failed[0].run, sound[0].run
    family = leading_family(suspects) if suspects else Family.SEED
    key = _find_key(suspects, family)
    if family is Family.PRECISION:
        return _change_precision(suspects, bad, good)
    if family is Family.DISTRIBUTION:
        return Action(
            ActionKind.CHECK_RANKS,
            f"Check in {bad.label} what depends on the number of processes: the sampler's "
            "set_epoch() and shards, gradients averaged and not summed, equal initial weights, "
            "and the learning rate for the larger batch.",
            also=(ActionKind.FIX_LOADER,),
            setting=key,
        )
    if family is Family.DATA:
        return Action(
            ActionKind.INSPECT_DATA,
            f"Look at the examples that {bad.label} uses and {good.label} does not: labels, "
            "preprocessing, order, empty or damaged records.",
            also=(ActionKind.CHECK_LABELS,),
            setting=key,
        )
    if family is Family.SEED:
        return Action(
            ActionKind.LOWER_LR,
            "Lower the peak learning rate or warm up longer, and clip the gradient norm: runs that "
            "fail by chance are near the stability limit.",
            also=(ActionKind.ADD_WARMUP, ActionKind.CLIP_GRADIENTS),
            setting="peak_lr",
        )
    if len(suspects) == 1:
        return _use_sound_value(suspects[0], bad, good, family)
    return Action(
        ActionKind.CHECK_SETTINGS,
        f"Find the setting that decides: start from {good.label} and switch one setting at a time "
        f"to its value in {bad.label}, {suspects[0].key} first.",
        setting=suspects[0].key,
    )


def _find_key(suspects: Sequence[Difference], family: Family | None) -> str | None:
    return next((suspect.key for suspect in suspects if find_family(suspect.key) is family), None)


def _change_precision(
    suspects: Sequence[Difference], bad: ComparedRun, good: ComparedRun
) -> Action:
    dtypes = next((suspect.values for suspect in suspects if suspect.key == "dtype"), {})
    bad_dtype, good_dtype = dtypes.get(bad.label), dtypes.get(good.label)
    if bad_dtype in ("fp16", "float16"):
        return Action(
            ActionKind.CHANGE_DTYPE,
            "Train in bf16 instead of fp16. Without bf16 hardware, scale the loss dynamically and "
            "compute softmax, norms and the loss in fp32.",
            also=(ActionKind.DYNAMIC_LOSS_SCALE, ActionKind.SAFE_OPERATIONS),
            setting="dtype",
            from_=str(bad_dtype),
            to="bf16",
        )
    return Action(
        ActionKind.CHECK_PRECISION,
        f"Run single operations of {bad.label} in fp32 (softmax, norms, the loss, the optimizer "
        f"state) until it trains as {good.label} does.",
        also=(ActionKind.SAFE_OPERATIONS,),
        setting="dtype",
        from_=None if bad_dtype is None else str(bad_dtype),
        to=None if good_dtype is None else str(good_dtype),
    )


def _use_sound_value(
    suspect: Difference, bad: ComparedRun, good: ComparedRun, family: Family | None
) -> Action:
    values = suspect.values
    old, new = values[bad.label], values[good.label]
    old_number, new_number = number(old), number(new)
    is_lower = old_number is not None and new_number is not None and new_number < old_number
    return Action(
        ActionKind.LOWER_LR if family is Family.RATE and is_lower else ActionKind.CHECK_SETTINGS,
        f"Set {suspect.key} to {_text(new)} in {bad.label} (now {_text(old)}), as in {good.label}.",
        setting=suspect.key,
        from_=_plain(old),
        to=_plain(new),
    )


def _next_actions(
    suspects: Sequence[Difference], failed: Sequence[FinalLevel], sound: Sequence[FinalLevel]
) -> tuple[Action, ...]:
    bad, good = failed[0].run, sound[0].run
    diagnose = Action(
        ActionKind.SEE_FINDING, f"Run stabdiag diagnose {bad.name} to see where it fails and why."
    )
    family = leading_family(suspects) if suspects else Family.SEED
    bisect = {
        Family.DISTRIBUTION: Action(
            ActionKind.CHECK_RANKS,
            "Run on 2 devices: if that fails too, compare the logs of both ranks with "
            "`stabdiag compare --as ranks`.",
        ),
        Family.DATA: Action(
            ActionKind.INSPECT_DATA,
            f"Bisect the data: add half of the rest to the data of {good.label}, and continue "
            "with the half that fails.",
        ),
        Family.SEED: Action(
            ActionKind.RERUN,
            f"Run the configuration and seed of {bad.label} again: if it fails at the same "
            "step, initialization or data order is the cause, otherwise a race.",
        ),
    }.get(family or Family.OTHER)
    return (diagnose,) if bisect is None else (diagnose, bisect)


def _text(value: Scalar) -> str:
    if value is None:
        return "the default"
    return num(value, 6) if isinstance(value, float) else clipped(str(value), 40)


def _plain(value: Scalar) -> float | str | None:
    if value is None or isinstance(value, float | str):
        return value
    return str(value) if isinstance(value, bool) else float(value)
