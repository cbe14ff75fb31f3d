"""Calls about staged tables: what CREATE TABLE … AS SELECT and REPLACE TABLE make."""

from dataclasses import replace
from typing import Any

from interbed.catalog.client.identifier import DEFAULT_DATABASE, Identifier
from interbed.catalog.client.staging import Fill, StagedTable
from interbed.spark_ext.calls.base import Calls, identifier_of
from interbed.spark_ext.calls.tables import table_info
from interbed.spark_ext.handle.ddl import schema_to_create
from interbed.spark_ext.handle.table_handle import Staged, TableHandle
from interbed.spark_ext.write.writer import CommitToken
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.table.table import Table
from interbed.storage.write.commit_message import CommitMessage
from interbed.thrift_idl.planner.ttypes import CommitResult, TableInfo


class StagingCalls(Calls):
    """What Spark's StagingTableCatalog asks."""

    def stageTable(self, table: Any, request: Any, replaces: bool, create: bool) -> TableInfo:  # noqa: N802
        catalog = self._catalog(table.catalog)
        schema = schema_to_create(request.schemaJson, request.partitioning, request.properties)
        if table.database == DEFAULT_DATABASE:
            catalog.create_database(DEFAULT_DATABASE, ignore_if_exists=True)
        staged = catalog.stage_table(identifier_of(table), schema, replace=replaces, create=create)
        # The generated class has its fields set from outside, where no type checker looks.
        info: Any = table_info(table, staged.table, None)
        handle = replace(TableHandle.from_bytes(info.handle), staged=Staged(replaces=staged.replaces, path=staged.path))
        info.handle = handle.to_bytes()
        result: TableInfo = info
        return result

    def commitStaged(self, handle: bytes) -> None:  # noqa: N802
        self._staged(TableHandle.from_bytes(handle)).commit()

    def abortStaged(self, handle: bytes) -> None:  # noqa: N802
        self._staged(TableHandle.from_bytes(handle)).abort()

    def _staged(self, handle: TableHandle) -> StagedTable:
        if handle.staged is None:
            raise InvalidInputError(f"The table '{handle.database}.{handle.table}' is not a staged one.")
        catalog = self._catalogs.get(handle.catalog, handle.catalog_options)
        return catalog.staged(
            Identifier(handle.database, handle.table),
            handle.schema,
            handle.staged.path,
            replaces=handle.staged.replaces,
        )

    def _commit_staged(self, token: CommitToken, messages: list[CommitMessage]) -> CommitResult:
        made: list[CommitResult] = []

        def fill(table: Table) -> None:
            made.append(token.commit(table, messages))

        self._staged(token.handle).commit(Fill(fill, token.commit_user, bool(messages)))
        return made[-1] if made else CommitResult()
