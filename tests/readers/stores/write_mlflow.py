"""Log two runs to each STORE with MLflow, and print how it reads them: write_mlflow.py STORE…"""

from __future__ import annotations

import json
import math
import sys

from mlflow.entities import Metric
from mlflow.tracking import MlflowClient

ODD = {7: math.nan, 8: math.inf, 9: -math.inf}


def write(uri: str) -> dict[str, object]:
    """Log the runs to a store, and return the second as MLflow reads it."""
    client = MlflowClient(tracking_uri=uri)
    experiment = client.create_experiment("test")
    for name, level in (("first", 5), ("second", 2)):
        run = client.create_run(experiment, run_name=name).info.run_id
        for key, value in (("learning_rate", 3e-4), ("model/precision", "bf16"), ("note", "a, b")):
            client.log_param(run, key, value)
        points = []
        for step in range(20):
            time = 1_700_000_000_000 + 10 * step
            loss = ODD.get(step, level + 1 / (step + 1))
            points.append(Metric("train/loss", loss, time, 10 * step))
            points.append(Metric("lr", step / 1000, time, 10 * step))
        # A resume from a checkpoint logs some steps again.
        for step in range(15, 22):
            time = 1_700_000_100_000 + 10 * step
            points.append(Metric("train/loss", level + 0.5, time, 10 * step))
        client.log_batch(run, metrics=points)
        client.set_terminated(run)
    metrics = {
        metric: [
            (point.step, repr(point.value)) for point in client.get_metric_history(run, metric)
        ]
        for metric in client.get_run(run).data.metrics
    }
    return {"run": run, "metrics": metrics}


sys.stdout.write(json.dumps([write(uri) for uri in sys.argv[1:]]))
