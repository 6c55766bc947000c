"""The program as a process: its exit code, and what it does with streams closed or full."""

import ast
import json
import os
import re
import signal
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from zipfile import ZipFile

import numpy as np
import pytest

from stabdiag.files import atomic_write
from tests.conftest import RUNS, program, python

LOG = RUNS / "spike-lr-jump" / "log.jsonl"
MANIFEST = LOG.with_name("manifest.json")
FULL = Path("/dev/full")


def shell(command, folder):
    """Run a shell command; replace STABDIAG and LOG by the program and a log."""
    line = command.replace("STABDIAG", f"{sys.executable} -m stabdiag").replace("LOG", str(LOG))
    return subprocess.run(
        ["/bin/sh", "-c", line], capture_output=True, text=True, check=False, cwd=folder
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("STABDIAG diagnose LOG --fail-on warning >&-", 1),
        ("STABDIAG diagnose missing.jsonl 2>&-", 2),
        ("STABDIAG diagnose missing.jsonl 2>/dev/full", 2),
        ("STABDIAG diagnose - <&-", 2),
        ("STABDIAG watch - <&-", 2),
        ("STABDIAG --help >&-", 0),
    ],
)
def test_the_exit_code_is_right_with_closed_streams(command, code, tmp_path):
    done = shell(command, tmp_path)
    assert done.returncode == code
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("command", ["diagnose LOG", "--help"])
def test_a_full_disk_is_reported_in_one_line(command, tmp_path):
    done = shell(f"STABDIAG {command} >/dev/full", tmp_path)
    assert done.returncode == 2
    assert done.stderr == "stabdiag: standard output: No space left on device\n"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    assert shell("STABDIAG diagnose LOG -o pipe", tmp_path).returncode == 0
    reader.join(timeout=60)
    assert pipe.is_fifo()
    assert read[0].startswith("WARNING  Loss spike from a learning-rate jump")


def test_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with atomic_write(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target"]


def test_a_file_that_a_shell_has_opened_is_written_to_and_not_replaced(stabdiag, tmp_path):
    line = "(echo before; STABDIAG explain Q1.1 -o /dev/stdout; echo after) > out"
    assert shell(line, tmp_path).returncode == 0
    lines = (tmp_path / "out").read_text().splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert lines[1:-1] == stabdiag("explain", "Q1.1").out.splitlines()


def test_replaced_files_keep_their_permissions(tmp_path):
    for mode in (0o600, 0o664):
        output = tmp_path / f"{mode:o}"
        output.touch()
        output.chmod(mode)
        with atomic_write(output) as file:
            file.write(b"new")
        assert (output.read_text(), stat.S_IMODE(output.stat().st_mode)) == ("new", mode)


def test_a_name_may_be_as_long_as_the_system_takes(stabdiag, tmp_path):
    name = "x" * os.pathconf(tmp_path, "PC_NAME_MAX")
    assert stabdiag("explain", "Q1.1", "-o", name).code == 0
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert stabdiag("explain", "Q1.1", "-o", f"{name}y").code == 2


def test_a_folder_that_is_gone_or_full_is_named(tmp_path):
    done = shell("mkdir gone; cd gone; rmdir ../gone; STABDIAG diagnose LOG", tmp_path)
    assert (done.returncode, done.stderr.partition(":")[2]) == (
        2,
        " the working folder: No such file or directory; change to one that exists\n",
    )
    (tmp_path / "tmp").mkdir()
    with ZipFile(tmp_path / "run.zip", "w") as archive:
        archive.write(LOG, "log.jsonl")
    # Limit files to 8 blocks of 512 or 1024 bytes.
    line = "ulimit -f 8; TMPDIR=$PWD/tmp; export TMPDIR; cat run.zip | STABDIAG diagnose -"
    done = shell(line, tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"stabdiag: {tmp_path / 'tmp'}: File too large; make room")
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("command", ["--help", "explain", "diagnose LOG -f html"])
def test_a_closed_pipe_keeps_the_exit_code(command, tmp_path):
    # No process reads from the pipe, so every write fails.
    reader, writer = os.pipe()
    os.close(reader)
    done = program(*command.replace("LOG", str(LOG)).split(), stdout=writer, cwd=tmp_path)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("diagnose pipe", signal.SIGINT),
        ("diagnose pipe", signal.SIGTERM),
        ("watch -", signal.SIGTERM),
        ("watch LOG", signal.SIGINT),
    ],
)
def test_the_exit_code_names_the_signal(command, number, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    line = [sys.executable, "-m", "stabdiag", *command.replace("LOG", str(LOG)).split()]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    piped = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(line, **piped, cwd=tmp_path) as process, ExitStack() as opened:
        if command == "diagnose pipe":  # to open it waits until the program does so, too
            opened.enter_context((tmp_path / "pipe").open("wb"))
        else:
            process.stderr.readline()  # what the watch has seen so far
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert b"Traceback" not in err
    assert bool(out) == (command == "watch LOG")  # the report so far


@pytest.mark.parametrize("library", ["ctypes", "pyarrow"])
def test_a_library_that_is_not_there_is_no_verdict(library, tmp_path):
    code = f"import sys; sys.modules[{library!r}] = None; from stabdiag.__main__ import run; run()"
    log = tmp_path / "log.csv"
    log.write_text("step,loss\n" + "".join(f"{step},{1 / (1 + step)}\n" for step in range(300)))
    done = python("-c", code, "convert", log, "-o", tmp_path / "run.parquet")
    first, second = done.stderr.splitlines()
    assert done.returncode == 70
    assert first.startswith("stabdiag: internal error, and no verdict: ModuleNotFoundError: ")
    assert library in first
    assert "--debug" in second


def test_the_traceback_is_there_for_those_who_ask():
    code = "import sys; sys.modules['numpy'] = None; from stabdiag.__main__ import run; run()"
    done = python("-c", code, "diagnose", LOG, "--debug")
    assert done.returncode == 70
    assert done.stderr.startswith("stabdiag: Traceback (most recent call last):")
    assert "no verdict: ModuleNotFoundError" in done.stderr.splitlines()[-1]


def test_a_file_may_be_called_as_the_option_is(tmp_path):
    done = shell("STABDIAG diagnose -- --debug", tmp_path)
    assert done.stderr == "stabdiag: --debug: no such file or folder; check the path\n"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not keep to the limit")
@pytest.mark.parametrize("memory", [90_000, 220_000])
def test_without_memory_there_is_no_verdict(memory, tmp_path):
    done = shell(f"ulimit -c 0; ulimit -v {memory}; STABDIAG diagnose LOG", tmp_path)
    assert done.returncode in (0, 2, 70) or done.returncode < 0 or done.returncode > 128


def test_public_names_are_imported_lazily():
    code = "import sys; had = {*sys.modules}; import stabdiag.__main__; print({*sys.modules} - had)"
    imported = {"stabdiag", "stabdiag._version", "stabdiag.__main__"}
    assert set(ast.literal_eval(python("-c", code).stdout)) == imported


def test_warnings_are_not_for_those_who_run_it(tmp_path):
    norms = np.geomspace(1e-300, 1e308, 400).tolist()
    rows = (f'{{"step": {at}, "loss": 1, "weight_norm/a": {x}}}\n' for at, x in enumerate(norms))
    (tmp_path / "log.jsonl").write_text("".join(rows))
    for action in ("error", "always"):
        line = f"PYTHONWARNINGS={action} STABDIAG diagnose log.jsonl --fail-on never"
        done = shell(line, tmp_path)
        assert (done.returncode, done.stderr) == (0, "")


# The place of an unexpected failure, and the command.
PLACES = {
    "cli": ("stabdiag.cli.run_options:read_project", "diagnose LOG -o out.html"),
    "sources": ("stabdiag.assemble.inputs:read_source", "diagnose LOG -o out.html"),
    "readers": ("stabdiag.readers.source:Stream.peek", "check LOG"),
    "assemble": ("stabdiag.assemble.inputs:build_history", "convert LOG -o out.parquet"),
    "stats": ("stabdiag.tree.run:trailing_moments", "diagnose LOG --fail-on warning"),
    "tree": ("stabdiag.api.diagnosis:walk", "diagnose LOG --write json=out.json"),
    "symptoms": ("stabdiag.api.diagnosis:check_symptoms", "checklist LOG -o out.json"),
    "a thread": ("stabdiag.api.diagnosis:check_symptoms", "diagnose LOG -o out.html"),
    "formats": ("stabdiag.formats:pieces", "diagnose LOG -o out.html"),
    "watch": ("stabdiag.watch.grown:GrownLog.columns", "watch LOG --until-idle 0 -o out.html"),
    "compare": ("stabdiag.comparison:compare_runs", "compare LOG LOG -o out.json"),
    "postmortem": ("stabdiag.api:postmortem", "postmortem LOG -o out.md"),
    "preflight": ("stabdiag.checks.preflight:preflight", "preflight MANIFEST -o out.json"),
    "a write": ("pathlib:Path.replace", "diagnose LOG -o out.html"),
    "a write of Parquet": ("pyarrow.parquet:write_table", "convert LOG -o out.parquet"),
    "an import": ("stabdiag.cli:import_module", "diagnose LOG"),
}
FAILURES = {
    "RuntimeError('boom')": 70,
    "RecursionError('boom')": 70,
    "EOFError('boom')": 70,
    "ImportError('boom')": 70,
    "SystemExit(1)": 70,
    "MemoryError()": 2,  # the log needs more than there is
    "KeyboardInterrupt()": 130,
    "SIGTERM": 143,
    "exit(1)": 70,  # exit of C, which Python does not see
}

# Fail in each place in each way, in a process of its own: a child, as they all import the same.
PLANTER = """
import ctypes, importlib, json, os, signal, sys
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"
places, failures = json.loads(sys.argv[1])
for target, _ in places.values():
    importlib.import_module(target.partition(":")[0])
import numpy.ma, pandas, rich.console, stabdiag.cli.config, tsdownsample  # so that no child has to
from stabdiag.__main__ import run

def plant(target, failure):
    def fail(*_, **__):
        if failure == "SIGTERM":
            for _ in range(2):  # a watch has time for its report after the first one
                os.kill(os.getpid(), signal.SIGTERM)
        elif failure == "exit(1)":
            ctypes.CDLL(None).exit(1)
        raise eval(failure)

    module, _, path = target.partition(":")
    owner = importlib.import_module(module)
    *owners, name = path.split(".")
    for one in owners:
        owner = getattr(owner, one)
    setattr(owner, name, fail)

ends = []
for place, (target, command) in places.items():
    # Every accident in some places, and the ones that differ most in all of them.
    for failure in failures if place in ("cli", "a thread", "watch") else failures[:5:4]:
        folder = Path(f"{place} {failure}")
        folder.mkdir()
        child = os.fork()
        if not child:
            os.chdir(folder)
            for number, name in enumerate(("out", "err"), 1):
                os.dup2(os.open(f"../{folder}.{name}", os.O_WRONLY | os.O_CREAT), number)
            plant(target, failure)
            if place == "a thread":
                stabdiag.api.diagnosis._PARALLEL_LOSSES = 0
            sys.argv = ["stabdiag", *command.split()]
            run()
        _, status = os.waitpid(child, 0)
        left = [path.name for path in folder.iterdir()]
        told = [line for line in Path(f"{folder}.err").read_text().splitlines() if line]
        ends.append([place, failure, os.waitstatus_to_exitcode(status), len(told), left])
print(json.dumps(ends))
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no fork")
def test_crashes_have_exit_codes_of_their_own(tmp_path):
    places = {
        name: (target, command.replace("LOG", str(LOG)).replace("MANIFEST", str(MANIFEST)))
        for name, (target, command) in PLACES.items()
    }
    cases = json.dumps([places, list(FAILURES)])
    ends = json.loads(python("-c", PLANTER, cases, cwd=tmp_path).stdout)
    assert {place for place, *_ in ends} == set(PLACES)
    assert {failure for _, failure, *_ in ends} == set(FAILURES)
    unexpected = [(place, kind, code) for place, kind, code, _, _ in ends if code != FAILURES[kind]]
    assert unexpected == []
    lines = {"exit(1)": 1, **dict.fromkeys(("KeyboardInterrupt()", "SIGTERM"), 0)}
    lines_by_code = {70: 2, 2: 1}
    for place, kind, code, count, left in ends:
        # Where a format fails, the terminal report or the verdict follows.
        has_fallback = place in ("formats", "postmortem") and code == 70 and kind not in lines
        expected = lines.get(kind, lines_by_code.get(code))
        assert (place, kind, count >= expected) == (place, kind, True)
        assert has_fallback or count == expected, (place, kind, count)
        # As after kill -9, the file under another name may be left, and nothing under its own.
        assert [name for name in left if kind != "exit(1)" or name.startswith("out")] == []


BREAK_FORMAT = """
import sys
from stabdiag.__main__ import run
import stabdiag.formats as formats
formats.FORMATS[{format!r}][{kind!r}] = "no_such_module:render"
run()
"""


@pytest.mark.parametrize(
    ("format_name", "kind", "command", "report"),
    [
        ("html", "report", "diagnose LOG -o out.html", "ERROR|WARNING"),
        ("json", "report", "diagnose LOG --json", "ERROR|WARNING"),
        ("markdown", "postmortem", "postmortem LOG -o out.md", "ERROR|WARNING"),
        ("html", "comparison", "compare LOG LOG -o out.html", "OK"),
        ("json", "checks", "checklist LOG --json", "CHECKLIST"),
        ("json", "checks", "preflight MANIFEST --json", "PREFLIGHT"),
        ("html", "overview", "scan LOG --write html=out.html", "Worst runs"),
        ("markdown", "overview", "check LOG -o out.md", "Worst runs"),
    ],
)
def test_failed_format_falls_back_to_the_terminal_report(
    format_name, kind, command, report, tmp_path
):
    code = BREAK_FORMAT.format(format=format_name, kind=kind)
    words = [{"LOG": str(LOG), "MANIFEST": str(MANIFEST)}.get(w, w) for w in command.split()]
    done = python("-c", code, *words, cwd=tmp_path)
    lines = done.stderr.splitlines()
    assert done.returncode == 70
    assert any(re.match(report, line) for line in lines), done.stderr
    message = next(line for line in lines if "internal error" in line)
    assert f"the {format_name} output failed (ModuleNotFoundError: " in message
    assert "; the result is " in message
    assert "no verdict" not in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_failed_terminal_format_still_gives_the_verdict(tmp_path):
    code = BREAK_FORMAT.format(format="terminal", kind="report")
    done = python("-c", code, "diagnose", LOG)
    assert (done.returncode, done.stdout) == (70, "")
    assert "stabdiag: warning: Loss spike from a learning-rate jump" in done.stderr
