"""Record a training run in PyTorch, so that a diagnosis finds what an ordinary log cannot show.

    import stabdiag.torch as sd

    recorder = sd.Recorder(model, optimizer, "run.jsonl")
    for batch in recorder.batches(loader):
        ...
        recorder.step(loss)

Then ``stabdiag diagnose run.jsonl``. This package needs PyTorch and nothing else of stabdiag.
"""

from stabdiag.torch.probe import ProbeResult, probe
from stabdiag.torch.recorder import Recorder
from stabdiag.torch.sanity import SanityResult, sanity

__all__ = ["ProbeResult", "Recorder", "SanityResult", "probe", "sanity"]
