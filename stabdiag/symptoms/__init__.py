"""Symptoms: what can be read off a log beside the decision tree, by family.

Learning is ``stuck``, ``expected`` and ``swings``; generalisation, data, gradients, weights,
schedule, precision, resume and throughput follow, the larger ones in several modules.
"""

from stabdiag.symptoms import (
    activations,
    clipping,
    data,
    expected,
    generalisation,
    gradients,
    layers,
    memory,
    precision,
    resume,
    schedule,
    spiking,
    stall,
    stuck,
    swings,
    throughput,
    weights,
)
from stabdiag.symptoms.symptom import Symptom

SYMPTOMS: tuple[Symptom, ...] = (
    *stuck.SYMPTOMS,
    *expected.SYMPTOMS,
    *swings.SYMPTOMS,
    *generalisation.SYMPTOMS,
    *data.SYMPTOMS,
    *spiking.SYMPTOMS,
    *gradients.SYMPTOMS,
    *clipping.SYMPTOMS,
    *layers.SYMPTOMS,
    *weights.SYMPTOMS,
    *activations.SYMPTOMS,
    *schedule.SYMPTOMS,
    *precision.SYMPTOMS,
    *resume.SYMPTOMS,
    *throughput.SYMPTOMS,
    *stall.SYMPTOMS,
    *memory.SYMPTOMS,
)

BY_SLUG = {symptom.slug: symptom for symptom in SYMPTOMS}

__all__ = ["BY_SLUG", "SYMPTOMS", "Symptom"]
