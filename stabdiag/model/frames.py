"""Results as pandas DataFrames. Only this module imports pandas, and only on use."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import pandas as pd

    from stabdiag.model.arrays import AnyArray, Floats, Ints

    DataFrame: TypeAlias = pd.DataFrame
    PandasSeries: TypeAlias = "pd.Series[float]"


def data_frame(
    columns: Mapping[str, AnyArray | Sequence[object]], *, counts: Collection[str] = ()
) -> DataFrame:
    """Return a DataFrame; ``counts`` are columns of whole numbers that may be missing."""
    import pandas as pd

    frame = pd.DataFrame(dict(columns))
    return frame.astype(dict.fromkeys(counts, "Int64"))


def indexed_series(values: Floats, steps: Ints, name: str) -> PandasSeries:
    """Return a pandas Series that shares the memory of its values."""
    import pandas as pd

    return pd.Series(values, index=pd.Index(steps, name="step"), name=name, copy=False)
