"""Numbers that some log may hold."""

import numpy as np

SPECIAL = [
    *(float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0, -1.0, 65536.0, 1e-4, 2.0**32),
    *(1e18, 1e100, 1e101, 1.7e308, -1.7e308, 5e-324, 1e-310, 2.0**53, 2.0**63),
]


def numbers(rng, n):
    """Return one of many kinds of column, poked here and there."""
    with np.errstate(all="ignore"):
        kinds = [
            lambda: np.full(n, rng.choice(SPECIAL)),
            lambda: rng.standard_normal(n),
            lambda: rng.standard_t(2, n) * 10.0 ** rng.uniform(-300, 300),
            lambda: rng.choice(SPECIAL, n),
            lambda: (
                3 + 0.1 * rng.standard_normal(n) + (np.arange(n) > n / 2) * rng.choice([1.0, 1e5])
            ),
            lambda: np.cumsum(rng.standard_normal(n)),
            lambda: np.round(rng.standard_normal(n)),
            lambda: 2.0 ** rng.integers(-1074, 1023, n),
            lambda: np.linspace(*rng.uniform(-5, 5, 2), n) * 10.0 ** rng.uniform(-310, 308),
            lambda: 2.0 ** np.cumsum(rng.choice([-1, 0, 0, 0, 1], n)),
            lambda: 1 + 3 * np.exp(-np.arange(n) / (n / 3 + 1)) + 0.05 * rng.standard_normal(n),
        ]
        column = np.array(kinds[rng.integers(len(kinds))](), dtype=np.float64)
    for _ in range(rng.integers(4) if rng.random() < 0.3 and n else 0):
        column[rng.integers(n)] = rng.choice(SPECIAL)
    if rng.random() < 0.1 and n:
        column[rng.integers(n) :] = np.nan
    return column
