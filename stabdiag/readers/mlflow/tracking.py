"""A run of MLflow by its id, in the tracking store that is set: ``mlflow://RUN_ID``."""

from __future__ import annotations

import os
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from stabdiag.errors import LogError
from stabdiag.readers.mlflow.database import value_of
from stabdiag.readers.mlflow.folder import settings
from stabdiag.readers.points import Points

if TYPE_CHECKING:
    from stabdiag.readers.columns import Columns

_SCHEME: Final = "mlflow://"
_STORE: Final = "MLFLOW_TRACKING_URI"
_ALLOWED: Final = "MLFLOW_ALLOW_FILE_STORE"


def read_url(url: str) -> Columns:
    """Read the run that a URL names.

    Raises:
        LogError: If there is no such run, or its store cannot be reached.
    """
    if find_spec("mlflow") is None:
        raise LogError(
            f"{url}: a run in a tracking store of MLflow; to read it, install mlflow:"
            " pip install 'stabdiag[mlflow]'"
        )
    _check_store(url, os.environ.get(_STORE, ""))
    with warnings.catch_warnings():
        # That MLflow uses something deprecated is no concern of those who read a run.
        warnings.simplefilter("ignore", DeprecationWarning)
        return _read(url, url.removeprefix(_SCHEME).strip("/"))


def _read(url: str, run_id: str) -> Columns:
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    points = Points()
    try:
        client = MlflowClient()
        run = client.get_run(run_id)
        for metric in run.data.metrics:
            for one in client.get_metric_history(run_id, metric):
                points.add(metric, one.step, value_of(one.value), time=one.timestamp)
    except MlflowException as error:
        first = str(error).splitlines()[0]
        raise LogError(f"{url}: cannot be read ({first}); check the id and {_STORE}") from error
    return points.columns(source=url, format="mlflow", config=settings(run.data.params))


def _check_store(url: str, store: str) -> None:
    """Refuse a store that MLflow would not read, or would create because there is none."""
    if not store:
        raise LogError(f"{url}: set {_STORE} to the store that holds the run, such as {_EXAMPLE}")
    parts = urlsplit(store)
    if parts.scheme == "sqlite":
        path = Path(unquote(parts.path.removeprefix("/")))
        if not path.is_file():
            raise LogError(f"{url}: {path}: no such file; check {_STORE}")
    elif parts.scheme in ("", "file") and os.environ.get(_ALLOWED, "").lower() != "true":
        folder = Path(unquote(parts.path), "EXPERIMENT", url.removeprefix(_SCHEME))
        raise LogError(
            f"{url}: MLflow does not read the folder {parts.path} any more; give the folder of"
            f" the run instead: {folder}"
        )


_EXAMPLE: Final = "https://mlflow.example.org or sqlite:///mlflow.db"
