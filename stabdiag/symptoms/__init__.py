"""Symptoms: what can be read off a log beside the decision tree, one module a family."""

from stabdiag.symptoms import (
    data,
    generalisation,
    gradients,
    learning,
    precision,
    resume,
    schedule,
    throughput,
    weights,
)
from stabdiag.symptoms.symptom import Symptom

SYMPTOMS: tuple[Symptom, ...] = (
    *learning.SYMPTOMS,
    *generalisation.SYMPTOMS,
    *data.SYMPTOMS,
    *gradients.SYMPTOMS,
    *weights.SYMPTOMS,
    *schedule.SYMPTOMS,
    *precision.SYMPTOMS,
    *resume.SYMPTOMS,
    *throughput.SYMPTOMS,
)

BY_SLUG = {symptom.slug: symptom for symptom in SYMPTOMS}

__all__ = ["BY_SLUG", "SYMPTOMS", "Symptom"]
