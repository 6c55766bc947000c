"""Statistics: arrays in, numbers out. No input or output, no history, no limits.

How a spike is found: ``rolling`` gives the level and the deviation to expect of each point,
``tails`` how far the run's own noise reaches, ``spikes`` the points and stretches beyond that;
``peaks`` drops what the run does elsewhere as well, and ``shape`` tells how a spike rose and
whether it recovered.

How a climb is found: ``rise`` holds the last level against the best one (``levels``), by what the
run did and undid before, with the test of ``trend``; ``smooth`` tells when its cause had begun.
"""
