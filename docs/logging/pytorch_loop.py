import json
import sys
import zlib
from pathlib import Path

import torch
from torch import nn

folder = Path(sys.argv[1])
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, total_iters=50)
scaler = torch.amp.GradScaler("cpu")  # only fp16 needs one
batches = ((x := torch.randn(64, 32), x[:, :1] * x[:, 1:2]) for _ in range(300))

# The configuration of the run, written once.
manifest = {"dtype": "fp16", "checkpoint_every": 100, "grad_clip": 1.0, "peak_lr": 1e-3}
(folder / "manifest.json").write_text(json.dumps(manifest))

# One line per step, without a buffer, so that a killed run keeps its last lines.
with (folder / "log.jsonl").open("a", buffering=1) as log:
    for step, (inputs, targets) in enumerate(batches):
        with torch.autocast("cpu", torch.float16):
            loss = nn.functional.mse_loss(model(inputs).float(), targets)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        grad_norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # the norm before clipping
        scaler.step(optimizer)
        record = {
            "step": step,
            "loss": loss.item(),
            "grad_norm": grad_norm.item(),
            "lr": schedule.get_last_lr()[0],
            "loss_scale": scaler.get_scale(),
            "batch_id": zlib.crc32(inputs.numpy(force=True)),
        }
        for name, part in model.named_children():
            record[f"weight_norm/{name}"] = sum(p.norm() ** 2 for p in part.parameters()) ** 0.5
        log.write(json.dumps(record, default=float) + "\n")
        scaler.update()
        schedule.step()
