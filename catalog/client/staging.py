"""Creation and replacement of tables together with their rows: other processes see either both or neither.

Rows are written first, as files that are in no snapshot, under a schema that is in no file yet. A commit then makes the
schema file and the first snapshot under it. A new table in a metastore is registered only then. In a local file system
it is made in a staging directory (files/database_directory.py) that moves to its location. In other file systems it is
empty for the moment between schema and snapshot. A replaced table changes with its snapshot
(storage.meta.schema.apply).
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interbed.catalog.client.errors import TableExistsError, TableNotFoundError
from interbed.catalog.client.identifier import Identifier, parse_table_name
from interbed.catalog.client.options import CatalogOptions
from interbed.storage.base.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    InterbedError,
    InvalidInputError,
    NotSupportedError,
)
from interbed.storage.io.api import FileIO
from interbed.storage.io.resolve import respelled
from interbed.storage.meta.commit_listener import commit_listeners, without_listeners
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.core import PRIMARY_KEY, option_text
from interbed.storage.meta.options.format import applies, is_format_table, is_object_table
from interbed.storage.meta.options.log import (
    KAFKA_TOPIC,
    LOG_CHANGELOG_MODE,
    LOG_CONSISTENCY,
    LOG_SYSTEM,
    LogChangelogMode,
    LogConsistency,
    LogSystem,
)
from interbed.storage.meta.schema.table_schema import Schema, TableSchema
from interbed.storage.table.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from interbed.storage.base.incoming import IncomingRows
    from interbed.storage.write.commit_message import CommitMessage


@dataclass(frozen=True, slots=True)
class TableFill:
    """Commit of the rows of a table whose schema exists, as `user`; without rows there may be no
    snapshot of that user.
    """

    commit: Callable[[Table], None]
    user: str
    has_rows: bool = True

    def __call__(self, table: Table) -> None:
        """Commit the rows; raise the errors of the commit."""
        self.commit(table)

    def is_in(self, table: Table) -> bool:
        """Return whether the table, which has the expected schema, was filled by this commit before.

        Another process may have made a table with the same columns in the same millisecond.
        """
        return not self.has_rows or table.access.latest_snapshot_of(self.user) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedTable:
    """A table before its publication: `table` takes rows already. It ends with commit or abort."""

    catalog: "StagedTables"
    identifier: Identifier
    schema: TableSchema
    path: str | None
    replaces: bool
    table: Table

    def commit(self, fill: TableFill | None = None) -> None:
        """Publish the table, with the rows that `fill` commits; repeating it after an unknown outcome is safe.

        Raises TableExistsError, CommitConflictError when another writer came first, and the errors of `fill`. Nothing
        has changed then, except after CommitStateUnknownError, whose outcome is unknown.
        """
        self.catalog.publish_staged(self, fill)

    def commit_messages(self, user: str, messages: "Sequence[CommitMessage]") -> None:
        """Publish the table with the rows that a writer has written as `user`; raises as commit does."""
        from interbed.storage.commit.file_store_commit import FileStoreCommit

        def fill(table: Table) -> None:
            commit = FileStoreCommit(table.store, user)
            if self.replaces:
                commit.overwrite(messages)
            elif messages:
                commit.commit(messages)

        self.commit(TableFill(fill, user, bool(messages)))

    def abort(self) -> None:
        """Remove the remains of a table that is not published; its writers have deleted their files."""
        if not self.replaces:
            self.catalog.discard_staged(self)

    def write(self, data: "IncomingRows") -> None:
        """Write rows, in any form that Table.append takes, and commit; raises as those do."""
        import pyarrow as pa

        from interbed.storage.base.incoming import arrow_rows

        try:
            rows = arrow_rows(data, self.table.arrow_schema, what=f"the table '{self.identifier}'")
        except InterbedError:
            self.abort()
            raise
        user = str(uuid.uuid4())
        try:
            with self.table.new_write(user, overwrite=True) as write:
                for batch in rows if isinstance(rows, pa.RecordBatchReader) else [rows]:
                    write.write_arrow(batch)
                messages = write.prepare_commit()
            self.commit_messages(user, messages)
        except CommitStateUnknownError:
            raise
        except (InterbedError, OSError):
            self.abort()
            raise


class StagedTables(ABC):
    """The part of a catalog that creates and replaces tables together with their rows."""

    options: CatalogOptions

    @abstractmethod
    def get_database(self, name: str) -> object: ...

    @abstractmethod
    def table_exists(self, identifier: "str | Identifier") -> bool: ...

    @abstractmethod
    def _load_table(self, identifier: Identifier) -> Table: ...

    @abstractmethod
    def create_table(self, identifier: "str | Identifier", schema: Schema) -> Table: ...

    @abstractmethod
    def drop_table(self, identifier: "str | Identifier", ignore_if_not_exists: bool = False) -> None: ...

    @abstractmethod
    def _create_table(
        self, identifier: Identifier, schema: TableSchema, path: str | None, fill: TableFill | None = None
    ) -> None: ...

    @abstractmethod
    def _replace_table(self, identifier: Identifier, schema: TableSchema, fill: TableFill) -> None: ...

    @abstractmethod
    def _new_location(self, identifier: Identifier, path: str | None) -> tuple[FileIO, str]:
        """Return the location of a new table, or of its staging directory."""

    def _staging_path(self, identifier: Identifier, path: str | None) -> str | None:
        """Return the path at which a new table for `path` is made (None: the catalog decides)."""
        return path

    def _respelled(self, location: str) -> str:
        """Return a location with the scheme of the option `warehouse`."""
        return respelled(location, self.options.warehouse or location)

    def stage_table(
        self, identifier: "str | Identifier", schema: Schema, *, replace: bool = False, create: bool = True
    ) -> StagedTable:
        """Prepare a new table, or with `replace` the replacement of the table of that name; nothing is changed yet.

        Without `create` there has to be a table to replace. Raises TableExistsError, TableNotFoundError,
        DatabaseNotFoundError, InvalidInputError for an impossible schema.
        """
        from interbed.storage.meta.schema.apply import replacement_of

        name = parse_table_name(identifier)
        self.get_database(name.database)
        wanted, path = self._schema_of_staged(name, schema)
        exists = self.table_exists(name)
        if exists and not replace:
            raise TableExistsError(f"There is a table '{name}' already.")
        if not exists and not create:
            raise TableNotFoundError(f"There is no table '{name}' to replace; create it, or write CREATE OR REPLACE.")
        if exists:
            table = self._load_table(name)
            if path is not None and self._new_location(name, path)[1].rstrip("/") != table.location.rstrip("/"):
                raise InvalidInputError(
                    f"The table '{name}' stays in {table.location} when it is replaced, not {path}."
                )
            schemas = table.store.schemas
            # The id first: a concurrent change takes it, so that the replacement detects the change.
            schema_id = schemas.next_id()
            wanted = replacement_of(schemas.latest() or table.schema, wanted, schema_id=schema_id)
        else:
            path = self._staging_path(name, path)
        return self.staged(name, wanted, path, replaces=exists)

    def staged(self, name: Identifier, schema: TableSchema, path: str | None, *, replaces: bool) -> StagedTable:
        """Return the staged table of another process, by its name, schema and path."""
        from interbed.storage.table.opening import open_store

        if replaces:
            before = self._load_table(name).store
            store = open_store(before.told_location, before.file_io, schema=schema, environment=before.environment)
        else:
            file_io, location = self._new_location(name, path)
            store = open_store(self._respelled(location), file_io, schema=schema)
        return StagedTable(
            catalog=self, identifier=name, schema=schema, path=path, replaces=replaces, table=Table(str(name), store)
        )

    def discard_staged(self, staged: StagedTable) -> None:
        """Abort a new table, as StagedTable.abort."""
        from interbed.catalog.client.files.table_files import remove_if_empty

        remove_if_empty(staged.table.access.storage_io, staged.table.location)

    def publish_staged(self, staged: StagedTable, fill: TableFill | None) -> None:
        """Publish a table, as StagedTable.commit."""
        if staged.replaces:
            self._replace_table(staged.identifier, staged.schema, fill or _empty_fill())
        else:
            options = staged.table.store.options
            has_log = options.log_system is not LogSystem.NONE
            if fill is None or not (has_log or commit_listeners(options.raw)):
                self._create_table(staged.identifier, staged.schema, staged.path, fill)
                return
            from interbed.storage.log.publisher import publish_after_commit

            # The log and the commit listeners get the rows when the table is at its location.
            self._create_table(staged.identifier, staged.schema, staged.path, _without_listeners(fill))
            store = self._load_table(staged.identifier).store
            if has_log:
                publish_after_commit(store)
            store.hooks.after_change(store)

    def create_table_as(
        self,
        identifier: "str | Identifier",
        data: "IncomingRows",
        *,
        primary_keys: Sequence[str] | None = None,
        partition_keys: Sequence[str] | None = None,
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
    ) -> Table:
        """Create a table with the columns and the rows of data, both or neither; it is returned.

        The data are in any form that Table.append takes; dicts get the types of their values. A format table is visible
        without rows meanwhile, and stays so after a kill. Raises TableExistsError, DatabaseNotFoundError and as a write
        does.
        """
        from interbed.storage.base.incoming import arrow_rows

        name = parse_table_name(identifier)
        rows = arrow_rows(data, what=f"the table '{name}'", more=None)
        schema = given_schema(rows, primary_keys, partition_keys, options, comment)
        if is_format_table({**self.options.table_defaults, **schema.options}):
            return self._create_filled(name, schema, rows)
        self.stage_table(name, schema).write(rows)
        return self._load_table(name)

    def _create_filled(self, name: Identifier, schema: Schema, rows: "IncomingRows") -> Table:
        """Create a format table, then append the rows; drop it again if they can't be written.

        Files have no snapshot with which the table could appear: it is empty until they are complete. A directory that
        has rows already is refused (InvalidInputError): the table stays with these, since a drop could delete them.
        """
        created = self.create_table(name, schema)
        if created.scan().count():
            raise InvalidInputError(
                f"The directory {created.location} of the new format table '{name}' has rows already, which are those "
                "of the table now: append to it, or overwrite them."
            )
        try:
            created.append(rows)
        except BaseException:
            self.drop_table(name, ignore_if_not_exists=True)
            raise
        return created

    def replace_table(
        self,
        identifier: "str | Identifier",
        schema: "Schema | pa.Schema | IncomingRows",
        data: "IncomingRows | None" = None,
        *,
        create: bool = False,
        primary_keys: Sequence[str] | None = None,
        partition_keys: Sequence[str] | None = None,
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
    ) -> Table:
        """Replace schema, options and rows of a table (no rows without `data`), in one step.

        The table keeps its directory, its snapshots (`table.scan(snapshot_id=…)` shows the old rows), tags and
        partition columns. With `create` it need not exist. Raises TableNotFoundError, CommitConflictError,
        InvalidInputError.
        """
        name = parse_table_name(identifier)
        given = given_schema(schema, primary_keys, partition_keys, options, comment)
        staged = self.stage_table(name, given, replace=True, create=create)
        if data is None:
            staged.commit()
        else:
            staged.write(data)
        return self._load_table(name)

    def _schema_of_staged(self, name: Identifier, given: Schema) -> tuple[TableSchema, str | None]:
        """Return what _table_schema returns; raise NotSupportedError for a format table."""
        found = self._table_schema(name, given)
        if is_format_table(found[0].options):
            raise NotSupportedError(
                f"The format table '{name}' is not created together with its rows; create it, then append them."
            )
        if is_object_table(found[0].options):
            raise NotSupportedError(
                f"The object table '{name}' takes no rows: they are the files in its directory. Create it by itself."
            )
        return found

    def _table_schema(self, name: Identifier, given: Schema) -> tuple[TableSchema, str | None]:
        """Return the first schema of a new table, with the catalog's defaults, and its location, if that is given."""
        from interbed.storage.meta.options.known.check import check_public
        from interbed.storage.table.option_rules import check_options

        defaults = self.options.table_defaults
        merged = {**defaults, **given.options}
        is_of_objects = is_object_table(merged)
        if is_of_objects or is_format_table(merged):
            # Defaults are for tables of all types.
            defaults = {key: value for key, value in defaults.items() if applies(key, to_objects=is_of_objects)}
        if is_of_objects:
            from interbed.storage.table.object_table import object_schema

            given = object_schema(given)
        options = {**defaults, **{k: v for k, v in given.options.items() if k != "path"}}
        if options.get(LOG_SYSTEM, "").lower() == LogSystem.KAFKA:
            # Stored, so that the table keeps its topic when it is renamed.
            options.setdefault(KAFKA_TOPIC, f"{name.database}.{name.table}")
        has_key = bool(given.primary_keys) or PRIMARY_KEY in options
        if has_key and options.get("metadata.iceberg.storage", "disabled") != "disabled":
            # ClickHouse refuses Parquet files with columns that Iceberg's schema lacks, such as those of the key.
            options.setdefault("data-file.thin-mode", "true")
        schema = Schema(
            fields=given.fields,
            partition_keys=given.partition_keys,
            primary_keys=given.primary_keys,
            options=options,
            comment=given.comment,
        ).to_table_schema()
        check_options(schema)
        check_public(options)
        return schema, given.options.get("path")


def publish_replacement(store: FileStore, name: str, schema: TableSchema, fill: TableFill) -> None:
    """Make the schema file of a replacement and the snapshot under it; withdraw the file if that fails.

    Raises CommitConflictError when the schema was altered since it was staged, and the errors of `fill`.
    """
    from interbed.storage.table.opening import open_store

    if not store.schemas.commit(schema) and store.schemas.is_gone(schema):
        raise CommitConflictError(f"The table '{name}' was altered while it was being replaced; replace it again.")
    replaced = open_store(store.told_location, store.file_io, schema=schema, environment=store.environment)
    try:
        fill(Table(name, replaced))
    except CommitStateUnknownError:
        # The mark keeps the old schema valid as long as there is no such snapshot.
        raise
    except (InterbedError, OSError):
        store.schemas.take_back(schema)
        raise


def given_schema(
    schema: "Schema | pa.Schema | IncomingRows",
    primary_keys: Sequence[str] | None = None,
    partition_keys: Sequence[str] | None = None,
    options: Mapping[str, object] | None = None,
    comment: str | None = None,
) -> Schema:
    """Return the Schema of a Schema, an Arrow schema or data with columns, with keys and options.

    Raises InvalidInputError.
    """
    from interbed.storage.base.incoming import arrow_schema

    if not isinstance(schema, Schema):
        texts = {str(k): option_text(v) for k, v in (options or {}).items()}
        columns = arrow_schema(schema, what="the schema of a table")
        return Schema.from_pyarrow_schema(columns, partition_keys, primary_keys, texts, comment)
    if primary_keys or partition_keys or options or comment:
        raise InvalidInputError("Keys, options and comment belong into the Schema when one is given.")
    return schema


def _without_listeners(fill: TableFill) -> TableFill:
    # Options that need a log are refused without one.
    options = {
        **without_listeners(),
        LOG_SYSTEM: LogSystem.NONE,
        LOG_CONSISTENCY: LogConsistency.TRANSACTIONAL,
        LOG_CHANGELOG_MODE: LogChangelogMode.AUTO,
    }
    return TableFill(lambda table: fill(Table(table.name, table.store.with_options(options))), fill.user, fill.has_rows)


def _empty_fill() -> TableFill:
    from interbed.storage.commit.file_store_commit import FileStoreCommit

    user = str(uuid.uuid4())

    def empty(table: Table) -> None:
        FileStoreCommit(table.store, user, new_user=True).overwrite([])

    return TableFill(empty, user, has_rows=False)
