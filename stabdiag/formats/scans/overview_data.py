"""All rows and the overview as JSON: schema 1 (``scan.schema.json``).

It is written row by row because the rows may exceed memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from stabdiag._version import __version__
from stabdiag.formats import scans as words
from stabdiag.formats.json import Json, dumps, keys, plain
from stabdiag.model.scan import Changes, Group, Overview, Peers, Row, Split

OVERVIEW_SCHEMA = 1

SCALARS = tuple(field.name for field in fields(Row) if field.name not in ("curve", "settings"))
"""The scalar fields of a row; the curve is only for pictures."""


def to_json(overview: Overview) -> Iterator[str]:
    """Yield one strict JSON object in ASCII, one line per row, without a final newline."""
    yield f'{dumps(_content(overview))[:-2]},\n  "rows": [\n'
    comma = ""
    for row in overview.rows:
        content = keys(" ".join((*SCALARS, "settings")), row)
        yield f"{comma}    {dumps(content, indent=None)}"
        comma = ",\n"
    yield "\n  ]\n}"


def _content(overview: Overview) -> dict[str, Json]:
    return {
        "schema": OVERVIEW_SCHEMA,
        "stabdiag": __version__,
        **keys("places", overview),
        "summary": words.summary(overview),
        **keys("runs reused seconds lost_steps", overview),
        "outcomes": [
            keys("outcome title severity runs lost_steps", item) for item in overview.counts
        ],
        "groups": [_group(group) for group in overview.groups],
        "compared": {
            **keys("runs settings outcomes", overview.compared),
            "why_not": overview.compared.why or None,
        },
        "in_common": [
            {
                "text": plain(words.statement(item)),
                "outcome": plain(item.outcome),
                "chance": plain(float(f"{item.chance:.6g}")),  # the same on every machine
                **_split(item.split),
                "along": [_split(split) for split in item.along],
            }
            for item in overview.common
        ],
        "changes": None if overview.changes is None else _changes(overview.changes),
        "unread": [keys("reason logs example", item) for item in overview.unread],
        **({} if overview.peers is None else {"peers": _peers(overview.peers)}),
    }


def _peers(peers: Peers) -> Json:
    worse: list[Json] = [keys("path run outcome step peers summary", run) for run in peers.worse]
    return {**keys("runs compared", peers), "worse": worse}


def _group(failure: Group) -> Json:
    steps: Json = None
    if failure.steps is not None:
        steps = dict(zip(("first", "median", "last"), failure.steps, strict=True))
    cluster: Json = None
    if failure.near is not None:
        cluster = dict(zip(("first_step", "last_step", "runs"), failure.near, strict=True))
    content = keys("outcome severity runs lost_steps", failure) | {"steps": steps, "near": cluster}
    return content | keys("title action_kind worst=path", failure.worst)


def _split(split: Split) -> dict[str, Json]:
    content = keys("setting relation value", split)
    for side, (hits, runs) in (("inside", split.inside), ("outside", split.outside)):
        content[side] = {"with_outcome": hits, "runs": runs}
    return content


def _changes(since: Changes) -> Json:
    content = keys("new gone", since)
    for name in ("worse", "better", "other"):
        content[name] = [keys("path run before after", change) for change in getattr(since, name)]
    return content
