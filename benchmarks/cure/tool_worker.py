"""Ask one of the other tools what to do about some logs; runs where ``other_tools.py`` says.

python tool_worker.py TOOL < names of the logs, one a line
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Finding = dict[str, Any]  # its name, and its advice as sentences, in the tool's order


def runmedic(log: Path) -> list[Finding]:
    """Diagnose, as ``runmedic diagnose run.csv`` does; notes are left out."""
    from runmedic import loaders, roles
    from runmedic.checks import run_checks

    (run,) = loaders.load(str(log))
    return [
        {"name": finding.check, "advice": list(finding.fixes)}
        for finding in run_checks(run, roles.detect(run))
        if finding.severity in ("critical", "warning")
    ]


def training_doctor(log: Path) -> list[Finding]:
    """Log line after line, as its example of a training loop does; the worst diagnosis first."""
    from training_doctor import Doctor

    doctor = Doctor()
    for line in log.with_suffix(".jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        doctor.log(int(record.pop("step")), **record)
    rank = ("critical", "warning")
    diagnoses = [diagnosis for diagnosis in doctor.diagnoses if diagnosis.severity.value in rank]
    return [
        {
            "name": diagnosis.detector_name or diagnosis.problem,
            "advice": list(diagnosis.suggestions),
        }
        for diagnosis in sorted(
            diagnoses, key=lambda diagnosis: rank.index(diagnosis.severity.value)
        )
    ]


TOOLS: Mapping[str, Callable[[Path], list[Finding]]] = {
    "runmedic": runmedic,
    "training-doctor": training_doctor,
}


def query_tool(tool: str, log: Path) -> list[Finding]:
    """Return the findings of a tool in a log; if it fails, print why and return none."""
    try:
        return TOOLS[tool](log)
    except Exception as error:  # noqa: BLE001  the tool's own fault
        print(f"{tool} fails on {log.stem}: {type(error).__name__}: {error}", file=sys.stderr)
        return []


if __name__ == "__main__":
    logs = [Path(line) for line in sys.stdin.read().splitlines()]
    json.dump({log.stem: query_tool(sys.argv[1], log) for log in logs}, sys.stdout)
