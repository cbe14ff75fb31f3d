"""The target of an import: interbed's own database, not a server.

A server would make directories, set times and change parameters, as it does for a client that creates a table. Here
objects are stored unchanged. Each call is one transaction with its events, so that servers which run on the database
see the change at once, and an import that is killed leaves whole objects.
"""

import copy
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url

from interbed.catalog.client.hive.connection import current_user
from interbed.catalog.server.database import schema
from interbed.catalog.server.database.engine import parse_database_url
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.migration.connection import LocalConnection
from interbed.catalog.server.migration.record import CONSTRAINTS, MigrationError, to_json
from interbed.catalog.server.migration.source import ENGINE, MetastoreSource
from interbed.catalog.server.service import events
from interbed.catalog.server.service.access.administration import AccessAdministration
from interbed.catalog.server.service.access.builtin import BuiltinAuthorizer
from interbed.catalog.server.service.column_statistics import ColumnStatistics
from interbed.catalog.server.service.directories.locations import LocationRules
from interbed.catalog.server.service.errors import MetastoreError, NoSuchObjectError
from interbed.catalog.server.service.events import NotificationEvent
from interbed.catalog.server.service.history.entries import ChangeOrigin, HistoryPolicy
from interbed.catalog.server.service.model import Function, MetastoreCatalog, MetastoreDatabase, MetastoreTable
from interbed.catalog.server.service.names import normalized, partition_name
from interbed.catalog.server.service.repository import StoredRow, Transaction
from interbed.catalog.server.service.tables.rules import names_after, same_keys
from interbed.catalog.server.thrift.calls.statistics import statistics_from_objects
from interbed.catalog.server.thrift.structs import convert
from interbed.thrift_idl.hive_metastore import ttypes

_ADDITIONS = (
    ("primaryKeys", "add_primary_key", ttypes.AddPrimaryKeyRequest, "primaryKeyCols"),
    ("uniqueConstraints", "add_unique_constraint", ttypes.AddUniqueConstraintRequest, "uniqueConstraintCols"),
    ("foreignKeys", "add_foreign_key", ttypes.AddForeignKeyRequest, "foreignKeyCols"),
    ("notNullConstraints", "add_not_null_constraint", ttypes.AddNotNullConstraintRequest, "notNullConstraintCols"),
    ("defaultConstraints", "add_default_constraint", ttypes.AddDefaultConstraintRequest, "defaultConstraintCols"),
    ("checkConstraints", "add_check_constraint", ttypes.AddCheckConstraintRequest, "checkConstraintCols"),
)


class Target:
    """Interbed's database to copy into. `url` is the `--db` of its servers; the database is migrated to this version.

    Existing objects are read from `source`; roles and grants are changed by `access`. MetastoreError for a database
    that cannot be used.
    """

    def __init__(self, url: str, *, clock: Callable[[], float] = time.time) -> None:
        self.name = shown_url(url)
        self._clock = clock
        self._rules = LocationRules()
        origin = ChangeOrigin(principal=current_user(), operation="import")
        self._store = SqlRepository(url, history=HistoryPolicy(origin=lambda: origin))
        try:
            schema.upgrade(self._store.engine)
            self._connection = LocalConnection(self._store, self.name)
            self.source = MetastoreSource(self._connection)
            self.access = AccessAdministration(
                self._store, BuiltinAuthorizer(self._store), operator=current_user(), clock=clock
            )
        except BaseException:
            self._store.close()
            raise

    def close(self) -> None:
        """Close the database of the target."""
        self._store.close()

    def put_catalog(self, name: str, struct: Any | None, location: str) -> None:
        """Store a catalog; one that the source cannot describe gets this location."""
        wanted = (
            MetastoreCatalog(name=name, location=location)
            if struct is None
            else MetastoreCatalog(
                name=name,
                description=struct.description,
                location=struct.locationUri or location,
                create_time=struct.createTime or 0,
            )
        )

        self._check(wanted.location)

        def work(transaction: Transaction) -> None:
            old = transaction.catalogs.find(name, for_update=True)
            if old is None:
                transaction.catalogs.add(wanted)
                transaction.events.append(events.create_catalog(wanted))
            elif struct is not None and old != wanted:
                transaction.catalogs.replace(wanted)
                transaction.events.append(events.alter_catalog(old, wanted))

        self._store.write(work)

    def put_database(self, catalog: str, struct: Any) -> None:
        """Store a database, with its times and owner unchanged."""
        wanted: MetastoreDatabase = dataclasses.replace(convert.database_from_thrift(struct), catalog=catalog)

        self._check(wanted.location, wanted.managed_location)

        def work(transaction: Transaction) -> None:
            stored = transaction.databases.find(catalog, wanted.name, for_update=True)
            if stored is None:
                if transaction.databases.add(wanted) is None:
                    raise MetastoreError(f"database {wanted.name} was just created by another client")
                transaction.events.append(events.create_database(wanted))
            else:
                # The source does not know which directories a server has made for it.
                transaction.databases.replace(stored.id, dataclasses.replace(wanted, made=stored.value.made))
                transaction.events.append(events.alter_database(stored.value, wanted))

        self._store.write(work)

    def put_functions(self, catalog: str, database: str, structs: Sequence[Any]) -> None:
        """Store functions of a database."""
        wanted: list[Function] = [
            dataclasses.replace(convert.function_from_thrift(struct), catalog=catalog, database=database)
            for struct in structs
        ]

        def work(transaction: Transaction) -> None:
            home = self._home(transaction, catalog, database)
            changes: list[NotificationEvent] = []
            for function in wanted:
                stored = transaction.functions.find(catalog, database, function.name, for_update=True)
                if stored is None:
                    transaction.functions.add(home.id, function)
                else:
                    transaction.functions.replace(stored.id, home.id, function)
                    changes.append(events.drop_function(stored.value))
                changes.append(events.create_function(function))
            transaction.events.append(*changes)

        self._store.write(work)

    def put_tables(self, catalog: str, database: str, structs: Sequence[Any]) -> None:
        """Store tables and views of a database. A changed table keeps its partitions unless its keys change."""
        wanted = [_table(struct, catalog, database) for struct in structs]
        self._check(*(table.location for table in wanted))

        def work(transaction: Transaction) -> None:
            home = self._home(transaction, catalog, database)
            changes: list[NotificationEvent] = []
            for table in wanted:
                stored = transaction.tables.find(catalog, database, table.name, for_update=True)
                if stored is not None and not same_keys(stored.value.partition_keys, table.partition_keys):
                    transaction.tables.remove(stored.id)
                    changes.append(events.drop_table(stored.value))
                    stored = None
                if stored is None:
                    transaction.tables.add(home.id, table)
                    changes.append(events.create_table(table))
                else:
                    transaction.tables.replace(stored.id, home.id, table)
                    names = names_after(stored.value, table)
                    if names is not None:
                        transaction.tables.follow_columns(stored.id, names)
                    changes.append(events.alter_table(stored.value, table))
            transaction.events.append(*changes)

        self._store.write(work)

    def put_partitions(self, catalog: str, database: str, table: str, structs: Mapping[str, Any]) -> None:
        """Store partitions of a table by name."""
        wanted = {name: convert.partition_from_thrift(struct) for name, struct in structs.items()}
        self._check(*(each.storage.location for each in wanted.values() if each.storage is not None))

        def work(transaction: Transaction) -> None:
            home = self._table(transaction, catalog, database, table)
            taken = set(transaction.partitions.add(home.id, wanted.items()))
            changes: list[NotificationEvent] = []
            added = [partition for name, partition in wanted.items() if name not in taken]
            if added:
                changes.append(events.add_partition(home.value, added))
            for name in taken:
                stored = transaction.partitions.find(home.id, name, for_update=True)
                if stored is not None:
                    transaction.partitions.replace(stored.id, name, wanted[name])
                    changes.append(events.alter_partition(home.value, stored.value, wanted[name]))
            transaction.events.append(*changes)

        self._store.write(work)

    def put_table_statistics(self, catalog: str, database: str, table: str, structs: Sequence[Any]) -> None:
        """Store statistics of a table's columns. No source has their time, so that of this copy is stored."""
        statistics = self._stamped(structs)
        body = {"statsDesc": _about(catalog, database, table), **_objects(structs)}

        def work(transaction: Transaction) -> None:
            home = self._table(transaction, catalog, database, table)
            transaction.statistics.put_of_table(home.id, ENGINE, statistics)
            transaction.events.append(events.update_table_column_statistics(home.value, body))

        self._store.write(work)

    def put_partition_statistics(
        self, catalog: str, database: str, table: str, structs: Mapping[str, Sequence[Any]]
    ) -> None:
        """Store statistics of partitions' columns by partition."""
        statistics = {name: self._stamped(each) for name, each in structs.items()}

        def work(transaction: Transaction) -> None:
            home = self._table(transaction, catalog, database, table)
            ids = transaction.partitions.ids(home.id, list(statistics))
            transaction.statistics.put_of_partitions(
                home.id, ENGINE, [(ids[name], each) for name in ids for each in statistics[name]]
            )
            changes = []
            for partition in transaction.partitions.select(home.id, list(ids)):
                name = partition_name(home.value.partition_keys, partition.values)
                about = _about(catalog, database, table, name)
                described = {"statsDesc": about, **_objects(structs[name])}
                changes.append(events.update_partition_column_statistics(home.value, partition, described))
            transaction.events.append(*changes)

        self._store.write(work)

    def put_constraints(self, catalog: str, database: str, table: str, structs: Mapping[str, list[Any]]) -> None:
        """Store constraints of a table, `primaryKeys name` and their structures. The calls for clients are used:
        constraints have no times, and their names are given.
        """
        lists: dict[str, list[Any]] = {kind: [] for kind in CONSTRAINTS}
        for constraint, columns in structs.items():
            kind, _, name = constraint.partition(" ")
            for column in columns:
                filled = copy.copy(column)
                setattr(filled, CONSTRAINTS[kind].name, name)
                filled.catName = catalog
                lists[kind].append(filled)
        present = self.source.constraints(catalog, database, table)
        for constraint in structs.keys() & present.keys():
            name = constraint.partition(" ")[2]
            self._call(
                "drop_constraint",
                ttypes.DropConstraintRequest(dbname=database, tablename=table, constraintname=name, catName=catalog),
            )
        for kind, method, structure, field in _ADDITIONS:
            if lists[kind]:
                self._call(method, structure(**{field: lists[kind]}))

    def check(self) -> None:
        """Raise DatabaseError if the database no longer answers."""
        self._store.read(lambda transaction: transaction.catalogs.names())

    def has_tables(self) -> bool:
        """Return whether the database holds anything but empty databases."""
        return self._store.read(
            lambda transaction: any(transaction.tables.metas(catalog) for catalog in transaction.catalogs.names())
        )

    def has_partitions(self, catalog: str, database: str, table: str) -> bool:
        """Return whether the table has a partition."""

        def work(transaction: Transaction) -> bool:
            stored = transaction.tables.find(catalog, database, normalized(table))
            return stored is not None and bool(transaction.partitions.names(stored.id, 1))

        return self._store.read(work)

    def _check(self, *locations: str | None) -> None:
        """Raise InvalidLocationError if a server would refuse one of the locations."""
        for location in locations:
            if location:
                self._rules.check(location)

    def _stamped(self, structs: Sequence[Any]) -> list[ColumnStatistics]:
        now = int(self._clock())
        return [dataclasses.replace(each, analyzed_at=now) for each in statistics_from_objects(structs)]

    def _call(self, method: str, request: Any) -> None:
        try:
            self._connection.call(method, request)
        except MigrationError as error:
            raise MetastoreError(str(error)) from error

    def _home(self, transaction: Transaction, catalog: str, database: str) -> StoredRow[MetastoreDatabase]:
        found = transaction.databases.find(catalog, database, for_child=True)
        if found is None:
            raise NoSuchObjectError(f"database {database} was dropped from {self.name} while it was copied")
        return found

    def _table(self, transaction: Transaction, catalog: str, database: str, table: str) -> StoredRow[MetastoreTable]:
        found = transaction.tables.find(catalog, database, normalized(table), for_update=True)
        if found is None:
            raise NoSuchObjectError(f"table {database}.{table} was dropped from {self.name} while it was copied")
        return found


def open_database(url: str) -> MetastoreSource:
    """Return interbed's database as a source, unchanged: MigrationError if it does not exist or is of
    another version.
    """
    name = shown_url(url)
    parsed = parse_database_url(url)
    if parsed.get_backend_name() == "sqlite" and not _is_file(parsed.database):
        raise MigrationError(f"there is no database {name}")
    store = SqlRepository(url)
    try:
        if not schema.is_current(store.engine):
            raise MigrationError(
                f"{name} holds no metadata of this version of interbed; a server that is started on it migrates it"
            )
        return MetastoreSource(LocalConnection(store, name))
    except BaseException:
        store.close()
        raise


def exists(url: str) -> bool:
    """Return whether the database exists and is of this version. DatabaseError if it cannot be reached."""
    parsed = parse_database_url(url)
    if parsed.get_backend_name() == "sqlite" and not _is_file(parsed.database):
        return False
    store = SqlRepository(url)
    try:
        return schema.is_current(store.engine)
    finally:
        store.close()


def shown_url(url: str) -> str:
    """Return a database's url for messages: without its password."""
    parse_database_url(url)
    return make_url(url).render_as_string(hide_password=True)


def _table(struct: Any, catalog: str, database: str) -> MetastoreTable:
    return dataclasses.replace(convert.table_from_thrift(struct, catalog), catalog=catalog, database=database)


def _about(catalog: str, database: str, table: str, partition: str | None = None) -> dict[str, Any]:
    about = {"isTblLevel": partition is None, "dbName": database, "tableName": table, "catName": catalog}
    return about if partition is None else {**about, "partName": partition}


def _objects(statistics: Sequence[Any]) -> dict[str, Any]:
    return {"statsObj": [to_json(each) for each in statistics], "engine": ENGINE}


def _is_file(path: str | None) -> bool:
    return path is not None and Path(path).is_file()
