import json
import sys
import zlib
from pathlib import Path

import jax
import jax.numpy as jnp
import optax

folder = Path(sys.argv[1])
schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 50, 300)
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))
keys = jax.random.split(jax.random.key(0), 302)
weights = {
    "body": jax.random.normal(keys[0], (32, 64)) / 6,
    "head": jax.random.normal(keys[1], (64, 1)) / 8,
}
state = optimizer.init(weights)


@jax.jit
def update(weights, state, inputs):
    def mean_squared_error(weights):
        predicted = jax.nn.gelu(inputs @ weights["body"]) @ weights["head"]
        return jnp.mean((predicted - inputs[:, :1]) ** 2)

    loss, grads = jax.value_and_grad(mean_squared_error)(weights)
    updates, state = optimizer.update(grads, state, weights)
    weights = optax.apply_updates(weights, updates)
    shown = {"loss": loss, "grad_norm": optax.global_norm(grads)}  # before clipping
    shown |= {f"weight_norm/{name}": optax.global_norm(part) for name, part in weights.items()}
    return weights, state, shown


manifest = {"dtype": "fp32", "checkpoint_every": 100, "grad_clip": 1.0, "peak_lr": 1e-2}
(folder / "manifest.json").write_text(json.dumps(manifest))

with (folder / "log.jsonl").open("a", buffering=1) as log:
    for step, key in enumerate(keys[2:]):
        inputs = jax.random.normal(key, (64, 32))
        weights, state, shown = update(weights, state, inputs)
        record = {"step": step, **shown, "lr": schedule(step)}
        record["batch_id"] = zlib.crc32(jax.device_get(inputs))
        log.write(json.dumps(record, default=float) + "\n")
