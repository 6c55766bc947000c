"""The symptoms of schedule."""

from __future__ import annotations

from stabdiag.symptoms.symptom import Symptom

SYMPTOMS: tuple[Symptom, ...] = ()
