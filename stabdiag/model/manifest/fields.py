"""Which keys of a configuration fill the fields of the manifest, and with what."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stabdiag.model.manifest.keys import KEYS
from stabdiag.model.manifest.other import (
    ARCHITECTURES,
    AUTOCAST,
    DIVISIBLE,
    LABEL,
    LOSS_SCALE,
    NUMBERS,
    ONE_LABEL,
    PROBLEM,
    SAVE_STRATEGY,
    SAVING,
    is_static,
    strategy_of,
)
from stabdiag.model.manifest.values import dtype_of, flag, number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, kw_only=True)
class Fields:
    """The values by field, the names that they come from, and all names that were understood."""

    values: dict[str, Any]
    taken: frozenset[str]
    understood: frozenset[str]


def fields_of(told: Mapping[str, Any]) -> Fields:
    """Return the manifest's fields from a configuration's values by their plain spellings."""
    values, taken, understood = _by_key(told)
    dtype, flags = _dtype_flags(told)
    # Beside a flag that is on, fp32 is the type of the weights, as the HF Trainer logs them.
    if dtype is not None and values.get("dtype", "fp32") == "fp32":
        values["dtype"] = dtype
    if "static_loss_scale" not in values:
        values["static_loss_scale"] = _static_scale(told)
    if _is_classifier(told):
        # Its loss is over its labels, whatever the vocabulary of its texts.
        values["vocab_size"] = _labels(told)
    for name in _void(values, told):
        values.pop(name, None)
    return Fields(values=values, taken=frozenset(taken | flags), understood=frozenset(understood))


def _by_key(told: Mapping[str, Any]) -> tuple[dict[str, Any], set[str], set[str]]:
    """Return what one key tells of each field; see ``Fields``."""
    found: dict[str, Any] = {}
    taken: set[str] = set()
    understood: set[str] = set()
    for key in KEYS:
        # What is told goes before a null, which is told as well: of some fields it says none.
        names = [name for name in key.names if name in told]
        names.sort(key=lambda name: told[name] is None)
        values = {name: key.parse(told[name]) for name in names}
        understood |= {name for name in names if told[name] is None or values[name] is not None}
        first = next((name for name in names if values[name] is not None), None)
        if first is not None:
            found[key.name] = values[first]
            taken.add(first)
    return found, taken, understood


def _dtype_flags(told: Mapping[str, Any]) -> tuple[str | None, set[str]]:
    """Read ``fp16: true`` and ``fp16.enabled: true``; all flags present and off mean fp32."""
    used: set[str] = set()
    flags: list[tuple[str, bool]] = []
    for dtype in ("bf16", "fp16"):
        for name in (dtype, f"{dtype}_enabled", f"use_{dtype}"):
            on = flag(told[name]) if name in told else None
            if on is not None:
                used.add(name)
                flags.append((dtype, on))
    chosen = next((dtype for dtype, on in flags if on), None)
    if chosen is None:
        casts = (dtype_of(told[name]) for name in AUTOCAST if name in told)
        chosen = next((dtype for dtype in casts if dtype in ("bf16", "fp16")), None)
    return chosen or ("fp32" if len(flags) > 1 else None), used


def _is_classifier(told: Mapping[str, Any]) -> bool:
    """Tell whether a configuration of the HF library is that of a classifier, or of a regressor."""
    models = told.get(ARCHITECTURES)
    return _problem(told) is not None or "Classification" in str(models)


def _labels(told: Mapping[str, Any]) -> int | None:
    """Return among how many labels a classifier chooses, or None where it does not choose one."""
    count = sum(re.fullmatch(LABEL, name) is not None for name in told)
    return count if count > 1 and _problem(told) in (None, ONE_LABEL) else None


def _problem(told: Mapping[str, Any]) -> str | None:
    problem = told.get(PROBLEM)
    # MLflow keeps words alone: None is one of them.
    return problem if isinstance(problem, str) and problem != "None" else None


def _static_scale(told: Mapping[str, Any]) -> bool | None:
    """Read from the loss scale itself whether it is static: DeepSpeed's 0 means that it moves."""
    scales = (is_static(told[name]) for name in LOSS_SCALE if name in told)
    return next((one for one in scales if one is not None), None)


def _void(found: Mapping[str, Any], told: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields whose values mean nothing beside another setting."""
    if _is_default_of_megatron(told, found.get("vocab_size")):
        yield "vocab_size"
    # The HF Trainer's ``save_steps`` means nothing where it saves by another strategy.
    by_steps = SAVE_STRATEGY not in told or strategy_of(told[SAVE_STRATEGY]) == "steps"
    saves = flag(told.get(SAVING)) is not False
    if not (by_steps and saves):
        yield "checkpoint_every"
    if found.get("warmup_steps") == 0 and _has_share(told):
        yield "warmup_steps"


def _has_share(told: Mapping[str, Any]) -> bool:
    """Tell whether the warm-up is a share of the run: the HF Trainer's 0 steps then count not."""
    shares = (number(told[name]) for name in NUMBERS["warmup_share"] if name in told)
    return any(share is not None and share > 0 for share in shares)


def _is_default_of_megatron(told: Mapping[str, Any], classes: object) -> bool:
    """Tell whether the number of classes is a default that a language model does not use."""
    return (
        classes is not None
        and DIVISIBLE in told
        and not {"vocab_size", "padded_vocab_size"} & told.keys()
    )
