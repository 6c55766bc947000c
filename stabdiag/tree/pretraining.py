"""Detection of runs that start from a pretrained model."""

from __future__ import annotations

import math
import re
from typing import Final

from stabdiag.model.roles.names import is_perplexity, name_words
from stabdiag.stats.course import start_level
from stabdiag.stats.standards import HALF, NEARLY_ALL, RELATIVE_TOLERANCE
from stabdiag.tree.run import Run

# A model that starts below this fraction of log K is pretrained: random weights cost log K.
_FAR_BELOW_CHANCE: Final = HALF

# Losses that are not a cross-entropy in nats have no chance level of log K.
_NOT_NATS: Final = frozenset(
    {
        *("perplexity", "ppl", "mse", "rmse", "mae", "error", "cost", "huber", "l1", "l2"),
        *("bpc", "bpb", "bpd", "bits", "focal", "triplet", "dice", "hinge", "objective", "reg"),
        *("ctc", "rnnt", "transducer", "weighted", "bbox", "box"),
    }
)

# The scores of transcriptions. Their losses are often sums over a sequence (CTC, transducer).
_TRANSCRIPTION: Final = frozenset({"wer", "cer", "uer"})

# Taggers of sequences have an F-score of spans. A CRF's loss is a sum over a sentence.
_OF_SPANS: Final = re.compile(r"(?:^|[ _/])f-?score$|span_f1|(?:^|[ _/])fb1$", re.IGNORECASE)


# The numbers of classes of the usual data sets. Two classes are left out: preference and
# discriminator losses settle at log 2.
USUAL_CLASSES = (10, 100, 1000)


def has_chance_level(run: Run) -> bool:
    """Return True if guessing among K classes would cost log K of this loss.

    False for a perplexity, a squared error or the loss of a policy, by the name of the column or of
    the loss function in the settings, and for a sum of several terms.
    """
    column = run.loss.column
    words = run.loss_function_words.union(name_words(column))
    is_plain = _NOT_NATS.isdisjoint(words) and run.loss_kind is None
    return is_plain and not is_perplexity(column) and "+" not in column and not _is_sum(run)


def _is_sum(run: Run) -> bool:
    """Return True if the first loss is the sum of other losses, or one of these has a weight.

    A sum with one large term is nearly the loss of this term.
    """
    others = [*run.history.group("other_loss").values()]
    if not len(run.loss) or not others:
        return False
    if any("weighted" in name_words(series.column) for series in others):
        return True
    first, step = float(run.loss.values[0]), run.loss.steps[0]
    terms = [float(series.values[0]) for series in others if series.steps[:1] == step]
    is_total = len(terms) > 1 and abs(sum(terms) - first) <= RELATIVE_TOLERANCE * abs(first)
    return is_total and max(terms) < NEARLY_ALL * first


def may_sum_sequences(run: Run) -> bool:
    """Return True if a score of transcriptions or of spans was logged, or a CTC loss.

    The loss may be a sum over each sequence then.
    """
    logged = run.history.series.values()
    if any("ctc" in name_words(series.column) for series in logged):
        return True
    columns = [series.column for series in run.history.group("score").values()]
    return any(
        not _TRANSCRIPTION.isdisjoint(name_words(column)) or _OF_SPANS.search(column) is not None
        for column in columns
    )


def chance_loss(run: Run) -> float | None:
    """Return log K, the loss of guessing among the classes of the manifest, in nats.

    None if K is unknown or the loss has no chance level.
    """
    classes = run.manifest.vocab_size or 0
    return math.log(classes) if classes > 1 and has_chance_level(run) else None


def starts_pretrained(run: Run) -> bool | None:
    """Return True if a run starts from a pretrained model; None if that is unknown.

    The settings decide; without them, a first loss far below log K does.
    """
    configured = run.names_pretrained_model
    chance = chance_loss(run)
    if configured is not None or chance is None or not len(run.loss):
        return configured
    # In a log with few records, a model may have learned a lot by the second one.
    x = run.loss.values
    return max(float(x[0]), start_level(x)) < _FAR_BELOW_CHANCE * chance
