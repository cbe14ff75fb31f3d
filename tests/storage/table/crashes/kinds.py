"""The kinds of tables whose operations are killed, and their rows. All have the columns p INT, id BIGINT and v BIGINT.

Kinds differ in the files that a write creates: keys, buckets, partitions, deletion vectors, changelogs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.storage.table.table import Table

LATER = 4_102_444_800
"""Seconds since the epoch: long after every file of the tests was written."""

NAME = "d.t"
BRANCH = "work"
SCHEMA = pa.schema(
    (
        pa.field("p", pa.int32(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("v", pa.int64()),
    )
)
_QUICK = {
    "num-sorted-run.compaction-trigger": "3",
    "commit.max-retries": "3",
    "commit.min-retry-wait": "1 ms",
    "commit.max-retry-wait": "2 ms",
}
Row = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Kind of table: its keys, partitions and options."""

    keys: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    sums: bool = False
    """Whether a row that is written again is added again."""

    @property
    def repeats_add(self) -> bool:
        """Whether repeating a write changes the rows."""
        return self.sums or not self.keys

    @property
    def evolves(self) -> bool:
        """Whether files have some columns of their rows."""
        return "data-evolution.enabled" in self.options

    @property
    def has_changelog(self) -> bool:
        """Whether changes are recorded in changelog files."""
        return "changelog-producer" in self.options


def _changelog(producer: str, **options: str) -> Kind:
    return Kind(keys=("id",), options={"bucket": "1", "changelog-producer": producer, **options})


_VECTORS = {"deletion-vectors.enabled": "true"}
KINDS: dict[str, Kind] = {
    "append": Kind(options={"bucket": "-1", "compaction.min.file-num": "2"}),
    "append with buckets": Kind(options={"bucket": "2", "bucket-key": "id"}),
    "append with vectors": Kind(options={"bucket": "-1", **_VECTORS}),
    "append with partitions": Kind(partitions=("p",), options={"bucket": "-1", "compaction.min.file-num": "2"}),
    "append with row ids": Kind(
        options={"bucket": "-1", "compaction.min.file-num": "2", "row-tracking.enabled": "true"}
    ),
    "append with columns": Kind(
        options={
            "bucket": "-1",
            "compaction.min.file-num": "2",
            "row-tracking.enabled": "true",
            "data-evolution.enabled": "true",
        }
    ),
    "key": Kind(keys=("id",), options={"bucket": "2"}),
    "key with partitions": Kind(keys=("p", "id"), partitions=("p",), options={"bucket": "1"}),
    "dynamic buckets": Kind(keys=("id",), options={"bucket": "-1"}),
    "keys across partitions": Kind(keys=("id",), partitions=("p",), options={"bucket": "-1"}),
    "postponed buckets": Kind(keys=("id",), options={"bucket": "-2"}),
    "vectors": Kind(keys=("id",), options={"bucket": "1", **_VECTORS}),
    "lookup changelog": _changelog("lookup"),
    "lookup changelog with vectors": _changelog("lookup", **_VECTORS),
    "full changelog": _changelog("full-compaction"),
    "input changelog": _changelog("input"),
    "changelog that outlives": _changelog(
        "input",
        **{"changelog.time-retained": "9 d", "changelog.num-retained.min": "1", "snapshot.num-retained.min": "1"},
    ),
    "first row": Kind(keys=("id",), options={"bucket": "1", "merge-engine": "first-row"}),
    "sums": Kind(
        keys=("id",),
        options={"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
        sums=True,
    ),
}


def new_table(catalog: FileSystemCatalog, kind: Kind) -> Table:
    """Create an empty table of that kind."""
    return catalog.create_table(
        NAME,
        SCHEMA,
        partition_keys=list(kind.partitions),
        primary_keys=list(kind.keys),
        options={**_QUICK, **kind.options},
    )


def batch(*rows: Row) -> pa.Table:
    """The rows as a batch for a write."""
    columns = [[row[n] for row in rows] for n in range(3)]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)


def put(table: Table, *values: int) -> None:
    """Make one commit for each value: it updates row 1 and adds a row of the value's own."""
    for value in values:
        table.append(batch((1, 1, value), (value % 2, 100 + value, value)))
