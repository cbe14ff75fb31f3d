"""Dropped objects in SQL.

The partitions of a dropped table, with their statistics, stay in their rows: the set of partitions refers to the entry
instead of the table, so that a drop takes the same time for any number of partitions. Statistics, constraints,
links and grants of the table are copied to the entry as rows.
"""

import json
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from interbed.catalog.server.database.documents import (
    database_document,
    database_from,
    function_document,
    function_from,
    table_document,
    table_from,
)
from interbed.catalog.server.database.grants import kept_grants, put_back
from interbed.catalog.server.database.models import (
    ConstraintRow,
    DatabaseRow,
    DroppedObjectRow,
    FunctionRow,
    LinkedPlaceRow,
    PartitionSetRow,
    TableRow,
    TableStatisticsRow,
)
from interbed.catalog.server.database.policies import kept_policies, put_back_policies
from interbed.catalog.server.service.access.objects import SecuredKind
from interbed.catalog.server.service.model import (
    DroppedKind,
    DroppedObject,
    DroppedState,
    Function,
    MetastoreDatabase,
    MetastoreTable,
)

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode

_ROW = DroppedObjectRow
_ALL = select(_ROW.__table__)
_STATISTICS = ("engine", "column_name", "column_type", "analyzed_at", "document")
_LINKS = ("partition_name", "place")
_CONSTRAINTS = ("kind", "name", "document")


class SqlDroppedObjects:
    """Dropped objects by id."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, entry: DroppedObject) -> int:
        """Store an entry without its value and return its id."""
        statement = insert(_ROW).values(
            parent_id=entry.parent_id,
            catalog=entry.catalog,
            database=entry.database,
            name=entry.name,
            kind=str(entry.kind),
            state=str(entry.state),
            dropped_at=entry.dropped_at,
            expires_at=entry.expires_at,
            dropped_by=entry.dropped_by,
            location=entry.location,
            aside=entry.aside,
            target=entry.target,
        )
        return self._connection.execute(statement.returning(_ROW.id)).scalar_one()

    def find(self, entry_id: int) -> DroppedObject | None:
        """Return the entry, or None."""
        row = self._connection.execute(_ALL.where(_ROW.id == entry_id)).one_or_none()
        return None if row is None else _entry(row)

    def lock(self, entry_id: int) -> DroppedObject | None:
        """Return the entry, locked against changes until the end of the transaction."""
        row = self._connection.execute(_ALL.where(_ROW.id == entry_id).with_for_update()).one_or_none()
        return None if row is None else _entry(row)

    def select(
        self, catalog: str | None = None, database: str | None = None, name: str | None = None
    ) -> list[DroppedObject]:
        """Return the entries of these names (of all if None), the latest drop first."""
        statement = _ALL.order_by(_ROW.id.desc())
        for column, wanted in ((_ROW.catalog, catalog), (_ROW.database, database), (_ROW.name, name)):
            if wanted is not None:
                statement = statement.where(column == wanted)
        return [_entry(row) for row in self._connection.execute(statement)]

    def children(self, entry_id: int) -> list[DroppedObject]:
        """Return the entries of the tables that were dropped with a database, by name, locked."""
        rows = self._connection.execute(_ALL.where(_ROW.parent_id == entry_id).with_for_update())
        return sorted(map(_entry, rows), key=lambda entry: entry.name or "")

    def in_states(self, states: Collection[DroppedState]) -> list[int]:
        """Return the ids of the entries in one of these states, oldest first."""
        chosen = select(_ROW.id).where(_ROW.state.in_([str(state) for state in states]))
        return list(self._connection.scalars(chosen.order_by(_ROW.id)))

    def expired(self, now: int, limit: int) -> list[int]:
        """Return the ids of up to `limit` entries that have expired or whose purge has begun."""
        has_expired = (_ROW.state == str(DroppedState.DROPPED)) & (_ROW.expires_at <= now)
        chosen = select(_ROW.id).where(has_expired | (_ROW.state == str(DroppedState.PURGING)))
        return list(self._connection.scalars(chosen.order_by(_ROW.expires_at, _ROW.id).limit(limit)))

    def keep_table(self, entry_id: int, table_id: int, table: MetastoreTable) -> None:
        """Complete the entry of a table that is removed right after."""
        attached = {
            "statistics": self._rows(TableStatisticsRow, _STATISTICS, table_id),
            "links": self._rows(LinkedPlaceRow, _LINKS, table_id),
            "constraints": self._constraints(table_id),
            "grants": kept_grants(self._connection, SecuredKind.TABLE, table_id),
            "policies": kept_policies(self._connection, table_id),
        }
        self._complete(entry_id, table_document(table), attached, table.table_type)
        self._connection.execute(
            update(PartitionSetRow).where(PartitionSetRow.table_id == table_id).values(dropped_id=entry_id)
        )

    def keep_database(self, entry_id: int, database: MetastoreDatabase, functions: Sequence[Function]) -> None:
        """Complete the entry of a database that is removed right after."""
        chosen = select(DatabaseRow.id).where(
            DatabaseRow.catalog == database.catalog, DatabaseRow.name == database.name
        )
        database_id = self._connection.execute(chosen).scalar_one()
        attached = {
            "functions": [[each.name, function_document(each)] for each in functions],
            "grants": kept_grants(self._connection, SecuredKind.DATABASE, database_id),
            "function_grants": self._function_grants(database_id),
        }
        self._complete(entry_id, database_document(database), attached, None)

    def adopt(self, entry_id: int, parent_id: int) -> None:
        """Store the entry of the database that a table is dropped with."""
        self._connection.execute(update(_ROW).where(_ROW.id == entry_id).values(parent_id=parent_id))

    def attach(self, entry_id: int, table_id: int) -> None:
        """Give a table that was put back its partitions, statistics, constraints, links, grants and policies."""
        attached = self._attached(entry_id)
        self._put(TableStatisticsRow, _STATISTICS, table_id, attached.get("statistics", ()))
        self._put(LinkedPlaceRow, _LINKS, table_id, attached.get("links", ()))
        for *values, parent_id, parent_number in attached.get("constraints", ()):
            parent = table_id if parent_id == 0 else parent_id
            if parent_id and self._number(parent_id) != parent_number:
                continue
            fields = dict(zip(_CONSTRAINTS, values, strict=True))
            self._connection.execute(insert(ConstraintRow).values(table_id=table_id, parent_table_id=parent, **fields))
        put_back(self._connection, SecuredKind.TABLE, table_id, attached.get("grants", ()))
        put_back_policies(self._connection, table_id, attached.get("policies", ()))
        self._connection.execute(
            update(PartitionSetRow)
            .where(PartitionSetRow.dropped_id == entry_id)
            .values(table_id=table_id, dropped_id=None)
        )

    def attach_database(self, entry_id: int, database_id: int) -> None:
        """Give a database that was put back with its functions the grants on it and on them."""
        attached = self._attached(entry_id)
        put_back(self._connection, SecuredKind.DATABASE, database_id, attached.get("grants", ()))
        for name, rows in attached.get("function_grants", ()):
            chosen = select(FunctionRow.id).where(FunctionRow.database_id == database_id, FunctionRow.name == name)
            function_id = self._connection.execute(chosen).scalar_one_or_none()
            if function_id is not None:
                put_back(self._connection, SecuredKind.FUNCTION, function_id, rows)

    def functions(self, entry_id: int) -> list[Function]:
        """Return the functions of a dropped database."""
        entry = self.find(entry_id)
        assert entry is not None
        return [
            function_from(entry.catalog, entry.database, name, document)
            for name, document in self._attached(entry_id).get("functions", ())
        ]

    def change(self, entry_id: int, state: DroppedState, target: str | None = None) -> None:
        """Store another state and target."""
        self._connection.execute(update(_ROW).where(_ROW.id == entry_id).values(state=str(state), target=target))

    def remove(self, entry_id: int) -> None:
        """Remove the entry, and leave its partitions to the next purges of partitions."""
        self._connection.execute(
            update(PartitionSetRow).where(PartitionSetRow.dropped_id == entry_id).values(dropped_id=None)
        )
        # Tables that were dropped with a database outlive its entry.
        self._connection.execute(update(_ROW).where(_ROW.parent_id == entry_id).values(parent_id=None))
        self._connection.execute(delete(_ROW).where(_ROW.id == entry_id))

    def _complete(self, entry_id: int, document: str, attached: dict[str, Any], table_type: str | None) -> None:
        self._connection.execute(
            update(_ROW)
            .where(_ROW.id == entry_id)
            .values(
                state=str(DroppedState.DROPPED),
                document=document,
                table_type=table_type,
                attached=_encode({name: rows for name, rows in attached.items() if rows}),
            )
        )

    def _attached(self, entry_id: int) -> dict[str, Any]:
        text = self._connection.execute(select(_ROW.attached).where(_ROW.id == entry_id)).scalar_one()
        fields: dict[str, Any] = json.loads(text or "{}")
        return fields

    def _rows(self, model: Any, columns: Sequence[str], table_id: int) -> list[list[Any]]:
        chosen = select(*(getattr(model, column) for column in columns)).where(model.table_id == table_id)
        return [list(row) for row in self._connection.execute(chosen)]

    def _put(self, model: Any, columns: Sequence[str], table_id: int, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            values = [{"table_id": table_id, **dict(zip(columns, row, strict=True))} for row in rows]
            self._connection.execute(insert(model), values)

    def _constraints(self, table_id: int) -> list[list[Any]]:
        """Return the constraints of a table, each with the id and number of the table that it refers to: None for
        none, and 0 for the table itself.
        """
        columns = (*(getattr(ConstraintRow, column) for column in _CONSTRAINTS), ConstraintRow.parent_table_id)
        rows = self._connection.execute(
            select(*columns).where(ConstraintRow.table_id == table_id).order_by(ConstraintRow.id)
        ).all()
        found = []
        for *values, parent_id in rows:
            parent = 0 if parent_id == table_id else parent_id
            found.append([*values, parent, self._number(parent) if parent else None])
        return found

    def _function_grants(self, database_id: int) -> list[list[Any]]:
        """Return the functions of a database that have grants, by name, with these."""
        chosen = select(FunctionRow.id, FunctionRow.name).where(FunctionRow.database_id == database_id)
        rows = self._connection.execute(chosen).all()
        found = [[row.name, kept_grants(self._connection, SecuredKind.FUNCTION, row.id)] for row in rows]
        return [each for each in found if each[1]]

    def _number(self, table_id: int) -> int | None:
        """Return the number of a registered table, None if there is none. The id of a row may be used again."""
        document = self._connection.execute(select(TableRow.document).where(TableRow.id == table_id)).scalar()
        return None if document is None else table_from("", "", "", "", document, table_id).number


def _entry(row: Any) -> DroppedObject:
    value: MetastoreTable | MetastoreDatabase | None = None
    if row.document is not None and row.name is None:
        value = database_from(row.catalog, row.database, row.document)
    elif row.document is not None:
        value = table_from(row.catalog, row.database, row.name, row.table_type or "", row.document)
    return DroppedObject(
        id=row.id,
        parent_id=row.parent_id,
        catalog=row.catalog,
        database=row.database,
        name=row.name,
        kind=DroppedKind(row.kind),
        state=DroppedState(row.state),
        dropped_at=row.dropped_at,
        expires_at=row.expires_at,
        dropped_by=row.dropped_by,
        location=row.location,
        aside=row.aside,
        target=row.target,
        value=value,
    )
