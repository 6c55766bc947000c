"""Replace what the networks of tutorials and textbooks print by the names of losses and scores."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, Normalization

# The decimal places of the sizes of test sets: 1000, 10000, 100000
_TUTORIAL_PLACES: Final = (3, 4, 5)


def _right_answers() -> Iterator[Normalization]:
    """Yield the replacements that make an accuracy of the number of right answers.

    The networks in the book of Michael Nielsen print Epoch 3: 9293 / 10000; the second also
    Accuracy on training data: 940 / 1000. A position in an epoch has no line of its own.
    """
    for places in _TUTORIAL_PLACES:
        size = b"1" + b"0" * places
        yield Normalization(
            (b"poch", size),
            rb"(?m)\n[*_#> \t]{0,8}(?:[A-Z][a-z]{2,12} )?([Ee]poch[ \t]{1,4}\d{1,6})"
            rb"(?:[ \t]{0,4}(?:/|of)[ \t]{0,4}\d{1,6})?[*_]{0,2}[ \t]{0,4}[:|][*_]{0,2}[ \t]{1,4}"
            rb"(\d{1,9})[ \t]{0,4}/[ \t]{0,4}%b[*_ \t\r]{0,8}$" % size,
            rb"\n\1: test accuracy: \2e-%d" % places,
        )
        yield Normalization(
            (b"ccuracy on ", b" data: ", b" / " + size),
            rb"(?m)^[Aa]ccuracy on (\w{4,10}) data: (\d{1,9}) / %b[ \t\r]{0,8}$" % size,
            rb"\1 accuracy: \2e-%d" % places,
        )


# An estimator of TensorFlow prints its own values above its loss: cross_entropy = 2.09,
# train_accuracy = 0.2 (3.9 sec) above loss = 2.46, step = 100 (3.9 sec)
_OF_ESTIMATOR: Final = (
    rb"(?m)^([^\n]{0,140}[a-z] = [^\n(]{1,400})(?:\([\d.]{1,12} sec\))?\n"
    rb"([^\n]{0,120}loss = %b, step = \d)" % NUMBER_PATTERN
)


def _above_its_loss(match: re.Match[bytes]) -> bytes:
    """Return an empty line and then both lines joined, unless the first line has a loss as well."""
    own, below = match[1].rstrip(), match[2]
    return match[0] if b"loss = " in own else b"\n%b, %b" % (own, below[below.index(b"loss = ") :])


TOOLKITS: Final = (
    # The demos of DeepMind's Graph Nets, of the training and of larger graphs:
    # # 00020, T 14.1, Ltr 0.6221, Lge 0.6352, Ctr 0.5432, Str 0.0000, Cge 0.5611, Sge 0.0000
    *(
        Normalization(
            (b", T ", b", Ltr ", b", Lge "), rb"(?<=, )%b (?=%b)" % (name, NUMBER_PATTERN), word
        )
        for name, word in (
            (b"Ltr", b"train_loss: "),
            (b"Lge", b"test_loss: "),
            (b"Ctr", b"train_accuracy: "),
            (b"Cge", b"test_accuracy: "),
        )
    ),
    Normalization(
        (b", T ", b", Ltr ", b", Lge "),
        rb"(?m)^[#> ]{0,4}(\d{1,9}), T (?=%b, )" % NUMBER_PATTERN,
        rb"step \1, seconds: ",
    ),
    # Burn prints the mean of the epoch and the value of the batch, above the counters:
    # [Metrics]
    #   - Train Loss: epoch 0.31 - batch 0.42
    # [Progress]
    #   - Iteration 140 Epoch 2/6
    Normalization(
        (b"[Metrics]\n", b"\n[Progress]\n"),
        rb"(?m)^\[Metrics\]((?:\n {1,8}- [^\n]{1,120}){1,6})\n{1,2}\[Progress\]\n {1,8}- "
        rb"(Iteration \d{1,12})(?= Epoch \d)",
        rb"\2\1\n",
    ),
    Normalization(
        (b": epoch ", b" - batch "),
        rb"(?m)^[ \t]{0,8}- (Train|Valid) (Loss|Accuracy): epoch (%b)(?: %%)? - batch"
        rb" %b(?: %%)?(?=[ \t\r]{0,8}$)" % (NUMBER_PATTERN, NUMBER_PATTERN),
        rb"\1_\2: \3",
    ),
    # PaddlePaddle's book calls an epoch a pass: Pass 3, Batch 100, Cost 2.31, and Test with Pass 3,
    # Cost 2.40
    *(
        Normalization((b"Pass ", mark), rb"(?<![\w.])Pass (?=\d{1,6}, (?:Batch|Cost)\b)", b"Epoch ")
        for mark in (b", Batch ", b", Cost ")
    ),
    # scikit-learn prints the score of each fold, and the folds are not steps:
    # [CV 4/5] END ..C=1; score: (train=0.98, test=0.967) total time=   0.0s
    Normalization(
        (b"[CV ", b" total time="),
        rb"(?m)^\[CV \d{1,4}/\d{1,4}[^\n]{1,400}?;? score[:=] ?\(?(?:train=%b, )?(?:test=)?(%b)\)?"
        rb" total time=[^\n]{0,40}$" % (NUMBER_PATTERN, NUMBER_PATTERN),
        rb"[CV] fold: \1",
    ),
    # Informer and the libraries built on it print the number of steps of an epoch:
    # Epoch: 3, Steps: 400 | Train Loss: 0.31 Vali Loss: 0.42 Test Loss: 0.45
    Normalization(
        (b", Steps: ", b" | Train Loss: "), rb"(?<=\d), Steps: \d{1,9}(?= \| Train Loss: )", b""
    ),
    # Kaldi: %WER 34.43 [ 3443 / 10000, 120 ins, 430 del, 2893 sub ]
    Normalization((b"%WER ", b" ins, "), rb"%WER (?=\d[\d.]{0,8}%? \[ )", b"WER: "),
    Normalization((b", step = ", b" sec)\n"), _OF_ESTIMATOR, _above_its_loss),
    # AlphaZero for Gomoku: batch i:148, episode_len:24 above kl:0.044,…,loss:3.76,entropy:3.17,…,
    # and in a version of it loss :[3.76], entropy:3.17 again below.
    Normalization((b"batch i:",), rb"\bbatch i:(?=\d{1,9}, ?episode_len:)", b"batch: "),
    Normalization(
        (b"explained_var_old:", b"loss :"),
        rb"(?m)^[^\w\n]{0,12}loss :\[?%b\]?, entropy:[^\n]{0,60}\n" % NUMBER_PATTERN,
        b"",
    ),
    # mlpack: 591/591 [=========] 100% - 10s 17ms/step - loss: 0.0137785, and a rest of what was
    # drawn over: 0.0137785=======] 100% - ETA: 0s - loss: 0.0137465
    Normalization(
        (b"=] 100% - ETA: ",), rb"(?m)^[\d.]{1,20}={20,120}\] 100% - ETA: [^\n]{0,200}\n", b""
    ),
)

# DeepSpeed-Chat prints the reward below the losses of a step: unsuper_loss: 0.0, and after a few
# lines with times perhaps, average reward score: 0.21
_REWARDS_BELOW: Final = Normalization(
    (b"nsuper", b"verage reward score: "),
    rb"([Uu]nsuper(?:vised)?[_ ][Ll]oss: %b)(\n(?:(?!epoch: |Epoch: )[^\n]{0,300}\n){0,6}?)"
    rb"[Aa]verage reward score: (%b)" % (NUMBER_PATTERN, NUMBER_PATTERN),
    rb"\1|average_reward: \3\2",
)

TUTORIALS: Final = (
    # The tutorials of Theano: epoch 1, minibatch 2500/2500, validation error 9.62 %
    Normalization(
        (b", minibatch ", b", validation error "),
        rb"(?m)\bepoch (\d{1,6}), minibatch (\d{1,9})/(\d{1,9}), validation error (%b) %%"
        % NUMBER_PATTERN,
        rb"epoch \1, validation error rate: \4",
    ),
    _REWARDS_BELOW,
    # An evaluation of TensorFlow: Saving dict for global step 312: eval_accuracy = 0.1, loss = 2.3
    Normalization(
        (b"Saving dict for global step ", b", global_step = "),
        rb"Saving dict for (?=global step \d{1,12}: )",
        b"",
    ),
    # The Annotated Transformer: Epoch Step:     41 | Accumulation Step:   5 | Loss:   7.25 | …
    Normalization((b"Epoch Step: ", b"Accumulation Step: "), rb"\bAccumulation Step:", b"updated:"),
    # cuda-convnet prints the epoch and the batch, the loss and the error rate:
    # 12.317... logprob:  0.682883, 0.317708 (1.438 sec)
    Normalization(
        (b"... logprob: ",),
        rb"(?m)^[ \t]{0,8}(\d{1,6})\.(\d{1,6})\.\.\. logprob: {1,4}(?=%b)" % NUMBER_PATTERN,
        rb"epoch \1 batch \2 loss: ",
    ),
    # Early TensorFlow: global step 1000 learning rate 0.5 step-time 0.2 perplexity 9.1
    # and, below it, "  eval: bucket 0 perplexity 12.1", or "  eval: perplexity 12.1"
    *(
        Normalization(
            (b"global step ", b" step-time ", b"perplexity "),
            pattern % (rb" perplexity (?=(?:%b)[ \t\r]{0,8}$)" % NUMBER_PATTERN),
            replacement,
        )
        for pattern, replacement in (
            (rb"(?m)(step-time [\d.]{1,20})%b", rb"\1 perplexity_loss: "),
            (rb"(?m)^[ \t]{0,8}eval:%b", b"eval_perplexity_loss: "),
            (rb"(?m)^[ \t]{0,8}eval: bucket (\d{1,3})%b", rb"eval_bucket_\1_perplexity_loss: "),
        )
    ),
    # context2vec: 2000100 words, 113.03 sec, 8851.34 words/sec, 0.5178 accum_loss/word, 0.51
    # cur_loss/word, on one line
    Normalization(
        (b" words/sec, ", b" accum_loss/word, "),
        rb"(?m)^(\d{1,15}) words, [\d.]{1,12} sec, [\d.]{1,12} words/sec, (%b) accum_loss/word, "
        rb"(%b) cur_loss/word" % (NUMBER_PATTERN, NUMBER_PATTERN),
        rb"step \1 loss: \3 mean loss: \2",
    ),
    # After 1000 training step(s), loss on training batch is 0.512.
    Normalization(
        (b"After ", b" training step", b"loss on training batch is "),
        rb"(?m)^After (\d{1,9}) training step(?:s|\(s\))?, loss on training batch is (%b)\.?$"
        % NUMBER_PATTERN,
        rb"step \1 loss: \2",
    ),
    *_right_answers(),
    # Cost on training data: 0.512
    Normalization(
        (b"ost on ", b" data: "),
        rb"(?m)^[Cc]ost on (\w{4,10}) data: (?=%b)" % NUMBER_PATTERN,
        rb"\1 loss: ",
    ),
    # Lightning: Epoch 2, global step 21: 'val_auc' reached 0.951 (best 0.953), saving model to
    # "epoch=2.ckpt" as top 3
    Normalization(
        (b", global step ", b" reached "),
        rb"(?m)^(Epoch \d{1,9}, global step \d{1,12}): '?([\w/.-]{1,60})'? reached (%b) "
        rb"\(best %b\), saving model to [^\n]{0,500}" % (NUMBER_PATTERN, NUMBER_PATTERN),
        rb"\1, \2: \3",
    ),
    # Statistics of one value: Reward: mean=3.06, min=1.92, max=10.06
    Normalization(
        (b": mean",),
        rb"\b([A-Za-z]{0,20}(?:[Rr]eward|[Rr]eturn|[Ss]core|[Ll]oss)(?:es|s)?): "
        rb"mean(?:=|: ?| )(?=%b)" % NUMBER_PATTERN,
        rb"\1_mean=",
    ),
    # Accs: Train: 0.7351, Val: 0.7079, Test: 0.6753
    Normalization(
        (b"cc", b"rain: ", b"al: "),
        rb"\b[Aa]cc(?:s|uracy|uracies)?[:=]? {0,2}[(\[-]? ?[Tt]rain: ?(%b)([,; |]{1,3})"
        rb"[Vv]al(?:id)?: ?(%b)(?:[,; |]{1,3}[Tt]est: ?(%b))?"
        % (NUMBER_PATTERN, NUMBER_PATTERN, NUMBER_PATTERN),
        lambda match: (
            b"train_acc: %b%bval_acc: %b" % match.group(1, 2, 3)
            + (b"%btest_acc: %b" % match.group(2, 4) if match[4] else b"")
        ),
    ),
    # Avalanche: Top1_Acc_Epoch/train_phase/train_stream/Task003 = 0.8926, of one of several tasks
    Normalization(
        (b"_phase/", b"_stream"),
        rb"(?<![\w/])(\w{1,40})/(train|eval)_phase/\w{1,20}_stream(?:/(?:Task|Exp)\d{1,6}){0,2}"
        rb"(?= = %b)" % NUMBER_PATTERN,
        rb"\2_\1",
    ),
    # NEAT in Python: Population's average fitness: 46.55950 stdev: 7.99549, below
    # ****** Running generation 199 ******. A fitness is maximized.
    Normalization(
        (b"Running generation ", b"Population's average fitness: "),
        rb"Population's average fitness: (?=%b)" % NUMBER_PATTERN,
        b"average_reward: ",
    ),
    # MATLAB: Epoch 25/10000, Time 1.37, Performance 0.00016/1e-12, Gradient 0.25/1e-06, where each
    # value has its goal. The lines below it may have errors of a test.
    Normalization(
        (b", Performance ", b", Gradient "),
        rb"(?m)^(Epoch \d{1,9}/\d{1,9}, Time )[\d.]{1,20}, Performance (%b)/%b, Gradient (%b)/%b"
        rb"(?:, Validation Checks \d{1,9}/\d{1,9})?" % (4 * (NUMBER_PATTERN,)),
        rb"\1, train loss: \2, grad norm: \3",
    ),
)
