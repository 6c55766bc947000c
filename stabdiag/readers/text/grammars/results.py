"""Records of reinforcement learning that are printed as a block of names and values.

Baselines print tables in boxes, RLlib each result as YAML, garage and rlkit two columns between two
rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.grammars.records import LARGE_BLOCK, Record, Records
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, NUMBER_TOKEN, Grammar

# Stable-Baselines, OpenAI's baselines, Spinning Up: tables of two columns between dashes. Names
# below a section get its prefix: rollout/ep_rew_mean.
#
# ---------------------------------
# | rollout/           |          |
# |    ep_rew_mean     | 21.3     |
# ---------------------------------
_DASHES: Final = b"-" * 8
_BOX_RULE: Final = lazy_pattern(
    rb"\n(?:[^\n|]{0,60}[ :])?\+?-{8,200}(?:\+-{3,200}\+)?[ \t]{0,8}(?=\n|$)"
)
# A name has no value of its own: Epoch 3 | train loss: 2.31 | val loss: 2.40 | lr: 0.1, and
# 12:00 | batch 80 | loss 2.31 | 0.1
_BOX_ROW: Final = lazy_pattern(
    rb"\n[^\n|]{0,60}\|(?![^\n|]{0,90}[:=] {0,4}[-+]?\d)"
    rb"(?![^\n|]{0,90}[A-Za-z] {1,12}\d{1,12} {0,12}\|[^\n|]{1,100}\|[^\n]{0,100}\d)"
    rb"([^\n|]{1,100})\|([^\n|]{0,100})\|(?=\s|$)"
)

# Names in a table of training values, as opposed to settings.
_TRAINING_VALUES: Final = lazy_pattern(r"loss|rew|epret|timesteps|n_?updates", re.IGNORECASE)

# Several of these names show that a table without rules, as in a paste, is one of these.
_POLICY_NAMES: Final = lazy_pattern(
    rb"\|[ \t]{0,20}(?:\w{1,20}/[ \t]{0,4})?(?:n_?updates|total_?timesteps|ep_?rew_?mean"
    rb"|policy_loss|policy_gradient_loss|value_loss|explained_variance|approx_?kl|AverageEpRet)"
    rb"[ \t]{0,40}\|"
)
_MIN_POLICY_NAMES: Final = 3
_MAX_LONE_TABLE: Final = 1 << 14


def _tables(data: bytes) -> Iterator[Record]:
    """Yield the position and cells of each table with a rule above or below it.

    A paste of one table may lack its rules.
    """
    # Most logs have no rule, and the search for a fixed text is much faster.
    rules = [match.span() for match in _BOX_RULE.finditer(data)] if _DASHES in data else []
    if not rules and not _is_lone_table(data):
        return
    begins = [0, *(end for _, end in rules)]
    ends = [*(begin for begin, _ in rules), len(data)]
    for begin, end in zip(begins, ends, strict=True):
        table: dict[str, bytes] = {}
        section, place = "", begin
        rows = [*_BOX_ROW.finditer(data, begin, end)]
        names = [row[1].decode("utf-8", "replace") for row in rows]
        # Spinning Up aligns names on the right: they are not indented.
        at_right = len({*map(len, names)}) == 1 and not any(name.endswith("  ") for name in names)
        for row, name in zip(rows, names, strict=True):
            value = row[2].strip()
            if name.strip().endswith("/") and not value:
                section = name.strip()
            # An indented row without a section above it belongs to a table that was cut off.
            elif section or at_right or not name.startswith("  "):
                place = place if table else row.start(1)
                table.setdefault(f"{section}{name.strip()}", value)
        if table:
            yield place, table


def _is_lone_table(data: bytes) -> bool:
    if b"|" not in data or len(data) > _MAX_LONE_TABLE:
        return False
    names = [*map(bytes.strip, _POLICY_NAMES.findall(data))]
    return len(names) >= _MIN_POLICY_NAMES and len({*names}) == len(names)


def _has_training_table(data: bytes) -> bool:
    """Return True if a table has a number with the name of a training value, as no summary has.

    The summary of a model lists its modules: 2 | loss_fn | CrossEntropyLoss | 0
    """
    tables = (table for _, table in _tables(data) if len(table) > 1)
    return any(
        _TRAINING_VALUES.search(name) is not None and NUMBER_TOKEN.match(value) is not None
        for table in tables
        for name, value in table.items()
    )


# RLlib: the entries of a result, where some names recur at a deeper level.
#
# Result for PPO_CartPole-v0_1a2b3_00000:
#   episode_reward_mean: 21.3
#   info:
#     learner:
#       default_policy:
#         learner_stats:
#           total_loss: 227.45
#   training_iteration: 1
_RLLIB_ITERATION: Final = "training_iteration"
_RESULT: Final = rb"\nResult for [^\n]{1,200}:[ \t]{0,8}(?=\n)"
_RESULT_ENTRY: Final = lazy_pattern(
    rb"%b|\n(?P<indent> {0,40})(?P<name>[A-Za-z_][\w./-]{0,80}): {1,4}(?P<value>%b)(?=\s|$)"
    % (_RESULT, NUMBER_PATTERN)
)
# A result that a paste cuts ends before it, as names are sorted.
_SINCE_RESTORE: Final = "iterations_since_restore"
_SIGNATURE: Final = lazy_pattern(
    rb"\n {0,8}(?:training_iteration|iterations_since_restore): \d{1,12}(?=\s|$)"
)
# The settings of a trial are deeper entries below this one.
_TRIAL_SETTINGS: Final = lazy_pattern(
    rb"\n(?P<indent> {0,40})config:[ \t]{0,8}(?:\n(?P=indent) [^\n]{0,4000}){1,4000}"
)
# Without a finished episode, RLlib prints NaN for its measures.
_OF_EPISODES: Final = ("episode_", "episodes_", "sampler_")


def _results(data: bytes) -> Iterator[Record]:
    """Yield the position and the cells of each result of RLlib."""
    cells: dict[str, bytes] = {}
    begin = outermost = 0
    for match in _RESULT_ENTRY.finditer(_without_settings(data)):
        indent = len(match["indent"] or b"")
        name = (match["name"] or b"").decode()
        is_repeated = name in cells and indent <= outermost
        if cells and (not name or is_repeated):
            yield from _with_iteration(begin, cells)
            cells = {}
        if not cells:
            begin, outermost = match.start() + 1, indent
        if name and not (name.startswith(_OF_EPISODES) and b"nan" in match["value"].lower()):
            outermost = min(outermost, indent)
            cells.setdefault(name, match["value"])
    yield from _with_iteration(begin, cells)


def _with_iteration(begin: int, cells: Mapping[str, bytes]) -> Iterator[Record]:
    iteration = cells.get(_RLLIB_ITERATION, cells.get(_SINCE_RESTORE))
    if iteration is not None and len(cells) > 1:
        yield begin, {**cells, _RLLIB_ITERATION: iteration}


def _without_settings(data: bytes) -> bytes:
    """Return the data with blanks in place of the settings of each trial."""
    return _TRIAL_SETTINGS.sub(lambda settings: b" " * len(settings[0]), data)


# garage (dowel) and rlkit: two columns between two rules, after the time of the logger.
#
# -----------------------  -------------
# AverageReturn             81.6906
# Iteration                  0
# -----------------------  -------------
_TWO_DASHES: Final = b"---  ---"
_TWO_COLUMN_RULE: Final = lazy_pattern(
    rb"\n(?:[^\n|]{0,60}\| )?-{3,120} {2}-{3,60}[ \t]{0,8}(?=\n|$)"
)
_TWO_COLUMN_ROW: Final = lazy_pattern(
    rb"\n(?:[^\n|]{0,60}\| )?([A-Za-z][\w/. ()-]{0,100}?) {2,100}(%b)[ \t]{0,8}(?=\n|$)"
    % NUMBER_PATTERN
)
_COUNTER_ROWS: Final = ("Iteration", "Itr", "itr", "Epoch", "epoch", "TotalEnvSteps", "Step")
_STEP_ROW: Final = "Iteration"
_MEASURED_ROWS: Final = lazy_pattern(rb"[Rr]eturn|[Rr]eward|[Ll]oss")


def _two_columns(data: bytes) -> Iterator[Record]:
    """Yield the position and the cells of each table between two rules."""
    rules = [*_TWO_COLUMN_RULE.finditer(data)] if _TWO_DASHES in data else []
    for above, below in pairwise(rules):
        rows = [*_TWO_COLUMN_ROW.finditer(data, above.end(), below.start() + 1)]
        lines = data.count(b"\n", above.end(), below.start())
        cells = {row[1].decode().strip(): row[2] for row in reversed(rows)}
        counter = next((name for name in _COUNTER_ROWS if name in cells), None)
        if counter is None or len(rows) < 2 or 2 * len(rows) < lines:
            continue
        yield rows[0].start(1), {_STEP_ROW: cells.pop(counter), **cells}


def _has_two_columns(data: bytes) -> bool:
    return any(
        _MEASURED_ROWS.search(name.encode()) for _, cells in _two_columns(data) for name in cells
    )


BASELINES: Final = Grammar(
    step="step",
    block=LARGE_BLOCK,
    kinds=(Records(find_records=_tables, signature=_has_training_table, begins=True),),
    joined=True,
)
RLLIB: Final = Grammar(
    step=_RLLIB_ITERATION,
    block=LARGE_BLOCK,
    kinds=(Records(find_records=_results, signature=_SIGNATURE.search, begins=True),),
)
DOWEL: Final = Grammar(
    step=_STEP_ROW,
    block=LARGE_BLOCK,
    kinds=(Records(find_records=_two_columns, signature=_has_two_columns, begins=True),),
)
