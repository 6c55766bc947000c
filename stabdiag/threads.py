"""Work on two cores at a time: NumPy and Arrow leave Python's lock while they compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    One = TypeVar("One")
    Other = TypeVar("Other")


def both(one: Callable[[], One], other: Callable[[], Other]) -> tuple[One, Other]:
    """Return what two calls return; the second is made in a thread of its own.

    An error of either is raised once both are done.
    """
    # Imported here: it brings logging along, which a small log does not wait for.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        # A thread begins with NumPy's own setting, by which it warns of an infinite result.
        beside = pool.submit(np.errstate(all="ignore")(other))
        return one(), beside.result()
