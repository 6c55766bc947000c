"""Messages on lines without scalars: reports of failures, warnings, ends of jobs."""
