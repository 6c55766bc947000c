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
