"""Snapshots of tables: the newest one, one by name, all of them; commits and rollbacks."""

from http import HTTPStatus

from interbed.catalog.client.errors import TableNotFoundError
from interbed.catalog.client.identifier import TableName
from interbed.catalog.server.rest.interface import (
    ObjectKind,
    RestError,
    RestRequest,
    RestResponse,
    RestRoute,
    json_response,
)
from interbed.catalog.server.rest.paimon.access import CatalogAccess, table_name
from interbed.catalog.server.rest.paimon.catalogs.served import ServedCatalog
from interbed.catalog.server.rest.paimon.commits import commit, given_snapshot
from interbed.catalog.server.rest.paimon.messages import (
    CommitRequest,
    RollbackRequest,
    TableSnapshotResponse,
    snapshot_json,
)
from interbed.catalog.server.rest.paimon.paging import page_length
from interbed.catalog.server.rest.paimon.refusals import ResourceType, invalid, missing, paimon_route
from interbed.catalog.server.rest.paimon.sizes import TableSizes
from interbed.catalog.server.rest.paimon.tables import TABLE, opened
from interbed.catalog.server.service.access.guard import WRITE
from interbed.catalog.server.service.access.objects import Privilege
from interbed.storage.base.errors import SnapshotNotFoundError, TagNotFoundError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.snapshot.snapshot import CommitKind, Snapshot
from interbed.storage.meta.snapshot.tag import TagManager
from interbed.storage.table.table import Table

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
