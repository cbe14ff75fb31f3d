"""Statistics of a table and of its columns as values: what ANALYZE gathers and the optimizer reads."""

from dataclasses import dataclass

from interbed.storage.base.frozen import plain_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumnStatistics:
    """What is known of a column; `least` and `greatest` as the column's Python values, lengths in characters or bytes.

    `distinct` is estimated, within about one part in a hundred.
    """

    column_id: int
    distinct: int
    nulls: int
    least: object = None
    greatest: object = None
    average_length: int
    maximal_length: int


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatistics:
    """Rows and bytes of a table as of a snapshot, and the columns that were asked for."""

    snapshot_id: int
    schema_id: int
    row_count: int
    byte_size: int
    columns: dict[str, TableColumnStatistics]
