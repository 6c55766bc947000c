"""Choose the column of each role: by known names, by name patterns, or as a fallback."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import cache, lru_cache
from itertools import islice
from operator import itemgetter
from typing import Final

from stabdiag.model.frozen import frozen
from stabdiag.model.roles.counter_names import counts_games
from stabdiag.model.roles.fallbacks import loss_measure, names_training
from stabdiag.model.roles.groups import find_group_role, find_groups
from stabdiag.model.roles.hints import check_chosen, describe_likely_columns
from stabdiag.model.roles.loss_kinds import (
    describe_discriminator_choice,
    estimates_returns,
    find_discriminator_loss,
    find_variational_loss,
    is_adversarial_loss,
    is_policy_loss,
    loss_parts,
    surrogate_losses,
)
from stabdiag.model.roles.name_patterns import PATTERN_ROLES, by_name_pattern
from stabdiag.model.roles.names import (
    NameParts,
    exported_run,
    find_split,
    is_a_loss,
    is_a_reward,
    is_an_lr,
    is_evaluation,
    is_setting,
    last_word,
    lost_games,
    measures_with_losses,
    name_words,
    names_measurements,
    names_results,
    names_split,
    normal,
    without_evaluation,
    without_run,
)
from stabdiag.model.roles.other_losses import is_other_loss
from stabdiag.model.roles.scores import is_known_score
from stabdiag.model.roles.settings import column_setting
from stabdiag.model.roles.table import ROLES, Role
from stabdiag.model.text import and_more, listed, word_list

_ROLE_SPELLINGS = frozenset(name for role in ROLES if not role.several for name in role.names)


# A column of this name next to the components of a loss is their sum.
_SUM = "total"

# The name of the only metric of a file, or the estimate of a value function.
_ESTIMATE = "value"
_POLICY_MEASURES = frozenset(word_list("ent entropy policy advantage advantages"))

_LOSS_ROLES = frozenset({"loss", "eval_loss"})

# Roles that allow a partial diagnosis if no loss was logged.
_PARTIAL_ROLES = frozenset(
    word_list("grad_norm loss_scale weight_norm activation_norm max_attention_logit amax reward")
)

# If the column of one of these roles has no known name, a note names the chosen column.
_REPORTED_ROLES = frozenset({"step", "loss", "eval_loss", "lr", "grad_norm"})


@frozen(eq=True)
class Assignment:
    """The column of each role, with notes on the choice.

    If no total was logged, ``parts`` has the columns whose sum may be the loss, by role.
    ``other_losses`` are columns that look like a training loss as well.
    """

    columns: Mapping[str, str]
    notes: tuple[str, ...]
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    other_losses: tuple[str, ...] = ()

    def has(self, *roles: str) -> bool:
        """Return True if a column serves one of these roles."""
        return not self.columns.keys().isdisjoint(roles)


# Called for the thousands of columns in each block of a wide log.
@lru_cache(maxsize=1 << 17)
def may_serve(name: str) -> bool:
    """Return True if a column may be needed, regardless of the other columns.

    Its name may fit a role, or it may mark the records of an evaluation.
    """
    key = normal(name)
    return (
        key in _ROLE_SPELLINGS
        or normal(without_run(name)) in _ROLE_SPELLINGS
        or last_word(name) in _ROLE_SPELLINGS
        or "loss" in key
        or find_group_role(name) is not None
        or is_an_lr(name)
        or is_a_reward(name, of_episodes=True)
        or is_evaluation(name)
        or loss_measure(name) is not None
        or names_training(name)
        or is_adversarial_loss(name)
        or names_split(name)
        or names_measurements(name)
        or names_results(name)
        or key == _SUM
        or column_setting(name) is not None
        or is_known_score(name)
        or is_other_loss(name)
    )


def can_judge_without_loss(roles: Iterable[str]) -> bool:
    """Return True if one of these roles allows a diagnosis without a loss."""
    return any(role.partition("/")[0] in _PARTIAL_ROLES for role in roles)


def assign(
    names: Iterable[str],
    chosen: Mapping[str, str] | None = None,
    *,
    source: str = "the log",
    counter: str = "",
) -> Assignment:
    """Find the column of each role.

    Args:
        names: all columns of the log.
        chosen: columns by role given by the user, which take precedence.
        source: the name of the log in error messages.
        counter: the word in front of the steps of a text, which are not a column: ``episode``.

    Raises:
        ColumnError: if a chosen column or role does not exist.
    """
    every, given = tuple(names), chosen or {}
    check_chosen(every, given, source)
    return _assigned(every, tuple(given.items()), counter)


# Runs of one project have the same columns, and each log needs them several times.
@lru_cache(maxsize=64)
def _assigned(
    names: tuple[str, ...], chosen: tuple[tuple[str, str], ...], counter: str
) -> Assignment:
    unusable = lost_games(names) | measures_with_losses(names)
    usable = [name for name in names if not (is_setting(name) or name in unusable)]
    choice = _Choice(names=usable, columns=dict(chosen), counter=counter)
    for role in ROLES:
        if role.name not in choice.columns and not role.several:
            choice.choose(role)
    columns = {**choice.columns, **find_groups(choice.names, choice.taken)}
    free = [name for name in choice.names if name not in choice.taken]
    return Assignment(
        columns=columns,
        notes=(
            *choice.notes,
            *_describe_name_patterns(choice.patterns),
            *describe_likely_columns(free, columns),
        ),
        parts=choice.parts,
        other_losses=other_losses(columns.get("loss", ""), free),
    )


class _Choice:
    """The columns chosen so far, by role; ``patterns`` are the ones chosen by name pattern."""

    def __init__(self, names: list[str], columns: dict[str, str], counter: str) -> None:
        """Begin with the columns of roles that the user named."""
        self.names = names
        self.counter = counter
        self.columns = columns
        self.notes: list[str] = []
        self.patterns: dict[str, list[str]] = {}
        self.parts: dict[str, tuple[str, ...]] = {}
        self.taken = set(columns.values())
        self._by_name = _by_name(names)
        self._known = _by_role((key, [name]) for key, name in self._by_name.items())
        ends: dict[str, list[str]] = {}
        for name in self.names:
            if "/" in name and (end := last_word(name)) not in _VAGUE:
                ends.setdefault(end, []).append(name)
        self._known_ends = _by_role(ends.items())

    def choose(self, role: Role) -> None:
        """Choose the column of a role, if there is one."""
        columns = self._named(role)
        if not columns:
            columns = self._matching(role)
        elif role.name in _REPORTED_ROLES and not _is_known(columns[0], role):
            self.patterns[role.name] = columns[:1]
        elif role.name == "loss" and len(columns) > 1:
            others = ", ".join(columns[1:4])
            self.notes.append(f"took {columns[0]!r} as the loss; also possible: {others}")
        if columns:
            self.columns[role.name] = columns[0]
            self.taken.add(columns[0])
        if columns and role.name == "loss":
            self.notes += _describe_other_runs(columns[0], self.names)

    def _named(self, role: Role) -> list[str]:
        """Return the columns with a known name of a role, or except for losses its last word."""
        columns = [name for name in self._known.get(role.name, ()) if name not in self.taken]
        if role.name == "loss" and any(normal(name) == _ESTIMATE for name in columns):
            columns = _without_estimates(columns, self.names)
        if role.name == "memory" and any(is_a_reward(n, of_episodes=True) for n in self.names):
            # A policy is trained on the episodes in its memory.
            columns = [name for name in columns if normal(name) != "memory"]
        return columns if columns or role.name in _LOSS_ROLES else self._by_last_word(role)

    def _by_last_word(self, role: Role) -> list[str]:
        """Return the only column whose name after the last slash is a name of the role.

        If several sections have one, none is returned: they are components or belong to
        several networks. Ambiguous words do not count.
        """
        columns = [
            name
            for name in self._known_ends.get(role.name, ())
            if name not in self.taken and not is_evaluation(name)
        ]
        if role.name == "weight_norm":
            columns = [name for name in columns if normal(name.rpartition("/")[0]) not in _DIVIDED]
        is_only = len({name.rpartition("/")[0] for name in columns}) == 1
        return columns[:1] if is_only else []

    def _matching(self, role: Role) -> list[str]:
        if role.name not in PATTERN_ROLES:
            return []
        counters = (*self.names, self.counter)
        of_episodes = role.name == "reward" and any(map(counts_games, counters))
        columns = by_name_pattern(role, self._free(), of_episodes=of_episodes)
        if role.name == "eval_loss" and "loss" in self.columns:
            # The same loss of the evaluation comes first: loss_0 and eval_loss_0.
            trained = _without_training(self.columns["loss"])
            columns = sorted(columns, key=lambda name: without_evaluation(name) != trained)
            if columns and without_evaluation(columns[0]) == trained and not self.parts:
                self.patterns[role.name] = columns
                return columns
        if role.name in _LOSS_ROLES:
            discriminator_loss = find_discriminator_loss(columns)
            if discriminator_loss is not None:
                self.notes.append(describe_discriminator_choice(discriminator_loss, role.name))
                return [discriminator_loss]
            # A policy loss is not a component of the minimized loss, and would hide its rise.
            others = [name for name in columns if not is_policy_loss(name)]
            if len(others) < len(columns):
                # Terms of a policy are added to it with weights that are not logged.
                others = surrogate_losses(others) or surrogate_losses(columns) or columns
                # The loss of a temperature is not a component of the value loss either.
                others = [*filter(estimates_returns, others)] or others
                columns = [*others, *(name for name in columns if name not in others)]
            variational_loss = find_variational_loss(others)
            is_policy = is_policy_loss(others[0]) if others else False
            several = () if variational_loss or is_policy else loss_parts(others)
            columns = columns if variational_loss is None else [variational_loss]
            total = self._by_name.get(_SUM) if role.name == "loss" else None
            if several and total is None:
                self.parts[role.name] = several
                return others
            columns = [total] if several and total is not None else columns
        if columns:
            self.patterns[role.name] = columns
        return columns

    def _free(self) -> list[str]:
        return [name for name in self.names if name not in self.taken]


def _without_training(name: str) -> str:
    """Return a name in normal form without the word for the training."""
    words = normal(without_run(name)).split("_")
    return "_".join(word for word in words if find_split(word) is not NameParts.TRAINING)


def _without_estimates(columns: list[str], names: Sequence[str]) -> list[str]:
    """Return columns without a ``value`` next to measures of a policy, which estimates states."""
    if not any(is_a_reward(n) or not _POLICY_MEASURES.isdisjoint(name_words(n)) for n in names):
        return columns
    return [name for name in columns if normal(name) != _ESTIMATE]


def _by_name(names: Sequence[str]) -> dict[str, str]:
    """Return the columns by their normalized names; names without a run have priority."""
    columns: dict[str, str] = {}
    for name in names:
        columns.setdefault(normal(name), name)
    for name in names:
        columns.setdefault(normal(without_run(name)), name)
    for name in names:
        section, _, inner = name.partition("/")
        if normal(section) in _HISTORIES:
            columns.setdefault(normal(inner), name)
    return columns


def _by_role(columns: Iterable[tuple[str, list[str]]]) -> dict[str, list[str]]:
    """Return the columns of each known name by role, in the order of the names of the role."""
    roles = _roles_by_name()
    placed: dict[str, list[tuple[int, list[str]]]] = {}
    for key, names in columns:
        for role, place in roles.get(key, ()):
            placed.setdefault(role, []).append((place, names))
    return {
        role: [name for _, names in sorted(entries, key=itemgetter(0)) for name in names]
        for role, entries in placed.items()
    }


@cache
def _roles_by_name() -> Mapping[str, Sequence[tuple[str, int]]]:
    """Return the roles of each known name, with its place among the names of the role."""
    roles: dict[str, list[tuple[str, int]]] = {}
    for role in ROLES:
        for place, name in enumerate(role.names):
            roles.setdefault(name, []).append((role.name, place))
    return roles


def _is_known(name: str, role: Role) -> bool:
    return normal(name) in role.names or normal(without_run(name)) in role.names


def _describe_name_patterns(patterns: Mapping[str, Sequence[str]]) -> list[str]:
    """Describe in one line the columns that were chosen by name pattern."""
    if not patterns:
        return []
    took = [f"{columns[0]!r} as the {role}" for role, columns in patterns.items()]
    others = [
        f"{', '.join(columns[1:4])}{f' as the {role}' if len(patterns) > 1 else ''}"
        for role, columns in patterns.items()
        if len(columns) > 1
    ]
    names = "its name" if len(took) == 1 else "their names"
    alternatives = f"; also possible: {'; '.join(others)}" if others else ""
    return [f"took {listed(took)}, by {names}{alternatives}"]


def _describe_other_runs(taken: str, names: list[str]) -> list[str]:
    """Describe the other runs in a table, such as a W&B chart of several runs."""
    run, metric = exported_run(taken), without_run(taken)
    others = [exported_run(name) for name in names if name != taken and without_run(name) == metric]
    others = [name for name in others if name]
    if not (run and others):
        return []
    from shlex import quote

    pick = f"--column {quote(f'loss={others[0]} - {metric}')}"
    shown = and_more(others, 3)
    return [f"the table holds {len(others) + 1} runs; this is {run!r}, not {shown} ({pick})"]


# Sections with all columns of a log: history/step.
_HISTORIES: Final = frozenset(word_list("history hist log logs records training_history"))

# Words that mean something else after a slash: optimizer/norm, timing_s/step, reward/value.
_VAGUE: Final = frozenset(
    word_list(
        "norm step steps s value time throughput update date ep epochs round rounds generation "
        "generations total_time kl entropy accuracy acc top1 acc1 acc_1 prec1 prec_1 "
        "aux_loss underflow scale rank worker"
    )
)

# Quantities divided by the weights, as in char-rnn: grad/param norm.
_DIVIDED: Final = frozenset({"grad", "grads", "gradient", "gradients", "update", "updates"})

# Maximum number of other losses, since each costs time in a log of thousands of columns.
_MAX_LOSS_PARTS: Final = 8


def other_losses(taken: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the first few other columns of the run that look like a training loss."""
    matches = (
        name for name in names if is_a_loss(name) and exported_run(name) == exported_run(taken)
    )
    return tuple(islice(matches, _MAX_LOSS_PARTS))
