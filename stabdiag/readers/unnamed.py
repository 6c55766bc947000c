"""Numbers without a name: taken as losses unless the file name suggests another measure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Final

from stabdiag.model.events import Event, EventKind
from stabdiag.model.roles.choice import assign
from stabdiag.model.roles.names import is_a_reward, is_evaluation, is_fitness, name_words, normal
from stabdiag.model.roles.scores import score_direction
from stabdiag.model.text import word_list
from stabdiag.readers.source import STANDARD_INPUT
from stabdiag.readers.unwrapping.compressed import COMPRESSED_SUFFIXES

# The reason to refuse a table of numbers with blanks between them.
ROWS_WITHOUT_NAMES: Final = (
    "rows of numbers without names; add a first line of names, such as: step loss lr"
)

# The reason to refuse a table of numbers and words with other delimiters.
CSV_WITHOUT_NAMES: Final = (
    "CSV without a header; add a first line that names the columns, such as step,loss"
)

# The reason to refuse a few long rows of numbers.
ROWS_RUN_ACROSS: Final = (
    "rows of many numbers without names: the series seem to run across; write the name of each,"
    " such as loss or val_loss, in front of its numbers"
)

# The fewest numbers that make a series.
FEWEST: Final = 3

# A loss of unknown name has at least this many values, and the median of its last third is at most
# this fraction of the median of its first third: it falls further than the time of an epoch does.
_MIN_COURSE: Final = 5
_MAX_FALL: Final = 0.9

# A column that ends above any share, and below most percentages, is not an accuracy.
_NO_ACCURACY: Final = (1.0, 20.0)
# A loss that ends at this many times its beginning rises. One that begins at the level of another,
# within this factor, and ends at as many times its lowest third may be of an evaluation.
_RISE_OF_LOSS: Final = 1.25
_SAME_LEVEL: Final = 2.0
# The fewest numbers of a course, and the greatest sum of the squares of their changes relative to
# the same sum of their deviations. It is about 2 for independent numbers. One in 50 series of ten
# is below 0.8.
MIN_SMOOTH: Final = 10
_MAX_ROUGHNESS: Final = 0.8

# The largest score, in percent.
LARGEST_SCORE: Final = 100

# Integers from this value on are times: seconds since 1970, or milliseconds.
A_TIME: Final = 1e9

# Names of files with losses, or of logs with only losses. The content of other files is unknown.
_LOSS_FILE_WORDS: Final = (
    r"loss|train|log(?:_|$|s)|hist|curve|metric|nll|cost|error|run(?:_|$|s)|trace"
)

# Files that a program wrote as it ran, by their suffix or by a name that says nothing else.
_OUTPUT_SUFFIXES: Final = frozenset({".log", ".out"})
_OUTPUT_NAME: Final = (
    r"(?:.*_)?(?:outputs?|out|std(?:out|err)|nohup|slurm|console|terminal|screen|pasted?|progress"
    r"|convergence)(?:_.*)?|[\d_]+"
)

# Files of the state of a machine.
_OF_A_MACHINE: Final = (
    r"(?:^|_)(?:[cg]pus?|nvidia|smi|mem|memory|ram|disk|temps?|temperatures?|power|watts?|fps"
    r"|speeds?|throughput|latenc(?:y|ies)|durations?|usage|util(?:ization)?|sensors?)\d*(?:_|$)"
)

# Names of files with other measures than losses.
_MEASURE: Final = (
    r"(?:^|_)(?:acc|accs|accurac(?:y|ies)|rewards?|returns?|scores?|f1|auc|iou|dice|psnr|ssim|bleu"
    r"|ppl|perplexit(?:y|ies)|lrs?|learning_rates?|grads?|gradients?|norms?|weights?|times?|fid"
    r"|entropy|precision|recall)(?:_|$)"
)
# Words of scores that a file may be named after, next to its model or data.
_WORDS_OF_SCORES: Final = frozenset(
    word_list("accuracy accuracies acc accs auc f1 dice iou miou psnr ssim bleu winrate")
)
# Next to these words, the numbers are not a course of a score.
_OTHER_THAN_SCORES: Final = frozenset(
    word_list("loss time times lr best matrix table class classes per confusion report grad")
)
# The beginning of the name of a file that TensorBoard exports.
_RUN_OF_TAG: Final = r"^.{0,80}[-_]tag[-_](?=.)"
# Names of files with losses only.
_FILE_OF_LOSSES: Final = frozenset(
    word_list("cost costs error errors err nll mse rmse mae objective")
)
_FILE_OF_HISTORY: Final = frozenset({"history", "hist"})
_FILE_OF_REWARDS: Final = frozenset({"reward", "rewards", "return", "returns", "rew", "rews"})
# Words of other measures of a policy, which fall and rise.
_WORDS_OF_POLICIES: Final = frozenset(
    word_list("len length lengths fps kl eps epsilon epsilons variance fraction steps q value")
)


def name_of_values(source: str) -> str:
    """Return a name for the numbers of a file, from the file name if it is meaningful."""
    if source == STANDARD_INPUT:
        return "loss"
    stem = _stem(source)
    return _measure(stem) or ("loss" if re.search(_LOSS_FILE_WORDS, normal(stem)) else stem)


def measure_of_file(source: str) -> str:
    """Return the measure in the name of a file, which may be a tag of TensorBoard, or ""."""
    stem = _stem(source)
    return _measure(stem) or (stem if stem != _without_compression(source).stem else "")


def _measure(stem: str) -> str:
    """Return the name of the measure that a file is named after, or ""."""
    if assign([stem]).columns or is_fitness(stem):
        return stem
    stem = _score_of_model(stem) or stem
    # dqn_rewards.txt, returns_seed1.txt, mean_scores.txt
    words = {*name_words(stem)}
    are_rewards = words & _FILE_OF_REWARDS or is_a_reward(stem, of_episodes=True)
    if score_direction(stem) is None and are_rewards:
        return "reward"
    if re.search(_MEASURE, normal(stem)) or ("loss" not in words and words & _WORDS_OF_POLICIES):
        return stem
    return f"{stem}_loss" if is_evaluation(stem) else ""


def _score_of_model(stem: str) -> str:
    """Return the name of a score without the name of its model or data, if one names a file.

    resnet_test_acc is test_acc, and accuracy_fedavg accuracy.
    """
    words = list(name_words(stem))
    if score_direction(stem) is not None or not _OTHER_THAN_SCORES.isdisjoint(words):
        return ""
    parts = ["_".join(words[at:]) for at in range(1, len(words))]
    parts += ["_".join(words[:-at]) for at in range(1, len(words))]
    named = (part for part in parts if not _WORDS_OF_SCORES.isdisjoint(name_words(part)))
    scores = (n for n in named if assign([n]).columns or score_direction(n) is not None)
    return max(scores, key=len, default="")


def _stem(source: str) -> str:
    """Return the name of a file without its suffix and without the run: run-a-tag-val_loss.csv."""
    return re.sub(_RUN_OF_TAG, "", _without_compression(source).stem)


def name_of_course(source: str, numbers: Sequence[float]) -> str:
    """Return a name for the only numbers of a file; "loss" if those of an output fall like a loss.

    Numbers that rise like scores keep the name of the file.
    """
    is_output = may_have_losses(source) and not is_of_losses(source)
    is_loss = is_output and find_loss([numbers]) is not None
    return "loss" if is_loss else name_of_values(source)


def is_named_loss(source: str) -> bool:
    """Return True if a file is named after a loss, a cost or an error."""
    path = PurePath(source)
    return "loss" in normal(path.name) or not _FILE_OF_LOSSES.isdisjoint(name_words(path.stem))


def is_named_history(source: str) -> bool:
    """Return True if a file is named after the history of a training, which may have losses."""
    words = name_words(_without_compression(source).stem)
    return not _FILE_OF_HISTORY.isdisjoint(words) and is_of_losses(source)


def is_named_score(source: str) -> bool:
    """Return True if a file is named after a reward or a score, which may be whole numbers."""
    name = name_of_values(source)
    is_score = is_fitness(name) or score_direction(name) is not None
    return is_score or assign([name]).has("reward", "accuracy", "eval_accuracy")


def is_of_losses(source: str) -> bool:
    """Return True if the numbers of a file may be losses, by its name."""
    return assign([name_of_values(source)]).has("loss", "eval_loss")


def may_have_losses(source: str) -> bool:
    """Return True if a file may have a loss among its numbers: it is of losses, or any output."""
    if is_of_losses(source):
        return True
    path = _without_compression(source)
    stem = normal(path.stem)
    is_output = path.suffix in _OUTPUT_SUFFIXES or re.fullmatch(_OUTPUT_NAME, stem) is not None
    is_other = re.search(_MEASURE, stem) is not None or is_of_a_machine(stem)
    return is_output and not (is_other or assign([name_of_values(source)]).columns)


def is_of_a_machine(name: str) -> bool:
    """Return True if a name is of the state of a machine, or of a time."""
    return re.search(_OF_A_MACHINE, normal(name)) is not None


def _without_compression(source: str) -> PurePath:
    path = PurePath(source)
    return path.with_suffix("") if path.suffix in COMPRESSED_SUFFIXES else path


def may_be_losses(numbers: Sequence[float]) -> bool:
    """Return True if numbers could be losses. Labels and counts are integers."""
    return not all(map(float.is_integer, numbers))


def find_loss(columns: Sequence[Sequence[float]]) -> int | None:
    """Return the position of the column that changes like a loss, or None.

    Scores, times that hardly change, and learning rates or epsilons of a policy are skipped: the
    latter are at most 1 and never rise in between. In a run that diverges, a score falls.
    """
    at = next((at for at, column in enumerate(columns) if not _is_other_measure(column)), None)
    if at is None or not (_ends_lost(columns[at]) or _change(columns[at]) < _MAX_FALL):
        return None
    return at


def is_rate(column: Sequence[float]) -> bool:
    """Return True if numbers may be learning rates, or epsilons of a policy: they never rise."""
    return column[0] <= 1 and _only_falls(column)


def _is_other_measure(column: Sequence[float]) -> bool:
    """Return True if numbers may be scores, a rate, a time, or counts."""
    if _ends_lost(column):
        return False
    usual = sorted(column)[len(column) // 10 : -(-9 * len(column) // 10)]
    is_flat = 0 < usual[-1] * _MAX_FALL**2 <= usual[0]
    return is_rate(column) or is_flat or not may_be_losses(column) or may_be_scores(column)


def may_overfit(loss: Sequence[float], others: Sequence[Sequence[float]]) -> bool:
    """Return True if one of the other columns may be a loss that rises, while the first does not.

    It may be the loss of an evaluation. A first column that ends with NaN is the loss. If the first
    column never falls and another one never rises, the other one is the loss.
    """
    if len(loss) >= MIN_SMOOTH and _only_falls(loss[::-1]) and not _ends_lost(loss):
        return any(_only_falls(other) and not is_rate(other) for other in others)
    return not (_rises(loss) or _ends_lost(loss)) and any(
        _rises(other) or _turns(other, loss) for other in others
    )


def _rises(numbers: Sequence[float]) -> bool:
    """Return True for rising values that are not counts, fractions or percentages."""
    first, _, last = _thirds(numbers)
    lowest, highest = _NO_ACCURACY
    return may_be_losses(numbers) and 0 < _RISE_OF_LOSS * first <= last and lowest < last < highest


def _turns(numbers: Sequence[float], loss: Sequence[float]) -> bool:
    """Return True for values that begin at the level of a loss, fall, and rise again."""
    first, second, last = _thirds(numbers)
    return _begins_at_level(numbers, loss) and 0 < _RISE_OF_LOSS * second <= last and second < first


def may_be_evaluated(numbers: Sequence[float], loss: Sequence[float]) -> bool:
    """Return True if numbers may be the evaluations of a loss: they begin near it, and fall.

    They may rise later, as the model overfits. A score rises from the start.
    """
    first_third = sorted(numbers[: max(len(numbers) // 3, 1)])
    falls = first_third[len(first_third) // 2] < _MAX_FALL * numbers[0]
    return _begins_at_level(numbers, loss) and (falls or not may_be_scores(numbers))


def _begins_at_level(numbers: Sequence[float], loss: Sequence[float]) -> bool:
    """Return True if some numbers begin at about the same value as a loss."""
    begin, loss_begin = numbers[0], loss[0]
    return 0 < begin <= _SAME_LEVEL * loss_begin and loss_begin <= _SAME_LEVEL * begin


def _thirds(numbers: Sequence[float]) -> tuple[float, float, float]:
    """Return the means of the three thirds of some numbers, or zeros for too few numbers."""
    third = len(numbers) // 3
    if not third:
        return (0.0, 0.0, 0.0)
    parts = (numbers[:third], numbers[third:-third], numbers[-third:])
    first, second, last = (sum(part) / len(part) for part in parts)
    return (first, second, last)


def may_be_scores(numbers: Sequence[float]) -> bool:
    """Return True if numbers may be scores, which rise from the start and are at most 100."""
    third = max(len(numbers) // 3, 1)
    rise = sum(numbers[-third:]) > sum(numbers[:third]) and min(numbers) in numbers[:third]
    return rise and max(numbers) <= LARGEST_SCORE


def is_course(numbers: Sequence[float]) -> bool:
    """Return True if numbers are near those next to them, unlike results of classes or models.

    The ratio is von Neumann's (1941).
    """
    finite = [number for number in numbers if math.isfinite(number)]
    mean = sum(finite) / max(len(finite), 1)
    # A product of floats overflows to infinity, where a power raises.
    spread = sum((number - mean) * (number - mean) for number in finite)
    steps = sum((after - before) * (after - before) for before, after in pairwise(finite))
    return len(finite) >= MIN_SMOOTH and steps < _MAX_ROUGHNESS * spread


def _change(column: Sequence[float]) -> float:
    """Return the last level of positive numbers relative to the first, or infinity."""
    third = max(len(column) // 3, 1)
    finite = [number for number in column if math.isfinite(number)]
    if len(finite) < _MIN_COURSE or min(finite) < 0:
        return math.inf
    # Imported here, as all text logs import this module to be detected.
    from statistics import median

    first, last = median(finite[:third]), median(finite[-third:])
    # In noise, some of the first values are below the last ones.
    is_noise = last >= sorted(finite[:third])[third // 4]
    return math.inf if is_noise or not first else last / first


def _only_falls(column: Sequence[float]) -> bool:
    return all(before >= after for before, after in pairwise(column))


def _ends_lost(column: Sequence[float]) -> bool:
    """Return True if decimal numbers end with a value that is not finite."""
    finite = [number for number in column if math.isfinite(number)]
    is_lost = bool(finite) and math.isfinite(column[0]) and not math.isfinite(column[-1])
    return is_lost and may_be_losses(finite)


def may_be_steps(numbers: Sequence[float]) -> bool:
    """Return True if numbers could be steps: rising integers that are not times.

    A run that was started again in the same file begins again at the first of them.
    """
    falls = [after for before, after in pairwise(numbers) if before >= after]
    restarts = all(after == numbers[0] for after in falls)
    is_rising = restarts and FEWEST * (len(falls) + 1) <= max(len(numbers), FEWEST)
    return is_rising and all(map(float.is_integer, numbers)) and abs(numbers[-1]) < A_TIME


def may_be_epochs(numbers: Sequence[float]) -> bool:
    """Return True if numbers may be epochs of records: integers that never fall."""
    is_whole = all(number.is_integer() and 0 <= number < A_TIME for number in numbers)
    return is_whole and all(before <= after for before, after in pairwise(numbers))


def may_be_counted(columns: Sequence[Sequence[float]]) -> bool:
    """Return True if two columns may be an epoch, and a step that begins again in each of them."""
    if len(columns) != 2 or not may_be_epochs(columns[0]):
        return False
    is_whole = all(map(float.is_integer, columns[1]))
    return is_whole and all(a < b for a, b in pairwise(zip(*columns, strict=True)))


def naming_event(description: str, name: str) -> Event:
    """Return an event about the name given to numbers without one."""
    label = "as the loss" if name == "loss" else f"as {name!r}, after the name of the file"
    return Event(kind=EventKind.COLUMN, message=f"{description} {label}")
