"""The data classes of all packages: roles, histories, manifests, limits, reports."""
