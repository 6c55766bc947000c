"""Ends the process that opens a file called so, as a lack of memory does."""

import os
import sys


def _hook(event, arguments):
    if event == "open" and "kills" in os.path.basename(str(arguments[0])):  # noqa: PTH119
        os.kill(os.getpid(), 9)


def deadly():
    sys.addaudithook(_hook)
