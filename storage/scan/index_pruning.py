"""Leaving out files whose indexes in the manifest rule a filter out.

Indexes beside a file are looked at when it is read, as in Paimon: planning opens no file for each data file.
"""

from collections.abc import Sequence

from interbed.storage.base.arrays import Mask
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate, columns_of
from interbed.storage.base.types.data_type import DataField
from interbed.storage.meta.manifest.data_file import DataFileMeta
from interbed.storage.meta.schema.evolution import map_fields
from interbed.storage.meta.schema.manager import SchemaManager
from interbed.storage.meta.schema.table_schema import TableSchema


def select_by_file_index(
    files: Sequence[DataFileMeta], chosen: Mask, predicate: Predicate, schema: TableSchema, schemas: SchemaManager
) -> Mask:
    """Of the files chosen those that may hold a row for which the predicate over the table's columns is true.

    Raises CorruptFileError and UnsupportedVersionError naming the data file.
    """
    from interbed.storage.files.file_index.evaluate import select_rows

    result = chosen.copy()
    wanted = [f for f in schema.fields if f.name in columns_of(predicate)]
    # By the file's schema: its columns by name, and the predicate over them.
    known: dict[int, tuple[dict[str, DataField], Predicate | None]] = {}
    for i, file in enumerate(files):
        if not chosen[i] or file.embedded_file_index is None:
            continue
        if file.schema_id not in known:
            written = schema if file.schema_id == schema.id else schemas.schema(file.schema_id)
            inside = map_fields(wanted, written.fields).file_predicate(predicate)
            known[file.schema_id] = ({f.name: f for f in written.fields}, inside)
        fields, inside = known[file.schema_id]
        if inside is not None and not isinstance(inside, AlwaysTrue):
            result[i] = not select_rows(file, file.file_name, fields, inside, None).is_empty
    return result
