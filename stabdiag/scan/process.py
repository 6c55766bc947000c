"""A worker process: calls come in on standard input, answers go out on what was standard output."""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import signal
import sys
from contextlib import suppress
from functools import partial
from typing import TextIO


def serve() -> None:
    """Answer calls until there are no more, or whoever makes them is gone."""
    # Ctrl-C is for whoever called, and ends the calls.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    calls = sys.stdin.buffer
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a stray print is no answer
    without_pandas()
    from stabdiag.scan import work

    nowhere = open(os.devnull, "w")  # noqa: SIM115, PTH123 - open to the end
    work.impatient = partial(_dies_late, nowhere)
    gc.freeze()
    gc.disable()
    with suppress(BrokenPipeError):
        while size := int.from_bytes(calls.read(8), "little"):
            call, args, kwargs = pickle.loads(calls.read(size))
            answer: tuple[object, Exception | None]
            try:
                answer = call(*args, **kwargs), None
            except Exception as error:  # noqa: BLE001 - it is the caller's to judge
                answer = None, error
            pickle.dump(answer, answers, protocol=5)
            answers.flush()
            gc.collect()
    os._exit(0)


def without_pandas() -> None:
    """Keep Arrow, in a process that is ours alone, from importing pandas: half a second.

    It does so to ask whether a list is one of pandas' kinds, and only once.
    """
    import pyarrow as pa

    if "pandas" in sys.modules:
        return
    sys.modules["pandas"] = None  # type: ignore[assignment]
    with suppress(ImportError, AttributeError):
        pa.array([0])
    del sys.modules["pandas"]


def _dies_late(nowhere: TextIO, seconds: float | None) -> None:
    """End the process in so many seconds, whatever holds it: None lets it live."""
    if seconds is None:
        faulthandler.cancel_dump_traceback_later()
        return
    faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
