"""Runs that are healthy although their loss does not fall: a GAN, an annealed VAE, a policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import torch
from torch import Tensor, nn

Row = dict[str, float]
STEPS: Final = 400


class Observer(Protocol):
    """A recorder, or nothing that records."""

    def log(self, **columns: float) -> None:
        """Add columns to the next row."""

    def step(self, loss: Tensor) -> None:
        """Report the loss of a step."""


class NoObserver:
    """Records nothing."""

    def log(self, **columns: float) -> None:
        """Ignore the columns."""

    def step(self, loss: Tensor) -> None:
        """Ignore the step."""


# Makes an observer of a model and its optimizers, the main one first.
Start = Callable[[nn.Module, list[torch.optim.Optimizer]], Observer]


def no_observer(_model: nn.Module, _optimizers: list[torch.optim.Optimizer]) -> Observer:
    """Return an observer that records nothing."""
    return NoObserver()


def net(inputs: int, outputs: int) -> nn.Module:
    """Return a small network."""
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


def gan(seed: int, start: Start = no_observer) -> list[Row]:
    """Two networks that play against each other for the points of a ring."""
    torch.manual_seed(seed)
    maker, judge = net(4, 2), net(2, 1)
    maker_optimizer = torch.optim.Adam(maker.parameters(), 2e-3, betas=(0.5, 0.99))
    judge_optimizer = torch.optim.Adam(judge.parameters(), 2e-3, betas=(0.5, 0.99))
    observer = start(nn.ModuleList([maker, judge]), [maker_optimizer, judge_optimizer])
    cross_entropy, rows = nn.functional.binary_cross_entropy_with_logits, []
    for step in range(1, STEPS + 1):
        angle = 6.2832 * torch.rand(64)
        real = torch.stack((angle.cos(), angle.sin()), 1) + 0.05 * torch.randn(64, 2)
        fake = maker(torch.randn(64, 4))
        loss_d = cross_entropy(judge(real), torch.ones(64, 1)) + cross_entropy(
            judge(fake.detach()), torch.zeros(64, 1)
        )
        descend(judge_optimizer, loss_d)
        loss_g = cross_entropy(judge(fake), torch.ones(64, 1))
        descend(maker_optimizer, loss_g)
        row = {"loss_d": loss_d.item(), "loss_g": loss_g.item()}
        rows.append({"step": step, **row})
        observer.log(**row)
        observer.step(loss_g)
    return rows


def vae(seed: int, start: Start = no_observer) -> list[Row]:
    """A loss whose second part is weighed ever more: it rises by design."""
    torch.manual_seed(seed)
    encoder, decoder, mix = net(16, 8), net(4, 16), torch.randn(3, 16)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 3e-3)
    observer = start(nn.ModuleList([encoder, decoder]), [optimizer])
    rows = []
    for step in range(1, STEPS + 1):
        beta = min(step / (0.7 * STEPS), 1.0)
        x = torch.randn(64, 3) @ mix
        mean, log_var = encoder(x).chunk(2, 1)
        out = decoder(mean + torch.randn_like(mean) * (log_var / 2).exp())
        recon = ((out - x) ** 2).sum(1).mean()
        kl = 0.5 * (mean**2 + log_var.exp() - 1 - log_var).sum(1).mean()
        loss = recon + beta * kl
        descend(optimizer, loss)
        row = {"recon_loss": recon.item(), "kl_loss": kl.item(), "beta": beta}
        rows.append({"step": step, "loss": loss.item(), **row})
        observer.log(**row)
        observer.step(loss)
    return rows


def policy(seed: int, start: Start = no_observer) -> list[Row]:
    """A policy gradient: its loss hovers around 0 while the reward rises."""
    torch.manual_seed(seed)
    actor, best = net(4, 5), torch.randn(4, 5)
    optimizer = torch.optim.Adam(actor.parameters(), 3e-3)
    observer = start(actor, [optimizer])
    rows, usual = [], 0.0
    for step in range(1, STEPS + 1):
        state = torch.randn(64, 4)
        choice = torch.distributions.Categorical(logits=actor(state))
        action = choice.sample()
        reward = (state @ best).gather(1, action[:, None]).squeeze(1)
        usual = 0.9 * usual + 0.1 * reward.mean().item()
        loss = -(choice.log_prob(action) * (reward - usual)).mean()
        descend(optimizer, loss)
        row = {"reward_mean": reward.mean().item(), "entropy": choice.entropy().mean().item()}
        rows.append({"step": step, "policy_loss": loss.item(), **row, "lr": 3e-3})
        observer.log(policy_loss=loss.item(), **row)
        observer.step(loss)
    return rows


def descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Take one step."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


TRAPS: Final[dict[str, Callable[..., list[Row]]]] = {"gan": gan, "vae": vae, "policy": policy}
