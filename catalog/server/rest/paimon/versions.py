"""Tags, branches and consumers of tables: files of the table, which Paimon's clients of file systems write as well."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from fractions import Fraction

from interbed.catalog.server.rest.interface import (
    ObjectKind,
    RestRequest,
    RestResponse,
    RestRoute,
    json_response,
)
from interbed.catalog.server.rest.paimon.access import CatalogAccess, table_name
from interbed.catalog.server.rest.paimon.messages import (
    CreateBranchRequest,
    CreateTagRequest,
    RenameBranchRequest,
    ResetConsumerRequest,
    TagResponse,
    page,
    snapshot_json,
)
from interbed.catalog.server.rest.paimon.refusals import ResourceType, existing, missing, paimon_route
from interbed.catalog.server.rest.paimon.tables import TABLE, opened
from interbed.catalog.server.service.access.objects import Privilege
from interbed.storage.base.errors import InvalidInputError, SnapshotNotFoundError, TagNotFoundError
from interbed.storage.meta.snapshot.tag import TagManager
from interbed.storage.table.table import Table

TAGS, BRANCHES, CONSUMERS = f"{TABLE}/tags", f"{TABLE}/branches", f"{TABLE}/consumers"


class VersionRoutes:
    """The routes of tags, branches and consumers."""

    def __init__(self, access: CatalogAccess) -> None:
        self._access = access

    def routes(self) -> list[RestRoute]:
        """Return the routes of tags, branches and consumers."""
        select, alter, table = Privilege.SELECT, Privilege.ALTER, ObjectKind.TABLE
        tag, branch = f"{TAGS}/{{tag}}", f"{BRANCHES}/{{branch}}"
        return [
            paimon_route("GET", TAGS, "listTags", select, table, self._list_tags),
            paimon_route("POST", TAGS, "createTag", alter, table, self._create_tag),
            paimon_route("GET", tag, "getTag", select, table, self._get_tag),
            paimon_route("DELETE", tag, "deleteTag", alter, table, self._delete_tag),
            paimon_route("GET", BRANCHES, "listBranches", select, table, self._list_branches),
            paimon_route("POST", BRANCHES, "createBranch", alter, table, self._create_branch),
            paimon_route("DELETE", branch, "dropBranch", alter, table, self._drop_branch),
            paimon_route("POST", f"{branch}/rename", "renameBranch", alter, table, self._rename_branch),
            paimon_route("POST", f"{branch}/forward", "forwardBranch", alter, table, self._forward),
            paimon_route("GET", CONSUMERS, "listConsumers", select, table, self._list_consumers),
            paimon_route("POST", f"{CONSUMERS}/reset", "resetConsumer", alter, table, self._reset_consumer),
        ]

    @contextmanager
    def _changed(self, request: RestRequest) -> Iterator[Table]:
        with self._access.changing(request) as catalog:
            yield opened(catalog, table_name(request))

    def _table(self, request: RestRequest) -> Table:
        return opened(self._access.catalog(request), table_name(request))

    # Tags.

    def _list_tags(self, request: RestRequest) -> RestResponse:
        prefix = request.query.get("tagNamePrefix", "")
        names = [name for name in _tags(self._table(request)).names() if name.startswith(prefix)]
        found, token = page(request, names, str)
        return json_response({"tags": found, "nextPageToken": token})

    def _get_tag(self, request: RestRequest) -> RestResponse:
        tag = _tags(self._table(request)).get(request.parts["tag"])
        answer = TagResponse(
            tag_name=tag.name,
            snapshot=snapshot_json(tag.snapshot),
            tag_create_time=None if tag.created is None else round(tag.created.timestamp() * 1000),
            tag_time_retained=None if tag.retained is None else java_duration(tag.retained),
        )
        return json_response(answer)

    def _create_tag(self, request: RestRequest) -> RestResponse:
        given = request.json(CreateTagRequest)
        with self._changed(request) as table:
            try:
                table.versions.create_tag(
                    given.tag_name,
                    given.snapshot_id,
                    ignore_if_exists=bool(given.ignore_if_exists),
                    time_retained=given.time_retained,
                )
            except SnapshotNotFoundError as error:
                raise missing(ResourceType.SNAPSHOT, str(given.snapshot_id or "LATEST"), str(error)) from error
            except InvalidInputError as error:
                if given.tag_name not in _tags(table).names():
                    raise
                raise existing(ResourceType.TAG, given.tag_name, str(error)) from error
        return RestResponse()

    def _delete_tag(self, request: RestRequest) -> RestResponse:
        with self._changed(request) as table:
            table.versions.delete_tag(request.parts["tag"])
        return RestResponse()

    # Branches.

    def _list_branches(self, request: RestRequest) -> RestResponse:
        return json_response({"branches": sorted(self._table(request).versions.branches())})

    def _create_branch(self, request: RestRequest) -> RestResponse:
        given = request.json(CreateBranchRequest)
        with self._changed(request) as table:
            try:
                table.versions.create_branch(given.branch, given.from_tag)
            except TagNotFoundError as error:
                raise missing(ResourceType.TAG, given.from_tag, str(error)) from error
            except InvalidInputError as error:
                if given.branch not in table.versions.branches():
                    raise
                raise existing(ResourceType.BRANCH, given.branch, str(error)) from error
        return RestResponse()

    def _drop_branch(self, request: RestRequest) -> RestResponse:
        with self._changed(request) as table:
            table.versions.delete_branch(request.parts["branch"])
        return RestResponse()

    def _rename_branch(self, request: RestRequest) -> RestResponse:
        name = request.json(RenameBranchRequest).to_branch
        with self._changed(request) as table:
            try:
                table.versions.rename_branch(request.parts["branch"], name)
            except InvalidInputError as error:
                if name not in table.versions.branches():
                    raise
                raise existing(ResourceType.BRANCH, name, str(error)) from error
        return RestResponse()

    def _forward(self, request: RestRequest) -> RestResponse:
        with self._changed(request) as table:
            table.versions.fast_forward(request.parts["branch"])
        return RestResponse()

    # Consumers.

    def _list_consumers(self, request: RestRequest) -> RestResponse:
        consumers = self._table(request).versions.consumers()
        found, token = page(request, list(consumers), str)
        shown = [{"consumerId": each, "nextSnapshot": consumers[each]} for each in found]
        return json_response({"consumers": shown, "nextPageToken": token})

    def _reset_consumer(self, request: RestRequest) -> RestResponse:
        given = request.json(ResetConsumerRequest)
        with self._changed(request) as table:
            if given.next_snapshot_id is not None:
                table.store.snapshots.stored(given.next_snapshot_id)
            table.versions.reset_consumer(given.consumer_id, given.next_snapshot_id)
        return RestResponse()


def _tags(table: Table) -> TagManager:
    return TagManager(table.store.file_io, table.store.paths)


def java_duration(span: timedelta) -> str:
    """Return a time as the text of Java's Duration, `PT36H0.5S`."""
    hours, rest = divmod(span, timedelta(hours=1))
    minutes, rest = divmod(rest, timedelta(minutes=1))
    seconds = Fraction(rest // timedelta(microseconds=1), 1_000_000)
    parts = [f"{hours}H" if hours else "", f"{minutes}M" if minutes else ""]
    if seconds:
        parts.append(f"{float(seconds):.6f}".rstrip("0").rstrip(".") + "S")
    return f"PT{''.join(parts) or '0S'}"
