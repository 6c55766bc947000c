"""The rules that judge, each with its replacement when it is switched off."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from stabdiag.tree import classify, spike_rules


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule: its name, its purpose, and the log that needs it, if any.

    ``off`` maps ``module:name`` or ``module:class.name`` to the replacement. ``row`` means that the
    rule is a row of a table in ``tree/classify.py`` or ``tree/spike_rules.py``.
    """

    name: str
    purpose: str
    off: Mapping[str, Any]
    needed: str = ""
    row: bool = False

    @property
    def where(self) -> str:
        """The location of the rule, without the name of the program."""
        return next(iter(self.off)).removeprefix("stabdiag.").replace(":", ".")

    @property
    def reaches_symptoms(self) -> bool:
        """Whether symptoms, not only the tree, call the function that the rule replaces."""
        return any(target.startswith(USED_BY_SYMPTOMS) for target in self.off)


def always(value: object) -> Callable[..., Any]:
    """Return a function that returns a value for any arguments."""
    return lambda *_, **__: value


STATS, TREE = "stabdiag.stats", "stabdiag.tree"

# Symptoms call functions of these modules themselves.
USED_BY_SYMPTOMS = (f"{STATS}.trend:", f"{TREE}.causes:", f"{TREE}.drivers:")

# The logs that need a row of the tables.
NEEDED = {
    "separated group": "runs with four to ten spikes (`benchmarks/accuracy/recurring.py`)",
    "recurring": "a hard batch in every epoch: Caffe and AlgoPerf logs",
    "before a collapse": "runs of reinforcement learning",
    "warm restart": "cosine schedules with restarts",
    "adversarial swing": "generators and discriminators",
    "adversarial loss": "generators and discriminators",
    "climbs on": "label noise that grows: a public run of `dimitarpg13/semsimula-paper`",
}


def _rows() -> Iterator[Rule]:
    """Yield each row of the tables; it is switched off by a table without it."""
    tables = (
        (classify, "EVENT_RULES"),
        (spike_rules, "SPIKE_RULES"),
        (spike_rules, "JUMP_RULES"),
    )
    for module, table in tables:
        rows = getattr(module, table)
        for row in rows:
            yield Rule(
                name=row.name,
                purpose=row.purpose,
                off={f"{module.__name__}:{table}": tuple(r for r in rows if r is not row)},
                needed=NEEDED.get(row.name, ""),
                row=True,
            )


RULES: tuple[Rule, ...] = (
    # Is this peak noise? Is this jump a climb?
    *_rows(),
    # Which peaks are tested, and with what?
    Rule(
        name="not after a descent",
        purpose="points above a baseline that overshoots a steep descent are not noise",
        off={f"{STATS}.peaks:Residuals.went_up": lambda _, at: np.ones(len(at), dtype=bool)},
        needed="a spike of 80 deviations behind a steep descent",
    ),
    Rule(
        name="initial descent",
        purpose="losses of the initial descent are not compared with later ones",
        off={f"{STATS}.peaks:_burn_in_end": lambda _, first: min(8, first)},
    ),
    Rule(
        name="stands alone",
        purpose="a rise that no other comes near is tested regardless of the tail",
        off={f"{STATS}.peaks:Excursions.alone": always([])},
    ),
    Rule(
        name="abrupt",
        purpose="in a short log, a rise is compared with the few losses before it",
        off={f"{STATS}.abrupt:abrupt_spikes": always(())},
        needed="logs of 10 to 200 epochs whose loss triples for a few epochs",
    ),
    Rule(
        name="stretches",
        purpose="the median of the next eight points is tested as well",
        off={f"{STATS}.peaks:median_residuals": always(None)},
    ),
    Rule(
        name="often high together",
        purpose="if points are often high, some are high together by chance",
        off={f"{STATS}.events:_chances": lambda medians, *_: np.zeros(len(medians))},
    ),
    Rule(
        name="narrow window",
        purpose="on a descent, stretches are compared with a window of a fifth of the log",
        off={f"{STATS}.profile:_WINDOWS": 1},
        needed="two AlgoPerf logs with occasional hard batches",
    ),
    Rule(
        name="change point",
        purpose="a stretch begins at its most likely change point",
        off={f"{STATS}.events:change_point": lambda _x, _base, at, _lasting: at},
        needed="the onsets of two lasting shifts on the page of accuracy",
    ),
    Rule(
        name="declustered peaks",
        purpose="the longest few excursions count as one draw of the noise each",
        off={f"{STATS}.tails:declustered": lambda scores: scores},
    ),
    Rule(
        name="rounded losses",
        purpose="the deviation is at least the last digit that was logged",
        off={f"{STATS}.rolling:rounding": always(0.0)},
        needed="losses that were printed with one decimal",
    ),
    Rule(
        name="fewer tests after a cause",
        purpose="just after a logged cause, the chance of a false alarm is larger",
        off={f"{STATS}.events:_CAUSE_FACTOR": 1},
    ),
    Rule(
        name="duplicate batches",
        purpose="the loss of a batch that is stuck in the loader is not a level to compare with",
        off={f"{TREE}.run:Run.duplicate_batch_mask": None},
    ),
    # Does the loss climb?
    Rule(
        name="recovered before",
        purpose="a rise is compared with the largest that recovered",
        off={f"{STATS}.rise:DRAWUP_FACTOR": 0.0},
    ),
    Rule(
        name="repeats each epoch",
        purpose="levels have at least the noise that their points give them",
        off={f"{STATS}.rise:noise_of_means": always(0.0)},
        needed="losses that repeat themselves in each epoch",
    ),
    Rule(
        name="obvious",
        purpose="a rise far beyond the noise and recovered rises needs no trend",
        off={f"{TREE}.rises:DRAWUP_FACTOR": 1e99},
        needed="four real incidents, such as one of `mdkrasnow/research-repo`",
    ),
    Rule(
        name="far above the past",
        purpose="a few losses far above all before them are a climb",
        off={f"{STATS}.rise:_far_above_past": always(None)},
        needed="the spike of `bigscience-workshop/bigscience` (tr1-13B), eight lines",
    ),
    Rule(
        name="below the noise",
        purpose="a rise below the noise of single losses has to be larger",
        off={f"{TREE}.rises:CLEAR": 0.0},
    ),
    Rule(
        name="rising learning rate",
        purpose="a small rise counts where the learning rate rises with the loss",
        off={f"{TREE}.rises:has_rising_lr": always(False)},
    ),
    Rule(
        name="autocorrelation",
        purpose="the trend test accounts for autocorrelated noise",
        off={f"{STATS}.trend:_variance_stretch": always(1.0)},
        needed="part of the statistic (Hamed & Rao 1998)",
    ),
    Rule(
        name="onset of a climb",
        purpose="a climb begins where it has reached a tenth of its height",
        off={f"{STATS}.rise:climb_onset": lambda _x, rise, _size: rise.onset},
    ),
    # Is the loss comparable here?
    Rule(
        name="new data",
        purpose="a jump where the data or the objective changed is not a spike",
        off={f"{TREE}.comparable:find_objective_changes": always(())},
    ),
    Rule(
        name="gradual change",
        purpose="a rise in proportion to a change of the data or the objective is not a climb",
        off={f"{TREE}.comparable:find_curriculum_ramp": always(None)},
    ),
    Rule(
        name="maintained reward",
        purpose="the loss of a run trained for a reward may rise while the reward does not fall",
        off={f"{TREE}.reward:find_maintained_reward": always(None)},
        needed="runs of reinforcement learning",
    ),
    # Why?
    Rule(
        name="few digits",
        purpose="a change in the last digit of a learning rate is not a jump",
        off={f"{TREE}.causes:last_logged_digit": always(0.0)},
        needed="learning rates with six decimals, as llm.c prints them",
    ),
    Rule(
        name="turning point",
        purpose="the step where a rate or a weight norm began to move",
        off={f"{TREE}.drivers:find_turn_step": always(None)},
        needed="which checkpoint to reload: six fixtures reload a later one without it",
    ),
    Rule(
        name="jump of the rate",
        purpose="a learning rate that jumped and stayed up began the climb",
        off={f"{TREE}.divergence:_lr_jump": always(None)},
        needed="a schedule that is restarted at a higher rate",
    ),
)


@contextmanager
def listening(rules: Sequence[Rule], effective: set[str]) -> Iterator[None]:
    """Record the rules whose result differs from their replacement's when switched off.

    A rule with the same result has no effect on a run. A row has an effect if it decides about an
    event. Other constants are always recorded.
    """

    def listen(rule: Rule, new: Any) -> Callable[[Any], Any]:
        def around(old: Any) -> Any:
            if not (callable(old) and callable(new)):
                effective.add(rule.name)
                return old

            def both(*args: Any, **kwargs: Any) -> Any:
                result = old(*args, **kwargs)
                if not _same(result, new(*args, **kwargs)):
                    effective.add(rule.name)
                return result

            return both

        return around

    def recording(old: Any) -> Any:
        def decide(rows: Sequence[Any], context: Any) -> Any:
            row = next((row for row in rows if row.applies(context)), None)
            if row is not None:
                effective.add(row.name)
            return old(rows, context)

        return decide

    others = [rule for rule in rules if not rule.row]
    targets = [(at, listen(rule, new)) for rule in others for at, new in rule.off.items()]
    with _replaced([(f"{TREE}.rules:classify", recording), *targets]):
        yield


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return np.array_equal(left, right)
    return type(left) is type(right) and bool(left == right)


@contextmanager
def switched_off(rules: Sequence[Rule]) -> Iterator[None]:
    """Replace some rules."""
    with _replaced([(at, always(new)) for rule in rules for at, new in rule.off.items()]):
        yield


@contextmanager
def _replaced(targets: Sequence[tuple[str, Callable[[Any], Any]]]) -> Iterator[None]:
    """Replace the objects at some dotted paths in all modules that imported them."""
    undo: list[tuple[Any, str, Any]] = []
    for target, make in targets:
        module, _, path = target.partition(":")
        class_name, _, name = path.rpartition(".")
        owner: Any = importlib.import_module(module)
        if class_name:
            holders = [getattr(owner, class_name)]
        else:
            old = getattr(owner, name)
            loaded = [module for key, module in sys.modules.items() if key.startswith("stabdiag")]
            holders = [
                module for module in loaded if vars(module).get(name) is old and callable(old)
            ]
            holders = holders or [owner]
        new = make(vars(holders[0])[name])
        for holder in holders:
            undo.append((holder, name, vars(holder)[name]))
            setattr(holder, name, new)
    try:
        yield
    finally:
        for holder, name, value in reversed(undo):
            setattr(holder, name, value)
