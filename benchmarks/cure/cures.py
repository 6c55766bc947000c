"""Apply an action to a run's settings, exactly as stated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from failures import Case
from settings import Settings, Switch

# Settings that an action can name, by the names of the manifest and of the roles.
NAMES = {
    "peak_lr": "lr",
    "lr": "lr",
    "grad_clip": "clip",
    "warmup_steps": "warmup",
    "total_steps": "schedule_steps",
    "schedule": "schedule",
    "weight_decay": "weight_decay",
    "dtype": "dtype",
    "batch_size": "batch",
}


def apply(action: dict[str, Any], case: Case) -> tuple[Settings, Switch | None] | None:
    """Return the settings (and the switch from a checkpoint on) that an action leads to.

    Returns None for an action that changes nothing in this run: one that says to look where the
    fault is not, or that carries no number.
    """
    broken = case.settings
    changed = changed_by(action, case, broken)
    if changed == broken:
        return None
    checkpoint = action.get("checkpoint")
    if checkpoint:
        return broken, Switch(step=int(checkpoint), settings=changed)
    return changed, None


def changed_by(action: dict[str, Any], case: Case, broken: Settings) -> Settings:
    """Return the settings that an action leads to; the same if there is nothing to carry out."""
    kinds = {action["kind"], *action.get("also", ())}
    if kinds & set(case.failure.fixed_by):
        return case.twin
    name, to = NAMES.get(action.get("setting") or ""), action.get("to")
    return broken if name is None or to is None else set_to(broken, name, to)


def set_to(run: Settings, name: str, to: float | str) -> Settings:
    """Return the settings with one of them at another value."""
    if name == "dtype":
        return replace(run, dtype=str(to), scaler="dynamic" if to == "fp16" else "none")
    kind = type(getattr(run, name) or 0.0)
    changed: Any = {name: to if kind is str else kind(float(to))}
    return replace(run, **changed)
