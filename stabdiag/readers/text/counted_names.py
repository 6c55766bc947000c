"""Names that end with a count: loss_0: 2.31, train_loss_e3 = 2.31, Loss 12: 2.31.

The names tell the step, so that each line has another one. The replacements put the step in front.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import chain, pairwise
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import name_words
from stabdiag.model.text import word_list
from stabdiag.readers.text.counters import EPOCH, STEP
from stabdiag.readers.text.grammar import NUMBER_PATTERN, Normalization

# This many lines at the head are searched, and a name has the fewest of them: a model may have
# several numbered losses.
_NAMED_LINES: Final = 300
_MIN_NAMED_LINES: Final = 6

_VALUE_OF_COUNT: Final = rb"[\"')\]]?(?: ?[:=] ?|[ \t]{1,8})(?=%b[ \t\r]{0,8}$)" % NUMBER_PATTERN
_COUNTED_NAME: Final = lazy_pattern(
    rb"((?:[A-Za-z][A-Za-z_-]{0,20}[ _-]){0,3}?[A-Za-z]{0,12}?(?:oss|OSS|ost|acc|Acc|ccuracy))"
    rb"([ _-]?(?:(?:e|ep|epochs?)|it|iter|iteration|step|[sin])?[ _-]?)(\d{1,9})" + _VALUE_OF_COUNT
)
_COUNTS_EPOCHS: Final = lazy_pattern(rb"[ _-]?ep?(?:ochs?)?[ _-]?")
_EPOCH_FIRST: Final = lazy_pattern(rb"(?i)^epochs?[ _-]")

# Words for the parts of a model or of an experiment, which are numbered as well.
_NUMBERED_PARTS: Final = frozenset(
    word_list(
        "layer head level scale class cls task fold aux weight stage block branch output out "
        "expert seed worker gpu rank client top k best model split group part"
    )
)


def find_counted_names(data: bytes) -> tuple[Normalization, ...]:
    """Return the replacements for names that end with a count if most lines have one."""
    lines = [*filter(None, map(bytes.strip, data.split(b"\n", _NAMED_LINES)[:_NAMED_LINES]))]
    counts: dict[tuple[bytes, bytes], list[int]] = defaultdict(list)
    for match in filter(None, map(_COUNTED_NAME.match, lines)):
        counts[match[1], match[2]].append(int(match[3]))
    if 2 * sum(map(len, counts.values())) < len(lines) or not all(map(_is_course, counts.values())):
        return ()
    words = [name_words(name.decode()) for name, _ in counts]
    # The accuracies of classes are numbered, too.
    if {"loss", "cost"}.isdisjoint(chain(*words)) or not _NUMBERED_PARTS.isdisjoint(chain(*words)):
        return ()
    return tuple(_replacement(name, between) for name, between in counts)


def _is_course(counts: list[int]) -> bool:
    """Return True if counts rise evenly, line by line."""
    strides = {after - before for before, after in pairwise(counts)}
    return len(counts) >= _MIN_NAMED_LINES and len(strides) == 1 and min(strides) > 0


def _replacement(name: bytes, between: bytes) -> Normalization:
    is_epoch = _COUNTS_EPOCHS.fullmatch(between) is not None or _EPOCH_FIRST.match(name) is not None
    return Normalization(
        (),
        rb"(?m)^([ \t]{0,8})%b(\d{1,9})%b" % (re.escape(name + between), _VALUE_OF_COUNT),
        rb"\1%b \2 %b: " % (EPOCH if is_epoch else STEP.encode(), _EPOCH_FIRST.sub(b"", name)),
    )
