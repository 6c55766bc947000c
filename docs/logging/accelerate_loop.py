import json
import sys
import zlib
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import nn

folder = Path(sys.argv[1])
accelerator = Accelerator(cpu=True, mixed_precision="bf16")
inputs = torch.randn(300 * 64, 32)
data = torch.utils.data.TensorDataset(inputs, inputs[:, :1] * inputs[:, 1:2])
plain = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, total_iters=50)
loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)
model, optimizer, loader, schedule = accelerator.prepare(plain, optimizer, loader, schedule)

manifest = {"dtype": accelerator.mixed_precision, "checkpoint_every": 100, "grad_clip": 1.0}
(folder / "manifest.json").write_text(json.dumps(manifest))

with (folder / "log.jsonl").open("a", buffering=1) as log:
    for step, (inputs, targets) in enumerate(loader):
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        accelerator.backward(loss)
        grad_norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)  # before clipping
        optimizer.step()
        mean = accelerator.reduce(loss.detach(), "mean")  # on every process, then one writes
        if accelerator.is_main_process:
            record = {
                "step": step,
                "loss": mean.item(),
                "grad_norm": grad_norm.item(),
                "lr": schedule.get_last_lr()[0],
                "batch_id": zlib.crc32(inputs.numpy(force=True)),
            }
            if accelerator.scaler is not None:  # under fp16
                record["loss_scale"] = accelerator.scaler.get_scale()
            for name, part in accelerator.unwrap_model(model).named_children():
                record[f"weight_norm/{name}"] = sum(p.norm() ** 2 for p in part.parameters()) ** 0.5
            log.write(json.dumps(record, default=float) + "\n")
        schedule.step()
