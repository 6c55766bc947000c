"""The formats that can be read: one row each, in the order in which they are asked.

A format's module exports two functions:

    recognises(head: bytes, *, whole: bool) -> bool
        whether the first lines of a file (all of it, if ``whole``) are of this format; cheap, and
        never fails
    read(stream: Stream) -> Columns
        the log; what is heavy to import is imported here, inside

The quick formats come first and a module is imported only when it is asked, so that a small log of
JSON lines does not wait for twenty others.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, cast

from stabdiag.errors import LogError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from stabdiag.readers.columns import Columns
    from stabdiag.readers.source import Stream


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A format.

    ``title`` says what it is, ``recognised`` in one sentence how it is told, ``loses`` what of it
    no diagnosis uses, and ``example`` shows a line. ``extra`` is the optional extra that brings
    the ``packages`` (by the names under which they are imported) which read it. A ``binary`` format
    is asked about bytes that are no text. A ``last_resort`` takes what no other format knows.
    """

    name: str
    title: str
    module: str
    suffixes: tuple[str, ...]
    recognised: str
    extra: str | None = None
    packages: tuple[str, ...] = ()
    loses: str = ""
    example: str = ""
    binary: bool = False
    last_resort: bool = False

    def recognises(self, head: bytes, *, whole: bool) -> bool:
        """Return whether the head of a file is of this format; its module is loaded only now."""
        recognises: Callable[..., bool] = import_module(self.module).recognises
        return recognises(head, whole=whole)

    @property
    def missing(self) -> tuple[str, ...]:
        """The packages that are needed and are not installed."""
        return tuple(package for package in self.packages if find_spec(package) is None)

    def read(self, stream: Stream) -> Columns:
        """Read a stream.

        Raises:
            LogError: If it cannot be read, or the packages for it are not installed.
        """
        if self.missing:
            raise LogError(
                f"{stream.name}: {self.title}; to read it, install {' and '.join(self.missing)}:"
                f" pip install 'stabdiag[{self.extra}]'"
            )
        read = cast("Callable[[Stream], Columns]", import_module(self.module).read)
        return read(stream)


READERS: Final = (
    Reader(
        name="parquet",
        title="Parquet",
        module="stabdiag.readers.parquet",
        suffixes=(".parquet", ".pq"),
        recognised="begins with the bytes PAR1",
        loses="columns that are no numbers, words or times",
        binary=True,
    ),
    Reader(
        name="jsonl",
        title="JSON lines",
        module="stabdiag.readers.jsonl",
        suffixes=(".jsonl", ".ndjson", ".json"),
        recognised="a line among the first that is one JSON object",
        loses="lists of more than one number, but for their first",
        example='{"step": 100, "loss": 2.31, "grad_norm": 0.84, "lr": 0.0003}',
    ),
    Reader(
        name="csv",
        title="CSV",
        module="stabdiag.readers.csv",
        suffixes=(".csv", ".tsv"),
        recognised="a line of names over lines of as many cells, most of them numbers",
        loses="comments",
        example="step,loss,grad_norm,lr",
    ),
    Reader(
        name="trainer-state",
        title="HF trainer_state.json",
        module="stabdiag.readers.trainer_state",
        suffixes=(".json",),
        recognised="one JSON object with a list called log_history",
        loses="what callbacks keep; the mean loss of the summary at the end is not a training loss",
        example='"log_history": [{"epoch": 0.1, "loss": 2.31, "grad_norm": 0.84, "step": 10}, …]',
    ),
    Reader(
        name="json",
        title="a JSON document",
        module="stabdiag.readers.json_document",
        suffixes=(".json",),
        recognised="one JSON list of objects, or one object of lists or over several lines",
        loses="all tables but the largest; lists of another length than the longest",
        example='[{"iteration": 100, "main/loss": 2.31}, {"iteration": 200, "main/loss": 2.25}]',
    ),
    Reader(
        name="mlflow-metric",
        title="a metric file of MLflow",
        module="stabdiag.readers.mlflow_metric",
        suffixes=(),
        recognised="lines of a time in milliseconds, a value and a step",
        loses="nothing; it is one metric, and has the name of the file",
        example="1767225600000 2.31 100",
    ),
)


def reader(name: str) -> Reader:
    """Return the reader of a format."""
    for one in READERS:
        if one.name == name:
            return one
    names = [one.name for one in READERS]
    raise LogError(
        f"unknown format {name!r}{did_you_mean(name, names)}; known are {', '.join(names)}"
    )
