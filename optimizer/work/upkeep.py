"""Upkeep beside compaction. Each kind is done as a whole by one worker, commits by itself, and may be done twice."""

from collections.abc import Callable, Mapping

from interbed.catalog.client.api import Catalog
from interbed.optimizer.flow.kind import WorkKind
from interbed.storage.table.table import Table
from interbed.storage.upkeep.maintenance import carry_out_maintenance

Upkeep = Callable[[Catalog, str, Table], int | None]
"""Does it for a table of a catalog, by its name; the snapshot that it made, None for none."""


def _expire(catalog: Catalog, name: str, table: Table) -> int | None:
    carry_out_maintenance(table.store)
    if table.options.partition_expiration_millis is None:
        return None
    return _newest(table) if catalog.expire_partitions(name) else None


def _orphans(catalog: Catalog, name: str, table: Table) -> int | None:
    table.remove_orphan_files()
    return None


def _manifests(catalog: Catalog, name: str, table: Table) -> int | None:
    return table.compact_manifests()


def _analyze(catalog: Catalog, name: str, table: Table) -> int | None:
    found = table.analyze()
    return None if found is None else _newest(table)


def _rescale(catalog: Catalog, name: str, table: Table) -> int | None:
    return table.rescale().snapshot_id


def _newest(table: Table) -> int | None:
    newest = table.latest_snapshot()
    return None if newest is None else newest.id


UPKEEP: Mapping[WorkKind, Upkeep] = {
    WorkKind.EXPIRE: _expire,
    WorkKind.ORPHANS: _orphans,
    WorkKind.MANIFESTS: _manifests,
    WorkKind.ANALYZE: _analyze,
    WorkKind.RESCALE: _rescale,
}
