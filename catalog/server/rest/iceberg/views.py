"""Views: list, create, load, replace, rename and drop. Their entries are those of Iceberg's HiveCatalog: of the type
VIRTUAL_VIEW, with the SQL text of the dialect `hive`, or of the first one.
"""

from typing import Any

import msgspec

from interbed.catalog.server.rest.iceberg.commits import TableCommit, TableCommitter
from interbed.catalog.server.rest.iceberg.entries import VIEW, new_view_entry
from interbed.catalog.server.rest.iceberg.files import codec_of, folder_of
from interbed.catalog.server.rest.iceberg.metadata.updates import AssertViewUuid, ViewUpdate
from interbed.catalog.server.rest.iceberg.metadata.views import new_view, registered_view
from interbed.catalog.server.rest.iceberg.names import (
    IcebergIdentifier,
    IcebergName,
)
from interbed.catalog.server.rest.iceberg.store import TableStore, now_ms
from interbed.catalog.server.rest.iceberg.tables import RenameRequest, listed, renamed
from interbed.catalog.server.rest.interface import FOUND, NO_CONTENT, RestRequest, RestResponse, json_response


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
        database = self._store.check_free(name, VIEW)
        pointers = self._store.metastore.pointers
        location = (body.location or "").rstrip("/") or pointers.free_location(database, name.table)
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
