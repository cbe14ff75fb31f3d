"""What jobs of procedures on one table share: the token of their commit, begun on the driver and known to its tasks."""

import uuid

from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.procedures.procedure import ProcedureCall
from interbed.spark_ext.write.writer import CommitToken
from interbed.storage.table.table import Table
from interbed.thrift_idl.planner.ttypes import WriteMode


def begun(call: ProcedureCall, name: str, table: Table) -> CommitToken:
    """The token of a job that writes to the table, `database.table`; the table is marked with it."""
    token = CommitToken(handle=handle_of(call, name, table), commit_user=str(uuid.uuid4()), mode=WriteMode.APPEND)
    token.files(table).mark()
    return token


def handle_of(call: ProcedureCall, name: str, table: Table) -> TableHandle:
    """The table as tasks open it."""
    database, _, table_name = name.partition(".")
    return TableHandle(
        catalog=call.catalog_name,
        catalog_options=call.catalog_options,
        database=database,
        table=table_name,
        location=table.location,
        schema_json=table.schema.to_json(),
        snapshot_id=None,
        dynamic_options=table.dynamic_options,
    )


def table_of(call: ProcedureCall, token: CommitToken) -> Table:
    """The table of a job as its catalog has it, for the commit."""
    return call.catalog.get_table(f"{token.handle.database}.{token.handle.table}").copy(token.handle.dynamic_options)
