"""What ``stabdiag convert`` writes beside the series: configuration, source and events.

It lies in the metadata of the Parquet file, as one JSON object under the key ``stabdiag``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final

import numpy as np

from stabdiag.model.frozen import frozen
from stabdiag.model.history import Event, EventCode, EventKind, RepeatedSteps
from stabdiag.model.roles.loss_kinds import LossKind

KEY: Final = b"stabdiag"
SCHEMA: Final = 1

# What is kept of an event, and what it is read back as.
_EVENT: Final[Mapping[str, Callable[[Any], Any]]] = {
    "kind": EventKind,
    "message": str,
    "code": EventCode,
    "role": str,
    "value": float,
    "said": str,
    "step": int,
    "line": int,
}


@frozen
class Told:
    """What a converted log says about the run: its configuration, and what happened to its log.

    ``columns`` has the original name of each role's column, which may tell a unit or an evaluation.
    ``loss_kind`` is the field of the same name of the history, and ``words`` that of each series
    which has any. ``retaken`` is the history's.
    """

    config: Mapping[str, object]
    events: tuple[Event, ...]
    columns: Mapping[str, str]
    loss_kind: LossKind | None
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    retaken: tuple[RepeatedSteps, ...] = ()


def as_metadata(told: Told, source: str) -> bytes:
    """Return the metadata of a log that is converted from ``source``."""
    content = {
        "schema": SCHEMA,
        "source": source,
        "manifest": dict(told.config),
        "events": [{name: getattr(one, name) for name in _EVENT} for one in told.events],
        "columns": dict(told.columns),
        "loss_kind": told.loss_kind,
        "words": {role: list(words) for role, words in told.words.items()},
        "retaken": [
            [one.step, one.steps.tolist(), one.before.tolist(), one.after.tolist()]
            for one in told.retaken
        ],
    }
    return json.dumps(content).encode()


def from_metadata(metadata: Mapping[bytes, bytes]) -> Told | None:
    """Return what a converted log tells, or None if the metadata is not that of one."""
    try:
        content = json.loads(metadata[KEY])
        config, source, events = content["manifest"], content["source"], content["events"]
        if content["schema"] != SCHEMA or not isinstance(config, dict):
            return None
        told = [Event(kind=EventKind.PLACE, message=f"converted from {source}")]
        told += map(_event, events)
        # Logs converted by earlier versions have none of these.
        columns = {str(role): str(name) for role, name in content.get("columns", {}).items()}
        kind = content.get("loss_kind")
        loss_kind = next((known for known in LossKind if known.value == kind), None)
        words = {
            str(role): tuple(map(str, all_)) for role, all_ in content.get("words", {}).items()
        }
        retaken = tuple(_retaken(*one) for one in content.get("retaken", ()))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError, RecursionError):
        return None
    return Told(
        config=config,
        events=tuple(told),
        columns=columns,
        loss_kind=loss_kind,
        words=words,
        retaken=retaken,
    )


def _retaken(step: Any, steps: Any, before: Any, after: Any) -> RepeatedSteps:
    values = [np.array(one, dtype=np.float64) for one in (before, after)]
    if {one.shape for one in values} != {(len(steps),)}:
        raise ValueError("a pair of losses for each step")
    return RepeatedSteps(
        step=int(step), steps=np.array(steps, dtype=np.int64), before=values[0], after=values[1]
    )


def _event(content: Mapping[str, Any]) -> Event:
    # Earlier versions did not write all of these.
    told = {name: content[name] for name in _EVENT if content.get(name) is not None}
    return Event(**{name: _EVENT[name](value) for name, value in told.items()})
