from stabdiag.readers.copyable import Copyable


class Part(Copyable):
    def __init__(self) -> None:
        self.counts = {"loss": [1]}
        self.names = {"loss"}


class Log(Copyable):
    def __init__(self) -> None:
        self.part = Part()
        self.lines = ["step 1"]


def test_additions_to_a_copy_do_not_change_the_original() -> None:
    log = Log()
    other = log.copy()
    other.part.counts["loss"].append(2)
    other.part.names.add("lr")
    other.lines.append("step 2")
    assert (log.part.counts, log.part.names, log.lines) == ({"loss": [1]}, {"loss"}, ["step 1"])
