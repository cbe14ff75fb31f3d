"""The history as operators read it, and entries put back."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from interbed.catalog.server.service.access.objects import (
    SERVER,
    Privilege,
    SecuredObject,
    catalog_object,
    database_object,
    function_object,
    table_object,
)
from interbed.catalog.server.service.access.secured import (
    Arguments,
    SecuredService,
    filtered,
    needs,
    secured,
    secured_inside,
    the_table,
    unsecured,
)
from interbed.catalog.server.service.access.table_places import TablePlaceRules
from interbed.catalog.server.service.directories.guard import NO_CLAIM, DeletionClaim, DeletionGuard
from interbed.catalog.server.service.errors import InvalidOperationError, NoSuchObjectError
from interbed.catalog.server.service.history.entries import HistoryEntry, HistoryKind, HistoryQuery
from interbed.catalog.server.service.history.states import (
    MetadataValue,
    ObjectKey,
    deciding,
    key_of,
    state_at,
    states_at,
)
from interbed.catalog.server.service.model import MetastoreTable
from interbed.catalog.server.service.names import normalized, shortened
from interbed.catalog.server.service.repository import Repository, Transaction
from interbed.catalog.server.service.tables.pointers import PointerChange, PointerMovedError, PointerService
from interbed.catalog.server.service.tables.rules import owns_data
from interbed.catalog.server.service.undrop.journal import check_free
from interbed.catalog.server.service.undrop.restores import (
    METADATA_LOCATION,
    RestorePlan,
    check_files,
    plan_restore,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHistory:
    """The changes of one table, oldest first. `others` are the numbers of other tables that had the name."""

    object_id: int | None
    present: MetastoreTable | None
    entries: list[HistoryEntry]
    others: tuple[int, ...] = ()


def _the_database_of_the_history(arguments: Arguments) -> tuple[SecuredObject, ...]:
    return (database_object(arguments["catalog"], normalized(arguments["database"])),)


def _the_catalog_of_the_history(arguments: Arguments) -> tuple[SecuredObject, ...]:
    return (catalog_object(arguments["catalog"]),)


class HistoryService(SecuredService):
    """The history of a metastore. Safe for many threads and processes."""

    def __init__(
        self, store: Repository, pointers: PointerService, guard: DeletionGuard, places: TablePlaceRules
    ) -> None:
        self._store = store
        self._pointers = pointers
        self._guard = guard
        self._places = places

    @filtered("changes of objects that the caller sees")
    def of_database(
        self, catalog: str, database: str, *, limit: int | None = None, before_id: int | None = None
    ) -> list[HistoryEntry]:
        """Return the changes of a database and of all in it, oldest first; with a limit the latest ones, before an
        entry if given.
        """
        query = HistoryQuery(catalog=catalog, database=normalized(database), limit=limit, before_id=before_id)
        found = self._store.read(lambda transaction: transaction.history.select(query))
        return self._visible(found)

    @secured_inside("SELECT on the table, and under each of its names")
    def of_table(
        self,
        catalog: str,
        database: str,
        name: str,
        *,
        object_id: int | None = None,
        limit: int | None = None,
        before_id: int | None = None,
    ) -> TableHistory:
        """Return the changes of the table of a name, under all of its names: the present one, or the last one that had
        the name; that of a number if given. With a limit they are the latest ones, before an entry if given.

        NoSuchObjectError if the history has none.
        """
        query = replace(_query(catalog, database, name), limit=limit, before_id=before_id)
        return self._readable(
            query, self._store.read(lambda transaction: _table_history(transaction, query, object_id))
        )

    def _after(
        self, catalog: str, database: str, name: str, moment_millis: int, object_id: int | None = None
    ) -> TableHistory:
        """Return the changes by which the state of a table at a time is found. NoSuchObjectError as `of_table`."""
        query = replace(_query(catalog, database, name), after_millis=moment_millis)
        return self._readable(
            query, self._store.read(lambda transaction: _table_history(transaction, query, object_id))
        )

    @secured_inside("SELECT on the table, and under each of its names")
    def table_at(
        self, catalog: str, database: str, name: str, moment_millis: int, *, object_id: int | None = None
    ) -> MetastoreTable | None:
        """Return a table at a time, under its name of that time; None if it did not exist. InvalidOperationError for a
        time before the history.
        """
        self.check_kept(moment_millis)
        history = self._after(catalog, database, name, moment_millis, object_id)
        found = state_at(history.entries, moment_millis, history.present)
        assert found is None or isinstance(found, MetastoreTable)
        return found

    @secured(needs(Privilege.SELECT, _the_catalog_of_the_history))
    def states_at(self, catalog: str, moment_millis: int) -> dict[ObjectKey, MetadataValue]:
        """Return the databases, tables and functions of a catalog at a time. InvalidOperationError for a time before
        the history.
        """
        self.check_kept(moment_millis)

        def work(transaction: Transaction) -> dict[ObjectKey, MetadataValue]:
            found: list[MetadataValue] = [*transaction.functions.select(catalog)]
            for name in transaction.databases.names(catalog):
                stored = transaction.databases.find(catalog, name)
                found.extend([] if stored is None else [stored.value])
                found.extend(transaction.tables.select(catalog, name))
            entries = transaction.history.select(HistoryQuery(catalog=catalog, after_millis=moment_millis))
            return states_at(entries, moment_millis, {key_of(value): value for value in found})

        return self._store.read(work)

    @secured(needs(Privilege.ALTER, the_table))
    def restore(
        self, catalog: str, database: str, name: str, moment_millis: int, *, user: str = "", dry_run: bool = False
    ) -> RestorePlan:
        """Put the entry of a table back to its state at a time, and return what it is then; `dry_run` changes nothing.

        NoSuchObjectError if the table does not exist now or did not then. InvalidOperationError for a time before the
        history, or if the state cannot be restored. TableLockedError while a client holds a lock of the table.
        """
        self.check_kept(moment_millis)
        history = self._after(catalog, database, name, moment_millis)
        shown = shortened(f"{database}.{name}")
        present = history.present
        if present is None:
            raise NoSuchObjectError(f"{shown} does not exist: put it back first, with `interbed metastore undrop`")
        wanted = state_at(history.entries, moment_millis, present)
        if wanted is None:
            raise NoSuchObjectError(f"{shown} did not exist then")
        assert isinstance(wanted, MetastoreTable)
        plan = plan_restore(present, wanted, history.entries, moment_millis)
        key = (present.catalog, present.database, present.name)
        self._access.require((Privilege.ALTER,), table_object(*key))
        allowed = self._places.changed(self._access, key, plan.table)
        allowed.check(present, plan.table)
        check_files(present, plan.table)
        self._store.read(lambda transaction: self._check_place(transaction, present, plan.table))
        if dry_run or plan.table == present:
            return plan
        change = PointerChange(
            catalog=present.catalog,
            database=present.database,
            name=present.name,
            parameter=METADATA_LOCATION,
            expected=present.parameters.get(METADATA_LOCATION),
            change=lambda old: _unchanged(old, present, plan.table),
        )
        swap = self._pointers.swapping([change], user)

        def work(transaction: Transaction) -> None:
            self._check_place(transaction, present, plan.table)
            swap(transaction)
            allowed.chosen.check_again(transaction)

        self._store.write(work)
        return plan

    def _check_place(self, transaction: Transaction, present: MetastoreTable, table: MetastoreTable) -> None:
        """Raise InvalidOperationError if a table would own a directory by its older entry that is another object's."""
        if not owns_data(table) or table.location is None:
            return
        if owns_data(present) and table.location == present.location:
            return
        stored = transaction.tables.find(present.catalog, present.database, present.name)
        claim = NO_CLAIM if stored is None else DeletionClaim(table_id=stored.id)
        check_free(transaction, self._guard, table.location, claim)

    def _visible(self, entries: list[HistoryEntry]) -> list[HistoryEntry]:
        """Return the entries about objects that the caller sees."""
        if self._access.caller() is None:
            return entries
        objects = list(dict.fromkeys(on for each in entries for on in _objects(each)))
        seen = set(self._access.visible(objects, lambda each: each))
        return [each for each in entries if seen.issuperset(_objects(each))]

    def _readable(self, query: HistoryQuery, found: TableHistory) -> TableHistory:
        """Return the history of a table that the caller may read. NoSuchObjectError if it may not: the number of a
        table, and a name of its past, lead to any table.
        """
        if self._access.caller() is None:
            return found
        names = {on for each in found.entries for on in _objects(each)}
        asked = table_object(query.catalog or "", query.database or "", query.name or "")
        if found.present is not None:
            names.add(table_object(found.present.catalog, found.present.database, found.present.name))
        if not self._access.may((Privilege.SELECT,), asked, *sorted(names, key=str)):
            raise NoSuchObjectError(f"the history has no table {shortened(f'{query.database}.{query.name}')}")
        return found

    @unsecured("compares a time with a setting")
    def check_kept(self, moment_millis: int) -> None:
        """Raise InvalidOperationError for a time before which changes are no longer known."""
        since = self._store.read(lambda transaction: transaction.history.since_millis())
        if moment_millis < since:
            shown = datetime.fromtimestamp(since / 1000, UTC).isoformat(timespec="milliseconds")
            raise InvalidOperationError(f"the history has the changes since {shown} (history_seconds)")


def _objects(entry: HistoryEntry) -> list[SecuredObject]:
    """Return the objects that an entry names."""
    if entry.catalog is None:
        return [SERVER]
    if entry.database is None:
        return [catalog_object(entry.catalog)]
    if entry.name is None:
        return [database_object(entry.catalog, entry.database)]
    if entry.kind == HistoryKind.FUNCTION:
        return [function_object(entry.catalog, entry.database, entry.name)]
    found = [table_object(entry.catalog, entry.database, entry.name)]
    return found if entry.previous is None else [*found, table_object(*entry.previous)]


def _query(catalog: str, database: str, name: str) -> HistoryQuery:
    return HistoryQuery(kind=HistoryKind.TABLE, catalog=catalog, database=normalized(database), name=normalized(name))


def _table_history(transaction: Transaction, query: HistoryQuery, object_id: int | None) -> TableHistory:
    """Return the history of the table of a query. After a time it has only the entries that decide the state then."""
    catalog, database, name = query.catalog or "", query.database or "", query.name or ""
    stored = transaction.tables.find(catalog, database, name)
    numbers = transaction.history.table_ids(catalog, database, name)
    chosen = object_id
    if chosen is None:
        chosen = stored.value.number if stored is not None else numbers[-1] if numbers else None
    if chosen is None:
        raise NoSuchObjectError(f"the history has no table {shortened(f'{database}.{name}')}")
    query = replace(query, object_ids=(chosen,))
    entries = (
        transaction.history.select(query)
        if query.after_millis is None
        else deciding(transaction.history.iterate(query))
    )
    latest = entries or transaction.history.select(replace(query, after_millis=None, before_id=None, limit=1))
    if not latest and (stored is None or stored.value.number != chosen):
        raise NoSuchObjectError(f"the history has no table {shortened(f'{database}.{name}')} with the number {chosen}")
    present = None if stored is None or stored.value.number != chosen else stored.value
    named = [entry for entry in latest if entry.object_id == chosen]
    if present is None and named:
        # It may have another name by now.
        last = named[-1]
        renamed = transaction.tables.find(last.catalog or catalog, last.database or database, last.name or name)
        present = None if renamed is None or renamed.value.number != chosen else renamed.value
    others = tuple(number for number in numbers if number != chosen)
    return TableHistory(object_id=chosen, present=present, entries=entries, others=others)


def _unchanged(old: MetastoreTable, planned_from: MetastoreTable, new: MetastoreTable) -> MetastoreTable:
    if old != planned_from:
        raise PointerMovedError(f"{old.database}.{old.name} was changed meanwhile: nothing was restored, try again")
    return new
