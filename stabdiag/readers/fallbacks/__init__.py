"""Read texts that no format recognizes as they are: labeled lines, excerpts, summaries."""
