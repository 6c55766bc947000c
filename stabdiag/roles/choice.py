"""Which column serves which role."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stabdiag.errors import ColumnError, did_you_mean
from stabdiag.roles.names import is_evaluation, normal, tells_split
from stabdiag.roles.parts import opponent_of, parts_of
from stabdiag.roles.table import ROLES, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NOT_A_LOSS = re.compile(r"loss_?scale|scale$|(^|_)(num|min|max|std|n)(_|$)|grad")
_AN_LR = re.compile(r"^(train_)?(lr|learning_rate)(_|$)|_lr(_|$)|_lr\d*$")

# What means something else behind a bar: optimizer/norm, timing_s/step, reward/value, memory/time.
_VAGUE = frozenset({"norm", "step", "steps", "s", "value", "time", "throughput", "update", "date"})

# So many other losses are looked into: a log of thousands of columns pays for those it uses.
_OTHERS = 8

_NAMES = frozenset(name for role in ROLES for name in role.names)
_PREFIXES = tuple(f"{prefix}_" for role in ROLES for prefix in role.prefixes)


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Which column serves which role, and what was decided on the way.

    Where a total was not logged, ``parts`` has the columns of which it is the sum, by role.
    ``other_losses`` are columns that look like a training loss as well.
    """

    columns: Mapping[str, str]
    notes: tuple[str, ...]
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    other_losses: tuple[str, ...] = ()


def may_serve(name: str) -> bool:
    """Tell whether a column may be looked at, whatever other columns there are.

    It may if some role could take it by its name, or if it tells records of an evaluation.
    """
    key = normal(name)
    return (
        key in _NAMES
        or normal(_without_run(name)) in _NAMES
        or _last_word(name) in _NAMES
        or "loss" in key
        or key.removeprefix("train_").startswith(_PREFIXES)
        or _AN_LR.search(key) is not None
        or is_evaluation(name)
        or tells_split(name)
    )


def assign(names: Iterable[str], chosen: Mapping[str, str] | None = None) -> Assignment:
    """Find the column of each role.

    Args:
        names: all columns of the log.
        chosen: columns by role that the user named; they go before everything else.

    Raises:
        ColumnError: if a chosen column or role does not exist.
    """
    names = list(names)
    chosen = _check_chosen(names, chosen or {})
    by_name: dict[str, str] = {}
    for name in names:
        by_name.setdefault(normal(name), name)
    for name in names:
        by_name.setdefault(normal(_without_run(name)), name)
    taken = set(chosen.values())
    columns: dict[str, str] = dict(chosen)
    notes: list[str] = []
    parts: dict[str, tuple[str, ...]] = {}
    for role in ROLES:
        if role.name in columns:
            continue
        found = [by_name[n] for n in role.names if n in by_name and by_name[n] not in taken]
        if not found and role.name not in ("loss", "eval_loss"):
            found = _by_last_word(role, [n for n in names if n not in taken])
        if not found:
            found, note = _by_pattern(role, [n for n in names if n not in taken])
            if role.name in ("loss", "eval_loss"):
                found, note, several = _whole(role, found, note)
                parts.update({role.name: several} if several else {})
            notes += note
        elif role.name == "loss" and len(found) > 1:
            others = ", ".join(found[1:4])
            notes.append(f"took {found[0]!r} as the loss; also possible: {others}")
        if found:
            columns[role.name] = found[0]
            taken.add(found[0])
        if found and role.name == "loss":
            notes += _about_other_runs(found[0], names)
    columns.update(_groups(names, taken))
    also = _other_losses(columns.get("loss", ""), [name for name in names if name not in taken])
    return Assignment(columns=columns, notes=tuple(notes), parts=parts, other_losses=also)


def _without_run(name: str) -> str:
    """Return the name of the metric: W&B puts that of the run before it when it exports a chart."""
    return name.rpartition(" - ")[2]


def _last_word(name: str) -> str:
    """Return what follows the last bar of a name: ``actor/grad_norm`` is a gradient's norm."""
    return normal(name.rpartition("/")[2])


def _by_last_word(role: Role, names: list[str]) -> list[str]:
    """Return the one column whose name ends in one of the role, whatever stands before the bar.

    Several are parts, or of several networks. A word alone that means too much does not count.
    """
    known = set(role.names).difference(_VAGUE)
    found = [
        name
        for name in names
        if "/" in name and _last_word(name) in known and not is_evaluation(name)
    ]
    return found if len(found) == 1 else []


def _about_other_runs(taken: str, names: list[str]) -> list[str]:
    """Say which other runs a table has, as where W&B exports a chart of several."""
    run, _, metric = taken.rpartition(" - ")
    if not run:
        return []
    others = [
        name.rpartition(" - ")[0]
        for name in names
        if name != taken and name.rpartition(" - ")[2] == metric and " - " in name
    ]
    if not others:
        return []
    shown = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
    from shlex import quote

    pick = f"--column {quote(f'loss={others[0]} - {metric}')}"
    return [f"the table holds {len(others) + 1} runs; this is {run!r}, not {shown} ({pick})"]


def _check_chosen(names: list[str], chosen: Mapping[str, str]) -> dict[str, str]:
    known = [role.name for role in ROLES]
    for role, name in chosen.items():
        if role.partition("/")[0] not in known:
            hint = did_you_mean(role, known) or f"; roles are {', '.join(known)}"
            raise ColumnError(f"unknown role {role!r}{hint}")
        if name not in names:
            hint = did_you_mean(name, names) or f"; it has {', '.join(names[:8])}"
            raise ColumnError(f"the log has no column {name!r} for {role}{hint}")
    return dict(chosen)


def _by_pattern(role: Role, names: list[str]) -> tuple[list[str], list[str]]:
    """Fall back on what a name looks like, and say so."""
    if role.name == "loss":
        like = [name for name in names if _is_a_loss(name)]
        # Of several parts of a loss the total is most likely the one that is called so, or the one
        # with the shortest name.
        like.sort(key=lambda name: (_last_word(name) not in role.names, len(normal(name))))
    elif role.name == "lr":
        like = [n for n in names if _AN_LR.search(normal(n)) and "min" not in normal(n)]
    elif role.name == "eval_loss":
        like = [name for name in names if "loss" in normal(name) and is_evaluation(name)]
    else:
        return [], []
    if role.name != "loss" or not like:
        return like, []
    others = f"; also possible: {', '.join(like[1:4])}" if len(like) > 1 else ""
    return like, [f"took {like[0]!r} as the loss, by its name{others}"]


def _other_losses(taken: str, names: list[str]) -> tuple[str, ...]:
    """Return the first few columns of the same run that look like a training loss as well."""
    run = taken.rpartition(" - ")[0]
    like = [name for name in names if _is_a_loss(name) and name.rpartition(" - ")[0] == run]
    return tuple(like[:_OTHERS])


def _is_a_loss(name: str) -> bool:
    key = normal(name)
    return "loss" in key and not is_evaluation(name) and not _NOT_A_LOSS.search(key)


def _whole(
    role: Role, names: list[str], notes: list[str]
) -> tuple[list[str], list[str], tuple[str, ...]]:
    """Of several losses by their looks return the one that counts, or those that make it up."""
    opponent = opponent_of(names)
    if opponent is not None:
        note = f"took {opponent!r} as the {role.name}: a generator trains against a discriminator"
        return [opponent], [note], ()
    several = parts_of(names)
    if several:
        notes = [f"the sum of {_listed(several)} serves as the {role.name}: no total is logged"]
    return names, notes, several


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _groups(names: list[str], taken: set[str]) -> dict[str, str]:
    """Find ``weight_norm/<group>`` and its like."""
    found: dict[str, str] = {}
    for name in names:
        if name in taken:
            continue
        key = normal(name)
        bare = re.sub(r"^train_", "", key)
        for role in ROLES:
            prefix = next((p for p in role.prefixes if bare.startswith(f"{p}_")), None)
            if prefix:
                found.setdefault(f"{role.name}/{_group_name(name, prefix)}", name)
                break
    return found


def _group_name(name: str, prefix: str) -> str:
    """Return what follows the prefix in the column's own spelling."""
    words = len(prefix.split("_"))
    parts = re.split(
        r"[^A-Za-z0-9]+", name.strip(), maxsplit=words + name.lower().startswith("train")
    )
    return parts[-1].strip("/._- ") or name
