"""The recorder is tested where PyTorch is installed: ``make test-torch``."""

import os
from importlib.util import find_spec

# Workers run in parallel. Threads that wait for each other would slow them all down.
os.environ.setdefault("OMP_NUM_THREADS", "1")

collect_ignore_glob = [] if find_spec("torch") else ["*.py"]
