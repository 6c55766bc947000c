"""Train one family: the run without a fault, its forks, and the label of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import labels
import numpy as np
from corpus import Run
from design import Family, Plan
from logged import Log, full_log, thin
from recipes import manifests
from recipes.trainer import Config, Faults, Row

from training.faults import Done, Strike
from training.kinds import KINDS
from training.loop import Base, make_loop, train_base, train_fork
from training.precision import MAKERS, WHOLE_RUN, join
from training.tasks import Spec

ABOUT = ("kind", "variant", "flavour", "rows", "steps", "dtype", "optimizer", "schedule", "clip")


@dataclass(frozen=True)
class Made:
    """One log, its label, and where it comes from. `seen` is what the label was read from."""

    run_id: str
    family: Family
    plan: Plan
    log: Log
    label: labels.Label
    manifest: dict[str, Any]
    sizes: tuple[float, ...]
    seen: labels.Seen
    faults: list[tuple[str, int, int]]

    def run(self) -> Run:
        """The entry in the file of labels."""
        family, label = self.family, self.label
        faults = [
            {"name": name, "step": struck, "shows_at": at, "severity": round(hard, 3), "size": size}
            for (name, at, struck), (_, _, hard, _), size in zip(
                self.faults, self.plan.faults, self.sizes, strict=True
            )
        ]
        setting = {name: getattr(family, name) for name in ABOUT}
        setting |= {"stride": self.plan.stride, "mean": self.plan.mean, "seed": family.seed}
        return Run(
            run_id=self.run_id,
            split=family.split,
            task="-".join(word for word in (family.kind, family.variant) if word),
            setting=setting,
            faults=faults,
            expect=label.expect,
            section=labels.section(label.expect),
            also_ok=list(label.also_ok),
            also=list(label.also),
            onset=label.onset,
            recovered=label.recovered,
            size=float(f"{label.size:.4g}"),
            manifest=self.manifest,
        )


def config_of(family: Family) -> Config:
    """The configuration of the run without a fault."""
    return Config(
        steps=family.steps,
        batch=family.rows,
        dtype=family.dtype,
        optimizer=family.optimizer,
        peak_lr=family.lr,
        warmup=family.warmup,
        schedule=family.schedule,
        clip=family.clip,
        decay={"adamw": 0.05, "lion": 0.05}.get(family.optimizer, 0.0),
        scale=family.scale,
        growth_interval=family.growth,
        skip_non_finite=family.dtype == "bf16",
        checkpoint_every=max(10, family.steps // 10),
    )


def spec_of(family: Family) -> Spec:
    """The task."""
    return Spec(
        kind=family.kind,
        flavour=family.flavour,
        rows=family.rows,
        steps=family.steps,
        width=24 if family.kind != "text" else 16 + 16 * (family.seed % 4 > 1),
        norm=not family.bare,
        activation="relu2" if family.squared else "leaky",
        variant=family.variant,
    )


def strikes(base: Base, plan: Plan) -> list[Done]:
    """The faults of a plan, ready for its base run."""
    rate = [float(row["lr"] or 0.0) for row in base.rows] if base.rows else []
    result = []
    for name, at, hard, dice in plan.faults:
        lr = rate[at] if rate and name not in WHOLE_RUN else base.config.peak_lr
        lr = max(lr, 0.02 * base.config.peak_lr)
        strike = Strike(at, hard, dice, base.spec, base.config.optimizer, lr)
        result.append(MAKERS[name](strike))
    return result


def train_plan(base: Base, plan: Plan) -> tuple[list[Row], list[Done], Config]:
    """All rows of the run that a plan makes of its base."""
    done = strikes(base, plan)
    faults = done[0].faults
    for other in done[1:]:
        faults = join(faults, other.faults)
    changes: dict[str, Any] = {}
    for fault_record in done:
        changes |= fault_record.config
    last = base.config.last
    if not changes:
        at = min(fault[1] for fault in plan.faults)
        return train_fork(base, at, faults, last, plan.extra_steps), done, base.config
    config = replace(base.config, **changes)
    loop = make_loop(config, base.spec, base.seed, faults)
    loop.run_until_broken(last, plan.extra_steps)
    return loop.rows, done, config


def manifest_of(config: Config, base: Base, family: Family, plan: Plan) -> dict[str, Any]:
    """The manifest that goes with the log."""
    style = manifests.plain if plan.logs_dtype else manifests.without_dtype
    classes = KINDS[family.kind](base.spec, family.seed).classes
    result = dict(style(config, classes, family.seed))
    result.pop("seq_len", None)
    return result


def make_family(family: Family) -> list[Made]:
    """Train a family's runs and label them."""
    config, spec = config_of(family), spec_of(family)
    marks = [at for plan in family.plans for _, at, _, _ in plan.faults]
    with np.errstate(all="ignore"):
        base = train_base(config, spec, family.seed, marks, Faults())
        full_base = full_log(base.rows)
        made: list[Made] = []
        for number, plan in enumerate(family.plans):
            made.append(make_one(base, full_base, family, plan, number))
            if made[0].label.expect != "healthy":
                break
    return made


def make_one(base: Base, full_base: Log, family: Family, plan: Plan, number: int) -> Made:
    """Train and label one plan's run."""
    rows, done, config = train_plan(base, plan) if plan.faults else (base.rows, [], base.config)
    full = full_log(rows) if plan.faults else full_base
    log = thin(full, plan.stride, mean=plan.mean, drop=plan.drop)
    seen = labels.Seen(
        log=log,
        full=full,
        twin=thin(full_base, plan.stride, mean=plan.mean, drop=plan.drop),
        full_twin=full_base,
        dtype=family.dtype,
        logs_dtype=plan.logs_dtype,
        growth=family.growth,
        static=config.static_scale,
        restless=family.flavour in ("wave", "blocks", "curriculum", "tails")
        or family.schedule == "warm_restarts",
        classes=KINDS[family.kind](base.spec, family.seed).classes,
    )
    faults = [
        (name, fault_record.shows_at, at if name not in WHOLE_RUN else fault_record.shows_at)
        for (name, at, _, _), fault_record in zip(plan.faults, done, strict=True)
    ]
    return Made(
        run_id=f"{family.index:03}{'abcdefgh'[number]}",
        family=family,
        plan=plan,
        log=log,
        label=labels.label(seen, faults),
        manifest=manifest_of(config, base, family, plan),
        sizes=tuple(float(f"{fault_record.size:.4g}") for fault_record in done),
        seen=seen,
        faults=faults,
    )
