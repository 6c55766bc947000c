"""Logs that change their form: what a reader left out, and the forms that continue it."""
