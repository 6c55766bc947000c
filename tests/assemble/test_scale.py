"""Logs with as many ranks or columns as records: time and memory grow only with the log."""

import time
import tracemalloc

import numpy as np

import stabdiag

RECORDS = 200_000


def test_as_many_ranks_as_records_take_no_longer():
    steps = np.arange(RECORDS) // 8
    loss = 2 + 4 * np.exp(-steps / 5000)
    began = time.process_time()
    report = stabdiag.diagnose({"step": steps, "loss": loss, "rank": np.arange(RECORDS)})
    assert report.diagnosis.severity.value in ("ok", "note")
    assert time.process_time() - began < 10


def test_a_new_column_in_each_record_takes_no_table_of_memory(tmp_path):
    path = tmp_path / "run.jsonl"
    rows = (
        f'{{"step": {n}, "loss": {2 - n / 9000}, "weight_norm/k{n}": 1.0}}\n' for n in range(3000)
    )
    path.write_text("".join(rows))
    tracemalloc.start()
    report = stabdiag.diagnose(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not report.history.group("weight_norm")
    assert peak < 50e6
