"""The partitions of a table in a metastore, for tables with `metastore.partitioned-table`, as Paimon registers them.

A partition's entry has the descriptor of its table and the location `<table>/dt=2026-01-31/`, with that last slash.
The values are the text that names its directory. An entry says where a partition is, for Hive and for people; what it
holds is said by the table's snapshots alone, so nobody of Paimon's kind reads less for an entry that is missing.
"""

import copy
import time
from collections.abc import Mapping, Sequence
from typing import Any

from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.client.hive.registration import Locations
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.partition import PartitionStatistics
from interbed.storage.meta.paths import TablePaths, escape_path, unescape_path
from interbed.thrift_idl.hive_metastore.ttypes import Partition as HivePartition

Spec = Mapping[str, str]

_DDL_TIME = "transient_lastDdlTime"


class MetastorePartitions:
    """The entries of one table's partitions. Specifications are complete, their values the text of directories."""

    def __init__(
        self, client: HiveMetastoreClient, identifier: Identifier, paths: TablePaths, locations: Locations
    ) -> None:
        self._client = client
        self._database, self._table = identifier.database, identifier.table
        self._paths = paths
        self._locations = locations

    def specs(self) -> list[dict[str, str]]:
        """The partitions that the metastore has."""
        names = self._client.get_partition_names(self._database, self._table)
        return [self._spec(name) for name in names]

    def create(self, entry: Any, specs: Sequence[Spec], *, if_not_exists: bool = True) -> None:
        """Add entries; `entry` is the table's. PartitionExistsError for one that exists, unless it may.

        Partitions of one directory, as null and the empty text have, get one entry.
        """
        now = int(time.time())
        unique = {tuple(self._values(spec)): spec for spec in specs}
        self._client.add_partitions(
            self._database,
            self._table,
            [self._new(entry, spec, now) for spec in unique.values()],
            if_not_exists=if_not_exists,
        )

    def drop(self, specs: Sequence[Spec]) -> list[Spec]:
        """Remove entries, files left alone; returns those that there were."""
        return [s for s in specs if self._client.drop_partition(self._database, self._table, self._values(s))]

    def report(self, partitions: Sequence[PartitionStatistics]) -> None:
        """Note how much each partition holds; partitions without an entry are passed over."""
        by_values: dict[tuple[str, ...], PartitionStatistics] = {}
        for partition in partitions:
            values = tuple(self._values(partition.spec))
            by_values[values] = _together(by_values.get(values), partition)
        # Metastores fold the case of columns, and not all of them fold that of a name to look for.
        names = [self._name(p.spec, fold=True) for p in by_values.values()]
        entries = self._client.get_partitions_by_names(self._database, self._table, names)
        for entry in entries:
            known = by_values[tuple(entry.values)]
            seconds = known.last_file_creation_time // 1000
            entry.lastAccessTime = seconds
            entry.parameters = {
                **(entry.parameters or {}),
                "numFiles": str(known.file_count),
                "totalSize": str(known.file_size_in_bytes),
                "numRows": str(known.record_count),
                "lastUpdateTime": str(seconds),
                "totalBuckets": str(known.total_buckets),
                _DDL_TIME: str(seconds),
            }
        if entries:
            self._client.alter_partitions(self._database, self._table, entries)

    def move(self, before: str, after: str) -> None:
        """Bring the locations of entries from below one directory of the table to below another one."""
        names = self._client.get_partition_names(self._database, self._table)
        moved: list[Any] = []
        for entry in self._client.get_partitions_by_names(self._database, self._table, names):
            location = self._locations.of(entry)
            if location.startswith(f"{before.rstrip('/')}/"):
                self._locations.set(entry, after.rstrip("/") + location[len(before.rstrip("/")) :])
                moved.append(entry)
        if moved:
            self._client.alter_partitions(self._database, self._table, moved)

    def _new(self, entry: Any, spec: Spec, now: int) -> Any:
        partition = HivePartition(
            values=self._values(spec),
            dbName=self._database,
            tableName=self._table,
            createTime=now,
            lastAccessTime=now,
            sd=copy.copy(entry.sd),
            parameters={},
        )
        root = self._locations.of(entry).rstrip("/")
        if self._paths.data_directory:
            root = f"{root}/{self._paths.data_directory}"
        self._locations.set(partition, f"{root}/{self._name(spec)}/")
        return partition

    def _values(self, spec: Spec) -> list[str]:
        texts = self._paths.in_directories(spec)
        return [texts[name] for name in self._paths.partition_names]

    def _name(self, spec: Spec, *, fold: bool = False) -> str:
        columns = [name.lower() if fold else name for name in self._paths.partition_names]
        names = zip(columns, self._values(spec), strict=True)
        return "/".join(f"{escape_path(n)}={escape_path(v)}" for n, v in names)

    def _spec(self, name: str) -> dict[str, str]:
        # A metastore folds the case of columns; the order is the table's.
        values = [unescape_path(part.partition("=")[2]) for part in name.split("/")]
        return dict(zip(self._paths.partition_names, values, strict=True))


def _together(one: PartitionStatistics | None, other: PartitionStatistics) -> PartitionStatistics:
    """How much two partitions of one directory hold."""
    if one is None:
        return other
    return PartitionStatistics(
        spec=other.spec,
        record_count=one.record_count + other.record_count,
        file_size_in_bytes=one.file_size_in_bytes + other.file_size_in_bytes,
        file_count=one.file_count + other.file_count,
        last_file_creation_time=max(one.last_file_creation_time, other.last_file_creation_time),
        total_buckets=max(one.total_buckets, other.total_buckets),
    )
