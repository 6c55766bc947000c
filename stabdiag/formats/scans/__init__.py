"""The texts of an overview, for all formats."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from stabdiag.formats.measured import number
from stabdiag.model.findings import ActionKind
from stabdiag.model.frozen import frozen
from stabdiag.model.scan import (
    ANY_ERROR,
    UNREAD,
    Changes,
    Common,
    Count,
    Group,
    Overview,
    Peers,
    Row,
    ScanChange,
    Split,
    UnreadLogs,
    WorseThanPeers,
)
from stabdiag.model.text import listed, plural

_OTHER_SIDE = {"≥": "below", "<": "otherwise", "=": "otherwise"}

NO_CAUSE = "correlation, not cause"

# Loggers that store a run under an id, and the characters of an id that tell runs apart.
_NAMED_BY_ID = ("mlflow", "wandb")
_ID_LENGTH = 8

# The scanned places that are listed; a pattern of the shell can be thousands.
_MAX_PLACES = 3


@frozen
class Section:
    """A list under a title: each item is a line and a detail below it.

    ``note`` follows the title, ``end`` the list.
    """

    title: str
    items: tuple[tuple[str, str], ...]
    note: str = ""
    end: str = ""


def sections(overview: Overview) -> Iterator[Section]:
    """Yield the sections below the worst runs of an overview."""
    if has_common(overview):
        named = titles(overview)
        yield Section(
            title="Common settings of failed runs",
            items=tuple((statement(item, named), along(item)) for item in overview.common),
            note=NO_CAUSE if overview.common else "",
            end=compared(overview),
        )
    if overview.groups:
        listed_kinds = [
            (
                f"{kind} [{item.outcome}]: {group(item)}",
                f"{name(item.worst, overview)}: {item.worst.action}" * bool(item.worst.action),
            )
            for item, kind in kinds(overview)
        ]
        yield Section(title="Kinds of failure", items=tuple(listed_kinds))
    if overview.peers is not None:
        yield peers_section(overview, overview.peers)
    if overview.changes is not None:
        changed_runs = tuple((f"{run}: {change}", "") for run, change in changed(overview))
        note = changes(overview.changes)
        yield Section(title="Since the last scan", items=changed_runs, note=note)
    if overview.unread:
        reasons = tuple((unread(item), f"for example {item.example}") for item in overview.unread)
        yield Section(title="Not read", items=reasons)


def peers_section(overview: Overview, peers: Peers) -> Section:
    """Return the section of runs that are worse than others with the same settings."""
    items = [
        (f"{name(run, overview)}, step {run.step}: {run.outcome}", run.summary)
        for run in peers.worse
    ]
    without = peers.runs - peers.compared
    ending = f"; {without} without two healthy peers" if without else ""
    return Section(
        title="Worse than their peers",
        items=tuple(items),
        note=f"{len(peers.worse) or 'none'} of {plural(peers.compared, 'run')} compared{ending}",
    )


def summary(overview: Overview) -> str:
    """Summarize the number of failed runs in a sentence."""
    unread, failed = overview.of(None), overview.of("error")
    read, warned = overview.runs - unread, overview.of("warning")
    if not overview.runs:
        return "No runs"
    if not read:
        return (
            "The log could not be read" if unread == 1 else f"None of {unread} logs could be read"
        )
    text = f"{failed or 'None'} of {plural(read, 'run')} failed"
    if read == 1:
        outcome = "has a warning" if warned else "did not fail"
        text = f"The run {'failed' if failed else outcome}"
    elif warned:
        text += f", {warned} {'has' if warned == 1 else 'have'} a warning"
    return f"{text}; {plural(unread, 'log')} could not be read" if unread else text


def name(run: Row | ScanChange | WorseThanPeers, overview: Overview | None = None) -> str:
    """Return the name of a run: relative to the scanned folder, or its path.

    A run that is stored under an id has the name that its logger gave it, with the id.
    """
    if isinstance(run, Row) and run.format in _NAMED_BY_ID and run.settings.get("run_name"):
        *_, run_id = re.split(r"[/-]", run.run if run.run != "." else run.path)
        given = run.settings["run_name"]
        return given if given in run.run else f"{given} ({run_id[:_ID_LENGTH]})"
    has_several_places = overview is not None and len(overview.places) > 1
    if not has_several_places and run.run not in ("", "."):
        return run.run
    path = run.path.removeprefix("" if overview is None else overview.root)
    # A folder that was named as a place and is one run has its name.
    return path.rpartition("/")[0] or path if run.run == "." else path


def title(outcome: Row | Count) -> str:
    """Return the title of an outcome for people, or its slug if an old store has no title."""
    return "Not read" if outcome.outcome == UNREAD else outcome.title or outcome.outcome


def titles(overview: Overview) -> dict[str, str]:
    """Return the titles of all outcomes by slug."""
    return {count.outcome: title(count) for count in overview.counts}


def kinds(overview: Overview) -> list[tuple[Group, str]]:
    """Return the groups of failures, each with its title.

    Groups with the same title differ in their first action, which then follows the title.
    """
    frequency = Counter(title(item.worst) for item in overview.groups)
    return [
        (item, f"{text}: {_first_action(item.worst)}" if frequency[text] > 1 else text)
        for item, text in ((item, title(item.worst)) for item in overview.groups)
    ]


def _first_action(row: Row) -> str:
    """Describe the kind of the first action; an old store may have kinds that no longer exist."""
    abouts = {kind.value: kind.about for kind in ActionKind}
    return abouts.get(row.action_kind, row.action_kind) if row.action_kind else "no action"


def group(failure: Group) -> str:
    """Describe a kind of failure: the number of runs, the steps, and the steps lost."""
    text = plural(failure.runs, "run")
    if failure.steps is not None:
        first, middle, last = failure.steps
        text += f" at step {first}" if first == last else f" at steps {first} to {last}"
        if failure.near is not None and first != last:
            begin, end, count = failure.near
            text += f", {count} of them at {begin}" + (f" to {end}" if begin != end else "")
        elif first != last:
            text += f" (median {middle})"
    return f"{text}; {plural(failure.lost_steps, 'step')} lost" if failure.lost_steps else text


def statement(common: Common, titles: Mapping[str, str] | None = None) -> str:
    """Describe a common setting as counts on both sides of the split.

    The outcome is named by its title if ``titles`` has it, else by its slug.
    """
    title = (titles or {}).get(common.outcome)
    outcome = f'"{title}"' if title else common.outcome
    ended = "failed" if common.outcome == ANY_ERROR else f"ended as {outcome}"
    hits, size = common.split.inside
    inside, outside = _inside(common.split), _outside(common.split)
    return f"{inside}: {hits} of {plural(size, 'run')} {ended}; {outside}"


def along(common: Common) -> str:
    """Describe the settings that changed together with this one, if any."""
    splits = [
        f"{_inside(split)} ({split.inside[0]} of {split.inside[1]}; {_outside(split)})"
        for split in common.along
    ]
    return f"changed with it: {listed(splits)}" if splits else ""


def _inside(split: Split) -> str:
    return f"{split.setting} {split.relation} {number(split.value)}"


def _outside(split: Split) -> str:
    where = _OTHER_SIDE.get(split.relation) or f"with {number(split.value)}"
    return f"{where}: {split.outside[0]} of {split.outside[1]}"


def has_common(overview: Overview) -> bool:
    """Return True if failed runs were tested for common settings."""
    return bool(overview.common) or (overview.of("error") > 0 and overview.compared.runs > 1)


def compared(overview: Overview) -> str:
    """Describe the test for common settings, and its significance."""
    tested = overview.compared
    if tested.why:
        return f"Not compared: {tested.why}."
    text = (
        f"Tested {plural(tested.settings, 'setting')} against "
        f"{plural(len(tested.outcomes), 'outcome')} in {plural(tested.runs, 'run')}"
    )
    if not overview.common:
        return f"{text}: nothing beyond chance."
    return f"{text}. Family-wise error rate: 5%."


def changes(since: Changes) -> str:
    """Summarize the changes since the last scan in one line."""
    counts = {"new": since.new, "gone": since.gone, "worse": len(since.worse)}
    counts |= {"better": len(since.better), "different": len(since.other)}
    return ", ".join(f"{n} {state}" for state, n in counts.items() if n) or "nothing changed"


def changed(overview: Overview) -> Iterator[tuple[str, str]]:
    """Yield each changed run and its change, worse ones first."""
    since = overview.changes or Changes()
    for change in (*since.worse, *since.better, *since.other):
        yield name(change, overview), f"{change.before} → {change.after}"


def unread(group: UnreadLogs) -> str:
    """Describe why logs could not be read."""
    return f"{plural(group.logs, 'log')}: {group.reason}"


def places(overview: Overview) -> tuple[str, ...]:
    """Return the first places that were scanned, and the number of the others."""
    first, others = overview.places[:_MAX_PLACES], overview.places[_MAX_PLACES:]
    return (*first, f"and {len(others)} more") if others else first


def took(overview: Overview) -> str:
    """Describe the number of runs and the duration of the scan."""
    parts = [plural(overview.runs, "run")]
    if overview.reused:
        parts.append(f"{overview.reused} unchanged since the last scan")
    if overview.seconds is not None:
        parts.append(f"{number(overview.seconds, 3)} s")
    return ", ".join(parts)
