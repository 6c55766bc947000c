"""The logs of YOLOv5 to YOLOv7 and Ultralytics: bars below a heading, and rows of scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.grammars.records import LARGE_BLOCK, Record, Records
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, Grammar, is_a_loss

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

# YOLOv6 and the classifiers of YOLOv5 name each number before the bar.
#
#     Epoch        lr  iou_loss  dfl_loss  cls_loss
#      0/99     0.001     1.512     1.322     2.576: 100%|██████████| 106/106 [00:17<00:00, …
# Epoch: 0 | mAP@0.5: 0.121 | mAP@0.50:0.95: 0.073
#
#     Epoch   GPU_mem  train_loss    val_loss    top1_acc    top5_acc
#       1/5     1.54G        1.63       0.978       0.669       0.934: 100%|██████████| 148/148 …
_NAMED_HEADING: Final = lazy_pattern(
    rb"Epoch {1,20}((?:\w{1,20} {1,20}){0,9}\w{1,20}_loss(?: {1,20}\w{1,20}){0,9})[ \r]{0,20}\n"
)

_NAMED_BAR: Final = lazy_pattern(
    rb"(?<![\d/])(\d{1,6})/\d{1,6} {1,20}((?:%b[KMG]? {1,20}){0,19}%b) {0,40}: {0,4}\d{1,3}%%\|"
    rb"|\nEpoch: {1,4}(\d{1,6}) \| mAP@0\.5: (%b) \| mAP@0\.50?:0\.95: (%b)"
    % ((NUMBER_PATTERN,) * 4)
)

_YOLO_NAMES: Final = {"P": "precision", "R": "recall"}


def _bars(data: bytes) -> Iterator[Record]:
    """Yield the states of the bars with the losses of their heading, and reported NaN losses.

    The scores of an epoch are a record of their own. The scores of the best weights, after the last
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


def _named_bars(data: bytes) -> Iterator[Record]:
    """Yield the states of the bars whose heading names each number, and their scores."""
    headings = [*_NAMED_HEADING.finditer(data)]
    ends = [heading.start() for heading in headings[1:]] + [len(data)] * bool(headings)
    for heading, end in zip(headings, ends, strict=True):
        names = heading[1].decode("ascii", "replace").split()
        for bar in _NAMED_BAR.finditer(data, heading.end(), end):
            if bar[1] is None:
                yield bar.start(3), {"epoch": bar[3], "mAP50": bar[4], "mAP50-95": bar[5]}
                continue
            # The numbers of the evaluation appear when it ends.
            cells = zip(names, bar[2].split(), strict=False)
            yield bar.start(), {"epoch": bar[1], **{n: v for n, v in cells if n != "GPU_mem"}}


def _has_named_bars(data: bytes) -> bool:
    return next(_named_bars(data), None) is not None


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


YOLO: Final = Grammar(
    step="epoch",
    block=LARGE_BLOCK,
    kinds=(
        Records(find_records=_bars, signature=_is_yolo),
        Records(find_records=_named_bars, signature=_has_named_bars),
    ),
    joined=True,
)
