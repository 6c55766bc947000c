"""Folders that may hold logs but are not read."""

import os

import pytest

from stabdiag.sources.unopened import hides_logs


@pytest.mark.parametrize(
    ("content", "is_hidden"),
    [("step,loss\n1,2.5\n", True), ("package,version\nnumpy,2.1\n", False)],
)
def test_a_cache_hides_a_log_if_its_head_shows_a_loss(tmp_path, content, is_hidden):
    cache = tmp_path / ".cache"
    cache.mkdir()
    (cache / "run.csv").write_text(content)
    assert hides_logs(cache) is is_hidden


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with a name")
def test_a_pipe_in_a_cache_is_not_opened(tmp_path):
    cache = tmp_path / ".cache"
    cache.mkdir()
    os.mkfifo(cache / "run.log")
    assert not hides_logs(cache)


@pytest.mark.parametrize("name", ["node_modules", "__pycache__", "site-packages"])
@pytest.mark.parametrize(
    ("content", "is_named"),
    [("step,loss\n1,2.5\n", True), ("package,gloss\nnumpy,2.1\n", False)],
)
def test_a_log_below_a_program_is_named(stabdiag, tmp_path, name, content, is_named):
    place, folder = tmp_path / "runs", tmp_path / "runs" / name / "part"
    folder.mkdir(parents=True)
    (folder / "run.csv").write_text(content)
    rows = "".join(f"{n},{3 - n / 100 + n % 3 / 50}\n" for n in range(200))
    (place / "run.csv").write_text(f"step,loss\n{rows}")
    result = stabdiag("check", place)
    assert result.code == (2 if is_named else 0)
    assert ("a folder of a program" in result.err) == is_named
