"""Tables: list, create, register, unregister, load, rename, drop, and commits to one or several of them; and views.

A registration of a metadata file over an existing table makes its entry name this file. The swap is the only change.
Before it the table is the old one, after it that of the file. The files of the old table stay, as after a drop without
purge.

Views: list, create, load, replace, rename and drop. Their entries are those of Iceberg's HiveCatalog: of the type
VIRTUAL_VIEW, with the SQL text of the dialect `hive`, or of the first one.
"""

import hashlib
import logging
from http import HTTPStatus
from typing import Any

import msgspec

from interbed.catalog.server.rest.endpoint import retries_of
from interbed.catalog.server.rest.iceberg.commits import BACKOFF, TableCommit, TableCommitter, check_not_published
from interbed.catalog.server.rest.iceberg.entries import (
    LOCATION,
    TABLE,
    VIEW,
    changed_entry,
    is_own,
    kind_of,
    new_view_entry,
    uuid_of,
)
from interbed.catalog.server.rest.iceberg.metadata.documents import completed, new_table, written
from interbed.catalog.server.rest.iceberg.metadata.parts import with_referenced_snapshots
from interbed.catalog.server.rest.iceberg.metadata.schemas import Document, InvalidMetadataError
from interbed.catalog.server.rest.iceberg.metadata.updates import (
    AssertViewUuid,
    TableRequirement,
    TableUpdate,
    ViewUpdate,
)
from interbed.catalog.server.rest.iceberg.metadata.views import new_view, registered_view
from interbed.catalog.server.rest.iceberg.names import (
    IcebergIdentifier,
    IcebergName,
    bad_request,
    catalog_of,
    levels_of,
    no_table,
    page_of,
)
from interbed.catalog.server.rest.iceberg.store import (
    StoredTable,
    TableStore,
    codec_of,
    folder_of,
    now_ms,
    pointer_change,
)
from interbed.catalog.server.rest.interface import FOUND, NO_CONTENT, RestRequest, RestResponse, json_response
from interbed.catalog.server.service.errors import MetastoreError, NoSuchObjectError
from interbed.catalog.server.service.model import MetastoreTable
from interbed.catalog.server.service.names import shortened
from interbed.catalog.server.service.tables.pointers import PointerMovedError, TableLockedError

logger = logging.getLogger(__name__)


def register_over(store: TableStore, name: IcebergName, location: str, user: str | None) -> None:
    """Register a metadata file, over the table of that name if there is one.

    RestError with status 409 for a name of another kind of table or of a view, 403 for a table that is only read here.
    InvalidMetadataError; PointerMovedError or TableLockedError after repeated conflicts: nothing was changed.
    """
    retries = retries_of(BACKOFF, f"the registration of {name}", logger)
    while True:
        try:
            entry = store.entry(name)
            if entry is None or kind_of(entry) != TABLE:
                store.register(name, location, user)
            else:
                _replace(store, name, entry, location, user)
        except (PointerMovedError, TableLockedError, NoSuchObjectError) as error:
            # The table may have been dropped since it was found.
            if not retries.pause(error):
                raise
        else:
            return


def _replace(store: TableStore, name: IcebergName, entry: MetastoreTable, location: str, user: str | None) -> None:
    document = store.registrable(name, location)
    known = entry.parameters[LOCATION]
    before = _document(store, known)
    check_not_published(name, before)

    def change(old: MetastoreTable) -> MetastoreTable:
        return changed_entry(old, before, document, location, known)

    store.metastore.pointers.swap([pointer_change(name, known, change)], user or "")


def _document(store: TableStore, location: str) -> Document:
    """Return the metadata of the replaced table; without its file, which may be why it is replaced, an empty one."""
    try:
        return completed(store.files.read(location).document())
    except (MetastoreError, InvalidMetadataError) as error:
        logger.warning("replacing a table whose metadata cannot be read: %s", error)
        return {"properties": {}, "snapshots": []}


_REPORT_CHARACTERS_MAX = 2000

UNREGISTER = "unregisterTable"
"""The operation that removes a table and keeps its files."""


class CreateTableRequest(msgspec.Struct, frozen=True, rename="kebab"):
    """Body of the operation createTable."""

    name: str
    schema: dict[str, Any]
    location: str | None = None
    partition_spec: dict[str, Any] | None = None
    write_order: dict[str, Any] | None = None
    stage_create: bool | None = None
    properties: dict[str, str] | None = None


class RegisterTableRequest(msgspec.Struct, frozen=True, rename="kebab"):
    """Body of the operation registerTable."""

    name: str
    metadata_location: str
    overwrite: bool | None = None


class CommitTableRequest(msgspec.Struct, frozen=True):
    """Body of updateTable, and a change of commitTransaction."""

    requirements: list[TableRequirement]
    updates: list[TableUpdate]
    identifier: IcebergIdentifier | None = None


class CommitTransactionRequest(msgspec.Struct, frozen=True, rename="kebab"):
    """Body of the operation commitTransaction."""

    table_changes: list[CommitTableRequest]


class RenameRequest(msgspec.Struct, frozen=True):
    """Body of renameTable and renameView."""

    source: IcebergIdentifier
    destination: IcebergIdentifier


class IcebergTableHandler:
    """The operations about tables."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._committer = TableCommitter(store)

    def list(self, request: RestRequest) -> RestResponse:
        """Answer listTables: the Iceberg tables of a namespace, and interbed's own ones."""
        return listed(self._store, request, TABLE)

    def create(self, request: RestRequest) -> RestResponse:
        """Answer createTable. A staged table has metadata and no entry: its commit creates it."""
        body = request.json(CreateTableRequest)
        name = self._store.mapping.named(request, body.name)
        location = self._store.free_place(name, body.location)
        document = new_table(
            body.schema, body.partition_spec, body.write_order, location, body.properties or {}, now_ms()
        )
        if body.stage_create:
            self._store.check_place(name, document)
            return json_response({"metadata": written(document), "config": {}})
        return _loaded(self._store.create(name, document, request.session.user))

    def register(self, request: RestRequest) -> RestResponse:
        """Answer registerTable; with `overwrite` also over an existing table."""
        body = request.json(RegisterTableRequest)
        name = self._store.mapping.named(request, body.name)
        register = register_over if body.overwrite else TableStore.register
        register(self._store, name, body.metadata_location, request.session.user)
        return _loaded(self._store.load(name))

    def load(self, request: RestRequest) -> RestResponse:
        """Answer loadTable, with status 304 if the client has this metadata already."""
        name, mode = self._store.mapping.table_of(request), request.query.get("snapshots") or "all"
        if mode not in ("all", "refs"):
            raise bad_request(f"Invalid snapshot mode: {shortened(mode)}")
        entry = self._store.readable(name)
        if is_own(self._store.own, entry):
            own = self._store.own.load(request, name, uuid_of(entry))
            tag = entity_tag(own.content, mode)
            return _not_modified(request, tag) or _loaded_table(own.content, own.location, tag, mode)
        tag = entity_tag(entry.parameters[LOCATION].encode(), mode)
        return _not_modified(request, tag, lasting=True) or _loaded(self._store.load(name, entry=entry), mode)

    def exists(self, request: RestRequest) -> RestResponse:
        """Answer the operation tableExists."""
        self._store.readable(self._store.mapping.table_of(request))
        return FOUND

    def drop(self, request: RestRequest) -> RestResponse:
        """Answer dropTable. The files are kept, unless the client asks for their deletion and no property forbids it:
        then the directory of the table is deleted, if the server's rules for deletions allow it.
        """
        name = self._store.mapping.table_of(request)
        purge = request.query.get("purgeRequested", "false").lower() == "true"
        entry = self._store.drop(name)
        if not purge:
            return NO_CONTENT
        if entry.parameters.get("external.table.purge", "true").lower() == "false":
            logger.info("the files of %s are kept, because its property gc.enabled is false", name)
        elif entry.location is not None:
            self._store.metastore.pointers.discard(entry.location)
        return NO_CONTENT

    def unregister(self, request: RestRequest) -> RestResponse:
        """Answer unregisterTable: the entry is removed, all files are kept, and the answer has the last metadata.

        They are read before. An entry that names another file by then is not removed, and read again.
        """
        name = self._store.mapping.table_of(request)
        retries = retries_of(BACKOFF, f"the removal of {name} from the catalog", logger)
        while True:
            found = self._store.load(name)
            try:
                self._store.metastore.pointers.withdraw(
                    name.catalog, name.database, name.table, LOCATION, found.location
                )
            except PointerMovedError as error:
                if not retries.pause(error):
                    raise
            except NoSuchObjectError as error:
                raise no_table(name) from error
            else:
                return _last_metadata(found.location, found.content.json)

    def unregistered(self, request: RestRequest) -> RestResponse:
        """Answer unregisterTable again: with the metadata that the table had when it was removed."""
        name = self._store.mapping.table_of(request)
        pointers = self._store.metastore.pointers
        location = pointers.withdrawn(name.catalog, name.database, name.table, LOCATION, UNREGISTER)
        if location is None:
            raise no_table(name)
        return _last_metadata(location, self._store.files.read(location).json)

    def rename(self, request: RestRequest) -> RestResponse:
        """Answer the operation renameTable."""
        body = request.json(RenameRequest)
        mapping = self._store.mapping
        source, target = mapping.identified(request, body.source), mapping.identified(request, body.destination)
        renamed(self._store, source, target, TABLE)
        return NO_CONTENT

    def commit(self, request: RestRequest) -> RestResponse:
        """Answer the operation updateTable."""
        body = request.json(CommitTableRequest)
        name = self._store.mapping.table_of(request)
        commit = TableCommit(name=name, requirements=body.requirements, updates=body.updates)
        (location,) = self._committer.commit([commit], request.session.user)
        metadata, tag = msgspec.Raw(self._store.files.read(location).json), entity_tag(location.encode(), "all")
        return json_response({"metadata-location": location, "metadata": metadata}, headers={"etag": tag})

    def commit_all(self, request: RestRequest) -> RestResponse:
        """Answer commitTransaction: all changes in one transaction of the database."""
        body = request.json(CommitTransactionRequest)
        commits = []
        for change in body.table_changes:
            if change.identifier is None:
                raise bad_request("A change of the transaction has no identifier of its table")
            name = self._store.mapping.identified(request, change.identifier)
            commits.append(TableCommit(name=name, requirements=change.requirements, updates=change.updates))
        if commits:
            self._committer.commit(commits, request.session.user)
        return NO_CONTENT

    def credentials(self, request: RestRequest) -> RestResponse:
        """Answer loadCredentials: the server has none for clients."""
        self._store.readable(self._store.mapping.table_of(request))
        return json_response({"storage-credentials": []})

    def report(self, request: RestRequest) -> RestResponse:
        """Answer reportMetrics: the report goes to the server's log."""
        name = self._store.mapping.table_of(request)
        body = request.json(dict[str, Any])
        shown = msgspec.json.encode(_figures(body)).decode()[:_REPORT_CHARACTERS_MAX]
        logger.debug("metrics of %s: %s", name, shown)
        return NO_CONTENT


def _last_metadata(location: str, content: bytes) -> RestResponse:
    return json_response({"metadata-location": location, "metadata": msgspec.Raw(content)})


def _figures(report: Document) -> Document:
    return {key: report[key] for key in ("report-type", "snapshot-id", "operation", "metrics") if key in report}


def entity_tag(state: bytes, mode: str) -> str:
    """Return the ETag of metadata: by the location of a file, which never changes, or by their JSON."""
    return f'"{hashlib.sha256(mode.encode() + b" " + state).hexdigest()[:32]}"'


def _not_modified(request: RestRequest, tag: str, *, lasting: bool = False) -> RestResponse | None:
    """Return the response with status 304 if the request's If-None-Match names the entity tag."""
    wanted = request.headers.get("if-none-match")
    if wanted is None:
        return None
    if wanted.strip() != "*" and tag not in [each.strip().removeprefix("W/") for each in wanted.split(",")]:
        return None
    return RestResponse(status=HTTPStatus.NOT_MODIFIED, headers={"etag": tag}, lasting=lasting)


def _loaded(found: StoredTable, mode: str = "all") -> RestResponse:
    tag = entity_tag(found.location.encode(), mode)
    # A metadata file never changes.
    return _loaded_table(found.content.json, found.location, tag, mode, lasting=True)


def _loaded_table(content: bytes, location: str | None, tag: str, mode: str, *, lasting: bool = False) -> RestResponse:
    """Return the response of loadTable; `mode` is that of the snapshots."""
    metadata: object = msgspec.Raw(content)
    if mode == "refs":
        metadata = written(with_referenced_snapshots(completed(msgspec.json.decode(content))))
    known = {} if location is None else {"metadata-location": location}
    response = {**known, "metadata": metadata, "config": {}}
    return json_response(response, headers={"etag": tag}, lasting=lasting)


def listed(store: TableStore, request: RestRequest, kind: str) -> RestResponse:
    """Return a page of the tables or views of a namespace."""
    levels = levels_of(request.parts["namespace"])
    after, size = page_of(request.query)
    found = store.names(catalog_of(request), levels, kind, after, None if size is None else size + 1)
    token = None
    if size is not None and len(found) > size:
        found = found[:size]
        token = found[-1]
    identifiers = [{"namespace": list(levels), "name": name} for name in found]
    # An empty list may be that of a namespace without a database, which ends with those below it.
    return json_response({"identifiers": identifiers, "next-page-token": token}, lasting=bool(identifiers))


def renamed(store: TableStore, source: IcebergName, target: IcebergName, kind: str) -> None:
    """Rename a table or view; again if another client changes it meanwhile."""
    retries = retries_of(BACKOFF, f"the rename of {source}", logger)
    while True:
        try:
            store.rename(source, target, kind)
        except (PointerMovedError, TableLockedError) as error:
            if not retries.pause(error):
                raise
        else:
            return


class CreateViewRequest(msgspec.Struct, frozen=True, rename="kebab"):
    """Body of the operation createView."""

    name: str
    schema: dict[str, Any]
    view_version: dict[str, Any]
    location: str | None = None
    properties: dict[str, str] | None = None


class CommitViewRequest(msgspec.Struct, frozen=True):
    """Body of the operation replaceView."""

    updates: list[ViewUpdate]
    requirements: list[AssertViewUuid] = []
    identifier: IcebergIdentifier | None = None


class RegisterViewRequest(msgspec.Struct, frozen=True, rename="kebab"):
    """Body of the operation registerView."""

    name: str
    metadata_location: str


class ViewHandler:
    """The operations about views."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._committer = TableCommitter(store)

    def list(self, request: RestRequest) -> RestResponse:
        """Answer the operation listViews."""
        return listed(self._store, request, VIEW)

    def create(self, request: RestRequest) -> RestResponse:
        """Answer the operation createView."""
        body = request.json(CreateViewRequest)
        name = self._store.mapping.named(request, body.name)
        location = self._store.free_place(name, body.location, VIEW)
        document = new_view(body.schema, body.view_version, location, body.properties or {}, now_ms())
        self._store.check_place(name, document)
        file = self._store.files.write(folder_of(document), 0, document, codec_of(document))
        owner = request.session.user
        entry = new_view_entry(name.catalog, name.database, name.table, document, file, owner)
        self._store.add(name, entry, [file], VIEW)
        return self._loaded(name)

    def register(self, request: RestRequest) -> RestResponse:
        """Answer the operation registerView."""
        body = request.json(RegisterViewRequest)
        name = self._store.mapping.named(request, body.name)
        self._store.check_free(name, VIEW)
        document = registered_view(self._store.client_file(name, body.metadata_location).document())
        location, owner = body.metadata_location, request.session.user
        entry = new_view_entry(name.catalog, name.database, name.table, document, location, owner)
        self._store.add(name, entry, (), VIEW)
        return self._loaded(name)

    def load(self, request: RestRequest) -> RestResponse:
        """Answer the operation loadView."""
        return self._loaded(self._store.mapping.table_of(request, "view"))

    def _loaded(self, name: IcebergName) -> RestResponse:
        found = self._store.load(name, VIEW)
        metadata = msgspec.Raw(found.content.json)
        return json_response({"metadata-location": found.location, "metadata": metadata, "config": {}}, lasting=True)

    def exists(self, request: RestRequest) -> RestResponse:
        """Answer the operation viewExists."""
        self._store.found(self._store.mapping.table_of(request, "view"), VIEW)
        return FOUND

    def replace(self, request: RestRequest) -> RestResponse:
        """Answer the operation replaceView."""
        body = request.json(CommitViewRequest)
        name = self._store.mapping.table_of(request, "view")
        commit = TableCommit(name=name, requirements=body.requirements, updates=body.updates, kind=VIEW)
        self._committer.commit([commit], request.session.user)
        return self._loaded(name)

    def drop(self, request: RestRequest) -> RestResponse:
        """Answer the operation dropView."""
        self._store.drop(self._store.mapping.table_of(request, "view"), VIEW)
        return NO_CONTENT

    def rename(self, request: RestRequest) -> RestResponse:
        """Answer the operation renameView."""
        body = request.json(RenameRequest)
        mapping = self._store.mapping
        source, target = mapping.identified(request, body.source), mapping.identified(request, body.destination)
        renamed(self._store, source, target, VIEW)
        return NO_CONTENT
