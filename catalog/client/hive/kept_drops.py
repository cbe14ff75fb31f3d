"""Dropped tables that a metastore of interbed's keeps, by calls that each Hive metastore has.

A drop with `interbed.undrop` = `keep` in its environment context keeps the table with its directory, or is refused. A
creation with that key and the name of a dropped table puts the table back. Other metastores ignore the key, and would
delete the files or create a table without columns. So each connection is asked first for a configuration value that
only interbed's metastore has: several addresses may be of different metastores.
"""

import weakref
from typing import Any

from thrift.Thrift import TApplicationException

from interbed.catalog.client.errors import TableExistsError, TableNotFoundError
from interbed.catalog.client.hive.connection import REFUSALS, MetastoreCalls, refusal
from interbed.storage.base.errors import NotSupportedError
from interbed.thrift_idl.hive_metastore import ttypes

_CONFIG_KEY, _CONTEXT_KEY = "hive.metastore.interbed.undrop", "interbed.undrop"

_NOT_KEPT = " cannot be kept when it is dropped"
"""The end of the refusal of a drop that would delete the files: nothing was changed."""


class KeptDrops:
    """The dropped tables of one metastore. Safe for many threads."""

    def __init__(self, calls: MetastoreCalls, uri: str) -> None:
        self._calls = calls
        self._uri = uri
        self._answers: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()

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

    def _keeps_tables(self, client: Any) -> bool:
        """Return whether the metastore at the other end of a connection keeps dropped tables; each is asked once."""
        found = self._answers.get(client)
        if found is None:
            try:
                found = client.get_config_value(_CONFIG_KEY, "") == "true"
            except TApplicationException as error:
                if error.type != TApplicationException.UNKNOWN_METHOD:
                    raise
                found = False
            self._answers[client] = found
        return found
