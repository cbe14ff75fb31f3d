"""Small tables whose rows have a key, a partition, and the commit that wrote them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

import interbed
from interbed.storage.meta.manifest.index_manifest import HASH_INDEX
from interbed.storage.scan.live_files import RestoredBuckets, restore_buckets
from interbed.storage.table.table import Table

SCHEMA = pa.schema((("id", pa.int64()), ("v", pa.string()), ("dt", pa.string())))


def make_table(
    directory: Path,
    options: Mapping[str, str],
    *,
    primary_keys: Sequence[str] = ("dt", "id"),
    partition_keys: Sequence[str] = ("dt",),
) -> Table:
    """Create a table `db.t` in a warehouse of its own."""
    catalog = interbed.load_catalog("test", warehouse=f"file:{directory}")
    catalog.create_database("db", ignore_if_exists=True)
    return catalog.create_table(
        "db.t",
        SCHEMA,
        primary_keys=list(primary_keys),
        partition_keys=list(partition_keys),
        options=dict(options),
    )


def rows(ids: Iterable[int], v: str | None = "v", dt: str = "a") -> pa.Table:
    """Rows with the given keys."""
    keys = list(ids)
    return pa.table({"id": keys, "v": pa.array([v] * len(keys), pa.string()), "dt": [dt] * len(keys)})


def read(table: Table) -> dict[tuple[str, int], str | None]:
    """The table's rows: the value by partition and key, each of which must occur once."""
    found = table.scan().to_arrow().to_pylist()
    values = {(row["dt"], row["id"]): row["v"] for row in found}
    assert len(values) == len(found)
    return values


def expected(*parts: pa.Table) -> dict[tuple[str, int], str | None]:
    """Return the expected result of `read` after these rows were written part by part."""
    return {(row["dt"], row["id"]): row["v"] for part in parts for row in part.to_pylist()}


def restored(table: Table) -> RestoredBuckets:
    """Return the state of the buckets in the newest snapshot."""
    return restore_buckets(table.store)


def index_counts(table: Table) -> dict[tuple[str, int], int]:
    """Return the number of hashes in the index of each bucket, by partition and bucket."""
    found = restored(table)
    return {
        (table.store.paths.partition_directory(bucket_id.partition), bucket_id.bucket): file.row_count
        for bucket_id in found.buckets()
        for file in found.index_files(bucket_id)
        if file.index_type == HASH_INDEX
    }


def index_directory(directory: Path) -> Path:
    """Return the directory of the table's index files."""
    return directory / "db.db" / "t" / "index"
