"""The examples for agents run as they are shown, and give what is shown."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stabdiag.apply.actions import _CARRIED_OUT
from stabdiag.apply.frameworks import CONFIG_FRAMEWORKS
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "agents.md"
EXAMPLES = PAGE.read_text(encoding="utf-8").partition("<!-- run: start -->")[2]
SECTIONS = EXAMPLES.partition("<!-- run: end -->")[0].split("\n### ")


def blocks(section, *languages):
    return re.findall(
        rf"^```(?:{'|'.join(languages)})\n(.*?)^```$", section, re.DOTALL | re.MULTILINE
    )


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with the training script, the good runs, and the program on the path."""
    folder = tmp_path_factory.mktemp("agent")
    shutil.copy(ROOT / "docs" / "agents" / "train.py", folder)
    programs = folder / "bin"
    programs.mkdir()
    for name, words in {"stabdiag": "-m stabdiag", "python": ""}.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    shell("".join(blocks(SECTIONS[0], "sh")), folder)
    return folder


def shell(script, folder):
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("section", SECTIONS[1:], ids=lambda text: text.partition("\n")[0])
def test_an_example_gives_what_is_shown(section, desk):
    output = shell("".join(blocks(section, "sh")), desk)
    at = 0
    for line in "".join(blocks(section, "text", "diff")).splitlines():
        assert line in output[at:], output
        at = output.index(line, at)


def test_the_table_names_all_that_can_be_applied():
    text = PAGE.read_text(encoding="utf-8")
    for setting, kinds in _CARRIED_OUT.items():
        assert f"`{setting}`" in text
        assert all(f"`{kind.value}`" in text for kind in kinds)
    for framework in CONFIG_FRAMEWORKS:
        assert framework.name in text
        for name in framework.names.values():
            assert f"{name}` +" in text


def test_the_short_page_links_to_the_long_one():
    assert "docs/agents.md" in (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    assert len((ROOT / "AGENTS.md").read_text(encoding="utf-8").splitlines()) < 30
    assert Path(PAGE).exists()
