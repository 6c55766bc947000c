"""Symptoms: what can be read off a log beside the decision tree, one module a family."""

from stabdiag.symptoms import generalisation, learning, schedule
from stabdiag.symptoms.symptom import Symptom

SYMPTOMS: tuple[Symptom, ...] = (
    *learning.SYMPTOMS,
    *generalisation.SYMPTOMS,
    *schedule.SYMPTOMS,
)

BY_SLUG = {symptom.slug: symptom for symptom in SYMPTOMS}

__all__ = ["BY_SLUG", "SYMPTOMS", "Symptom"]
