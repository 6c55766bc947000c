"""The limits of preflight, and of comparing runs."""

from __future__ import annotations

import re

from stabdiag.model.frozen import frozen
from stabdiag.model.limit import limit
from stabdiag.model.patterns import lazy_pattern

# Optimizers whose peak learning rates are alike, by a part of their names. Adafactor's are shares
# of the weights.
_FAMILIES = (
    ("lion", lazy_pattern(r"lion", re.IGNORECASE)),
    ("adam", lazy_pattern(r"adam|rmsprop", re.IGNORECASE)),
    ("sgd", lazy_pattern(r"sgd|momentum|nesterov", re.IGNORECASE)),
)

# Optimizers that add the weight decay to the gradient in PyTorch, as AdamW does not.
_COUPLED = lazy_pattern(r"(torch\.optim\.)?(r?adam|nadam|rmsprop)", re.IGNORECASE)

_ADAM = "Kingma and Ba 2015: 0.001; convention"
_SGD = "Goyal et al. 2017: 0.1 for 256 images; convention"
_LION = "Chen et al. 2023: 3 to 10 times below Adam's"


def optimizer_family(optimizer: str | None) -> str | None:
    """Return the optimizer's family, or None if its usual learning rates are not known."""
    return next((family for family, name in _FAMILIES if name.search(optimizer or "")), None)


def is_adam(optimizer: str | None) -> bool:
    """Return True if an optimizer is Adam or one of its variants, which RMSprop is not."""
    return "adam" in (optimizer or "").lower()


@frozen(eq=True)
class UsualRates:
    """The usual range of peak learning rates for a family of optimizers."""

    title: str
    low: float
    high: float


@frozen(eq=True)
class PreflightLimits:
    """Checks of a configuration before the run."""

    warmup_low: float = limit(0.001, unit="of the run", at_most=1.0, source="convention")
    """A warm-up shorter than this fraction of the run has no effect. Published recipes for large
    runs start near it."""
    warmup_high: float = limit(0.2, unit="of the run", at_most=1.0, source="convention")
    """A warm-up longer than this fraction of the run is usually given in another unit."""
    adam_lr_low: float = limit(1e-6, unit="learning rate", source=_ADAM)
    """Below this peak Adam and its variants crawl at any model size."""
    adam_lr_high: float = limit(1e-2, unit="learning rate", source=_ADAM)
    """Above this peak Adam and its variants rarely train. Large transformers need a tenth of it or
    less."""
    sgd_lr_low: float = limit(1e-4, unit="learning rate", source=_SGD)
    """Below this peak SGD crawls."""
    sgd_lr_high: float = limit(1.0, unit="learning rate", source=_SGD)
    """Above this peak SGD needs a very large batch."""
    lion_lr_low: float = limit(1e-7, unit="learning rate", source=_LION)
    """Below this peak Lion crawls."""
    lion_lr_high: float = limit(1e-3, unit="learning rate", source=_LION)
    """Above this peak Lion rarely trains: each of its updates is as large as the rate."""
    clip_low: float = limit(0.1, unit="gradient norm", source="convention")
    """A clip threshold below this clips nearly every step. Transformers start at 1.0, and get 0.5
    after a spike."""
    clip_high: float = limit(10.0, unit="gradient norm", source="convention")
    """A clip threshold above this rarely clips anything."""
    decay_high: float = limit(0.5, unit="weight decay", source="convention")
    """Published recipes use 0.0001 to 0.3. Above this the weights shrink to nothing."""
    l2_high: float = limit(0.01, unit="weight decay", source="Loshchilov and Hutter 2019")
    """PyTorch's Adam adds the weight decay to the gradient. Above this it outweighs the loss's."""
    label_smoothing_high: float = limit(
        0.3, unit="label smoothing", at_most=1.0, source="Szegedy et al. 2016: 0.1; convention"
    )
    """Label smoothing above this hides most of what the labels say."""
    dropout_high: float = limit(
        0.6, unit="dropout", at_most=1.0, source="Srivastava et al. 2014: 0.5; convention"
    )
    """Dropout above this leaves too little of a layer to learn from."""
    momentum_high: float = limit(
        0.99, unit="momentum", at_most=1.0, source="Sutskever et al. 2013: 0.9 to 0.99"
    )
    """Momentum above this carries the weights far past a minimum."""
    epsilon_high: float = limit(
        0.01, unit="epsilon", source="Kingma and Ba 2015: 1e-8; convention: up to 1e-3"
    )
    """With an epsilon above this, Adam is SGD at the learning rate divided by epsilon: most
    gradients are smaller."""
    finetune_factor: float = limit(
        0.1, unit="x the usual rate", at_least=1e-4, at_most=1.0, source="convention"
    )
    """The usual learning rates of a run that starts from a pretrained model, as a fraction of the
    rates for training from scratch."""
    checkpoint_fraction: float = limit(0.1, unit="of the run", at_most=1.0, source="convention")
    """With checkpoints farther apart than this, one failure loses more than a tenth of the run."""
    schedule_slack: float = limit(0.05, unit="of the run", at_most=1.0, source="convention")
    """A schedule whose length differs from the run's by more than this fraction was built for
    another run."""

    def usual_decay(self, optimizer: str | None) -> float:
        """Return the highest usual weight decay of an optimizer, by its name in PyTorch."""
        coupled = optimizer is not None and _COUPLED.fullmatch(optimizer.strip()) is not None
        return self.l2_high if coupled else self.decay_high

    def usual_rates(
        self, optimizer: str | None, *, pretrained: bool | None = False
    ) -> UsualRates | None:
        """Return the usual peak learning rates of an optimizer, None if they are not known.

        A run that is ``pretrained`` is fine-tuned, at lower rates. If that is unknown (None), the
        rates of both are usual.
        """
        rates = {
            "adam": ("Adam and its variants", self.adam_lr_low, self.adam_lr_high),
            "sgd": ("SGD", self.sgd_lr_low, self.sgd_lr_high),
            "lion": ("Lion", self.lion_lr_low, self.lion_lr_high),
        }
        family = optimizer_family(optimizer)
        if family is None:
            return None
        title, low, high = rates[family]
        if pretrained:
            title, low, high = (
                f"{title} in fine-tuning",
                low * self.finetune_factor,
                high * self.finetune_factor,
            )
        elif pretrained is None:
            low *= self.finetune_factor
        return UsualRates(title=title, low=low, high=high)


@frozen(eq=True)
class CompareLimits:
    """The allowed differences between runs that should match."""

    min_points: int = limit(20, unit="logged points", at_least=4)
    """Runs with fewer common losses than this are not compared: agreement would mean little."""
    rounding: float = limit(2e-5, unit="of the value", at_most=0.1)
    """Values that differ by at most this are one value, rounded twice. Reordered fp32 sums differ
    by about 1e-6, six-digit logs by 1e-5, sums of two such columns by twice that."""
    noise_sigma: float = limit(1.0, unit="deviations of the loss's noise", at_least=0.1)
    """Two runs have diverged where most of their losses differ by more than this: other batches
    would differ as much."""
    sustained_points: int = limit(10, unit="logged points", at_least=3)
    """A difference counts from where at least half of the next points, this many, show it."""
    final_fraction: float = limit(0.1, unit="of the common steps", at_least=0.01, at_most=0.5)
    """A run's final loss is its mean over this last part of the steps all runs have."""
    seed_significance: float = limit(0.001, unit="probability", at_least=1e-12, at_most=0.2)
    """Seeds differ if the noise within a run explains the spread of their final losses with at most
    this probability."""
    seed_fraction: float = limit(0.15, unit="of the loss's descent", at_least=0.001, at_most=1.0)
    """A seed is an outlier if its final loss differs from the others' by this fraction of the
    descent or of the final level, the smaller of the two. With enough points any two seeds differ
    beyond their noise."""
    rank_gap: float = limit(5.0, unit="x usual distance of logged steps", at_least=1.0)
    """A rank whose log ends this much before the others' stopped early. Buffered logs end a few
    lines apart."""
    rank_sigma: float = limit(3.0, unit="deviations of the loss's noise", at_least=1.0)
    """The smoothed losses of ranks with different batches may differ by this much. Data split by
    file is not equally hard."""
