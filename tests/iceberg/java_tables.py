"""Iceberg tables that Java wrote, read by interbed and by Spark."""

from typing import Any

import pyarrow as pa

from interbed.iceberg.table import IcebergTable, load_iceberg_table
from tests.support.peers.iceberg import IcebergPeer


def ours(peer: IcebergPeer, table: str) -> IcebergTable:
    """Return the table as interbed reads it, opened at its current version."""
    return load_iceberg_table(peer.metadata(table), name=table)


def ordered(answer: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows in a total order; strings and bytes become comparable, and NaN equals itself."""
    return sorted((tuple(map(_plain, row.values())) for row in answer.to_pylist()), key=repr)


def assert_alike(peer: IcebergPeer, table: str) -> list[tuple[Any, ...]]:
    """Assert that interbed and Spark read the same rows, and that interbed counts as many. Return the rows."""
    expected = peer.rows(table)
    found = ours(peer, table)
    rows = found.scan().to_arrow()
    assert rows.column_names == expected.column_names
    assert ordered(rows) == ordered(expected)
    assert found.count() == len(rows)
    return ordered(rows)


def _plain(value: Any) -> Any:
    match value:
        case bytearray():
            return bytes(value)
        case float():
            return repr(value)
        case list() | tuple():
            return tuple(map(_plain, value))
        case dict():
            return tuple((key, _plain(inner)) for key, inner in value.items())
    return value
