"""What ``stabdiag convert`` writes beside the series: configuration, source and events.

It lies in the metadata of the Parquet file, as one JSON object under the key ``stabdiag``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from stabdiag.history import Event, EventKind

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY: Final = b"stabdiag"
SCHEMA: Final = 1


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a converted log tells of the run: its configuration, and what happened to its log."""

    config: Mapping[str, object]
    events: tuple[Event, ...]


def as_metadata(config: Mapping[str, object], source: str, events: tuple[Event, ...]) -> bytes:
    """Return the metadata of a log that is converted from ``source``."""
    told = [
        {"kind": one.kind.value, "message": one.message, "step": one.step, "line": one.line}
        for one in events
    ]
    content = {"schema": SCHEMA, "source": source, "manifest": dict(config), "events": told}
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
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    return Told(config=config, events=tuple(told))


def _event(content: Mapping[str, Any]) -> Event:
    step, line = content["step"], content["line"]
    return Event(
        kind=EventKind(content["kind"]),
        message=str(content["message"]),
        step=None if step is None else int(step),
        line=None if line is None else int(line),
    )
