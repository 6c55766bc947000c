"""Which column serves which role."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stabdiag.errors import ColumnError, did_you_mean
from stabdiag.model.roles.groups import groups_of
from stabdiag.model.roles.looks import (
    by_last_word,
    by_looks,
    is_a_reward,
    is_an_lr,
    last_word,
    other_losses,
    section_of,
)
from stabdiag.model.roles.names import (
    is_evaluation,
    is_setting,
    names_measurements,
    names_results,
    normal,
    run_of,
    tells_split,
    without_run,
)
from stabdiag.model.roles.parts import about_opponents, opponent_of, parts_of
from stabdiag.model.roles.settings import setting_of
from stabdiag.model.roles.standin import may_stand_in
from stabdiag.model.roles.table import ROLES, Role
from stabdiag.model.text import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_NAMES = frozenset(name for role in ROLES if not role.several for name in role.names)
_PREFIXES = tuple(f"{prefix}_" for role in ROLES for prefix in role.prefixes)

# A column of this name beside the parts of a loss is their sum.
_SUM = "total"

_LOSSES = frozenset({"loss", "eval_loss"})

# If the column of one of these roles has no known name, a note says which column was taken.
_TOLD = frozenset({"step", "loss", "eval_loss", "lr", "grad_norm"})


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Which column serves which role, and what was decided on the way.

    If a total was not logged, ``parts`` has the columns whose sum it may be, by role.
    ``other_losses`` are columns that look like a training loss as well.
    """

    columns: Mapping[str, str]
    notes: tuple[str, ...]
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    other_losses: tuple[str, ...] = ()

    def has(self, *roles: str) -> bool:
        """Tell whether some column serves one of these roles."""
        return not self.columns.keys().isdisjoint(roles)


def may_serve(name: str) -> bool:
    """Tell whether a column may be of interest, whatever other columns there are.

    It is if it could serve a role by its name, or may mark the records of an evaluation.
    """
    key = normal(name)
    return (
        key in _NAMES
        or key.partition("_")[2] in _NAMES
        or normal(without_run(name)) in _NAMES
        or last_word(name) in _NAMES
        or "loss" in key
        or key.removeprefix("train_").startswith(_PREFIXES)
        or is_an_lr(name)
        or is_a_reward(name)
        or is_evaluation(name)
        or may_stand_in(name)
        or tells_split(name)
        or names_measurements(name)
        or names_results(name)
        or key == _SUM
        or setting_of(name) is not None
    )


def assign(
    names: Iterable[str], chosen: Mapping[str, str] | None = None, *, source: str = "the log"
) -> Assignment:
    """Find the column of each role.

    Args:
        names: all columns of the log.
        chosen: columns by role that the user named; they go before everything else.
        source: what an error calls the log.

    Raises:
        ColumnError: if a chosen column or role does not exist.
    """
    names = list(names)
    columns = _check_chosen(names, chosen or {}, source)
    choice = _Choice(names=[name for name in names if not is_setting(name)], columns=columns)
    for role in ROLES:
        if role.name not in choice.columns and not role.several:
            choice.choose(role)
    columns = {**choice.columns, **groups_of(choice.names, choice.taken)}
    free = [name for name in choice.names if name not in choice.taken]
    return Assignment(
        columns=columns,
        notes=(*choice.notes, *_about_looks(choice.looks)),
        parts=choice.parts,
        other_losses=other_losses(columns.get("loss", ""), free),
    )


@dataclass(kw_only=True)
class _Choice:
    """The columns chosen so far, by role; ``looks`` are those chosen by the looks of a name."""

    names: list[str]
    columns: dict[str, str]
    notes: list[str] = field(default_factory=list)
    looks: dict[str, list[str]] = field(default_factory=dict)
    parts: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.taken = set(self.columns.values())
        self._by_name = _by_name(self.names)

    def choose(self, role: Role) -> None:
        """Choose the column of a role, if there is one."""
        found = self._named(role)
        if not found:
            found = self._looking_like(role)
        elif role.name in _TOLD and not _is_known(found[0], role):
            self.looks[role.name] = found[:1]
        elif role.name == "loss" and len(found) > 1:
            others = ", ".join(found[1:4])
            self.notes.append(f"took {found[0]!r} as the loss; also possible: {others}")
        if found:
            self.columns[role.name] = found[0]
            self.taken.add(found[0])
        if found and role.name == "loss":
            self.notes += _about_other_runs(found[0], self.names)

    def _named(self, role: Role) -> list[str]:
        """Return the columns with a known name of a role; except for losses its end will do."""
        known = (self._by_name[name] for name in role.names if name in self._by_name)
        found = [name for name in known if name not in self.taken]
        return found if found or role.name in _LOSSES else by_last_word(role, self._free())

    def _looking_like(self, role: Role) -> list[str]:
        found = by_looks(role, self._free())
        if role.name in _LOSSES:
            opponent = opponent_of(found)
            if opponent is not None:
                self.notes.append(about_opponents(opponent, role.name))
                return [opponent]
            several = parts_of(found)
            total = self._by_name.get(_SUM) if role.name == "loss" else None
            if several and total is None:
                self.parts[role.name] = several
                return found
            found = [total] if several and total is not None else found
        if found:
            self.looks[role.name] = found
        return found

    def _free(self) -> list[str]:
        return [name for name in self.names if name not in self.taken]


def _by_name(names: Sequence[str]) -> dict[str, str]:
    """Return the columns by the forms of their names; of equal forms the plainest name counts."""
    found: dict[str, str] = {}
    for name in names:
        found.setdefault(normal(name), name)
    for name in names:
        found.setdefault(normal(without_run(name)), name)
    section = section_of(names)
    for name in names if section else ():
        found.setdefault(normal(name).removeprefix(f"{section}_"), name)
    return found


def _is_known(name: str, role: Role) -> bool:
    return normal(name) in role.names or normal(without_run(name)) in role.names


def _about_looks(looks: Mapping[str, Sequence[str]]) -> list[str]:
    """Say in one line which columns were chosen by the looks of their names."""
    if not looks:
        return []
    took = [f"{found[0]!r} as the {role}" for role, found in looks.items()]
    others = [
        f"{', '.join(found[1:4])}{f' as the {role}' if len(looks) > 1 else ''}"
        for role, found in looks.items()
        if len(found) > 1
    ]
    names = "its name" if len(took) == 1 else "their names"
    also = f"; also possible: {'; '.join(others)}" if others else ""
    return [f"took {listed(took)}, by {names}{also}"]


def _about_other_runs(taken: str, names: list[str]) -> list[str]:
    """Say which other runs a table has, such as a chart of several that W&B exports."""
    run, metric = run_of(taken), without_run(taken)
    others = [run_of(name) for name in names if name != taken and without_run(name) == metric]
    others = [one for one in others if one]
    if not (run and others):
        return []
    shown = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
    from shlex import quote

    pick = f"--column {quote(f'loss={others[0]} - {metric}')}"
    return [f"the table holds {len(others) + 1} runs; this is {run!r}, not {shown} ({pick})"]


def _check_chosen(names: list[str], chosen: Mapping[str, str], source: str) -> dict[str, str]:
    known = [role.name for role in ROLES]
    grouped = {role.name for role in ROLES if role.prefixes or role.several}
    for role, name in chosen.items():
        if role not in known and role.partition("/")[0] not in grouped:
            hint = did_you_mean(role, known) or f"; roles are {', '.join(known)}"
            raise ColumnError(f"unknown role {role!r}{hint}")
        if name not in names:
            hint = did_you_mean(name, names) or f"; it has {', '.join(names[:8])}"
            raise ColumnError(f"{source} has no column {name!r} for {role}{hint}")
    return dict(chosen)
