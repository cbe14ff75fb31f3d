"""Informational constraints: stored with their table and returned to clients, never enforced.

Names are kept in lower case and are unique within a table; a constraint without a name gets a generated one. A
constraint is dropped with its table, with a column that it needs, and a foreign key also with the table that it refers
to.
"""

import dataclasses
import time
import zlib
from collections.abc import Callable, Iterable, Sequence

from interbed.catalog.server.service import events
from interbed.catalog.server.service.access.objects import Privilege, SecuredObject, catalog_object
from interbed.catalog.server.service.access.secured import (
    Arguments,
    SecuredService,
    filtered,
    needs,
    secured,
    tables_of,
    the_table,
)
from interbed.catalog.server.service.errors import InvalidObjectError, MetastoreError, NoSuchObjectError
from interbed.catalog.server.service.events import NotificationEvent
from interbed.catalog.server.service.model import Constraint, ConstraintKind, MetastoreTable, QualifiedTableName
from interbed.catalog.server.service.names import normalized, shortened
from interbed.catalog.server.service.repository import Repository, StoredRow, Transaction

NAME_LENGTH_MAX = 256

_PREFIXES = {
    ConstraintKind.PRIMARY_KEY: "pk",
    ConstraintKind.FOREIGN_KEY: "fk",
    ConstraintKind.UNIQUE: "uk",
    ConstraintKind.NOT_NULL: "nn",
    ConstraintKind.DEFAULT: "dc",
    ConstraintKind.CHECK: "cc",
}

_ORDER = (
    ConstraintKind.PRIMARY_KEY,
    ConstraintKind.UNIQUE,
    ConstraintKind.FOREIGN_KEY,
    ConstraintKind.NOT_NULL,
    ConstraintKind.DEFAULT,
    ConstraintKind.CHECK,
)
"""Keys come first: a foreign key of the same call may refer to them."""


def _the_tables_of_the_constraints(arguments: Arguments) -> tuple[SecuredObject, ...]:
    return tuple(dict.fromkeys(tables_of(each)[0] for each in arguments["constraints"]))


def _the_parents_of_the_constraints(arguments: Arguments) -> tuple[SecuredObject, ...]:
    return tuple(dict.fromkeys(table for each in arguments["constraints"] for table in tables_of(each)[1:]))


class ConstraintService(SecuredService):
    """The calls about constraints."""

    def __init__(self, store: Repository, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    @secured(needs(Privilege.ALTER, _the_tables_of_the_constraints), needs(None, _the_parents_of_the_constraints))
    def add(self, constraints: Sequence[Constraint]) -> None:
        """Add constraints to tables that exist, all or none.

        NoSuchObjectError for an unknown table; InvalidObjectError for unknown columns, a taken name or a foreign key
        to another catalog; MetastoreError for a second primary key or a foreign key to columns that are no key.
        """
        now_ms = int(self._clock() * 1000)

        def work(transaction: Transaction) -> None:
            transaction.events.append(*add_constraints(transaction, constraints, now_ms))

        if constraints:
            self._store.write(work)

    @secured(needs(Privilege.ALTER, the_table))
    def drop(self, catalog: str, database: str, table: str, name: str) -> None:
        """Drop a constraint. NoSuchObjectError if the table has none of that name."""
        key = (catalog, normalized(database), normalized(table))

        def work(transaction: Transaction) -> None:
            stored = transaction.tables.find(*key, for_update=True)
            if stored is not None:
                for found in transaction.constraints.of_table(stored.id):
                    if found.value.name == normalized(name):
                        transaction.constraints.remove(found.id)
                        transaction.events.append(events.drop_constraint(found.value))
                        return
            raise NoSuchObjectError(
                f"The constraint: {shortened(name)} does not exist for the associated table: {'.'.join(key)}"
            )

        self._store.write(work)

    @filtered("constraints of tables, and to tables, that the caller sees")
    def select(
        self,
        kind: ConstraintKind | None,
        catalog: str,
        database: str | None = None,
        table: str | None = None,
        *,
        parent_database: str | None = None,
        parent_table: str | None = None,
    ) -> list[Constraint]:
        """Return the constraints of a kind (of all kinds if None) by the names of their table, and for foreign keys
        also of the table referred to; an absent name matches any.
        """
        found = self._store.read(
            lambda transaction: transaction.constraints.select(
                kind,
                catalog=catalog,
                database=normalized(database) or None,
                table=normalized(table) or None,
                parent_database=normalized(parent_database) or None,
                parent_table=normalized(parent_table) or None,
            )
        )
        seen = self._access.visible(found, lambda each: tables_of(each)[0], catalog_object(catalog))
        return self._access.visible(seen, lambda each: tables_of(each)[-1], catalog_object(catalog))


def add_constraints(
    transaction: Transaction, constraints: Sequence[Constraint], now_ms: int
) -> list[NotificationEvent]:
    """Store constraints and return their events, one for each kind and table, for the caller to append.

    Errors as ConstraintService.add.
    """
    added: dict[tuple[ConstraintKind, str, str, str], list[Constraint]] = {}
    for kind in _ORDER:
        for constraint in constraints:
            if constraint.kind is kind:
                stored = _add(transaction, constraint, now_ms)
                added.setdefault((kind, stored.catalog, stored.database, stored.table), []).append(stored)
    return [events.add_constraints(each) for each in added.values()]


def forget_columns(transaction: Transaction, table_id: int, before: MetastoreTable, after: MetastoreTable) -> None:
    """Drop the constraints that need a column which the changed table no longer has. The caller holds the table."""
    gone = set(before.column_names).difference(after.column_names)
    if not gone:
        return
    for own in transaction.constraints.of_table(table_id):
        if gone.intersection(own.value.columns):
            transaction.constraints.remove(own.id)
    for foreign in transaction.constraints.referring_to(table_id):
        if gone.intersection(foreign.value.parent_columns):
            transaction.constraints.remove(foreign.id)


def _add(transaction: Transaction, constraint: Constraint, now_ms: int) -> Constraint:
    child = transaction.tables.find(constraint.catalog, constraint.database, constraint.table, for_update=True)
    if child is None:
        raise NoSuchObjectError(
            f"{'Child' if constraint.kind is ConstraintKind.FOREIGN_KEY else 'Parent'} table not found: "
            f"{shortened(constraint.table)}"
        )
    role = "Child" if constraint.kind is ConstraintKind.FOREIGN_KEY else "Parent"
    _check_columns(child.value, constraint.columns, role)
    if not constraint.columns and constraint.kind is not ConstraintKind.CHECK:
        raise InvalidObjectError(f"A constraint of table {constraint.table} names no column")
    existing = transaction.constraints.of_table(child.id)
    if constraint.kind is ConstraintKind.PRIMARY_KEY and any(
        each.value.kind is ConstraintKind.PRIMARY_KEY for each in existing
    ):
        raise MetastoreError(
            f" Primary key already exists for: {constraint.catalog}.{constraint.database}.{constraint.table}"
        )
    parent_id = None
    if constraint.kind is ConstraintKind.FOREIGN_KEY:
        constraint, parent_id = _resolved(transaction, child, constraint)
    taken = {each.value.name for each in existing}
    named = dataclasses.replace(constraint, name=_name_for(constraint, taken, now_ms))
    if len(named.name) > NAME_LENGTH_MAX:
        raise InvalidObjectError(f"Constraint name is too long: {shortened(named.name)}")
    if named.name in taken or not transaction.constraints.add(child.id, parent_id, named):
        raise InvalidObjectError(f"Constraint name already exists: {shortened(named.name)}")
    return named


def _resolved(
    transaction: Transaction, child: StoredRow[MetastoreTable], constraint: Constraint
) -> tuple[Constraint, int]:
    """Return a foreign key with the name of the key that it refers to, and the id of that key's table."""
    wanted = constraint.parent
    if wanted is None or len(constraint.parent_columns) != len(constraint.columns):
        raise InvalidObjectError(f"A foreign key of table {constraint.table} does not say what it refers to")
    if wanted.catalog != constraint.catalog:
        raise InvalidObjectError("Foreign keys cannot span catalogs")
    own_name = QualifiedTableName(catalog=child.value.catalog, database=child.value.database, table=child.value.name)
    parent = (
        child
        if wanted == own_name
        else transaction.tables.find(wanted.catalog, wanted.database, wanted.table, for_update=True)
    )
    if parent is None:
        raise InvalidObjectError(f"Parent table not found: {shortened(wanted.table)}")
    _check_columns(parent.value, constraint.parent_columns, "Parent")
    keys = [
        each.value
        for each in transaction.constraints.of_table(parent.id)
        if each.value.kind in (ConstraintKind.PRIMARY_KEY, ConstraintKind.UNIQUE)
    ]
    if not keys:
        raise MetastoreError(
            "Trying to define foreign key but there are no primary keys or unique keys for referenced table"
        )
    types = _column_types(parent.value)
    own_types = _column_types(child.value)
    referred = {(name, types[name]) for name in constraint.parent_columns}
    for key in keys:
        if set(key.columns) == set(constraint.parent_columns) and all(
            own_types[own] == types[theirs]
            for own, theirs in zip(constraint.columns, constraint.parent_columns, strict=True)
        ):
            return dataclasses.replace(constraint, parent_key=constraint.parent_key or key.name), parent.id
    shown = ", ".join(f"{name}:{kind}" for name, kind in sorted(referred))
    possible = "; ".join(", ".join(f"{name}:{types[name]}" for name in key.columns) for key in keys)
    raise MetastoreError(
        f"Foreign key references {shown} but no corresponding primary key or unique key exists. "
        f"Possible keys: [{possible}]"
    )


def _name_for(constraint: Constraint, taken: set[str], now_ms: int) -> str:
    if constraint.name:
        return normalized(constraint.name)
    prefix = _PREFIXES[constraint.kind]
    told_apart = zlib.crc32(".".join((constraint.database, constraint.table, *constraint.columns)).encode())
    for counter in range(len(taken) + 1):
        name = f"{prefix}_{told_apart}_{now_ms}_{counter}"
        if name not in taken:
            return name
    raise AssertionError("there are more candidates than taken names")


def _check_columns(table: MetastoreTable, columns: Iterable[str], role: str) -> None:
    known = _column_names(table)
    for column in columns:
        if column not in known:
            raise InvalidObjectError(f"{role} column not found: {shortened(column)}")


def _column_names(table: MetastoreTable) -> set[str]:
    return set(_column_types(table))


def _column_types(table: MetastoreTable) -> dict[str, str | None]:
    columns = (table.storage.columns if table.storage is not None else ()) + table.partition_keys
    return {normalized(column.name): column.type for column in columns}
