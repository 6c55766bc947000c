"""Records on several lines: tables, values below a heading, marked JSON.

Blocks are large, as a record on the border of two blocks would lose lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from stabdiag.model.frozen import frozen
from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.clean import find_positions, line_end
from stabdiag.readers.text.grammar import (
    NUMBER_PATTERN,
    Grammar,
    Kind,
    TextPart,
    is_a_loss,
    make_parts,
)

Record: TypeAlias = tuple[int, Mapping[str, bytes]]

LARGE_BLOCK: Final = 1 << 24


@frozen
class Records(Kind):
    """Records that a function finds, with their positions and cells."""

    find_records: Callable[[bytes], Iterable[Record]]
    signature: Callable[[bytes], object]

    def search(self, data: bytes) -> bool:
        """Return True if the data has a record of this kind."""
        return bool(self.signature(data))

    def find(self, data: bytes) -> list[TextPart]:
        """Return all records. Records with the same names make one part."""
        return make_parts(self.find_records(data))


# Stable-Baselines, OpenAI's baselines, Spinning Up: tables of two columns between dashes. Names
# below a section get its prefix: rollout/ep_rew_mean.
#
# ---------------------------------
# | rollout/           |          |
# |    ep_rew_mean     | 21.3     |
# ---------------------------------
_DASHES: Final = b"-" * 8
_BOX_RULE: Final = lazy_pattern(
    rb"\n(?:[^\n|]{0,60}[ :])?\+?-{8,200}(?:\+-{3,200}\+)?[ \t]{0,8}(?=\n|$)"
)
# A name has no value of its own: Epoch 3 | train loss: 2.31 | val loss: 2.40 | lr: 0.1
_BOX_ROW: Final = lazy_pattern(
    rb"\n[^\n|]{0,60}\|(?![^\n|]{0,90}[:=] {0,4}[-+]?\d)([^\n|]{1,100})\|([^\n|]{0,100})\|(?=\s|$)"
)

# Names in a table of training values, as opposed to settings.
_TRAINING_VALUES: Final = lazy_pattern(r"loss|rew|epret|timesteps|n_?updates", re.IGNORECASE)


# Names of which several show that a table without rules, as in a paste, is one of these.
_POLICY_NAMES: Final = lazy_pattern(
    rb"\|[ \t]{0,20}(?:\w{1,20}/[ \t]{0,4})?(?:n_?updates|total_?timesteps|ep_?rew_?mean"
    rb"|policy_loss|policy_gradient_loss|value_loss|explained_variance|approx_?kl|AverageEpRet)"
    rb"[ \t]{0,40}\|"
)
_MIN_POLICY_NAMES: Final = 3
_MAX_LONE_TABLE: Final = 1 << 14


def _tables(data: bytes) -> Iterator[Record]:
    """Yield the position and cells of each table with a rule above or below it.

    A paste of one table may lack its rules.
    """
    # Most logs have no rule, and the search for a fixed text is much faster.
    rules = [match.span() for match in _BOX_RULE.finditer(data)] if _DASHES in data else []
    if not rules and not _is_lone_table(data):
        return
    begins = [0, *(end for _, end in rules)]
    ends = [*(begin for begin, _ in rules), len(data)]
    for begin, end in zip(begins, ends, strict=True):
        table: dict[str, bytes] = {}
        section, place = "", begin
        rows = [*_BOX_ROW.finditer(data, begin, end)]
        names = [row[1].decode("utf-8", "replace") for row in rows]
        # Spinning Up aligns names on the right: they are not indented.
        at_right = len({*map(len, names)}) == 1 and not any(name.endswith("  ") for name in names)
        for row, name in zip(rows, names, strict=True):
            value = row[2].strip()
            if name.strip().endswith("/") and not value:
                section = name.strip()
            # An indented row without a section above it belongs to a table that was cut off.
            elif section or at_right or not name.startswith("  "):
                place = place if table else row.start(1)
                table.setdefault(f"{section}{name.strip()}", value)
        if table:
            yield place, table


def _is_lone_table(data: bytes) -> bool:
    if b"|" not in data or len(data) > _MAX_LONE_TABLE:
        return False
    names = [*map(bytes.strip, _POLICY_NAMES.findall(data))]
    return len(names) >= _MIN_POLICY_NAMES and len({*names}) == len(names)


def _has_training_table(data: bytes) -> bool:
    tables = (table for _, table in _tables(data))
    return any(len(table) > 1 and any(map(_TRAINING_VALUES.search, table)) for table in tables)


# Coqui: --> STEP: 25/377 -- GLOBAL_STEP: 25 over lines such as | > loss: 2.5 (2.6). The
# first number belongs to the step, the second is the mean of the epoch so far. The steps of an
# evaluation have the same lines, but no global step: only their means are read.
_GLOBAL_STEP: Final = "global_step"
_ABOVE: Final = lazy_pattern(rb"-- GLOBAL_STEP: (\d{1,12})(?=\s)|--> EVAL PERFORMANCE")

# The most characters of a line that are searched, and the most lines of a record.
_MAX_RECORD_LINE: Final = 400
_MAX_RECORD_LINES: Final = 400

# grad_norm: tensor(10.7261, device='cuda:0'); a collector of logs may have added a time before it.
_COQUI_VALUE: Final = lazy_pattern(
    rb"[^\n|]{0,80}\| > (?:([\w./ -]{1,80}): {0,4}(?:tensor\()?(%b)(?=[\s,()]|$))?" % NUMBER_PATTERN
)


def _steps(data: bytes) -> Iterator[Record]:
    """Yield the values below each global step, and the means below each evaluation."""
    for match in _ABOVE.finditer(data):
        values = _lower_lines(data, match.end())
        if match[1] is None:
            values = {f"eval_{name.removeprefix('avg_')}": value for name, value in values.items()}
        elif values:
            values[_GLOBAL_STEP] = match[1]
        if values:
            yield match.start(), values


def _lower_lines(data: bytes, place: int) -> dict[str, bytes]:
    """Return the names and values on the consecutive lines below a position."""
    values: dict[str, bytes] = {}
    for _ in range(_MAX_RECORD_LINES):
        place = data.find(b"\n", place) + 1
        pair = _COQUI_VALUE.match(data, place, place + _MAX_RECORD_LINE) if place else None
        if pair is None:
            break
        if pair[1] is not None:
            values[pair[1].decode("utf-8", "replace").strip()] = pair[2]
    return values


# MLPerf: :::MLLOG {"key": "eval_accuracy", "value": 0.37, "metadata": {"epoch_num": 1}}
_MARK: Final = b":::MLLOG {"
_LONGEST_EVENT: Final = 20_000

# The names of the step or epoch in benchmarks, in the order of preference.
_STEP_KEYS: Final = ("step", "step_num", "iteration", "samples_count", "epoch_num", "epoch_count")

_MEASURED_KEYS: Final = lazy_pattern(
    "loss|eval|throughput|accuracy|error|tracked_stats|learning_rate"
)


def _events(data: bytes) -> Iterator[Record]:
    """Yield the marked lines with a measurement and its step or epoch."""
    for place in find_positions(data, _MARK):
        event = _event(data[place + len(_MARK) - 1 : line_end(data, place, _LONGEST_EVENT)])
        if event:
            yield place, event


def _event(line: bytes) -> dict[str, bytes] | None:
    try:
        event = json.loads(line.decode("utf-8", "surrogatepass"))
        key, value, metadata = event["key"], event["value"], event["metadata"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    if not (isinstance(metadata, dict) and isinstance(key, str) and _MEASURED_KEYS.search(key)):
        return None
    clocks = map(metadata.get, _STEP_KEYS)
    clock = next((value for value in clocks if type(value) in (int, float)), None)
    if clock is None:
        return None
    values = value if isinstance(value, dict) else {key: value}
    numbers = {name: value for name, value in values.items() if type(value) in (int, float)}
    if not numbers:
        return None
    return {name: b"%a" % value for name, value in {"step": clock, **numbers}.items()}


# YOLOv5, YOLOv7 and Ultralytics: a heading over a bar that is redrawn repeatedly. It shows the
# means of the epoch so far: its last state has the means of the whole epoch. The scores of the
# evaluation follow, under a heading of their own.
#
#     Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size
#     22/55      9.02G     0.1157      5.355      2.998         17        640: 100%|██████████| …
#                Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|██ …
#                  all       1049       1164      0.764      0.776      0.739      0.526
_BAR_HEADING: Final = lazy_pattern(
    rb"Epoch {1,20}(?:GPU|gpu)_mem {1,20}([\w ]{1,200}?) {1,20}(?:Instances|[Ll]abels|targets)"
    rb" {1,20}(?:Size|img_size)"
)
_YOLO_BAR: Final = lazy_pattern(
    rb"(?<![\d/])(\d{1,6})/\d{1,6} {1,20}[\d.]{1,8}[KMG]? {1,20}((?:%b {1,20}){1,20})"
    rb"\d{1,9} {1,20}\d{1,6}:"
    # The message about a NaN loss. The bar still shows the means before it.
    rb"|WARNING: non-finite loss, ending training" % NUMBER_PATTERN
)
# A row of a paste without its heading. The order of the other losses depends on the version.
_YOLO_ROW: Final = lazy_pattern(
    rb"\n {0,8}\d{1,6}/\d{1,6} {1,20}[\d.]{1,8}[KMG] {1,20}(?:%b {1,20}){3}\d{1,9} {1,20}\d{2,5}:"
    rb" {1,4}\d{1,3}%%\|" % NUMBER_PATTERN
)
# A row of results.txt of YOLOv5 and YOLOv7.
_YOLO_RESULT: Final = lazy_pattern(
    rb"\n {1,8}(\d{1,6})/\d{1,6} {1,20}[\d.]{1,8}[KMG]((?: {1,20}%b){13})[ \t\r]{0,20}(?=\n|$)"
    % NUMBER_PATTERN
)
_YOLO_RESULT_NAMES: Final = (
    *("box_loss", "obj_loss", "cls_loss", "total_loss", "labels", "img_size"),
    *("precision", "recall", "mAP50", "mAP50-95", "val_box_loss", "val_obj_loss", "val_cls_loss"),
)
_YOLO_ROW_NAMES: Final = ("box_loss", "second_loss", "third_loss")


_YOLO_SCORES: Final = lazy_pattern(
    rb"\n {1,40}Class {1,20}Images {1,20}(?:[Ll]abels|[Ii]nstances|[Tt]argets) {1,20}"
    rb"([^\n:][^\n]{1,200}?)\)?:(?: [^\n]{0,400})?"
    rb"\n {1,40}all {1,20}\d{1,9} {1,20}\d{1,9} {1,20}"
    rb"(%b(?:[ \t]{1,20}%b){0,19})[ \t]{0,20}(?=\n|$)" % (NUMBER_PATTERN, NUMBER_PATTERN)
)
_YOLO_NAMES: Final = {"P": "precision", "R": "recall"}


def _bars(data: bytes) -> Iterator[Record]:
    """Yield the states of the bars with the losses of their heading, and reported NaN losses.

    The scores of an epoch are a record of their own. Those of the best weights, after the last
    epoch, are left out.
    """
    headings = [*_BAR_HEADING.finditer(data)]
    if not headings:
        yield from _rows_without_heading(data)
        for row in _YOLO_RESULT.finditer(data):
            cells = dict(zip(_YOLO_RESULT_NAMES, row[2].split(), strict=True))
            yield row.start(1), {"epoch": row[1], **cells}
    ends = [heading.start() for heading in headings[1:]] + [len(data)] * bool(headings)
    begin = 0
    for heading, end in zip(headings, ends, strict=True):
        words = heading[1].decode("ascii", "replace").split()
        names = [word if is_a_loss(word) else f"{word}_loss" for word in words]
        epoch, last = b"0", -1
        for bar in _YOLO_BAR.finditer(data, begin, end):
            epoch, last = bar[1] or b"%d" % (int(epoch) + 1), bar.end()
            losses = bar[2].split() if bar[2] else [b"nan"] * len(names)
            if len(losses) == len(names):
                yield bar.start(), {"epoch": epoch, **dict(zip(names, losses, strict=True))}
        scores = _YOLO_SCORES.search(data, last, end) if last >= 0 else None
        if scores is not None:
            yield scores.start(2), {"epoch": epoch, **_scores(scores[1], scores[2])}
        begin = end


def _rows_without_heading(data: bytes) -> Iterator[Record]:
    """Yield the states of the bars in a paste that begins below its heading."""
    if _YOLO_ROW.search(data) is None:
        return
    for bar in _YOLO_BAR.finditer(data):
        losses = bar[2].split() if bar[2] else []
        if len(losses) == len(_YOLO_ROW_NAMES):
            yield bar.start(), {"epoch": bar[1], **dict(zip(_YOLO_ROW_NAMES, losses, strict=True))}


def _is_yolo(data: bytes) -> bool:
    return any(row.search(data) for row in (_BAR_HEADING, _YOLO_ROW, _YOLO_RESULT))


def _scores(heading: bytes, values: bytes) -> dict[str, bytes]:
    """Return the scores of a row by name: Box(P R mAP50 mAP50-95) Mask(P R mAP50 mAP50-95)."""
    cells, part = {}, ""
    for word, value in zip(
        heading.decode("ascii", "replace").split(), values.split(), strict=False
    ):
        opened, _, own = word.rpartition("(")
        part = opened.lower() if opened else part
        name = _YOLO_NAMES.get(own.rstrip(")"), own.rstrip(")"))
        cells[name if part in ("", "box") else f"{part} {name}"] = value
    return cells


BASELINES: Final = Grammar(
    step="step",
    block=LARGE_BLOCK,
    kinds=(Records(find_records=_tables, signature=_has_training_table, begins=True),),
    joined=True,
)
COQUI: Final = Grammar(
    step=_GLOBAL_STEP,
    block=LARGE_BLOCK,
    kinds=(Records(find_records=_steps, signature=lambda data: b"-- GLOBAL_STEP: " in data),),
)
MLLOG: Final = Grammar(
    step="step",
    kinds=(Records(find_records=_events, signature=lambda data: _MARK in data),),
    joined=True,
)
YOLO: Final = Grammar(
    step="epoch",
    block=LARGE_BLOCK,
    kinds=(Records(find_records=_bars, signature=_is_yolo),),
    joined=True,
)
