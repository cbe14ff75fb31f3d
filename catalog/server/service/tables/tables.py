"""Tables and views: create, read, drop; what changes them is in alter.py. Every change appends its events."""

import dataclasses
from collections.abc import Callable, Collection, Sequence

from interbed.catalog.server.service import events
from interbed.catalog.server.service import warehouse as files
from interbed.catalog.server.service.access.objects import (
    Privilege,
    SecuredKind,
    SecuredObject,
    catalog_object,
    database_object,
    table_object,
)
from interbed.catalog.server.service.access.places import CheckedPlace
from interbed.catalog.server.service.access.secured import (
    Arguments,
    filtered,
    needs,
    secured,
    the_table,
    unhidden,
    unsecured,
)
from interbed.catalog.server.service.constraints import add_constraints
from interbed.catalog.server.service.directories.guard import Directory
from interbed.catalog.server.service.errors import (
    AlreadyExistsError,
    InvalidObjectError,
    MetastoreError,
    NoSuchObjectError,
    OutcomeUnknownError,
    UnknownDatabaseError,
)
from interbed.catalog.server.service.model import (
    MATERIALIZED_VIEW,
    NAMES_MAX,
    Constraint,
    MetastoreDatabase,
    MetastoreTable,
    TableKind,
    TableMeta,
)
from interbed.catalog.server.service.names import check_number, matching, normalized, shortened
from interbed.catalog.server.service.repository import StoredRow, Transaction
from interbed.catalog.server.service.tables.alter import TableAlterations
from interbed.catalog.server.service.tables.rules import (
    EXPECTED_PARAMETER_KEY,
    EXPECTED_PARAMETER_VALUE,
    check_table,
    data_locations,
    owns_data,
    skips_trash,
    table_not_found,
)

__all__ = [
    "EXPECTED_PARAMETER_KEY",
    "EXPECTED_PARAMETER_VALUE",
    "TableService",
    "data_locations",
    "owns_data",
    "table_not_found",
]


def _the_database_of_the_table(arguments: Arguments) -> tuple[SecuredObject, ...]:
    return (database_object(arguments["table"].catalog, arguments["table"].database),)


def _the_databases_of_the_tables(arguments: Arguments) -> tuple[SecuredObject, ...]:
    return tuple({database_object(each.catalog, each.database): None for each in arguments["tables"]})


def _the_tables_of_foreign_keys(arguments: Arguments) -> tuple[SecuredObject, ...]:
    parents = [each.parent for each in arguments["constraints"] if each.parent is not None]
    new = {(each.catalog, each.database, each.name) for each in arguments["tables"]}
    names = [(each.catalog, each.database, each.table) for each in parents]
    return tuple(table_object(*each) for each in names if each not in new)


def _the_database_of_the_names(arguments: Arguments) -> tuple[SecuredObject, ...]:
    return (database_object(arguments["catalog"], normalized(arguments["database"])),)


class TableService(TableAlterations):
    """The calls about tables and views."""

    @secured(needs(Privilege.CREATE, _the_database_of_the_table))
    def create(
        self, table: MetastoreTable, constraints: Sequence[Constraint] = (), *, has_any_name: bool = False
    ) -> MetastoreTable:
        """Create a table, and its directory unless it is a view, with its constraints. Returns it as stored. With
        `has_any_name` the caller has checked the name by other rules than Hive's.

        InvalidObjectError for a bad name, bad columns, bad constraints or an unknown database, AlreadyExistsError,
        MetastoreError if the directory cannot be made.
        """
        (complete,) = self.create_all([table], constraints, has_any_name=has_any_name)
        return complete

    @unsecured("the answer is for the process, which hides it from the caller")
    def is_stored(self, catalog: str, database: str, name: str) -> bool:
        """Return whether the table exists, also if the caller does not see it."""
        key = (catalog, normalized(database), normalized(name))
        with unhidden():
            return self._store.read(lambda transaction: transaction.tables.find(*key) is not None)

    @secured(needs(Privilege.CREATE, _the_databases_of_the_tables), needs(None, _the_tables_of_foreign_keys))
    def create_all(
        self,
        tables: Sequence[MetastoreTable],
        constraints: Sequence[Constraint] = (),
        *,
        has_any_name: bool = False,
        is_free: bool = False,
        also: Callable[[Transaction], None] | None = None,
    ) -> list[MetastoreTable]:
        """Create tables in one transaction, all or none, after the changes of `also`. Raises as `create` and `also`.

        With `is_free` the caller has just found the names free: nothing is read before the transaction if all have
        locations that are not the server's.
        """
        for table in tables:
            check_table(table, keeps_transactional=self._keeps_transactional, has_any_name=has_any_name)
            if table.storage is None and not table.is_view:
                raise MetastoreError(f"Table {table.name} has no storage descriptor")
        chosen: list[CheckedPlace] = []
        if self._access.is_on:
            owned = [self._places.new(self._access, table) for table in tables]
            tables = [table for table, _ in owned]
            chosen = [each.beside(map(_object_of, tables)) for _, checked in owned for each in checked]

        def prepare(transaction: Transaction) -> list[tuple[MetastoreTable, Directory | None]]:
            # A location of its own may need directories above it, which must not remain when the table exists already.
            for table in tables:
                if table.location and transaction.tables.find(table.catalog, table.database, table.name) is not None:
                    raise _already_exists(table)
            return [self._prepared(transaction, table) for table in tables]

        if is_free and all(map(self._new.is_placed, tables)):
            prepared = [self._new.placed(table) for table in tables]
        else:
            prepared = self._store.read(prepare)
        made: list[str] = []

        def work(transaction: Transaction) -> None:
            if also is not None:
                also(transaction)
            for complete, directory in prepared:
                linked = directory.real.text if directory is not None and directory.has_links else None
                self._add(transaction, complete, constraints, linked)
            for place in chosen:
                place.check_again(transaction)

        try:
            for complete, _ in prepared:
                if complete.location is not None and files.make_directory(complete.location):
                    made.append(complete.location)
            self._store.write(work)
        except OutcomeUnknownError:
            raise
        except MetastoreError:
            for location in made:
                files.remove_empty_directory(location)
            raise
        return [complete for complete, _ in prepared]

    @secured(needs(Privilege.CREATE, _the_database_of_the_table))
    def translated(self, table: MetastoreTable) -> MetastoreTable:
        """Return the table as `create` would store it, without storing it. InvalidObjectError as there."""
        check_table(table)
        new, _ = self._places.new(self._access, table)
        return self._store.read(lambda transaction: self._prepared(transaction, new)[0])

    @secured(needs(None, the_table))
    def get(self, catalog: str, database: str, name: str) -> MetastoreTable:
        """Return the table; NoSuchObjectError if there is none of that name."""
        key = (catalog, normalized(database), normalized(name))
        found = self._store.read(lambda transaction: transaction.tables.find(*key))
        if found is None:
            raise table_not_found(database, name)
        return found.value

    @secured(needs(None, _the_database_of_the_names))
    def select(self, catalog: str, database: str, names: Sequence[str]) -> list[MetastoreTable]:
        """Return the tables of these names that exist, ordered by name. UnknownDatabaseError if any names are given."""
        if not names:
            return []
        check_number("names of tables", len(names))
        keys = [normalized(name) for name in names]

        def work(transaction: Transaction) -> list[MetastoreTable]:
            _check_database(transaction, catalog, database)
            return transaction.tables.select(catalog, normalized(database), keys)

        return self._visible(catalog, normalized(database), self._store.read(work))

    @filtered("tables and databases that the caller sees")
    def matching(self, catalog: str, database: str, pattern: str | None) -> list[MetastoreTable]:
        """Return the tables whose names match a pattern, in the databases that match another, ordered by their names.
        UnknownDatabaseError if there are no such databases.
        """

        known = self._store.read(lambda transaction: transaction.databases.names(catalog))
        databases = self._visible_databases(catalog, matching(known, normalized(database)))
        if not databases:
            raise database_not_found(database)

        def work(transaction: Transaction) -> list[MetastoreTable]:
            found: list[MetastoreTable] = []
            for each in databases:
                names = matching(transaction.tables.names(catalog, each), pattern)
                found.extend(transaction.tables.select(catalog, each, names))
            return found

        return self._visible(catalog, None, self._store.read(work))

    @filtered("tables that the caller sees")
    def names(
        self, catalog: str, database: str, pattern: str | None = None, table_type: str | None = None
    ) -> list[str]:
        """Return the names that match a pattern, in order; none if there is no such database, as in Hive."""
        found = self._store.read(
            lambda transaction: transaction.tables.names(catalog, normalized(database), table_type or None)
        )
        within = normalized(database)
        return self._access.visible_names(matching(found, pattern), SecuredKind.TABLE, database_object(catalog, within))

    @filtered("views that the caller sees")
    def rewriting_views(self, catalog: str, database: str | None = None) -> list[MetastoreTable]:
        """Return the materialized views that may replace a query, of one database or of all."""

        def work(transaction: Transaction) -> list[MetastoreTable]:
            databases = transaction.databases.names(catalog) if database is None else [normalized(database)]
            views = [
                view
                for each in databases
                for view in transaction.tables.select(
                    catalog, each, transaction.tables.names(catalog, each, MATERIALIZED_VIEW)
                )
            ]
            return [view for view in views if view.extra.get("rewriteEnabled")]

        return self._visible(catalog, None, self._store.read(work))

    @filtered("tables that the caller sees")
    def numbered(self, catalog: str, number: int) -> list[tuple[str, str]]:
        """Return database and name of the tables that may have this number: their entries show it."""
        found = self._store.read(lambda transaction: transaction.tables.numbered(catalog, number))
        return self._access.visible(found, lambda each: table_object(catalog, *each), catalog_object(catalog))

    @filtered("tables that the caller sees")
    def names_of_kinds(
        self,
        catalog: str,
        database: str,
        kinds: Collection[TableKind],
        after: str = "",
        limit: int | None = None,
        prefix: str = "",
    ) -> list[str]:
        """Return up to `limit` names of tables of these kinds that come after one and begin with a prefix, in order;
        none if there is no such database.
        """
        count = NAMES_MAX if limit is None else limit
        within = normalized(database)
        seen: list[str] = []
        while True:
            page = self._store.read(
                lambda transaction, last=after: transaction.tables.names_of_kinds(  # type: ignore[misc]
                    catalog, within, kinds, last, count, prefix
                )
            )
            seen += self._access.visible_names(page, SecuredKind.TABLE, database_object(catalog, within))
            if len(page) < count or len(seen) >= count:
                return seen[:count]
            after = page[-1]

    @filtered("tables that the caller sees")
    def names_by_filter(self, catalog: str, database: str, text: str, limit: int | None = None) -> list[str]:
        """Return the names of the tables that a filter over owner, parameters and last access selects, in order; none
        if there is no such database, as in Hive. BadFilterError.
        """
        # Imported here, because a server starts without the parser.
        from interbed.catalog.server.service.filters.grammar import compile_table_filter

        predicate = compile_table_filter(text)
        within = normalized(database)

        def work(transaction: Transaction) -> list[str]:
            return [each.name for each in transaction.tables.select(catalog, within) if predicate(each)]

        found = self._access.visible_names(self._store.read(work), SecuredKind.TABLE, database_object(catalog, within))
        return found[:limit]

    @filtered("tables that the caller sees")
    def metas(
        self, catalog: str, database_pattern: str | None, pattern: str | None, types: Sequence[str]
    ) -> list[TableMeta]:
        """Return an entry for each table that the patterns select, of these types (of all if empty)."""

        def work(transaction: Transaction) -> list[TableMeta]:
            metas = transaction.tables.metas(catalog)
            databases = set(matching({meta.database for meta in metas}, database_pattern))
            names = set(matching({meta.name for meta in metas}, pattern))
            wanted = frozenset(types)
            chosen = [
                meta
                for meta in metas
                if meta.database in databases and meta.name in names and (not wanted or meta.table_type in wanted)
            ]
            # The owner is in the table's document, which is read for the selected tables alone.
            owned = {
                (table.database, table.name): table
                for database in {meta.database for meta in chosen}
                for table in transaction.tables.select(
                    catalog, database, [meta.name for meta in chosen if meta.database == database]
                )
            }
            return [_with_owner(meta, owned[meta.database, meta.name]) for meta in chosen]

        return self._access.visible(
            self._store.read(work),
            lambda each: table_object(catalog, each.database, each.name),
            catalog_object(catalog),
        )

    @secured(needs(Privilege.DROP, the_table))
    def drop_and_keep(self, catalog: str, database: str, name: str) -> MetastoreTable:
        """Drop a managed table whose directory is moved aside, and return it. NoSuchObjectError, MetastoreError if it
        cannot be kept: nothing is changed then.
        """
        key = (catalog, normalized(database), normalized(name))
        soft = self._soft_drops
        kept = None if soft is None else soft.drop_table(key, delete_data=True, with_directory=True)
        if kept is not None:
            return kept
        if self._store.read(lambda transaction: transaction.tables.find(*key)) is None:
            raise table_not_found(database, name)
        raise MetastoreError(f"{shortened(database)}.{shortened(name)} cannot be kept when it is dropped")

    @secured(needs(Privilege.DROP, the_table))
    def drop(self, catalog: str, database: str, name: str, *, delete_data: bool, purge: bool = False) -> MetastoreTable:
        """Drop a table; the data of a managed one too if `delete_data`. With soft drops its entry and data are kept;
        `purge` bypasses these and the trash. NoSuchObjectError. Returns the dropped table.
        """
        key = (catalog, normalized(database), normalized(name))
        if self._soft_drops is not None and not purge:
            kept = self._soft_drops.drop_table(key, delete_data=delete_data)
            if kept is not None:
                return kept

        def work(transaction: Transaction) -> tuple[MetastoreTable, list[str]]:
            stored = transaction.tables.find(*key, for_update=True)
            if stored is None:
                raise table_not_found(database, name)
            table = stored.value
            elsewhere = []
            if delete_data and table.partition_keys and owns_data(table) and table.location is not None:
                elsewhere = transaction.partitions.locations_outside(stored.id, table.location)
            transaction.tables.remove(stored.id)
            transaction.events.append(events.drop_table(table))
            return table, elsewhere

        table, elsewhere = self._store.write(work)
        if delete_data:
            for location in data_locations(table, elsewhere):
                self._deletions.discard(location, purge=skips_trash(table, purge=purge))
        return table

    def _visible(self, catalog: str, database: str | None, tables: list[MetastoreTable]) -> list[MetastoreTable]:
        within = catalog_object(catalog) if database is None else database_object(catalog, database)
        return self._access.visible(tables, lambda each: table_object(catalog, each.database, each.name), within)

    def _visible_databases(self, catalog: str, names: list[str]) -> list[str]:
        return self._access.visible(names, lambda name: database_object(catalog, name), catalog_object(catalog))

    def _prepared(self, transaction: Transaction, table: MetastoreTable) -> tuple[MetastoreTable, Directory | None]:
        return self._new.prepared(transaction, _database_for(transaction, table).value, table)

    def _add(
        self, transaction: Transaction, table: MetastoreTable, constraints: Sequence[Constraint], linked: str | None
    ) -> None:
        database = _database_for(transaction, table)
        number = transaction.tables.add(database.id, table)
        if number is None:
            raise _already_exists(table)
        if linked is not None:
            transaction.places.link(number, "", linked)
        try:
            added = add_constraints(transaction, constraints, int(self._clock() * 1000)) if constraints else []
        except NoSuchObjectError as error:
            raise InvalidObjectError(str(error)) from error
        transaction.events.append(events.create_table(table), *added)


def _object_of(table: MetastoreTable) -> SecuredObject:
    return table_object(table.catalog, table.database, table.name)


def _with_owner(meta: TableMeta, table: MetastoreTable) -> TableMeta:
    return dataclasses.replace(meta, owner=table.owner, owner_type=table.extra.get("ownerType"))


def _already_exists(table: MetastoreTable) -> AlreadyExistsError:
    return AlreadyExistsError(f"Table {table.name} already exists")


def _database_for(transaction: Transaction, table: MetastoreTable) -> StoredRow[MetastoreDatabase]:
    found = transaction.databases.find(table.catalog, table.database, for_child=True)
    if found is None:
        # Hive answers this one with InvalidObjectException, whatever the object.
        raise InvalidObjectError(f"The database {shortened(table.database)} does not exist")
    return found


def _check_database(transaction: Transaction, catalog: str, database: str) -> None:
    if transaction.databases.find(catalog, normalized(database)) is None:
        raise database_not_found(database)


def database_not_found(database: str) -> UnknownDatabaseError:
    """Return the error for a missing database, with Hive's text."""
    return UnknownDatabaseError(f"Could not find database {shortened(database)}")
