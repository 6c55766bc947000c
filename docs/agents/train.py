"""Train a small classifier as a configuration says, and log it: python train.py CONFIG LOG [SEED].

An example of a training script that a program runs again with another configuration.
"""

import json
import sys
from pathlib import Path

import numpy as np

config = json.loads(Path(sys.argv[1]).read_text())
rng = np.random.default_rng(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
centers = np.random.default_rng(7).standard_normal((8, 16))
weights = {
    "hidden": rng.standard_normal((16, 32)) / 4,
    "head": rng.standard_normal((32, 8)) / 6,
}
velocity = {name: np.zeros_like(weight) for name, weight in weights.items()}
with Path(sys.argv[2]).open("w") as log:
    for step in range(config["max_steps"]):
        labels = rng.integers(0, 8, config["batch_size"])
        inputs = centers[labels] + 1.5 * rng.standard_normal((len(labels), 16))
        hidden = np.maximum(inputs @ weights["hidden"], 0)
        logits = hidden @ weights["head"]
        logits -= logits.max(axis=1, keepdims=True)
        probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        loss = -np.log(probabilities[np.arange(len(labels)), labels] + 1e-12).mean()
        error = (probabilities - np.eye(8)[labels]) / len(labels)
        gradients = {
            "head": hidden.T @ error,
            "hidden": inputs.T @ ((error @ weights["head"].T) * (hidden > 0)),
        }
        norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients.values()))
        rate = config["learning_rate"] * min(1.0, (step + 1) / max(1, config["warmup_steps"]))
        rate *= 0.5 * (1 + np.cos(np.pi * step / config["max_steps"]))
        clip = min(1.0, config["max_grad_norm"] / norm) if config["max_grad_norm"] else 1.0
        for name, gradient in gradients.items():
            velocity[name] = config["momentum"] * velocity[name] + clip * gradient
            weights[name] -= rate * (velocity[name] + config["weight_decay"] * weights[name])
        record = {"step": step, "loss": loss, "grad_norm": norm, "lr": rate}
        log.write(json.dumps(record) + "\n")
