"""Replace the names that programs for images and scenes use by names of losses and scores."""

from __future__ import annotations

import re
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, NUMBER_TOKEN, Normalization

# TensorFlow's Object Detection API: Step 100 per-step time 0.512s, and below it a dictionary over
# several lines, {'Loss/box': 0.7,\n 'Loss/total_loss': 1.8,\n 'learning_rate': 0.03}. The loggers
# of two libraries print both.
_DETECTION_STEP: Final = (
    rb"Step (\d{1,12}) per-step time (\d[\d.]{0,12})s\n"
    rb"(?:[^\n{]{1,200} Step \1 per-step time \2s\n)?"
    rb"[^\n{]{0,200}\{('Loss/[^{}]{1,4000})\}(?:\n[^\n{]{1,200}\{\3\})?"
)


def _in_one_line(match: re.Match[bytes]) -> bytes:
    """Return a step and its losses in one line, and as many lines as before."""
    step, seconds, losses = match.groups()
    named = losses.replace(b"\n", b" ")
    return b"iteration %b {'step_time': %b, %b}" % (step, seconds, named) + b"\n" * match[0].count(
        b"\n"
    )


# Its evaluation: Eval metrics at step 5000, and below it lines of one value,
# + DetectionBoxes_Precision/mAP: 0.31, each of them twice with two loggers.
_EVALUATION_VALUE: Final = rb"[^\n]{0,120}[:\]][ \t]{1,8}\+ [A-Z]\w{0,60}/[^\n]{1,120}\n"
_DETECTION_EVALUATION: Final = (
    rb"(?m)^(?:[^\n]{0,120}[:\]] ?Eval metrics at step (\d{1,12})\n){1,2}((?>%b){1,100})"
    % _EVALUATION_VALUE
)
_VALUE_OF_EVALUATION: Final = lazy_pattern(
    rb"\+ (?:[A-Za-z_]{1,60}/){1,4}(\w{1,60}): (%b)" % NUMBER_PATTERN
)


def _evaluation_in_one_line(match: re.Match[bytes]) -> bytes:
    """Return an evaluation in one line, and as many lines as before."""
    values = dict(_VALUE_OF_EVALUATION.findall(match[2]))
    named = b", ".join(
        b"val_%b: %b" % (name.removeprefix(b"total_"), value) for name, value in values.items()
    )
    return b"step %b, %b" % (match[1], named) + b"\n" * match[0].count(b"\n")


# MONAI: current epoch: 4 current mean dice: 0.71 tc: 0.8 best mean dice: 0.74 at epoch: 2, or
# current AUC: 0.99 current accuracy: 0.93 best AUC: 0.99 at epoch: 2; the best may be below it.
_CURRENT_SCORES: Final = (
    rb"current epoch: \d{1,6} current (?=[A-Za-z][\w -]{0,40}: %b)([^\n]{1,200}?)"
    rb"(?:[ \n]best [A-Za-z][^\n]{1,200})?(?=\r?\n|$)" % NUMBER_PATTERN
)


def _scores_of_evaluation(match: re.Match[bytes]) -> bytes:
    """Return the current scores without the best one, whose epoch is an earlier one."""
    return b"val_" + match[1].replace(b" current ", b", val_") + b"\n" * match[0].count(b"\n")


# The errors of a depth, the names above the values, as BTS, GLPDepth and Monodepth2 print them:
#     d1         d2         d3    abs_rel     sq_rel       rmse   rmse_log      log10      silog
# 0.9150     0.9880     0.9970     0.0980     0.0420     0.3440     0.1210     0.0420     9.1000
_DEPTH_TABLE: Final = (
    rb"\n[ \t]{0,20}((?:silog|abs_?rel|[ad]1)[ \t,|][\w \t,|]{8,200})\r?\n"
    rb"([ \t&]{0,20}[\w+.][-\w+. \t,|&\\]{8,200})(?=\r?\n|\Z)"
)
_DEPTH_ERROR: Final = lazy_pattern(
    rb"abs_?rel|sq_?rel|rmse?(?:_log)?|log_?rms|log_?10|silog|[ad][1-3]"
)
_MIN_DEPTH_ERRORS: Final = 4
_TABLE_WORD: Final = lazy_pattern(rb"[^\s,|&\\]+")


def _errors_of_depth(match: re.Match[bytes]) -> bytes:
    """Return the names and values of a table in one line, and as many lines as before."""
    names, values = _TABLE_WORD.findall(match[1]), _TABLE_WORD.findall(match[2])
    is_table = len(names) == len(values) >= _MIN_DEPTH_ERRORS
    if not is_table or not all(map(_DEPTH_ERROR.fullmatch, names)):
        return match[0]
    if not all(map(NUMBER_TOKEN.fullmatch, values)):
        return match[0]
    cells = zip(names, values, strict=True)
    return b"\n" + b", ".join(b"%b: %b" % cell for cell in cells) + b"\n"


# The networks of GANs in widespread tutorials: >12, dA[0.053,0.058] dB[0.024,0.041] g[2.720,2.900];
# >12, d1[0.55] d2[0.51] g[31.2]; and >3, 12/937, d1=0.682, d2=0.701 g=0.713: real and fake samples,
# or the images of two domains.
_NETWORKS: Final = {
    **dict.fromkeys((b"c1", b"d1", b"dr"), b"D_real"),
    **dict.fromkeys((b"c2", b"d2", b"df"), b"D_fake"),
    b"dA": b"D_A",
    b"dB": b"D_B",
    b"d": b"D",
    b"c": b"C",
    b"g": b"G",
}
_NETWORK: Final = rb"(?<=[ ,])(%b)" % b"|".join(_NETWORKS)
_NETWORK_LISTS: Final = (b"\n>", b" g[")
_NETWORK_PAIRS: Final = (b"\n>", b"g=")


def _loss_of_network(match: re.Match[bytes]) -> bytes:
    """Return the loss of a network, the first if there are two."""
    return b"loss_%b: %b" % (_NETWORKS[match[1]], match[2])


VISION: Final = (
    # nnU-Net: val loss (train=False): -0.0622, and Val glob dc per class: [0.9212]
    *(
        Normalization(
            (b"oss (", b"=%b): " % value),
            rb"(?<=[lL]oss) \(\w{1,20}=(?:True|False)\)(?=: {0,4}%b)" % NUMBER_PATTERN,
            b"",
        )
        for value in (b"False", b"True")
    ),
    Normalization((b"al glob dc per class: [",), rb"glob dc per class(?=: \[)", b"dice"),
    # MatConvNet: train: epoch 01:   4/600: 92.7 (92.4) Hz objective: 2.303 top1err:0.900
    Normalization((b") Hz ", b"objective"), rb"\) Hz (?=[a-z])", b"), "),
    # DeiT, MAE and DETR: the means of a test, below Test: Total time: 0:00:31 (0.1 s / it), and
    # * Acc@1 33.200 Acc@5 59.100 loss 2.300
    Normalization(
        (b"Averaged stats: ", b"Test: Total time: "),
        rb"(?<=\nTest: )(Total time: [^\n]{1,80}\n)Averaged stats: ",
        rb"\1Test: ",
    ),
    Normalization((b"* Acc@1 ", b" loss "), rb"\* Acc@1 (?<=\n\* Acc@1 )", b"Test: Acc@1 "),
    Normalization((b" per-step time ", b"'Loss/"), _DETECTION_STEP, _in_one_line),
    Normalization(
        (b"Eval metrics at step ", b"+ Det"), _DETECTION_EVALUATION, _evaluation_in_one_line
    ),
    Normalization((b"current epoch: ", b" current "), _CURRENT_SCORES, _scores_of_evaluation),
    # Torch 7: Epoch: [1][20/5004]  Time 0.48  Data 0.003  Err 6.8433  top1  99.219  top5  97.266,
    # where Err is the loss and top1 an error, and … Err 3.6877 Top1-%: 21.09 LR 1e-02 …
    *(
        Normalization(
            (b"Epoch: [", b" Err ", b"op1"),
            rb"(?<=[ \t])%b[ \t]{1,4}(?=%b[ \t\r\n])" % (name, NUMBER_PATTERN),
            replacement,
        )
        for name, replacement in (
            (b"Err", b"loss: "),
            *((b"top1", b"top1_error: "), (b"top5", b"top5_error: ")),
            *((b"Top1-%:", b"top1_accuracy: "), (b"LR", b"lr: ")),
        )
    ),
    # Open3D-ML, below === EPOCH 3/20 ===: loss train: 8.376  eval: 8.985, acc train: 0.439  eval: …
    *(
        Normalization(
            (b"loss train: ", b"  eval: "),
            rb"(?m)^%b train: (%b) {1,4}eval: (?=%b)" % (name, NUMBER_PATTERN, NUMBER_PATTERN),
            rb"train_%b: \1  eval_%b: " % (name, name),
        )
        for name in (b"loss", b"acc", b"iou")
    ),
    # DGCNN for point clouds: Train 31, loss: 1.43, train acc: 0.94, … above Test 31, loss: 1.45, …
    Normalization(
        (b"Train ", b"Test ", b", loss: "),
        rb"(?m)^(Train|Test) (?=\d{1,6}, loss: %b, )" % NUMBER_PATTERN,
        rb"\1 epoch ",
    ),
    # StyleGAN: network-snapshot-005734  time 4m 26s  fid50k_full 46.5633
    Normalization(
        (b"network-snapshot-", b"fid50k"),
        rb"network-snapshot-(\d{6}) {1,12}time [^\n]{1,30}(fid50k(?:_full)?) {1,4}(?=%b)"
        % NUMBER_PATTERN,
        rb"step \1 \2: ",
    ),
    # A U-Net: Epoch [3/50], Loss: 17.2257, above [Training] Acc: 0.9, F1: 0.5, JS: 0.4, DC: 0.5 and
    # [Validation] Acc: 0.9, …; DC is the Dice coefficient.
    Normalization((b", JS: ", b", DC: "), rb", DC: (?=%b)" % NUMBER_PATTERN, b", dice: "),
    Normalization(
        (b"oss: ", b"\n[Training] "),
        rb"([Ll]oss: %b),? ?\n\[Training\] ([^\n]{1,300})\n" % NUMBER_PATTERN,
        rb"\1, \2\n\n",
    ),
    # Tesseract: At iteration 2109/2400/2402, Mean rms=5.341%, delta=8.5%, char train=80.5%, word
    # train=90.7%, skip ratio=0%, …: iterations that learned, iterations, samples.
    Normalization(
        (b"ean rms=", b"skip ratio="),
        rb"At iteration \d{1,12}/(\d{1,12})/\d{1,12}, [Mm]ean rms=(?=%b[%%,])" % NUMBER_PATTERN,
        rb"At iteration \1, rms loss=",
    ),
    # On the same line follows an evaluation of an earlier iteration:
    # At iteration 2100, stage 0, Eval Char error rate=5.1, Word error rate=20.3
    Normalization(
        (b"ean rms=", b"Eval Char error rate="),
        rb"At iteration (\d{1,12}), stage \d, Eval Char error rate=(%b), Word error rate=(%b)"
        % (NUMBER_PATTERN, NUMBER_PATTERN),
        rb" eval_cer=\2, eval_wer=\3 of \1",
    ),
    # Tesseract also prints a line for each sample, below Iteration 2109: BEST OCR TEXT : a line:
    # Mean rms=5.341%, delta=8%, train=80.5%(90.7%), skip ratio=0%.
    Normalization(
        (b"ean rms=", b", train="),
        rb"(?m)^Mean rms=(%b%%, delta=%b%%, )train=(%b%%)\((?=%b%%\))" % ((NUMBER_PATTERN,) * 4),
        rb"rms loss=\1train_cer=\2, train_wer=",
    ),
    *(
        Normalization((b"ean rms=", b" %b=" % name), b" %b=" % name, b" train_%b=" % score)
        for name, score in (
            *((b"char train", b"cer"), (b"word train", b"wer")),
            *((b"BCER train", b"cer"), (b"BWER train", b"wer")),
        )
    ),
    # Darknet: 1: 1123.449341, 1123.449341 avg, 0.000000 rate, 0.190143 seconds, 1 images
    # A loss that failed may be any word.
    Normalization(
        (b" rate, ", b" seconds, "),
        rb"\n {0,2}(\d{1,12})(?:, \d{1,9}\.\d{1,6})?: ([^\s,]{1,40}), ([^\s,]{1,40}) avg"
        rb"(?: loss)?, (%b) rate, " % NUMBER_PATTERN,
        rb"\niteration \1: loss \2, avg: \3, learning_rate: \4, ",
    ),
    # Above it are the losses of each layer and micro-batch, which add up to that loss.
    Normalization(
        (b" Region ", b" Avg (IOU: ", b" rate, ", b" seconds, "),
        rb"(?m)^v\d \([^\n]{1,120} Region \d[^\n]{1,300}$",
        b"",
    ),
    # In a paste of these lines alone, the weights are not scores: v3 (iou loss, Normalizer: (iou:
    # 0.07, cls: 1.00) Region 30 Avg (IOU: 0.312), …, total_loss = 179.0
    Normalization(
        (b" loss, Normalizer: (",), rb" \([a-z]{1,8} loss, Normalizer: \([^)\n]{1,80}\)", b""
    ),
    # Old versions of Darknet: Region 16 Avg IOU: 0.48, Class: 0.58, Obj: 0.33, No Obj: 0.48, …,
    # count: 8. Most of them are NaN for a layer without an object.
    Normalization(
        (b"Region ", b" Avg IOU: ", b" No Obj: "),
        rb"(?m)^Region [^\n]{1,120} No Obj: \d[^\n]{1,120}$",
        b"",
    ),
    # CenterPoint: Epoch [1/20][15/15448] lr: 0.0001, …, and below it the losses of several heads:
    # task : ['truck', 'bus'], loss: 14.0, hm_loss: 9.6, …; the first one is the loss.
    Normalization(
        (b"Epoch [", b"task : ['"),
        rb"\bEpoch \[(\d{1,6})/\d{1,6}\]\[(\d{1,9})/\d{1,9}\](?=\s)",
        rb"epoch \1 iteration \2",
    ),
    Normalization(
        (b"Epoch [", b"task : ['"),
        rb"(?m)(^[^\n]{0,80}\bepoch \d{1,6} iteration \d[^\n]{0,300}\n[^\n]{0,80})"
        rb"\btask : \['[^\]\n]{1,200}\], (?=loss:)",
        rb"\1",
    ),
    Normalization(
        (b"Epoch [", b"task : ['"), rb"\btask : \['(\w{1,40})'[^\]\n]{0,200}\], loss:", rb"\1_loss:"
    ),
    # Gaussian splatting: [ITER 7000] Evaluating test: L1 0.0218 PSNR 27.06
    Normalization(
        (b"[ITER ", b"] Evaluating "),
        rb"\| (\d{1,9})/\d{1,9} (?=\[[\d:]{1,12}<[^\n]{1,60} Loss=)",
        rb"| iteration \1 ",
    ),
    Normalization(
        (b"[ITER ", b"] Evaluating "),
        rb"\[ITER (\d{1,9})\] Evaluating test: L1 (%b) PSNR (?=%b)"
        % (NUMBER_PATTERN, NUMBER_PATTERN),
        rb"iteration \1: test_l1_loss: \2 test_psnr: ",
    ),
    # YOLACT: [  0]     10 || B: 7.1 | C: 22.5 | M: 6.2 | S: 61.3 | T: 97.2 || ETA: 1 day, …
    Normalization(
        (b" || ETA: ",),
        rb"\[ {0,4}(\d{1,4})\] {1,12}(\d{1,12}) \|\| ",
        rb"epoch \1 iteration \2 || ",
    ),
    Normalization(
        (b" || ETA: ",), rb"\| T: (%b) \|\| ETA: [^|\n]{1,60}" % NUMBER_PATTERN, rb"| loss: \1 "
    ),
    Normalization((b" || ETA: ",), rb"\| ([BCMS]): (?=%b \|)" % NUMBER_PATTERN, rb"| loss_\1: "),
    # VideoPose3D: [1] time 43.30 lr 0.000040 3d_train 88.13 3d_eval 63.54 3d_valid 67.05
    Normalization(
        (b"] time ", b" 3d_train "),
        rb"(?<=[\n\d])\[(\d{1,6})\] (?=time [^\n]{1,80} 3d_train )",
        rb" epoch \1 ",
    ),
    Normalization(
        (b"time ", b" 3d_train "), rb" 3d_(train|valid) (?=%b)" % NUMBER_PATTERN, rb" \1_loss "
    ),
    Normalization((b"abs",), _DEPTH_TABLE, _errors_of_depth),
    # BTS, NeWCRFs: [epoch][s/s_per_e/gs]: [0][400/3028/400], lr: 0.0001, loss: 4.21
    Normalization(
        (b"[s/s_per_e/gs]",),
        rb"\[epoch\]\[s/s_per_e/gs\]: \[(\d{1,6})\]\[(\d{1,9}/\d{1,9})/(\d{1,12})\]",
        rb"epoch \1 [\2] global step \3",
    ),
    # RetinaFace: || Loc: 2.1227 Cla: 2.3935 Landm: 8.1542 ||
    Normalization(
        (b"Loc: ", b"Cla: "),
        rb"(?<=[|,;\w] )(Loc|Cla|Landm): (?=%b)" % NUMBER_PATTERN,
        rb"loss_\1: ",
    ),
    # Wav2Lip: L1: 0.0283, Sync Loss: 0.0: : 540it [09:59,  1.05s/it], or L1: 0.03, Sync: 0.0, …
    Normalization(
        (b"L1: ", b", Sync"), rb"(?<!\w)(L1|Sync|Percep): (?=%b)" % NUMBER_PATTERN, rb"\1 Loss: "
    ),
    # RandLA-Net: Step 00000050 L_out=2.310 Acc=0.31 --- 1408.79 ms/batch
    Normalization((b" L_out=", b" ms/batch"), rb" L_out=(?= {0,4}%b)" % NUMBER_PATTERN, b" loss="),
    # FastReID: eta: 7:25:44  epoch/iter: 0/199  total_loss: 114.2
    Normalization(
        (b"  epoch/iter: ",), rb"  epoch/iter: (\d{1,6})/(\d{1,9})\b", rb"  epoch: \1  iter: \2"
    ),
    # pix2pix, CycleGAN: (epoch: 1, iters: 100, time: 0.092, data: 0.154) D_A: 0.508 G_A: 0.182 …
    Normalization(
        (b"(epoch: ", b", iters: "),
        rb"(?<=[)\d,n] )(?!iters|time|data)([A-Za-z]\w{0,40}: )(?=%b)" % NUMBER_PATTERN,
        rb"loss_\1",
    ),
    # BasicSR, MMSR: [train..][epoch:  0, iter:     100, lr:(2.000e-04,)] [eta: …] l_pix: 2.3e-02
    Normalization((b", iter: ", b", lr:("), rb", lr:\(", b", lr: "),
    Normalization((b", iter: ", b"[eta: "), rb"\[eta: [^\]\n]{1,60}time \(data\): ", b"[time: "),
    Normalization((b", iter: ", b" l_"), rb"(?<=[\])>\de] )l_(?=\w{1,60}: [-+\dniNI])", b"loss_"),
    # YOLOv3 in PyTorch: [Losses: x 0.272, y 0.254, total 15.143, recall: 0.1]
    Normalization(
        (b"[Losses: ",), rb"(?<=[:,] )(\w{1,40}) (?=%b[,\]])" % NUMBER_PATTERN, rb"\1 loss "
    ),
    Normalization(_NETWORK_LISTS, rb"(?<=\n)>(\d{1,9}), (?=(?:c|d\w?)\[)", rb"iteration \1, "),
    Normalization(
        _NETWORK_PAIRS,
        rb"(?<=\n)>(\d{1,9}), (\d{1,9})/(\d{1,9}), (?=[cd]\d?=)",
        rb"epoch \1 batch \2, ",
    ),
    Normalization(_NETWORK_PAIRS, rb"(?<=\n)>(\d{1,9}), (?=[cd]\d?=)", rb"iteration \1, "),
    Normalization(
        _NETWORK_LISTS,
        rb"%b\[(%b)(?:,%b)?\]" % (_NETWORK, NUMBER_PATTERN, NUMBER_PATTERN),
        _loss_of_network,
    ),
    Normalization(_NETWORK_PAIRS, rb"%b=(%b)" % (_NETWORK, NUMBER_PATTERN), _loss_of_network),
    # DARTS and its descendants, without names: 09:10:11,123 train 050 2.0302e+00 24.54 78.37
    *(
        Normalization(
            (b" train ", marker),
            rb"(?m)(?<= )(train|valid) (\d{1,6}) (%b) (%b) (%b)(?=[ \t\r]{0,8}$)"
            % ((NUMBER_PATTERN,) * 3),
            rb"\1 step \2 loss \3 top1 \4 top5 \5",
        )
        for marker in (b"e+00 ", b"e-01 ", b" train nan ")
    ),
    # The first two rows of the summary of COCO:
    # Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.634
    *(
        Normalization(
            (b" | maxDets=",),
            rb"(?m)^[ \t]{0,8}Average Precision  ?\(AP\) @\[ IoU=0\.50%b {0,8}\| area= {0,8}all \|"
            rb" maxDets= {0,8}\d{1,4} \] = (?=-?\d)" % threshold,
            b"%b: " % name,
        )
        for threshold, name in ((b":0\\.95", b"test_mAP"), (b"", b"test_mAP50"))
    ),
    Normalization(
        (b" | maxDets=",),
        rb"(?m)^[ \t]{0,8}Average (?:Precision|Recall) {1,8}\(A[PR]\) @\[ IoU=[^\n]{1,60}\|"
        rb" maxDets= {0,8}\d{1,4} \] = -?\d[^\n]{0,12}$",
        b"",
    ),
)
