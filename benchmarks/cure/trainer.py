"""Train one run of the cure benchmark: settings in, a log and an evaluation loss out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from settings import Settings, Switch
from tasks import Data, make_data, make_model, per_example
from torch import Tensor, nn

EVALUATIONS = 20
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, kw_only=True)
class Result:
    """A run's log, a row for each step, and the last evaluation loss (NaN if it broke)."""

    rows: list[dict[str, float]]
    eval_loss: float


def train(settings: Settings, switch: Switch | None = None) -> Result:
    """Train a run; with a switch, its first part as it was and the rest by other settings."""
    torch.manual_seed(settings.seed)
    return Trainer(settings).run(switch)


class Trainer:
    """A training loop whose every fault is a setting."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.data = spoiled(make_data(settings), settings)
        self.model = make_model(settings)
        self.prepare()
        self.optimizer = make_optimizer(self.model, settings)
        if settings.fault("head-replaced"):
            # The optimizer keeps the parameters of the head that was there before.
            head = self.model.head
            self.model.head = nn.Linear(head.in_features, head.out_features)
        self.order = np.random.default_rng(settings.seed)
        self.scale = settings.loss_scale if settings.scaler != "none" else 1.0
        self.good = 0
        self.rows: list[dict[str, float]] = []
        self.shift = 0

    def prepare(self) -> None:
        """Initialize the weights, and cast and freeze what the settings say."""
        settings = self.settings
        with torch.no_grad():
            for parameter in self.model.parameters():
                if parameter.ndim > 1:
                    parameter.mul_(settings.gain)
            if fault := settings.fault("dead-units"):
                for layer in self.model.modules():
                    if isinstance(layer, nn.Linear | nn.Conv2d) and layer is not self.model.head:
                        layer.bias.sub_(fault.size)
            if (fault := settings.fault("embedding-large")) and hasattr(self.model, "embedding"):
                self.model.embedding.weight.mul_(fault.size)
        if settings.fault("frozen"):
            for name, parameter in self.model.named_parameters():
                parameter.requires_grad_(name.startswith("head"))
        if settings.dtype != "fp32" and settings.fault("no-master-weights"):
            self.model.to(DTYPES[settings.dtype])

    def run(self, switch: Switch | None) -> Result:
        """Train to the end, or until the loss has been broken for a while."""
        broken = 0
        for step in range(1, self.settings.steps + 1):
            if switch is not None and step == switch.step + 1:
                self.restart(switch.settings)
            loss = self.step(step)
            broken = 0 if math.isfinite(loss) else broken + 1
            if broken > 20:
                break
        eval_loss = self.evaluate() if not broken else math.nan
        return Result(rows=self.rows, eval_loss=eval_loss)

    def restart(self, settings: Settings) -> None:
        """Go on with other settings: weights are kept, and so is an optimizer of the same kind."""
        same = (settings.optimizer == "sgd") == (self.settings.optimizer == "sgd")
        state = self.optimizer.state_dict()["state"] if same else {}
        self.settings = settings
        self.data = spoiled(make_data(settings), settings)
        self.permuted = self.order.permutation(len(self.data.x))
        self.optimizer = make_optimizer(self.model, settings)
        fresh = self.optimizer.state_dict()
        self.optimizer.load_state_dict({**fresh, "state": state})
        self.scale = settings.loss_scale if settings.scaler != "none" else 1.0

    def step(self, step: int) -> float:
        """Take one step, log it, and return its loss."""
        settings = self.settings
        self.resume(step)
        rate = learning_rate(settings, step - self.shift)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        x, y, number = self.batch(step)
        loss = self.loss(x, y, step)
        if settings.fault("no-zero-grad") is None:
            self.optimizer.zero_grad()
        norm = math.nan
        if loss.requires_grad:
            (loss * self.scale * accumulation(settings)).backward()
            norm = self.update()
        row = {
            "step": step,
            "epoch": step * settings.batch / len(self.data.x),
            "loss": loss.item(),
            "lr": rate,
            "grad_norm": norm,
            "weight_norm": float(total_norm(p.detach() for p in self.model.parameters())),
            "batch_id": number,
        }
        if settings.scaler != "none":
            row |= {"loss_scale": self.scale}
        if step % max(settings.steps // EVALUATIONS, 1) == 0:
            row |= {"eval_loss": self.evaluate()}
        self.rows.append(row)
        return row["loss"]

    def update(self) -> float:
        """Unscale, clip and apply the gradients; return their norm before clipping."""
        settings = self.settings
        parameters = [p for p in self.model.parameters() if p.grad is not None]
        with torch.no_grad():
            for parameter in parameters:
                if settings.dtype == "fp16":
                    parameter.grad = parameter.grad.half().to(parameter.grad.dtype)
                parameter.grad.div_(self.scale)
        norm = float(total_norm(p.grad for p in parameters))
        finite = math.isfinite(norm)
        if settings.scaler == "dynamic":
            floor = 1.0 if settings.fault("scaler-floor") else 2.0**-14
            self.good = self.good + 1 if finite else 0
            used = self.scale
            if not finite:
                self.scale = max(self.scale / 2, floor)
            elif self.good % 200 == 0:
                self.scale = used * 2
        if settings.scaler != "none" and not finite:
            return norm
        if settings.clip is not None:
            factor = min(1.0, settings.clip / (norm + 1e-6)) if finite else norm
            with torch.no_grad():
                for parameter in parameters:
                    parameter.grad.mul_(factor)
        self.optimizer.step()
        return norm

    def resume(self, step: int) -> None:
        """Do what a resume with a fault does at its step."""
        settings = self.settings
        for name in ("resume-no-optimizer", "resume-no-schedule"):
            fault = settings.fault(name)
            if fault is None or step != int(fault.at * settings.steps):
                continue
            if name == "resume-no-optimizer":
                self.optimizer = make_optimizer(self.model, settings)
            else:
                self.shift = step - 1

    def batch(self, step: int) -> tuple[Tensor, Tensor, int]:
        """Return the next batch and its number."""
        settings, count = self.settings, len(self.data.x)
        per_epoch = max(count // settings.batch, 1)
        if settings.shuffle:
            if (step - 1) % per_epoch == 0 or not hasattr(self, "permuted"):
                self.permuted = self.order.permutation(count)
            place = (step - 1) % per_epoch
            rows = self.permuted[place * settings.batch : (place + 1) * settings.batch]
        else:
            place = (step - 1) % per_epoch
            rows = np.arange(place * settings.batch, (place + 1) * settings.batch) % count
        fault = settings.fault("same-batch")
        if fault and step > fault.at * settings.steps:
            rows, place = np.arange(settings.batch), 0
        x, y = self.data.x[rows], self.data.y[rows]
        return *struck(x, y, settings, step), int(rows[0])

    def loss(self, x: Tensor, y: Tensor, step: int) -> Tensor:
        """Return the training loss of a batch, with the faults of its code."""
        settings = self.settings
        out = self.forward(x)
        if settings.fault("softmax-twice") and settings.task != "regression":
            out = out.softmax(-1)
        if settings.fault("log-of-zero") and settings.task != "regression":
            chance = out.softmax(-1).flatten(0, -2)
            picked = chance.gather(1, y.flatten()[:, None]).squeeze(1)
            loss = -torch.log(picked).mean()
        else:
            loss = per_example(settings.task, out, y).mean()
        if fault := settings.fault("empty-mask"):
            mask = torch.rand(len(x)) < fault.size if step > fault.at * settings.steps else None
            if mask is not None:
                loss = loss * mask.sum() / mask.sum()
        if fault := settings.fault("auxiliary-loss"):
            loss = loss + fault.size * sum((p**2).mean() for p in self.model.head.parameters())
            loss = loss + fault.size * (out.float() ** 2).mean()
        return loss.float()

    def forward(self, x: Tensor) -> Tensor:
        """Return the network's output; half precision rounds weights and activations."""
        settings = self.settings
        if settings.dtype == "fp32" or settings.fault("no-master-weights"):
            kind = next(self.model.parameters()).dtype
            return self.model(x.to(kind) if x.is_floating_point() else x).float()
        with torch.autocast("cpu", dtype=DTYPES[settings.dtype]):
            return self.model(x).float()

    @torch.no_grad()
    def evaluate(self) -> float:
        """Return the mean loss of the examples for evaluation, faults of evaluation included."""
        settings = self.settings
        x, y = self.data.eval_x, self.data.eval_y
        if fault := settings.fault("eval-other-input"):
            x = x * fault.size if x.is_floating_point() else x.roll(1, dims=1)
        if not settings.fault("eval-in-train-mode"):
            self.model.eval()
        loss = per_example(settings.task, self.forward(x), y).mean().item()
        self.model.train()
        return loss


def make_optimizer(model: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    """Return the optimizer of some settings."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    options = {"lr": settings.lr, "weight_decay": settings.weight_decay}
    if settings.optimizer == "sgd":
        return torch.optim.SGD(parameters, momentum=0.9, **options)
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    return kind(parameters, **options)


def learning_rate(settings: Settings, step: int) -> float:
    """Return the rate of a step, counted from 1."""
    if settings.schedule_per_epoch:
        per_epoch = max(settings.examples // settings.batch, 1)
        return settings.lr * (1 - (step - 1) % per_epoch / per_epoch)
    at = step * settings.schedule_calls
    if at < settings.warmup:
        return settings.lr * at / settings.warmup
    along = (at - settings.warmup) / max(settings.horizon - settings.warmup, 1)
    if settings.schedule == "constant":
        return settings.lr
    if settings.schedule == "cosine":
        # As schedulers do that are stepped beyond their end, it rises again.
        past = settings.schedule_calls > 1
        return settings.lr * (0.5 + 0.5 * math.cos(math.pi * (along if past else min(along, 1))))
    return settings.lr * max(1 - along, 0.0)


def accumulation(settings: Settings) -> float:
    """Return the gradient factor of an accumulation that does not divide."""
    fault = settings.fault("accumulated")
    return 1.0 if fault is None else fault.size


def total_norm(tensors: object) -> Tensor:
    """Return the norm of all values of some tensors."""
    norms = [t.float().norm() for t in tensors]  # type: ignore[attr-defined]
    return torch.stack(norms).norm() if norms else torch.tensor(math.nan)


def spoiled(data: Data, settings: Settings) -> Data:
    """Return the data with the faults that they have from the beginning."""
    x, y = data.x.clone(), data.y.clone()
    random = torch.Generator().manual_seed(7)
    if fault := settings.fault("labels-shuffled"):
        chosen = torch.rand(len(y), generator=random) < fault.size
        y[chosen] = y[chosen][torch.randperm(int(chosen.sum()), generator=random)]
    if settings.fault("labels-shifted"):
        y = y.roll(1, dims=0)
    if settings.fault("sorted") and y.ndim == 1:
        order = y.argsort(stable=True)
        x, y = x[order], y[order]
    if settings.fault("leak") and x.is_floating_point():
        leak = y.float() / max(float(y.float().abs().max()), 1.0)
        x[..., 0] = leak.reshape(-1, *[1] * (x.ndim - 2)) * 4
    if (fault := settings.fault("nan-in-data")) and x.is_floating_point():
        x[(slice(int(fault.size), None, 1000), *[0] * (x.ndim - 1))] = math.nan
    return replace(data, x=x, y=y)


def struck(x: Tensor, y: Tensor, settings: Settings, step: int) -> tuple[Tensor, Tensor]:
    """Return a batch with the faults that the data have at a step."""
    share = step / settings.steps
    count = settings.batch
    if (fault := settings.fault("labels-wrong-from")) and share > fault.at:
        wrong = torch.rand(len(y)) < fault.size
        y = torch.where(wrong.view(-1, *[1] * (y.ndim - 1)), y[torch.randperm(len(y))], y)
    if (fault := settings.fault("corrupt-shard")) and fault.at < share < fault.at + 0.15:
        x = torch.randn_like(x) * fault.size if x.is_floating_point() else torch.randint_like(x, 8)
        y = y[torch.randperm(len(y))]
    if (fault := settings.fault("other-shard")) and share > fault.at:
        x = x * (1 + fault.size) + fault.size if x.is_floating_point() else x.flip(1)
    if (fault := settings.fault("outliers")) and step % 37 == 36:
        x = x * fault.size if x.is_floating_point() else torch.randint_like(x, 8)
        y = y * fault.size if y.is_floating_point() else y[torch.randperm(count)]
    return x, y
