"""The program as a process: ``stabdiag``, and ``python -m stabdiag``."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from typing import Final, NoReturn

# What glibc's malloc is told (mallopt, malloc.h): M_TRIM_THRESHOLD and M_MMAP_THRESHOLD, so that
# freed memory stays for the next array, and M_ARENA_MAX, so that all threads share it. To get fresh
# pages from the system is a tenth of the time of a long log.
_MALLOC: Final = ((-1, 1 << 30), (-3, 1 << 30), (-8, 1))


def run() -> NoReturn:
    """Run the command line, and leave without taking apart what it has made.

    To free every object in turn takes a tenth of the time of a small log, and the system takes the
    memory back anyhow; mypy leaves in this way, too.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        # Whoever closed a stream wants nothing of it; the exit code still tells.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123 - open to the end
    code: object = 130
    try:
        _prepare()
        from stabdiag.cli import main

        main()
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:  # while all of this is imported
        pass
    with suppress(OSError):  # what could not be written has been told of
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


def _prepare() -> None:
    """Set up the memory and the threads of a process that lives for one log.

    NumPy's linear algebra starts threads that wait busily, and nothing here multiplies matrices.
    """
    # A process that soon ends gains nothing by looking for cycles: 5% of the time of a small log.
    gc.disable()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.platform != "linux":
        return
    import ctypes  # NumPy imports it anyhow

    with suppress(OSError, AttributeError):  # another C library than glibc
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in _MALLOC:
            mallopt(parameter, value)


if __name__ == "__main__":
    run()
