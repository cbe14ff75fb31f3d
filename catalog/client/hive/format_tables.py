"""Format tables of a metastore: opened by their entries, created as an entry, and dropped by the metastore."""

from functools import partial
from typing import Any

from interbed.catalog.client.errors import NotAnInterbedTableError
from interbed.catalog.client.hive.connection import CallStateUnknownError
from interbed.catalog.client.hive.entries import MetastoreEntries
from interbed.catalog.client.hive.format_entries import (
    MetastoreRegister,
    definition_of,
    is_created_as_format_table,
    new_format_entry,
)
from interbed.catalog.client.hive.registration import check_columns, is_external, wants_external
from interbed.catalog.client.identifier import Identifier
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.io.resolve import normalize_path, same_file_system
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.table.format_table.definition import FormatDefinition
from interbed.storage.table.format_table.format_table import FormatTable


def _path_beside(table: str, location: str) -> str:
    """Return the path of a partition. NotSupportedError for another file system than that of the table."""
    path = normalize_path(location)
    if not same_file_system(path, table):
        raise NotSupportedError(
            f"{location} is in another file system than {table}, the location of its table, by which all partitions "
            "are read: move its files there, or read the table by Hive."
        )
    return path


class HiveFormatTables:
    """The format tables of one metastore."""

    def __init__(self, entries: MetastoreEntries) -> None:
        self._entries = entries
        self._client = entries.client
        self._options = entries.options

    def open(self, identifier: Identifier, entry: Any) -> FormatTable:
        """Return a format table; raises NotSupportedError for features of Hive that are not read."""

        entries = self._entries
        definition = definition_of(identifier, entry)
        location = entries.path(entries.locations.of(entry))
        register = None
        if keys := definition.schema.partition_keys:
            to_path = partial(_path_beside, location)
            register = MetastoreRegister(self._client, identifier, entry, entries.locations, to_path, keys)
        # Java Paimon finds the partitions of the tables that it creates in their directories.
        discovers = is_created_as_format_table(entry)
        file_io = entries.files_of(location)
        return FormatTable(str(identifier), location, file_io, definition, register, discovers=discovers)

    def create(self, identifier: Identifier, schema: TableSchema, path: str | None) -> None:
        """Create the entry of a format table; its files may exist already. TableExistsError, NotSupportedError."""

        if not self._options.format_table_enabled:
            raise NotSupportedError(
                f"The table '{identifier}' is no format table here: the catalog's option 'format-table.enabled' is "
                "'false'."
            )
        check_columns(schema)
        entries = self._entries
        external = path is not None or self._options.table_type == "external" or wants_external(schema)
        location = entries.new_table_location(identifier) if path is None else entries.uri(path)
        # A file system that is unknown, or refused, is reported before there is an entry.
        entries.files_of(location)
        entry = new_format_entry(
            identifier, FormatDefinition.of(schema), location, external=external, locations=entries.locations
        )
        try:
            self._client.create_table(entry)
        except CallStateUnknownError:
            found = self._client.get_table(identifier.database, identifier.table)
            if found.createTime != entry.createTime or (found.parameters or {}).get("type") != "format-table":
                raise

    def drop(self, identifier: Identifier, error: NotAnInterbedTableError, *, purge: bool) -> None:
        """Drop a format table that a catalog of Paimon's or interbed's created, with its files unless it is external.

        The metastore deletes the files, or keeps them for a time. Raises the error for other tables of Hive.
        """

        entry: Any = error.format_entry
        if not is_created_as_format_table(entry):
            raise error
        owned = not is_external(entry)
        if owned and not purge and self._client.kept_drops.drop_table(identifier.database, identifier.table):
            return
        properties = {"ifPurge": "TRUE"} if purge else {}
        self._client.drop_table(identifier.database, identifier.table, delete_data=owned, properties=properties)
