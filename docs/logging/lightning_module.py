import json
import sys
import zlib
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.loggers import CSVLogger
from torch import nn


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(32, 64), nn.GELU())
        self.head = nn.Linear(64, 1)

    def training_step(self, batch, index):
        inputs, targets = batch
        loss = nn.functional.mse_loss(self.head(self.body(inputs)), targets)
        self.log("train_loss", loss)
        self.log("batch_id", float(zlib.crc32(inputs.numpy(force=True)) % 2**24))
        return loss

    def on_before_optimizer_step(self, optimizer):  # before the Trainer clips
        grads = [p.grad.norm() for p in self.parameters() if p.grad is not None]
        self.log("grad_norm", torch.stack(grads).norm())
        self.log("lr", optimizer.param_groups[0]["lr"])
        for name, part in self.named_children():
            norms = torch.stack([p.detach().norm() for p in part.parameters()])
            self.log(f"weight_norm/{name}", norms.norm())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, total_iters=50)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


folder = sys.argv[1]
inputs = torch.randn(300 * 64, 32)
data = torch.utils.data.TensorDataset(inputs, inputs[:, :1] * inputs[:, 1:2])
manifest = {"dtype": "fp32", "checkpoint_every": 100, "grad_clip": 1.0, "peak_lr": 1e-3}
Path(folder, "manifest.json").write_text(json.dumps(manifest))
trainer = L.Trainer(
    max_epochs=1,
    logger=CSVLogger(folder, name=None, version="", flush_logs_every_n_steps=1),
    log_every_n_steps=1,
    gradient_clip_val=1.0,
    callbacks=[L.pytorch.callbacks.ModelCheckpoint(folder, every_n_train_steps=100)],
    accelerator="cpu",
    enable_progress_bar=False,
)
trainer.fit(Model(), torch.utils.data.DataLoader(data, batch_size=64, shuffle=True))
