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
    learning,
    memory,
    overfitting,
    precision,
    resume,
    resume_data,
    schedule,
    spiking,
    stall,
    stuck,
    swings,
    throughput,
    warmup,
    weights,
)
from stabdiag.symptoms.symptom import Symptom

SYMPTOMS: tuple[Symptom, ...] = (
    *stuck.SYMPTOMS,
    *swings.SYMPTOMS,
    *learning.SYMPTOMS,
    *expected.SYMPTOMS,
    *overfitting.SYMPTOMS,
    *generalisation.SYMPTOMS,
    *data.SYMPTOMS,
    *spiking.SYMPTOMS,
    *gradients.SYMPTOMS,
    *clipping.SYMPTOMS,
    *layers.SYMPTOMS,
    *weights.SYMPTOMS,
    *activations.SYMPTOMS,
    *warmup.SYMPTOMS,
    *schedule.SYMPTOMS,
    *precision.SYMPTOMS,
    *resume.SYMPTOMS,
    *resume_data.SYMPTOMS,
    *throughput.SYMPTOMS,
    *stall.SYMPTOMS,
    *memory.SYMPTOMS,
)

BY_SLUG = {symptom.slug: symptom for symptom in SYMPTOMS}

__all__ = ["BY_SLUG", "SYMPTOMS", "Symptom"]
