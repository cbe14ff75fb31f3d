"""Tables that are written while they are optimized, and the checks on their final state."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from interbed.catalog.client.api import Catalog
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.optimizing import SelfOptimizing
from interbed.storage.meta.paths import POSTPONE_BUCKET
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.table.table import Table
from interbed.storage.upkeep.health import table_health
from interbed.storage.version.orphans import named_files

KEYED = ("shop.orders", "shop.clients", "shop.prices")
PLAIN = ("shop.visits",)
TABLES = (*KEYED, *PLAIN)
TRIGGER = 3
ROWS = 50

_SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("round", pa.int64())])
_OPTIONS = {"write-only": "true", "snapshot.num-retained.min": "2", "snapshot.num-retained.max": "4"}
_VERSIONS = re.compile(
    r"schema/schema-\d+|snapshot/(snapshot-\d+|\.commit-turn)|changelog/changelog-\d+|\w+/(EARLIEST|LATEST)"
)
_KEYED = {"bucket": "2", "num-sorted-run.compaction-trigger": str(TRIGGER)}
_MORE = {"shop.prices": {"deletion-vectors.enabled": "true"}}
_PLAIN = {"self-optimizing.minor.trigger.file-count": "4"}


def make_tables(catalog: Catalog) -> None:
    """Create three tables with a primary key, and one without."""
    catalog.create_database("shop", True)
    for name in KEYED:
        options = {**_OPTIONS, **_KEYED, **_MORE.get(name, {})}
        catalog.create_table(name, Schema.from_pyarrow_schema(_SCHEMA, primary_keys=["id"], options=options), False)
    for name in PLAIN:
        options = {**_OPTIONS, **_PLAIN}
        catalog.create_table(name, Schema.from_pyarrow_schema(_SCHEMA, options=options), False)


def write_round(catalog: Catalog, number: int) -> None:
    """Write rows to all tables; half of a round's rows replace others in tables with a primary key."""
    first = number * ROWS // 2
    rows = pa.table({"id": range(first, first + ROWS), "round": [number] * ROWS}, schema=_SCHEMA)
    for name in KEYED:
        catalog.get_table(name).upsert(rows)
    for name in PLAIN:
        catalog.get_table(name).append(rows)


def check_rows(catalog: Catalog, rounds: int) -> None:
    """Assert that the tables hold exactly the rows of this number of rounds."""
    written = [(number * ROWS // 2 + i, number) for number in range(rounds) for i in range(ROWS)]
    newest = dict(written)
    for name in KEYED:
        assert _rows(catalog.get_table(name)) == Counter(newest.items()), name
    for name in PLAIN:
        assert _rows(catalog.get_table(name)) == Counter(written), name


def check_shape(catalog: Catalog) -> None:
    """Assert that each bucket is within its bounds, and that processes have left no mark and no file."""
    for name in TABLES:
        store = catalog.get_table(name).store
        assert not out_of_shape(store), name
        assert not left_by_processes(store), name


def out_of_shape(store: FileStore) -> list[str]:
    """Return what exceeds the bounds in the options of the table: sorted runs, small files, rows that become readable
    only by a compaction, postponed rows.
    """
    options, health = store.options, table_health(store)
    found = []
    for bucket in health.by_bucket:
        where = f"bucket {bucket.bucket} of {bucket.partition_name or 'the table'}"
        if bucket.bucket == POSTPONE_BUCKET:
            found.append(f"{bucket.files} file(s) wait for their buckets in {where}")
        elif not health.has_primary_key:
            most = SelfOptimizing.of(options.raw).minor_file_count
            if bucket.small_files >= most:
                found.append(f"{bucket.small_files} small files in {where}, not less than {most}")
        elif bucket.runs > options.compaction_trigger:
            most = options.compaction_trigger
            found.append(f"{bucket.runs} sorted runs in {where}, more than {most}")
        elif bucket.level0_files and options.scans_skip_level_0:
            found.append(f"{bucket.level0_files} file(s) of {where} are not read before they are compacted")
    return found


def left_by_processes(store: FileStore) -> set[str]:
    """Return the paths of files that processes of the optimizer delete when they end: marks, and data and index files
    without a reference. Paths are relative to the table.
    """
    return {
        path
        for path in unreferenced_files(store)
        if path.startswith(("snapshot/.write-", "index/")) or "bucket-" in path
    }


def unreferenced_files(store: FileStore) -> set[str]:
    """Return the files below the directory of a table that no snapshot, tag or changelog names, without snapshots,
    tags, changelogs and schemas themselves. Paths are relative to the table.
    """
    root = Path(store.location)
    known = {Path(path).relative_to(root) for path in named_files(store)}
    found = {path.relative_to(root) for path in root.rglob("*") if path.is_file()} - known
    return {str(path) for path in found if not _VERSIONS.fullmatch(str(path))}


def is_in_shape(catalog: Catalog) -> bool:
    """Return whether `check_shape` would pass."""
    try:
        check_shape(catalog)
    except AssertionError:
        return False
    return True


def _rows(table: Table) -> Counter[tuple[int, int]]:
    found = table.scan().to_arrow()
    ids: list[Any] = found["id"].to_pylist()
    rounds: list[Any] = found["round"].to_pylist()
    return Counter(zip(ids, rounds, strict=True))
