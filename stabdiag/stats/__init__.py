"""Statistics: arrays in, numbers out. No input or output, no history, no limits.

Spikes: ``rolling`` computes the expected level and deviation of each point, ``tails`` the limit of
the run's own noise, and ``spikes`` the points and stretches beyond it. ``peaks`` discards peaks
that are usual for the run, and ``shape`` describes how a spike rose and whether it recovered.

Climbs: ``rise`` compares the last level with the best one (``levels``), relative to earlier rises
that recovered, with the test of ``trend``. ``smooth`` dates the onset of the cause.

Everything else: ``course`` measures the start, the end, the noise and equal parts of any series.
"""
