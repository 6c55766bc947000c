"""Names that count in more words than frameworks use: ``Epoch Count``, ``No. of games``.

A name in these words may also be a setting or a length, so its values have to rise.
"""

from __future__ import annotations

from typing import Final

from stabdiag.model.roles.names import name_words
from stabdiag.model.text import word_list

_UNITS: Final = {
    form: unit
    for unit, forms in (
        ("epoch", "epoch epochs"),
        ("episode", "episode episodes"),
        ("round", "round rounds"),
        ("generation", "generation generations gen gens"),
        ("game", "game games"),
        ("step", "step steps timestep timesteps"),
        ("iteration", "iteration iterations iter iters"),
        ("update", "update updates"),
        ("batch", "batch batches minibatch minibatches"),
    )
    for form in forms.split()
}
BATCH: Final = "batch"
STEP_UNITS: Final = frozenset({"step", "iteration", "update", BATCH})

# Words around the unit.
_COUNT_WORDS: Final = frozenset(
    word_list(
        "number num no nr nb n count counter id idx index of the current total elapsed completed "
        "done so far train training trained global optimizer env environment"
    )
)
# Names of any count.
_PLAIN_COUNTERS: Final = frozenset(word_list("index idx i n k t x"))


def counter_unit(name: str) -> str:
    """Return the unit that a column may count: "epoch", "episode", "step" …, or ""."""
    words = name_words(name)
    # A time step, as against the time of a step.
    words = words[1:] if words[:1] == ("time",) and len(words) > 1 else words
    units = [_UNITS.get(word, "") for word in words if word not in _COUNT_WORDS]
    return units[0] if len(units) == 1 else ""


def counts_games(name: str) -> bool:
    """Return True if a column may count the episodes or games of a policy."""
    return counter_unit(name) in ("episode", "game")


def is_plain_counter(name: str) -> bool:
    """Return True if a name may be of any count: ``i``, ``idx``, ``x``."""
    return "".join(name_words(name)) in _PLAIN_COUNTERS
