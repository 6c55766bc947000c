"""Symptoms of a loss that does not fall, stops early, oscillates, or falls too well."""
