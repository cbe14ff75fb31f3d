"""Writing which rows of data files are deleted: a vector for each in one Puffin file, or of version 2 a Parquet file of
positions for each. Source: Iceberg's table specification, "Delete Formats".
"""

import io
import struct
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from interbed.iceberg.commit.new_file import NewTableFile
from interbed.iceberg.meta.live_file import PATH_ID, POSITION_ID, Content, LiveFile
from interbed.iceberg.meta.new_manifests import NEWEST_VERSION
from interbed.iceberg.meta.puffin import puffin_of
from interbed.iceberg.optimize.job import OptimizeJob
from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.fileio.writing import write_file
from interbed.storage.files.deletion.vector import DeletionVector

_FIELDS: list["pa.Field[Any]"] = [
    pa.field("file_path", pa.string(), False, {b"PARQUET:field_id": str(PATH_ID).encode()}),
    pa.field("pos", pa.int64(), False, {b"PARQUET:field_id": str(POSITION_ID).encode()}),
]
_SCHEMA = pa.schema(_FIELDS)
_CREATED_BY = "interbed"


def write_deletes(job: OptimizeJob, deleted: Mapping[LiveFile, DeletionVector], prefix: str) -> list[NewTableFile]:
    """The delete files of data files of one partition; on an error what was written is deleted."""
    if not deleted:
        return []
    if job.format_version >= NEWEST_VERSION:
        return _write_vectors(job, deleted, prefix)
    found: list[NewTableFile] = []
    try:
        for number, (file, vector) in enumerate(deleted.items()):
            found.append(_write_positions(job, file, vector, f"{prefix}-{number}-deletes.parquet"))
    except BaseException:
        job.files.delete_quietly(made.path for made in found)
        raise
    return found


def _write_vectors(job: OptimizeJob, deleted: Mapping[LiveFile, DeletionVector], prefix: str) -> list[NewTableFile]:
    some = next(iter(deleted))
    content, places = puffin_of({file.path: vector for file, vector in deleted.items()}, _CREATED_BY)
    path = job.new_path(some.spec_id, some.partition, f"{prefix}-deletes.puffin")
    _write(job, path, content)
    return [
        NewTableFile(
            path=path,
            content=Content.POSITION_DELETES,
            file_format="puffin",
            spec_id=file.spec_id,
            partition=file.partition,
            records=places[file.path].records,
            size=len(content),
            referenced=file.path,
            offset=places[file.path].offset,
            length=places[file.path].length,
        )
        for file in deleted
    ]


def _write_positions(job: OptimizeJob, file: LiveFile, vector: DeletionVector, name: str) -> NewTableFile:
    positions = vector.positions
    table = pa.Table.from_arrays(
        [pa.repeat(pa.scalar(file.path, pa.string()), len(positions)), from_numpy(positions)], schema=_SCHEMA
    )
    sink = io.BytesIO()
    # The stubs of pyarrow know no columns here.
    dictionary: Any = ["file_path"]
    pq.write_table(table, sink, compression="zstd", use_dictionary=dictionary, store_schema=False)
    content = sink.getvalue()
    path = job.new_path(file.spec_id, file.partition, name)
    _write(job, path, content)
    name_bytes = file.path.encode("utf-8", "surrogateescape")
    return NewTableFile(
        path=path,
        content=Content.POSITION_DELETES,
        file_format="parquet",
        spec_id=file.spec_id,
        partition=file.partition,
        records=len(positions),
        size=len(content),
        metrics={
            "value_counts": {PATH_ID: len(positions), POSITION_ID: len(positions)},
            "null_value_counts": {PATH_ID: 0, POSITION_ID: 0},
            "lower_bounds": {PATH_ID: name_bytes, POSITION_ID: struct.pack("<q", int(positions[0]))},
            "upper_bounds": {PATH_ID: name_bytes, POSITION_ID: struct.pack("<q", int(positions[-1]))},
        },
    )


def _write(job: OptimizeJob, path: str, content: bytes) -> None:
    file_io, place = job.files.open(path)
    write_file(file_io, place, content)
