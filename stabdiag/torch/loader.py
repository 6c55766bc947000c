"""See the batches of a loader that the recorder does not iterate itself."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any, Protocol


class BatchObserver(Protocol):
    """A recorder. It never raises."""

    def see_batch(self, batch: Any, seconds: float = 0.0) -> None:
        """Measure a batch."""


class WatchedLoader:
    """Reports each batch of a loader when it is drawn, until it is closed.

    ``iter()`` looks the method up in the class, so the method of the class is replaced; other
    loaders of this class are not affected.
    """

    def __init__(self, loader: Any, observer: BatchObserver) -> None:
        self._kind = type(loader)
        self._is_own = "__iter__" in vars(self._kind)
        self._original = original = self._kind.__iter__

        def iterate(self: Any) -> Iterator[Any]:
            iterator: Iterator[Any] = original(self)
            return _observed(iterator, observer) if self is loader else iterator

        self._replaced = iterate
        self._kind.__iter__ = iterate

    def close(self) -> None:
        """Restore the method, unless another tool has replaced it since."""
        if self._kind.__iter__ is not self._replaced:
            return
        if self._is_own:
            self._kind.__iter__ = self._original
        else:
            del self._kind.__iter__


def _observed(iterator: Iterator[Any], observer: BatchObserver) -> Iterator[Any]:
    start = perf_counter()
    for batch in iterator:
        observer.see_batch(batch, perf_counter() - start)
        yield batch
        start = perf_counter()
