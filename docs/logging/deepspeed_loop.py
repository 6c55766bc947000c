import json
import sys
import zlib
from pathlib import Path

import deepspeed
import torch
from torch import nn

folder = Path(sys.argv[1])
config = {
    "train_micro_batch_size_per_gpu": 64,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1e-3, "warmup_num_steps": 50}},
    "gradient_clipping": 1.0,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 1},
}
plain = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 1))
engine, *_ = deepspeed.initialize(model=plain, model_parameters=plain.parameters(), config=config)

(folder / "ds_config.json").write_text(json.dumps(config))
(folder / "manifest.json").write_text(json.dumps({"checkpoint_every": 100}))

with (folder / "log.jsonl").open("a", buffering=1) as log:
    for step in range(120):
        inputs = torch.randn(64, 32, device=engine.device)
        loss = nn.functional.mse_loss(engine(inputs.bfloat16()).float(), inputs[:, :1])
        engine.backward(loss)
        engine.step()
        if engine.global_rank == 0:
            record = {
                "step": step,
                "loss": loss.item(),
                "grad_norm": engine.get_global_grad_norm(),  # before clipping
                "lr": engine.get_lr()[0],
                "batch_id": zlib.crc32(inputs.numpy(force=True)),
            }
            if config.get("fp16", {}).get("enabled"):
                record["loss_scale"] = engine.optimizer.cur_scale
            for name, part in engine.module.named_children():
                norms = [p.float().norm() for p in part.parameters()]
                record[f"weight_norm/{name}"] = sum(norm**2 for norm in norms) ** 0.5
            log.write(json.dumps(record, default=float) + "\n")
