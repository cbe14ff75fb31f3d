"""Databases and views of a metastore.

Views are kept as in Paimon's Hive catalog: a VIRTUAL_VIEW with the query in two fields, options as parameters.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from interbed.catalog.client.api import Database, View, ViewColumn
from interbed.catalog.client.errors import (
    DatabaseExistsError,
    DatabaseNotEmptyError,
    DatabaseNotFoundError,
    TableExistsError,
    TableNotFoundError,
    ViewNotFoundError,
)
from interbed.catalog.client.files.database_directory import check_no_location, drop_empty_directory
from interbed.catalog.client.files.table_files import remove_link
from interbed.catalog.client.hive.connection import CallStateUnknownError, current_user
from interbed.catalog.client.hive.entries import MetastoreEntries
from interbed.catalog.client.hive.registration import LOCATION_PARAMETER, VIRTUAL_VIEW, is_view, same_location
from interbed.catalog.client.identifier import Identifier, check_database_name
from interbed.storage.base.errors import InvalidOptionError, StorageAccessError
from interbed.storage.io.parallel import is_link
from interbed.storage.version.references import shortened
from interbed.thrift_idl.hive_metastore.ttypes import Database as HiveDatabase
from interbed.thrift_idl.hive_metastore.ttypes import FieldSchema, PrincipalType, SerDeInfo, StorageDescriptor
from interbed.thrift_idl.hive_metastore.ttypes import Table as HiveTable

_log = logging.getLogger(__name__)

_COMMENT = "comment"

_LOCATION = "location"

_OWNER = "owner"

# Parameters that metastores add.
_ADDED = ("transient_lastDdlTime", "last_modified_time", "last_modified_by")


class HiveDatabases:
    """The databases of one metastore."""

    def __init__(self, entries: MetastoreEntries) -> None:
        self._entries = entries
        self._client = entries.client

    def get(self, name: str) -> Database:
        """Return the database; raise DatabaseNotFoundError."""
        found = self._entries.database(name)
        properties = {k: v for k, v in (found.parameters or {}).items() if k != LOCATION_PARAMETER}
        if found.ownerName:
            properties[_OWNER] = found.ownerName
        return Database(
            name=name,
            location=self._entries.database_location(found),
            comment=found.description or None,
            properties=properties,
        )

    def create(self, name: str, properties: Mapping[str, str]) -> None:
        """Create a database and its directory; raise DatabaseExistsError, NotSupportedError for a location in another
        file system than the warehouse.
        """
        check_database_name(name)
        parameters = dict(properties)
        comment = parameters.pop(_COMMENT, None)
        owner = parameters.pop(_OWNER, None)
        location = parameters.pop(_LOCATION, None) or self._entries.new_database_location(name)
        database = HiveDatabase(
            name=name,
            description=comment,
            parameters=parameters,
            ownerName=owner,
            ownerType=PrincipalType.USER if owner else None,
        )
        self._entries.locations.set_database(database, location)
        # An unknown file system is refused before the metastore has the database.
        path, file_io = self._entries.path(location), self._entries.files_of(location)
        self._create(database, location)
        try:
            # A metastore on another machine makes a directory that its clients do not see.
            file_io.make_directories(path)
            file_io.sync([path])
        except StorageAccessError:
            self._client.drop_database(name, delete_data=False)
            raise

    def _create(self, database: Any, location: str) -> None:
        try:
            self._client.create_database(database)
        except CallStateUnknownError:
            try:
                found = self._client.get_database(database.name)
            except DatabaseNotFoundError:
                self._client.create_database(database)
                return
            if not same_location(self._entries.locations.of_database(found) or "", location):
                raise DatabaseExistsError(
                    f"Database {database.name} already exists in {self._client.uri}, at another place"
                ) from None

    def drop(self, name: str, *, cascade: bool, drop_table: Callable[[Identifier], None]) -> None:
        """Drop a database with its directory; raise DatabaseNotFoundError, DatabaseNotEmptyError unless `cascade`."""
        database = self._entries.database(name)
        tables = self._client.get_all_tables(name)
        if tables and not cascade:
            raise DatabaseNotEmptyError(
                f"The database '{name}' still holds {len(tables)} tables, such as '{tables[0]}'; drop it with cascade."
            )
        for table in self._entries.our_tables(name, tables):
            drop_table(Identifier(name, table))
        for table in self._client.get_all_tables(name) if cascade else []:
            # The metastore deletes tables of other formats one by one: with the database it would delete the whole
            # directory.
            with contextlib.suppress(TableNotFoundError):
                self._client.drop_table(name, table, delete_data=True)
        try:
            self._client.drop_database(name, delete_data=False, cascade=cascade)
        except CallStateUnknownError:
            # The first call may have been executed.
            with contextlib.suppress(DatabaseNotFoundError):
                self._client.drop_database(name, delete_data=False, cascade=cascade)
        self._delete_directory(self._entries.path(self._entries.database_location(database)))

    def _delete_directory(self, location: str) -> None:
        """Delete the directory of a dropped database, unless it has other files, which is logged."""
        file_io = self._entries.files_of(location)
        if is_link(file_io, location):
            remove_link(file_io, location)
            return
        # It is refused if a file was written meanwhile.
        with contextlib.suppress(StorageAccessError):
            if left := drop_empty_directory(file_io, location):
                _log.warning(
                    "Left %s of a dropped database, because it has foreign files: %s.",
                    location,
                    shortened(left, location),
                )

    def alter(self, name: str, set_properties: Mapping[str, str], remove_properties: Sequence[str]) -> None:
        """Set and remove properties; raise DatabaseNotFoundError, InvalidOptionError for the location."""
        database = self._entries.database(name)
        parameters = dict(database.parameters or {})
        for key in remove_properties:
            if key == _COMMENT:
                # Without a description, a metastore keeps the old one.
                database.description = ""
            parameters.pop(key, None)
        check_no_location(set_properties)
        if LOCATION_PARAMETER in set_properties:
            raise InvalidOptionError(f"'{LOCATION_PARAMETER}' says where a database is, which can't be changed.")
        for key, value in set_properties.items():
            if key == _COMMENT:
                database.description = value
            elif key == _OWNER:
                database.ownerName = value
            else:
                parameters[key] = value
        database.parameters = parameters
        try:
            self._client.alter_database(name, database)
        except CallStateUnknownError:
            # The call is idempotent.
            self._client.alter_database(name, database)


class HiveViews:
    """The views of one metastore."""

    def __init__(self, entries: MetastoreEntries) -> None:
        self._entries = entries
        self._client = entries.client

    def names(self, database: str) -> list[str]:
        """Return the names of the views of a database, sorted; raise DatabaseNotFoundError."""
        self._entries.database(database)
        return self._entries.chosen(database, self._client.get_all_tables(database), is_view)

    def get(self, identifier: Identifier) -> View:
        """Return the view; raise ViewNotFoundError."""
        entry = self._entry(identifier)
        options = {k: v for k, v in (entry.parameters or {}).items() if k not in _ADDED}
        comment = options.pop(_COMMENT, None)
        columns = tuple(ViewColumn(c.name, c.type, c.comment) for c in entry.sd.cols)
        query = entry.viewExpandedText or entry.viewOriginalText or ""
        return View(query=query, columns=columns, comment=comment, options=options)

    def create(self, identifier: Identifier, view: View, *, replace: bool) -> None:
        """Create or replace a view; raise TableExistsError, DatabaseNotFoundError."""
        entry = _entry_of(identifier, view)
        if replace:
            try:
                self._entry(identifier)
            except ViewNotFoundError:
                pass
            else:
                self._client.alter_table(identifier.database, identifier.table, entry)
                return
        if self._entries.has_table(identifier):
            raise TableExistsError(f"There is a table or view '{identifier}' in {self._client.uri} already.")
        self._entries.database(identifier.database)
        try:
            self._client.create_table(entry)
        except CallStateUnknownError:
            if not self._entries.has_table(identifier):
                raise

    def drop(self, identifier: Identifier) -> None:
        """Drop a view; raise ViewNotFoundError."""
        self._entry(identifier)
        self._client.drop_table(identifier.database, identifier.table, delete_data=False)

    def rename(self, old: Identifier, new: Identifier) -> None:
        """Rename a view; raise ViewNotFoundError, TableExistsError, DatabaseNotFoundError."""
        entry = self._entry(old)
        if self._entries.has_table(new):
            raise TableExistsError(f"There is a table or view '{new}' in {self._client.uri} already.")
        self._entries.database(new.database)
        entry.dbName, entry.tableName = new.database, new.table
        self._client.alter_table(old.database, old.table, entry)

    def _entry(self, identifier: Identifier) -> Any:
        try:
            found = self._client.get_table(identifier.database, identifier.table)
        except (TableNotFoundError, DatabaseNotFoundError):
            found = None
        if found is None or not is_view(found):
            raise ViewNotFoundError(f"There is no view '{identifier}' in the metastore {self._client.uri}.")
        return found


def _entry_of(identifier: Identifier, view: View) -> HiveTable:
    now = int(time.time())
    parameters = dict(view.options)
    if view.comment is not None:
        parameters[_COMMENT] = view.comment
    return HiveTable(
        dbName=identifier.database,
        tableName=identifier.table,
        owner=current_user(),
        createTime=now,
        lastAccessTime=now,
        retention=0,
        partitionKeys=[],
        parameters=parameters,
        tableType=VIRTUAL_VIEW,
        viewOriginalText=view.query,
        viewExpandedText=view.query,
        sd=StorageDescriptor(
            cols=[FieldSchema(name=c.name, type=c.type, comment=c.comment) for c in view.columns],
            compressed=False,
            numBuckets=-1,
            inputFormat="org.apache.hadoop.mapred.SequenceFileInputFormat",
            outputFormat="org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
            serdeInfo=SerDeInfo(
                serializationLib="org.apache.hadoop.hive.serde2.MetadataTypedColumnsetSerDe", parameters={}
            ),
            bucketCols=[],
            sortCols=[],
            parameters={},
        ),
    )
