"""Dropped tables that a metastore of interbed's keeps, by calls that each Hive metastore has.

A drop with `interbed.undrop` = `keep` in its environment context keeps the table with its directory, or is refused. A
creation with that key and the name of a dropped table puts the table back. Other metastores ignore the key, and would
delete the files or create a table without columns. So each connection is asked first for a configuration value that
only interbed's metastore has: several addresses may be of different metastores. Another value says that the metastore
also lists dropped objects, takes the ids of drops, puts databases back and purges.
"""

import json
import weakref
from collections.abc import Mapping
from typing import Any

from thrift.Thrift import TApplicationException

from interbed.catalog.client.dropped import DroppedEntry
from interbed.catalog.client.errors import CatalogError, DatabaseExistsError, TableExistsError, TableNotFoundError
from interbed.catalog.client.hive.connection import REFUSALS, MetastoreCalls, refusal
from interbed.storage.base.errors import NotSupportedError
from interbed.thrift_idl.hive_metastore import ttypes

_CONFIG_KEY, _CONTEXT_KEY = "hive.metastore.interbed.undrop", "interbed.undrop"

_LISTS_KEY, _ID_KEY, _KIND_KEY = "hive.metastore.interbed.dropped", "interbed.undrop.id", "interbed.undrop.kind"

_DROPPED_TYPE = "INTERBED_DROPPED"

_NOT_WHOLLY_PURGED = " is not deleted wholly: see the log of the server"
"""The end of the refusal of a purge that left some files, which the server deletes later."""

_NOT_KEPT = " cannot be kept when it is dropped"
"""The end of the refusal of a drop that would delete the files: nothing was changed."""


class KeptDrops:
    """The dropped tables of one metastore. Safe for many threads."""

    def __init__(self, calls: MetastoreCalls, uri: str) -> None:
        self._calls = calls
        self._uri = uri
        self._answers: weakref.WeakKeyDictionary[Any, dict[str, bool]] = weakref.WeakKeyDictionary()

    def drop_table(self, database: str, name: str) -> bool:
        """Drop a managed table and have it kept with its directory, to be put back. Return False if the metastore
        cannot keep it: nothing was changed then.

        TableNotFoundError; CatalogError for any other refusal, after which the table exists as before.
        """
        environment = ttypes.EnvironmentContext(properties={_CONTEXT_KEY: "keep"})

        def drop(client: Any) -> bool:
            if not self._keeps_tables(client):
                return False
            client.drop_table_with_environment_context(database, name, True, environment)
            return True

        try:
            return self._calls.change(drop)
        except ttypes.NoSuchObjectException as error:
            raise TableNotFoundError(f"Table {database}.{name} does not exist in {self._uri}") from error
        except REFUSALS as error:
            if isinstance(error, ttypes.MetaException) and (error.message or "").endswith(_NOT_KEPT):
                return False
            raise refusal(self._uri, f"drop table {database}.{name}", error) from error

    def undrop_table(self, database: str, name: str, new_name: str | None = None) -> None:
        """Put the latest dropped table of a name back, perhaps under a new one. NotSupportedError unless the metastore
        is interbed's; TableNotFoundError if it has none; TableExistsError.
        """
        names = ttypes.Table(dbName=database, tableName=new_name or name)
        environment = ttypes.EnvironmentContext(properties={_CONTEXT_KEY: name})

        def undrop(client: Any) -> None:
            if not self._keeps_tables(client):
                raise NotSupportedError(
                    f"The metastore {self._uri} keeps no dropped tables: only a server of interbed's puts them back."
                )
            client.create_table_with_environment_context(names, environment)

        try:
            self._calls.change(undrop)
        except ttypes.AlreadyExistsException as error:
            raise TableExistsError(f"Table {database}.{new_name or name} already exists in {self._uri}") from error
        except ttypes.NoSuchObjectException as error:
            raise TableNotFoundError(f"{error.message} ({self._uri})") from error
        except REFUSALS as error:
            raise refusal(self._uri, f"put table {database}.{name} back", error) from error

    def dropped(self, database: str | None) -> list[Mapping[str, Any]]:
        """Return the dropped objects as JSON, the latest first; NotSupportedError unless the metastore lists them."""

        def listed(client: Any) -> list[Any]:
            self._check_lists(client)
            found: list[Any] = client.get_table_meta(database or "*", "*", [_DROPPED_TYPE])
            return found

        try:
            return [json.loads(each.comments) for each in self._calls.read(listed)]
        except (TypeError, ValueError) as error:
            raise CatalogError(f"{self._uri} lists dropped objects in a form of another version: {error}") from error
        except REFUSALS as error:
            raise refusal(self._uri, "list dropped objects", error) from error

    def undrop(self, entry: DroppedEntry, new_name: str | None) -> None:
        """Put the object of a drop back, a table perhaps under a new name.

        TableNotFoundError if it is not kept, TableExistsError, DatabaseExistsError, NotSupportedError.
        """
        own = "" if entry.name is None else new_name or entry.name
        names = ttypes.Table(dbName=entry.database, tableName=own)
        environment = _context(entry, entry.name or "")

        def undrop(client: Any) -> None:
            self._check_lists(client)
            client.create_table_with_environment_context(names, environment)

        try:
            self._calls.change(undrop)
        except ttypes.AlreadyExistsException as error:
            kind = DatabaseExistsError if entry.name is None else TableExistsError
            raise kind(f"{error.message} ({self._uri})") from error
        except ttypes.NoSuchObjectException as error:
            raise TableNotFoundError(f"{error.message} ({self._uri})") from error
        except REFUSALS as error:
            raise refusal(self._uri, f"put {entry.qualified} back", error) from error

    def purge(self, entry: DroppedEntry) -> bool:
        """Delete the object of a drop for good; return whether all of it is deleted. TableNotFoundError."""
        environment = _context(entry, "purge")

        def purge(client: Any) -> None:
            self._check_lists(client)
            client.drop_table_with_environment_context(entry.database, entry.name or "", True, environment)

        try:
            self._calls.change(purge)
        except ttypes.NoSuchObjectException as error:
            raise TableNotFoundError(f"{error.message} ({self._uri})") from error
        except REFUSALS as error:
            if isinstance(error, ttypes.MetaException) and (error.message or "").endswith(_NOT_WHOLLY_PURGED):
                return False
            raise refusal(self._uri, f"purge {entry.qualified}", error) from error
        return True

    def _check_lists(self, client: Any) -> None:
        if not self._has(client, _LISTS_KEY):
            raise NotSupportedError(
                f"The metastore {self._uri} lists no dropped objects: only a server of this version of interbed does."
            )

    def _keeps_tables(self, client: Any) -> bool:
        """Return whether the metastore at the other end of a connection keeps dropped tables."""
        return self._has(client, _CONFIG_KEY)

    def _has(self, client: Any, key: str) -> bool:
        """Return whether the metastore at the end of a connection has a configuration value, which is asked once."""
        known = self._answers.setdefault(client, {})
        if key not in known:
            try:
                known[key] = client.get_config_value(key, "") == "true"
            except TApplicationException as error:
                if error.type != TApplicationException.UNKNOWN_METHOD:
                    raise
                known[key] = False
        return known[key]


def _context(entry: DroppedEntry, value: str) -> Any:
    """Return the environment context of a call about one drop."""
    kind = {_KIND_KEY: "database"} if entry.name is None else {}
    return ttypes.EnvironmentContext(properties={_CONTEXT_KEY: value, _ID_KEY: entry.id, **kind})
