"""The program as a process: ``stabdiag``, and ``python -m stabdiag``.

Jobs are stopped on exit code 1, so only a verdict uses it. Exceptions, which give 1 in Python, and
C libraries that call ``exit(1)`` end with another code. Python itself has already loaded
the imports at the top, so they cannot fail before the guard is set up.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

# The exit code of an internal error (EX_SOFTWARE in sysexits.h).
_INTERNAL_ERROR = 70
_EXIT_MESSAGE = b"stabdiag: internal error, and no verdict: a library has ended the program; errno"

# Options of glibc's malloc (mallopt, malloc.h): M_TRIM_THRESHOLD and M_MMAP_THRESHOLD keep freed
# memory for the next array, and M_ARENA_MAX lets all threads share it. Getting fresh pages from the
# system takes a tenth of the time of a long log.
_MALLOC = ((-1, 1 << 30), (-3, 1 << 30), (-8, 1))


class _Terminated(BaseException):
    """The process received the signal to terminate."""


def run() -> "NoReturn":
    """Run the command line, and exit without freeing every object.

    Freeing takes a tenth of the time of a small log, and the system reclaims the memory anyway.
    mypy exits in the same way.
    """
    code, debug = _INTERNAL_ERROR, False
    try:
        debug = _debug()
        _prepare()
        code = _command()
    except BaseException as error:  # noqa: BLE001 - also what a library raises as SystemExit(1)
        code = _exit_code(error, debug=debug)
    finally:
        os._exit(code)


def _debug() -> bool:
    """Remove ``--debug`` from the arguments; return True if it was there."""
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    is_debug = "--debug" in sys.argv[:end]
    sys.argv[:end] = [word for word in sys.argv[:end] if word != "--debug"]
    return is_debug


def _prepare() -> None:
    """Set up the streams, the memory and the threads of a process that lives for one log."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        # A closed stream is not wanted, but the exit code still counts.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123 - open to the end
    if sys.platform != "win32":
        _guard()
    import gc
    import signal
    import warnings

    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    # Collecting cycles takes 5% of the time of a small log, and this process soon ends.
    gc.disable()
    # Warnings are for developers, and PYTHONWARNINGS=error is meant for their own programs.
    warnings.simplefilter("ignore")
    # NumPy's linear algebra starts busy-waiting threads, and nothing here multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _guard() -> None:
    """Let the C library's ``exit``, which we never call, end with the code of an internal error.

    OpenBLAS calls it when memory is scarce, and Python after an uncaught exception. The function
    registered last runs first; both are C functions, so no Python is needed then.
    """
    import ctypes  # NumPy imports it anyway

    libc = ctypes.CDLL(None)
    try:
        at_exit = libc["__cxa_atexit"]
        at_exit(libc["_exit"], ctypes.c_void_p(_INTERNAL_ERROR), None)
        at_exit(libc["perror"], ctypes.c_char_p(_EXIT_MESSAGE), None)
        for parameter, value in _MALLOC:
            libc["mallopt"](parameter, value)
    except AttributeError:  # another C library than glibc
        pass


def _command() -> int:
    from stabdiag.cli import main
    from stabdiag.cli.terminal import open_output

    open_output()
    code = main()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # already reported
        pass
    return code


def _terminate(_number: int, _frame: "FrameType | None") -> None:
    raise _Terminated


def _exit_code(error: BaseException, *, debug: bool) -> int:
    """Return the exit code of an uncaught exception; report it if it is an internal error."""
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, _Terminated):
        return 143
    first = error
    while first.__cause__ is not None:  # the reason for a failed import
        first = first.__cause__
    cause = f"{type(first).__name__}: {first}"
    verdict = getattr(error, "verdict", None)  # of a RenderError
    lines = [f"internal error, and no verdict: {cause}"]
    if verdict is not None:
        lines = [f"internal error: {error} ({cause}); the result is {verdict}"]
    if debug:
        import traceback

        lines = "".join(traceback.format_exception(error)).splitlines() + lines
    else:
        lines.append("to report it, add the output of the same command with --debug")
    try:
        for line in lines:
            # It may contain text from a log.
            sys.stderr.write(f"stabdiag: {ascii(line)[1:-1][:2000]}\n")
        sys.stderr.flush()
    except OSError:
        pass
    return _INTERNAL_ERROR


if __name__ == "__main__":
    run()
