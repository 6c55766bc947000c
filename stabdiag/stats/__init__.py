"""Statistics: arrays in, arrays out. No input or output, no history, no limits.

How ``spikes`` finds a spike, module by module: ``baseline`` gives the level and the deviation to
expect of each point; ``residuals`` are distances from it, of single points and of medians of the
next few; ``tails`` tells how far the run's own noise reaches; ``candidates`` are the places beyond
that, ``shifts`` those where a stretch is too high, ``undone`` those where all progress is lost;
``excursions`` and ``residuals`` drop what the run does elsewhere as well; and ``shape`` tells how a
spike rose and whether it recovered.

How ``rise`` finds a climb: it holds the last level against the best one (``blocks`` has levels and
their noise), by what the run did and undid before, with the trend test of ``trend``. ``onset``
tells where it had begun, ``turn`` when its cause had: a smooth series such as a learning rate.
"""
