"""Small tables and made-up data files: a commit needs the metadata of files, not their content."""

import itertools
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.row.binary_row import encode_row
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.commit.contention import RetryPolicy
from interbed.storage.io.api import FileIO
from interbed.storage.lsm.compact.rewriter import CompactIncrement
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.scan.scan import TableScan
from interbed.storage.table.opening import open_store, schema_manager
from interbed.storage.write.commit_message import CommitMessage, DataIncrement

KEY = (AtomicType(TypeRoot.BIGINT),)
DT = (AtomicType(TypeRoot.VARCHAR, length=2**31 - 1),)


def quick(retries: int = 10) -> RetryPolicy:
    """Retry without a pause."""
    return RetryPolicy(max_retries=retries, min_wait_millis=1, max_wait_millis=1, sleep=lambda seconds: None)


def partition(dt: str | None) -> bytes:
    """The partition of a day."""
    return encode_row([dt], DT)


def primary_key_table(location: Path | str, file_io: FileIO | None = None, **options: str) -> FileStore:
    """A table (id BIGINT, dt STRING, v STRING), partitioned by dt, with two buckets."""
    schema = Schema.from_pyarrow_schema(
        pa.schema((("id", pa.int64()), ("dt", pa.string()), ("v", pa.string()))),
        partition_keys=["dt"],
        primary_keys=["id", "dt"],
        options={"bucket": "2", **{k.replace("_", "-"): v for k, v in options.items()}},
    )
    schema_manager(str(location)).create_table(schema)
    return open_store(str(location), file_io)


_CREATION_TIMES = itertools.count()
"""The files of a test are created one after the other, as those of a table are."""


def data_file(
    low: int = 0, high: int = 0, *, level: int = 0, rows: int = 1, name: str | None = None, deletes: int | None = 0
) -> DataFileMeta:
    """The metadata of a file with keys from `low` to `high`."""
    return DataFileMeta(
        file_name=name or f"data-{uuid.uuid4()}-0.parquet",
        file_size=100,
        row_count=rows,
        min_key=encode_row([low], KEY),
        max_key=encode_row([high], KEY),
        min_sequence_number=0,
        max_sequence_number=rows,
        schema_id=0,
        level=level,
        creation_time_millis=next(_CREATION_TIMES),
        delete_row_count=deletes,
    )


def message(
    *new: DataFileMeta,
    dt: str | None = "d1",
    bucket: int = 0,
    total: int = 2,
    before: Sequence[DataFileMeta] = (),
    after: Sequence[DataFileMeta] = (),
    deleted: Sequence[DataFileMeta] = (),
) -> CommitMessage:
    """A commit message of one bucket."""
    return CommitMessage(
        bucket_id=BucketId(partition(dt), bucket),
        total_buckets=total,
        data=DataIncrement(new_files=new, deleted_files=tuple(deleted)),
        compaction=CompactIncrement(before=tuple(before), after=tuple(after)),
    )


def with_data(message: CommitMessage, **fields: Any) -> CommitMessage:
    """The message with other fields of its DataIncrement."""
    return replace(message, data=replace(message.data, **fields))


def with_compaction(message: CommitMessage, **fields: Any) -> CommitMessage:
    """The message with other fields of its CompactIncrement."""
    return replace(message, compaction=replace(message.compaction, **fields))


def write_files(store: FileStore, *messages: CommitMessage) -> list[Path]:
    """Write some bytes at the paths of the messages' new files, and return the paths."""
    paths = []
    for m in messages:
        directory = Path(store.paths.bucket_directory(m.bucket_id))
        directory.mkdir(parents=True, exist_ok=True)
        for f in (*m.data.new_files, *m.compaction.after):
            (directory / f.file_name).write_bytes(b"rows")
            paths.append(directory / f.file_name)
    return paths


def live_names(store: FileStore, snapshot_id: int | None = None) -> set[str]:
    """The names of the files in the table."""
    return {e.file.file_name for e in TableScan(store, snapshot_id=snapshot_id).entries()}


def manifest_names(store: FileStore) -> set[str]:
    """Return the names of the files in the manifest directory."""
    return {s.name for s in store.file_io.list(f"{store.location}/manifest")}


def referenced_names(store: FileStore) -> set[str]:
    """The names of manifests and manifest lists that the table's snapshots refer to."""
    reader = ManifestReader(store.file_io, store.paths)
    names: set[str] = set()
    for snapshot in store.snapshots.all():
        names |= {snapshot.base_manifest_list, snapshot.delta_manifest_list}
        names |= {m.file_name for m in reader.data(snapshot)}
        if snapshot.index_manifest is not None:
            names.add(snapshot.index_manifest)
    return names
