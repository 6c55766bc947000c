"""Ask the tools that give advice about the broken runs: python benchmarks/cure/other_tools.py.

Two of the tools that ``benchmarks/accuracy/peers.py`` compares with say what to do, runmedic and
training-doctor; the others only name what they found. They run in the environment that it
makes, with every column that they read. The first three pieces of advice from the
worst findings of each are mapped to actions by hand (``ADVICE``), and kept in ``other_tools.json``
next to the runs.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from advisers import MAX_ACTIONS
from first_actions import DATA, rows_of

HERE = Path(__file__).parent
ACCURACY = HERE.parent / "accuracy"
PYTHON = HERE.parent.parent / ".peers" / "venv" / "bin" / "python"
TOOLS: Final = ("runmedic", "training-doctor")
COLUMNS: Final[tuple[str, ...]] = ("step", "loss", "grad_norm", "lr", "eval_loss")

Action = dict[str, Any]

_CLIP: Final = {"kind": "clip-gradients", "setting": "grad_clip", "to": 1.0}
_LOOK: Final = {"kind": "inspect-data"}
_CHECK: Final = {"kind": "check-model"}
_REGULARISE: Final = {"kind": "regularize"}


def lower(times: float) -> Action:
    """Return the action to lower the peak rate; ``times`` it, as a share."""
    return {"kind": "lower-lr", "setting": "peak_lr", "times": times}


# How each piece of advice begins, and the action that it is. A rate that is to be lowered two to
# ten times is lowered five times, one that is to be reduced "significantly" ten times, and one
# without a number to three tenths, as training-doctor does where it gives one. A warm-up takes a
# twentieth of the run.
ADVICE: Final[Mapping[str, Action]] = {
    "Log sample ids": _LOOK,
    "Log the ids": _LOOK,
    "Inspect the batches": _LOOK,
    "Check a batch": _LOOK,
    "Clip gradients": _CLIP,
    "Try gradient clipping": _CLIP,
    "Enable gradient clipping": _CLIP,
    "Add gradient clipping": _CLIP,
    "Lower the peak learning rate 2-10x": lower(0.2),
    "Add LR warmup or lower the peak LR": {**lower(0.2), "also": ["add-warmup"]},
    "Add warmup / lower the peak LR": {**lower(0.2), "also": ["add-warmup"]},
    "Reduce learning rate significantly": lower(0.1),
    "Reduce learning rate": lower(0.3),
    "Increase learning rate": {"kind": "raise-lr", "setting": "peak_lr", "times": 3.0},
    "Use a decaying schedule": {"kind": "fix-schedule", "setting": "schedule", "to": "cosine"},
    "Check the scheduler": {"kind": "fix-schedule"},
    "Consider using learning rate warmup": {"kind": "add-warmup", "setting": "warmup_steps"},
    "Try a learning rate schedule with warmup": {"kind": "add-warmup", "also": ["raise-lr"]},
    "Consider using a learning rate finder": {"kind": "test-lr"},
    "Check that the DataLoader shuffles": {"kind": "shuffle-data"},
    "Use numerically stable ops": {"kind": "safe-operations"},
    "Check for division by zero": {"kind": "safe-operations", "also": ["check-loss-function"]},
    "Run one step under": {"kind": "inspect-layers"},
    "Keep the checkpoint": {"kind": "stop-early"},
    "Add regularization": _REGULARISE,
    "Get more data": {**_REGULARISE, "also": ["change-model"]},
    "Overfit a single batch": {"kind": "try-small"},
    "Check `sum(p.numel()": _CHECK,
    "Make sure the order is": _CHECK,
    "Resume from a checkpoint": {"kind": "reload-checkpoint"},
    "Use gradient scaling": {"kind": "dynamic-loss-scale"},
    "Check for dead ReLU": {"kind": "inspect-layers"},
    "Use residual connections": {"kind": "change-model"},
    "Try different initialization": {**_CHECK, "also": ["check-initialization"]},
}


def main() -> None:
    """Query the tools, and write their actions."""
    parser = argparse.ArgumentParser(description="Ask the other tools what to do.")
    parser.add_argument("--data", type=Path, default=DATA)
    data = parser.parse_args().data
    sys.path.append(str(ACCURACY))
    from peers import make_environment, write_log

    make_environment()
    about = json.loads((data / "runs.json").read_text())
    # Leave out the runs that only look broken: they have no settings to change.
    runs = {run["run"]: run["manifest"] for run in about if not run["run"].startswith("trap/")}
    actions_by_tool: dict[str, dict[str, list[Action]]] = {}
    rows = rows_of(data / "logs.parquet")
    with TemporaryDirectory() as folder:
        files = [Path(folder, f"{number:04}.csv") for number in range(len(runs))]
        for path, run in zip(files, runs, strict=True):
            columns = [{name: row[name] for name in COLUMNS if name in row} for row in rows[run]]
            write_log(path, COLUMNS, columns)
        for tool in TOOLS:
            answer = subprocess.run(
                (PYTHON, HERE / "tool_worker.py", tool),
                input="\n".join(map(str, files)),
                text=True,
                check=True,
                stdout=subprocess.PIPE,
            )
            answers = json.loads(answer.stdout)
            actions_by_tool[tool] = {
                run: actions_of(answers[f"{number:04}"], manifest)
                for number, (run, manifest) in enumerate(runs.items())
            }
    (data / "other_tools.json").write_text(lines_of(actions_by_tool))


def actions_of(findings: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]) -> list[Action]:
    """Return the first actions that findings lead to; none where nothing was found."""
    advice = [text for finding in findings for text in finding["advice"]]
    return [action_of(text, manifest) for text in advice[:MAX_ACTIONS]]


def action_of(text: str, manifest: Mapping[str, Any]) -> Action:
    """Return the action that a piece of advice is, with its numbers."""
    begins = max((start for start in ADVICE if text.startswith(start)), key=len)
    action = dict(ADVICE[begins])
    if "times" in action:
        action["to"] = float(f"{action.pop('times') * manifest['peak_lr']:.6g}")
    if action.get("setting") == "warmup_steps" and not manifest.get("warmup_steps"):
        action["to"] = manifest["total_steps"] // 20
    if match := re.search(r"max_norm=~([\d.e+-]+)", text):
        action["to"] = float(match.group(1))
    return action


def lines_of(actions_by_tool: Mapping[str, Mapping[str, list[Action]]]) -> str:
    """Return the actions as JSON, one line for each run."""
    tools = (
        f"{json.dumps(tool)}: {{\n"
        + ",\n".join(f"{json.dumps(run)}: {json.dumps(answer)}" for run, answer in runs.items())
        + "\n}"
        for tool, runs in actions_by_tool.items()
    )
    return "{\n" + ",\n".join(tools) + "\n}\n"


if __name__ == "__main__":
    main()
