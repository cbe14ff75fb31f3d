"""Roles, their members and grants in SQL, and the owners of databases, tables and functions.

A grant refers to the row of its object, so that a rename keeps it and a removal removes it. The sequence `access`
counts the changes: those made here, and renames and removals of objects with grants (`follow`). An owner is a text such
as `user:ann`, in an indexed column of the object's row.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    null,
    or_,
    select,
    text,
    update,
)

from interbed.catalog.server.database.documents import table_from
from interbed.catalog.server.database.engine import DatabaseError, Statement, insert_or_replace, insert_unless_taken
from interbed.catalog.server.database.models import (
    AccessGrantRow,
    AccessMemberRow,
    AccessRoleRow,
    CatalogRow,
    DatabaseRow,
    FunctionRow,
    SequenceRow,
    TableRow,
)
from interbed.catalog.server.service.access.objects import (
    AccessState,
    Grant,
    Grantee,
    GranteeKind,
    OwnedScope,
    Privilege,
    Role,
    RoleMember,
    SecuredKind,
    SecuredObject,
    database_object,
    function_object,
    grantee_from_key,
    role_named,
    table_object,
)
from interbed.catalog.server.service.model import MetastoreTable

_OWNED_TABLES = {SecuredKind.TABLE: "tables", SecuredKind.FUNCTION: "functions"}


def _with_lists(form: str) -> Statement:
    """Return a statement whose lists are arrays on PostgreSQL and JSON on SQLite."""
    lists = {name: f"= ANY(CAST(:{name} AS text[]))" for name in ("owners", "names")}
    on_sqlite = {name: f"IN (SELECT value FROM json_each(:{name}))" for name in ("owners", "names")}
    return Statement(text(form.format(**lists)), for_sqlite=text(form.format(**on_sqlite)))


_DATABASES_OWNED = _with_lists("SELECT d.catalog, d.name FROM databases d WHERE d.owner {owners}")
_DATABASES_AROUND = {
    kind: _with_lists(
        "SELECT d.catalog, d.name FROM databases d "
        f"WHERE EXISTS (SELECT 1 FROM {table} o WHERE o.owner {{owners}} AND o.database_id = d.id)"
    )
    for kind, table in _OWNED_TABLES.items()
}
_OWNED = (
    "SELECT o.name FROM {table} o JOIN databases d ON d.id = o.database_id "
    "WHERE d.catalog = :catalog AND d.name = :database AND o.owner {{owners}}"
)
_ALL_OWNED = {kind: _with_lists(_OWNED.format(table=table)) for kind, table in _OWNED_TABLES.items()}
_NAMED_OWNED = {
    kind: _with_lists(_OWNED.format(table=table) + " AND o.name {names}") for kind, table in _OWNED_TABLES.items()
}
_OWNED_ANYWHERE = {
    kind: _with_lists(
        f"SELECT d.catalog, d.name, o.name AS object_name FROM {table} o JOIN databases d ON d.id = o.database_id "
        "WHERE o.owner {owners}"
    )
    for kind, table in _OWNED_TABLES.items()
}
_FIRST_OWNED = {
    kind: Statement(
        text(
            f"SELECT d.catalog, d.name, o.name AS object_name FROM {table} o "
            "JOIN databases d ON d.id = o.database_id WHERE o.owner = :owner LIMIT 1"
        )
    )
    for kind, table in _OWNED_TABLES.items()
}
_FIRST_OWNED_DATABASE = Statement(text("SELECT catalog, name FROM databases WHERE owner = :owner LIMIT 1"))


def _places(rows: Sequence[Sequence[Any]]) -> set[tuple[str, str]]:
    return {(catalog, name) for catalog, name in rows}


ACCESS_SEQUENCE = "access"

_GRANT = AccessGrantRow
_OBJECT_COLUMNS = {
    SecuredKind.CATALOG: _GRANT.catalog,
    SecuredKind.DATABASE: _GRANT.database_id,
    SecuredKind.TABLE: _GRANT.table_id,
    SecuredKind.FUNCTION: _GRANT.function_id,
}
_COLUMNS = ("privilege", "grantee", "grant_option", "grantor", "through", "granted_at")
_KEPT_COLUMNS = (*_COLUMNS, "column_name")
_GRANTS = (
    select(
        _GRANT.id,
        *(getattr(_GRANT, column) for column in _COLUMNS),
        func.coalesce(_GRANT.catalog, DatabaseRow.catalog),
        DatabaseRow.name,
        TableRow.name,
        FunctionRow.name,
        _GRANT.column_name,
    )
    .outerjoin(TableRow, TableRow.id == _GRANT.table_id)
    .outerjoin(FunctionRow, FunctionRow.id == _GRANT.function_id)
    .outerjoin(
        DatabaseRow, DatabaseRow.id == func.coalesce(_GRANT.database_id, TableRow.database_id, FunctionRow.database_id)
    )
    .order_by(_GRANT.id)
)
_GENERATION = Statement(select(SequenceRow.value).where(SequenceRow.name == ACCESS_SEQUENCE))
_ADVANCE = update(SequenceRow).where(SequenceRow.name == ACCESS_SEQUENCE).values(value=SequenceRow.value + 1)
_ADVANCE_ALWAYS = Statement(_ADVANCE)


def _advance_if(column: Any) -> Statement:
    """Return the statement that counts a change if an object has grants."""
    return Statement(_ADVANCE.where(exists().where(column == bindparam("object_id"))))


_FOLLOW = {kind: _advance_if(column) for kind, column in _OBJECT_COLUMNS.items()}


def follow(connection: Connection, kind: SecuredKind, object_id: int | str) -> None:
    """Count the rename or the removal of an object, if it has grants. Called before the removal."""
    _FOLLOW[kind].change(connection, {"object_id": object_id})


def kept_grants(connection: Connection, kind: SecuredKind, object_id: int) -> list[list[Any]]:
    """Return the grants on an object that is dropped, to be put back with it."""
    chosen = select(*(getattr(_GRANT, column) for column in _KEPT_COLUMNS)).where(_OBJECT_COLUMNS[kind] == object_id)
    return [list(row) for row in connection.execute(chosen.order_by(_GRANT.id))]


def put_back(connection: Connection, kind: SecuredKind, object_id: int, rows: Sequence[Sequence[Any]]) -> None:
    """Store the grants on an object that was put back, but for those to roles that were dropped meanwhile."""
    if not rows:
        return
    # Before the roles are read, so that none of them is dropped meanwhile.
    _ADVANCE_ALWAYS.change(connection, {})
    roles = {role_named(name).key for name in connection.scalars(select(AccessRoleRow.name))}
    # Rows of an object that was dropped before there were grants on columns are shorter.
    values = [{"column_name": None, **dict(zip(_KEPT_COLUMNS, row, strict=False))} for row in rows]
    kept = [each for each in values if each["grantee"] in roles or _kind(each["grantee"]) is not GranteeKind.ROLE]
    if kept:
        column = _OBJECT_COLUMNS[kind].key
        connection.execute(insert(_GRANT), [{**each, column: object_id} for each in kept])


def follow_columns(connection: Connection, table_id: int, names: Mapping[str, str]) -> None:
    """Rename the columns of the grants on a table's columns, by their old names. Grants on columns without a new name
    are removed.
    """
    of_columns = (_GRANT.table_id == table_id, _GRANT.column_name.is_not(None))
    granted = {name for name in connection.scalars(select(_GRANT.column_name).where(*of_columns)) if name is not None}
    renamed = {name: names[name] for name in granted & set(names) if names[name] != name}
    lost = granted - set(names)
    if not renamed and not lost:
        return
    _ADVANCE_ALWAYS.change(connection, {})
    connection.execute(delete(_GRANT).where(*of_columns, _GRANT.column_name.in_(sorted(lost))))
    if renamed:
        # In one statement, because columns may exchange their names.
        new = case(renamed, value=_GRANT.column_name)
        chosen = _GRANT.column_name.in_(sorted(renamed))
        connection.execute(update(_GRANT).where(*of_columns, chosen).values(column_name=new))


class SqlAccess:
    """Roles, members and grants."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def generation(self) -> int:
        """Return the number of changes so far."""
        row = _GENERATION.row(self._connection, {})
        if row is None:
            raise DatabaseError("the metastore's database has no grants: another version of interbed has changed it")
        return int(row[0])

    def advance(self) -> None:
        """Count a change. Blocks other changes of roles and grants until the end of the transaction."""
        _ADVANCE_ALWAYS.change(self._connection, {})

    def state(self) -> AccessState:
        """Return all roles, members and grants."""
        # Read first: what changes meanwhile is read again by the next look.
        generation = self.generation()
        return AccessState(
            generation=generation, roles=self.roles(), members=self.members(), grants=self._grants(_GRANTS)
        )

    def roles(self) -> Sequence[Role]:
        """Return all roles, by name."""
        rows = self._connection.execute(select(AccessRoleRow.__table__))
        found = [Role(name=row.name, created_by=row.created_by, created_at=row.created_at) for row in rows]
        return sorted(found, key=lambda role: role.name)

    def members(self) -> Sequence[RoleMember]:
        """Return the members of all roles, by role, kind and name."""
        found = [
            RoleMember(
                role=row.role,
                member=grantee_from_key(row.member),
                admin_option=row.admin_option,
                grantor=row.grantor,
                granted_at=row.granted_at,
            )
            for row in self._connection.execute(select(AccessMemberRow.__table__))
        ]
        return sorted(found, key=lambda each: (each.role, each.member.key))

    def add_role(self, role: Role) -> bool:
        """Store a new role; False if the name is taken."""
        statement = insert_unless_taken(self._connection, AccessRoleRow, AccessRoleRow.name).values(
            name=role.name, created_by=role.created_by, created_at=role.created_at
        )
        return self._connection.execute(statement).one_or_none() is not None

    def remove_role(self, name: str) -> None:
        """Remove a role with its members, its memberships and its grants."""
        key = role_named(name).key
        self._connection.execute(delete(_GRANT).where(_GRANT.grantee == key))
        self._connection.execute(
            delete(AccessMemberRow).where(or_(AccessMemberRow.role == name, AccessMemberRow.member == key))
        )
        self._connection.execute(delete(AccessRoleRow).where(AccessRoleRow.name == name))

    def put_member(self, member: RoleMember) -> None:
        """Store a member, in place of the same one with other options."""
        row = {
            "role": member.role,
            "member": member.member.key,
            "admin_option": member.admin_option,
            "grantor": member.grantor,
            "granted_at": member.granted_at,
        }
        self._connection.execute(insert_or_replace(self._connection, AccessMemberRow), [row])

    def remove_member(self, role: str, member: Grantee) -> None:
        """Remove a member of a role."""
        self._connection.execute(
            delete(AccessMemberRow).where(AccessMemberRow.role == role, AccessMemberRow.member == member.key)
        )

    def exists(self, on: SecuredObject) -> bool:
        """Return whether an object exists, which is locked against its removal until the end of the transaction. The
        column without a name stands for any column of its table.
        """
        if on.kind is SecuredKind.SERVER:
            return True
        row = self._row(on, for_child=True)
        return row is not None and (on.column is None or on.column in self._column_names(on, row[0]))

    def owner(self, on: SecuredObject) -> Grantee | None:
        """Return the owner of an object, None if it has none."""
        # The owner of a column is that of its table.
        row = None if on.kind in (SecuredKind.SERVER, SecuredKind.COLUMN) else self._row(on)
        return None if row is None or row[1] is None else grantee_from_key(row[1])

    def number(self, on: SecuredObject) -> int | None:
        """Return the number of a table, also for its columns; None for other objects."""
        row = self._row(on) if on.kind in (SecuredKind.TABLE, SecuredKind.COLUMN) else None
        return None if row is None else self._table(row[0]).number

    def grants(
        self, *, on: SecuredObject | None = None, to: Grantee | None = None, through: Grantee | None = None
    ) -> Sequence[Grant]:
        """Return the grants on an object, to a grantee, and given through a grantee, as far as these are given. Those
        on a column without a name are the grants on all columns of its table.
        """
        statement = _GRANTS
        if on is not None:
            column = self._object_column(on)
            if column is None:
                return []
            statement = statement.where(column)
        if to is not None:
            statement = statement.where(_GRANT.grantee == to.key)
        if through is not None:
            statement = statement.where(_GRANT.through == through.key)
        return self._grants(statement)

    def put_grant(self, grant: Grant) -> None:
        """Store a grant on an existing object."""
        row: dict[str, Any] = {}
        if grant.on.kind is not SecuredKind.SERVER:
            found = self._row(grant.on)
            assert found is not None, "the caller has locked the object"
            row[_OBJECT_COLUMNS[_row_kind(grant.on)].key] = found[0]
            row["column_name"] = grant.on.column
        self._connection.execute(
            insert(_GRANT).values(
                privilege=str(grant.privilege),
                grantee=grant.to.key,
                grant_option=grant.grant_option,
                grantor=grant.grantor,
                through=None if grant.through is None else grant.through.key,
                granted_at=grant.granted_at,
                **row,
            )
        )

    def remove_grants(self, ids: Collection[int]) -> None:
        """Remove the grants of some ids."""
        for number in ids:
            self._connection.execute(delete(_GRANT).where(_GRANT.id == number))

    def end_grant_options(self, ids: Collection[int]) -> None:
        """Remove the grant option of some grants."""
        for number in ids:
            self._connection.execute(update(_GRANT).where(_GRANT.id == number).values(grant_option=False))

    def owned_databases(self, owners: Collection[Grantee]) -> set[tuple[str, str]]:
        """Return catalog and name of the databases that belong to one of these owners."""
        return _places(_DATABASES_OWNED.rows(self._connection, {"owners": self._keys(owners)}))

    def databases_with_owned(self, owners: Collection[Grantee]) -> set[tuple[str, str]]:
        """Return catalog and name of the databases with a table or a function of one of these owners."""
        values = {"owners": self._keys(owners)}
        return set().union(*(_places(each.rows(self._connection, values)) for each in _DATABASES_AROUND.values()))

    def owned(self, scope: OwnedScope, owners: Collection[Grantee]) -> set[str]:
        """Return the names of the objects of a scope that belong to one of these owners."""
        values = {"catalog": scope.catalog, "database": scope.database, "owners": self._keys(owners)}
        if scope.names is None:
            return {name for (name,) in _ALL_OWNED[scope.kind].rows(self._connection, values)}
        named = {**values, "names": self._listed(sorted(scope.names))}
        return {name for (name,) in _NAMED_OWNED[scope.kind].rows(self._connection, named)}

    def owned_anywhere(self, kind: SecuredKind, owners: Collection[Grantee]) -> set[tuple[str, str, str]]:
        """Return catalog, database and name of all tables or functions that belong to one of these owners."""
        rows = _OWNED_ANYWHERE[kind].rows(self._connection, {"owners": self._keys(owners)})
        return {(catalog, database, name) for catalog, database, name in rows}

    def first_owned(self, owner: Grantee) -> SecuredObject | None:
        """Return an object that belongs to an owner, None if there is none."""
        values = {"owner": owner.key}
        database = _FIRST_OWNED_DATABASE.row(self._connection, values)
        if database is not None:
            return database_object(*database)
        for kind, statement in _FIRST_OWNED.items():
            found = statement.row(self._connection, values)
            if found is not None:
                return table_object(*found) if kind is SecuredKind.TABLE else function_object(*found)
        return None

    def _keys(self, owners: Collection[Grantee]) -> Any:
        return self._listed(sorted(owner.key for owner in owners))

    def _listed(self, texts: Sequence[str]) -> Any:
        return json.dumps(texts) if self._connection.dialect.name == "sqlite" else list(texts)

    def _object_column(self, on: SecuredObject) -> ColumnElement[bool] | None:
        """Return the condition for the grants on an object, None if it does not exist."""
        if on.kind is SecuredKind.SERVER:
            return and_(*(column.is_(None) for column in _OBJECT_COLUMNS.values()))
        row = self._row(on)
        if row is None:
            return None
        condition = _OBJECT_COLUMNS[_row_kind(on)] == row[0]
        if on.kind is SecuredKind.COLUMN:
            name = _GRANT.column_name
            return and_(condition, name.is_not(None) if on.column is None else name == on.column)
        return and_(condition, _GRANT.column_name.is_(None))

    def _row(self, on: SecuredObject, *, for_child: bool = False) -> tuple[Any, str | None] | None:
        """Return the id and the owner of an object that is not the server; for a column those of its table."""
        locked: Any
        statement: Any
        if on.kind is SecuredKind.CATALOG:
            locked = CatalogRow
            statement = select(CatalogRow.name, null()).where(CatalogRow.name == on.catalog)
        elif on.kind is SecuredKind.DATABASE:
            locked = DatabaseRow
            statement = select(DatabaseRow.id, DatabaseRow.owner).where(
                DatabaseRow.catalog == on.catalog, DatabaseRow.name == on.database
            )
        else:
            locked = FunctionRow if on.kind is SecuredKind.FUNCTION else TableRow
            statement = (
                select(locked.id, locked.owner)
                .join(DatabaseRow, DatabaseRow.id == locked.database_id)
                .where(DatabaseRow.catalog == on.catalog, DatabaseRow.name == on.database, locked.name == on.name)
            )
        if for_child:
            statement = statement.with_for_update(read=True, key_share=True, of=locked)
        row: Any = self._connection.execute(statement).one_or_none()
        return None if row is None else (row[0], row[1])

    def _table(self, table_id: int) -> MetastoreTable:
        """Return the table of a row, without its names."""
        document = self._connection.execute(select(TableRow.document).where(TableRow.id == table_id)).scalar_one()
        return table_from("", "", "", "", document, table_id)

    def _column_names(self, on: SecuredObject, table_id: int) -> Collection[str]:
        return self._table(table_id).column_names if on.kind is SecuredKind.COLUMN else ()

    def _grants(self, statement: Any) -> Sequence[Grant]:
        privileges = {str(each): each for each in Privilege}
        grantees = _GranteesByText()
        objects: dict[tuple[str | None, ...], SecuredObject] = {}
        found = []
        rows: Iterable[Any] = self._connection.execute(statement)
        for number, privilege, grantee, option, grantor, through, granted_at, *names in rows:
            key = tuple(names)
            if key not in objects:
                objects[key] = _object(*names)
            found.append(
                Grant(
                    id=number,
                    privilege=privileges[privilege],
                    on=objects[key],
                    to=grantees[grantee],
                    grant_option=option,
                    grantor=grantor,
                    through=None if through is None else grantees[through],
                    granted_at=granted_at,
                )
            )
        return found


class _GranteesByText(dict[str, Grantee]):
    """Grantees by their texts; many grants have one grantee."""

    def __missing__(self, key: str) -> Grantee:
        self[key] = found = grantee_from_key(key)
        return found


def _kind(key: str) -> GranteeKind:
    return grantee_from_key(key).kind


def _row_kind(on: SecuredObject) -> SecuredKind:
    """Return the kind of the row that grants on an object refer to."""
    return SecuredKind.TABLE if on.kind is SecuredKind.COLUMN else on.kind


def _object(
    catalog: str | None, database: str | None, table: str | None, function: str | None, column: str | None
) -> SecuredObject:
    if table is not None:
        kind = SecuredKind.TABLE if column is None else SecuredKind.COLUMN
        return SecuredObject(kind, catalog, database, table, column)
    if function is not None:
        return SecuredObject(SecuredKind.FUNCTION, catalog, database, function)
    if database is not None:
        return SecuredObject(SecuredKind.DATABASE, catalog, database)
    return SecuredObject(SecuredKind.SERVER) if catalog is None else SecuredObject(SecuredKind.CATALOG, catalog)
