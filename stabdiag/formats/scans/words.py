"""What an overview says, in words: sentences that each format escapes and lays out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.formats.measured import number
from stabdiag.model.scan import ANY_ERROR, Changes
from stabdiag.model.text import listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.scan import Change, Common, Group, Overview, Row, Split, Unread

_OUTSIDE = {"≥": "below", "<": "from there on", "=": "otherwise"}

NO_CAUSE = "seen together, which proves no cause"


def summary(overview: Overview) -> str:
    """Return in one sentence how many runs failed."""
    unread, failed = overview.of(None), overview.of("error")
    read, warned = overview.runs - unread, overview.of("warning")
    if not overview.runs:
        return "There is no run to tell of"
    if not read:
        return (
            f"No log could be read: {unread} of {unread}"
            if unread > 1
            else "The log could not be read"
        )
    told = (
        f"{failed} of {plural(read, 'run')} failed"
        if failed
        else f"None of {plural(read, 'run')} failed"
    )
    if read == 1:
        told = "The run failed" if failed else "The run did not fail"
    if warned:
        told += f", {warned} {'has' if warned == 1 else 'have'} a warning"
    return f"{told}; {plural(unread, 'log')} could not be read" if unread else told


def name(run: Row | Change, overview: Overview | None = None) -> str:
    """Return what a run is called: below the one place that was scanned, or by its path."""
    several = overview is not None and len(overview.places) > 1
    if not several and run.run not in ("", "."):
        return run.run
    return run.path.removeprefix("" if overview is None else overview.root)


def group(one: Group) -> str:
    """Return how many runs failed alike, and where."""
    told = f"{plural(one.runs, 'run')}: {one.outcome}"
    if one.steps is not None:
        first, middle, last = one.steps
        told += f" at step {first}" if first == last else f" at steps {first} to {last}"
        if one.near is not None and first != last:
            begin, end, count = one.near
            told += f", {count} of them at {begin}" + (f" to {end}" if begin != end else "")
        elif first != last:
            told += f" (median {middle})"
    return f"{told}; {plural(one.lost_steps, 'step')} lost" if one.lost_steps else told


def statement(one: Common) -> str:
    """Return what runs have in common, as counts on both sides of the split."""
    ended = "failed" if one.outcome == ANY_ERROR else f"ended as {one.outcome}"
    hits, size = one.split.inside
    return f"{_inside(one.split)}: {hits} of {plural(size, 'run')} {ended}; {_rest(one.split)}"


def along(one: Common) -> str:
    """Return which settings moved with the one that is told; nothing where none did."""
    told = [
        f"{_inside(split)} ({split.inside[0]} of {split.inside[1]}; {_rest(split)})"
        for split in one.along
    ]
    return f"moved with it: {listed(told)}" if told else ""


def _inside(split: Split) -> str:
    return f"{split.setting} {split.relation} {number(split.value)}"


def _rest(split: Split) -> str:
    where = _OUTSIDE.get(split.relation) or f"with {number(split.value)}"
    return f"{where}: {split.outside[0]} of {split.outside[1]}"


def has_common(overview: Overview) -> bool:
    """Tell whether there is a word to be said of what failed runs have in common."""
    return bool(overview.common) or (overview.of("error") > 0 and overview.compared.runs > 1)


def compared(overview: Overview) -> str:
    """Return what was looked at to find what runs have in common, and how sure it is."""
    told = overview.compared
    if told.why:
        return f"Not compared: {told.why}."
    looked = (
        f"{plural(told.settings, 'setting')} against {plural(len(told.outcomes), 'outcome')} "
        f"in {plural(told.runs, 'run')}"
    )
    if not overview.common:
        return f"Nothing that goes beyond chance: looked at {looked}."
    return (
        f"Looked at {looked}; without any connection, something is told one time in twenty at most."
    )


def changes(told: Changes) -> str:
    """Return in one line what became otherwise since the last scan."""
    counts = {"new": told.new, "gone": told.gone, "worse": len(told.worse)}
    counts |= {"better": len(told.better), "different": len(told.other)}
    parts = [f"{count} {what}" for what, count in counts.items() if count]
    return ", ".join(parts) or "nothing changed"


def changed(overview: Overview) -> Iterator[tuple[str, str]]:
    """Yield each run that changed, the worse ones first, and how."""
    told = overview.changes or Changes()
    for one in (*told.worse, *told.better, *told.other):
        yield name(one, overview), f"{one.before} → {one.after}"


def unread(one: Unread) -> str:
    """Return why logs could not be read."""
    return f"{plural(one.logs, 'log')}: {one.reason}"


def took(overview: Overview) -> str:
    """Return what was gone through, and how long it took."""
    told = [plural(overview.runs, "run")]
    if overview.reused:
        told.append(f"{overview.reused} known from the last scan")
    if overview.seconds is not None:
        told.append(f"{number(overview.seconds, 3)} s")
    return ", ".join(told)
