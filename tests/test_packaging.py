"""What is installed, what it brings along, and what the command line loads."""

import json
import os
import re
import shutil
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from flit_core import buildapi

import stabdiag
from tests.conftest import ROOT, RUNS, program, python

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PINS = dict(
    line.split("==")
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
)

LOADED = """
import json, sys
from stabdiag.cli import main
try:
    main()
except SystemExit:
    pass
sys.stderr.write(json.dumps([*sys.modules]))
"""


def loaded(*arguments):
    """Return the modules, and the top-level packages, that a command has imported at its end."""
    modules = json.loads(python("-c", LOADED, *arguments, check=True).stderr)
    return {*modules, *(name.partition(".")[0] for name in modules)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    here = Path.cwd()
    os.chdir(ROOT)
    try:
        return zipfile.Path(folder / buildapi.build_wheel(str(folder)))
    finally:
        os.chdir(here)


def files(folder, under=""):
    """Return the paths of all files in a folder, except caches of Python."""
    paths = set()
    for path in folder.iterdir():
        if path.is_dir() and path.name != "__pycache__":
            paths |= files(path, f"{under}{path.name}/")
        elif path.is_file():
            paths.add(f"{under}{path.name}")
    return paths


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    name = f"stabdiag-{stabdiag.__version__}.dist-info"
    data = f"stabdiag-{stabdiag.__version__}.data"
    assert {path.name for path in wheel.iterdir()} == {"stabdiag", name, data}
    assert files(wheel / data) == {"data/share/man/man1/stabdiag.1"}
    packaged = files(wheel / "stabdiag")
    assert packaged == files(ROOT / "stabdiag")
    assert {"py.typed", "formats/report.schema.json", "explain/outcomes/healthy.md"} <= packaged
    assert {"formats/comparison.schema.json", "explain/comparisons/agree.md"} <= packaged
    assert {
        "symptoms/gradients/clipping.py",
        "symptoms/gradients/grad-clip-saturated.md",
    } <= packaged
    assert {"formats/html/report.html", "formats/html/uplot/uPlot.iife.min.js"} <= packaged
    licences = wheel / name / "licenses"
    assert (licences / "LICENSE").is_file()
    assert (licences / "stabdiag/formats/html/uplot/LICENSE").is_file()


def test_the_wheel_works_where_there_is_no_repository(wheel, tmp_path):
    archive = wheel.root.filename
    with zipfile.ZipFile(archive) as file:
        file.extractall(tmp_path)
    log = RUNS / "healthy-short" / "log.jsonl"
    done = program("diagnose", log, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert "[healthy]" in done.stdout


def built(folder, epoch):
    """Build both distributions of a copy whose files were written at some time."""
    for name in ("stabdiag", "data", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, folder / name)
    for path in folder.rglob("*"):
        os.utime(path, (epoch, epoch))
    build = "from flit_core.buildapi import *; build_sdist('dist'); build_wheel('dist')"
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    python("-c", build, cwd=folder, env=env, check=True)
    return [path.read_bytes() for path in sorted((folder / "dist").iterdir())]


def test_the_build_is_reproducible(tmp_path):
    both = []
    for epoch in (1_600_000_000, 1_650_000_000):
        folder = tmp_path / str(epoch)
        folder.mkdir()
        both.append(built(folder, epoch))
    assert len(both[0]) == 2
    assert both[0] == both[1]


def test_the_version_is_the_same_everywhere():
    assert metadata.version("stabdiag") == stabdiag.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", stabdiag.__version__)


def test_the_command_is_installed():
    (script,) = metadata.entry_points(group="console_scripts", name="stabdiag")
    assert callable(script.load())


def test_everything_that_is_asked_for_is_pinned():
    groups = PROJECT["dependency-groups"]
    requirements = [
        *PROJECT["build-system"]["requires"],
        *PROJECT["project"]["dependencies"],
        *(requirement for group in ("test", "lint", "site") for requirement in groups[group]),
    ]
    names = {
        re.split(r"[ <>=!~;\[]", requirement)[0]
        for requirement in requirements
        if isinstance(requirement, str)
    }
    assert names <= set(PINS)
    assert "torch" not in PINS


def test_pins_are_versions_and_nothing_else():
    assert "pip" in PINS
    for name, version in PINS.items():
        assert re.fullmatch(r"[A-Za-z0-9._-]+", name)
        assert re.fullmatch(r"[0-9][0-9a-z.]*", version)


@pytest.mark.parametrize(
    ("log", "format"),
    [
        ("healthy-short/log.jsonl", "html"),
        ("healthy-bf16/log.csv", "json"),
        ("healthy-heavy-tails/log.parquet", "terminal"),
    ],
)
def test_the_command_line_does_without_pandas(log, format):
    packages = loaded("diagnose", str(RUNS / log), "--format", format)
    assert "numpy" in packages
    assert not packages & {"pandas", "pydantic", "scipy", "hypothesis", "torch"}
    assert ("jinja2" in packages) is (format == "html")


def test_a_small_log_imports_only_the_modules_it_needs():
    modules = loaded("diagnose", str(RUNS / "healthy-short/log.jsonl"))
    assert not modules & {"pyarrow", "jinja2", "tsdownsample", "stabdiag.comparison"}
    assert not modules & {"stabdiag.formats.compared", "stabdiag.formats.postmortem"}
    assert not [name for name in modules if name.startswith("stabdiag.scan")]


def test_help_does_without_numpy():
    assert "numpy" not in loaded("--help")


def test_public_names_are_importable():
    for name in stabdiag.__all__:
        assert name in dir(stabdiag)
        assert getattr(stabdiag, name) is not None
    assert set(stabdiag._HOMES) == set(stabdiag.__all__) - {"__version__"}
    with pytest.raises(AttributeError, match="no attribute 'diagnoze'"):
        stabdiag.diagnoze  # noqa: B018
