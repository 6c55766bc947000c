"""MLflow: a run's folder, its metric files, a tracking database or server."""
