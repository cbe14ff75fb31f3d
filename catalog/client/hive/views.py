"""Views in a metastore, as Paimon's Hive catalog keeps them: VIRTUAL_VIEW, the query twice, options as parameters."""

import time
from typing import Any

from interbed.catalog.client.errors import (
    DatabaseNotFoundError,
    TableExistsError,
    TableNotFoundError,
    ViewNotFoundError,
)
from interbed.catalog.client.hive.connection import CallStateUnknownError, current_user
from interbed.catalog.client.hive.entries import Entries
from interbed.catalog.client.hive.registration import VIRTUAL_VIEW, is_view
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.views import View, ViewColumn
from interbed.thrift_idl.hive_metastore.ttypes import FieldSchema, SerDeInfo, StorageDescriptor
from interbed.thrift_idl.hive_metastore.ttypes import Table as HiveTable

_COMMENT = "comment"
# What metastores add by themselves.
_ADDED = ("transient_lastDdlTime", "last_modified_time", "last_modified_by")


class HiveViews:
    """The views of one metastore."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._client = entries.client

    def names(self, database: str) -> list[str]:
        """Names of a database's views, sorted; DatabaseNotFoundError."""
        self._entries.database(database)
        return self._entries.chosen(database, self._client.get_all_tables(database), is_view)

    def get(self, identifier: Identifier) -> View:
        """The view; ViewNotFoundError."""
        entry = self._entry(identifier)
        options = {k: v for k, v in (entry.parameters or {}).items() if k not in _ADDED}
        comment = options.pop(_COMMENT, None)
        columns = tuple(ViewColumn(c.name, c.type, c.comment) for c in entry.sd.cols)
        query = entry.viewExpandedText or entry.viewOriginalText or ""
        return View(query=query, columns=columns, comment=comment, options=options)

    def create(self, identifier: Identifier, view: View, *, replace: bool) -> None:
        """Make or replace a view; TableExistsError, DatabaseNotFoundError."""
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
        """Forget a view; ViewNotFoundError."""
        self._entry(identifier)
        self._client.drop_table(identifier.database, identifier.table, delete_data=False)

    def rename(self, old: Identifier, new: Identifier) -> None:
        """Give a view another name; ViewNotFoundError, TableExistsError, DatabaseNotFoundError."""
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
