"""Commits: the requirements and updates of clients, applied to the newest metadata by compare-and-swap.

A commit reads the entry, checks the requirements against its metadata, writes the next metadata files exclusively, and
then swaps the entries in one transaction of the database. After a kill before the swap there are files that no entry
names, and the tables are as before; after a kill in or behind it the commit is complete. If another commit came first,
the updates are applied again to the newest metadata, as long as the requirements hold. If the outcome of the
transaction is not known, nothing is deleted.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from interbed.catalog.server.rest.endpoint import retries_of
from interbed.catalog.server.rest.iceberg.entries import (
    TABLE,
    VIEW,
    changed_entry,
    changed_view_entry,
    names_by_ids,
    new_entry,
)
from interbed.catalog.server.rest.iceberg.metadata.builder import created, updated
from interbed.catalog.server.rest.iceberg.metadata.documents import written
from interbed.catalog.server.rest.iceberg.metadata.parts import current_snapshot, files_to_delete
from interbed.catalog.server.rest.iceberg.metadata.schemas import Document
from interbed.catalog.server.rest.iceberg.metadata.updates import (
    AddSnapshot,
    AssertCreate,
    AssignUuid,
    CommitRequirement,
    RemovePartitionStatistics,
    RemoveStatistics,
    RequirementFailedError,
    SetPartitionStatistics,
    SetSnapshotRef,
    SetStatistics,
    Update,
    check_requirements,
)
from interbed.catalog.server.rest.iceberg.metadata.views import completed_view, updated_view
from interbed.catalog.server.rest.iceberg.names import IcebergName, bad_request, no_table, no_view, read_only
from interbed.catalog.server.rest.iceberg.removals import check_removed
from interbed.catalog.server.rest.iceberg.store import (
    StoredTable,
    TableStore,
    codec_of,
    folder_of,
    next_version,
    now_ms,
    pointer_change,
)
from interbed.catalog.server.rest.interface import RestError
from interbed.catalog.server.service.access.guard import AnyOf
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.access.places import CheckedPlace
from interbed.catalog.server.service.errors import (
    AlreadyExistsError,
    MetastoreError,
    NoSuchObjectError,
    OutcomeUnknownError,
)
from interbed.catalog.server.service.model import MetastoreTable
from interbed.catalog.server.service.tables.pointers import PointerChange, PointerMovedError, TableLockedError
from interbed.storage.base.backoff import ExponentialBackoff

logger = logging.getLogger(__name__)

BACKOFF = ExponentialBackoff(first_seconds=0.02, longest_seconds=1.0, timeout_seconds=15.0)

_OF_WRITERS = (
    AddSnapshot,
    AssignUuid,
    RemovePartitionStatistics,
    RemoveStatistics,
    SetPartitionStatistics,
    SetStatistics,
)

_PUBLISHED = "paimon-commit-identity"
"""The entry of a summary that marks snapshots of a table in Paimon's format: its next commit replaces the metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """The commit of a client to one table, or to a view if that is the `kind`."""

    name: IcebergName
    requirements: Sequence[CommitRequirement]
    updates: Sequence[Update]
    kind: str = TABLE

    @property
    def creates(self) -> bool:
        """Whether the commit creates the table."""
        return any(isinstance(each, AssertCreate) for each in self.requirements)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TableAttempt:
    """A commit applied to the metadata of the table as it was loaded; `made` is None if nothing changes.

    Without a `base` the commit creates the table.
    """

    name: IcebergName
    base: StoredTable | None
    before: Document
    made: Document | None
    kind: str
    any_of: AnyOf = (Privilege.ALTER,)
    places: Sequence[CheckedPlace] = ()


class TableCommitter:
    """Commits to the tables of a store. Safe for many threads."""

    def __init__(self, store: TableStore, backoff: ExponentialBackoff = BACKOFF) -> None:
        self._store = store
        self._backoff = backoff

    def commit(self, commits: Sequence[TableCommit], user: str | None) -> list[str]:
        """Carry out commits to one or more tables, all or none; return the location of each table's metadata file.

        RestError with status 404 for a missing table, 409 for one that is created and exists. RequirementFailedError,
        OutdatedSnapshotError, InvalidMetadataError; PointerMovedError or TableLockedError after repeated conflicts:
        nothing was changed. OutcomeUnknownError if it is not known.
        """
        if len({(each.name.database, each.name.table) for each in commits}) != len(commits):
            raise bad_request("A transaction names a table twice: send all updates of a table in one change")
        retries = retries_of(self._backoff, f"the commit to {', '.join(str(each.name) for each in commits)}", logger)
        while True:
            attempts = [self._new_table(each) if each.creates else self._attempt(each) for each in commits]
            try:
                return self._publish(attempts, user or "")
            except (PointerMovedError, TableLockedError) as error:
                if not retries.pause(error):
                    raise

    def _new_table(self, commit: TableCommit) -> _TableAttempt:
        """Return the attempt of a commit that creates a table, by the updates of a staged one."""
        entry = self._store.entry(commit.name)
        if entry is not None and not entry.is_view:
            raise RequirementFailedError("Requirement failed: table already exists")
        self._store.check_free(commit.name)
        check_requirements(commit.requirements, None)
        made = created(commit.updates, now_ms())
        self._store.check_place(commit.name, made)
        return _TableAttempt(name=commit.name, base=None, before={}, made=made, kind=commit.kind)

    def _attempt(self, commit: TableCommit) -> _TableAttempt:
        base = self._store.load(commit.name, commit.kind)
        before = completed_view(base.content.document()) if commit.kind == VIEW else base.document()
        check_requirements(commit.requirements, before)
        if commit.kind == VIEW:
            made = updated_view(before, commit.updates, now_ms())
        else:
            check_not_published(commit.name, before, commit.updates)
            made = updated(before, base.location, commit.updates, now_ms())
            if made is not None:
                check_removed(self._store, made, commit.updates)
        if made is not None and made["location"] != before["location"]:
            self._store.metastore.pointers.checked(made["location"])
        chosen: Sequence[CheckedPlace] = ()
        if made is not None:
            places = [[each["location"], folder_of(each)] for each in (before, made)]
            name = commit.name
            chosen = self._store.metastore.pointers.check_moved(name.catalog, name.database, name.table, *places)
        return _TableAttempt(
            name=commit.name,
            base=base,
            before=before,
            made=made,
            kind=commit.kind,
            any_of=needed_by(commit.updates),
            places=chosen,
        )

    def _publish(self, attempts: Sequence[_TableAttempt], user: str) -> list[str]:
        locations: list[str] = []
        new: list[str] = []
        changes = []
        entries = []
        try:
            for each in attempts:
                if each.made is None:
                    assert each.base is not None
                    locations.append(each.base.location)
                    continue
                location = self._write(each, each.made)
                new.append(location)
                locations.append(location)
                if each.base is None:
                    entries.append(_entry(each.name, each.made, location, user))
                else:
                    changes.append(_swap(each, each.base, each.made, location))
            self._store.swap(changes, entries, user)
        except OutcomeUnknownError:
            raise
        except MetastoreError as error:
            self._store.files.delete(new)
            if isinstance(error, AlreadyExistsError):
                raise RequirementFailedError("Requirement failed: table already exists") from error
            if isinstance(error, NoSuchObjectError):
                raise _dropped(attempts, self._store) from error
            raise
        for each in attempts:
            if each.made is not None and each.base is not None:
                self._store.files.delete_old(each.name, files_to_delete(each.before, each.made))
        return locations

    def _write(self, attempt: _TableAttempt, made: Document) -> str:
        content = made if attempt.kind == VIEW else written(made)
        version = 0 if attempt.base is None else next_version(attempt.base.location)
        return self._store.files.write(folder_of(made), version, content, codec_of(made))


def needed_by(updates: Sequence[Update]) -> AnyOf:
    """Return the privileges of which a commit needs one, besides ALTER, which is enough for each. A commit that adds
    snapshots, with references to them and statistics, is one of a writer.
    """
    added = [each.snapshot for each in updates if isinstance(each, AddSnapshot)]
    numbers = {each.get("snapshot-id") for each in added}
    for each in updates:
        if isinstance(each, SetSnapshotRef) and each.snapshot_id in numbers:
            continue
        if not isinstance(each, _OF_WRITERS):
            return (Privilege.ALTER,)
    if all((each.get("summary") or {}).get("operation", "append") == "append" for each in added):
        return (Privilege.INSERT,)
    return (Privilege.UPDATE, Privilege.DELETE)


def _entry(name: IcebergName, made: Document, location: str, user: str) -> MetastoreTable:
    return new_entry(name.catalog, name.database, name.table, made, location, user or None)


def _swap(attempt: _TableAttempt, base: StoredTable, made: Document, location: str) -> PointerChange:
    def change(entry: MetastoreTable) -> MetastoreTable:
        changed = changed_view_entry if attempt.kind == VIEW else changed_entry
        return changed(entry, attempt.before, made, location, base.location)

    names = None if attempt.kind == VIEW else names_by_ids(attempt.before, made)
    return pointer_change(
        attempt.name,
        base.location,
        change,
        any_of=attempt.any_of,
        column_names=names,
        places=attempt.places,
    )


def _dropped(attempts: Sequence[_TableAttempt], store: TableStore) -> RestError:
    for each in attempts:
        if each.base is None:
            store.database(each.name.catalog, each.name.levels)
    known = [each for each in attempts if each.base is not None] or attempts
    missing = next((each for each in known if store.entry(each.name) is None), known[0])
    return no_view(missing.name) if missing.kind == VIEW else no_table(missing.name)


def check_not_published(name: IcebergName, document: Document, updates: Sequence[Update] = ()) -> None:
    """Raise RestError with status 403 for a change of a published table that is not from its publication."""
    current = current_snapshot(document)
    if current is None or not _is_published(current):
        return
    added = [each.snapshot for each in updates if isinstance(each, AddSnapshot)]
    if not added or not all(map(_is_published, added)):
        raise read_only(name, "commits of a table in Paimon's format write its metadata; change that table")


def _is_published(snapshot: Document) -> bool:
    return (snapshot.get("summary") or {}).get(_PUBLISHED) is not None
