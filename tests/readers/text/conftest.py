import io

import pytest

from stabdiag.readers.registry import reader
from stabdiag.readers.source import Stream


@pytest.fixture
def read():
    """Read a text by the format of a name."""

    def columns(name, text):
        data = text.encode() if isinstance(text, str) else text
        return reader(name).read(Stream("run.log", io.BytesIO(data)))

    return columns


@pytest.fixture
def values(read):
    """Read a text and return the values of each column, None for absent values."""

    def of(name, text):
        columns = read(name, text)
        loaded = {column_name: columns.load(column_name) for column_name in columns.names}
        return {
            column_name: [
                value if is_present else None
                for value, is_present in zip(
                    column.values.tolist(), column.present.tolist(), strict=True
                )
            ]
            for column_name, column in loaded.items()
        }

    return of
