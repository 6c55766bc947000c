import json
import sys
from pathlib import Path

import keras
import numpy as np


def norm(arrays):
    return keras.ops.sqrt(sum(keras.ops.sum(keras.ops.square(array)) for array in arrays))


class LoggingAdam(keras.optimizers.AdamW):
    """Keeps the norm of the gradient before clipping."""

    def build(self, variables):
        super().build(variables)
        self.grad_norm = self.add_variable((), name="grad_norm")

    def apply(self, grads, trainable_variables=None):
        if not self.built:
            self.build(trainable_variables)
        self.grad_norm.assign(norm(grads))
        return super().apply(grads, trainable_variables)


class Log(keras.callbacks.Callback):
    """Writes a line for each batch; Keras itself logs the mean of the epoch so far."""

    def __init__(self, path):
        super().__init__()
        self.file, self.step = Path(path).open("a", buffering=1), 0

    def on_epoch_begin(self, epoch, logs=None):
        self.batches, self.total = 0, 0.0

    def on_train_batch_end(self, batch, logs):
        self.batches += 1
        before, self.total = self.total, self.batches * logs["loss"]
        optimizer = self.model.optimizer
        record = {
            "step": self.step,
            "loss": self.total - before,
            "grad_norm": optimizer.grad_norm,
            "lr": optimizer.learning_rate,
        }
        for layer in self.model.layers:
            if layer.trainable_weights:
                record[f"weight_norm/{layer.name}"] = norm(layer.trainable_weights)
        self.file.write(json.dumps(record, default=float) + "\n")
        self.step += 1


folder = Path(sys.argv[1])
manifest = {"dtype": "fp32", "checkpoint_every": 100, "grad_clip": 1.0, "peak_lr": 1e-3}
(folder / "manifest.json").write_text(json.dumps(manifest))
inputs = np.random.default_rng(0).normal(size=(300 * 64, 32)).astype("float32")
model = keras.Sequential([keras.layers.Dense(64, activation="gelu"), keras.layers.Dense(1)])
model.compile(LoggingAdam(1e-3, global_clipnorm=1.0), loss="mse")
model.fit(inputs, inputs[:, 0] * inputs[:, 1], 64, callbacks=[Log(folder / "log.jsonl")], verbose=0)
