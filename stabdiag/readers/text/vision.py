"""The frameworks of vision, speech and games: one row each, with the grammar of its lines."""

from __future__ import annotations

from typing import Final

from stabdiag.readers.reader import TextReader
from stabdiag.readers.text.asides import OVERFLOWS
from stabdiag.readers.text.grammar import NUMBER, SIGNS, Grammar, Line


def _of_basicsr(name: str) -> str:
    """Name a loss of BasicSR: each name after the brackets that begins with ``l_`` is one."""
    return f"loss_{name.removeprefix('l_')}" if name.startswith("l_") else name


_OF_YOLACT: Final = {
    "B": "loss_box",
    "C": "loss_class",
    "M": "loss_mask",
    "S": "loss_segmentation",
    "T": "loss",
}

VISION: Final = (
    TextReader(
        name="tacotron2",
        title="what NVIDIA's Tacotron 2, or what was made of it, printed",
        recognised="a line of Train loss N, a loss and Grad Norm, or of Validation loss N: a loss",
        example="Train loss 100 0.520000 Grad Norm 0.800000 1.20s/it",
        grammar=Grammar(
            step="iteration",
            kinds=(
                Line(
                    pattern=rb"Train loss (\d{1,12}) (%b) Grad Norm (%b) (%b)s/it"
                    % (NUMBER, NUMBER, NUMBER),
                    names=("iteration", "train loss", "grad norm", "seconds_per_step"),
                ),
                # Validation loss 1000:  0.312500
                Line(
                    pattern=rb"Validation loss (\d{1,12}): {1,8}(%b)(?!\S)" % NUMBER,
                    names=("iteration", "validation loss"),
                ),
                *OVERFLOWS,
            ),
            joined=True,
        ),
    ),
    TextReader(
        name="caffe",
        title="a log of Caffe",
        recognised="a line of solver.cpp with Iteration N, loss = or lr =",
        loses="the outputs of the training net",
        example="I0120 20:08:35.002946 17443 solver.cpp:237] Iteration 20, loss = 6.90814",
        grammar=Grammar(
            step="Iteration",
            kinds=(
                # Iteration 100 (5.2 iter/s, 3.8s/20 iters), loss = 6.9
                Line(
                    pattern=rb"Iteration (\d{1,12})(?: \([^)\n]{1,80}\))?, "
                    rb"(?:loss = (%b)(?!\S)|lr = (%b)(?!\S)|Testing net)" % (NUMBER, NUMBER),
                    names=("Iteration", "loss", "lr"),
                    told_by=rb"solver\.cpp(?::\d{1,6}\]| : line \d{1,6} :) Iteration \d{1,12}"
                    rb"(?: \([^)\n]{1,80}\))?, (?:loss|lr) = ",
                ),
                Line(
                    pattern=rb"Test net output #\d{1,4}: ([^\n=]{1,80}) = (%b)(?!\S)" % NUMBER,
                    one_pair=True,
                    named=lambda name: f"test {name}",
                    tells=False,
                ),
            ),
            joined=True,
            config=rb"\n(base_lr|max_iter|lr_policy|weight_decay|clip_gradients|snapshot"
            rb"|random_seed): ([^\n]{1,80})",
        ),
    ),
    TextReader(
        name="darknet",
        title="what Darknet printed",
        recognised="a line with a number, a loss, its avg, a rate and seconds",
        loses="the Region lines, whose -nan says that no object was there at that scale",
        example="1: 1123.449341, 1123.449341 avg, 0.000000 rate, 0.190143 seconds, 1 images",
        grammar=Grammar(
            step="iteration",
            kinds=(
                Line(
                    pattern=rb"\n {0,2}(\d{1,12})(?:, \d{1,9}\.\d{1,6})?: (%b), (%b) avg"
                    rb"(?: loss)?, (%b) rate, (%b) seconds" % (NUMBER, NUMBER, NUMBER, NUMBER),
                    names=("iteration", "loss", "avg", "learning_rate", "seconds"),
                ),
            ),
            config=rb"(Learning Rate|Momentum|Decay): (%b)" % NUMBER,
        ),
    ),
    TextReader(
        name="yolact",
        title="what YOLACT printed",
        recognised="a line of an epoch in brackets, an iteration, and losses between double bars",
        loses="the time that is left; each loss is a mean of the last 100 steps",
        example="[  0]     10 || B: 7.1 | C: 22.5 | M: 6.2 | S: 61.3 | T: 97.2 || ETA: 1 day, …",
        grammar=Grammar(
            step="iteration",
            kinds=(
                Line(
                    pattern=rb"\[ {0,4}(\d{1,4})\] {1,12}(\d{1,12}) \|\| "
                    rb"([^\n]{1,400}?T: [^\n]{1,60}\|\|) ETA: ",
                    names=("epoch", "iteration"),
                    pairs=rb"(?<!\w)([A-Z]): (%b) \|" % NUMBER,
                    named=lambda name: _OF_YOLACT.get(name, name),
                ),
                *OVERFLOWS,
            ),
        ),
    ),
    TextReader(
        name="pix2pix",
        title="a log of pix2pix or CycleGAN",
        recognised="a line with (epoch: N, iters: N, time: …) and losses",
        example="(epoch: 1, iters: 100, time: 0.092, data: 0.154) D_A: 0.508 G_A: 0.182 …",
        grammar=Grammar(
            step="iter",
            kinds=(
                Line(
                    pattern=rb"\(epoch: (\d{1,9}), iters: (\d{1,12}), time: (%b)(?:, data: (%b))?"
                    rb"\) ([^\n]{1,4000})" % (NUMBER, NUMBER),
                    names=("epoch", "iter", "time", "data"),
                    pairs=SIGNS,
                    named=lambda name: f"loss_{name}",
                ),
            ),
        ),
    ),
    TextReader(
        name="big-vision",
        title="a log of big_vision",
        recognised="a line with the step in brackets and training_loss = N",
        loses="what is no number",
        example="I0102 03:04:05.123456 140 utils.py:1234] [50] training_loss = 2.31",
        grammar=Grammar(
            step="step",
            kinds=(
                Line(
                    pattern=rb"\] \[(\d{1,12})\] ([\w/ ().@-]{1,80} = %b)(?=\n)" % NUMBER,
                    names=("step",),
                    pairs=rb"([^=]{1,80}) = (%b)" % NUMBER,
                    told_by=rb"\] \[\d{1,12}\] training_loss = [-\w.]{1,40}\n",
                ),
            ),
            joined=True,
        ),
    ),
    TextReader(
        name="lerobot",
        title="a log of LeRobot",
        recognised="a line of step:N smpl:N ep:N epch:N loss:N",
        loses="the last digits of 1K steps and more, which are counted on",
        example="step:200 smpl:2K ep:6 epch:0.06 loss:2.311 grdn:12.423 lr:1.0e-05 updt_s:0.210 …",
        grammar=Grammar(
            step="step",
            kinds=(
                Line(
                    pattern=rb"step:(\d{1,4}[KMB]?) smpl:[\w.]{1,12} ep:[\w.]{1,12} "
                    rb"epch:([\d.]{1,12}) (loss:[^\n]{1,1000})",
                    names=("step", "epoch"),
                    pairs=SIGNS,
                    named=lambda name: {"updt_s": "step_time"}.get(name, name),
                ),
            ),
        ),
    ),
    TextReader(
        name="basicsr",
        title="a log of BasicSR, as of Real-ESRGAN, or of MMSR",
        recognised="a line with [epoch: N, iter: N, lr:(N,)] and losses such as l_pix:",
        loses="validations, all learning rates but the first",
        example="[train..][epoch:  0, iter:     100, lr:(2.000e-04,)] [eta: …] l_pix: 2.3e-02",
        grammar=Grammar(
            step="iter",
            kinds=(
                # [train..][epoch:  0, iter:   1,000, lr:(2.000e-04,)] [eta: 1 day, 3:12:12, time
                # (data): 0.512 (0.003)] l_pix: 2.3456e-02
                # MMSR before it: <epoch: 30, iter:   2,800, lr:1.000e-04> l_g_pix: 3.2022e-03
                Line(
                    pattern=rb"[\[<]epoch: {0,8}(\d{1,9}), iter: {0,12}([\d,]{1,15}), "
                    rb"lr:\(?(%b)(?:,[^)\n]{0,200}\)\]|>)(?: \[eta: [^\]\n]{1,60}"
                    rb"time \(data\): (%b) \(%b\)\])? ([^\n]{1,4000})" % (NUMBER, NUMBER, NUMBER),
                    names=("epoch", "iter", "lr", "time"),
                    pairs=SIGNS,
                    named=_of_basicsr,
                    told_by=rb"[\[<]epoch: {0,8}\d{1,9}, iter: [ \d,]{1,20}, "
                    rb"lr:[^\n]{0,400} l_\w",
                ),
            ),
        ),
    ),
)
