"""User-defined functions: create, read, alter, drop. Names are kept in lower case (Hive 2.3 keeps the case and so
stores doubles).
"""

import dataclasses
import time
from collections.abc import Callable

from interbed.catalog.server.service import events
from interbed.catalog.server.service.errors import (
    AlreadyExistsError,
    InvalidObjectError,
    MetastoreError,
    NoSuchObjectError,
)
from interbed.catalog.server.service.model import Function
from interbed.catalog.server.service.names import is_valid_name, matching, normalized, shortened
from interbed.catalog.server.service.store import Store, Transaction


class FunctionService:
    """The calls about functions."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    def create(self, function: Function) -> None:
        """Create a function. InvalidObjectError for a bad name or without a class, NoSuchObjectError for the database,
        AlreadyExistsError.
        """
        _check(function)
        complete = dataclasses.replace(function, create_time=int(self._clock()))

        def work(transaction: Transaction) -> None:
            database = transaction.databases.find(function.catalog, function.database, for_child=True)
            if database is None:
                raise NoSuchObjectError(f"The database {shortened(function.database)} does not exist")
            if transaction.functions.add(database.id, complete) is None:
                raise AlreadyExistsError(f"Function {function.name} already exists")
            transaction.events.append(events.create_function(complete))

        self._store.write(work)

    def get(self, catalog: str, database: str, name: str) -> Function:
        """The function; NoSuchObjectError if there is none of that name."""
        key = (catalog, normalized(database), normalized(name))
        found = self._store.read(lambda transaction: transaction.functions.find(*key))
        if found is None:
            raise NoSuchObjectError(f"Function {shortened(database)}.{shortened(name)} does not exist")
        return found.value

    def names(self, catalog: str, database: str, pattern: str | None = None) -> list[str]:
        """The names that a pattern selects, in order; none if there is no such database."""
        functions = self.select(catalog, normalized(database))
        return matching([function.name for function in functions], pattern)

    def select(self, catalog: str, database: str | None = None) -> list[Function]:
        """The functions of a database, or of all."""
        return self._store.read(lambda transaction: transaction.functions.select(catalog, database))

    def alter(self, catalog: str, database: str, name: str, changed: Function) -> None:
        """Store the function anew, perhaps under another name. MetastoreError if there is none, or for what cannot be:
        other errors than those of `create`, as with Hive.
        """
        key = (catalog, normalized(database), normalized(name))

        def work(transaction: Transaction) -> None:
            stored = transaction.functions.find(*key, for_update=True)
            if stored is None:
                raise MetastoreError(f"function {shortened(name)} doesn't exist")
            try:
                _check(changed)
            except InvalidObjectError as error:
                raise MetastoreError(str(error)) from error
            target = transaction.databases.find(changed.catalog, changed.database, for_child=True)
            if target is None:
                raise MetastoreError(f"The database {shortened(changed.database)} does not exist")
            complete = dataclasses.replace(changed, create_time=stored.value.create_time)
            if not transaction.functions.replace(stored.id, target.id, complete):
                raise MetastoreError(f"Function {changed.name} already exists")
            transaction.events.append(events.drop_function(stored.value), events.create_function(complete))

        self._store.write(work)

    def drop(self, catalog: str, database: str, name: str) -> None:
        """Drop a function; NoSuchObjectError if there is none of that name."""
        key = (catalog, normalized(database), normalized(name))

        def work(transaction: Transaction) -> None:
            stored = transaction.functions.find(*key, for_update=True)
            if stored is None:
                raise NoSuchObjectError(f"Function {shortened(name)} does not exist")
            transaction.functions.remove(stored.id)
            transaction.events.append(events.drop_function(stored.value))

        self._store.write(work)


def _check(function: Function) -> None:
    """InvalidObjectError for a name that none may have, or without a class."""
    if not is_valid_name(function.name):
        raise InvalidObjectError(f"{shortened(function.name)} is not a valid object name")
    if function.class_name is None:
        raise InvalidObjectError(f"Function {function.name} has no class")
