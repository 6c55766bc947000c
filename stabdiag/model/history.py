"""The history of one run: every series that its log holds, and what happened to the log.

The questions of the tree are answered from a history. It is independent of files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.model.arrays import AnyArray, Floats, Ints, Mask
from stabdiag.model.events import Event, EventCode, EventKind
from stabdiag.model.frozen import frozen
from stabdiag.model.roles.loss_kinds import LossKind
from stabdiag.model.text import and_more, plural
from stabdiag.model.unique import unique_values

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from stabdiag.model.frames import DataFrame, PandasSeries

# No dtype that networks are trained in except fp64 holds more than 3.4e38. A number beyond this is
# absurd but finite: it is read as this one, whose square is finite as well.
LARGEST_READ: Final = 1e100

# The fraction of steps that are evaluated, if steps are epochs: the last evaluation may be missing.
_EVALUATED_FRACTION = 0.9

# The roles that the name of a history has.
_MAX_NAMED_ROLES: Final = 4

# The key in ``DataFrame.attrs`` for the steps where the value of a role is NaN, by role.
NAN_STEPS: Final = "stabdiag.nan_steps"


@frozen
class Series:
    """One role's logged points: ``steps`` and ``values`` of equal length, steps rising.

    A point that was not logged is not in the series. NaN and ±inf are values. Where words were
    logged, as for a setting, ``words`` has the word of each value. ``np.asarray(series)`` are the
    values, without a copy.
    """

    role: str
    column: str
    steps: Ints
    values: Floats
    words: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        """Name the series in one line; its values would fill a screen."""
        at = f", steps {self.steps[0]} to {self.steps[-1]}" if len(self) else ""
        return f"<Series {self.role}: {plural(len(self), 'point')}{at}>"

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> AnyArray:
        """Return the values as an array."""
        return np.array(self.values, dtype=dtype, copy=copy)

    def to_pandas(self) -> PandasSeries:
        """Return the values as a pandas Series by step, without a copy."""
        from stabdiag.model.frames import indexed_series

        return indexed_series(self.values, self.steps, self.role)

    def finite(self) -> Series:
        """Return the series without its NaN and ±inf points."""
        return self._finite

    @cached_property
    def _finite(self) -> Series:
        good = np.isfinite(self.values)
        return self if good.all() else self._take(good)

    @cached_property
    def lowest(self) -> float:
        """The lowest value of finite points, infinity without points."""
        return float(self.values.min(initial=np.inf))

    @cached_property
    def highest(self) -> float:
        """The highest value of finite points, -infinity without points."""
        return float(self.values.max(initial=-np.inf))

    def between(self, first: int, last: int) -> Series:
        """Return the points with ``first <= step <= last``."""
        low, high = np.searchsorted(self.steps, [first, last + 1])
        return self._take(slice(int(low), int(high)))

    def until(self, last: int) -> Series:
        """Return the points with ``step <= last``."""
        return self._take(slice(int(np.searchsorted(self.steps, last, side="right"))))

    def since(self, first: int) -> Series:
        """Return the points with ``step >= first``."""
        return self._take(slice(int(np.searchsorted(self.steps, first)), None))

    def _take(self, which: slice | Mask) -> Series:
        steps, values = self.steps[which], self.values[which]
        return Series(
            role=self.role, column=self.column, steps=steps, values=values, words=self.words
        )


@cache
def _not_logged(role: str) -> Series:
    return Series(role=role, column=role, steps=np.empty(0, np.int64), values=np.empty(0))


@frozen(eq=True)
class Part:
    """One of several files with a run's records, and the range of steps used from it."""

    path: str
    first: int
    last: int


@frozen(eq=True)
class Source:
    """The origin of a history: ``records`` were read, ``unreadable`` were not.

    ``files`` are all local files that were read, including files next to the log. ``parts`` is
    empty if the run has a single file. ``other_runs`` is the number of other runs in the same
    folder or archive. ``resumed_at`` is the step at which a later attempt of the same run resumed
    from a checkpoint, if this is the attempt before.
    """

    name: str
    format: str
    records: int
    unreadable: int = 0
    attempts: int = 1
    attempt: int = 1
    files: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    other_runs: int = 0
    resumed_at: int | None = None

    def record_path(self, step: int | None) -> str:
        """Return the file with the record of a step, or the last file if unknown."""
        if not self.parts:
            return self.name
        holding = [p for p in self.parts if step is not None and p.first <= step <= p.last]
        return (holding or self.parts)[-1].path


@frozen
class RepeatedSteps:
    """The finite losses of steps that a resume repeated, before and after it.

    ``before`` are the discarded losses, ``after`` the losses that count. All arrays have the shape
    (n,).
    """

    step: int
    steps: Ints
    before: Floats
    after: Floats


def recorder_header(config: Mapping[str, object]) -> Mapping[str, object]:
    """Return the recorder's header in a log: the recorder, and the model at the start."""
    inner = config.get("config")
    recorder = inner.get("recorder") if isinstance(inner, Mapping) else None
    return recorder if isinstance(recorder, Mapping) else {}


@frozen
class History:
    """All series of one run by role, its events, and its origin.

    ``config`` is the configuration stated by the log itself.
    ``loss_kind`` is the kind of a loss that may rise while the run learns, such as a policy loss.
    ``unit`` is the name of a step of the log: ``epoch``, ``episode`` or ``round`` if that column
    serves as the step.
    ``repeated_steps`` has the losses of each resume that repeated steps. ``earlier`` are the last
    few other runs in the log, unless the run was selected by its number.
    """

    series: Mapping[str, Series]
    source: Source
    events: tuple[Event, ...] = ()
    config: Mapping[str, object] = field(default_factory=dict)
    loss_kind: LossKind | None = None
    unit: str = "step"
    repeated_steps: tuple[RepeatedSteps, ...] = ()
    earlier: tuple[History, ...] = ()

    def __repr__(self) -> str:
        """Name the history in one line; its values would fill a screen."""
        return f"<History of {self.source.name}: {and_more([*self.series], _MAX_NAMED_ROLES)}>"

    def get(self, role: str) -> Series | None:
        """Return the series of a role, or None if it was not logged."""
        return self.series.get(role)

    def logged(self, role: str) -> Series:
        """Return the series of a role, without points if it was not logged."""
        return self.series.get(role) or _not_logged(role)

    def finite(self, role: str) -> Series:
        """Return the finite points of a role, without points if it was not logged."""
        if role not in self._finite_by_role:
            self._finite_by_role[role] = self.logged(role).finite()
        return self._finite_by_role[role]

    @cached_property
    def _finite_by_role(self) -> dict[str, Series]:
        """The finite points of the roles in use."""
        return {}

    def group(self, prefix: str) -> dict[str, Series]:
        """Return the series of one role per group: ``weight_norm`` gives ``weight_norm/…``."""
        return dict(self._groups.get(prefix, {}))

    @cached_property
    def _groups(self) -> dict[str, dict[str, Series]]:
        groups: dict[str, dict[str, Series]] = {}
        for role, series in self.series.items():
            first, _, group = role.partition("/")
            groups.setdefault(first, {})[group or "all"] = series
        return groups

    def has(self, prefix: str) -> bool:
        """Return True if a role was logged, directly or for one of its groups."""
        return prefix in self.logged_roles

    @cached_property
    def logged_roles(self) -> frozenset[str]:
        """The roles that were logged, and the roles of groups without their group."""
        logged = [role for role, series in self.series.items() if len(series)]
        return frozenset([*logged, *(role.partition("/")[0] for role in logged)])

    def to_pandas(self) -> DataFrame:
        """Return a DataFrame with one row a step: the column ``step``, and one for each role.

        A role without a value at a step has NaN there. So has one whose value is NaN: ``attrs`` has
        the steps of these, so that ``read`` returns the same series for the frame.
        ``pd.DataFrame(history)`` has the same values without ``attrs``, and is slower.

        >>> from stabdiag import read
        >>> read({"step": [0, 10], "train/loss": [3.0, 2.5]}).to_pandas()
           step  loss
        0     0   3.0
        1    10   2.5
        """
        from stabdiag.model.frames import data_frame

        frame = data_frame(self._table())
        frame.attrs[NAN_STEPS] = {
            role: series.steps[np.isnan(series.values)].tolist()
            for role, series in self.series.items()
            if not series.words
        }
        return frame

    def __iter__(self) -> Iterator[dict[str, object]]:
        """Yield one record a step, with a key for ``step`` and each role."""
        table = self._table()
        columns = [column.tolist() for column in table.values()]
        return (dict(zip(table, row, strict=True)) for row in zip(*columns, strict=True))

    def _table(self) -> dict[str, AnyArray]:
        """All steps, and the values of each role at these steps."""
        every = [series.steps for series in self.series.values()]
        steps = unique_values(np.concatenate(every)) if every else np.empty(0, np.int64)
        table: dict[str, AnyArray] = {"step": steps}
        for role, series in self.series.items():
            if role == "step":
                continue
            column: AnyArray = np.full(len(steps), None if series.words else np.nan)
            column[np.searchsorted(steps, series.steps)] = (
                [series.words[int(value)] for value in series.values]
                if series.words
                else series.values
            )
            table[role] = column
        return table

    def before(self, step: int) -> History:
        """Return the history of all steps below ``step``."""
        cut = {role: series.until(step - 1) for role, series in self.series.items()}
        return replace(self, series={role: s for role, s in cut.items() if len(s)})

    def after(self, step: int) -> History:
        """Return the history of all steps above ``step``."""
        cut = {role: series.since(step + 1) for role, series in self.series.items()}
        return replace(self, series={role: s for role, s in cut.items() if len(s)})

    @property
    def messages(self) -> list[Event]:
        """Messages in the log: out of memory, a time-out, a traceback."""
        return [event for event in self.events if event.kind is EventKind.MESSAGE]

    @property
    def notes(self) -> list[Event]:
        """All other events: observations and assumptions made while the log was read."""
        return [event for event in self.events if event.kind is not EventKind.MESSAGE]

    @property
    def left_out(self) -> list[Event]:
        """Content after the last judged loss, or logs next to it, that may hold a loss."""
        return [event for event in self.events if event.kind is EventKind.LEFT_OUT]

    @property
    def resumes(self) -> list[int]:
        """The steps that the log went back to when the run resumed."""
        return [
            event.step
            for event in self.events
            if event.kind is EventKind.REWIND and event.step is not None
        ]

    @property
    def jobs_began(self) -> list[int]:
        """The first steps of new jobs: at a resume or a restart of the counter."""
        starts = (
            event.step
            for event in self.events
            if event.kind is EventKind.REWIND or event.code is EventCode.COUNTER_RESTARTS
        )
        return [step for step in starts if step is not None]

    @cached_property
    def counts_epochs(self) -> bool:
        """Whether the steps are epochs: the log says so, or every step is evaluated."""
        return self.unit != "step" or self._evaluates_each

    def epoch_of(self, step: int) -> int | None:
        """Return the logged epoch of a step, if each epoch counts its steps from the start.

        No line of the log has the step. The epoch is None for fractions of epochs.
        """
        if all(event.code is not EventCode.COUNTER_RESTARTS for event in self.events):
            return None
        epochs = self.finite("epoch").until(step).values
        is_whole = len(epochs) > 0 and float(epochs[-1]).is_integer()
        return int(epochs[-1]) if is_whole else None

    @property
    def counts_records(self) -> bool:
        """Whether the number of a record serves as its step."""
        return any(event.code in (EventCode.NUMBERED, EventCode.COUNTED) for event in self.events)

    @property
    def without_gradient(self) -> bool:
        """Whether the gradient norm was logged as 0 throughout."""
        return any(
            event.code is EventCode.PLACEHOLDER_DROPPED
            and event.role == "grad_norm"
            and event.value == 0
            for event in self.events
        )

    @property
    def _evaluates_each(self) -> bool:
        """Whether every step was logged and evaluated, which is unusual for optimizer steps."""
        loss, eval_loss = self.series.get("loss"), self.series.get("eval_loss")
        if loss is None or eval_loss is None or len(loss) < 2:
            return False
        if len(eval_loss) < _EVALUATED_FRACTION * len(loss):
            return False
        evaluated = np.isin(loss.steps, eval_loss.steps).mean()
        return bool(evaluated >= _EVALUATED_FRACTION and np.median(np.diff(loss.steps)) == 1)

    @property
    def first_step(self) -> int | None:
        """The smallest logged step, or None."""
        begins = [int(series.steps[0]) for series in self.series.values() if len(series)]
        return min(begins, default=None)

    @property
    def last_step(self) -> int | None:
        """The largest logged step, or None."""
        ends = [int(series.steps[-1]) for series in self.series.values() if len(series)]
        return max(ends, default=None)
