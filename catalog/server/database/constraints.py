"""Informational constraints in SQL, read with the present names of their tables, so that a rename leaves them whole."""

import dataclasses
from typing import Any

from sqlalchemy import Connection, delete, select, update
from sqlalchemy.orm import aliased

from interbed.catalog.server.database.documents import constraint_document, constraint_from
from interbed.catalog.server.database.insert import insert_unless_taken
from interbed.catalog.server.database.models import ConstraintRow, DatabaseRow, TableRow
from interbed.catalog.server.service.model import Constraint, ConstraintKind, QualifiedTableName
from interbed.catalog.server.service.store import Stored

_parent_table = aliased(TableRow)
_parent_database = aliased(DatabaseRow)

_ALL = (
    select(
        ConstraintRow.id,
        ConstraintRow.kind,
        ConstraintRow.name,
        ConstraintRow.document,
        DatabaseRow.catalog,
        DatabaseRow.name.label("database"),
        TableRow.name.label("table"),
        _parent_database.catalog.label("parent_catalog"),
        _parent_database.name.label("parent_database"),
        _parent_table.name.label("parent_table"),
    )
    .join(TableRow, TableRow.id == ConstraintRow.table_id)
    .join(DatabaseRow, DatabaseRow.id == TableRow.database_id)
    .outerjoin(_parent_table, _parent_table.id == ConstraintRow.parent_table_id)
    .outerjoin(_parent_database, _parent_database.id == _parent_table.database_id)
    .order_by(ConstraintRow.id)
)


class SqlConstraints:
    """Constraints by table."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of_table(self, table_id: int) -> list[Stored[Constraint]]:
        """The constraints of a table, oldest first."""
        return self._read(_ALL.where(ConstraintRow.table_id == table_id))

    def referring_to(self, table_id: int) -> list[Stored[Constraint]]:
        """The foreign keys of any table that refer to this one, oldest first."""
        return self._read(_ALL.where(ConstraintRow.parent_table_id == table_id))

    def select(
        self,
        kind: ConstraintKind | None = None,
        *,
        catalog: str,
        database: str | None = None,
        table: str | None = None,
        parent_database: str | None = None,
        parent_table: str | None = None,
    ) -> list[Constraint]:
        """The constraints of a kind (of all kinds if None) on tables of these names, oldest first."""
        statement = _ALL.where(DatabaseRow.catalog == catalog)
        if kind is not None:
            statement = statement.where(ConstraintRow.kind == int(kind))
        for column, wanted in (
            (DatabaseRow.name, database),
            (TableRow.name, table),
            (_parent_database.name, parent_database),
            (_parent_table.name, parent_table),
        ):
            if wanted is not None:
                statement = statement.where(column == wanted)
        return [stored.value for stored in self._read(statement)]

    def add(self, table_id: int, parent_table_id: int | None, constraint: Constraint) -> bool:
        """Store a new constraint; False if the table has one of that name."""
        statement = insert_unless_taken(self._connection, ConstraintRow, ConstraintRow.id).values(
            table_id=table_id,
            parent_table_id=parent_table_id,
            kind=int(constraint.kind),
            name=constraint.name,
            document=constraint_document(constraint),
        )
        return self._connection.execute(statement).one_or_none() is not None

    def replace(self, constraint_id: int, constraint: Constraint) -> None:
        """Store the constraint anew; its name and its tables stay."""
        self._connection.execute(
            update(ConstraintRow)
            .where(ConstraintRow.id == constraint_id)
            .values(document=constraint_document(constraint))
        )

    def remove(self, constraint_id: int) -> None:
        """Remove the constraint."""
        self._connection.execute(delete(ConstraintRow).where(ConstraintRow.id == constraint_id))

    def _read(self, statement: Any) -> list[Stored[Constraint]]:
        found: list[Stored[Constraint]] = []
        for row in self._connection.execute(statement):
            constraint = constraint_from(row.catalog, row.database, row.table, row.name, row.kind, row.document)
            if row.parent_table is not None:
                parent = QualifiedTableName(
                    catalog=row.parent_catalog, database=row.parent_database, table=row.parent_table
                )
                constraint = _with_parent(constraint, parent)
            found.append(Stored(id=row.id, value=constraint))
        return found


def _with_parent(constraint: Constraint, parent: QualifiedTableName) -> Constraint:
    # The document remembers what the table was called when the key was made.
    return constraint if constraint.parent == parent else dataclasses.replace(constraint, parent=parent)
