"""Records of reinforcement learning that are printed as a block of names and values.

RLlib prints each result as YAML, garage and rlkit as two columns between two rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.grammar import NUMBER_PATTERN, Grammar
from stabdiag.readers.text.records import LARGE_BLOCK, Record, Records

# RLlib: the entries of a result, in which some names recur at a deeper level.
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
