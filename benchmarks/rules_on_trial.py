"""The rules that judge, each with its replacement when it is switched off."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule: its name, its purpose, and the log that needs it, if any.

    ``off`` maps ``module:name`` or ``module:class.name`` to the replacement.
    """

    name: str
    purpose: str
    off: Mapping[str, Any]
    needed: str = ""

    @property
    def where(self) -> str:
        """The location of the rule, without the name of the program."""
        return next(iter(self.off)).removeprefix("stabdiag.").replace(":", ".")


def always(value: object) -> Callable[..., Any]:
    """Return a function that returns a value for any arguments."""
    return lambda *_, **__: value


STATS, TREE = "stabdiag.stats", "stabdiag.tree"

RULES: tuple[Rule, ...] = (
    # Is this peak noise?
    Rule(
        name="separated group",
        purpose="peaks that a gap separates from the noise are spikes, however many they are",
        off={f"{STATS}.spikes:find_peak_group": always(None)},
        needed="runs with four to ten spikes (`benchmarks/accuracy/recurring.py`)",
    ),
    Rule(
        name="recurring outliers",
        purpose="a peak that others of the run come near is no spike",
        off={f"{STATS}.peaks:Excursions.is_recurring": always(False)},
        needed="a hard batch in every epoch: Caffe and AlgoPerf logs",
    ),
    Rule(
        name="gap in the tail",
        purpose="a single outlier that came back is no spike unless a gap parts it from the others",
        off={f"{STATS}.peaks:Excursions.is_separated_by_gap": always(True)},
    ),
    Rule(
        name="as high elsewhere",
        purpose="a peak is no spike if the run's noise reaches as high elsewhere",
        off={f"{STATS}.peaks:Residuals.went_up": lambda _, at: np.zeros(len(at), dtype=bool)},
    ),
    Rule(
        name="not after a descent",
        purpose="points above a baseline that overshoots a steep descent are no noise",
        off={f"{STATS}.peaks:Residuals.went_up": lambda _, at: np.ones(len(at), dtype=bool)},
        needed="a spike of 80 deviations behind a steep descent",
    ),
    Rule(
        name="initial descent",
        purpose="what a loss does before it has come down is compared with nothing",
        off={f"{STATS}.peaks:_burn_in_end": lambda _, first: min(8, first)},
    ),
    Rule(
        name="stands alone",
        purpose="a rise that no other comes near needs no tail to be judged by",
        off={f"{STATS}.peaks:Excursions.alone": always([])},
    ),
    Rule(
        name="abrupt",
        purpose="in a short log, the few losses before a rise are enough to tell it by",
        off={f"{STATS}.spikes:abrupt_spikes": always(())},
        needed="logs of 10 to 200 epochs, in which the loss triples for some of them",
    ),
    Rule(
        name="stands out",
        purpose="a rise that came back reached five deviations, a single loss twice the limit",
        off={f"{STATS}.spikes:_is_significant": always(True)},
    ),
    Rule(
        name="stretches",
        purpose="the median of the next eight points is tested as well",
        off={f"{STATS}.spikes:median_residuals": always(None)},
    ),
    Rule(
        name="often high together",
        purpose="points that are often high are so together now and then",
        off={f"{STATS}.spikes:_chances": lambda medians, *_: np.zeros(len(medians))},
    ),
    Rule(
        name="narrow window",
        purpose="on a descent, stretches are held against a window of a fifth of the log",
        off={f"{STATS}.spikes:_WINDOWS": 1},
        needed="two AlgoPerf logs with a hard batch now and then",
    ),
    Rule(
        name="change point",
        purpose="a stretch begins at its most likely change point",
        off={f"{STATS}.spikes:change_point": lambda _x, _base, at, _lasting: at},
    ),
    Rule(
        name="declustered peaks",
        purpose="the largest few excursions are one draw of the noise each",
        off={f"{STATS}.spikes:declustered": lambda scores: scores},
    ),
    Rule(
        name="rounded losses",
        purpose="the deviation is at least the last digit that was logged",
        off={f"{STATS}.rolling:rounding": always(0.0)},
        needed="losses that were printed with one decimal",
    ),
    Rule(
        name="logged cause",
        purpose="just after a jump of the learning rate or a repeated batch, less is enough",
        off={f"{STATS}.spikes:_CAUSE_FACTOR": 1},
    ),
    Rule(
        name="learned by heart",
        purpose="the loss of a batch that is stuck in the loader is no level to compare with",
        off={f"{TREE}.run:Run.duplicate_batch_mask": None},
    ),
    # Jump or climb?
    Rule(
        name="rise time",
        purpose="a loss that takes long to rise climbs, and did not jump",
        off={f"{STATS}.shape:rise_points": always(1)},
    ),
    Rule(
        name="climbs before",
        purpose="a jump of a loss that was climbing already ends the climb",
        off={f"{TREE}.measure:_is_end_of_climb": always(False)},
    ),
    Rule(
        name="climbs on",
        purpose="a jump after which the loss goes on to twice as high begins a climb",
        off={f"{TREE}.measure:_is_start_of_climb": always(False)},
        needed="label noise that grows: a public run of `dimitarpg13/semsimula-paper`",
    ),
    # Does the loss climb?
    Rule(
        name="made good before",
        purpose="a rise counts against the largest that the run has made good",
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
        purpose="a rise far beyond the run's ups and downs needs no trend",
        off={f"{TREE}.rises:DRAWUP_FACTOR": 1e99},
        needed="four real incidents, such as one of `mdkrasnow/research-repo`",
    ),
    Rule(
        name="left behind",
        purpose="of very few losses, those that leave all before them far behind are a climb",
        off={f"{STATS}.rise:_far_above_past": always(None)},
        needed="the spike of `bigscience-workshop/bigscience` (tr1-13B), eight lines",
    ),
    Rule(
        name="below the noise",
        purpose="a rise that cannot be seen among single losses has to be larger",
        off={f"{TREE}.rises:CLEAR": 0.0},
    ),
    Rule(
        name="rising learning rate",
        purpose="a small rise counts where the learning rate rises with the loss",
        off={f"{TREE}.rises:has_rising_lr": always(False)},
    ),
    Rule(
        name="autocorrelation",
        purpose="the trend test allows for the noise of neighbours that go together",
        off={f"{STATS}.trend:_variance_stretch": always(1.0)},
        needed="part of the statistic (Hamed & Rao 1998)",
    ),
    Rule(
        name="onset of a climb",
        purpose="a climb has begun where a tenth of it was made",
        off={f"{STATS}.rise:climb_onset": lambda _x, rise, _size: rise.onset},
    ),
    # Is the loss comparable here?
    Rule(
        name="new data",
        purpose="a jump where what the loss is measured on changed is no spike",
        off={f"{TREE}.comparable:find_objective_changes": always(())},
    ),
    Rule(
        name="harder by and by",
        purpose="a rise in proportion to what the loss is measured on is no climb",
        off={f"{TREE}.comparable:find_curriculum_ramp": always(None)},
    ),
    Rule(
        name="reward that holds",
        purpose="the loss of a run that is trained for a reward may rise while that holds",
        off={f"{TREE}.reward:find_maintained_reward": always(None)},
        needed="runs of reinforcement learning",
    ),
    # Why?
    Rule(
        name="few digits",
        purpose="the last digit of a learning rate that moves is no jump",
        off={f"{TREE}.causes:unit_of": always(0.0)},
        needed="learning rates with six decimals, as llm.c prints them",
    ),
    Rule(
        name="when it turned",
        purpose="the step at which a rate or a weight norm began to move",
        off={f"{TREE}.drivers:turned_to": always(None)},
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
    """Record the rules whose result differs from that of their replacement when switched off.

    A rule without such a difference has no effect on a run. Constants are always recorded.
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

    with _replaced([(at, listen(rule, new)) for rule in rules for at, new in rule.off.items()]):
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
