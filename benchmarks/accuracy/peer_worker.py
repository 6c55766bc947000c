"""Ask one tool about some logs; runs in the environment that ``peers.py`` makes.

python peer_worker.py TOOL OUT < names of the logs, one a line
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import TypeAlias

from peer_tools import TOOLS, ToolFinding

PATIENCE = 900  # seconds of the processor for one log
Verdict: TypeAlias = tuple[bool, str, int] | str  # warned, families, spikes; or why there is none


def main(tool: str, out: str) -> None:
    """Query the tool for each log, and write its answers."""
    signal.signal(signal.SIGPROF, give_up)
    logs = [Path(line) for line in sys.stdin.read().splitlines()]
    answers = {log.stem: query_tool(tool, log) for log in logs}
    answer = {"seconds": time.process_time(), "runs": answers}
    Path(out).write_text(json.dumps(answer), encoding="utf-8")


def query_tool(tool: str, log: Path) -> Verdict:
    """The verdict of a tool on one log, or the error that it raised."""
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        return summarize_findings(TOOLS[tool](log))
    except Exception as error:  # noqa: BLE001  the tool's own fault, to be counted
        return f"{type(error).__name__}: {error}"[:200]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def give_up(_signal: int, _frame: FrameType | None) -> None:
    """End a log that takes too long."""
    raise TimeoutError(f"no answer after {PATIENCE} s")


def summarize_findings(findings: list[ToolFinding]) -> Verdict:
    """Whether there was a warning, the first family named, and the number of loss spikes.

    Notes are passed over: with them each tool cries wolf more often, and none is right more often.
    Warnings without a family do not count toward the family either.
    """
    serious = [alarm for alarm in findings if alarm.serious]
    families = next((alarm.families for alarm in serious if alarm.families), ())
    return bool(serious), "".join(families), sum(alarm.loss_spike for alarm in serious)


if __name__ == "__main__":
    main(*sys.argv[1:])
