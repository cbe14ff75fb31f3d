"""New tables as they are stored: with their type, times and number, and unless they are views with a location."""

import dataclasses
import itertools
import secrets
from collections.abc import Callable

from interbed.catalog.server.service import warehouse as files
from interbed.catalog.server.service.directories.guard import DeletionGuard, Directory, directory_at
from interbed.catalog.server.service.directories.locations import place_text
from interbed.catalog.server.service.errors import InvalidObjectError
from interbed.catalog.server.service.model import (
    PARAMETER_DDL_TIME,
    MetastoreDatabase,
    MetastoreTable,
    StorageDescriptor,
)
from interbed.catalog.server.service.repository import Transaction
from interbed.catalog.server.service.tables.rules import stored_type
from interbed.catalog.server.service.warehouse import Warehouse

NUMBER_BITS = 53
"""Bits of a table's number: random, so that a table never gets that of a dropped one."""


class NewTableRules:
    """Rules for the storage of new tables, over a warehouse and its guard."""

    def __init__(self, warehouse: Warehouse, guard: DeletionGuard, clock: Callable[[], float]) -> None:
        self._warehouse = warehouse
        self._guard = guard
        self._clock = clock

    def prepared(
        self, transaction: Transaction, database: MetastoreDatabase, table: MetastoreTable
    ) -> tuple[MetastoreTable, Directory | None]:
        """Return the table as it is stored, and its directory. InvalidObjectError, InvalidLocationError."""
        storage, directory = self._chosen(table)
        if not table.is_view:
            storage = storage if storage is not None else StorageDescriptor()
            location = storage.location or self._warehouse.table_location(database, table)
            directory = directory if storage.location else directory_at(location)
            free = self._not_of_another(transaction, database, table, location, directory)
            if free != location:
                location, directory = free, directory_at(free)
            storage = dataclasses.replace(storage, location=location)
        return self._completed(table, storage, directory)

    def is_placed(self, table: MetastoreTable) -> bool:
        """Return whether the client alone decides where the table is: it is a view, or external with a location."""
        return table.is_view or (table.is_external and bool(table.location))

    def placed(self, table: MetastoreTable) -> tuple[MetastoreTable, Directory | None]:
        """Return a table for which `is_placed` holds as `prepared` returns it."""
        return self._completed(table, *self._chosen(table))

    def _chosen(self, table: MetastoreTable) -> tuple[StorageDescriptor | None, Directory | None]:
        """Return the storage with the location that the client has chosen, if it has, and that directory."""
        storage, directory = table.storage, None
        if storage is not None and storage.location:
            location = self._warehouse.qualified(storage.location)
            storage, directory = dataclasses.replace(storage, location=location), directory_at(location)
        if storage is not None and not table.is_view:
            self._warehouse.check_skew(storage)
        return storage, directory

    def _completed(
        self, table: MetastoreTable, storage: StorageDescriptor | None, directory: Directory | None
    ) -> tuple[MetastoreTable, Directory | None]:
        if storage is not None and storage.location is not None and files.is_root(storage.location):
            raise InvalidObjectError(f"{table.name} location must not be root path")
        now = int(self._clock())
        parameters = {PARAMETER_DDL_TIME: str(now), **table.parameters}
        complete = dataclasses.replace(
            table,
            table_type=stored_type(table.table_type, parameters),
            storage=storage,
            parameters=parameters,
            create_time=now,
            number=secrets.randbits(NUMBER_BITS) or 1,
        )
        return complete, directory

    def _not_of_another(
        self,
        transaction: Transaction,
        database: MetastoreDatabase,
        table: MetastoreTable,
        location: str,
        directory: Directory | None,
    ) -> str:
        """Return the default location of a managed table, or one beside it if a renamed table still uses that.

        That happens in object stores, and outside of the server's deletion roots: there the files stay in place when a
        table is renamed. InvalidObjectError if the client chose the location, since it may have written there.
        """
        default = self._warehouse.table_location(database, table)
        if table.is_external or not files.same_location(location, default):
            return location
        if files.renames_directories(location) and (
            (directory is not None and self._guard.is_below_root(transaction, directory))
            or transaction.places.conflict([place_text(location) or location], ()) is None
        ):
            return location
        # A rename into another database is refused there.
        taken = {
            each.location.rstrip("/"): each
            for each in transaction.tables.select(table.catalog, table.database)
            if each.location is not None
        }
        owner = taken.get(location.rstrip("/"))
        if owner is None or (owner.database, owner.name) == (table.database, table.name):
            return location
        if table.location:
            raise InvalidObjectError(
                f"{location} is the place of the table {owner.database}.{owner.name}, which was renamed; give "
                f"{table.database}.{table.name} another one."
            )
        number = next(n for n in itertools.count(2) if f"{location}-{n}" not in taken)
        return f"{location}-{number}"
