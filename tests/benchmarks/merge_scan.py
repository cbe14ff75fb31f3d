"""Speed of a merge-on-read scan alone: a plain Parquet writer creates files, and TableRead reads them.

    python -m tests.benchmarks.merge_scan [--rows 4000000] [--threads 1] [--profile] [--directory DIR]

The table has an int64 key and five columns (int64, double, a 16- and a 64-byte string, a timestamp) in four buckets: a
base, five upserts of a twentieth (four fifths of them existing keys), and a deletion of a fiftieth. Figures are the
best of several scans: CPU seconds of all threads, wall seconds, and the peak of resident memory.
"""

import argparse
import cProfile
import json
import pstats
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from interbed.storage.base.row.binary_row import encode_row
from interbed.storage.base.row.kind import RowKind
from interbed.storage.io.local import LocalFileIO
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import EMPTY_ROW, DataFileMeta
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.split import Split
from interbed.storage.table.opening import open_store

BUCKETS = 4
UPSERTS = 5
ROW_GROUP_ROWS = 128 * 1024
_FIELDS: list["pa.Field[Any]"] = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("quantity", pa.int64()),
    pa.field("price", pa.float64()),
    pa.field("code", pa.string()),
    pa.field("note", pa.string()),
    pa.field("at", pa.timestamp("us")),
]
SCHEMA = pa.schema(_FIELDS)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def make_table(location: Path, rows: int) -> tuple[FileStore, list[Split]]:
    """Write the table's files, unless they exist, and return the table with one split per bucket."""
    io = LocalFileIO()
    schema = Schema.from_pyarrow_schema(SCHEMA, primary_keys=["id"], options={"bucket": str(BUCKETS)}).to_table_schema()
    io.make_directories(str(location / "schema"))
    io.overwrite(str(location / "schema" / "schema-0"), schema.to_json().encode())
    listing = location / "files.json"
    if not listing.exists():
        listing.write_text(json.dumps(_write_files(location, rows)))
    files = [[_meta(f) for f in bucket] for bucket in json.loads(listing.read_text())]
    splits = [
        Split(
            snapshot_id=1,
            partition=EMPTY_ROW,
            bucket=bucket,
            total_buckets=BUCKETS,
            bucket_path=str(location / f"bucket-{bucket}"),
            files=tuple(metas),
            raw_convertible=False,
        )
        for bucket, metas in enumerate(files)
    ]
    return open_store(str(location)), splits


def _write_files(location: Path, rows: int) -> list[list[dict[str, Any]]]:
    random = np.random.default_rng(1)
    steps: list[tuple[str, npt.NDArray[np.int64], RowKind]] = [
        ("base", np.arange(rows, dtype=np.int64), RowKind.INSERT)
    ]
    changed = rows // 20
    for turn in range(UPSERTS):
        old = random.choice(rows, changed * 4 // 5, replace=False)
        new = rows + turn * (changed // 5) + np.arange(changed // 5)
        steps.append((f"upsert{turn}", np.sort(np.concatenate([old, new])), RowKind.INSERT))
    steps.append(("delete", np.sort(random.choice(rows, rows // 50, replace=False)), RowKind.DELETE))
    files: list[list[dict[str, Any]]] = [[] for _ in range(BUCKETS)]
    sequences = [0] * BUCKETS
    for name, ids, kind in steps:
        # Any distribution works, as long as the keys of a bucket are scattered.
        placed = (ids * 2654435761 >> 7) % BUCKETS
        for bucket in range(BUCKETS):
            keys = ids[placed == bucket]
            path = location / f"bucket-{bucket}" / f"{name}.parquet"
            path.parent.mkdir(exist_ok=True)
            _write(path, _records(random, keys, sequences[bucket], kind))
            files[bucket].append(
                {
                    "name": path.name,
                    "size": path.stat().st_size,
                    "rows": len(keys),
                    "keys": [int(keys[0]), int(keys[-1])],
                    "sequence": sequences[bucket],
                    "level": 5 if name == "base" else 0,
                    "deletes": len(keys) if kind is RowKind.DELETE else 0,
                }
            )
            sequences[bucket] += len(keys)
    return files


def _records(random: np.random.Generator, keys: "npt.NDArray[np.int64]", sequence: int, kind: RowKind) -> pa.Table:
    count = len(keys)
    return pa.table(
        {
            "_KEY_id": pa.array(keys),
            "_SEQUENCE_NUMBER": pa.array(np.arange(sequence, sequence + count)),
            "_VALUE_KIND": pa.array(np.full(count, int(kind), np.int8)),
            "id": pa.array(keys),
            "quantity": pa.array(random.integers(0, 10**6, count)),
            "price": pa.array(random.random(count) * 1000),
            "code": _text(random, count, 16),
            "note": _text(random, count, 64),
            "at": pa.array(1_700_000_000_000_000 + random.integers(0, 10**12, count)).cast(pa.timestamp("us")),
        }
    )


def _text(random: np.random.Generator, count: int, width: int) -> "pa.Array[Any]":
    offsets: Any = np.arange(count + 1, dtype=np.int32) * width
    content = _HEX[random.integers(0, 16, (count, width), dtype=np.uint8)]
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(content.tobytes()))


def _write(path: Path, records: pa.Table) -> None:
    delta = ("_KEY_id", "id", "_SEQUENCE_NUMBER")
    pq.write_table(
        records,
        path,
        row_group_size=ROW_GROUP_ROWS,
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        column_encoding=dict.fromkeys(delta, "DELTA_BINARY_PACKED"),
    )


def _meta(file: dict[str, Any]) -> DataFileMeta:
    key_type = Schema.from_pyarrow_schema(SCHEMA, primary_keys=["id"]).fields[0].type
    low, high = (encode_row((k,), (key_type,)) for k in file["keys"])
    return DataFileMeta(
        file_name=file["name"],
        file_size=file["size"],
        row_count=file["rows"],
        min_key=low,
        max_key=high,
        min_sequence_number=file["sequence"],
        max_sequence_number=file["sequence"] + file["rows"] - 1,
        schema_id=0,
        level=file["level"],
        creation_time_millis=0,
        delete_row_count=file["deletes"],
    )


def scan(store: FileStore, splits: Sequence[Split], columns: Sequence[str] | None, threads: int) -> int:
    """Read all rows, keep none, and return their number."""
    return sum(batch.num_rows for batch in TableRead(store, columns).to_reader(splits, threads=threads))


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="interbed-bench-") as scratch:
        directory = options.directory or Path(scratch)
        store, splits = make_table(directory, options.rows)
        for what, columns in (("all columns", None), ("two columns", ["id", "quantity"])):
            best_cpu = best_wall = float("inf")
            rows = 0
            for _ in range(options.repeat):
                wall, cpu = time.perf_counter(), time.process_time()
                rows = scan(store, splits, columns, options.threads)
                best_cpu = min(best_cpu, time.process_time() - cpu)
                best_wall = min(best_wall, time.perf_counter() - wall)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            print(f"{what}: {rows} rows, {best_cpu:.3f} CPU-s, {best_wall:.3f} s, peak {peak} MB")
            if options.profile:
                profile = cProfile.Profile()
                profile.runcall(scan, store, splits, columns, 1)
                pstats.Stats(profile).sort_stats("tottime").print_stats(18)


if __name__ == "__main__":
    main()
