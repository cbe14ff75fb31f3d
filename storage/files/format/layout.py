"""What the files of a table's writers have in common: their columns, order, kinds and names."""

import threading
import uuid
from dataclasses import dataclass

import pyarrow as pa

from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.file_index.spec import FileIndexSpec
from interbed.storage.files.format.file_kind import FileKinds
from interbed.storage.files.format.file_schema import file_schema, key_fields_of_file, key_value_fields
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema

ROW_GROUP_ROWS = 128 * 1024
"""Rows of a row group: enough for pages and dictionaries to pay, few enough for point look-ups and small readers."""
ROW_GROUP_BYTES = 64 << 20
"""Bytes in memory at which a row group of wide rows is closed earlier."""
MIN_ROW_GROUP_ROWS = 1000
"""Files are rolled between row groups; Paimon looks at a file's size every 1000 rows."""


class DataFileNames:
    """Names for the data files of one writer: one UUID and a running number, as Paimon's; safe to share by threads."""

    def __init__(self, prefix: str) -> None:
        self._stem = f"{prefix}{uuid.uuid4()}"
        self._next = 0
        self._lock = threading.Lock()

    def take(self, extension: str) -> str:
        """A new name; `extension` is without the dot."""
        with self._lock:
            number = self._next
            self._next += 1
        return f"{self._stem}-{number}.{extension}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileLayout:
    """What all data files of a table's writers have in common.

    `fields` are the file's columns, `key_fields` the table's columns that order its rows (none in an append table),
    `sequence_fields` those that say which row of a key is newest before the order of arrival does, `value_fields` all
    of the table's columns; `ascending` names those by which files are sorted. `kinds` gives format, codec and
    statistics of each level, `file_indexes` which columns are indexed.
    """

    schema_id: int
    fields: tuple[DataField, ...]
    key_fields: tuple[DataField, ...]
    sequence_fields: tuple[str, ...]
    value_fields: tuple[DataField, ...]
    kinds: FileKinds
    dense_stats: bool
    ascending: frozenset[str]
    target_size: int
    options: CoreOptions
    file_indexes: FileIndexSpec
    arrow: pa.Schema

    @staticmethod
    def of(schema: TableSchema, options: CoreOptions) -> "DataFileLayout":
        """The layout of a table's new files.

        Raises InvalidOptionError for an unknown format, codec or mode and for file indexes that can't be,
        NotSupportedError for a column that a format of the table's can't hold.
        """
        keyed = schema.has_primary_key
        key_fields = schema.key_fields if keyed else ()
        fields = key_value_fields(schema, thin=options.thin_mode) if keyed else schema.fields
        ascending = {SEQUENCE_NUMBER, VALUE_KIND} if keyed else set()
        if keyed:
            # Only the first key column ascends throughout; the others start anew with each of its values.
            ascending |= {key_fields_of_file(schema)[0].name, schema.key_fields[0].name}
        indexes = FileIndexSpec.of(
            schema.fields, options.raw, in_manifest_threshold=options.file_index_in_manifest_threshold
        )
        return DataFileLayout(
            schema_id=schema.id,
            fields=fields,
            key_fields=key_fields,
            sequence_fields=options.sequence_fields if keyed else (),
            value_fields=schema.fields,
            kinds=FileKinds.of(options, schema.fields, key_fields),
            dense_stats=options.boolean("metadata.stats-dense-store", True),
            # Java Paimon 1.4.2 takes wrong values from pages of deltas when an index picks single rows of them.
            ascending=frozenset() if indexes.picks_rows else frozenset(ascending),
            target_size=options.target_file_size_for(primary_key=keyed),
            options=options,
            file_indexes=indexes,
            arrow=file_schema(fields),
        )

    def group_rows(self, batch: pa.RecordBatch) -> int:
        """Rows of a row group, for rows as wide as the batch's; `file.block-size` bounds it by bytes in memory."""
        width = max(1, batch.nbytes // max(1, batch.num_rows))
        asked = self.options.parquet_block_size
        most = min(asked or ROW_GROUP_BYTES, self.target_size) // width
        return max(MIN_ROW_GROUP_ROWS, most if asked else min(ROW_GROUP_ROWS, most))
