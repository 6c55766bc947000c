"""Many runs: every log of a sweep, a cluster or a bucket as one row, and what the rows say."""
