"""What every format says of an overview, and escapes and lays out."""

from __future__ import annotations

from collections.abc import Iterator

from stabdiag.formats.measured import number
from stabdiag.model.frozen import frozen
from stabdiag.model.scan import (
    ANY_ERROR,
    Change,
    Changes,
    Common,
    Group,
    Overview,
    Peers,
    Row,
    Split,
    Unread,
    WorseThanPeers,
)
from stabdiag.model.text import listed, plural

_OUTSIDE = {"≥": "below", "<": "from there on", "=": "otherwise"}

NO_CAUSE = "correlation, not cause"


@frozen
class Section:
    """A list under a title: each item is a line, and what stands below it."""

    title: str
    items: tuple[tuple[str, str], ...]
    note: str = ""
    end: str = ""


def sections(overview: Overview) -> Iterator[Section]:
    """Yield what an overview says below its tables."""
    if overview.groups:
        kinds = [
            (
                group(one),
                f"{name(one.worst, overview)}: {one.worst.action}" * bool(one.worst.action),
            )
            for one in overview.groups
        ]
        yield Section(title="Kinds of failure", items=tuple(kinds))
    if overview.peers is not None:
        yield peers_section(overview, overview.peers)
    if has_common(overview):
        yield Section(
            title="What the failed runs have in common",
            items=tuple((statement(one), along(one)) for one in overview.common),
            note=NO_CAUSE if overview.common else "",
            end=compared(overview),
        )
    if overview.changes is not None:
        changed_runs = tuple((f"{run}: {change}", "") for run, change in changed(overview))
        note = changes(overview.changes)
        yield Section(title="Since the last scan", items=changed_runs, note=note)
    if overview.unread:
        reasons = tuple((unread(one), f"for example {one.example}") for one in overview.unread)
        yield Section(title="Not read", items=reasons)


def peers_section(overview: Overview, peers: Peers) -> Section:
    """Return the runs that are worse than those with the same settings."""
    items = [
        (f"{name(one, overview)}, step {one.step}: {one.outcome}", one.summary)
        for one in peers.worse
    ]
    without = peers.runs - peers.compared
    alone = f"; {without} without two healthy peers" if without else ""
    return Section(
        title="Worse than their peers",
        items=tuple(items),
        note=f"{len(peers.worse) or 'none'} of {plural(peers.compared, 'run')} compared{alone}",
    )


def summary(overview: Overview) -> str:
    """Return in one sentence how many runs failed."""
    missed, failed = overview.of(None), overview.of("error")
    read, warned = overview.runs - missed, overview.of("warning")
    if not overview.runs:
        return "No runs"
    if not read:
        return (
            "The log could not be read" if missed == 1 else f"None of {missed} logs could be read"
        )
    text = f"{failed or 'None'} of {plural(read, 'run')} failed"
    if read == 1:
        right = "has a warning" if warned else "did not fail"
        text = f"The run {'failed' if failed else right}"
    elif warned:
        text += f", {warned} {'has' if warned == 1 else 'have'} a warning"
    return f"{text}; {plural(missed, 'log')} could not be read" if missed else text


def name(run: Row | Change | WorseThanPeers, overview: Overview | None = None) -> str:
    """Return what a run is called: below the one place that was scanned, or by its path."""
    several = overview is not None and len(overview.places) > 1
    if not several and run.run not in ("", "."):
        return run.run
    return run.path.removeprefix("" if overview is None else overview.root)


def group(one: Group) -> str:
    """Return how many runs failed alike, and where."""
    text = f"{plural(one.runs, 'run')}: {one.outcome}"
    if one.steps is not None:
        first, middle, last = one.steps
        text += f" at step {first}" if first == last else f" at steps {first} to {last}"
        if one.near is not None and first != last:
            begin, end, count = one.near
            text += f", {count} of them at {begin}" + (f" to {end}" if begin != end else "")
        elif first != last:
            text += f" (median {middle})"
    return f"{text}; {plural(one.lost_steps, 'step')} lost" if one.lost_steps else text


def statement(one: Common) -> str:
    """Return what runs have in common, as counts on both sides of the split."""
    ended = "failed" if one.outcome == ANY_ERROR else f"ended as {one.outcome}"
    hits, size = one.split.inside
    return f"{_inside(one.split)}: {hits} of {plural(size, 'run')} {ended}; {_rest(one.split)}"


def along(one: Common) -> str:
    """Return which settings moved with this one; nothing where none did."""
    splits = [
        f"{_inside(split)} ({split.inside[0]} of {split.inside[1]}; {_rest(split)})"
        for split in one.along
    ]
    return f"moved with it: {listed(splits)}" if splits else ""


def _inside(split: Split) -> str:
    return f"{split.setting} {split.relation} {number(split.value)}"


def _rest(split: Split) -> str:
    where = _OUTSIDE.get(split.relation) or f"with {number(split.value)}"
    return f"{where}: {split.outside[0]} of {split.outside[1]}"


def has_common(overview: Overview) -> bool:
    """Tell whether there is anything to say about what failed runs have in common."""
    return bool(overview.common) or (overview.of("error") > 0 and overview.compared.runs > 1)


def compared(overview: Overview) -> str:
    """Return what was tested to find what runs have in common, and how sure it is."""
    tested = overview.compared
    if tested.why:
        return f"Not compared: {tested.why}."
    text = (
        f"Tested {plural(tested.settings, 'setting')} against "
        f"{plural(len(tested.outcomes), 'outcome')} in {plural(tested.runs, 'run')}"
    )
    if not overview.common:
        return f"{text}: nothing beyond chance."
    return f"{text}. Chance alone gives any statement at most one time in twenty."


def changes(since: Changes) -> str:
    """Return in one line what has changed since the last scan."""
    counts = {"new": since.new, "gone": since.gone, "worse": len(since.worse)}
    counts |= {"better": len(since.better), "different": len(since.other)}
    return ", ".join(f"{n} {what}" for what, n in counts.items() if n) or "nothing changed"


def changed(overview: Overview) -> Iterator[tuple[str, str]]:
    """Yield each run that changed, the worse ones first, and how."""
    since = overview.changes or Changes()
    for one in (*since.worse, *since.better, *since.other):
        yield name(one, overview), f"{one.before} → {one.after}"


def unread(one: Unread) -> str:
    """Return why logs could not be read."""
    return f"{plural(one.logs, 'log')}: {one.reason}"


def took(overview: Overview) -> str:
    """Return how many runs there were, and how long the scan took."""
    parts = [plural(overview.runs, "run")]
    if overview.reused:
        parts.append(f"{overview.reused} unchanged since the last scan")
    if overview.seconds is not None:
        parts.append(f"{number(overview.seconds, 3)} s")
    return ", ".join(parts)
