"""Describe the values of a text that is not a training log, for the message that refuses it."""

from __future__ import annotations

from collections import Counter
from typing import Final

from stabdiag.readers.text.evidence.sample import loss_names
from stabdiag.readers.text.lines.clean import cleaned
from stabdiag.readers.text.lines.counters import is_word, line_counters
from stabdiag.readers.text.lines.spans import SpanFinder
from stabdiag.readers.text.lines.tokens import has_number
from stabdiag.readers.text.names.score_records import find_word_of_results

# Values are searched for in this many bytes, and those without a loss on this many lines.
_DESCRIBED_BYTES: Final = 1 << 20
_DESCRIBED_LINES: Final = 2000
_LONGEST_DESCRIBED: Final = 2000

# The message names the first few values that recur at least this often.
_FEWEST_REPEATS: Final = 3
_MOST_SHOWN: Final = 3


def describe_values(data: bytes, export: str) -> str:
    """Describe the values that a text has and the ones it lacks; ``export`` says what to do."""
    counts, finder = Counter[str](), SpanFinder()
    head = cleaned(data)[:_DESCRIBED_BYTES]
    repeats = Counter(head.split(b"\n"))
    for number, line in enumerate(filter(has_number, repeats)):
        # Only the lines of a loss are counted.
        is_counted = number < _DESCRIBED_LINES or b"oss" in line.lower()
        if len(line) <= _LONGEST_DESCRIBED and is_counted:
            counts.update(dict.fromkeys(finder.find(line), repeats[line]))
    loss = next(iter(loss_names(counts)), None)
    if loss is not None and counts[loss] == 1:
        line = next((line for line in repeats if loss in finder.find(line)), b"")
        without = "" if any(map(is_word, line_counters(line))) else ", without a step"
        return f"{loss!r} is on one line only{without}; pass more of the log, or {export}"
    if loss is not None:
        return (
            f"{loss!r} is on {counts[loss]} lines, but without a rising step or epoch; print one"
            f" on the same line, or {export}"
        )
    word = find_word_of_results(head).decode("utf-8", "replace")
    if word and word != "number":
        return (
            f"each score belongs to another {word!r}: these are results, not the course of a"
            " training; pass the log of one training, with its steps or epochs"
        )
    repeated = [repr(name) for name, count in counts.most_common() if count >= _FEWEST_REPEATS]
    if repeated:
        shown = ", ".join(repeated[:_MOST_SHOWN])
        return f"it repeats {shown}, but no loss; print the loss, or {export}"
    return f"a text without a training loss; pass the log of a run, or {export}"
