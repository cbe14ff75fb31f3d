"""Tables of a Paimon REST server: opening them with the server's commits, creating, altering and dropping them.

The server names the id, the location and the schema of a table. The file of that schema has what the answer lacks
(its time, which shows whether a table was recreated). An external table may have no file of its schema yet: its
creation writes it.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NoReturn, cast

from interbed.catalog.client.errors import DatabaseNotFoundError, NotAnInterbedTableError, TableNotFoundError
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.options import CatalogOptions, RowOrigin
from interbed.catalog.client.rest.client import RestClient, RestRows
from interbed.catalog.client.rest.data_tokens import DataTokens
from interbed.catalog.client.rest.http import NOT_FOUND, NOT_IMPLEMENTED, RestRefusedError, catalog_error
from interbed.catalog.client.rest.messages import TableEntry, schema_to_json
from interbed.catalog.client.rest.through_server import RestPublisher, RestVersions, ServedTable, send_changes
from interbed.storage.base.errors import InterbedError, InvalidOptionError, NotSupportedError
from interbed.storage.base.types.arrow import FieldIds, fields_from_arrow
from interbed.storage.io.api import FileIO
from interbed.storage.io.resolve import file_io_for
from interbed.storage.meta.file_store import FileStore, StoreEnvironment
from interbed.storage.meta.options.format import FORMAT_TABLE, OBJECT_TABLE, is_object_table
from interbed.storage.meta.paths import MAIN_BRANCH, TablePaths
from interbed.storage.meta.schema.change import SchemaChange
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.table.opening import open_store, schema_manager
from interbed.storage.table.table import Table

if TYPE_CHECKING:
    from interbed.storage.read.guarded_scan import RowRules
    from interbed.storage.table.format_table.format_table import FormatTable
    from interbed.storage.table.guarded_table import GuardedTable
    from interbed.storage.table.object_table import ObjectTable
from typing import Any

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.read.guarded_scan import RowRules


def rules_from_json(answer: dict[str, Any], source: str) -> RowRules:
    """Return the rules of an answer. CorruptFileError naming its source for another one: nothing is read then."""
    filters, masks = answer.get("filter"), answer.get("columnMasking")
    # Paimon's servers leave out what there is none of.
    filters = [] if filters is None else filters
    masks = {} if masks is None else masks
    is_valid = (
        isinstance(filters, list)
        and isinstance(masks, dict)
        and all(isinstance(each, str) for each in (*filters, *masks.values()))
    )
    if not is_valid:
        raise CorruptFileError(f"The answer of {source} has no valid row filters and column masks.")
    # An empty text is none, as for Paimon's readers.
    return RowRules(
        filters=[each for each in filters if each], masks={name: each for name, each in masks.items() if each}
    )


QUERY_AUTH = "query-auth.enabled"
_PAIMON_TYPES = frozenset({"table", "materialized-table"})


class RestTables:
    """The tables of one catalog of a server; the methods raise RestRefusedError."""

    def __init__(self, client: RestClient, options: CatalogOptions) -> None:
        self._client = client
        self._options = options
        self.format_tables = options.format_table_enabled
        self._tokens = DataTokens(client, options) if options.data_token_enabled else None

    def files(self, identifier: Identifier) -> tuple[FileIO, str]:
        """Return the file system and the location of a table, in any format."""
        return self._files(identifier, self._entry(identifier))

    def open(self, identifier: Identifier) -> Table:
        """Open a table of Paimon's format, or a format table; with `read.rows-from` = `server` also one of another
        format, whose columns are those of its rows.

        Raises NotAnInterbedTableError for another format, TableNotFoundError when its files are missing.
        """
        try:
            entry = self._entry(identifier)
        except RestRefusedError as error:
            of_rows = self._of_rows(identifier, error)
            if of_rows is None:
                raise
            return cast(Table, of_rows)
        if entry.type == FORMAT_TABLE and self.format_tables:
            if (rows := self._served_rows(identifier, entry)) is not None:
                return cast(Table, ServedTable(rows, identifier, entry.schema))
            _refuse_bound(identifier, entry)
            # Readers and writers use only methods that both kinds of tables have.
            return cast(Table, self._format_table(identifier, entry))
        if entry.type == OBJECT_TABLE:
            return cast(Table, self._object_table(identifier, entry))
        if entry.type not in _PAIMON_TYPES:
            raise NotAnInterbedTableError(
                f"The table '{identifier}' of the REST catalog {self._client.uri} is no table of Paimon's format "
                f"({entry.type})."
            )
        rows = self._served_rows(identifier, entry)
        if rows is not None:
            # Readers use only methods that both kinds of tables have, or are refused by name.
            return cast(Table, ServedTable(rows, identifier, entry.schema))
        file_io, location = self._files(identifier, entry)
        schema = _with_file(entry.schema, file_io, location)
        if schema is None:
            raise TableNotFoundError(
                f"The table '{identifier}' is in the REST catalog {self._client.uri}, but {location} has no file of "
                f"its schema {entry.schema.id}; drop the entry, or restore the files."
            )
        environment = self._environment(identifier, entry)
        table = Table(str(identifier), open_store(entry.path, file_io, schema=schema, environment=environment))
        if not table.options.boolean(QUERY_AUTH, False):
            return table
        # Readers use only methods that both kinds of tables have, or are refused by name.
        return cast(Table, self._guarded(identifier, table))

    def _of_rows(self, identifier: Identifier, refused: RestRefusedError) -> ServedTable | None:
        """Return a table that the interface of catalogs does not have for the user, whose rows the server reads: one of
        Iceberg's or Hive's format, or a format table with policies. None if there is none.
        """
        is_asked = self._options.rows_from is RowOrigin.SERVER
        rows = self._client.rows() if is_asked and refused.status in (NOT_FOUND, NOT_IMPLEMENTED) else None
        if rows is None:
            return None
        empty = TableSchema(id=0, fields=(), highest_field_id=-1)
        try:
            reader = ServedTable(rows, identifier, empty).open({"limit": 0})
        except (TableNotFoundError, DatabaseNotFoundError, NotSupportedError):
            return None
        reader.close()
        ids = FieldIds()
        fields = fields_from_arrow(list(reader.schema), ids)
        return ServedTable(rows, identifier, replace(empty, fields=fields, highest_field_id=ids.highest))

    def _served_rows(self, identifier: Identifier, entry: TableEntry) -> RestRows | None:
        """Return the calls by which the server reads the rows of a table; None if this client reads its files."""
        source = self._options.rows_from
        if source is RowOrigin.FILES:
            return None
        if source is RowOrigin.AUTO:
            is_limited = entry.schema.options.get(QUERY_AUTH, "").lower() == "true"
            if not is_limited or self._tokens is None or not self._tokens.are_refused(identifier, entry.path):
                return None
        rows = self._client.rows()
        if rows is None and source is RowOrigin.SERVER:
            raise NotSupportedError(
                f"The server {self._client.uri} reads no rows for its clients: set the option 'read.rows-from' to "
                "'files'."
            )
        return rows

    def _guarded(self, identifier: Identifier, table: Table) -> "GuardedTable":
        from interbed.storage.table.guarded_table import GuardedTable

        def rules_of(branch: str, columns: Sequence[str]) -> "RowRules":
            try:
                answer = self._client.authorize(identifier, branch, columns)
                return rules_from_json(answer, f"{self._client.uri} ({identifier})")
            except RestRefusedError as error:
                raise catalog_error(error) from error

        return GuardedTable(table, rules_of)

    def _format_table(self, identifier: Identifier, entry: TableEntry) -> "FormatTable":
        # By use: most tables are none.
        from interbed.storage.table.format_table.definition import FormatDefinition, check_discovered
        from interbed.storage.table.format_table.format_table import FormatTable

        check_discovered(entry.schema)
        file_io, location = self._files(identifier, entry)
        return FormatTable(str(identifier), location, file_io, FormatDefinition.of(entry.schema))

    def _object_table(self, identifier: Identifier, entry: TableEntry) -> "ObjectTable":
        # By use: most tables are none.
        from interbed.storage.table.object_table import FIELDS, ObjectTable

        _refuse_bound(identifier, entry)
        file_io, location = self._files(identifier, entry)
        # Some servers keep the fields that the client sent, which may be none.
        return ObjectTable(str(identifier), location, file_io, replace(entry.schema, fields=FIELDS))

    def create_format_table(self, identifier: Identifier, schema: TableSchema, path: str | None) -> None:
        """Create a format table, external with a path: the server keeps its columns, and no file is written."""
        self._client.create_table(identifier, schema_to_json(schema, path))

    def create(self, identifier: Identifier, schema: TableSchema, path: str | None) -> None:
        """Create a table; with a path an external one, whose schema the client writes unless there is one.

        A kill after the server's answer leaves an entry without a schema file, which is dropped and created again.
        Raises InvalidOptionError when the path holds a table of another schema.
        """
        if path is None or is_object_table(schema.options):
            self._client.create_table(identifier, schema_to_json(schema, path))
            return
        if self._tokens is not None:
            self._create_with_token(identifier, schema, path)
            return
        file_io, location = file_io_for(path, self._options.raw)
        schemas = schema_manager(location, file_io)
        existing = schemas.latest()
        if existing is not None:
            _check_same(existing, schema, location)
        self._client.create_table(identifier, schema_to_json(existing or schema, path))
        if existing is None and schemas.latest() is None:
            schemas.commit(schema)

    def _create_with_token(self, identifier: Identifier, schema: TableSchema, path: str) -> None:
        """Create an external table whose files can be seen only with a token, which an existing table has."""
        self._client.create_table(identifier, schema_to_json(schema, path))
        try:
            file_io, location = self.files(identifier)
            schemas = schema_manager(location, file_io)
            existing = schemas.latest()
            if existing is None:
                schemas.commit(schema)
                return
            _check_same(existing, schema, location)
        except (InterbedError, OSError):
            # The files of an external table stay.
            self._client.drop_table(identifier)
            raise
        self._client.drop_table(identifier)
        self._client.create_table(identifier, schema_to_json(existing, path))

    def drop(self, identifier: Identifier) -> None:
        """Drop a table; the server deletes the directory of a managed one, the client its files elsewhere."""
        from interbed.catalog.client.files.dropped_directories import (
            FilesOutside,
            delete_files_outside,
            delete_log,
            files_outside,
            table_with_log,
        )

        entry = self._entry(identifier)
        file_io, location = self._files(identifier, entry)
        owns = not entry.is_external and entry.type in _PAIMON_TYPES
        outside = files_outside(file_io, location) if owns else FilesOutside()
        logged = table_with_log(file_io, location) if owns else None
        self._client.drop_table(identifier)
        delete_files_outside(file_io, outside)
        delete_log(logged)

    def _files(self, identifier: Identifier, entry: TableEntry) -> tuple[FileIO, str]:
        if self._tokens is not None:
            return self._tokens.file_io(identifier, entry.id, entry.path)
        return file_io_for(entry.path, self._options.raw)

    def _entry(self, identifier: Identifier, branch: str = MAIN_BRANCH) -> TableEntry:
        source = f"The answer of {self._client.uri} about '{identifier}'"
        return TableEntry.from_json(self._client.table(identifier, branch), source=source)

    def _environment(self, identifier: Identifier, entry: TableEntry) -> StoreEnvironment:
        def apply(branch: str, changes: Sequence[SchemaChange]) -> None:
            self._alter(identifier, branch, changes)

        if entry.is_external:
            return StoreEnvironment(
                alter=lambda changes: apply(MAIN_BRANCH, changes),
                roll_back_schema=partial(_refuse_schema_rollback, identifier),
                file_options=self._options.raw,
            )

        def publisher(file_io: FileIO, paths: TablePaths) -> RestPublisher:
            def table_id() -> str:
                # A branch is a table of its own at the server.
                return entry.id if paths.branch == MAIN_BRANCH else self._entry(identifier, paths.branch).id

            return RestPublisher(self._client, identifier, file_io, paths, table_id)

        return StoreEnvironment(
            file_options=self._options.raw,
            publisher=publisher,
            versions=lambda branch: RestVersions(self._client, identifier, branch, apply),
        )

    def _alter(self, identifier: Identifier, branch: str, changes: Sequence[SchemaChange]) -> None:
        """Check the changes as if they were made here, then send them; raises InvalidInputError."""
        table = self.open(identifier)
        _check_changes(table.store if branch == MAIN_BRANCH else table.store.on_branch(branch), changes)
        send_changes(self._client, identifier, branch, changes)


def _refuse_bound(identifier: Identifier, entry: TableEntry) -> None:
    """Raise NotSupportedError for a table of files if policies bind its reader."""
    if entry.schema.options.get(QUERY_AUTH, "").lower() == "true":
        raise NotSupportedError(
            f"The table '{identifier}' has row filters or column masks for you, and its files are read without them. "
            "Have its owner exempt you."
        )


def _refuse_schema_rollback(identifier: Identifier, schema_id: int) -> NoReturn:
    raise NotSupportedError(
        f"The schema of the external table '{identifier}' is not rolled back: the server of the catalog keeps a copy "
        f"of the newest one, and would go on with it. Undo the changes since schema {schema_id} by alter_table."
    )


def _check_changes(store: FileStore, changes: Sequence[SchemaChange]) -> None:
    from interbed.storage.meta.schema.apply import apply_changes

    store = store.refreshed()
    current = store.schema
    has_snapshots = store.snapshots.latest_id() is not None
    changed = apply_changes(current, changes, has_snapshots=has_snapshots, schema_id=store.schemas.next_id())
    store.hooks.check_options(changed, current, (store.file_io, store.paths))


def _with_file(schema: TableSchema, file_io: FileIO, location: str) -> TableSchema | None:
    """Return the server's schema with the members that only its file has; None without the file."""
    schemas = schema_manager(location, file_io)
    if schema.id not in schemas.ids():
        return None
    stored = schemas.schema(schema.id)
    if stored.options == schema.options and stored.comment == schema.comment:
        return stored
    return replace(stored, options=schema.options, comment=schema.comment)


def _check_same(existing: TableSchema, wanted: TableSchema, location: str) -> None:
    columns = {f.name: f.type.with_nullable(True) for f in existing.fields}
    keys_differ = (existing.primary_keys, existing.partition_keys) != (wanted.primary_keys, wanted.partition_keys)
    if columns != {f.name: f.type.with_nullable(True) for f in wanted.fields} or keys_differ:
        raise InvalidOptionError(
            f"{location} holds a table with the columns {', '.join(existing.names)}, primary key "
            f"({', '.join(existing.primary_keys)}) and partition key ({', '.join(existing.partition_keys)}), which is "
            "not the requested schema; create the external table with the schema of its files."
        )
