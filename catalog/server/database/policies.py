"""Policies of tables in SQL: row filters and column masks. A policy refers to the row of its table."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from interbed.catalog.server.database.models import AccessPolicyRow, DatabaseRow, TableRow
from interbed.catalog.server.service.access.objects import (
    Grantee,
    PolicyKind,
    SecuredObject,
    TablePolicy,
    grantee_from_key,
    table_object,
)

_ROW = AccessPolicyRow
_COLUMNS = ("name", "kind", "column_name", "expression", "bound", "exempt", "created_by", "created_at")


def kept_policies(connection: Connection, table_id: int) -> list[list[Any]]:
    """Return the policies of a table that is dropped, to be put back with it."""
    chosen = select(*(getattr(_ROW, column) for column in _COLUMNS)).where(_ROW.table_id == table_id)
    return [list(row) for row in connection.execute(chosen.order_by(_ROW.id))]


def put_back_policies(connection: Connection, table_id: int, rows: Sequence[Sequence[Any]]) -> None:
    """Store the policies of a table that was put back, also those that name roles that were dropped meanwhile."""
    if rows:
        values = [{"table_id": table_id, **dict(zip(_COLUMNS, row, strict=True))} for row in rows]
        connection.execute(insert(_ROW), values)


class SqlPolicies:
    """Policies by table and name."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of_table(self, on: SecuredObject) -> Sequence[TablePolicy]:
        """Return the policies of a table, by name."""
        statement = (
            select(*(getattr(_ROW, column) for column in _COLUMNS))
            .join(TableRow, TableRow.id == _ROW.table_id)
            .join(DatabaseRow, DatabaseRow.id == TableRow.database_id)
            .where(DatabaseRow.catalog == on.catalog, DatabaseRow.name == on.database, TableRow.name == on.name)
        )
        return sorted(map(_policy, self._connection.execute(statement)), key=lambda each: each.name)

    def put(self, on: SecuredObject, policy: TablePolicy) -> None:
        """Store a policy of an existing table, in place of the one of its name."""
        table_id = self._table_id(on)
        assert table_id is not None, "the caller has locked the table"
        self.remove(on, policy.name)
        self._connection.execute(
            insert(_ROW).values(
                table_id=table_id,
                name=policy.name,
                kind=str(policy.kind),
                column_name=policy.column,
                expression=policy.expression,
                bound=_keys(policy.bound),
                exempt=_keys(policy.exempt),
                created_by=policy.created_by,
                created_at=policy.created_at,
            )
        )

    def remove(self, on: SecuredObject, name: str) -> None:
        """Remove a policy of a table."""
        self._connection.execute(delete(_ROW).where(_ROW.table_id == self._table_id(on), _ROW.name == name))

    def naming(self, grantee: Grantee) -> SecuredObject | None:
        """Return a table with a policy that names a grantee, None if there is none."""
        statement = (
            select(_ROW.bound, _ROW.exempt, DatabaseRow.catalog, DatabaseRow.name, TableRow.name)
            .join(TableRow, TableRow.id == _ROW.table_id)
            .join(DatabaseRow, DatabaseRow.id == TableRow.database_id)
            .order_by(_ROW.id)
        )
        for bound, exempt, *names in self._connection.execute(statement):
            if grantee.key in (*json.loads(bound), *json.loads(exempt)):
                return table_object(*names)
        return None

    def _table_id(self, on: SecuredObject) -> int | None:
        statement = (
            select(TableRow.id)
            .join(DatabaseRow, DatabaseRow.id == TableRow.database_id)
            .where(DatabaseRow.catalog == on.catalog, DatabaseRow.name == on.database, TableRow.name == on.name)
        )
        return self._connection.execute(statement).scalar_one_or_none()


def _keys(grantees: Sequence[Grantee]) -> str:
    return json.dumps([each.key for each in grantees])


def _grantees(text: str) -> tuple[Grantee, ...]:
    return tuple(map(grantee_from_key, json.loads(text)))


def _policy(row: Any) -> TablePolicy:
    return TablePolicy(
        name=row.name,
        kind=PolicyKind(row.kind),
        column=row.column_name,
        expression=row.expression,
        bound=_grantees(row.bound),
        exempt=_grantees(row.exempt),
        created_by=row.created_by,
        created_at=row.created_at,
    )
