"""The public object of a format table: its rows are read, appended and overwritten; it has no history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from interbed.storage.base.clock import Moment, moment_millis
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.incoming import arrow_rows
from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.base.types.column_names import check_asked_once
from interbed.storage.base.types.data_type import RowType
from interbed.storage.io.api import FileIO
from interbed.storage.meta.options.core import CoreOptions, option_text
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.read.arrow_rows import ArrowRows
from interbed.storage.table.described import DescribedTable
from interbed.storage.table.format_table.definition import FormatDefinition
from interbed.storage.table.format_table.directories import FormatDirectories, FormatPartition, PartitionRegister
from interbed.storage.table.format_table.query import FormatScan
from interbed.storage.table.format_table.writing import FormatTableWrite, check_in_choice, commit, delete_files
from interbed.storage.views.builder.rows_read import RowsReadBuilder
from interbed.storage.write.row_converter import RowConverter

if TYPE_CHECKING:
    from interbed.storage.base.incoming import IncomingRows
    from interbed.storage.base.predicate.expr import Predicate
    from interbed.storage.scan.partition_filter import Partitions
    from interbed.storage.version.orphans import OrphansResult


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFiles:
    """A partition of a format table: the text of its values, its directory, its number of files and their bytes.

    `newest_millis` is the time of its newest file, None where files have no times.
    """

    spec: Mapping[str, str]
    location: str
    file_count: int
    size: int
    newest_millis: int | None


class FormatTable(DescribedTable, ArrowRows):
    """A directory of files of one format: CSV, JSON, plain lines, Parquet, ORC or Avro, perhaps in Hive's partitions.

    Catalogs with a REST server or a Hive metastore keep such tables (`type` = `format-table`), and a metastore's own
    tables are opened as such. A read sees the files that exist when it begins.
    """

    def __init__(
        self,
        name: str,
        location: str,
        file_io: FileIO,
        definition: FormatDefinition,
        register: PartitionRegister | None = None,
        *,
        discovers: bool = True,
    ) -> None:
        self.name = name
        self.definition = definition
        self.directories = FormatDirectories(location, file_io, definition, register, discovers=discovers)

    def __repr__(self) -> str:
        return f"FormatTable({self.name!r}, {self.location!r})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Raise NotSupportedError for what only tables with snapshots have."""
            if name in OF_TABLES:
                raise NotSupportedError(
                    f"The format table '{self.name}' has no '{name}': it is a directory of "
                    f"{self.definition.file_format} files, without snapshots, keys, tags and branches."
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> TableSchema:
        """The schema, with its options."""
        return self.definition.schema

    @property
    def location(self) -> str:
        """The directory of the table."""
        return self.directories.location

    @property
    def file_format(self) -> str:
        """The format of the files: csv, json, text, parquet, orc or avro."""
        return self.definition.file_format

    @property
    def options(self) -> CoreOptions:
        """The options of the table, typed."""
        return self.definition.options

    @property
    def file_io(self) -> FileIO:
        """The file system of the table."""
        return self.directories.file_io

    @property
    def table_schema(self) -> TableSchema:
        """The schema, as in pypaimon."""
        return self.schema

    @property
    def table_path(self) -> str:
        """The directory of the table, as in pypaimon."""
        return self.location

    def comment(self) -> str | None:
        """Return the comment of the table."""
        return self.schema.comment

    def row_type(self) -> RowType:
        """Return the columns as one type, as in pypaimon."""
        return RowType(self.schema.fields, nullable=False)

    def copy(self, dynamic_options: Mapping[str, object]) -> "FormatTable":
        """Return the same table with options on top of its own, for this object only; None for an option's default."""
        changed = {k: v for k, v in self.schema.options.items() if k not in dynamic_options}
        changed |= {k: option_text(v) for k, v in dynamic_options.items() if v is not None}
        schema = replace(self.schema, options=changed)
        checked = FormatDefinition.of(schema)
        if checked.only_values != self.definition.only_values or checked.file_format != self.file_format:
            raise InvalidInputError(
                f"The format of '{self.name}' and the names of its directories are those of its files, and can't be "
                "set for one object."
            )
        by_options = FormatDefinition.of(self.schema).syntax
        if checked.syntax == by_options:
            # That of a SerDe of Hive, perhaps.
            syntax = self.definition.syntax
        elif by_options == self.definition.syntax:
            syntax = checked.syntax
        else:
            raise InvalidInputError(
                f"The syntax of the files of '{self.name}' is that of its SerDe in Hive, and can't be set for one "
                "object: leave the options of the syntax out."
            )
        definition = replace(self.definition, schema=schema, syntax=syntax)
        found = FormatTable(self.name, self.location, self.directories.file_io, definition)
        found.directories = self.directories.of(definition)
        return found

    def partitions(self, partitions: "Partitions | None" = None) -> list[PartitionFiles]:
        """Return the partitions, or the chosen ones, with the number of their files; an empty one has none.

        A table without partition columns is one partition. Raises InvalidInputError for an unknown column.
        """
        found = []
        for each in self.directories.chosen(partitions):
            files = self.directories.files(each)
            times = [file.modified_millis for file in files if file.modified_millis is not None]
            found.append(
                PartitionFiles(
                    spec=dict(each.spec),
                    location=each.location,
                    file_count=len(files),
                    size=sum(file.size for file in files),
                    newest_millis=max(times, default=None),
                )
            )
        return found

    # -- read ----------------------------------------------------------------------------------------------------------

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: "str | Predicate | None" = None,  # noqa: A002 - the field's word for it
        limit: int | None = None,
        snapshot_id: int | None = None,
        *,
        threads: int | None = None,
    ) -> FormatScan:
        """Query the table: `scan(columns=["id"], filter="amount > 5 and name = 'x'", limit=10).to_arrow()`.

        Partitions that the filter excludes are not listed. Raises FilterError for a filter that does not parse or fit,
        InvalidInputError for an unknown column, and NotSupportedError for a snapshot.
        """
        if snapshot_id is not None:
            raise NotSupportedError(f"The format table '{self.name}' has no snapshots; scan it without `snapshot_id`.")
        check_asked_once(columns)
        unknown = [name for name in columns or () if name not in self.schema.by_name]
        if unknown:
            raise InvalidInputError(
                f"The table '{self.name}' has no column {unknown[0]!r}; it has {', '.join(self.schema.names)}."
            )
        predicate = None if filter is None else bound_filter(filter, self.schema.fields)
        chosen = None if columns is None else tuple(columns)
        return FormatScan(self.name, self.definition, self.directories, chosen, predicate, limit)

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Return all rows as a stream of batches."""
        return self.scan().to_arrow_batch_reader()

    def count(self) -> int:
        """Return the number of rows."""
        return self.scan().count()

    def _pinned(self) -> FormatScan:
        return self.scan()

    def new_read_builder(self) -> RowsReadBuilder:
        """Return pypaimon's read builder."""
        return RowsReadBuilder(self)

    # -- write ---------------------------------------------------------------------------------------------------------

    def append(self, data: "IncomingRows") -> None:
        """Add rows, in any form that Table.append takes, as new files.

        All files get their names after the last row was written. A kill in between may leave some of them: then the
        rows of these files are in the table. Raises SchemaMismatchError and InvalidInputError for rows that do not fit,
        with the number of the row, and StorageAccessError.
        """
        self.definition.check_writable(self.name)
        with FormatTableWrite(self.definition, self.directories) as write:
            self._write(data, write)
            files = write.finish()
        commit(self.directories, files)

    def overwrite(self, data: "IncomingRows", partitions: "Partitions | None" = None) -> None:
        """Replace rows by the data.

        With `partitions` ({} for the whole table) exactly those are replaced, and no row may be in another partition.
        Without it, the partitions that occur in the data are replaced (the whole table, when it has no partitions or
        its option `dynamic-partition-overwrite` is false). Old files are deleted after the new ones have their names: a
        reader in between, or after a kill, sees the rows of both, and repeating the overwrite completes it. Files that
        other writers add meanwhile stay. Raises as append does.
        """
        self.definition.check_writable(self.name)
        dynamic = partitions is None and bool(self.schema.partition_keys) and self.options.dynamic_partition_overwrite
        chosen: Any = {} if partitions is None else partitions
        before = [] if dynamic else self.directories.chosen(chosen)
        self.directories.check_owned(before)
        listed = [file.path for each in before for file in self.directories.files(each)]
        with FormatTableWrite(self.definition, self.directories) as write:
            self._write(data, write)
            if partitions is not None and self.schema.partition_keys:
                check_in_choice(self.directories, chosen, write, self.name)
            files = write.finish()
        if dynamic:
            written = {file.partition.row: file.partition for file in files}
            others = [each for each in self.directories.partitions() if each.row in written]
            self.directories.check_owned(others)
            replaced = {each.location: each for each in (*written.values(), *others)}
            listed = [file.path for each in replaced.values() for file in self.directories.files(each)]
        commit(self.directories, files, replaced=listed)

    def truncate(self, partitions: "Partitions | None" = None) -> None:
        """Delete the files of all partitions, or of the chosen ones; the partitions stay, without rows.

        Raises InvalidInputError for an unknown column, and StorageAccessError; then some files are deleted.
        """
        self.definition.check_writable(self.name)
        chosen = self.directories.chosen(partitions)
        self.directories.check_owned(chosen)
        for each in chosen:
            delete_files(self.directories.file_io, (file.path for file in self.directories.files(each)))

    def drop_partitions(self, partitions: "Partitions") -> list[dict[str, str]]:
        """Delete the files of partitions, their directories if nothing else is in them, and their registration.

        Returns the values of the partitions. Raises InvalidInputError for an unknown column or a table without
        partitions.
        """
        self.definition.check_writable(self.name)
        if not self.schema.partition_keys:
            raise InvalidInputError(f"The table '{self.name}' has no partitions; truncate it to delete its rows.")
        chosen = self.directories.chosen(partitions)
        self.directories.check_owned(chosen)
        for each in chosen:
            delete_files(self.directories.file_io, (file.path for file in self.directories.files(each)))
            self.directories.remove_empty(each)
        if self.directories.register is not None:
            self.directories.register.remove([each.spec for each in chosen])
        return [dict(each.spec) for each in chosen]

    def add_partitions(self, specs: Sequence[Mapping[str, object]]) -> list[FormatPartition]:
        """Create partitions without rows; those that exist stay as they are. Raises InvalidInputError."""
        self.definition.check_writable(self.name)
        known = self.directories.to_write()
        rows = [self.directories.row_of(spec) for spec in specs]
        found = [known.get(row) or self.directories.new_partition(row) for row in rows]
        for each in found:
            self.directories.file_io.make_directories(each.location)
        if self.directories.register is not None:
            self.directories.register.add(found)
        return found

    def remove_orphan_files(self, older_than: Moment | None = None, *, dry_run: bool = False) -> "OrphansResult":
        """Delete the files that killed writes left in `_temporary`, when they are older than a day, or than a time.

        `dry_run` only reports. Raises InvalidInputError for a time in the
        future: the files of a write that is running look the same.
        """
        from interbed.storage.table.format_table.writing import remove_leftovers

        limit = None if older_than is None else moment_millis(older_than)
        return remove_leftovers(self.directories, older_than_millis=limit, dry_run=dry_run)

    def _write(self, data: "IncomingRows", write: FormatTableWrite) -> None:
        rows = arrow_rows(data, self.schema.arrow, what=f"the table '{self.name}'", more=[])
        converter = RowConverter(self.schema, self.name)
        parts = rows if isinstance(rows, pa.RecordBatchReader) else [rows]
        for part in parts:
            for batch in converter.batches(part):
                converter.check_new_rows(batch, None, self.options.partition_default_name, write.row_count)
                write.write(batch)

    def upsert(self, *_: object, **__: object) -> NoReturn:
        """Raise NotSupportedError: a format table has no primary key to upsert by."""
        raise NotSupportedError(f"The format table '{self.name}' has no primary key to upsert by; use append.")


OF_TABLES = frozenset(
    (
        *("store", "versions", "maintenance", "access", "snapshots", "latest_snapshot", "levels", "branch", "get"),
        *("get_many", "explain", "new_scan", "new_read", "new_write", "new_commit", "compact", "delete", "update"),
        *("write_changes", "update_schema", "merge_schema", "delete_partitions", "refresh", "changes"),
        *("new_stream_read_builder", "new_batch_write_builder", "new_stream_write_builder", "list_tags", "stream"),
        *("new_postpone_fixed_bucket_write_builder", "new_change_read", "new_stream_scan", "audit_log", "binlog"),
        *("branch_manager", "tag_manager", "snapshot_manager", "schema_manager", "consumer_manager"),
        *("bucket_mode", "total_buckets", "cross_partition_update", "current_branch", "is_primary_key_table"),
        *("trimmed_primary_keys", "primary_keys_fields", "partition_keys_fields", "field_dict"),
    )
)
"""Names of a table with snapshots that a format table does not have."""
