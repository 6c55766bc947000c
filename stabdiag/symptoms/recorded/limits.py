"""The limits of this family: ``limits.recorded``."""

from __future__ import annotations

from stabdiag.model.frozen import frozen
from stabdiag.model.limit import limit


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
    batch_norm_examples: int = limit(2, unit="examples", at_least=0)
    """Wu & He 2018 (arXiv:1803.08494): with 2 images per device instead of 32, batch norm costs
    ResNet-50 11 points of accuracy on ImageNet."""
    initial_low: float = limit(0.1, unit="x 1/√fan-in", at_most=1.0)
    """Initial weights this small let the signal vanish within a few layers. Usual schemes are
    between 0.4 and 1.5."""
    initial_high: float = limit(4.0, unit="x 1/√fan-in", at_least=1.0)
    """Initial weights this large saturate softmax and tanh from the first step."""
    label_order: float = limit(0.5, unit="correlation", at_least=0.1, at_most=1.0)
    """Class histograms of neighboring batches correlate by 0.07 at most in shuffled data, and by
    0.94 or more in sorted data."""
    input_scale: float = limit(1.5, unit="x the usual deviation", at_least=1.1)
    """Augmentation that is switched off changes the scale of the inputs by a few percent; a missing
    normalization, by more than this."""
    input_outlier: float = limit(3.0, unit="x the usual deviation", at_least=1.5)
    """Rare batches vary more. This far from the others, as a group of their own, they are bad."""
    lost_updates: float = limit(0.5, unit="of the weights", at_least=0.05, at_most=1.0)
    """bf16 drops an update below 1/512 of the weight. Failed runs lose 62 to 86 % of them, healthy
    ones up to 17 %."""
    average_gain: float = limit(0.1, unit="of the held-out loss", at_least=0.01, at_most=1.0)
    """Runs that end at their noise floor gain 18 to 56 % by averaging their last weights, healthy
    ones 4 % at most."""
    training_excess: float = limit(5.0, unit="standard errors", at_least=2.0)
    """Trained examples are usually easier than held-out ones. This far above them, their labels are
    wrong or they are other data."""
