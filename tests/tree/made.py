"""Changes to a calm run, and helpers to read its report."""

import numpy as np


def changed(log, *changes):
    """Return a changed copy of a log."""
    for change in changes:
        change(log)
    return log


def drop(*names):
    def change(log):
        for name in names:
            del log[name]

    return change


def cut(n):
    def change(log):
        log.update({name: values[:n] for name, values in log.items()})

    return change


def put(name, where, value):
    def change(log):
        log[name] = np.array(log[name], dtype=np.float64)
        log[name][where] = value

    return change


def add(where, value, name="loss"):
    def change(log):
        log[name][where] += value

    return change


def series(name, values):
    """Log a series that is a function of the number of the record."""

    def change(log):
        log[name] = values(np.arange(len(log["step"])))

    return change


def climb(first=400, height=3.0):
    def change(log):
        log["loss"][first:] += np.linspace(0, height, len(log["loss"]) - first)

    return change


def ramp(name, first, last, begin=300):
    def change(log):
        log[name] = np.full(len(log["step"]), first)
        log[name][begin:] = np.geomspace(first, last, len(log["step"]) - begin)

    return change


def only(name, *stretches):
    """Log a series within some stretches of the records alone."""

    def change(log):
        kept = np.zeros(len(log["step"]), dtype=bool)
        for first, end in stretches:
            kept[first:end] = True
        log[name] = [float(x) if here else None for x, here in zip(log[name], kept, strict=True)]

    return change


def records(log):
    """Return the records of a log, without the fields that they lack."""
    each = ({name: values[at] for name, values in log.items()} for at in range(len(log["step"])))
    return [{name: x for name, x in record.items() if x is not None} for record in each]


def sometimes(log, name, where):
    """Return the records of a log, with a field in only some of them."""
    return [
        {key: float(x[at]) for key, x in log.items() if key != name or where[at]}
        for at in range(len(where))
    ]


def answer_to(report, question):
    """Return the answer about the whole run, or about the part before its NaN."""
    findings = [answer for answer in report.tree.answers if answer.question == question]
    assert findings, (
        f"{question} was not asked: {[answer.question for answer in report.tree.answers]}"
    )
    return findings[0]
