"""Owners of databases, tables and functions in SQL. An owner is a text such as `user:ann`, in an indexed column."""

import json
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, text

from interbed.catalog.server.database.statement import Statement
from interbed.catalog.server.service.access.grants import Grantee, OwnedScope
from interbed.catalog.server.service.access.objects import (
    SecuredKind,
    SecuredObject,
    database_object,
    function_object,
    table_object,
)

_TABLES = {SecuredKind.TABLE: "tables", SecuredKind.FUNCTION: "functions"}


def _statement(form: str) -> Statement:
    """Return a statement whose lists are arrays on PostgreSQL and JSON on SQLite."""
    lists = {name: f"= ANY(CAST(:{name} AS text[]))" for name in ("owners", "names")}
    on_sqlite = {name: f"IN (SELECT value FROM json_each(:{name}))" for name in ("owners", "names")}
    return Statement(text(form.format(**lists)), for_sqlite=text(form.format(**on_sqlite)))


_DATABASES = _statement("SELECT d.catalog, d.name FROM databases d WHERE d.owner {owners}")
_AROUND = {
    kind: _statement(
        "SELECT d.catalog, d.name FROM databases d "
        f"WHERE EXISTS (SELECT 1 FROM {table} o WHERE o.owner {{owners}} AND o.database_id = d.id)"
    )
    for kind, table in _TABLES.items()
}
_OWNED = (
    "SELECT o.name FROM {table} o JOIN databases d ON d.id = o.database_id "
    "WHERE d.catalog = :catalog AND d.name = :database AND o.owner {{owners}}"
)
_ALL = {kind: _statement(_OWNED.format(table=table)) for kind, table in _TABLES.items()}
_NAMED = {kind: _statement(_OWNED.format(table=table) + " AND o.name {names}") for kind, table in _TABLES.items()}
_ANYWHERE = {
    kind: _statement(
        f"SELECT d.catalog, d.name, o.name AS object_name FROM {table} o JOIN databases d ON d.id = o.database_id "
        "WHERE o.owner {owners}"
    )
    for kind, table in _TABLES.items()
}
_FIRST = {
    kind: Statement(
        text(
            f"SELECT d.catalog, d.name, o.name AS object_name FROM {table} o "
            "JOIN databases d ON d.id = o.database_id WHERE o.owner = :owner LIMIT 1"
        )
    )
    for kind, table in _TABLES.items()
}
_FIRST_DATABASE = Statement(text("SELECT catalog, name FROM databases WHERE owner = :owner LIMIT 1"))


def owned_databases(connection: Connection, owners: Collection[Grantee]) -> set[tuple[str, str]]:
    """Return catalog and name of the databases that belong to one of these owners."""
    return _places(_DATABASES.rows(connection, {"owners": _listed(connection, _keys(owners))}))


def databases_with_owned(connection: Connection, owners: Collection[Grantee]) -> set[tuple[str, str]]:
    """Return catalog and name of the databases with a table or a function of one of these owners."""
    values = {"owners": _listed(connection, _keys(owners))}
    return set().union(*(_places(statement.rows(connection, values)) for statement in _AROUND.values()))


def owned(connection: Connection, scope: OwnedScope, owners: Collection[Grantee]) -> set[str]:
    """Return the names of the objects of a scope that belong to one of these owners."""
    values = {
        "catalog": scope.catalog,
        "database": scope.database,
        "owners": _listed(connection, _keys(owners)),
    }
    if scope.names is None:
        return {name for (name,) in _ALL[scope.kind].rows(connection, values)}
    named = {**values, "names": _listed(connection, sorted(scope.names))}
    return {name for (name,) in _NAMED[scope.kind].rows(connection, named)}


def owned_anywhere(connection: Connection, kind: SecuredKind, owners: Collection[Grantee]) -> set[tuple[str, str, str]]:
    """Return catalog, database and name of all tables or functions that belong to one of these owners."""
    rows = _ANYWHERE[kind].rows(connection, {"owners": _listed(connection, _keys(owners))})
    return {(catalog, database, name) for catalog, database, name in rows}


def first_owned(connection: Connection, owner: Grantee) -> SecuredObject | None:
    """Return an object that belongs to an owner, None if there is none."""
    values = {"owner": owner.key}
    database = _FIRST_DATABASE.row(connection, values)
    if database is not None:
        return database_object(*database)
    for kind, statement in _FIRST.items():
        found = statement.row(connection, values)
        if found is not None:
            return table_object(*found) if kind is SecuredKind.TABLE else function_object(*found)
    return None


def _keys(owners: Collection[Grantee]) -> list[str]:
    return sorted(owner.key for owner in owners)


def _listed(connection: Connection, texts: Sequence[str]) -> Any:
    return json.dumps(texts) if connection.dialect.name == "sqlite" else list(texts)


def _places(rows: Sequence[Sequence[Any]]) -> set[tuple[str, str]]:
    return {(catalog, name) for catalog, name in rows}
