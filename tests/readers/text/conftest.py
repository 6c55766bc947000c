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
    """Read a text, and return its columns: what is written in each, None where nothing is."""

    def of(name, text):
        columns = read(name, text)
        loaded = {one: columns.load(one) for one in columns.names}
        return {
            one: [
                value if there else None
                for value, there in zip(
                    column.values.tolist(), column.present.tolist(), strict=True
                )
            ]
            for one, column in loaded.items()
        }

    return of
