"""Versions of an interbed table by its files, for the page of them: snapshots, tags and branches.

They are read by the catalog that Paimon's REST interface serves, with its checks and its limits of time. This module
loads Arrow, so that it is imported by the first page of versions.
"""

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from interbed.catalog.server.rest.interface import RestRequest
from interbed.catalog.server.rest.paimon.access import CatalogAccess, table_name
from interbed.catalog.server.rest.paimon.refusals import refusal
from interbed.catalog.server.rest.paimon.tables import opened
from interbed.catalog.server.service.errors import AccessDeniedError, AccessUnavailableError
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.edge.dispatch import Dispatcher
from interbed.storage.base.errors import InterbedError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.snapshot.tag import TagManager

logger = logging.getLogger(__name__)

SNAPSHOTS_MAX = 50
"""Snapshots of a page, each of which is a file."""

TAGS_MAX = 100
"""Tags of a page, each of which is a file."""

_OF_THE_CALLER = (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSnapshot:
    """A snapshot on the page of versions; `seconds` since the epoch."""

    id: int
    kind: str
    seconds: float
    rows: int
    added_rows: int
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTag:
    """A tag on the page of versions; None for what its file does not say, or cannot be read."""

    name: str
    snapshot_id: int | None
    rows: int | None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownVersions:
    """The versions of a table. `before` is the id that the next page of snapshots ends before, None on the last one.
    `problem` says why the server cannot read them.
    """

    snapshots: tuple[ShownSnapshot, ...] = ()
    before: int | None = None
    tags: tuple[ShownTag, ...] = ()
    further_tags: int = 0
    branches: tuple[str, ...] = ()
    problem: str = ""


class VersionReader:
    """Reads the versions of the tables of a metastore."""

    def __init__(self, metastore: Metastore, dispatcher: Dispatcher) -> None:
        self._access = CatalogAccess(metastore, dispatcher)

    def read(self, request: RestRequest, before: int | None) -> ShownVersions:
        """Return the versions of a request's table, with the snapshots before one. RestError for a table that the
        caller may not see.
        """
        try:
            table = opened(self._access.catalog(request), table_name(request))
            branches: Callable[[], list[str]] = table.versions.branches
            return _versions(table.store, branches, before)
        except (InterbedError, AccessDeniedError, AccessUnavailableError, OSError) as error:
            refused = refusal(error, request.parts)
            if refused is None:
                # A damaged file, for instance: the other pages of the table do not need it.
                logger.warning("the versions of %s cannot be read: %s", table_name(request), error)
                return ShownVersions(problem=str(error))
            if refused.status in _OF_THE_CALLER:
                raise refused from error
            return ShownVersions(problem=str(refused))


def _versions(store: FileStore, branches: Callable[[], list[str]], before: int | None) -> ShownVersions:
    newest = None if before is None else before - 1
    snapshots = [] if newest == 0 else list(itertools.islice(store.snapshots.descending(newest), SNAPSHOTS_MAX + 1))
    tags = TagManager(store.file_io, store.paths)
    names = sorted(tags.names())
    shown = snapshots[:SNAPSHOTS_MAX]
    return ShownVersions(
        snapshots=tuple(
            ShownSnapshot(
                id=each.id,
                kind=str(each.operation or each.commit_kind.value).lower(),
                seconds=each.time_millis / 1000,
                rows=each.total_record_count,
                added_rows=each.delta_record_count,
                user=each.commit_user,
            )
            for each in shown
        ),
        before=shown[-1].id if len(snapshots) > SNAPSHOTS_MAX else None,
        tags=tuple(_tag(tags, name) for name in names[:TAGS_MAX]),
        further_tags=max(0, len(names) - TAGS_MAX),
        branches=tuple(sorted(branches())),
    )


def _tag(tags: TagManager, name: str) -> ShownTag:
    try:
        found = tags.find(name)
    except InterbedError as error:
        return ShownTag(name=name, snapshot_id=None, rows=None, problem=str(error))
    if found is None:
        return ShownTag(name=name, snapshot_id=None, rows=None, problem="It was deleted meanwhile.")
    return ShownTag(name=name, snapshot_id=found.id, rows=found.snapshot.total_record_count)
