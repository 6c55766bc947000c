"""Healthy habits of training, recorded: python benchmarks/cure/habits.py [NAME ...] [--seeds 1 2].

Each habit is a way to train that works and looks unusual in a log: a frozen body, several micro-
batches, a loss that is weighted or mixed. The share of runs with an error or a warning is printed,
and which findings these are. ``MEANT`` habits do on purpose what a finding is about; a user puts
them on the ignore list. Needs PyTorch.
"""

from __future__ import annotations

import argparse
import copy
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Final

# Measure the program in this repository, not an installed one.
sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
from habit_loop import BATCH, STEPS, Loop, cosine, loss_between
from recorded import ALARMS, diagnose
from tasks import make_model
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

BAR: Final = 0.05  # the share of runs that may have an alarm


# Each habit changes a loop. Its task is one where people often do this.


def accumulation(loop: Loop) -> None:
    """Four micro-batches for each step."""
    loop.micro_batches = 4


def thawed(loop: Loop) -> None:
    """A pretrained body that is frozen for the first third."""
    loop.train(150)
    body = [p for name, p in loop.model.named_parameters() if not name.startswith("head")]
    loop.optimizers = [torch.optim.AdamW(loop.model.parameters(), loop.lr)]
    loop.model.head.reset_parameters()

    def thaw(step: int) -> None:
        for p in body:
            p.requires_grad_(step > STEPS // 3)

    loop.before_step = thaw


def fine_tuned_head(loop: Loop) -> None:
    """A new head on a pretrained, frozen body."""
    loop.train(150)
    for name, p in loop.model.named_parameters():
        p.requires_grad_(name.startswith("head"))
    loop.model.head.reset_parameters()


def fine_tuned_on_few(loop: Loop) -> None:
    """A pretrained model, trained at a low rate on 128 examples, and stopped early."""
    loop.train(150)
    loop.lr, loop.steps = loop.lr / 30, 100
    loop.data = replace(loop.data, x=loop.data.x[:128], y=loop.data.y[:128])


class LowRank(nn.Module):
    """A frozen linear layer with a trained update of low rank."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, 4, bias=False)
        self.up = nn.Linear(4, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the layer and of its update."""
        return self.layer(x) + self.up(self.down(x))


def low_rank(loop: Loop) -> None:
    """LoRA on a pretrained model."""
    loop.train(1000)
    loop.model.requires_grad_(False)
    for name, layer in list(loop.model.named_children()):
        if isinstance(layer, nn.Linear):
            setattr(loop.model, name, LowRank(layer))


def average_evaluated(loop: Loop) -> None:
    """An exponential average of the weights is what is evaluated."""
    loop.evaluated = copy.deepcopy(loop.model).requires_grad_(False)
    loop.after_step = lambda step: follow(loop.evaluated, loop.model, min(0.99, step / 100))


def mean_teacher(loop: Loop) -> None:
    """An average of the model teaches it, inside the same module tree."""
    student = loop.model
    student.teacher = copy.deepcopy(student).requires_grad_(False)
    layers = [child for name, child in student.named_children() if name != "teacher"]

    def forward(x: Tensor) -> Tensor:
        for layer in layers:
            x = layer(x)
        return x

    def loss(x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad():
            target = student.teacher(x + 0.1 * torch.randn_like(x)).softmax(-1)
        out = student(x)
        return loss_between(out, y) + functional.kl_div(
            out.log_softmax(-1), target, reduction="batchmean"
        )

    student.forward = forward
    loop.loss = loss
    loop.after_step = lambda _: follow(student.teacher, student, 0.95)


def follow(average: nn.Module | None, model: nn.Module, decay: float) -> None:
    """Move the averaged weights towards a model's."""
    assert average is not None
    own = dict(model.named_parameters())
    with torch.no_grad():
        for name, p in average.named_parameters():
            p.lerp_(own[name], 1 - decay)
        for name, buffer in average.named_buffers():
            buffer.copy_(dict(model.named_buffers())[name])


def tied_weights(loop: Loop) -> None:
    """Input and output embedding are one matrix."""
    nn.init.normal_(loop.model.embedding.weight, std=loop.settings.width**-0.5)
    loop.model.head.weight = loop.model.embedding.weight


def label_smoothing(loop: Loop) -> None:
    """Targets that are smoothed by a tenth."""
    loop.loss = lambda x, y: loss_between(loop.model(x), y, label_smoothing=0.1)


def mixup(loop: Loop) -> None:
    """Pairs of examples are mixed, and their losses with them."""

    def loss(x: Tensor, y: Tensor) -> Tensor:
        order, part = torch.randperm(len(x)), torch.distributions.Beta(0.4, 0.4).sample()
        out = loop.model(part * x + (1 - part) * x[order])
        return part * loss_between(out, y) + (1 - part) * loss_between(out, y[order])

    loop.loss = loss


def dropout(loop: Loop) -> None:
    """Half of the hidden units are dropped."""
    layers = list(loop.model.children())
    loop.model = nn.Sequential(*layers[:-1], nn.Dropout(0.5), layers[-1])


def large_batch(loop: Loop) -> None:
    """Batches of 512 at a higher rate."""
    loop.batch_size, loop.lr = 512, 3 * loop.lr


def warm_restarts(loop: Loop) -> None:
    """Three cosine cycles, the last one complete."""
    loop.rate = lambda along: cosine(3 * along % 1 if along < 1 else 1.0)


def constant_rate(loop: Loop) -> None:
    """A low rate that never decays."""
    loop.rate, loop.lr = lambda _: 1.0, loop.lr / 5


def stable_then_decay(loop: Loop) -> None:
    """A constant rate, and a linear decay over the last fifth."""
    loop.rate = lambda along: min(1.0, 5 * (1 - along))


def inverse_root(loop: Loop) -> None:
    """The rate of the first transformers."""
    loop.rate = lambda along: (1 + 10 * along) ** -0.5


def clipped_often(loop: Loop) -> None:
    """AdamW with a low clip threshold: gradients are in effect normalized."""
    loop.clip = 0.1


def plain_sgd(loop: Loop) -> None:
    """SGD without momentum and without clipping."""
    loop.clip, loop.optimizers = None, [torch.optim.SGD(loop.parameters(), 0.1)]


def nesterov(loop: Loop) -> None:
    """SGD with Nesterov momentum, weight decay and a clip threshold of 1."""
    options = {"momentum": 0.9, "nesterov": True, "weight_decay": 5e-4}
    loop.optimizers = [torch.optim.SGD(loop.parameters(), 0.05, **options)]


def decay_on_all(loop: Loop) -> None:
    """A weight decay of a tenth on all parameters."""
    loop.optimizers = [torch.optim.AdamW(loop.parameters(), loop.lr, weight_decay=0.1)]


def rates_by_layer(loop: Loop) -> None:
    """Layers nearer to the input learn more slowly; biases do not decay."""
    named = [item for item in loop.model.named_parameters() if item[1].requires_grad]
    groups = [
        {
            "params": [p],
            "lr": loop.lr * 0.8 ** (len(named) - at),
            "weight_decay": 0.01 * (p.ndim > 1),
        }
        for at, (_, p) in enumerate(named)
    ]
    loop.optimizers = [torch.optim.AdamW(groups)]


def two_optimizers(loop: Loop) -> None:
    """The embedding is trained by another optimizer."""
    embedding = [p for n, p in loop.model.named_parameters() if n.startswith("embedding")]
    others = [p for n, p in loop.model.named_parameters() if not n.startswith("embedding")]
    loop.optimizers = [torch.optim.AdamW(others, loop.lr), torch.optim.Adagrad(embedding, 0.05)]


def idle_rows(loop: Loop) -> None:
    """An embedding with rows that never occur."""
    loop.model.embedding = nn.Embedding(2000, loop.settings.width)


def curriculum(loop: Loop) -> None:
    """Inputs get noisier during training."""

    def draw(step: int) -> tuple[Tensor, Tensor]:
        x, y = loop.random_batch(step)
        return x + step / STEPS * 0.5 * torch.randn_like(x), y

    loop.draw = draw


def class_weights(loop: Loop) -> None:
    """Rare classes, weighted by their frequency."""
    y = loop.data.y
    kept = torch.rand(len(y)) < torch.where(y < 5, 1.0, 0.1)
    loop.data = replace(loop.data, x=loop.data.x[kept], y=y[kept])
    weights = torch.where(torch.arange(10) < 5, 1.0, 10.0)
    loop.loss = lambda x, y: loss_between(loop.model(x), y, weight=weights)


def classes_in_each_batch(loop: Loop) -> None:
    """Batches of eight examples of each of four classes, as for metric learning."""
    rows = [torch.nonzero(loop.data.y == label).squeeze(1) for label in range(10)]

    def draw(_: int) -> tuple[Tensor, Tensor]:
        drawn = [rows[k][torch.randint(len(rows[k]), (8,))] for k in torch.randperm(10)[:4]]
        picked = torch.cat(drawn)
        return loop.data.x[picked], loop.data.y[picked]

    loop.draw = draw


def augmentation(loop: Loop) -> None:
    """Images are shifted and made noisier at random."""

    def draw(step: int) -> tuple[Tensor, Tensor]:
        x, y = loop.random_batch(step)
        shift = (int(torch.randint(12, ())), int(torch.randint(12, ())))
        return x.roll(shift, (2, 3)) + 0.3 * torch.randn_like(x), y

    loop.draw = draw


def autocast_bf16(loop: Loop) -> None:
    """Mixed precision in bf16."""
    loop.autocast = torch.bfloat16


def autocast_fp16(loop: Loop) -> None:
    """Mixed precision in fp16; the scaler searches its scale at the start."""
    loop.autocast = torch.float16
    loop.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**26, growth_interval=100)


def checkpointing(loop: Loop) -> None:
    """Activations are computed again in the backward pass."""
    loop.loss = lambda x, y: loss_between(checkpoint(loop.model, x, use_reentrant=False), y)


def compiled(loop: Loop) -> None:
    """A compiled model."""
    loop.model = torch.compile(loop.model, backend="aot_eager")


def focal_loss(loop: Loop) -> None:
    """Easy examples count less."""

    def loss(x: Tensor, y: Tensor) -> Tensor:
        each = functional.cross_entropy(loop.model(x), y, reduction="none")
        return ((1 - torch.exp(-each)) ** 2 * each).mean()

    loop.loss = loss


def hard_examples(loop: Loop) -> None:
    """Only the harder half of each batch is trained on."""

    def loss(x: Tensor, y: Tensor) -> Tensor:
        each = functional.cross_entropy(loop.model(x), y, reduction="none")
        return each.topk(len(each) // 2).values.mean()

    loop.loss = loss


def distillation(loop: Loop) -> None:
    """A trained teacher outside the model gives soft targets."""
    loop.train(150)
    teacher = copy.deepcopy(loop.model).eval().requires_grad_(False)
    loop.model = make_model(loop.settings)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        out, soft = loop.model(x), (teacher(x) / 2).softmax(-1)
        target = functional.kl_div((out / 2).log_softmax(-1), soft, reduction="batchmean")
        return 0.5 * loss_between(out, y) + 2 * target

    loop.loss = loss


def huber(loop: Loop) -> None:
    """A robust loss of a regression."""
    loop.loss = lambda x, y: functional.smooth_l1_loss(loop.model(x).squeeze(-1), y)


def weight_norm(loop: Loop) -> None:
    """Weights that are split into size and direction."""
    for layer in loop.model.modules():
        if isinstance(layer, nn.Linear):
            parametrizations.weight_norm(layer)


def frozen_statistics(loop: Loop) -> None:
    """A pretrained net whose batch norms stay in evaluation mode."""
    loop.train(150)
    loop.lr /= 10

    def freeze(_: int) -> None:
        for layer in loop.model.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.eval()

    loop.before_step = freeze


def sharpness_aware(loop: Loop) -> None:
    """SAM: each step uses the gradient of a point uphill, after a second backward pass."""
    moved: list[tuple[nn.Parameter, Tensor]] = []

    def loss(x: Tensor, y: Tensor) -> Tensor:
        grads = torch.autograd.grad(loop.task_loss(x, y), loop.parameters())
        norm = torch.stack([grad.norm() for grad in grads]).norm() + 1e-12
        moved[:] = [(p, 0.05 * g / norm) for p, g in zip(loop.parameters(), grads, strict=True)]
        with torch.no_grad():
            for p, offset in moved:
                p.add_(offset)
        return loop.task_loss(x, y)

    def come_back(_: int) -> None:
        with torch.no_grad():
            for p, offset in moved:
                p.sub_(offset)

    loop.loss, loop.after_step = loss, come_back


def skipped_surges(loop: Loop) -> None:
    """Steps with an unusually large gradient are skipped by the loop itself."""
    loop.highest_norm = 1.2


def auxiliary_head(loop: Loop) -> None:
    """A second head predicts the inputs; its loss is added."""
    loop.model.decoder = nn.Linear(loop.settings.width, 20)
    layers = [child for name, child in loop.model.named_children() if name != "decoder"]

    def forward(x: Tensor) -> Tensor:
        return layers[-1](hidden(x))

    def hidden(x: Tensor) -> Tensor:
        for layer in layers[:-1]:
            x = layer(x)
        return x

    def loss(x: Tensor, y: Tensor) -> Tensor:
        inner = hidden(x)
        return loss_between(layers[-1](inner), y) + 0.3 * functional.mse_loss(
            loop.model.decoder(inner), x
        )

    loop.model.forward = forward
    loop.loss = loss


def dropped_layers(loop: Loop) -> None:
    """A residual layer is left out of half of the steps."""
    layers = list(loop.model.children())
    middle = layers[2]
    plain_forward = middle.forward
    middle.forward = lambda x: (
        x if middle.training and torch.rand(()) < 0.5 else x + plain_forward(x)
    )


def several_epochs(loop: Loop) -> None:
    """Few examples, shuffled in each epoch, with dropout."""
    dropout(loop)
    loop.data = replace(loop.data, x=loop.data.x[:1024], y=loop.data.y[:1024])
    order: Iterator[Tensor] = chain.from_iterable(
        torch.randperm(1024).split(BATCH) for _ in range(STEPS)
    )

    def draw(_: int) -> tuple[Tensor, Tensor]:
        rows = next(order)
        return loop.data.x[rows], loop.data.y[rows]

    loop.draw = draw


def sampled_dropout(loop: Loop) -> None:
    """Dropout stays on in evaluation, to sample predictions."""
    dropout(loop)

    @torch.no_grad()
    def evaluate() -> float:
        return loss_between(loop.model(loop.data.eval_x), loop.data.eval_y).item()

    loop.evaluate = evaluate


def random_projection(loop: Loop) -> None:
    """The first layer is random, and stays so."""
    next(iter(loop.model.children())).requires_grad_(False)


HABITS: Final[dict[Callable[[Loop], None], str]] = {
    **dict.fromkeys((accumulation, thawed, fine_tuned_head, frozen_statistics), "images"),
    **dict.fromkeys((augmentation, large_batch, average_evaluated, fine_tuned_on_few), "images"),
    **dict.fromkeys(
        (tied_weights, idle_rows, two_optimizers, inverse_root, checkpointing), "chars"
    ),
    **dict.fromkeys((autocast_bf16, autocast_fp16, decay_on_all, clipped_often), "chars"),
    **dict.fromkeys((low_rank, label_smoothing, mixup, dropout, mean_teacher), "blobs"),
    **dict.fromkeys((warm_restarts, class_weights, classes_in_each_batch, curriculum), "blobs"),
    **dict.fromkeys((focal_loss, hard_examples, distillation, auxiliary_head), "blobs"),
    **dict.fromkeys((weight_norm, several_epochs, sharpness_aware, compiled), "blobs"),
    **dict.fromkeys((dropped_layers, rates_by_layer, skipped_surges, nesterov), "blobs"),
    **dict.fromkeys((plain_sgd, huber, constant_rate), "regression"),
    **dict.fromkeys((stable_then_decay,), "sequence"),
}
MEANT: Final[dict[Callable[[Loop], None], str]] = {
    sampled_dropout: "blobs",
    random_projection: "blobs",
}


def find_alarms(habit: Callable[[Loop], None], task: str, seed: int) -> list[str]:
    """Return the findings of a run that are errors or warnings."""
    loop = Loop(task, seed)
    habit(loop)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        loop.run(path)
        report = diagnose(path)
    return [finding.slug for finding in report.findings if finding.severity.value in ALARMS]


def count_alarms(
    habits: dict[Callable[[Loop], None], str], names: Iterable[str], seeds: list[int]
) -> None:
    """Print the runs with an alarm, and their fraction."""
    picked = {h: task for h, task in habits.items() if not names or h.__name__ in names}
    with_alarm = 0
    for habit, task in picked.items():
        for seed in seeds:
            slugs = find_alarms(habit, task, seed)
            with_alarm += bool(slugs)
            print(f"  {habit.__name__:24} {task:10} {seed:3}  {' '.join(slugs)}", flush=True)
    count = len(picked) * len(seeds)
    print(
        f"{with_alarm} of {count} runs have an alarm ({with_alarm / max(count, 1):.1%})", flush=True
    )


def main() -> None:
    """Train each habit with each seed."""
    parser = argparse.ArgumentParser(description="Count alarms on healthy habits.")
    parser.add_argument("names", nargs="*", help="some of the habits")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{len(HABITS)} habits; the goal is at most {BAR:.0%}")
    count_alarms(HABITS, options.names, options.seeds)
    print(f"{len(MEANT)} habits that do on purpose what a finding is about")
    count_alarms(MEANT, options.names, options.seeds)


if __name__ == "__main__":
    main()
