"""The limits of what is said before a launch."""

from __future__ import annotations

from dataclasses import dataclass

from stabdiag.model.limits.declare import limit

_ADAM = "Kingma and Ba 2015: 0.001; convention"
_SGD = "Goyal et al. 2017: 0.1 for 256 images; convention"
_LION = "Chen et al. 2023: 3 to 10 times below Adam's"


@dataclass(frozen=True, kw_only=True)
class PreflightLimits:
    """What a configuration is held against before a run exists."""

    warmup_low: float = limit(
        0.001,
        unit="of the run",
        at_most=1.0,
        source="convention",
        why="A warm-up shorter than this share of the run hardly is one: published recipes for "
        "large runs begin near it.",
    )
    warmup_high: float = limit(
        0.2,
        unit="of the run",
        at_most=1.0,
        source="convention",
        why="A warm-up longer than this share of the run is most often counted in another unit.",
    )
    adam_lr_low: float = limit(
        1e-6,
        unit="learning rate",
        source=_ADAM,
        why="Below this peak Adam and its kin crawl, at any size of model.",
    )
    adam_lr_high: float = limit(
        1e-2,
        unit="learning rate",
        source=_ADAM,
        why="Above this peak Adam and its kin seldom train; large transformers want a tenth of it "
        "or less.",
    )
    sgd_lr_low: float = limit(
        1e-4,
        unit="learning rate",
        source=_SGD,
        why="Below this peak SGD crawls.",
    )
    sgd_lr_high: float = limit(
        1.0,
        unit="learning rate",
        source=_SGD,
        why="Above this peak SGD wants a very large batch.",
    )
    lion_lr_low: float = limit(
        1e-7,
        unit="learning rate",
        source=_LION,
        why="Below this peak Lion crawls.",
    )
    lion_lr_high: float = limit(
        1e-3,
        unit="learning rate",
        source=_LION,
        why="Above this peak Lion, each of whose updates has the size of the rate, seldom trains.",
    )
    clip_low: float = limit(
        0.1,
        unit="gradient norm",
        source="convention",
        why="A clip threshold below this cuts nearly every step; 1.0 is where transformers begin, "
        "0.5 is what they are given after a spike.",
    )
    clip_high: float = limit(
        10.0,
        unit="gradient norm",
        source="convention",
        why="A clip threshold above this seldom cuts anything.",
    )
    decay_high: float = limit(
        0.5,
        unit="weight decay",
        source="convention",
        why="Published recipes decay weights by 0.0001 to 0.3; above this they shrink to nothing.",
    )
    checkpoint_share: float = limit(
        0.1,
        unit="of the run",
        at_most=1.0,
        source="convention",
        why="A checkpoint that is written less often than this loses more than a tenth of the run "
        "to one failure.",
    )
    schedule_slack: float = limit(
        0.05,
        unit="of the run",
        at_most=1.0,
        source="convention",
        why="A schedule whose length differs from the run's by more than this share was built for "
        "another run.",
    )
