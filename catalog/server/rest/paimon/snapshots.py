"""Snapshots of tables: the newest one, one by name, all of them, their sizes; commits and rollbacks.

**Commits.** The client has written data files and manifests, the server creates `snapshot-<id>`:

    1. The newest snapshot is read. The commit is refused ({"success": false}) unless the new snapshot follows it.
    2. `snapshot-<id>` is created exclusively, under the lock of the table, by the publisher of the Hive catalog, which
       then registers new partitions and moves the pointer of the entry.
    3. The snapshot before it is read again. If a rollback has deleted it meanwhile, the new one is withdrawn.
    4. The hint LATEST is written.

The creation in step 2 is the commit. A server that is killed before it has changed nothing. After it the table has the
new snapshot: readers find it without pointer and hint, and the next commit registers its partitions. Between 2 and 3 a
rollback that deleted the base looks for newer snapshots after it has deleted them, and finds this one.

Writers of the file system and of Hive catalogs create the same file in the same way: one of them succeeds. A client
without an answer repeats its request; the snapshot that exists is its own if user, identifier, kind and content are
equal.

**Sizes** are records, files and bytes of the newest snapshot, which clients ask for with each read. Those of a snapshot
are those of the one before it with the files of its delta. Only the first snapshot of a table that a process sees needs
all of its manifests.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

from interbed.catalog.client.errors import TableNotFoundError
from interbed.catalog.client.identifier import TableName
from interbed.catalog.client.partition import epoch_millis
from interbed.catalog.server.rest.interface import (
    ObjectKind,
    RestError,
    RestRequest,
    RestResponse,
    RestRoute,
    json_response,
)
from interbed.catalog.server.rest.paimon.access import CatalogAccess, table_name
from interbed.catalog.server.rest.paimon.catalogs import ServedCatalog
from interbed.catalog.server.rest.paimon.messages import (
    CommitRequest,
    RollbackRequest,
    TableSnapshotResponse,
    page_length,
    snapshot_json,
)
from interbed.catalog.server.rest.paimon.refusals import ResourceType, invalid, missing, paimon_route
from interbed.catalog.server.rest.paimon.tables import TABLE, opened
from interbed.catalog.server.service.access.guard import WRITE
from interbed.catalog.server.service.access.objects import Privilege
from interbed.storage.base.errors import (
    CommitStateUnknownError,
    CorruptFileError,
    SnapshotNotFoundError,
    TagNotFoundError,
    UnsupportedVersionError,
)
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import FileKind
from interbed.storage.meta.snapshot.history_journal import JournalOutcome, finish_history_change
from interbed.storage.meta.snapshot.snapshot import CommitKind, Snapshot
from interbed.storage.meta.snapshot.tag import TagManager
from interbed.storage.scan.live_files import partition_sums
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.table.table import Table


class CommitCheck(StrEnum):
    """Result of the check of a snapshot that a client sends."""

    CREATE = "create"
    REPEATED = "repeated"
    REFUSE = "refuse"


def check_commit(
    new: Snapshot, latest: Snapshot | None, stored: Snapshot | None, *, base_uuid: str | None, has_base: bool
) -> CommitCheck:
    """Return the result of the check. `stored` is the snapshot of the new one's id, if there is one.

    `base_uuid` is that of the newest snapshot as the client knows it; without `has_base` the client has sent none, and
    only ids are compared.
    """
    if stored is not None:
        return CommitCheck.REPEATED if is_repeated(stored, new) else CommitCheck.REFUSE
    if new.id != (1 if latest is None else latest.id + 1):
        return CommitCheck.REFUSE
    if has_base and base_uuid != (None if latest is None else latest.uuid):
        return CommitCheck.REFUSE
    return CommitCheck.CREATE


def is_repeated(stored: Snapshot, new: Snapshot) -> bool:
    """Return whether a stored snapshot is the one that a client sends again."""
    same_commit = (stored.commit_user, stored.commit_identifier, stored.commit_kind) == (
        new.commit_user,
        new.commit_identifier,
        new.commit_kind,
    )
    return same_commit and stored.is_same(new)


def given_snapshot(content: bytes) -> Snapshot:
    """Return the snapshot of a request. RestError with status 400 for other JSON."""
    try:
        return Snapshot.from_json(content, source="The snapshot of the request")
    except (CorruptFileError, UnsupportedVersionError) as error:
        raise invalid(str(error)) from error


def commit(store: FileStore, new: Snapshot, *, base_uuid: str | None, has_base: bool) -> bool:
    """Create a snapshot; return False if another writer was faster, so that the client has to read and build again.

    RestError with status 400 for a snapshot without manifest lists, CommitStateUnknownError.
    """
    finish_history_change(store.file_io, store.paths)
    latest = store.snapshots.latest()
    check = check_commit(new, latest, _stored(store, new.id), base_uuid=base_uuid, has_base=has_base)
    if check is not CommitCheck.CREATE:
        return check is CommitCheck.REPEATED
    _check_files(store, new)
    if not store.publisher.publish(new):
        found = _stored(store, new.id)
        return found is not None and is_repeated(found, new)
    if latest is not None and not _is_in_history(store, new, latest):
        return False
    store.snapshots.write_hints(new.id)
    return True


def _check_files(store: FileStore, new: Snapshot) -> None:
    """Raise RestError with status 400 for a snapshot whose manifest lists are not in the table."""
    paths = store.paths
    try:
        lists = [
            paths.manifest(name)
            for name in (new.base_manifest_list, new.delta_manifest_list, new.changelog_manifest_list)
            if name is not None
        ]
        if new.index_manifest is not None:
            lists.append(paths.manifest(new.index_manifest))
        if new.statistics is not None:
            paths.statistics(new.statistics)
    except CorruptFileError as error:
        raise invalid(f"The snapshot of the request names a file outside of the table: {error}") from error
    for path in lists:
        if not store.file_io.exists(path):
            raise invalid(f"The snapshot of the request names {path}, which does not exist.")


def _stored(store: FileStore, snapshot_id: int) -> Snapshot | None:
    try:
        return store.snapshots.stored(snapshot_id)
    except SnapshotNotFoundError:
        return None


def _is_in_history(store: FileStore, new: Snapshot, base: Snapshot) -> bool:
    """Return whether a new snapshot follows its base; withdraw it if a rollback has deleted the base.

    Snapshots expire oldest first: if the base has expired, none before it is left. CommitStateUnknownError if another
    snapshot follows the new one.
    """
    change = finish_history_change(store.file_io, store.paths)
    if change is not JournalOutcome.BUSY and store.snapshots.is_stored(base):
        return store.snapshots.is_stored(new)
    ids = store.snapshots.stored_ids()
    if change is not JournalOutcome.BUSY and not any(number < new.id for number in ids):
        return True
    if any(number > new.id for number in ids):
        raise CommitStateUnknownError(
            f"Snapshot {new.id} of {store.location} was created, but a rollback ran at the same time, and another "
            "snapshot follows. Check whether its rows are in the table."
        )
    if store.snapshots.is_stored(new):
        store.file_io.delete(store.paths.snapshot(new.id))
    return False


SNAPSHOTS_MAX = 1000
"""Snapshots whose sizes are cached."""

_Key = tuple[str, str, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    """The records, bytes and files of a snapshot. `created_millis` is the time of the newest file that was added."""

    records: int
    bytes: int
    files: int
    created_millis: int


class TableSizes:
    """The sizes of the snapshots of tables. Safe for many threads."""

    def __init__(self, snapshots_max: int = SNAPSHOTS_MAX) -> None:
        self._snapshots_max = snapshots_max
        self._guard = threading.Lock()
        self._known: OrderedDict[_Key, TableSize] = OrderedDict()

    def of(self, store: FileStore, snapshot: Snapshot) -> TableSize:
        """Return the size of a snapshot. Raises CorruptFileError, StorageAccessError."""
        known = self._find(store, snapshot)
        if known is None:
            base = self._base(store, snapshot)
            known = _whole(store, snapshot) if base is None else _after(base, store, snapshot)
            with self._guard:
                self._known[_key(store, snapshot)] = known
                while len(self._known) > self._snapshots_max:
                    self._known.popitem(last=False)
        return known

    def _find(self, store: FileStore, snapshot: Snapshot) -> TableSize | None:
        key = _key(store, snapshot)
        with self._guard:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def _base(self, store: FileStore, snapshot: Snapshot) -> TableSize | None:
        try:
            return self._find(store, store.snapshots.stored(snapshot.id - 1))
        except SnapshotNotFoundError:
            return None


def _key(store: FileStore, snapshot: Snapshot) -> _Key:
    return store.location, store.paths.branch, snapshot.id, snapshot.delta_manifest_list


def _whole(store: FileStore, snapshot: Snapshot) -> TableSize:
    sums = partition_sums(store, snapshot).values()
    return TableSize(
        records=sum(each.records for each in sums),
        bytes=sum(each.bytes for each in sums),
        files=sum(each.files for each in sums),
        created_millis=max((epoch_millis(each.created_millis) for each in sums), default=0),
    )


def _after(base: TableSize, store: FileStore, snapshot: Snapshot) -> TableSize:
    reader = ManifestReader(store.file_io, store.paths)
    records, size, files, newest = base.records, base.bytes, base.files, base.created_millis
    for entry in reader.entries(reader.delta(snapshot)):
        sign = 1 if entry.kind is FileKind.ADD else -1
        records += sign * entry.file.row_count
        size += sign * entry.file.file_size
        files += sign
        if sign == 1:
            newest = max(newest, epoch_millis(entry.file.creation_time_millis))
    return TableSize(records=records, bytes=size, files=files, created_millis=newest)


EARLIEST, LATEST = "EARLIEST", "LATEST"


class SnapshotRoutes:
    """The routes of snapshots."""

    def __init__(self, access: CatalogAccess) -> None:
        self._access = access
        self._sizes = TableSizes()

    def routes(self) -> list[RestRoute]:
        """Return the routes of snapshots."""
        select, insert, alter = Privilege.SELECT, Privilege.INSERT, Privilege.ALTER
        snapshots, table = f"{TABLE}/snapshots", ObjectKind.TABLE
        return [
            paimon_route("GET", f"{TABLE}/snapshot", "getTableSnapshot", select, table, self._latest),
            paimon_route("GET", snapshots, "listSnapshots", select, table, self._list),
            paimon_route("GET", f"{snapshots}/{{version}}", "getVersionSnapshot", select, table, self._version),
            paimon_route("POST", f"{TABLE}/commit", "commitTable", insert, table, self._commit),
            paimon_route("POST", f"{TABLE}/rollback", "rollbackTable", alter, table, self._rollback),
        ]

    def _latest(self, request: RestRequest) -> RestResponse:
        table = opened(self._access.catalog(request), table_name(request))
        found = table.latest_snapshot()
        if found is None:
            raise _no_snapshot(LATEST, table)
        size = self._sizes.of(table.store, found)
        answer = TableSnapshotResponse(
            snapshot=snapshot_json(found),
            record_count=size.records,
            file_size_in_bytes=size.bytes,
            file_count=size.files,
            last_file_creation_time=size.created_millis,
        )
        return json_response({"snapshot": answer})

    def _list(self, request: RestRequest) -> RestResponse:
        store = opened(self._access.catalog(request), table_name(request)).store
        after, longest = request.query.get("pageToken", ""), page_length(request.query.get("maxResults"))
        if after and not after.isdecimal():
            raise invalid(f"{after!r} is no token of a page of snapshots.")
        ids = [number for number in store.snapshots.ids() if number > int(after or 0)][:longest]
        found: list[Snapshot] = []
        for number in ids:
            try:
                found.append(store.snapshots.stored(number))
            except SnapshotNotFoundError:
                # It has expired since.
                continue
        token = str(ids[-1]) if len(ids) == longest else None
        return json_response({"snapshots": [snapshot_json(each) for each in found], "nextPageToken": token})

    def _version(self, request: RestRequest) -> RestResponse:
        table, version = opened(self._access.catalog(request), table_name(request)), request.parts["version"]
        found = _named(table.store, version)
        if found is None:
            raise _no_snapshot(version, table)
        return json_response({"snapshot": snapshot_json(found)})

    def _commit(self, request: RestRequest) -> RestResponse:
        given, name = request.json(CommitRequest), table_name(request)
        with self._access.changing(request) as catalog:
            table = opened(catalog, name)
            _check_id(catalog, name, given.table_id)
            new = given_snapshot(bytes(given.snapshot))
            # All that the commit does after its snapshot needs no more than this.
            self._access.require(request, name, Privilege.SELECT)
            self._access.require(request, name, *_needed_by(new))
            has_base = given.base_snapshot_uuid is None or isinstance(given.base_snapshot_uuid, str)
            base = given.base_snapshot_uuid if isinstance(given.base_snapshot_uuid, str) else None
            success = commit(table.store, new, base_uuid=base, has_base=has_base)
            emptied = [each.spec for each in given.statistics or () if each.file_count < 0 and each.spec]
            if success and emptied and name.branch is None:
                # A server that is killed before leaves entries of partitions without rows.
                catalog.unregister_partitions(name.identifier, emptied, only_empty=True)
        return json_response({"success": success})

    def _rollback(self, request: RestRequest) -> RestResponse:
        given = request.json(RollbackRequest)
        with self._access.changing(request) as catalog:
            table = opened(catalog, table_name(request))
            target = _target(given)
            if given.from_snapshot is not None:
                latest = table.latest_snapshot()
                if latest is None or latest.id != given.from_snapshot:
                    newest = None if latest is None else latest.id
                    raise RestError(
                        HTTPStatus.INTERNAL_SERVER_ERROR, "", f"Latest snapshot {newest} is not {given.from_snapshot}"
                    )
            try:
                table.versions.rollback_to(target)
            except SnapshotNotFoundError as error:
                raise missing(ResourceType.SNAPSHOT, str(target), str(error)) from error
            except TagNotFoundError as error:
                raise missing(ResourceType.TAG, str(target), str(error)) from error
        return RestResponse()


def _needed_by(new: Snapshot) -> tuple[Privilege, ...]:
    """Return the privileges of which a commit needs one."""
    if new.commit_kind is CommitKind.OVERWRITE:
        return (Privilege.DELETE, Privilege.ALTER)
    return (*WRITE, Privilege.ALTER)


def _named(store: FileStore, version: str) -> Snapshot | None:
    """Return the snapshot of an id, a tag, EARLIEST or LATEST; None without one."""
    try:
        if version == LATEST:
            return store.snapshots.latest()
        if version == EARLIEST:
            earliest = store.snapshots.earliest_id()
            return None if earliest is None else store.snapshots.stored(earliest)
        if version.isascii() and version.isdecimal():
            return store.snapshots.stored(int(version))
        return TagManager(store.file_io, store.paths).get(version).snapshot
    except (SnapshotNotFoundError, TagNotFoundError):
        return None


def _target(given: RollbackRequest) -> int | str:
    """Return the snapshot or the tag of a rollback. RestError with status 400 without one."""
    instant = given.instant
    if instant.type == "snapshot" and instant.snapshot_id is not None:
        return instant.snapshot_id
    if instant.type == "tag" and instant.tag_name is not None:
        return instant.tag_name
    raise invalid("A rollback names a snapshot by snapshotId, or a tag by tagName.")


def _check_id(catalog: ServedCatalog, name: TableName, given: str) -> None:
    """Raise TableNotFoundError if the table is another one than the client has opened: it was dropped and recreated."""
    if catalog.table_id(name.identifier) != given.lower():
        raise TableNotFoundError(f"The table '{name.of_table}' was dropped and recreated; its id is not {given}.")


def _no_snapshot(version: str, table: Table) -> RestError:
    return missing(ResourceType.SNAPSHOT, version, f"The table '{table.name}' has no snapshot {version}.")
