"""The limits of the symptoms, a class for each family."""

from __future__ import annotations

from stabdiag.model.frozen import frozen
from stabdiag.model.limits.declare import limit


@frozen(eq=True)
class LearningLimits:
    """A loss that does not fall, stops early, oscillates, or falls too well."""

    constant_points: int = limit(20, unit="logged points", at_least=5)
    """A loss with the same digits at this many final points is not being trained. Fewer suffice
    if it has four digits or more and has not fallen."""
    min_points: int = limit(20, unit="logged points", at_least=10)
    """Fewer losses than this after the warm-up do not show whether a run learns."""
    min_steps: int = limit(500, unit="steps", at_least=1)
    """A run may make no progress for this long after its warm-up before it counts as stuck. Logs
    of epochs use min_points."""
    min_steps_ended: int = limit(100, unit="steps", at_least=1)
    """The same for a run that has ended: its learning rate has decayed to a tenth of its peak, or
    it has trained all the manifest's steps."""
    memorized_fraction: float = limit(0.9, unit="of log K", at_least=0.5, at_most=1.0)
    """A run whose evaluations are all at chance, and whose loss ends above this fraction of it, has
    only memorized."""
    chance_band: float = limit(0.01, unit="of log K", at_most=0.2)
    """A loss within this fraction of the logarithm of the number of classes is at chance."""
    min_fall: float = limit(0.01, unit="of the loss", at_most=0.5)
    """A loss that falls by less than this fraction over the whole run has not learned."""
    initial_factor: float = limit(1.5, unit="x log K", at_least=1.05)
    """An untrained classifier starts near log K. One this factor above it is confidently wrong; one
    below may be pretrained."""
    untrained_loss: float = limit(14.0, unit="nats", at_least=1.0)
    """A mean cross-entropy above this gives the right class a probability of one in a million. No
    untrained model is that confident."""
    swing: float = limit(2.0, unit="x", at_least=1.1)
    """The loss swings if it rises by this factor and falls again."""
    swings: int = limit(2, unit="swings", at_least=1)
    """This many swings are an oscillation. One is a spike or a climb: the tree judges it."""
    above_start: float = limit(1.5, unit="x the first loss", at_least=1.05)
    """A loss that swings around a level this factor above its start is worse than no training."""
    climb: float = limit(0.1, unit="of the level", at_most=10.0)
    """A loss that climbs by this fraction while the learning rate is high, and comes down only as
    it decays, had too high a rate."""
    small_fall: float = limit(0.3, unit="of the loss", at_most=1.0)
    """A loss that fell by less than this fraction has hardly begun to fall if it did so along a
    straight line."""
    constant_slope: float = limit(0.6, unit="of the early slope", at_most=1.0)
    """A loss whose fall for each unit of learning rate is still this fraction of what it was has
    not slowed."""
    above_target: float = limit(1.1, unit="x the target", at_least=1.0)
    """A loss that goes flat this factor above the manifest's target stopped early."""
    suspicious_loss: float = limit(0.01, unit="of log K", at_most=0.5)
    """A loss below this fraction of chance means nearly every answer is known. Text is not that
    predictable."""
    min_classes: int = limit(128, unit="classes", at_least=2)
    """A loss near zero is normal with fewer classes than this. This many are a vocabulary."""


@frozen(eq=True)
class GeneralizationLimits:
    """An evaluation loss that does not follow the training loss."""

    min_evaluations: int = limit(3, unit="evaluations", at_least=3)
    """Fewer evaluations than this show no trend."""
    eval_rise: float = limit(0.1, unit="of its best")
    """An evaluation loss that ends this fraction above its best has turned."""
    train_fall: float = limit(0.05, unit="of the loss", at_most=1.0)
    """The training loss still falls if it fell by this fraction since the best evaluation."""
    gap: float = limit(1.5, unit="x", at_least=1.1)
    """An evaluation loss this factor above the training loss from the first evaluation on is
    measured differently."""
    early: float = limit(0.1, unit="of the run", at_most=0.5)
    """The gap must be there by the end of this first part of the run, before a model can have
    memorized much, and stay."""
    augmentation: float = limit(4.0, unit="x", at_least=1.1)
    """Dropout and augmentation raise a training loss up to this factor above the evaluation loss.
    Above it, one of the two is measured differently."""
    collapsed_score: float = limit(0.4, unit="of its best", at_least=0.01, at_most=0.95)
    """A score that ends below this fraction of its best value has collapsed. In healthy runs,
    scores vary by a tenth."""
    underfit: float = limit(0.7, unit="of log K", at_least=0.1, at_most=1.0)
    """A training loss that ends above this fraction of chance has learned little."""


@frozen(eq=True)
class DataLimits:
    """What the order of the batches does to the loss."""

    epoch_jump_sigma: float = limit(4.0, unit="deviations of the loss's other steps", at_least=1.0)
    """The loss jumps at epoch boundaries if its usual jump there is this many times its changes
    elsewhere."""
    epoch_jump_fraction: float = limit(0.02, unit="of the loss's level", at_most=1.0)
    """A jump at epoch boundaries smaller than this fraction of the loss does not matter."""
    repeated_batches: int = limit(5, unit="batches", at_least=1)
    """Fewer repeated batches than this may be retried steps."""
    spike_sigma: float = limit(10.0, unit="robust deviations", at_least=4.0)
    """A loss this far above the level around it counts as one of many spikes."""
    spike_fraction: float = limit(0.3, unit="of the loss's level", at_most=10.0)
    """Spikes lower than this fraction of the level they rise from are noise."""
    spike_count: int = limit(4, unit="spikes", at_least=2)
    """Fewer spikes than this are single events, which the tree judges."""
    tail_sigma: float = limit(20.0, unit="robust deviations", at_least=4.0)
    """A loss this far above its level, and above the next, is reported as a heavy tail even if the
    noise may reach as high."""


@frozen(eq=True)
class GradientLimits:
    """Gradient norms outside the tree."""

    explode_ratio: float = limit(100.0, unit="x lowest level", at_least=2.0)
    """A gradient norm that ends this far above its lowest level, while the loss worsens or stalls,
    is exploding. Healthy norms rise up to tenfold late in training."""
    vanish_ratio: float = limit(0.001, unit="x early level", at_most=0.5)
    """A gradient norm that falls below this fraction of its early level while most of the loss is
    left has vanished."""
    clip_rate: float = limit(0.95, unit="of the points", at_least=0.5, at_most=1.0)
    """A gradient clipped at this fraction of the logged points is in effect normalized: the
    threshold sets the step size."""
    clip_depth: float = limit(10.0, unit="x the clip threshold", at_least=1.0)
    """A gradient usually this many times the threshold is cut to a tenth or less. Pascanu et al.
    2013 use thresholds of half to ten times the average norm."""
    clip_far: float = limit(50.0, unit="x the clip threshold", at_least=1.0)
    """A gradient usually this many times the threshold has another unit, or comes from weights or
    inputs out of scale. In healthy runs it is up to twenty times the threshold."""
    depth_ratio: float = limit(0.001, unit="x last layer", at_most=0.5)
    """A gradient norm that falls below this fraction of the last layer's on its way to the first
    has vanished. Layers of healthy networks differ by a factor of about ten."""
    layer_ratio: float = limit(100.0, unit="x median of the groups", at_least=2.0)
    """A group whose gradient norm is this far from the median of all groups, and far outside their
    spread, is an outlier. Layers normally differ by about ten."""


@frozen(eq=True)
class WeightLimits:
    """Weight norms, updates and activations over a whole run."""

    norm_growth: float = limit(10.0, unit="x", at_least=1.1)
    """A weight norm that grows by this factor after the first tenth of the run, and keeps growing,
    runs away. Healthy ones settle, most below twice."""
    norm_loss: float = limit(0.1, unit="x", at_most=0.9)
    """A weight norm that shrinks to this fraction after the first tenth of the run, and keeps
    shrinking, is collapsing to zero."""
    update_high: float = limit(0.1, unit="of the weights", source="convention")
    """Updates are normally about a thousandth of the weights. At this size, a few steps replace
    them."""
    update_low: float = limit(1e-6, unit="of the weights", source="convention")
    """Updates this small change nothing within a run."""
    max_dead_fraction: float = limit(0.5, unit="of the neurons", at_least=0.01, at_most=1.0)
    """A layer with this fraction of its neurons always at zero has lost its capacity."""
    max_saturated_fraction: float = limit(
        0.5, unit="of the activations", at_least=0.01, at_most=1.0
    )
    """Activations at their bound pass no gradient. A layer with this fraction stops learning."""
    large_logit: float = limit(100.0, unit="attention logit", at_least=1.0)
    """A softmax over logits this large gives all weight to one token in bf16. They are reported if
    they grew tenfold to get there and still grow."""
    entropy_fraction: float = limit(0.1, unit="x early level", at_most=0.9)
    """Attention whose entropy falls to this fraction of its early level looks at one token."""


@frozen(eq=True)
class ScheduleLimits:
    """A learning rate that does not do what was meant."""

    at_peak: float = limit(0.95, unit="of the peak", at_least=0.1, at_most=1.0)
    """A learning rate of this fraction of its peak counts as at the peak."""
    early: float = limit(0.05, unit="of the run", at_least=0.001, at_most=0.5)
    """A missing warm-up shows in the loss during this first part of the run."""
    early_rise: float = limit(1.2, unit="x the first loss", at_least=1.0)
    """Without a warm-up it needs, the loss rises this far above its start, for more than one
    step."""
    warmup_tolerance: float = limit(2.0, unit="x", at_least=1.01)
    """The logged warm-up contradicts the manifest if its length differs by more than this
    factor."""
    floor: float = limit(0.01, unit="of the peak", at_most=0.5)
    """A learning rate at or below this fraction of its peak no longer trains."""
    at_floor: float = limit(0.15, unit="of the run", at_least=0.01, at_most=1.0)
    """This fraction of a run at the floor is wasted compute."""
    jump: float = limit(1.5, unit="x the peak before", at_least=1.01)
    """A learning rate that jumps this factor above its highest value so far is not a restart of its
    schedule."""


@frozen(eq=True)
class OverflowLimits:
    """Skipped steps, and numbers too small for the dtype."""

    skipped_fraction: float = limit(0.05, unit="of the steps", at_most=1.0)
    """A working scaler skips at most one step in a hundred. More is lost compute."""
    min_epsilon: float = limit(1e-7, unit="epsilon", source="smallest fp16 number, 6e-8")
    """An epsilon below this is zero in fp16, and so is a small second moment: the update divides by
    zero."""


@frozen(eq=True)
class ResumeLimits:
    """What a resume may change."""

    points: int = limit(10, unit="logged points", at_least=3)
    """The loss is compared over this many points before and after a resume."""
    jump_sigma: float = limit(6.0, unit="deviations of the loss's other steps", at_least=1.0)
    """The loss jumps at a resume if it rises by this many times its changes elsewhere."""
    paired_sigma: float = limit(3.0, unit="standard errors", at_least=1.0)
    """Where a resume goes over steps again, the loss came back worse if at the same steps it is
    higher by this many standard errors of the mean difference."""
    lr_ratio: float = limit(1.5, unit="x", at_least=1.01)
    """A learning rate that differs by this factor across a resume does not continue its
    schedule."""
    gap_ratio: float = limit(10.0, unit="x usual distance", at_least=2.0)
    """Logged steps this much farther apart than their neighbors have a gap between them."""


@frozen(eq=True)
class ThroughputLimits:
    """Speed, stalls and memory."""

    drop_ratio: float = limit(0.7, unit="x earlier level", at_most=1.0)
    """A throughput that ends below this fraction of its earlier sustained level has dropped."""
    lost_fraction: float = limit(0.2, unit="of the time", at_least=0.01, at_most=1.0)
    """Slow steps, or a slow rank, that cost this fraction of the time are worth a look. Evaluation
    and checkpoints cost a few per cent."""
    data_fraction: float = limit(0.5, unit="of the step", at_least=0.01, at_most=1.0)
    """Steps that spend this fraction of their time waiting for data leave the accelerator idle. A
    loader that keeps up costs a few per cent."""
    min_mfu: float = limit(0.2, unit="of the peak FLOP/s", at_most=1.0, source="convention")
    """Well-tuned transformers reach 0.3 to 0.6 of an accelerator's peak."""
    stall_ratio: float = limit(20.0, unit="x usual interval", at_least=2.0)
    """A pause this many times the usual interval between two records is a stall."""
    stall_seconds: float = limit(600.0, unit="seconds", at_least=1.0)
    """Shorter pauses are evaluation, checkpoints or compilation."""
    memory_growth: float = limit(0.2, unit="of the early level", at_least=0.01)
    """Memory that has grown by this fraction since the first tenth of the run, and keeps growing,
    ends in an out-of-memory error."""


@frozen(eq=True)
class RecordedLimits:
    """Additional columns of the recorder."""

    multiple: float = limit(1.5, unit="x the logged loss", at_least=1.01)
    """A backward pass from the logged loss has a factor of 1. Without the division by the number of
    accumulated batches, it is that number."""
    idle_fraction: float = limit(0.05, unit="of the weights", at_most=1.0)
    """Models often have a small unused part. This much without a gradient is a detached branch."""
    batch_norm_values: int = limit(4, unit="values per channel", at_least=1)
    """The variance of n values is off by √(2/(n−1)): of 4, by four fifths."""
    initial_low: float = limit(0.1, unit="x 1/√fan-in", at_most=1.0)
    """Initial weights this small let the signal vanish within a few layers. Usual schemes are
    between 0.4 and 1.5."""
    initial_high: float = limit(4.0, unit="x 1/√fan-in", at_least=1.0)
    """Initial weights this large saturate softmax and tanh from the first step."""
    label_order: float = limit(0.5, unit="correlation", at_least=0.1, at_most=1.0)
    """Class histograms of neighboring batches correlate by 0.07 at most in shuffled data, and by
    0.94 or more in sorted data."""
    lost_updates: float = limit(0.5, unit="of the weights", at_least=0.05, at_most=1.0)
    """bf16 drops an update below 1/512 of the weight. Failed runs lose 62 to 86 % of them, healthy
    ones up to 17 %."""
    average_gain: float = limit(0.1, unit="of the held loss", at_least=0.01, at_most=1.0)
    """Runs that end at their noise floor gain 18 to 56 % by averaging their last weights, healthy
    ones 4 % at most."""
    training_excess: float = limit(5.0, unit="standard errors", at_least=2.0)
    """Trained examples are usually easier than held ones. This far above them, their labels are
    wrong or they are other data."""
