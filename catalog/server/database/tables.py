"""Tables and their informational constraints in SQL.

A table is one row, read together with the name of its database. Constraints are read with the present names of their
tables, so that a rename leaves them valid.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    Integer,
    String,
    bindparam,
    cast,
    delete,
    func,
    or_,
    select,
    type_coerce,
    update,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import aliased

from interbed.catalog.server.database.documents import (
    constraint_document,
    constraint_from,
    found_table,
    table_document,
    table_from,
)
from interbed.catalog.server.database.engine import Statement, insert_statement, insert_unless_taken
from interbed.catalog.server.database.grants import follow, follow_columns
from interbed.catalog.server.database.models import ConstraintRow, DatabaseRow, TableRow
from interbed.catalog.server.database.schema import fill_kinds, names_of_kinds
from interbed.catalog.server.database.table_pages import table_page
from interbed.catalog.server.service.access.objects import SecuredKind, owner_key
from interbed.catalog.server.service.directories.locations import indexed_place
from interbed.catalog.server.service.model import (
    NAMES_MAX,
    Constraint,
    ConstraintKind,
    ListedTable,
    MetastoreTable,
    QualifiedTableName,
    TableKind,
    TableMeta,
)
from interbed.catalog.server.service.repository import StoredRow

NAMES_IN_STATEMENT_MAX = 500
"""Names bound in one statement; longer lists take several, for databases limit the number of parameters."""

_IN_DATABASE = (
    select(TableRow.id, TableRow.name, TableRow.table_type, TableRow.document)
    .join(DatabaseRow, DatabaseRow.id == TableRow.database_id)
    .where(DatabaseRow.catalog == bindparam("catalog"), DatabaseRow.name == bindparam("database"))
)
_NAMED = _IN_DATABASE.where(TableRow.name == bindparam("name"))
_FIND = Statement(_NAMED)
_FIND_FOR_UPDATE = Statement(_NAMED.with_for_update(of=TableRow))
_LOCK = (
    select(
        TableRow.id,
        TableRow.name,
        TableRow.table_type,
        TableRow.document,
        DatabaseRow.catalog,
        DatabaseRow.name.label("database"),
    )
    .join(DatabaseRow, DatabaseRow.id == TableRow.database_id)
    .where(TableRow.id == bindparam("table_id"))
    .with_for_update(of=TableRow)
)
_REPLACE = Statement(
    update(TableRow)
    .where(TableRow.id == bindparam("table_id"))
    .values(
        database_id=func.coalesce(bindparam("new_database_id", type_=Integer), TableRow.database_id),
        name=bindparam("new_name"),
        table_type=bindparam("new_type"),
        comment=bindparam("new_comment"),
        document=bindparam("new_document"),
        place=bindparam("new_place"),
        kind=bindparam("new_kind"),
        owner=bindparam("new_owner"),
    )
)
_REPLACE_DOCUMENT = Statement(
    update(TableRow)
    .where(TableRow.id == bindparam("table_id"))
    .values(comment=bindparam("new_comment"), document=bindparam("new_document"))
)
"""No index and no foreign key has these columns: SQLite writes only the row."""
_SELECT = _IN_DATABASE.where(TableRow.name.in_(bindparam("names", expanding=True)))
_ALL_NAMES = (
    select(TableRow.name)
    .join(DatabaseRow, DatabaseRow.id == TableRow.database_id)
    .where(DatabaseRow.catalog == bindparam("catalog"), DatabaseRow.name == bindparam("database"))
)
_NAMES = Statement(_ALL_NAMES)
_NAMES_OF_TYPE = Statement(_ALL_NAMES.where(TableRow.table_type == bindparam("table_type")))
_NAMES_OF = Statement(
    select(DatabaseRow.catalog, DatabaseRow.name, TableRow.name.label("table_name"))
    .join(DatabaseRow, DatabaseRow.id == TableRow.database_id)
    .where(TableRow.id == bindparam("table_id"))
)
_NEW: dict[str, Any] = {
    column: bindparam(column)
    for column in ("database_id", "name", "table_type", "comment", "document", "place", "kind", "owner")
}
_INSERT = insert_statement(TableRow, _NEW, TableRow.id)

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


class SqlTables:
    """Tables by catalog, database and name. `_locked` has the names of rows that the transaction has locked, on
    PostgreSQL alone: there an object is for one transaction, and looking them up again takes a round trip.
    """

    __slots__ = ("_connection", "_locked")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._locked: dict[int, tuple[str, str, str]] = {}

    def find(
        self, catalog: str, database: str, name: str, *, for_update: bool = False
    ) -> StoredRow[MetastoreTable] | None:
        """Return the table with its row id, or None."""
        statement = _FIND_FOR_UPDATE if for_update else _FIND
        row = statement.row(self._connection, {"catalog": catalog, "database": database, "name": name})
        if row is None:
            return None
        number, found, table_type, document = row
        if for_update:
            self._remember(number, (catalog, database, found))
        return StoredRow(id=number, value=found_table(catalog, database, found, table_type, document, number))

    def lock(self, table_id: int) -> StoredRow[MetastoreTable] | None:
        """Return the table of a row, locked against changes until the end of the transaction."""
        row = self._connection.execute(_LOCK, {"table_id": table_id}).one_or_none()
        if row is None:
            return None
        self._remember(row.id, (row.catalog, row.database, row.name))
        table = table_from(row.catalog, row.database, row.name, row.table_type, row.document, row.id)
        return StoredRow(id=row.id, value=table)

    def select(self, catalog: str, database: str, names: Sequence[str] | None = None) -> list[MetastoreTable]:
        """Return the tables of these names that exist (all if None), ordered by name."""
        keys = {"catalog": catalog, "database": database}
        if names is None:
            rows = list(self._connection.execute(_IN_DATABASE, keys))
        else:
            unique = sorted(set(names))
            rows = []
            for start in range(0, len(unique), NAMES_IN_STATEMENT_MAX):
                chunk = unique[start : start + NAMES_IN_STATEMENT_MAX]
                rows.extend(self._connection.execute(_SELECT, {**keys, "names": chunk}))
        tables = [table_from(catalog, database, row.name, row.table_type, row.document, row.id) for row in rows]
        return sorted(tables, key=lambda table: table.name)

    def names(self, catalog: str, database: str, table_type: str | None = None) -> list[str]:
        """Return the names of the database's tables, in order; of one type only if that is given."""
        keys = {"catalog": catalog, "database": database}
        if table_type is None:
            rows = _NAMES.rows(self._connection, keys)
        else:
            rows = _NAMES_OF_TYPE.rows(self._connection, {**keys, "table_type": table_type})
        return sorted(name for (name,) in rows)

    def names_of_kinds(
        self,
        catalog: str,
        database: str,
        kinds: Collection[TableKind],
        after: str = "",
        limit: int = NAMES_MAX,
        prefix: str = "",
    ) -> list[str]:
        """Return up to `limit` names of tables of these kinds that come after one and begin with a prefix, in order."""
        keys = {"catalog": catalog, "database": database}
        return names_of_kinds(self._connection, keys, kinds, after, limit, prefix)

    def page(self, catalog: str, database: str, after: str, limit: int, prefix: str) -> list[ListedTable]:
        """Return up to `limit` tables whose names come after one and begin with a prefix, in order."""
        return table_page(self._connection, catalog, database, after, limit, prefix)

    def fill_kinds(self, limit: int) -> int:
        """Store the kinds of up to `limit` rows that have none; return their number, 0 when none is left."""
        return fill_kinds(self._connection, limit)

    def numbered(self, catalog: str, number: int) -> list[tuple[str, str]]:
        """Return database and name of the tables that have this number, or whose row has it as its id."""
        statement = (
            select(DatabaseRow.name, TableRow.name)
            .join(DatabaseRow, TableRow.database_id == DatabaseRow.id)
            .where(DatabaseRow.catalog == catalog)
            .where(or_(TableRow.id == number, cast(self._part("number"), String) == str(number)))
        )
        return [(database, name) for database, name in self._connection.execute(statement)]

    def _part(self, *path: str) -> ColumnElement[str]:
        """Return the expression of a part of a table's document as a text."""
        found: ColumnElement[str]
        if self._connection.dialect.name == "sqlite":
            found = type_coerce(TableRow.document, JSON)[path].as_string()
        else:
            found = func.json_extract_path_text(cast(TableRow.document, JSON), *path)
        return found

    def metas(self, catalog: str) -> list[TableMeta]:
        """Return an entry for each table of the catalog, ordered by database and name."""
        rows = self._connection.execute(
            select(DatabaseRow.name.label("database"), TableRow.name, TableRow.table_type, TableRow.comment)
            .join(TableRow, TableRow.database_id == DatabaseRow.id)
            .where(DatabaseRow.catalog == catalog)
        )
        metas = [
            TableMeta(database=row.database, name=row.name, table_type=row.table_type, comment=row.comment)
            for row in rows
        ]
        return sorted(metas, key=lambda meta: (meta.database, meta.name))

    def add(self, database_id: int, table: MetastoreTable) -> int | None:
        """Store a new table; None if the name is taken."""
        row = _INSERT.row(
            self._connection,
            {
                "database_id": database_id,
                "name": table.name,
                "table_type": table.table_type,
                "comment": table.parameters.get("comment"),
                "document": table_document(table),
                "place": _place(table),
                "kind": int(table.kind),
                "owner": _owner(table),
            },
        )
        return None if row is None else int(row[0])

    def replace(
        self, table_id: int, database_id: int | None, table: MetastoreTable, old: MetastoreTable | None = None
    ) -> bool:
        """Replace the table, perhaps in another database; False if that name is taken, which ends the transaction."""
        document = {
            "table_id": table_id,
            "new_comment": table.parameters.get("comment"),
            "new_document": table_document(table),
        }
        if old is not None and _keys(old) == _keys(table):
            _REPLACE_DOCUMENT.change(self._connection, document)
            return True
        names = self._names(table_id) if old is None else (old.catalog, old.database, old.name)
        if names != (table.catalog, table.database, table.name):
            # Grants follow the row; servers that have them in memory by names have to read them again.
            follow(self._connection, SecuredKind.TABLE, table_id)
            self._locked.pop(table_id, None)
        try:
            _REPLACE.change(
                self._connection,
                {
                    **document,
                    "new_database_id": database_id,
                    "new_name": table.name,
                    "new_type": table.table_type,
                    "new_place": _place(table),
                    "new_kind": int(table.kind),
                    "new_owner": _owner(table),
                },
            )
        except IntegrityError:
            return False
        return True

    def follow_columns(self, table_id: int, names: Mapping[str, str]) -> None:
        """Rename or remove the grants on columns of the table, by their columns' new names."""
        follow_columns(self._connection, table_id, names)

    def remove(self, table_id: int) -> None:
        """Remove the table and its grants, and detach its partitions."""
        follow(self._connection, SecuredKind.TABLE, table_id)
        self._locked.pop(table_id, None)
        self._connection.execute(delete(TableRow).where(TableRow.id == table_id))

    def _remember(self, table_id: int, names: tuple[str, str, str]) -> None:
        if self._connection.dialect.name != "sqlite":
            self._locked[table_id] = names

    def _names(self, table_id: int) -> tuple[Any, ...]:
        """Return catalog, database and name of the table of a row."""
        return self._locked.get(table_id) or tuple(_NAMES_OF.row(self._connection, {"table_id": table_id}) or ())


def _keys(table: MetastoreTable) -> tuple[Any, ...]:
    """Return what the columns of the row beside comment and document are made of."""
    names = (table.catalog, table.database, table.name, table.table_type)
    return (*names, table.location, table.kind, table.owner, table.extra.get("ownerType"))


def _place(table: MetastoreTable) -> str | None:
    return indexed_place(table.location)


def _owner(table: MetastoreTable) -> str | None:
    return owner_key(table.owner, table.extra.get("ownerType"))


class SqlConstraints:
    """Repository of constraints by table."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of_table(self, table_id: int) -> list[StoredRow[Constraint]]:
        """Return the constraints of a table, oldest first."""
        return self._read(_ALL.where(ConstraintRow.table_id == table_id))

    def referring_to(self, table_id: int) -> list[StoredRow[Constraint]]:
        """Return the foreign keys of any table that refer to this one, oldest first."""
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
        """Return the constraints of a kind (of all kinds if None) on tables of these names, oldest first."""
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
        """Store a new constraint; False if the table already has one of that name."""
        statement = insert_unless_taken(self._connection, ConstraintRow, ConstraintRow.id).values(
            table_id=table_id,
            parent_table_id=parent_table_id,
            kind=int(constraint.kind),
            name=constraint.name,
            document=constraint_document(constraint),
        )
        return self._connection.execute(statement).one_or_none() is not None

    def replace(self, constraint_id: int, constraint: Constraint) -> None:
        """Replace the constraint; its name and its tables stay."""
        self._connection.execute(
            update(ConstraintRow)
            .where(ConstraintRow.id == constraint_id)
            .values(document=constraint_document(constraint))
        )

    def remove(self, constraint_id: int) -> None:
        """Remove the constraint of a row."""
        self._connection.execute(delete(ConstraintRow).where(ConstraintRow.id == constraint_id))

    def _read(self, statement: Any) -> list[StoredRow[Constraint]]:
        found: list[StoredRow[Constraint]] = []
        for row in self._connection.execute(statement):
            constraint = constraint_from(row.catalog, row.database, row.table, row.name, row.kind, row.document)
            if row.parent_table is not None:
                parent = QualifiedTableName(
                    catalog=row.parent_catalog, database=row.parent_database, table=row.parent_table
                )
                constraint = _with_parent(constraint, parent)
            found.append(StoredRow(id=row.id, value=constraint))
        return found


def _with_parent(constraint: Constraint, parent: QualifiedTableName) -> Constraint:
    # The document holds the table's name at the time of the key's creation.
    return constraint if constraint.parent == parent else dataclasses.replace(constraint, parent=parent)
