"""The lines of any log that contain training losses or evaluation losses."""
