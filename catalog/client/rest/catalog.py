"""A catalog behind a Paimon REST server: names, locations and schemas by REST, files by the scheme of the location.

The server creates, alters, renames and drops tables, and writes their files of schemas and snapshots. The client writes
data files and manifests, and reads all files by itself. Tags, consumers, the expiry of snapshots and the list of
partitions need no call: their files are the truth, for the server too. Commits, rollbacks and branches of managed
tables are made by the server; those of an external table are made in its files, as by Paimon's Java client.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from interbed.catalog.client.api import Catalog, Database, View, ViewColumn, parse_table_name
from interbed.catalog.client.errors import (
    DatabaseExistsError,
    DatabaseNotEmptyError,
    DatabaseNotFoundError,
    NotAnInterbedTableError,
    TableExistsError,
    TableNotFoundError,
    ViewNotFoundError,
)
from interbed.catalog.client.grants import GrantCalls
from interbed.catalog.client.identifier import (
    SYSTEM_DATABASE,
    Identifier,
    TableName,
    branch_to_alter,
    check_database_name,
)
from interbed.catalog.client.options import CatalogOptions
from interbed.catalog.client.recovery import DropCalls, ServedDrops
from interbed.catalog.client.rest.client import RestFunctions
from interbed.catalog.client.rest.http import CONFLICT, NOT_FOUND, RestRefusedError, catalog_error
from interbed.catalog.client.rest.messages import has_dialect, view_changes, view_from_json, view_to_json
from interbed.catalog.client.rest.settings import open_client
from interbed.catalog.client.rest.tables import RestTables
from interbed.catalog.client.staging import StagedTable, TableFill
from interbed.storage.base.errors import CommitConflictError, InvalidOptionError, NotSupportedError
from interbed.storage.io.api import FileIO
from interbed.storage.io.resolve import file_io_for
from interbed.storage.meta.options.format import FORMAT_TABLE, is_object_table
from interbed.storage.meta.schema.change import SchemaChange
from interbed.storage.meta.schema.table_schema import Schema, TableSchema
from interbed.storage.table.table import Table

if TYPE_CHECKING:
    from interbed.catalog.client.partition import PartitionSpecs
    from interbed.storage.meta.schema.manager import SchemaOutline

_COMMENT = "comment"
_LOCATION = "location"


class RestCatalog(RestFunctions, ServedDrops, Catalog):
    """Databases and tables of a Paimon REST server, Java's or interbed's."""

    def __init__(self, name: str, options: CatalogOptions) -> None:
        self.client, merged = open_client(options)
        super().__init__(name, merged)
        self._tables = RestTables(self.client, merged)
        self._drops, self._grants = self.client.drops(), self.client.grants()

    def __repr__(self) -> str:
        return f"RestCatalog({self.name!r}, {self.client.uri!r}, {self.warehouse!r})"

    @property
    def warehouse(self) -> str:
        """The name of the warehouse at the server, which need not be a location."""
        return self.options.warehouse or ""

    @property
    def file_io(self) -> FileIO:
        """The file system of the warehouse if its name is a location, otherwise the local one.

        Each table has that of its own location.
        """
        return file_io_for(self.warehouse, self.options.raw)[0]

    def close(self) -> None:
        self.client.close()
        for beside in (self._drops, self._grants):
            if beside is not None:
                beside.close()

    # -- databases -------------------------------------------------------------------------------------------------

    def list_databases(self) -> list[str]:
        try:
            return sorted(self.client.databases())
        except RestRefusedError as error:
            raise catalog_error(error) from error

    def _get_database(self, name: str) -> Database:
        try:
            found = self.client.database(check_database_name(name))
        except RestRefusedError as error:
            raise self._of_database(name, error) from error
        options = {str(k): str(v) for k, v in (found.get("options") or {}).items() if v is not None}
        comment = options.pop(_COMMENT, None)
        location = options.pop(_LOCATION, None) or str(found.get("location") or "")
        return Database(name=name, location=location, comment=comment, properties=options)

    def _create_database(self, name: str, properties: Mapping[str, str]) -> None:
        try:
            self.client.create_database(check_database_name(name), properties)
        except RestRefusedError as error:
            if error.status == CONFLICT:
                raise DatabaseExistsError(f"There is a database '{name}' in {self.described} already.") from error
            raise catalog_error(error) from error

    def _drop_database(self, name: str, *, cascade: bool) -> None:
        tables = self._list_tables(check_database_name(name))
        if tables and not cascade:
            raise DatabaseNotEmptyError(
                f"The database '{name}' still holds {len(tables)} tables, such as '{tables[0]}'; drop it with cascade."
            )
        # One by one, because a server may leave the entries of tables, or their external files, behind.
        for table in tables:
            self.drop_table(Identifier(name, table), ignore_if_not_exists=True)
        try:
            self.client.drop_database(name)
        except RestRefusedError as error:
            if error.status == CONFLICT:
                raise DatabaseNotEmptyError(f"The database '{name}' is not empty: {error}") from error
            raise self._of_database(name, error) from error

    def _alter_database(self, name: str, set_properties: Mapping[str, str], remove_properties: Sequence[str]) -> None:
        if _LOCATION in set_properties or _LOCATION in remove_properties:
            raise InvalidOptionError(
                "The location of a database can't be changed; create another one and rename the tables into it."
            )
        present = self._get_database(name)
        removed = [key for key in remove_properties if key in present.properties or key == _COMMENT]
        try:
            self.client.alter_database(name, removed, set_properties)
        except RestRefusedError as error:
            raise self._of_database(name, error) from error

    def _of_database(self, name: str, error: RestRefusedError) -> Exception:
        if error.status == NOT_FOUND:
            return DatabaseNotFoundError(f"There is no database '{name}' in {self.described}.")
        return catalog_error(error)

    # -- tables ----------------------------------------------------------------------------------------------------

    def _list_tables(self, database: str) -> list[str]:
        try:
            # Some servers list a branch beside its table, with or without its name.
            return sorted({name for name in self.client.tables(check_database_name(database)) if "$" not in name})
        except RestRefusedError as error:
            raise self._of_database(database, error) from error

    def list_format_tables(self, database: str) -> list[str]:
        try:
            return sorted(self.client.tables(check_database_name(database), FORMAT_TABLE))
        except RestRefusedError as error:
            raise self._of_database(database, error) from error

    def leave_out_format_tables(self, *, keep_created: bool = False) -> None:
        self._tables.format_tables = self._tables.format_tables and keep_created

    def _load_table(self, identifier: Identifier) -> Table:
        try:
            return self._tables.open(identifier)
        except RestRefusedError as error:
            raise self._of_table(identifier, error) from error

    def _of_table(self, identifier: Identifier, error: RestRefusedError) -> Exception:
        if error.is_missing("DATABASE"):
            return DatabaseNotFoundError(f"There is no database '{identifier.database}' in {self.described}.")
        if error.is_missing("TABLE", ""):
            return self._no_table(identifier)
        return catalog_error(error)

    def table_exists(self, identifier: "str | Identifier") -> bool:
        """Return whether there is a table of that name, in any format."""
        try:
            return super().table_exists(identifier)
        except NotAnInterbedTableError:
            return True

    def table_outline(self, identifier: "str | Identifier") -> "SchemaOutline":
        from interbed.storage.meta.schema.manager import read_outline

        return read_outline(*self._files_of(parse_table_name(identifier)))

    def _location_of(self, identifier: Identifier) -> str:
        return self._files_of(identifier)[1]

    def _files_of(self, identifier: Identifier) -> tuple[FileIO, str]:
        try:
            return self._tables.files(identifier)
        except RestRefusedError as error:
            raise self._of_table(identifier, error) from error

    def _new_location(self, identifier: Identifier, path: str | None) -> tuple[FileIO, str]:
        # A staged table exists at the server, which has chosen its location.
        return self._files_of(identifier) if path is None else file_io_for(path, self.options.raw)

    def _create_table(
        self, identifier: Identifier, schema: TableSchema, path: str | None, fill: TableFill | None = None
    ) -> None:
        if is_object_table(schema.options):
            self._check_new(identifier)
        try:
            self._tables.create(identifier, schema, path)
        except RestRefusedError as error:
            raise self._of_creation(identifier, error) from error
        if fill is not None:
            self._fill(identifier, fill)

    def _create_format_table(self, identifier: Identifier, schema: TableSchema, path: str | None) -> None:
        self._check_new(identifier)
        try:
            self._tables.create_format_table(identifier, schema, path)
        except RestRefusedError as error:
            raise self._of_creation(identifier, error) from error

    def _check_new(self, identifier: Identifier) -> None:
        """Raise TableExistsError for a table: not every server checks the name of a format table or object table."""
        if self.table_exists(identifier):
            raise TableExistsError(f"There is a table '{identifier}' in {self.described} already.")

    def _of_creation(self, identifier: Identifier, error: RestRefusedError) -> Exception:
        if error.status == CONFLICT:
            return TableExistsError(f"There is a table '{identifier}' in {self.described} already.")
        if error.status == NOT_FOUND:
            return self._of_database(identifier.database, error)
        return catalog_error(error)

    def _replace_table(self, identifier: Identifier, schema: TableSchema, fill: TableFill) -> None:
        raise self._no_replacement(identifier)

    def _no_replacement(self, identifier: Identifier) -> NotSupportedError:
        return NotSupportedError(
            f"The table '{identifier}' is not replaced: Paimon's REST interface replaces no schema together with its "
            "rows. Overwrite the rows and alter the columns, or drop the table and create it again."
        )

    # -- staged tables ---------------------------------------------------------------------------------------------

    def stage_table(
        self, identifier: "str | Identifier", schema: Schema, *, replace: bool = False, create: bool = True
    ) -> StagedTable:
        """Create a new table, empty, for rows that are committed later; raises as Catalog.stage_table.

        The server alone chooses locations, and it creates no table with rows. So the empty table is visible until its
        rows are committed, and stays after a kill. Replacing a table is refused (NotSupportedError).
        """
        name = parse_table_name(identifier)
        self.get_database(name.database)
        wanted, path = self._schema_of_staged(name, schema)
        if self.table_exists(name):
            if replace:
                raise self._no_replacement(name)
            raise TableExistsError(f"There is a table '{name}' already.")
        if not create:
            raise TableNotFoundError(f"There is no table '{name}' to replace; create it, or write CREATE OR REPLACE.")
        self._create_table(name, wanted, path)
        return self.staged(name, wanted, path, replaces=False)

    def staged(self, name: Identifier, schema: TableSchema, path: str | None, *, replaces: bool) -> StagedTable:
        if replaces:
            raise self._no_replacement(name)
        table = self._load_table(name)
        return StagedTable(catalog=self, identifier=name, schema=table.schema, path=path, replaces=False, table=table)

    def discard_staged(self, staged: StagedTable) -> None:
        """Drop the table if it is still the staged one, and empty."""
        try:
            table = self._load_table(staged.identifier)
        except (TableNotFoundError, DatabaseNotFoundError):
            return
        store = staged.table.store
        if table.location == store.location and not store.is_gone() and table.latest_snapshot() is None:
            self.drop_table(staged.identifier, ignore_if_not_exists=True)

    def publish_staged(self, staged: StagedTable, fill: TableFill | None) -> None:
        """Commit the rows of a table that exists since it was staged."""
        if fill is not None:
            self._fill(staged.identifier, fill, staged.table)

    def _fill(self, identifier: Identifier, fill: TableFill, opened: Table | None = None) -> None:
        table = self._load_table(identifier)
        if opened is not None and (opened.store.is_gone() or opened.location != table.location):
            raise CommitConflictError(f"The table '{identifier}' was dropped or recreated before it got its rows.")
        if not fill.is_in(table) or table.latest_snapshot() is None:
            fill(table)

    # -- changes of tables -----------------------------------------------------------------------------------------

    def drop_table(
        self, identifier: "str | Identifier", ignore_if_not_exists: bool = False, *, purge: bool = False
    ) -> None:
        name = parse_table_name(identifier)
        if purge:
            raise NotSupportedError(f"The REST catalog '{self.name}' has no PURGE: its server decides about the files.")
        try:
            self._tables.drop(name)
        except RestRefusedError as error:
            found = self._of_table(name, error)
            if not (ignore_if_not_exists and isinstance(found, TableNotFoundError | DatabaseNotFoundError)):
                raise found from error

    def rename_table(
        self, source: "str | Identifier", target: "str | Identifier", ignore_if_not_exists: bool = False
    ) -> None:
        old, new = parse_table_name(source), parse_table_name(target)
        if not self.table_exists(old):
            if ignore_if_not_exists:
                return
            raise self._no_table(old)
        # Not every server checks the target.
        self.get_database(new.database)
        if self.table_exists(new):
            raise TableExistsError(f"There is a table '{new}' in {self.described} already.")
        try:
            self.client.rename_table(old, new)
        except RestRefusedError as error:
            if error.status == CONFLICT:
                raise TableExistsError(f"There is a table '{new}' in {self.described} already.") from error
            raise self._of_table(old, error) from error

    def alter_table(
        self,
        identifier: "str | Identifier",
        changes: Sequence[SchemaChange] | SchemaChange,
        ignore_if_not_exists: bool = False,
    ) -> None:
        branch = branch_to_alter(identifier)
        name = TableName.parse(branch).identifier if branch is not None else parse_table_name(identifier)
        try:
            table = self.get_table(identifier if branch is not None else name)
        except TableNotFoundError:
            if ignore_if_not_exists:
                return
            raise
        try:
            table.store.alter(list(changes) if isinstance(changes, Sequence) else [changes])
        except RestRefusedError as error:
            raise self._of_table(name, error) from error

    def _drop_calls(self) -> DropCalls:
        if self._drops is None:
            raise self._no_dropped("dropped")
        return self._drops

    def _grant_calls(self) -> GrantCalls:
        return super()._grant_calls() if self._grants is None else self._grants

    # -- partitions ------------------------------------------------------------------------------------------------

    def mark_partitions_done(
        self, identifier: "str | Identifier", partitions: "PartitionSpecs"
    ) -> list[dict[str, str]]:
        """Mark partitions as complete, as Catalog.mark_partitions_done; the server marks registered ones, too."""
        marked = super().mark_partitions_done(identifier, partitions)
        table = self.get_table(identifier)
        if marked and table.options.boolean("metastore.partitioned-table", False):
            try:
                self.client.mark_partitions_done(TableName.parse(identifier).identifier, marked)
            except RestRefusedError as error:
                raise catalog_error(error) from error
        return marked

    # -- views -----------------------------------------------------------------------------------------------------

    def list_views(self, database: str) -> list[str]:
        if database == SYSTEM_DATABASE:
            return []
        try:
            return sorted(self.client.views(check_database_name(database)))
        except RestRefusedError as error:
            raise self._of_database(database, error) from error

    def get_view(self, identifier: "str | Identifier") -> View:
        return self._read_view(parse_table_name(identifier))[0]

    def _read_view(self, name: Identifier) -> tuple[View, bool]:
        """Return a view, and whether it has a query of Spark; raises ViewNotFoundError, DatabaseNotFoundError."""
        from interbed.catalog.client.hive.registration import hive_type_name

        try:
            found = self.client.view(name)
        except RestRefusedError as error:
            raise self._of_view(name, error) from error
        source = f"The answer of {self.client.uri} about the view '{name}'"
        return view_from_json(found, hive_type_name, source=source), has_dialect(found)

    def create_view(
        self,
        identifier: "str | Identifier",
        view: View,
        ignore_if_exists: bool = False,
        *,
        replace: bool = False,
    ) -> None:
        name = parse_table_name(identifier)
        schema = view_to_json(view)
        try:
            present, has_query = self._read_view(name)
        except (ViewNotFoundError, DatabaseNotFoundError):
            present, has_query = None, False
        if present is not None and replace:
            self._replace_view(name, present, view, has_dialect=has_query)
            return
        if present is not None or self.table_exists(name):
            if ignore_if_exists:
                return
            raise TableExistsError(f"There is a table or view '{name}' in {self.described} already.")
        try:
            self.client.create_view(name, schema)
        except RestRefusedError as error:
            if error.status != CONFLICT:
                raise self._of_view(name, error) from error
            if not ignore_if_exists:
                raise TableExistsError(f"There is a view '{name}' in {self.described} already.") from error

    def _replace_view(self, name: Identifier, present: View, wanted: View, *, has_dialect: bool) -> None:
        """Change a view by one request, which changes no columns; raises NotSupportedError for others.

        `has_dialect` says that the present view has a query of Spark.
        """
        if present.columns != wanted.columns:
            raise NotSupportedError(
                f"The view '{name}' is not replaced: Paimon's REST interface changes the query of a view, and not its "
                f"columns, which are {', '.join(map(_column_text, present.columns))}, and would be "
                f"{', '.join(map(_column_text, wanted.columns))}. Drop it and create it again."
            )
        changes = view_changes(present, wanted, has_dialect=has_dialect)
        if not changes:
            return
        try:
            self.client.alter_view(name, changes)
        except RestRefusedError as error:
            raise self._of_view(name, error) from error

    def drop_view(self, identifier: "str | Identifier", ignore_if_not_exists: bool = False) -> None:
        name = parse_table_name(identifier)
        try:
            self.client.drop_view(name)
        except RestRefusedError as error:
            found = self._of_view(name, error)
            if not (ignore_if_not_exists and isinstance(found, ViewNotFoundError)):
                raise found from error

    def rename_view(self, source: "str | Identifier", target: "str | Identifier") -> None:
        old, new = parse_table_name(source), parse_table_name(target)
        self.get_view(old)
        self.get_database(new.database)
        if new.table in self.list_views(new.database) or self.table_exists(new):
            raise TableExistsError(f"There is a table or view '{new}' in {self.described} already.")
        try:
            self.client.rename_view(old, new)
        except RestRefusedError as error:
            raise self._of_view(old, error) from error

    def _of_view(self, identifier: Identifier, error: RestRefusedError) -> Exception:
        if error.is_missing("DATABASE"):
            return DatabaseNotFoundError(f"There is no database '{identifier.database}' in {self.described}.")
        if error.status == NOT_FOUND:
            return ViewNotFoundError(f"There is no view '{identifier}' in {self.described}.")
        return catalog_error(error)

    def _no_repair(self) -> NotSupportedError:
        return NotSupportedError(
            "The server of a REST catalog registers its tables by itself; there is nothing to repair."
        )


def _column_text(column: ViewColumn) -> str:
    return f"{column.name} {column.type}"
