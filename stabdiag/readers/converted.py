"""The metadata that ``stabdiag convert`` writes: configuration, source and events.

It is stored in the metadata of the Parquet file, as one JSON object with the key ``stabdiag``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final

import numpy as np

from stabdiag.model.events import Event, EventCode, EventKind, Phase
from stabdiag.model.frozen import frozen
from stabdiag.model.history import RepeatedSteps
from stabdiag.model.roles.loss_kinds import LossKind

KEY: Final = b"stabdiag"
CONVERTED_SCHEMA: Final = 1

# The fields of an event that are written, and how they are read.
_EVENT: Final[Mapping[str, Callable[[Any], Any]]] = {
    "kind": EventKind,
    "message": str,
    "code": EventCode,
    "role": str,
    "value": float,
    "quote": str,
    "step": int,
    "line": int,
    "phase": Phase,
}


@frozen
class ConversionMetadata:
    """The metadata of a converted log: the configuration and the events of its run.

    ``columns`` has the original name of each role's column, which may show a unit or an evaluation.
    ``loss_kind`` and ``repeated_steps`` are fields of the history, ``words`` is a field of its
    series.
    """

    config: Mapping[str, object]
    events: tuple[Event, ...]
    columns: Mapping[str, str]
    loss_kind: LossKind | None
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    repeated_steps: tuple[RepeatedSteps, ...] = ()


def as_metadata(conversion: ConversionMetadata, source: str) -> bytes:
    """Encode the metadata of a log that is converted from ``source``."""
    content = {
        "schema": CONVERTED_SCHEMA,
        "source": source,
        "manifest": dict(conversion.config),
        "events": [{name: getattr(event, name) for name in _EVENT} for event in conversion.events],
        "columns": dict(conversion.columns),
        "loss_kind": conversion.loss_kind,
        "words": {role: list(words) for role, words in conversion.words.items()},
        "retaken": [
            [repeat.step, repeat.steps.tolist(), repeat.before.tolist(), repeat.after.tolist()]
            for repeat in conversion.repeated_steps
        ],
    }
    return json.dumps(content).encode()


def from_metadata(metadata: Mapping[bytes, bytes]) -> ConversionMetadata | None:
    """Decode the metadata of a converted log, or return None for other files."""
    try:
        content = json.loads(metadata[KEY])
        config, source, events = content["manifest"], content["source"], content["events"]
        if content["schema"] != CONVERTED_SCHEMA or not isinstance(config, dict):
            return None
        log_events = [Event(kind=EventKind.SOURCE, message=f"converted from {source}")]
        log_events += map(_event, events)
        # Earlier versions did not write these.
        columns = {str(role): str(name) for role, name in content.get("columns", {}).items()}
        kind = content.get("loss_kind")
        loss_kind = next((item for item in LossKind if item.value == kind), None)
        words = {
            str(role): tuple(map(str, all_)) for role, all_ in content.get("words", {}).items()
        }
        repeated_steps = tuple(_repeated_steps(*item) for item in content.get("retaken", ()))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError, RecursionError):
        return None
    return ConversionMetadata(
        config=config,
        events=tuple(log_events),
        columns=columns,
        loss_kind=loss_kind,
        words=words,
        repeated_steps=repeated_steps,
    )


def _repeated_steps(step: Any, steps: Any, before: Any, after: Any) -> RepeatedSteps:
    values = [np.array(losses, dtype=np.float64) for losses in (before, after)]
    if {losses.shape for losses in values} != {(len(steps),)}:
        raise ValueError("a pair of losses for each step")
    return RepeatedSteps(
        step=int(step), steps=np.array(steps, dtype=np.int64), before=values[0], after=values[1]
    )


def _event(content: Mapping[str, Any]) -> Event:
    # Earlier versions did not write all of these.
    fields = {name: content[name] for name in _EVENT if content.get(name) is not None}
    return Event(**{name: _EVENT[name](value) for name, value in fields.items()})
