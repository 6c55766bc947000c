"""Completion through the protocols of the shells, and in the installed shells."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time

import pytest

from stabdiag.cli import complete
from tests.conftest import ROOT


@pytest.fixture
def log(runs, tmp_path, monkeypatch):
    """A log in the working folder, the name of the program on the path, and a home of its own."""
    shutil.copy(runs / "spike-lr-jump" / "log.jsonl", tmp_path)
    program = tmp_path / "bin" / "stabdiag"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m stabdiag "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return tmp_path / "log.jsonl"


@pytest.fixture
def offers(log, stabdiag, monkeypatch):
    """Return a function that gives the completions of the last word of a line."""

    def offer(shell, line):
        words = line.split(" ")
        split = re.sub(r"(?<=[a-z.])=", "\n=\n", "\n".join(words)).rstrip("\n").split("\n")
        bash = {"COMP_WORDS": "\n".join(split), "COMP_CWORD": str(len(split) - 1)}
        variables = {"_TYPER_COMPLETE_FISH_ACTION": "get-args", **(bash if shell == "bash" else {})}
        variables |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_WORD_TO_COMPLETE": words[-1]}
        variables |= {"_STABDIAG_COMPLETE": f"complete_{shell}"}
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        output = stabdiag()
        assert (output.code, output.err) == (0, "")
        if shell == "zsh":
            return re.findall(r'"([^"]+)"(?=[:\n)])', output.out)
        return [re.split(r"\t|:::", text)[0] for text in output.out.splitlines()]

    return offer


LINES = [
    ("stabdiag expl", "explain"),
    ("stabdiag log.jsonl --forma", "--format"),
    ("stabdiag diagnose log.jsonl --format mark", "markdown"),
    ("stabdiag check log.jsonl --fail-on w", "warning"),
    ("stabdiag diagnose log.jsonl --limit spike.sig", "spike.sigma=3"),
    ("stabdiag diagnose log.jsonl --set grad_c", "grad_clip="),
    ("stabdiag diagnose log.jsonl --write sar", "sarif="),
    ("stabdiag diagnose log.jsonl --log-format jsonl", "jsonl"),
    ("stabdiag explain spike-lr", "spike-lr-jump"),
    ("stabdiag diagnose log.jsonl --column loss_s", "loss_scale="),
    ("stabdiag diagnose log.jsonl --column loss=grad", "loss=grad_norm"),
]


@pytest.mark.parametrize(
    ("shell", "line", "word"),
    [
        *(("bash", *case) for case in LINES),
        *((shell, *case) for shell in ("zsh", "fish", "powershell") for case in LINES[-2:]),
    ],
)
def test_a_shell_is_offered_matching_words(offers, shell, line, word):
    # bash replaces only what follows the sign.
    expected = word.partition("=")[2] if shell == "bash" and "=grad" in line else word
    assert expected in offers(shell, line)


def test_an_unreadable_log_completes_no_columns(log, offers):
    log.write_bytes(b"\x00\x01")
    assert "grad_norm" not in offers("fish", "stabdiag diagnose log.jsonl --column loss=gr")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo-terminals")
@pytest.mark.parametrize(
    ("shell", "init"),
    [
        ("bash --norc -i", "source <(stabdiag --show-completion)"),
        ("zsh -f -i", 'autoload -U compinit && compinit -u; eval "$(stabdiag --show-completion)"'),
        ("fish --no-config -i", "stabdiag --show-completion | source"),
    ],
)
@pytest.mark.usefixtures("log")
def test_a_real_shell_completes(shell, init):
    words = shell.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]} here")
    child, terminal = pty.fork()
    if not child:
        os.environ.update(TERM="xterm", SHELL=shutil.which(words[0]) or "")
        os.execvp(words[0], words)
    printed = b""

    def until(sign):
        nonlocal printed
        end = time.monotonic() + 60
        while sign not in printed and time.monotonic() < end:
            if select.select([terminal], [], [], 1)[0]:
                printed += os.read(terminal, 65536)

    try:
        os.write(terminal, f"{init}; echo rea''dy\n".encode())
        until(b"ready\r\n")
        os.write(terminal, b"stabdiag log.jsonl --limit spike.sig\t")
        until(b"spike.sigma=3")
    finally:
        os.close(terminal)
        os.waitpid(child, 0)
    assert b"spike.sigma=3" in printed


@pytest.mark.usefixtures("log")
def test_it_installs_itself_for_the_shell_that_runs(tmp_path):
    line = "stabdiag --install-completion; echo $?"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0"
    assert "stabdiag" in (tmp_path / ".bashrc").read_text(encoding="utf-8")


def test_words_are_offered_by_their_beginning():
    assert complete.among(("json", "junit", "svg"))("j") == [("json", ""), ("junit", "")]
