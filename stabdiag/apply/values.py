"""The new values of settings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from stabdiag.apply.documents import Document, Edit, KeyPath
from stabdiag.apply.frameworks import Framework
from stabdiag.model.findings import ActionKind
from stabdiag.model.manifest.keys import KEYS, LOSS_SCALE, Key
from stabdiag.model.manifest.parsing import number, parse_dtype, plain
from stabdiag.model.text import word_list

# Values are written with the digits that the report shows.
_WRITTEN_DIGITS: Final = 4

# The digits of a new learning rate in an action.
_ACTION_DIGITS: Final = 2

_RATES: Final = ("peak_lr", "lr")
_COUNT_FIELDS: Final = frozenset(word_list("warmup_steps total_steps batch_size"))

# Actions that lower a setting, and actions that raise one.
_LOWERS: Final = frozenset(
    {ActionKind.LOWER_LR, ActionKind.CLIP_GRADIENTS, ActionKind.LOWER_WEIGHT_DECAY}
)
_RAISES: Final = frozenset(
    {
        ActionKind.RAISE_LR,
        ActionKind.RAISE_CLIP,
        ActionKind.RAISE_WEIGHT_DECAY,
        ActionKind.ADD_WARMUP,
    }
)

_DTYPE_NAMES: Final = next(key.names for key in KEYS if key.name == "dtype")
_STATIC_NAMES: Final = next(key.names for key in KEYS if key.name == "static_loss_scale")


KINDS: Final = {kind.value: kind for kind in ActionKind}


class ByHand(Exception):
    """An action that a person has to carry out, and why."""


def is_close(value: float | None, other: float | None) -> bool:
    """Return True if two numbers are equal within the rounding of a report."""
    return value is not None and other is not None and math.isclose(value, other, rel_tol=1e-3)


def new_value(action: Mapping[str, Any], path: KeyPath, old: object, key: Key) -> float | int:
    """Return the new value of a number.

    If a learning rate differs from the one in the report, as when a program scales it by the
    number of devices, it changes by the same factor.

    Raises:
        ByHand: if the file does not belong to the report, or the value is set elsewhere.
    """
    name = ".".join(path)
    before, now, to = number(action.get("from")), number(old), number(action["to"])
    if to is None:
        raise ByHand(f"the report gives no number for {key.name}")
    if old is not None and now is None:
        raise ByHand(f"{name} is {old!r} here: set it where that comes from")
    is_rate = action["setting"] in _RATES
    if action["setting"] == "lr" and before is None:
        raise ByHand(f"{name} is a peak, and the report gives the rate at one step")
    if now is not None and before is not None and not is_close(now, before):
        if not is_rate or before == 0:
            raise ByHand(
                f"{name} is {now:g} here and was {before:g} in the report: check which one ran"
            )
        to = now * factor(before, to)
    _check_direction(action, name, now, to)
    if key.name in _COUNT_FIELDS:
        return round(to)
    return float(f"{to:.{_WRITTEN_DIGITS}g}")


def factor(before: float, to: float) -> float:
    """Return the factor between two rates of a report.

    The new rate has two digits in a report, so the factor is the one with the fewest digits that
    gives it: a tenth of 0.3725 is written as 0.037.

    >>> factor(0.3725, 0.037), factor(0.53, 0.27), factor(0.0008, 0.0004)
    (0.1, 0.5, 0.5)
    """
    exact = to / before
    half_digit = 0.5 * 10 ** (math.floor(math.log10(abs(to))) - _ACTION_DIGITS + 1) if to else 0.0
    rounded = (float(f"{exact:.{digits}g}") for digits in range(1, _WRITTEN_DIGITS))
    tolerance = half_digit * (1 + 1e-9)  # a rate exactly between two digits
    return next((value for value in rounded if abs(value * before - to) <= tolerance), exact)


def _check_direction(action: Mapping[str, Any], name: str, now: float | None, to: float) -> None:
    """Check that a value changes in the direction of the action.

    Raises:
        ByHand: if it does not.
    """
    kind = KINDS[action["kind"]]
    if not now:
        return
    if is_close(now, to):
        raise ByHand(f"{name} is {now:g} already")
    if (kind in _LOWERS and to > now) or (kind in _RAISES and to < now):
        raise ByHand(f"{name} is {now:g} here, beyond the {to:g} of the report")


def loss_scale_edits(document: Document, framework: Framework) -> Iterator[Edit]:
    """Yield the edits that make the loss scale dynamic.

    Raises:
        ByHand: if the file does not say that it is static, or in a form that has no counterpart.
    """
    edits = [
        Edit(path=path, value=new, before=value)
        for path, value in document.values().items()
        if (new := _as_dynamic(path, value, framework)) is not None
    ]
    if not edits:
        raise ByHand(f"{document.name} does not set a static loss scale in a form that is known")
    yield from edits


def _as_dynamic(path: KeyPath, value: object, framework: Framework) -> object | None:
    """Return the value that makes a static loss scale dynamic; None for other settings."""
    name = plain(path[-1])
    if name in _STATIC_NAMES and value is True:
        return False
    if name not in LOSS_SCALE:
        return None
    if framework.name == "DeepSpeed" and number(value):  # 0 is dynamic
        return 0
    return "dynamic" if value == "static" else None


def dtype_edits(
    action: Mapping[str, Any], document: Document, framework: Framework
) -> Iterator[Edit]:
    """Yield the edits that switch from fp16 to bf16.

    Raises:
        ByHand: for other dtypes, or if the file does not train in fp16.
    """
    if action["to"] != "bf16":
        raise ByHand("only a switch to bf16 is a change of one setting")
    values = document.values()
    named = [
        (path, value)
        for path, value in values.items()
        if plain(path[-1]) in _DTYPE_NAMES and parse_dtype(value) == "fp16"
    ]
    flags = {path: value for path, value in values.items() if _flag(path) == "fp16"}
    on = [path for path, value in flags.items() if value is True]
    if not named and not on:
        raise ByHand(f"{document.name} does not set fp16")
    for path, value in named:
        new = _as_bf16(value)
        if new is None:
            raise ByHand(f"{'.'.join(path)} is {value!r}, which has no counterpart for bf16")
        yield Edit(path=path, value=new, before=value)
    for path in on:
        yield Edit(path=path, value=False, before=True)
    if on:
        yield from _switch_to_bf16(on[0], document, framework)


def _flag(path: KeyPath) -> str | None:
    """Return the dtype that a flag switches on: ``fp16``, ``use_fp16``, ``fp16.enabled``."""
    name = plain(path[-1]).removeprefix("use_")
    if name == "enabled" and len(path) > 1:
        name = plain(path[-2])
    return name if name in ("fp16", "bf16") else None


def _switch_to_bf16(fp16: KeyPath, document: Document, framework: Framework) -> Iterator[Edit]:
    """Yield the edit that switches bf16 on next to an fp16 flag."""
    values = document.values()
    level = len(fp16) - 1 - (plain(fp16[-1]) == "enabled")
    for path in values:
        if _flag(path) == "bf16" and path[:level] == fp16[:level]:
            yield Edit(path=path, value=True, before=values[path])
            return
    if plain(fp16[-1]) != "enabled":
        name = fp16[-1].replace("fp16", "bf16")
        yield Edit(path=(*fp16[:-1], name), value=True, after=fp16)
    elif document.language == "JSON":
        yield Edit(path=(*fp16[:-2], "bf16"), value={"enabled": True}, after=fp16[:-1])
    else:
        raise ByHand(f"{document.name} has no section for bf16 in {framework.name or 'this form'}")


def _as_bf16(value: object) -> str | None:
    """Return the name for bf16 in the style of a name for fp16."""
    text = str(value)
    if text == "half":
        return "bfloat16"
    for old, new in (("float16", "bfloat16"), ("fp16", "bf16")):
        if old in text:
            return text.replace(old, new)
    return f"bf16{text.removeprefix('16')}" if text.startswith("16") else None
