"""Databases and files that hold runs: MLflow, Optuna, Parquet, TensorBoard, Trackio, W&B."""
