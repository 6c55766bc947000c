"""Write trackio.db.gz, which the tests read, with Trackio: python write_trackio.py."""

from __future__ import annotations

import gzip
import math
import os
import sqlite3
import tempfile
from pathlib import Path

ODD = {7: math.nan, 8: math.inf, 9: -math.inf}

with tempfile.TemporaryDirectory() as folder:
    os.environ["TRACKIO_DIR"] = folder
    import trackio

    for name, level in (("first", 5), ("second", 2)):
        trackio.init(project="test", name=name, config={"lr": 3e-4, "precision": "bf16"})
        for step in range(20):
            record = {"train/loss": ODD.get(step, level + 1 / (step + 1))}
            record["train"] = {"lr": step / 1000}
            if step % 5 == 4:
                record["eval"] = {"loss": 3.0, "text": "abc"}
            trackio.log(record, step=10 * step)
        # A resume from a checkpoint logs some steps again.
        for step in range(15, 22):
            trackio.log({"train/loss": level + 0.5}, step=10 * step)
        trackio.finish()
    database = sqlite3.connect(Path(folder, "test.db"))
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    packed = gzip.compress(Path(folder, "test.db").read_bytes(), mtime=0)
Path(__file__).with_name("trackio.db.gz").write_bytes(packed)
