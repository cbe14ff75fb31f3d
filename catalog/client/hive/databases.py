"""Creating, changing and dropping databases of a metastore."""

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from interbed.catalog.client.api import Database
from interbed.catalog.client.errors import (
    DatabaseExistsError,
    DatabaseNotEmptyError,
    DatabaseNotFoundError,
    TableNotFoundError,
)
from interbed.catalog.client.files.database_file import check_no_location
from interbed.catalog.client.files.dropped_database import drop_empty_directory
from interbed.catalog.client.files.table_files import remove_link
from interbed.catalog.client.hive.connection import CallStateUnknownError
from interbed.catalog.client.hive.entries import Entries
from interbed.catalog.client.hive.registration import LOCATION_PARAMETER, same_location
from interbed.catalog.client.identifier import Identifier, check_database_name
from interbed.storage.base.errors import InvalidOptionError, StorageAccessError
from interbed.storage.io.deleting import is_link
from interbed.storage.version.own_paths import shortened
from interbed.thrift_idl.hive_metastore.ttypes import Database as HiveDatabase
from interbed.thrift_idl.hive_metastore.ttypes import PrincipalType

_log = logging.getLogger(__name__)

_COMMENT = "comment"
_LOCATION = "location"
_OWNER = "owner"


class HiveDatabases:
    """The databases of one metastore."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._client = entries.client

    def get(self, name: str) -> Database:
        """The database; DatabaseNotFoundError."""
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
        """Create a database and its directory; DatabaseExistsError."""
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
        self._create(database, location)
        try:
            # A metastore on another machine makes the directory where its clients do not see it.
            path = self._entries.path(location)
            self._entries.file_io.make_directories(path)
            self._entries.file_io.sync([path])
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
        """Drop a database with its directory; DatabaseNotFoundError, DatabaseNotEmptyError unless `cascade`."""
        database = self._entries.database(name)
        tables = self._client.get_all_tables(name)
        if tables and not cascade:
            raise DatabaseNotEmptyError(
                f"The database '{name}' still holds {len(tables)} tables, such as '{tables[0]}'; drop it with cascade."
            )
        for table in self._entries.our_tables(name, tables):
            drop_table(Identifier(name, table))
        for table in self._client.get_all_tables(name) if cascade else []:
            # Tables of other formats are the metastore's to delete, each by itself: with the database it would delete
            # the directory with all that is in it.
            with contextlib.suppress(TableNotFoundError):
                self._client.drop_table(name, table, delete_data=True)
        try:
            self._client.drop_database(name, delete_data=False, cascade=cascade)
        except CallStateUnknownError:
            # It may have been carried out the first time.
            with contextlib.suppress(DatabaseNotFoundError):
                self._client.drop_database(name, delete_data=False, cascade=cascade)
        self._delete_directory(self._entries.path(self._entries.database_location(database)))

    def _delete_directory(self, location: str) -> None:
        """Delete the directory of a database that is dropped, unless something is in it, which is logged."""
        file_io = self._entries.file_io
        if is_link(file_io, location):
            remove_link(file_io, location)
            return
        # Something has come meanwhile if it is refused.
        with contextlib.suppress(StorageAccessError):
            if left := drop_empty_directory(file_io, location):
                _log.warning(
                    "Left %s of a database that is dropped, for it holds what none of its tables has made: %s.",
                    location,
                    shortened(left, location),
                )

    def alter(self, name: str, set_properties: Mapping[str, str], remove_properties: Sequence[str]) -> None:
        """Set and remove properties; DatabaseNotFoundError, InvalidOptionError for the location."""
        database = self._entries.database(name)
        parameters = dict(database.parameters or {})
        for key in remove_properties:
            if key == _COMMENT:
                # Without one, a metastore leaves the description as it is.
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
            # Replacing it by the same once more changes nothing.
            self._client.alter_database(name, database)
