"""Standard values of a judgment: how many points, which part, how far, how unlikely.

A check takes its constants from here, unless its data need another value: that one is defined next
to the check, with its reason. Thresholds that users may change are limits.
"""

from __future__ import annotations

# This many consecutive points are not a single outlier; the median of fewer tolerates none.
MIN_CONSECUTIVE = 3

# Up to this many events may be accidents. If they happen more often, they are usual for the run.
FEW_EVENTS = 3

# The level next to an event is the median of this many points, which tolerates two outliers.
CONTEXT_POINTS = 5

# Fewer groups, layers or measurements than this cannot be compared with each other.
MIN_COMPARED = 4

# Fewer values than this do not determine a level or its noise.
MIN_SAMPLE = 8

# Fewer consecutive points than this show no trend: no order of them is unlikely, and a level
# estimated from them is noisier than the points.
MIN_TREND_POINTS = 10

# Fewer points do not show how a run develops: this is three in each tenth of it.
LEAST = 30

# With this many points, a trend can be distinguished from noise.
MIN_LONG_LOG = 100

# A trend, or the usual changes of the level, are measured over this many points or means at most.
MAX_TREND_POINTS = 400

# Long logs are processed in chunks of this many points: results stay in the cache, and copies take
# little memory.
CACHED_POINTS = 1 << 14

# This many values are enough to estimate a median or a deviation.
SUBSAMPLE_SIZE = 20_000

# A run is summarized by the medians of this many equal parts. Its beginning and its end are
# thirds, quarters, tenths or twentieths of it.
THIRDS = 3
QUARTERS = 4
TENTHS = 10
TWENTIETHS = 2 * TENTHS

# Parts of a whole. A change below a twentieth is negligible: a network reaches that by memorizing
# its batches.
NEGLIGIBLE = 0.05
TENTH = 0.1
FIFTH = 0.2
QUARTER = 0.25
THIRD = 1 / THIRDS
HALF = 0.5
MAJORITY = 0.8
NEARLY_ALL = 0.9

# A run this far into its planned steps is complete.
COMPLETE = 1 - NEGLIGIBLE

# Ratios of two levels: clearly different, twice, far apart, and other orders of magnitude.
CLEAR_RATIO = 1.5
TWICE = 2.0
FAR_RATIO = 5.0
TENFOLD = 10.0
HUNDREDFOLD = 100.0

# A change by three standard deviations happens by chance once in 700 runs. A score above five is
# clear by itself: normal noise reaches it once in 3.5 million points.
BEYOND_CHANCE = 3.0
CLEAR = 5.0

# The maximum p-value of a pattern among a few, and of one among many.
MAX_CHANCE = 0.05
MAX_CHANCE_OF_MANY = 0.001

# Values that differ by less than this fraction may be equal but printed with fewer digits.
RELATIVE_TOLERANCE = 0.01

# A change of one unit of the last printed digit may be rounding.
ROUNDING_DIGITS = 1.5

# A difference below this fraction of a value is rounding in a sum.
RELATIVE_EPS = 1e-9

# A divisor or an argument of a logarithm is at least this.
TINY = 1e-300
