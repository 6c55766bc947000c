"""What everything speaks of, as plain data: roles, histories, manifests, limits, reports."""
