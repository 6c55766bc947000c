"""The plan of the runs: drawn from a seed, so that anyone draws the same."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

KINDS = {"text": 0.2, "mixture": 0.25, "images": 0.2, "sequence": 0.13, "regression": 0.22}
VARIANTS = {
    "text": ("",),
    "mixture": ("", "", "teacher"),
    "images": ("", "", "stripes"),
    "sequence": ("", "", "adding"),
    "regression": ("gaussian", "t3", "t5", "lognormal"),
}
FLAVOURS = ("plain", "plain", "hard", "tails", "wave", "blocks", "curriculum", "epochs")
HELDOUT_ONLY = frozenset({"stripes", "adding", "lognormal"})
RATES = {"adamw": 4e-3, "sgd": 0.05, "lion": 1e-3, "adafactor": 2e-2}
SCHEDULES = ("cosine", "cosine", "linear", "constant", "wsd", "step_decay", "warm_restarts")
DEV_SHARE = 0.55
SUDDEN = (
    *("outlier", "outlier", "labels", "jump", "jump", "jump", "long-jump", "long-jump", "stuck"),
    *("stale", "stale", "noise", "noise", "lost", "lost", "moments", "stays"),
)
SLOW = (
    *("growing", "growing", "growing", "shrinking", "shrinking", "rot", "harder"),
    *("endless", "endless", "endless", "inverse", "inverse"),
)
BROKEN = ("empty", "empty", "log0", "log0", "blow-up", "blow-up")
HALF = ("activations", "activations", "overflow", "overflow", "collapse", "static", "unguarded")
RARE = (
    *("jump", "jump", "jump", "long-jump", "long-jump", "stale", "stale", "stale", "labels"),
    *("endless", "endless", "endless", "inverse", "inverse", "growing", "growing", "growing"),
    *("rot", "rot", "harder", "harder", "shrinking", "lost", "lost", "noise"),
)
RARE_FROM = 220  # from this family on, faults whose leaves came out rare until then
MILD = ("jump", "jump", "jump", "long-jump", "stale", "endless", "rot", "growing")
MILD_FROM = 400  # from here on milder ones, in fp32: jumps of the learning rate that heal


# Runs with recurring spikes: kinds and numbers of the faults, and the minimum distance in steps.
RECURRING = ("outlier", "outlier", "labels", "jump", "noise")
COUNTS = (2, 4, 6, 10)
RECURRING_KINDS = {
    "mixture": ("", "teacher"),
    "images": ("", "stripes"),
    "regression": ("gaussian", "t5"),
}
MIN_DISTANCE = 30


@dataclass(frozen=True)
class Plan:
    """One log to make of a base run: its faults (none: healthy) and how it is logged."""

    faults: tuple[tuple[str, int, float, float], ...] = ()  # name, step, severity, dice
    stride: int = 1
    mean: bool = False
    extra_steps: int = 20
    drop: tuple[str, ...] = ()
    logs_dtype: bool = True


@dataclass(frozen=True)
class Family:
    """A base run and the logs that are made of it and of its forks."""

    index: int
    seed: int
    split: str
    kind: str
    variant: str
    flavour: str
    rows: int
    steps: int
    dtype: str
    optimizer: str
    schedule: str
    lr: float
    warmup: int
    clip: float | None
    bare: bool
    squared: bool
    scale: float
    growth: int
    plans: tuple[Plan, ...] = field(default=())


def pick(random: np.random.Generator, values: tuple[str, ...]) -> str:
    """One of some words."""
    return values[int(random.integers(len(values)))]


def draw_steps(random: np.random.Generator, kind: str) -> int:
    """A length: mostly hundreds to a few thousands."""
    if kind in ("mixture", "regression") and random.random() < 0.06:
        return int(random.choice([8000, 12000, 20000]))
    highest = {"text": 1600, "sequence": 2000}.get(kind, 5000)
    if random.random() < 0.15:
        return int(random.integers(60, 250))
    return int(np.exp(random.uniform(np.log(300), np.log(highest))))


def draw_family(index: int, seed: int = 2026) -> Family:
    """Family number `index` of the corpus."""
    random = np.random.default_rng((seed, index))
    kind = str(random.choice(list(KINDS), p=list(KINDS.values())))
    variant = pick(random, VARIANTS[kind])
    flavour = pick(random, FLAVOURS)
    if kind == "text":
        flavour = pick(random, ("plain", "plain", "wave"))
    steps = draw_steps(random, kind)
    if index >= RARE_FROM:
        steps = max(500, min(3000, steps))
    optimizer = str(random.choice(list(RATES), p=[0.5, 0.25, 0.12, 0.13]))
    dtype = str(random.choice(["fp32", "bf16", "fp16"], p=[0.6, 0.13, 0.27]))
    if dtype == "fp16" and kind == "text":
        steps = min(steps, 700)  # half precision is slow on a CPU
    if index >= MILD_FROM:
        dtype, steps = "fp32", min(steps, 1500)
    bare = bool(random.random() < (0.5 if optimizer == "sgd" else 0.25))
    split = "held" if variant in HELDOUT_ONLY or random.random() > DEV_SHARE else "dev"
    family = Family(
        index=index,
        seed=int(random.integers(10_000)) * 2 + (split == "held"),
        split=split,
        kind=kind,
        variant=variant,
        flavour=flavour,
        rows=int(2 ** random.integers(1, 7 if kind != "text" else 6)),
        steps=steps,
        dtype=dtype,
        optimizer=optimizer,
        schedule=pick(random, SCHEDULES),
        lr=float(f"{RATES[optimizer] * 2 ** random.uniform(-1, 0.7):.2g}"),
        warmup=int(min(steps // 5, random.choice([10, 30, 50, 100, 200]))),
        clip=None if bare and random.random() < 0.6 else float(random.choice([0.5, 1.0, 5.0])),
        bare=bare,
        squared=bool(bare and dtype == "fp16" and random.random() < 0.7),
        scale=float(2.0 ** random.choice([13, 16, 16, 24])),
        growth=int(random.choice([50, 200, 2000, 2000, 2000])),
    )
    return with_plans(family, random)


def with_plans(family: Family, random: np.random.Generator) -> Family:
    """The healthy log, and up to three with faults."""
    plans = [logged(family, random, ())]
    count = int(random.choice([0, 1, 2, 3], p=[0.1, 0.15, 0.3, 0.45]))
    if family.steps >= 150 and family.steps < 8000:
        plans += [logged(family, random, draw_faults(family, random)) for _ in range(count)]
    return Family(**{**vars(family), "plans": tuple(plans)})


def draw_recurring(index: int, seed: int) -> Family:
    """Family number ``index`` of the runs with recurring spikes.

    Its healthy run has hard batches in 0.5 to 3 % of the steps, or none; every other run has the
    same fault several times.
    """
    family = draw_family(index, seed)
    random = np.random.default_rng((seed, index, 1))
    kind = pick(random, tuple(RECURRING_KINDS))
    optimizer = pick(random, ("adamw", "sgd"))
    family = replace(
        family,
        kind=kind,
        variant=pick(random, RECURRING_KINDS[kind]),
        flavour=pick(random, ("plain", "sparse", "sparse")),
        rows=int(2 ** random.integers(3, 6)),
        dtype="fp32",
        bare=False,
        squared=False,
        steps=int(random.integers(400, 900)),
        warmup=30,
        optimizer=optimizer,
        schedule=pick(random, ("cosine", "linear", "constant")),
        lr=float(f"{RATES[optimizer] * 2 ** random.uniform(-1.5, -0.5):.2g}"),
        clip=float(random.choice([0.5, 1.0, 5.0])),
    )
    plans = [Plan()]
    for count in random.choice(COUNTS, 2, replace=False).tolist():
        slots = np.arange(family.steps // 5, family.steps - 60, 2 * MIN_DISTANCE)
        slots = np.sort(random.permutation(slots)[:count])
        steps = slots + random.integers(0, MIN_DISTANCE, size=len(slots))
        name, hard = pick(random, RECURRING), float(random.uniform(0.6, 1.3))
        faults = tuple((name, step, hard, float(random.random())) for step in steps.tolist())
        plans.append(Plan(faults=faults))
    return replace(family, plans=tuple(plans))


def draw_step(family: Family, random: np.random.Generator, name: str) -> int:
    """When a fault strikes: in the warm-up, in the first 100 steps, midway, late or at the end."""
    steps = family.steps
    if name in ("growing", "shrinking", "rot", "harder"):
        return int(steps * random.uniform(0.25, 0.6))
    if name in ("overflow", "collapse") and random.random() < 0.6:
        return 0 if name == "overflow" else int(steps * random.uniform(0.3, 0.7))
    late = family.index >= RARE_FROM and name in ("lost", "noise", "stale", "labels")
    if late and random.random() < 0.5:
        return int(random.integers(steps - 45, steps - 6))
    ranges = (
        (max(15, family.warmup // 3), max(16, family.warmup)),
        (30, 100),
        (int(0.3 * steps), int(0.7 * steps)),
        (int(0.3 * steps), int(0.8 * steps)),
        (int(0.7 * steps), int(0.9 * steps)),
        (steps - 45, steps - 20),
        (steps - 20, steps - 6),
    )
    chances = [0.06, 0.1, 0.3, 0.22, 0.14, 0.1, 0.08]
    least, highest = ranges[int(random.choice(len(ranges), p=chances))]
    return int(random.integers(least, max(highest, least + 1)))


def allowed(family: Family, name: str) -> bool:
    """Whether a fault can happen to this run."""
    floats = family.kind != "text"
    classes = family.kind != "regression" and family.variant != "adding"
    rules = {
        "moments": family.optimizer == "adamw",
        "log0": floats and classes and family.bare and family.dtype != "fp16",
        "activations": floats and family.squared,
        "blow-up": family.optimizer == "sgd" and family.bare and family.clip is None,
        "overflow": family.dtype != "fp32",
        "collapse": family.dtype == "fp16",
        "stale": family.flavour != "epochs",
        "stuck": family.flavour != "epochs",
    }
    return rules.get(name, True)


def draw_faults(
    family: Family, random: np.random.Generator
) -> tuple[tuple[str, int, float, float], ...]:
    """One fault, or occasionally two."""
    half = family.dtype == "fp16" and random.random() < 0.75
    names: tuple[str, ...] = HALF if half else (*SUDDEN, *BROKEN)
    if family.steps >= 450 and not half:
        names = (*names, *SLOW)
    if family.dtype == "bf16":
        names = (*names, *["overflow"] * 7, *BROKEN)
    rare = family.index >= RARE_FROM and not half
    names = (MILD if family.index >= MILD_FROM else RARE) if rare else names
    names = tuple(name for name in names if allowed(family, name))
    if rare and family.dtype == "bf16":
        names = (*names, *["overflow"] * 12)
    name = pick(random, names)
    least, highest = (0.0, 0.6) if family.index >= MILD_FROM else (0.3, 1.4)
    hard = float(random.uniform(least, highest) if rare else random.random())
    fault = (name, draw_step(family, random, name), hard, float(random.random()))
    early = int(0.3 * family.steps)
    if random.random() < 0.1 and early > 120 and fault[1] > early + 120 and not half:
        first = ("outlier", early, float(random.uniform(0.5, 1)), 0.5)
        return first, fault
    return (fault,)


def logged(
    family: Family,
    random: np.random.Generator,
    faults: tuple[tuple[str, int, float, float], ...],
) -> Plan:
    """How a run is logged: every step, or fewer, and which columns."""
    strides = [1, 2, 5, 10, 20, 50]
    chances = np.array([0.5, 0.1, 0.12, 0.14, 0.07, 0.07])
    least = 60 if faults else 40
    chances *= np.array([family.steps / stride >= least for stride in strides])
    chances[0] += 1e-9
    stride = int(random.choice(strides, p=chances / chances.sum()))
    spares = ("batch_id", "grad_norm", "weight_norm")
    drop = tuple(name for name in spares if random.random() < 0.08) if not faults else ()
    return Plan(
        faults=faults,
        stride=stride,
        mean=bool(stride > 1 and random.random() < 0.5),
        extra_steps=int(random.choice([20, 100_000])),
        drop=drop,
        logs_dtype=bool(random.random() > 0.1),
    )
