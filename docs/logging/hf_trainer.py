import json
import sys
import zlib
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class LoggingTrainer(Trainer):
    """Logs what the Trainer leaves out, and writes each record as it comes."""

    def training_step(self, model, inputs, *args, **kwargs):
        self.batch_id = zlib.crc32(inputs["input_ids"].numpy(force=True))
        return super().training_step(model, inputs, *args, **kwargs)

    def log(self, logs, *args, **kwargs):
        if "loss" in logs:
            logs["batch_id"] = self.batch_id
            for name, part in self.model.named_children():
                logs[f"weight_norm/{name}"] = (
                    sum(p.norm().item() ** 2 for p in part.parameters()) ** 0.5
                )
        if self.is_world_process_zero():
            with Path(self.args.output_dir, "log.jsonl").open("a") as file:
                file.write(json.dumps({"step": self.state.global_step, **logs}) + "\n")
        super().log(logs, *args, **kwargs)


folder = sys.argv[1]
text = torch.arange(40000) % 50
data = [{"input_ids": text[at : at + 16], "labels": text[at : at + 16]} for at in range(1200)]
config = GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=2, n_positions=16)
arguments = TrainingArguments(
    output_dir=folder,
    logging_steps=1,
    logging_nan_inf_filter=False,  # else a NaN is logged as 0
    save_steps=100,
    max_steps=150,
    per_device_train_batch_size=8,
    learning_rate=1e-3,
    warmup_steps=20,
    use_cpu=True,
    report_to="none",
)
Path(folder, "training_args.json").write_text(arguments.to_json_string())
LoggingTrainer(GPT2LMHeadModel(config), arguments, train_dataset=data).train()
