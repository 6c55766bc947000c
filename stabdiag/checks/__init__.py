"""Lists to tick: of a manifest before a launch, and of a report after a failure."""
