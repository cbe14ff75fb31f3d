"""The history as operators read it, and entries put back.

A restore puts the entry of a table back to its state at a time: its columns, its parameters, its location, the text of
a view. The name, the database, the number and the partitions stay. What the files of a table decide is not restored:
columns of Paimon's tables are those of their schema files. An Iceberg table gets its older metadata file only if this
file and the manifest list of its snapshot exist. Values that the history has without their secrets are those of the
present entry.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec

from interbed.catalog.server.service import warehouse as files
from interbed.catalog.server.service.access.objects import (
    SERVER,
    Privilege,
    SecuredObject,
    catalog_object,
    database_object,
    function_object,
    table_object,
)
from interbed.catalog.server.service.access.places import TablePlaceRules
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
from interbed.catalog.server.service.directories.guard import NO_CLAIM, DeletionClaim, DeletionGuard
from interbed.catalog.server.service.errors import (
    DamagedFileError,
    InvalidOperationError,
    NoSuchObjectError,
    UnboundedFileError,
)
from interbed.catalog.server.service.history.entries import (
    HistoryEntry,
    HistoryKind,
    HistoryQuery,
    MetadataValue,
    ObjectKey,
    deciding,
    key_of,
    location_now,
    state_at,
    states_at,
)
from interbed.catalog.server.service.model import MetastoreColumn, MetastoreTable, StorageDescriptor
from interbed.catalog.server.service.moves import check_free
from interbed.catalog.server.service.names import normalized, shortened
from interbed.catalog.server.service.repository import Repository, Transaction
from interbed.catalog.server.service.tables.pointers import (
    PointerChange,
    PointerMovedError,
    PointerService,
    read_unpacked,
)
from interbed.catalog.server.service.tables.rules import owns_data
from interbed.storage.base.shown_text import MASK, without_credentials

METADATA_LOCATION = "metadata_location"

_PAIMON_FORMATS = "org.apache.paimon."
_OF_FILES = frozenset(
    ("interbed.current-snapshot-id", "numrows", "totalsize", "rawdatasize", "numfiles", "column_stats_accurate")
)
"""Parameters in lower case that describe the files of a table as they are, and not what a client has asked for."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """The entry that a table gets. `kept` names the values that stay as they are, `missing` parameters with secrets
    that the present entry does not have and that are left out.
    """

    table: MetastoreTable
    kept: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def plan_restore(
    present: MetastoreTable, wanted: MetastoreTable, entries: Sequence[HistoryEntry], moment_millis: int
) -> RestorePlan:
    """Return the plan to put a table back to an older state. InvalidOperationError names what prevents it."""
    shown = f"{present.database}.{present.name}"
    if [(key.name, key.type) for key in wanted.partition_keys] != [
        (key.name, key.type) for key in present.partition_keys
    ]:
        raise InvalidOperationError(f"{shown} had other partition keys then: they cannot be restored")
    if wanted.is_view != present.is_view:
        raise InvalidOperationError(f"{shown} was a {wanted.table_type} then and is a {present.table_type}")
    masked = _MaskedValues()
    storage = _storage(present, wanted, location_now(entries, moment_millis, wanted.location), masked)
    if _is_of_paimon(present) or _is_of_paimon(wanted):
        if _is_of_paimon(present) != _is_of_paimon(wanted):
            raise InvalidOperationError(f"{shown} had another format then: its files do not have both")
        if _columns(wanted) != _columns(present):
            raise InvalidOperationError(
                f"{shown} had other columns then. Its schema files decide them: change them with ALTER TABLE, or roll "
                "the table back to a snapshot"
            )
    table = dataclasses.replace(
        present,
        table_type=wanted.table_type,
        owner=wanted.owner,
        retention=wanted.retention,
        storage=storage,
        parameters=masked.resolved(present.parameters, wanted.parameters),
        partition_keys=wanted.partition_keys,
        view_original_text=_text(present.view_original_text, wanted.view_original_text, f"the text of {shown}"),
        view_expanded_text=_text(present.view_expanded_text, wanted.view_expanded_text, f"the text of {shown}"),
        extra=wanted.extra,
    )
    return RestorePlan(table=table, kept=tuple(masked.kept), missing=tuple(masked.missing))


def check_files(present: MetastoreTable, table: MetastoreTable) -> None:
    """Raise InvalidOperationError if the files that the restored entry names do not exist."""
    location = table.location
    if location is not None and location != present.location and not files.directory_exists(location):
        raise InvalidOperationError(f"the directory {location} of that time does not exist any more")
    pointer = table.parameters.get(METADATA_LOCATION)
    if pointer is not None and pointer != present.parameters.get(METADATA_LOCATION):
        for manifest_list in _metadata(pointer).manifest_lists:
            if not _exists(manifest_list):
                raise InvalidOperationError(
                    f"the snapshot of {pointer} was expired: its manifest list {manifest_list} does not exist any more"
                )


class _Snapshot(msgspec.Struct, rename="kebab"):
    """The part of an Iceberg snapshot that is read."""

    snapshot_id: int | None = None
    manifest_list: str | None = None


class _RestoredMetadata(msgspec.Struct, rename="kebab"):
    """The part of an Iceberg metadata file that is read: decoding takes memory for it alone."""

    current_snapshot_id: int | None = None
    snapshots: list[_Snapshot] | None = None

    @property
    def manifest_lists(self) -> list[str]:
        """The manifest list of the current snapshot, if there is one."""
        return [
            each.manifest_list
            for each in self.snapshots or ()
            if each.snapshot_id == self.current_snapshot_id and each.manifest_list is not None
        ]


def _metadata(location: str) -> _RestoredMetadata:
    if not _exists(location):
        raise InvalidOperationError(f"the metadata file {location} of that time does not exist any more")
    try:
        return msgspec.json.decode(read_unpacked(location, f"cannot read {location}"), type=_RestoredMetadata)
    except (UnboundedFileError, DamagedFileError) as error:
        raise InvalidOperationError(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidOperationError(f"the metadata file {location} is not Iceberg's: {error}") from error


def _exists(location: str) -> bool:
    return files.with_files(location, lambda filesystem, path: filesystem.exists(path), f"cannot look for {location}")


class _MaskedValues:
    """The parameters that the history has without their secrets: those that stay as they are (`kept`), and those that
    the present entry does not have (`missing`).
    """

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.missing: list[str] = []

    def resolved(self, present: Mapping[str, str] | None, wanted: Mapping[str, str], what: str = "") -> dict[str, str]:
        """Return older parameters with their secrets; `what` is shown before a name."""
        now = present or {}
        found = {key: value for key, value in now.items() if key.lower() in _OF_FILES}
        for key, value in wanted.items():
            if key.lower() in _OF_FILES:
                continue
            if MASK not in value or value == now.get(key):
                found[key] = value
            elif key in now:
                self.kept.append(f"{what}{key}")
                found[key] = now[key]
            else:
                self.missing.append(f"{what}{key}")
        return found


def _storage(
    present: MetastoreTable, wanted: MetastoreTable, location: str | None, masked: _MaskedValues
) -> StorageDescriptor | None:
    """Return the older storage descriptor at a location, with the secrets of the present one."""
    storage, now = wanted.storage, present.storage
    if storage is None or now is None:
        return storage
    location = _text(now.location, location, f"the location of {present.database}.{present.name}")
    serde, serde_now = storage.serde, now.serde
    if serde is not None and serde.parameters:
        of_serde = masked.resolved(serde_now.parameters if serde_now else None, serde.parameters, "the SerDe's ")
        serde = dataclasses.replace(serde, parameters=of_serde)
    parameters = storage.parameters
    if parameters:
        parameters = masked.resolved(now.parameters, parameters, "the storage's ")
    return dataclasses.replace(storage, location=location, serde=serde, parameters=parameters)


def _text(present: str | None, wanted: str | None, what: str) -> str | None:
    """Return a text of an older entry. InvalidOperationError if it had a secret and the present one is another."""
    if wanted is None or MASK not in wanted:
        return wanted
    if present is not None and without_credentials(present) == wanted:
        return present
    raise InvalidOperationError(f"{what} had a secret then, which the history does not have: change it with ALTER")


def _is_of_paimon(table: MetastoreTable) -> bool:
    return ((table.storage or StorageDescriptor()).input_format or "").startswith(_PAIMON_FORMATS)


def _columns(table: MetastoreTable) -> tuple[MetastoreColumn, ...]:
    return (table.storage or StorageDescriptor()).columns


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
